//! `hpt run`: a program with real-time settings, the effects of signals and of its end, and
//! restored system settings.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use crate::{
    realtime::{RUNTIME, Throttling, value},
    support::{
        code, copied_for_everybody, hpt, is_root, run, runner, stderr, stdout, unsafe_calls::send, wait_until, words,
        write_program,
    },
};

/// The shell script that hpt runs.
fn run_shell(options: &[&str], script: &str) -> Output {
    run(&[&["run"], options, &["--", "sh", "-c", script]].concat())
}

/// A run that has printed its first line, which is not part of the later output. It ends with the
/// test.
struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    first: String,
}

impl Running {
    fn of(options: &[&str], script: &str) -> Self {
        let mut command = hpt();
        command.arg("run").args(options).args(["--", "sh", "-c", script]);
        Self::started(&mut command)
    }

    fn started(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut first = String::new();
        out.read_line(&mut first).expect("it says UTF-8");
        Self { child, out, first: first.trim().to_owned() }
    }

    fn signal(&self, signal: i32) {
        send(self.child.id(), signal);
    }

    /// Returns the rest of its output, and its exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut said = String::new();
        self.out.read_to_string(&mut said).expect("it says UTF-8");
        (said, self.child.wait().expect("started").code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the state letter of a process from /proc; `None` if it does not exist.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns the reason why signals do not reach hpt.
fn emulated() -> bool {
    if runner().is_empty() {
        return false;
    }
    skipped!("the emulator stands between hpt and its signals");
    true
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    let output = run_shell(&[], "echo said; echo complained >&2; exit 7");
    assert_eq!((code(&output), stdout(&output).as_str(), stderr(&output).as_str()), (7, "said\n", "complained\n"));
    assert_eq!(code(&run(&["run", "true"])), 0, "without -- as well");
    assert_eq!(code(&run_shell(&[], "kill -KILL $$")), 137);
    assert_eq!(code(&run_shell(&[], "kill -TERM $$")), 143);
    let options = run(&["run", "--", "sh", "-c", "echo $1 $2", "sh", "--fifo", "--help"]);
    assert_eq!(stdout(&options), "--fifo --help\n", "what stands behind the program is its own");
}

#[test]
fn a_file_that_is_not_a_program_is_reported_as_in_shells() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let not_executable = folder.path().join("data");
    fs::write(&not_executable, "exit 3\n").expect("ours");
    let not_executable = not_executable.to_str().expect("UTF-8").to_owned();
    let program = |name: &str, content: &str| {
        let path = folder.path().join(name);
        write_program(&path, content);
        path.to_str().expect("UTF-8").to_owned()
    };
    let without_interpreter = program("lost", "#!/proc/nonexistent/interpreter\n");
    let noise = program("noise", "\u{7f}ELF\u{1}\u{1}");
    for (program, expected, hint) in [
        ("hpt-no-such-program", 127, "there is no such program"),
        ("/proc/nonexistent/program", 127, "there is no such program"),
        ("", 127, "there is no such program"),
        (without_interpreter.as_str(), 127, "#!"),
        (folder.path().to_str().expect("UTF-8"), 126, "is not a program"),
        (not_executable.as_str(), 126, "is not a program"),
    ] {
        let output = run(&["run", "--", program]);
        assert_eq!(code(&output), expected, "{program:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(hint) && stdout(&output).is_empty(), "{program:?}: {}", stderr(&output));
    }
    // Like env and nice: the C library runs a file without #! with a shell, but not a corrupt
    // program.
    let bare = program("bare", "exit 3\n");
    let expected = if cfg!(target_env = "gnu") { 3 } else { 126 };
    assert_eq!(code(&run(&["run", "--", &bare])), expected);
    assert!([126, 127, 2].contains(&code(&run(&["run", "--", &noise]))), "it is not a program");
}

#[test]
fn an_error_of_hpt_itself_is_125_and_starts_no_program() {
    for (arguments, hint) in [
        (&["--fifo", "100"][..], "1..=99"),
        (&["--fifo", "1", "--rr", "1"], "cannot be used with"),
        (&["--cpu", "99999"], "no such CPU: 99999 (present: "),
        (&["--cpu", "many"], "expected one CPU"),
        (&["--mlockall"], "mlockall itself"),
        (&["--governor", "no-such-governor"], "governor"),
        (&["--format", "json"], "no --format"),
        (&["--no-such-option"], "unexpected argument"),
    ] {
        let output = run(&[&["run"], arguments, &["--", "echo", "started"]].concat());
        assert_eq!(code(&output), 125, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(hint) && stdout(&output).is_empty(), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(code(&run(&["run"])), 125);
    assert_eq!(code(&run(&["--format", "json", "run"])), 125);
    assert_eq!(code(&run(&["run", "--help"])), 0);
    // With --best-effort it starts nevertheless, and the missing settings are reported.
    let output = run(&["run", "--cpu", "99999", "--best-effort", "--", "echo", "started"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "started\n"));
    assert!(stderr(&output).contains("without cpu: "), "{}", stderr(&output));
}

#[test]
fn the_program_has_the_policy_and_cpu_and_hpt_no_longer_has_them() {
    let cpu = hpt_realtime::allowed_cpus()[0].to_string();
    // The fields of /proc/PID/stat: 40 is the real-time priority, 41 the policy.
    let script = "cut -d ' ' -f 40,41 /proc/self/stat; grep Cpus_allowed_list /proc/self/status; cut -d ' ' -f 40,41 /proc/$PPID/stat";
    for (class, expected) in
        [(&["--fifo", "3"][..], "3 1"), (&["--rr", "4"], "4 2"), (&["--deadline", "2ms/100ms"], "0 6")]
    {
        // If children inherit the scheduling policy, cut has the same as the shell; otherwise the
        // shell is examined.
        let script = if class[0] == "--deadline" {
            "cut -d ' ' -f 40,41 /proc/$$/stat; echo; cut -d ' ' -f 40,41 /proc/$PPID/stat"
        } else {
            script
        };
        let pin = ["--cpu", &cpu];
        let options = [class, if class[0] == "--deadline" { &[] } else { &pin }].concat();
        let output = run_shell(&options, script);
        if code(&output) == 125 {
            let text = stderr(&output);
            // The test process may be pinned, and its children inherit that.
            let reasons = ["CAP_SYS_NICE", "use a shorter runtime", "do not pin it"];
            assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
            skipped!("{text}");
            continue;
        }
        let said = stdout(&output);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!((lines[0], lines[2]), (expected, "0 0"), "{class:?}: {said}");
        if class[0] != "--deadline" {
            assert_eq!(lines[1].split_whitespace().last(), Some(cpu.as_str()), "{said}");
        }
    }
}

#[test]
fn a_program_may_change_its_policy_and_cpu_without_affecting_hpt() {
    let installed =
        |program: &str| Command::new(program).arg("--help").output().is_ok_and(|help| help.status.success());
    let allowed = hpt_realtime::allowed_cpus();
    if !installed("taskset") || !installed("chrt") || allowed.len() < 2 {
        return skipped!("it takes two CPUs, taskset and chrt");
    }
    let (one, other) = (allowed[0].to_string(), allowed[1].to_string());
    let script = format!(
        "cpus() {{ sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$1/status; }}\n\
         cpus $$; taskset -p -c {other} $$ >/dev/null || exit 9; cpus $$; cpus $PPID; exit 6"
    );
    let output = run_shell(&["--cpu", &one], &script);
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((code(&output), lines[0], lines[1]), (6, one.as_str(), other.as_str()), "{said}{}", stderr(&output));
    if runner().is_empty() {
        let list = hpt_sys::host::CpuList::parse(lines[2]).expect("a list");
        assert_eq!(list.iter().collect::<Vec<_>>(), allowed, "hpt has what it had");
    }
    let script = "chrt -r -p 5 $$ >/dev/null || exit 9; cut -d ' ' -f 40,41 /proc/$$/stat; cut -d ' ' -f 40,41 /proc/$PPID/stat; exit 6";
    let output = run_shell(&["--fifo", "3"], script);
    if code(&output) == 125 {
        return skipped!("a change of class: {}", stderr(&output));
    }
    assert_eq!((code(&output), stdout(&output).as_str()), (6, "5 2\n0 0\n"), "{}", stderr(&output));
}

#[test]
fn no_signal_is_blocked_in_the_program_and_ignored_signals_stay_ignored() {
    if emulated() {
        return;
    }
    // Only standard signals: the C library ignores two of its own in the programs it starts.
    let masks = |output: &Output| -> Vec<u64> {
        let mask = |line: &str| u64::from_str_radix(line.split_whitespace().last()?, 16).ok();
        stdout(output).lines().map(|line| mask(line).expect("a mask") & 0x7fff_ffff).collect()
    };
    let status = ["grep", "-hE", "^Sig(Blk|Ign)", "/proc/self/status"];
    assert_eq!(masks(&run(&[&["run"], &status[..]].concat())), [0, 0]);
    // Like under nohup.
    let script = format!("trap '' HUP; exec {} run grep -hE '^Sig(Blk|Ign)' /proc/self/status", words().join(" "));
    let output = Command::new("sh").args(["-c", &script]).output().expect("every machine has a shell");
    assert_eq!(masks(&output), [0, 1]);
    // SIGCHLD as well, although hpt itself must learn of the end of the program.
    let ignoring = |line: &[&str]| Command::new("env").arg("--ignore-signal=CHLD").args(line).output();
    if !ignoring(&["true"]).is_ok_and(|output| output.status.success()) {
        return skipped!("this env(1) cannot have SIGCHLD ignored");
    }
    let words = words();
    let hpt: Vec<&str> = words.iter().map(String::as_str).chain(["run"]).collect();
    assert_eq!(masks(&ignoring(&[&hpt, &status[..]].concat()).expect("it was run")), [0, 1 << (libc::SIGCHLD - 1)]);
    assert_eq!(code(&ignoring(&[&hpt[..], &["sh", "-c", "exit 3"]].concat()).expect("it was run")), 3);
}

#[test]
fn a_signal_that_a_process_sends_reaches_the_program_once() {
    if emulated() {
        return;
    }
    // The script reports each signal, until the one that ends it.
    let script = "n=0; for s in HUP INT QUIT USR2 WINCH ALRM CONT; do trap \"echo $s\" $s; done; trap 'echo TERM; exit 9' TERM; echo ready; \
                  while :; do sleep 0.05; done";
    let mut running = Running::of(&[], script);
    assert_eq!(running.first, "ready");
    let signals = [
        (libc::SIGHUP, "HUP"),
        (libc::SIGINT, "INT"),
        (libc::SIGQUIT, "QUIT"),
        (libc::SIGUSR2, "USR2"),
        (libc::SIGWINCH, "WINCH"),
        (libc::SIGALRM, "ALRM"),
        (libc::SIGCONT, "CONT"),
        (libc::SIGTERM, "TERM"),
    ];
    // Waits for each signal before sending the next: if several are pending, the shell handles the
    // lowest first. A duplicate would appear instead of the next one.
    for (signal, name) in signals {
        running.signal(signal);
        let mut came = String::new();
        running.out.read_line(&mut came).expect("it says UTF-8");
        assert_eq!(came.trim(), name);
    }
    assert_eq!(running.end(), (String::new(), Some(9)));
    // A program without a handler is ended by the signal.
    let running = Running::of(&[], "echo ready; exec sleep 3600");
    running.signal(libc::SIGUSR1);
    assert_eq!(running.end().1, Some(128 + libc::SIGUSR1));
}

#[test]
fn a_signal_from_the_program_to_its_parent_is_not_forwarded_back() {
    if emulated() {
        return;
    }
    // hpt forwards signals of processes in order: when the second one arrives, the first would have
    // arrived.
    let script = "trap 'echo came back' USR1; trap 'echo over; exit 0' USR2; kill -USR1 $PPID; echo sent; while :; do sleep 0.05; done";
    let running = Running::of(&[], script);
    assert_eq!(running.first, "sent");
    running.signal(libc::SIGUSR2);
    assert_eq!(running.end(), ("over\n".to_owned(), Some(0)));
}

#[test]
fn a_key_of_the_terminal_reaches_the_program_once() {
    if emulated() {
        return;
    }
    // A duplicate would arrive before a later signal, which hpt forwards as well.
    let script = r#"n=0; trap "n=\$((n+1)); echo came" INT; trap "echo count=\$n; exit 5" USR2; echo ready $PPID; while :; do sleep 0.05; done"#;
    // Replaces the shell that script(1) starts, which the key would end itself.
    let line = format!("exec {} run sh -c '{script}'", words().join(" "));
    let spawned = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        return skipped!("script(1) is not installed");
    };
    let mut keys = child.stdin.take().expect("a pipe");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("ready") && out.read_line(&mut said).expect("it says UTF-8") > 0 {}
    let hpt: u32 = said.trim().rsplit(' ').next().and_then(|number| number.parse().ok()).expect("its number");
    // Ctrl-C.
    keys.write_all(b"\x03").expect("it listens");
    while !said.contains("came") && out.read_line(&mut said).expect("it says UTF-8") > 0 {}
    send(hpt, libc::SIGUSR2);
    out.read_to_string(&mut said).expect("it says UTF-8");
    assert!(said.contains("count=1") && said.matches("came").count() == 1, "{said:?}");
    assert_eq!(child.wait().expect("started").code(), Some(5), "{said:?}");
}

/// Starts a terminal whose first process is a shell with this script. script(1) copies the output,
/// without carriage returns, to a pipe.
fn in_a_terminal(script: &str) -> Option<(Child, BufReader<std::process::ChildStdout>)> {
    let mut command = Command::new("script");
    command.args(["-qec", script, "/dev/null"]).env("SHELL", "/bin/sh");
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        skipped!("script(1) is not installed");
        return None;
    };
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    Some((child, out))
}

#[test]
fn a_program_ends_with_the_terminal_of_a_session_that_hpt_leads() {
    if emulated() {
        return;
    }
    // Like ssh -t: there is no shell that could receive the signal.
    let script = format!("exec {} run sh -c 'echo $$ $PPID; exec sleep 3600'", words().join(" "));
    let Some((mut terminal, mut out)) = in_a_terminal(&script) else { return };
    let mut first = String::new();
    out.read_line(&mut first).expect("it says UTF-8");
    let numbers: Vec<u32> = first.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    let [program, hpt] = numbers[..] else { panic!("{first:?}") };
    let stat = fs::read_to_string(format!("/proc/{hpt}/stat")).expect("it runs");
    let session = stat.rsplit_once(") ").expect("a name").1.split(' ').nth(3).map(str::to_owned);
    assert_eq!(session, Some(hpt.to_string()), "hpt leads it");
    terminal.kill().expect("it is ours");
    terminal.wait().expect("started");
    let gone = |process| state(process).is_none_or(|state| state == 'Z');
    wait_until("the program receives the signal and ends", || gone(program));
    wait_until("hpt ends with it", || gone(hpt));
}

/// Returns the output of a shell in a terminal that runs this line, and continues it after it has
/// stopped.
fn stopped_and_let_go_on(line: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let jobs = folder.path().join("jobs");
    let lines = format!("{line}\necho shell: $?\nfg >/dev/null\necho end: $?\n");
    fs::write(&jobs, lines).expect("ours");
    let (mut terminal, mut out) = in_a_terminal(&format!("exec sh -m {}", jobs.display()))?;
    let process = terminal.id();
    // If the terminal is not returned, nothing ever arrives.
    let over = std::sync::atomic::AtomicBool::new(false);
    let mut said = String::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let begin = std::time::Instant::now();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                if begin.elapsed() > Duration::from_secs(600) {
                    return send(process, libc::SIGKILL);
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        out.read_to_string(&mut said).expect("it says UTF-8");
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    terminal.wait().expect("started");
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.contains("Stopped")).collect();
    Some(said.join(" | ").trim_matches([' ', '|']).to_owned())
}

#[test]
fn a_program_that_stops_itself_returns_the_terminal_to_the_shell() {
    if emulated() {
        return;
    }
    // 128 and the number of SIGTSTP.
    let expected = format!("shell: {} | goes on | end: 4", 128 + libc::SIGTSTP);
    let words = words().join(" ");
    let line = format!("{words} run sh -c 'kill -STOP $$; echo goes on; exit 4'");
    let Some(said) = stopped_and_let_go_on(&line) else { return };
    assert_eq!(said, expected);
    // An interactive shell has its own process group, which has the terminal at that time.
    if !Command::new("bash").arg("--version").output().is_ok_and(|version| version.status.success()) {
        return skipped!("a shell of a process group of its own: there is no bash");
    }
    let line = format!("{words} run bash --norc -ic 'suspend; echo goes on; (exit 4)'");
    assert_eq!(stopped_and_let_go_on(&line), Some(expected));
}

#[test]
fn a_program_that_stops_as_a_job_stops_hpt_and_continues_with_it() {
    if emulated() {
        return;
    }
    // In a process group whose parent is in another group of the same session, like a job of a
    // shell.
    let mut command = hpt();
    command.args(["run", "--", "sh", "-c", "echo ready; kill -TSTP $$; echo goes on; exit 4"]).process_group(0);
    let running = Running::started(&mut command);
    let process = running.child.id();
    wait_until("hpt stops", || state(process) == Some('T'));
    running.signal(libc::SIGCONT);
    assert_eq!(running.end(), ("goes on\n".to_owned(), Some(4)));
    // SIGSTOP stops the program only, if no shell waits for the terminal.
    let mut command = hpt();
    command.args(["run", "--", "sh", "-c", "echo $$; kill -STOP $$; echo goes on; exit 4"]).process_group(0);
    let running = Running::started(&mut command);
    let program: u32 = running.first.parse().expect("its number");
    wait_until("the program stops", || state(program) == Some('T'));
    assert_ne!(state(running.child.id()), Some('T'));
    send(program, libc::SIGCONT);
    assert_eq!(running.end(), ("goes on\n".to_owned(), Some(4)));
}

#[test]
fn a_program_outlives_hpt_and_keeps_its_settings() {
    if emulated() {
        return;
    }
    let mut running =
        Running::of(&["--best-effort", "--fifo", "2"], "echo $$; cut -d ' ' -f 41 /proc/$$/stat; exec sleep 3600");
    let program: u32 = running.first.parse().expect("its number");
    let mut policy = String::new();
    running.out.read_line(&mut policy).expect("it says UTF-8");
    running.child.kill().expect("it is ours");
    running.child.wait().expect("started");
    assert!(state(program).is_some_and(|state| state != 'Z'), "it goes on");
    let stat = fs::read_to_string(format!("/proc/{program}/stat")).expect("it is there");
    let now = stat.rsplit_once(") ").expect("a name").1.split(' ').nth(38).map(str::to_owned);
    assert_eq!(now.as_deref(), Some(policy.trim()));
    send(program, libc::SIGKILL);
}

#[test]
fn the_system_is_restored_however_the_program_ends() {
    if emulated() {
        return;
    }
    let alone = Throttling::alone();
    if let Some(obstacle) = Throttling::obstacle() {
        return skipped!("{obstacle}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let options = ["--fifo", "1", "--no-throttling", "--journal", store];
    let during = format!("cat {RUNTIME}");
    for (script, expected) in [
        (during.clone(), 0),
        (format!("{during}; exit 3"), 3),
        (format!("{during}; kill -KILL $$"), 137),
        // Changes by the program to the setting are reverted as well, and it may change its own
        // scheduling policy.
        (format!("{during}; echo 940000 >{RUNTIME}; chrt -o -p 0 $$"), 0),
    ] {
        let output = run_shell(&options, &script);
        assert_eq!((code(&output), stdout(&output).as_str()), (expected, "-1\n"), "{script}: {}", stderr(&output));
        assert_eq!(value(RUNTIME), alone.before, "{script}");
    }
    let not_there = run(&[&["run"], &options[..], &["--", "/proc/nonexistent/program"]].concat());
    assert_eq!((code(&not_there), value(RUNTIME)), (127, alone.before.clone()));
    // Requests to end, with signals that end the program.
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let running = Running::of(&options, "echo ready; exec sleep 3600");
        assert_eq!(value(RUNTIME).as_deref(), Some("-1"));
        running.signal(signal);
        assert_eq!(running.end().1, Some(128 + signal));
        assert_eq!(value(RUNTIME), alone.before);
    }
    // If hpt itself is killed, the setting remains, and hpt restore reverts it.
    let mut running = Running::of(&options, "echo $$; exec sleep 3600");
    let program: u32 = running.first.parse().expect("its number");
    running.child.kill().expect("it is ours");
    running.child.wait().expect("started");
    assert_eq!(value(RUNTIME).as_deref(), Some("-1"), "no process could restore it");
    assert_eq!(code(&run_shell(&options, "exit 0")), 125, "what a killed one left is not taken for the machine's own");
    let restored = run(&["restore", "--journal", store]);
    assert_eq!(code(&restored), 0, "{}", stderr(&restored));
    assert_eq!(value(RUNTIME), alone.before);
    send(program, libc::SIGKILL);
}

#[test]
fn an_ordinary_user_without_permission_is_refused_with_a_fix() {
    if !is_root() || !runner().is_empty() {
        return skipped!("only root can become a plain user; the other tests run as one");
    }
    let (folder, binary) = copied_for_everybody();
    // A directory in PATH that this user cannot read.
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("ours");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("ours");
    let plain = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.arg("run").args(arguments).uid(65_534).gid(65_534).current_dir("/");
        command.env("PATH", format!("{}:/usr/bin:/bin", closed.display()));
        command.output().expect("it can be run")
    };
    let refused = plain(&["--fifo", "80", "--", "echo", "started"]);
    assert_eq!((code(&refused), stdout(&refused).as_str()), (125, ""));
    assert!(stderr(&refused).contains("CAP_SYS_NICE"), "{}", stderr(&refused));
    let nowhere = plain(&["--", "hpt-no-such-program"]);
    assert_eq!(code(&nowhere), 127, "{}", stderr(&nowhere));
    assert!(stderr(&nowhere).contains("there is no such program"), "{}", stderr(&nowhere));
    let started =
        plain(&["--fifo", "80", "--dma-latency", "0", "--no-throttling", "--best-effort", "--", "echo", "started"]);
    assert_eq!((code(&started), stdout(&started).as_str()), (0, "started\n"));
    for what in ["without policy: ", "without wake-latency: ", "without throttling: "] {
        assert!(stderr(&started).contains(what), "{what} in {}", stderr(&started));
    }
    // Throttling was not turned off, so there is no note on its effect.
    assert!(!stderr(&started).contains("--no-throttling affects only"), "{}", stderr(&started));
}

/// The program makes the file of the setting read-only. A file stands in for the setting, in a mount namespace.
#[test]
fn a_program_that_succeeds_does_not_hide_that_a_setting_was_not_restored() {
    if !is_root() || !runner().is_empty() {
        return skipped!("only root can mount a file over a setting");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = "cd \"$0\" && echo 950000 >file && mount --bind file \"$1\" || exit 42
        setting=$1; shift
        \"$@\" run --no-throttling --journal \"$0/journal\" -- sh -c \"mount -o remount,bind,ro '$setting'; exit $END\"
        echo \"exit $?\"; cat file";
    for (end, expected) in [("0", "exit 125\n-1"), ("7", "exit 7\n-1")] {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(folder.path()).arg(RUNTIME).args(words()).env("END", end);
        let output = command.output().expect("unshare");
        if [1, 42].contains(&code(&output)) {
            return skipped!("no file can be mounted over another here");
        }
        assert_eq!(stdout(&output), expected, "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("cannot restore a setting") && said.contains("hpt restore --journal"), "{said}");
        fs::remove_dir_all(folder.path().join("journal")).expect("the change log keeps the value");
    }
}

/// Splits the output of `time -p`, and of `hpt run --time`, into seconds by name.
fn seconds(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
}

/// A shell program that uses CPU time in user mode and in the kernel, and waits.
const WORK: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; dd if=/dev/zero of=/dev/null bs=1M count=500 status=none; sleep 0.1";

#[test]
fn the_times_of_a_program_lie_between_those_that_bash_measures_inside_and_outside() {
    // bash prints whole milliseconds.
    const RESOLUTION: f64 = 0.001;
    let mut command = Command::new("bash");
    command.args(["-c", r#"time "$@" run --time -- bash -c "$INSIDE""#, "bash"]).args(words());
    command.env("TIMEFORMAT", "real %3R\nuser %3U\nsys %3S").env("INSIDE", format!("time ( {WORK} )"));
    let output = command.output().expect("bash is there");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = stderr(&output);
    // Inside first, then hpt, then outside.
    let at: Vec<usize> = said.match_indices("real ").map(|(at, _)| at).collect();
    let [inside, hpt, outside] = at[..] else { panic!("three measurements: {said}") };
    let (inside, hpt, outside) = (&said[inside..hpt], &said[hpt..outside], &said[outside..]);
    for name in ["real", "user", "sys"] {
        let [least, seen, most] = [inside, hpt, outside].map(|text| seconds(text, name));
        assert!(least - RESOLUTION <= seen && seen <= most + RESOLUTION, "{name}: {least} {seen} {most}\n{said}");
    }
    assert!(seconds(hpt, "not-run") <= seconds(hpt, "real"), "{said}");
}

#[test]
fn a_program_that_shares_its_cpu_was_ready_but_did_not_run() {
    if !runner().is_empty() {
        return skipped!("the emulator has threads of its own");
    }
    // Two loops on one CPU. The program waits for the other one.
    let script = "count() { i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; }; count & count; wait";
    let output = run(&["run", "--cpu", "0", "--time", "--", "sh", "-c", script]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = stderr(&output);
    if said.contains("not-run unknown") {
        return skipped!("this kernel does not report how long a thread waits for a CPU");
    }
    let (not_run, real) = (seconds(&said, "not-run"), seconds(&said, "real"));
    assert!(not_run > 0.0 && not_run < real, "{said}");
    // The other loop is another process, so its CPU time is not covered.
    assert!(said.contains("hpt: note: not-run covers"), "{said}");
}

#[test]
fn a_program_that_a_signal_ends_and_one_that_does_not_start_have_their_times_and_none() {
    let killed = run(&["run", "--time", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(code(&killed), 137);
    assert!(seconds(&stderr(&killed), "real") > 0.0);
    let absent = run(&["run", "--time", "--", "/proc/nonexistent/program"]);
    assert_eq!(code(&absent), 127);
    assert!(!stderr(&absent).contains("real "), "{}", stderr(&absent));
}
