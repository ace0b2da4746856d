//! hpt under errors: it gives a reason, a fix and the documented exit code, and never ends with a
//! signal or a panic.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Command, Stdio},
};

use hpt_sys::host::{Capture, Entry};
use serde_json::Value;

use crate::support::{
    CURRENT_CLOCKSOURCE, capture_of, code, command, contents, copied_for_everybody, docs, host, hosts, hpt,
    is_on_a_writable_file_system, is_root, json, run, runner, set, stderr, stdout,
    unsafe_calls::{forbid_the_counter, limit_files},
    wake_ups, words, written,
};

/// Short runs of all subcommands.
const QUICK: [&[&str]; 11] = [
    &["probe"],
    &["read", "monotonic", "--count", "20000"],
    // On a busy machine, the calibration of one of all sources may fail, which is reported.
    &["calibrate", "--duration", "100ms", "--source", "monotonic,realtime"],
    &["bench", "--count", "1000"],
    &["sleep", "--count", "2"],
    &["latency", "timer", "--count", "3"],
    &["latency", "poll", "--count", "3", "--best-effort", "--fifo", "2", "--mlockall"],
    &["latency", "pairs", "--count", "2"],
    &["clocksource"],
    &["watch", "--duration", "300ms"],
    &["restore", "--journal", "/"],
];

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn wrong_usage_exits_with_2_and_names_the_right_usage() {
    for (arguments, hint) in [
        (&["bench", "--count", "0"][..], "must be 1 or more"),
        (&["read"], "hpt read <SOURCE>"),
        (&["read", "tcs"], "did you mean tsc"),
        (&["read", "monotonic", "--count", "1e7"], "must be at most 1e6"),
        (&["read", "monotonic", "--interval", "200"], "time unit missing: write 200us, 200ms or 200s"),
        (&["bench", "--count", "many"], "expected a whole number from 1 to 1e12"),
        (&["calibrate", "--duration", "0s"], "must be between 1ms and 1day"),
        (&["calibrate", "--duration", "soon"], "100ms"),
        (&["calibrate", "--duration", "1"], "time unit missing: write 1ms or 1s"),
        (&["bench", "--cpu", "99999"], "no such CPU: 99999 (present: "),
        (&["sleep", "--cpu", "99999"], "no such CPU: 99999 (present: "),
        (&["sleep", "--count", "0"], "must be 1 or more"),
        (&["latency", "pairs", "--count", "0"], "must be 1 or more"),
        (&["latency", "stall", "--count", "0"], "must be 1 or more"),
        (&["sleep", "--length", "0s"], "must be between 1us and 10s"),
        (&["sleep", "--strategy", "snooze"], "[possible values: std, nanosleep, fixed, busy, hpt]"),
        (&["sleep", "--curve", "--target", "cpu=1%"], "cannot be used with"),
        (&["sleep", "--curve", "--load", "cpu"], "cannot be used with"),
        (&["sleep", "--fifo", "100"], "100 is not in 1..=99"),
        (&["sleep", "--rr", "0"], "0 is not in 1..=99"),
        (&["sleep", "--fifo", "1", "--rr", "1"], "cannot be used with"),
        (&["sleep", "--deadline", "2s/1s"], "no longer than the period"),
        (&["sleep", "--accept-throttling", "--no-throttling"], "cannot be used with"),
        (&["sleep", "--target", "p50=1us"], "expected p99=TIME"),
        (&["sleep", "--target", "cpu=200%"], "expected a share from 0% to 100%"),
        (&["latency", "pairs", "--interval", "1"], "time unit missing: write 1us, 1ms or 1s"),
        (&["latency", "pairs", "--interval", "1s/2h"], "must be at most 1h"),
        (&["latency", "pairs", "--source", "tcs"], "did you mean tsc"),
        (&["latency", "timer", "--interval", "1us"], "must be between 10us and 1h"),
        (&["latency", "timer", "--interval", "1000"], "time unit missing: write 1000us, 1000ms or 1000s"),
        (&["latency", "timer", "-P", "d:2/10"], "time unit missing: write d:2ms/10ms"),
        (&["latency", "timer", "-P", "80"], "did you mean f:80?"),
        (&["latency", "timer", "--dma-latency", "deep"], "for example 0, 10us or 1ms"),
        (&["latency", "timer", "--fifo"], "--fifo needs a priority from 1 to 99, for example --fifo 80"),
        (&["restore", "--list", "--format", "openmetrics"], "which has no metrics"),
        (&["latency", "pairs", "--count", "1", "--textfile", "/tmp/hpt.prom"], "which has no metrics"),
        (&["probe", "--textfile", "/tmp/metrics.txt"], "the name must end in .prom"),
        (&["probe", "--textfile", "/proc/nonexistent/hpt.prom"], "cannot write /proc/nonexistent/hpt.prom"),
        (&["latency", "timer", "--at", "noon"], "a time such as 12:30:15"),
        (&["latency", "timer", "--at", "2001-01-01T00:00:00Z"], "--at 2001-01-01T00:00:00Z is in the past"),
        (&["latency", "timer", "--at", "12:00", "--source", "tsc"], "cannot be used with"),
        (&["latency", "timer", "--source", "tcs"], "did you mean tsc"),
        (&["latency", "timer", "--cpu", "3-0"], "the range 3-0 is reversed: write 0-3"),
        (&["latency", "timer", "--cpu", "0-4294967295"], "Linux supports at most 8192 CPUs"),
        (&["latency", "timer", "--cpu", "8000-8010"], "no such CPU: 8000 (present: "),
        (
            &["latency", "gpio", "--output-line", "0", "--input-line", "1", "--cpu", "0-3"],
            "expected one CPU: a number, or any",
        ),
        (
            &["latency", "gpio", "--output-line", "0", "--input-line", "1", "--cpu", "99999"],
            "no such CPU: 99999 (present: ",
        ),
        (&["latency", "timer", "--cpu", "99999"], "no such CPU: 99999 (present: "),
        (&["latency", "poll", "--count", "0"], "must be 1 or more"),
        (&["latency", "poll", "--count", "1", "--duration", "1s"], "cannot be used with"),
        (
            &["latency", "poll", "--write", "excel=a"],
            "the available formats are: cyclictest, cyclictest-json, hdr, line",
        ),
        (
            &["latency", "timer", "--count", "1", "--write", "hdr=/proc/nonexistent/a"],
            "cannot write /proc/nonexistent/a",
        ),
        (&["latency", "timer", "--count", "1", "--raw", "/proc/nonexistent/a"], "cannot write /proc/nonexistent/a"),
        (&["latency", "poll", "--cpu", "all", "--fifo", "1", "--no-throttling"], "would stop the machine"),
        (&["experiment", "pears"], "[possible values: calls, steps,"),
        (&["experiment", "pairs", "--short", "--count", "5"], "cannot be used with"),
        (&["experiment", "--resume"], "<NAME>"),
        (&["experiment", "pairs", "--cpu", "99999"], "no such CPU: 99999 (present: "),
        (&["latency", "stall", "--above", "10"], "time unit missing: write 10us, 10ms or 10s"),
        (&["latency", "stall", "--source", "tcs"], "did you mean tsc"),
        (&["latency", "stall", "--cpu", "99999"], "no such CPU: 99999 (present: "),
        (&["latency", "stall", "--raw", "/proc/nonexistent/a"], "cannot write /proc/nonexistent/a"),
        (&["latency", "stall", "--cpu", "all", "--fifo", "1", "--no-throttling"], "would stop the machine"),
        (
            &["latency", "timer", "--limit", "p50=banana"],
            "p50 takes a time with a unit, for example p50=50us or p50=2ms",
        ),
        (&["latency", "timer", "--limit", "max=50"], "time unit missing: write 50us, 50ms or 50s"),
        (&["sleep", "--limit", "p99.99=1s"], "which has p50, p99, p99.9, mean or max"),
        (&["latency"], "hpt: error: command missing: timer, poll, stall, "),
        (&["timer"], "hpt: hint: did you mean 'hpt latency timer'?"),
        (&["latency", "timer", "-b", "100"], "hpt: hint: use --stop-above"),
        (&["latency", "timer", "--nonsense"], "For more information, try 'hpt latency timer -h'."),
        (&["latency", "gpio"], "--output-line and --input-line"),
        (&["latency", "gpio", "--output-line", "17"], "--output-line and --input-line"),
        (&["latency", "gpio", "--output-line", "", "--input-line", "1"], "expected a line name or number"),
        (&["latency", "gpio", "--output-line", "gpiochip0:", "--input-line", "1"], "expected a line name or number"),
        (
            &["latency", "gpio", "--output-line", "99999999999", "--input-line", "1"],
            "line number 99999999999 is too large",
        ),
        (
            &["latency", "gpio", "--output-line", "/dev/null:0", "--input-line", "/dev/null:1"],
            "/dev/null is not a GPIO chip",
        ),
        (
            &["latency", "gpio", "--output-line", "/proc/nonexistent:0", "--input-line", "1"],
            "cannot use /proc/nonexistent",
        ),
        (&["latency", "gpio", "--output-line", "0", "--input-line", "1", "--chip", "/"], "/ is not a GPIO chip"),
        (
            &["latency", "gpio", "--output-line", "0", "--input-line", "1", "--timeout", "1us"],
            "must be between 100us and 1h",
        ),
        (
            &["latency", "gpio", "--output-line", "0", "--input-line", "1", "--interval", "1us"],
            "must be between 10us and 1h",
        ),
        (&["latency", "gpio", "--output-line", "0", "--input-line", "1", "--listen", "hard"], "poll, spin, level"),
        (&["latency", "gpio", "--output-line", "0", "--input-line", "1", "--drive", "hard"], "kernel, registers"),
        (
            &[
                "latency",
                "gpio",
                "--output-line",
                "0",
                "--input-line",
                "0",
                "--listen",
                "level",
                "--figure",
                "irq-to-user",
            ],
            "only the figure end-to-end",
        ),
        (&["latency", "timer", "--drive", "registers"], "--pulse <LINE>"),
        (
            &["experiment", "calls", "--short", "--pulse", "17"],
            "--pulse applies only to the experiments late-loop and one-loop",
        ),
        (&["experiment", "calls", "--short", "--frames", "lo"], "--frames applies only to the experiment period"),
        (&["experiment", "period", "--short", "--frames", "a,b,c"], "expected one interface, or two"),
        (&["experiment", "--pulse", "17"], "required arguments were not provided"),
        (
            &["latency", "gpio", "--output-line", "0", "--input-line", "1", "--figure", "half"],
            "output-to-irq, irq-to-user, end-to-end",
        ),
        (&["latency", "gpio", "--output-line", "0", "--input-line", "1", "--list"], "cannot be used with"),
        (
            &["latency", "gpio", "--output-line", "0", "--input-line", "1", "--count", "1", "--duration", "1s"],
            "cannot be used with",
        ),
        (&["latency", "timer", "--pulse", ""], "expected a line name or number"),
        (&["latency", "poll", "--count", "1", "--pulse", "/dev/null:0"], "/dev/null is not a GPIO chip"),
        (&["calibrate", "--cpu", "99999"], "no such CPU: 99999 (present: "),
        (&["bench", "--cpu", "-1"], "expected one CPU: a number, or any"),
        (&["probe", "tcs"], "did you mean tsc"),
        (&["bench", "--source", "tcs"], "did you mean tsc"),
        (&["calibrate", "--source", "monotonik"], "did you mean monotonic"),
        (&["calibrate", "--reference", "monotonik"], "did you mean monotonic"),
        (&["calibrate", "--saved", "--save"], "cannot be used with"),
        (&["probe", "--format", "xml"], "human, json, csv"),
        (&["probe", "--host", "/proc/nonexistent"], "cannot read the system snapshot /proc/nonexistent: no such file"),
        (
            &["clocksource", "--host", "/proc/nonexistent"],
            "cannot read the system snapshot /proc/nonexistent: no such file",
        ),
        (&["clocksource", "--host", "/proc/nonexistent", "compare"], "nothing can be set"),
        (&["doctor", "--cpu", "99999"], "no such CPU: 99999 (present: "),
        (&["doctor", "--cpu", "all"], "invalid"),
        (&["doctor", "--host", "/proc/nonexistent"], "cannot read the system snapshot /proc/nonexistent: no such file"),
        (&["doctor", "--host", "/proc/nonexistent", "--measure"], "cannot be used with"),
        (&["capture"], "FILE"),
        (&["capture", "/proc/nowhere"], "cannot write /proc/nowhere"),
        (&["capture", "/nonexistent/x"], "no such file"),
        (&["capture", "/proc/nowhere/"], "cannot write /proc/nowhere/"),
        (&["capture", "/proc"], "is a directory"),
        (&["capture", "/dev/null"], "use - to print the snapshot"),
        (&["capture", "/dev/null", "--force"], "use - to print the snapshot"),
        (&["capture", "-", "--format", "json"], "omit --format"),
        (&["capture", "--format", "openmetrics", "x"], "has no metrics"),
        (&["watch", "--threshold-ppm", "0"], "must be positive"),
        (&["watch", "--threshold-step", "5"], "time unit missing: write 5ns, 5us or 5ms"),
        (&["watch", "--interval", "1ms"], "must be between 100ms and 1h"),
        (&["watch", "--source", "tcs"], "did you mean tsc"),
        (&["watch", "--source", "boottime", "--reference", "boottime"], "both return the same reading"),
        (&["watch", "--source", "tai,gettimeofday", "--reference", "realtime"], "both return the same reading"),
        (&["watch", "--source", "thread-cpu", "--duration", "1ms"], "none of these sources"),
        (&["watch", "--reference", "thread-cpu", "--duration", "1ms"], "does not count system-wide time"),
        (&["clocksource", "set"], "NAME"),
        (&["clocksource", "set", "sundial"], "clocksource \"sundial\" is not available (available: "),
        (&["clocksource", "compare", "--source", "sundial"], "clocksource \"sundial\" is not available"),
        (&["clocksource", "compare", "--count", "0"], "must be 1 or more"),
        (&["prob"], "hint: "),
        (&["--format", "json"], "specify a command"),
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(hint), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    for arguments in QUICK {
        let script = format!("{} {} | head -n 1; exit ${{PIPESTATUS[0]}}", words().join(" "), arguments.join(" "));
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash is there");
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{arguments:?}");
        let mut child = hpt().args(arguments).stdout(Stdio::piped()).spawn().expect("the binary was built");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("started").code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_closed_standard_output_is_not_an_error() {
    for arguments in QUICK {
        let script = format!("{} {} >&-", words().join(" "), arguments.join(" "));
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh is there");
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_full_disk_is_reported() {
    let full = File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
    let output = hpt().arg("probe").stdout(full).stderr(Stdio::piped()).spawn().expect("built").wait_with_output();
    let output = output.expect("started");
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("cannot print the result"), "{}", stderr(&output));
}

#[test]
fn a_watch_without_a_comparison_has_no_result() {
    // Less than the time between two rounds of readings: one is made, on any machine.
    let output = run(&["watch", "--duration", "1ms", "--no-compare-cpus"]);
    assert_eq!(code(&output), 3, "{}", stdout(&output));
    assert!(stdout(&output).contains("too few readings to compare"), "{}", stdout(&output));
}

#[test]
fn latencies_are_printed_even_if_their_files_cannot_be_written() {
    for option in [["--write", "line=/dev/full"], ["--raw", "/dev/full"]] {
        let output = run(&[&["latency", "timer", "--count", "5", "--format", "json"][..], &option].concat());
        assert_eq!((code(&output), wake_ups(&json(&output)["results"][0])), (3, 5), "{option:?}");
        assert!(stderr(&output).contains("cannot write /dev/full"), "{}", stderr(&output));
    }
}

#[test]
fn arguments_of_any_bytes_are_written_to_files_on_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raw = folder.path().join(OsStr::from_bytes(b"odd \xff\n#name"));
    let form = |form: &str| format!("{form}={}", folder.path().join(form).to_str().expect("UTF-8"));
    let output = hpt()
        .args(["latency", "timer", "--count", "5", "--write", &form("hdr"), "--write", &form("cyclictest-json")])
        .arg("--raw")
        .arg(&raw)
        .output()
        .expect("the binary was built");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&raw).expect("it was written").lines().count(), 5);
    let log = fs::read_to_string(folder.path().join("hdr")).expect("it was written");
    assert_eq!(log.lines().filter(|line| line.starts_with("#name")).count(), 0, "{log}");
    assert!(log.contains("odd \u{fffd} #name"), "{log}");
    let own = fs::read_to_string(folder.path().join("cyclictest-json")).expect("it was written");
    assert!(own.contains("odd \u{fffd} #name"), "{own}");
}

#[test]
fn results_are_printed_even_if_they_cannot_be_saved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A file instead of a directory stops root as well.
    let blocked = folder.path().join("file");
    fs::write(&blocked, "").expect("ours");
    let store = blocked.join("store");
    let output = run(&[
        "calibrate",
        "--duration",
        "10ms",
        "--source",
        "monotonic",
        "--save",
        "--state-dir",
        store.to_str().expect("UTF-8"),
        "--format",
        "json",
    ]);
    assert_eq!(code(&output), 3);
    assert_eq!(json(&output)["calibrations"][0]["calibrated"], true);
    assert!(stderr(&output).contains("cannot access the saved calibration"), "{}", stderr(&output));
}

#[test]
fn without_a_home_directory_a_state_directory_is_required() {
    let output =
        hpt().args(["calibrate", "--saved"]).env_remove("HOME").env_remove("XDG_STATE_HOME").output().expect("built");
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("--state-dir"), "{}", stderr(&output));
}

#[test]
fn a_saved_file_of_another_boot_machine_or_kind_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let shown = || run(&["calibrate", "--saved", "--state-dir", store]);
    assert_eq!(code(&shown()), 1);
    assert!(stdout(&shown()).contains("no calibration"), "{}", stdout(&shown()));
    assert_eq!(
        code(&run(&["calibrate", "--duration", "10ms", "--source", "monotonic", "--save", "--state-dir", store])),
        0
    );
    let file = folder.path().join("calibrations");
    let good = fs::read_to_string(&file).expect("it was just saved");
    assert_eq!(code(&shown()), 0);

    let line = |key: &str| good.lines().find(|line| line.starts_with(key)).expect("the file has this line").to_owned();
    let boot = good.replace(&line("boot "), "boot 00000000-0000-0000-0000-000000000000");
    let processor = good.replace(&line("processor "), "processor Elsewhere/1/2/3");
    for (content, reason) in [
        (boot, "stale"),
        (processor, "another processor"),
        (good.replace("\"monotonic\"", "\"monotonix\""), "checksum"),
        (good[..good.len() / 2].to_owned(), "corrupt"),
        (good.replacen("hpt-state 1", "hpt-state 2", 1), "corrupt"),
        (String::new(), "corrupt"),
    ] {
        fs::write(&file, content).expect("ours");
        let output = shown();
        assert_eq!(code(&output), 3, "{reason}");
        assert!(stderr(&output).contains(reason), "{reason}: {}", stderr(&output));
        // hpt bench rejects it as well, and continues.
        let bench =
            hpt().args(["bench", "--count", "100", "--source", "monotonic"]).env("XDG_STATE_HOME", store).output();
        assert_eq!(code(&bench.expect("built")), 0);
    }
    // Saving again replaces a rejected file.
    assert_eq!(
        code(&run(&["calibrate", "--duration", "10ms", "--source", "monotonic", "--save", "--state-dir", store])),
        0
    );
    assert_eq!(code(&shown()), 0);
}

#[test]
fn a_save_that_is_killed_leaves_the_old_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let save = [
        "calibrate",
        "--duration",
        "1ms",
        "--source",
        "monotonic,boottime,monotonic-raw",
        "--reference",
        "realtime",
        "--save",
        "--state-dir",
        store,
    ];
    assert_eq!(code(&run(&save[..])), 0);
    let length = fs::metadata(folder.path().join("calibrations")).expect("it was just saved").len();
    // The kernel ends it at every eighth of the file, during the write that would exceed the limit.
    for eighth in 0..8 {
        let bytes = length * eighth / 8;
        let mut command = hpt();
        let killed = limit_files(command.args(save).stdout(Stdio::null()), bytes).status().expect("built");
        assert_eq!(killed.signal(), Some(libc::SIGXFSZ), "after {bytes} bytes: {killed:?}");
        let shown = run(&["calibrate", "--saved", "--state-dir", store, "--format", "json"]);
        assert_eq!(code(&shown), 0, "after {bytes} bytes: {}", stderr(&shown));
        assert_eq!(json(&shown)["calibrations"].as_array().map(Vec::len), Some(3), "{}", stdout(&shown));
    }
}

#[test]
fn concurrent_saves_are_all_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let sources = ["monotonic", "boottime", "tai", "realtime"];
    let save = |source| {
        let mut command = hpt();
        command.args(["calibrate", "--duration", "10ms", "--source", source, "--save", "--state-dir", store]);
        command.stdout(Stdio::null()).spawn().expect("built")
    };
    for _ in 0..5 {
        let all = sources.map(save);
        for mut one in all {
            assert_eq!(one.wait().expect("started").code(), Some(0));
        }
        let kept = json(&run(&["calibrate", "--saved", "--state-dir", store, "--format", "json"]));
        assert_eq!(kept["calibrations"].as_array().map(Vec::len), Some(sources.len()), "{kept}");
        fs::remove_file(folder.path().join("calibrations")).expect("ours");
    }
}

#[test]
fn an_ordinary_user_gets_the_same_answers() {
    if !is_root() {
        return skipped!("only root can become a plain user; the other tests run as one");
    }
    let (_folder, binary) = copied_for_everybody();
    let plain_user = |arguments: &[&str]| {
        let mut words = runner();
        words.push(binary.to_str().expect("UTF-8").to_owned());
        let mut command = command(&words);
        command.args(arguments).uid(65_534).gid(65_534).current_dir("/").env("HOME", "/proc/nonexistent");
        command.env_remove("XDG_STATE_HOME");
        command.output().expect("it can be run")
    };
    for arguments in QUICK {
        let output = plain_user(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
    }
    let output = plain_user(&["calibrate", "--duration", "10ms", "--source", "monotonic", "--save"]);
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("choose a writable directory"), "{}", stderr(&output));
}

#[test]
fn hpt_works_without_proc_and_sys() {
    let script = r#"mount -t tmpfs none /sys && mount -t tmpfs none /proc && exec "$@""#;
    let unshared = |arguments: &[&str]| {
        let user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
        let mut command = Command::new("unshare");
        command.args(user).args(["--mount", "sh", "-c", script, "sh"]).args(words()).args(arguments);
        command.env("XDG_STATE_HOME", "/tmp").output()
    };
    match unshared(&["--version"]) {
        Ok(output) if output.status.success() => {}
        other => return skipped!("no mount namespace of our own: {other:?}"),
    }
    for arguments in QUICK {
        let output = unshared(arguments).expect("unshare is there");
        // The kernel's settings are in /sys, and the change log is bound to the boot ID in /proc.
        let could_not_tell = ["clocksource", "restore"].contains(&arguments[0]);
        assert_eq!(code(&output), if could_not_tell { 3 } else { 0 }, "{arguments:?}: {}", stderr(&output));
    }
    let probe = unshared(&["probe", "--format", "json"]).expect("unshare is there");
    // Nothing confirms that the TSC is reliable, so it is not recommended.
    assert_ne!(json(&probe)["recommendation"]["source"], "tsc");
    let save =
        unshared(&["calibrate", "--duration", "5ms", "--source", "monotonic", "--save"]).expect("unshare is there");
    assert_eq!(code(&save), 3);
    assert!(stderr(&save).contains("mount /proc"), "{}", stderr(&save));
}

/// Whether hpt accepts a command as a user would type it. Appends --help instead of running it.
fn is_understood(command: &str) -> bool {
    let words = command.split('|').next().unwrap_or_default().split('>').next().unwrap_or_default();
    // After `--` comes another program.
    let words =
        words.split_whitespace().skip_while(|word| ["sudo", "hpt"].contains(word)).take_while(|word| *word != "--");
    let words: Vec<&str> = words.collect();
    code(&run(&[&words[..], &["--help"]].concat())) == 0
}

#[test]
fn recommended_commands_are_valid() {
    assert!(is_understood("sudo hpt probe | head") && !is_understood("hpt latency poll --fiffo 1"));
    let mut advised: Vec<String> = Vec::new();
    for page in ["howto/under-3-us.md", "doctor.md"] {
        let text = fs::read_to_string(docs(page)).expect("the page is there");
        let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
        let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or_default().to_owned());
        advised.extend(lines);
    }
    for name in hosts() {
        let rules = json(&run(&["doctor", "--host", &host(&name), "--format", "json"]));
        let rules = rules["rules"].as_array().expect("rules").clone();
        let fixes = rules.iter().flat_map(|rule| rule["fixes"].as_array().expect("fixes").clone());
        let commands = fixes.flat_map(|fix| fix["commands"].as_array().expect("commands").clone());
        advised.extend(commands.map(|command| command.as_str().expect("text").to_owned()));
    }
    advised.sort();
    advised.dedup();
    advised.retain(|command| command.starts_with("hpt ") || command.starts_with("sudo hpt "));
    assert!(advised.len() > 20, "{advised:?}");
    for command in advised {
        assert!(is_understood(&command), "{command}");
    }
}

/// The answer depends on the machine, but its form does not.
#[test]
fn doctor_answers_scripts_closed_outputs_and_sandboxes() {
    let first_line = format!("{} doctor | head -n 1; exit ${{PIPESTATUS[0]}}", words().join(" "));
    let without_stdout = format!("{} doctor >&-", words().join(" "));
    for script in [first_line, without_stdout] {
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash is there");
        assert!(code(&output) == 0 && stderr(&output).is_empty(), "{script}: {}", stderr(&output));
    }
    let document = json(&run(&["doctor", "--for", "realtime", "--format", "json"]));
    let of_scripts = code(&run(&["doctor", "--for", "realtime", "--fail-on", "low"]));
    match &document["problems_found"] {
        serde_json::Value::Bool(true) => assert_eq!(of_scripts, 1),
        // A check that needs root has no result.
        serde_json::Value::Bool(false) => assert!([0, 3].contains(&of_scripts), "{of_scripts}"),
        _ => assert_eq!(of_scripts, 3),
    }
    // If nothing can be mounted, only the live run above is tested.
    let script = r#"mount -t tmpfs none /sys && mount -t tmpfs none /proc && exec "$@""#;
    let user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
    let without = |words: &[String], arguments: &[&str]| {
        Command::new("unshare")
            .args(user)
            .args(["--mount", "sh", "-c", script, "sh"])
            .args(words)
            .args(arguments)
            .output()
    };
    match without(&words(), &["--version"]) {
        Ok(output) if output.status.success() => {}
        other => return skipped!("no mount namespace of our own: {other:?}"),
    }
    let arguments = ["doctor", "--for", "realtime", "--fail-on", "low", "--format", "json"];
    let output = without(&words(), &arguments).expect("unshare is there");
    let document = json(&output);
    let unknown =
        document["rules"].as_array().expect("rules").iter().filter(|rule| rule["verdict"] == "unknown").count();
    assert!(unknown > 5 && code(&output) > 0, "{document:#}");
}

#[test]
fn with_the_counter_disabled_hpt_reports_it_and_works() {
    if !runner().is_empty() {
        return skipped!("the call would forbid the counter to the emulator, not to hpt");
    }
    // The loader of a dynamically linked program reads the counter before any code of the program.
    // For such a program, a preloaded library makes the call after the loader has finished.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let preload = folder.path().join("forbid.so");
    let from_the_start = |arguments: &[&str]| forbid_the_counter(hpt().args(arguments)).output();
    let after_the_loader = |arguments: &[&str]| hpt().args(arguments).env("LD_PRELOAD", &preload).output();
    let statically_linked = match from_the_start(&["--version"]) {
        Ok(output) => output.status.success(),
        Err(error) => return skipped!("this kernel does not know PR_SET_TSC: {error}"),
    };
    if !statically_linked && !compile(include_str!("support/forbid_counter.c"), &preload) {
        return skipped!("no C compiler to make the library that forbids the counter");
    }
    let forbidden =
        |arguments: &[&str]| if statically_linked { from_the_start(arguments) } else { after_the_loader(arguments) };
    for arguments in QUICK {
        let output = forbidden(&[arguments, &["--format", "json"]].concat()).expect("the kernel knew it before");
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        let notes = json(&output)["notes"].to_string();
        assert!(notes.contains("PR_TSC_SIGSEGV"), "{arguments:?}: {notes}");
    }
}

/// Returns the file of a library that refuses system calls to hpt, as a sandbox does.
fn refusing() -> Option<(tempfile::TempDir, std::path::PathBuf)> {
    if !runner().is_empty() {
        skipped!("the library is not for the emulated architecture");
        return None;
    }
    if cfg!(target_env = "musl") {
        skipped!("a static program loads no library");
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("refuse.so");
    if !compile(include_str!("../../../../scripts/lib/refuse.c"), &library) {
        skipped!("no C compiler to make the library that refuses system calls");
        return None;
    }
    Some((folder, library))
}

#[test]
fn a_sandbox_that_refuses_to_sleep_ends_no_command() {
    let Some((folder, library)) = refusing() else { return };
    let call = libc::SYS_clock_nanosleep.to_string();
    let refused = |arguments: &[&str], error: i32| {
        let mut command = hpt();
        command.env("LD_PRELOAD", &library).env("REFUSED", &call).env("REFUSED_WITH", error.to_string());
        command.args(arguments).output().expect("the binary was built")
    };
    for error in [libc::EPERM, libc::ENOSYS] {
        let output = refused(&["latency", "timer", "--count", "3"], error);
        let said = stderr(&output);
        assert_eq!(code(&output), 3, "{said}");
        assert!(said.contains("the kernel refused clock_nanosleep") && said.contains("a sandbox"), "{said}");
        for arguments in [
            &["latency", "poll", "--count", "3"][..],
            &["latency", "timer", "--count", "3", "--by", "hpt"],
            &["latency", "stall", "--duration", "20ms"],
            &["watch", "--duration", "100ms"],
            &["run", "--", "true"],
        ] {
            let output = refused(arguments, error);
            assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        }
        let output = refused(&["sleep", "--count", "2", "--length", "1ms", "--json"], error);
        let rows = json(&output)["results"].clone();
        let methods: Vec<_> = rows.as_array().expect("rows").iter().map(|row| row["method"].clone()).collect();
        assert_eq!((code(&output), methods.len()), (3, 2), "{methods:?}");
        let notes = json(&output)["notes"].to_string();
        assert!(notes.contains("not measured: std, nanosleep, fixed; the kernel refused clock_nanosleep"), "{notes}");
    }
    let page = folder.path().join("page.html");
    let part = ["report", "--short", "--part", "probe,timer", "--output", page.to_str().expect("UTF-8")];
    let output = refused(&part, libc::EPERM);
    let text = fs::read_to_string(&page).expect("the page is written nevertheless");
    assert!(code(&output) != 101 && text.contains("the kernel refused clock_nanosleep"), "{}", stderr(&output));
}

#[test]
fn captured_machines_are_explained_with_any_files_missing() {
    for name in hosts() {
        for source in ["tsc", "monotonic", "thread-cpu"] {
            let output = run(&["probe", source, "--host", &host(&name)]);
            assert!(code(&output) <= 1, "{source} on {name}: {}", stderr(&output));
        }
    }
}

#[test]
fn a_damaged_capture_is_refused_with_its_line() {
    let mut wrong = capture_of("qemu-q35");
    wrong.set_facts("{\"architecture\": 7}");
    let wrong = wrong.to_string();
    for (text, why) in [
        (wrong.as_str(), "cannot read the system snapshot"),
        (&wrong, "its facts"),
        ("", "line 1: this is not a capture"),
        (&wrong.replace("\nend\n", "\n"), "it is truncated"),
        (&wrong.replace("file proc/cpuinfo", "file ../cpuinfo"), "is not a valid path"),
    ] {
        let (_folder, path) = written(text);
        let output = run(&["probe", "--host", &path]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    // A directory, which was an earlier format of captures.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = run(&["probe", "--host", folder.path().to_str().expect("UTF-8")]);
    assert!(code(&output) == 2 && stderr(&output).contains("it is not a regular file"), "{}", stderr(&output));
}

#[test]
fn a_capture_replaces_files_only_on_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("my.capture");
    let word = path.to_str().expect("UTF-8");
    let begins = || fs::read_to_string(&path).expect("ours").starts_with("hpt-capture 1\nabout\n|Captured 2");
    let mode = || fs::metadata(&path).expect("ours").permissions().mode() & 0o7777;
    let old = |content: &str| {
        fs::write(&path, content).expect("ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
    };
    assert_eq!(code(&run(&["capture", word])), 0);
    assert!(begins() && mode() == 0o600, "{:o}", mode());
    old("of another machine");
    let output = run(&["capture", word]);
    assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
    assert!(stderr(&output).contains("replace it with --force"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&path).expect("ours"), "of another machine");
    assert_eq!(code(&run(&["capture", "--force", word])), 0);
    assert!(begins() && mode() == 0o600, "{:o}", mode());
    // As created by `mktemp`.
    old("");
    assert_eq!(code(&run(&["capture", word])), 0);
    assert!(begins() && mode() == 0o600, "{:o}", mode());
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), 1, "nothing unfinished is left");
    // A link is replaced, and its target is not.
    let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
    fs::write(&victim, "").expect("ours");
    std::os::unix::fs::symlink("victim", &link).expect("ours");
    let link = link.to_str().expect("UTF-8");
    assert_eq!(code(&run(&["capture", link])), 2);
    assert_eq!(code(&run(&["capture", link, "--force"])), 0);
    assert!(fs::read(&victim).expect("ours").is_empty() && !Path::new(link).is_symlink());
}

#[test]
fn a_capture_on_standard_output_equals_the_file() {
    let printed = run(&["capture", "-"]);
    assert_eq!(code(&printed), 0);
    assert!(stderr(&printed).contains("Review the snapshot before you send it"), "{}", stderr(&printed));
    let (_folder, path) = written(&printed.stdout);
    let document = json(&run(&["probe", "--host", &path, "--format", "json"]));
    assert_eq!(document["machine"]["live"], false);
    let parsed = Capture::parse(&printed.stdout).expect("it is a capture");
    let written = json(&run(&["capture", &path, "--force", "--format", "json"]));
    let files = written["files"].as_array().expect("a list");
    let captured = |file: &&Value| file["captured"].as_bool().expect("it says so");
    assert_eq!(written["file"], path);
    assert_eq!(files.iter().filter(captured).count(), contents(&parsed).len());
    for file in files {
        let place = file["path"].as_str().expect("a path").trim_start_matches('/');
        let has_content = matches!(parsed.get(place), Some(Entry::File(_)));
        assert!(parsed.get(place).is_some() && has_content == file["captured"], "{file}");
    }
    // The reader may close the pipe.
    let first = format!("{} capture - 2>/dev/null | head -n 1; exit ${{PIPESTATUS[0]}}", words().join(" "));
    let output = Command::new("bash").args(["-c", &first]).output().expect("bash is there");
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "hpt-capture 1\n"));
}

#[test]
fn color_is_used_only_on_terminals() {
    // Standard output is a pipe here; script(1) provides a terminal.
    assert!(!stdout(&run(&["probe"])).contains('\u{1b}'));
    let on_a_terminal = |environment: &str| {
        let command = format!("{environment} {} probe", words().join(" "));
        Command::new("script").args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").output()
    };
    match (on_a_terminal("env -u NO_COLOR"), on_a_terminal("NO_COLOR=1")) {
        (Ok(colored), Ok(plain)) => {
            assert!(stdout(&colored).contains('\u{1b}'), "{}", stdout(&colored));
            assert!(!stdout(&plain).contains('\u{1b}'), "{}", stdout(&plain));
        }
        other => skipped!("script(1) is not installed: {other:?}"),
    }
}

/// Compiles C into a shared library. Returns whether there is a compiler.
fn compile(source: &str, library: &std::path::Path) -> bool {
    let file = library.with_extension("c");
    fs::write(&file, source).expect("the folder is ours");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .arg(library)
        .arg(file)
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn a_path_that_is_not_utf_8_is_accepted() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let folder = tempfile::tempdir().expect("a temporary folder");
    let odd = folder.path().join(OsStr::from_bytes(b"odd\xff"));
    for format in ["human", "json", "csv"] {
        let save =
            ["calibrate", "--duration", "5ms", "--source", "monotonic", "--save", "--format", format, "--state-dir"];
        let output = hpt().args(save).arg(&odd).output().expect("built");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let output = hpt().args(["capture", "--format", format]).arg(odd.join(format)).output().expect("built");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
}

#[test]
fn an_unwritable_standard_error_changes_no_answer() {
    for (arguments, expected) in
        [(&["probe", "bogus"][..], 2), (&["bench", "-n", "1", "-s", "pit"], 3), (&["bench", "--count", "0"], 2)]
    {
        let full = File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
        let status = hpt().args(arguments).stdout(Stdio::null()).stderr(full).status().expect("built");
        assert_eq!(status.code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn a_pipe_or_device_in_place_of_a_file_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let kept = folder.path().join("calibrations");
    let made = Command::new("mkfifo").arg(&kept).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo is part of every system");
    let output = run(&["calibrate", "--saved", "--state-dir", store]);
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("not a regular file"), "{}", stderr(&output));
    fs::remove_file(&kept).expect("ours");
    std::os::unix::fs::symlink("/dev/zero", &kept).expect("ours");
    assert_eq!(code(&run(&["calibrate", "--saved", "--state-dir", store])), 3);

    assert_eq!(code(&run(&["probe", "--host", kept.to_str().expect("UTF-8")])), 2);
}

#[test]
fn a_directory_in_place_of_a_textfile_is_refused_before_the_measurement() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("hpt.prom");
    std::fs::create_dir(&path).expect("ours");
    let output = run(&["watch", "--duration", "1day", "--textfile", path.to_str().expect("UTF-8")]);
    assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
    assert!(stderr(&output).contains("hpt.prom: is a directory"), "{}", stderr(&output));
}

#[test]
fn a_foreign_capture_cannot_control_the_terminal() {
    let mut capture = capture_of("amd-epyc-zen3-kvm");
    let hostile = capture.facts().replace("\"kernel_release\": \"", "\"kernel_release\": \"\\u001b]0;title\\u0007");
    assert_ne!(capture.facts(), hostile);
    capture.set_facts(hostile);
    set(&mut capture, "proc/cpuinfo", format!("model name : {}", "x".repeat(900_000)));
    let (_folder, path) = written(capture.to_string());
    let output = run(&["probe", "--host", &path]);
    assert_eq!(code(&output), 0);
    assert!(!stdout(&output).contains(['\u{1b}', '\u{7}']), "{:?}", stdout(&output));
}

#[test]
fn a_reference_that_is_not_a_clock_is_refused_with_the_reason() {
    let output = run(&["calibrate", "--duration", "5ms", "--source", "monotonic", "--reference", "thread-cpu"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
    assert!(stderr(&output).contains("--reference thread-cpu does not count system-wide time"), "{}", stderr(&output));
}

#[test]
fn a_source_name_is_checked_even_without_a_measurement() {
    let output = run(&["calibrate", "--saved", "--source", "tcs"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("did you mean tsc"), "{}", stderr(&output));
}

#[test]
fn the_clocksource_is_not_changed_without_confirmation() {
    if !is_on_a_writable_file_system(CURRENT_CLOCKSOURCE) {
        return;
    }
    let current = || fs::read_to_string(CURRENT_CLOCKSOURCE).ok();
    let before = current();
    let sources = json(&run(&["clocksource", "--format", "json"]))["sources"].clone();
    let sources = sources.as_array().expect("rows");
    let Some(other) = sources.iter().find(|row| row["available"] == true && row["current"] == false) else {
        return skipped!("the kernel offers one clock source only");
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let name = other["name"].as_str().expect("a name");
    for arguments in
        [&["clocksource", "set", name, "--journal", store][..], &["clocksource", "compare", "--journal", store]]
    {
        let output = hpt().args(arguments).stdin(Stdio::null()).output().expect("built");
        let (expected, hint) = if is_root() { (2, "--yes to confirm") } else { (3, "run as root") };
        assert_eq!(code(&output), expected);
        assert!(stderr(&output).contains(hint), "{}", stderr(&output));
        assert_eq!(current(), before);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), 0, "nothing was written down");
}

#[test]
fn a_damaged_journal_is_reported_and_left_unchanged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    fs::write(folder.path().join("journal"), "nonsense").expect("ours");
    for arguments in [&["restore", "--journal", store][..], &["restore", "--list", "--journal", store]] {
        let output = run(arguments);
        assert_eq!(code(&output), 3);
        assert!(stderr(&output).contains("is damaged"), "{}", stderr(&output));
    }
    assert_eq!(fs::read_to_string(folder.path().join("journal")).expect("ours"), "nonsense");
}

#[test]
fn a_missing_journal_directory_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mistyped = folder.path().join("mistyped");
    let store = folder.path().to_str().expect("UTF-8");
    for list in [&["--list"][..], &[]] {
        let restore = |store: &str| run(&[&["restore", "--journal", store], list].concat());
        let output = restore(mistyped.to_str().expect("UTF-8"));
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("there is no directory"), "{}", stderr(&output));
        assert_eq!(code(&restore(store)), 0, "a folder without a journal has nothing to restore");
        std::os::unix::fs::symlink("/proc/nonexistent/journal", folder.path().join("journal")).expect("ours");
        let output = restore(store);
        assert_eq!(code(&output), 3);
        assert!(stderr(&output).contains("a dangling symbolic link"), "{}", stderr(&output));
        fs::remove_file(folder.path().join("journal")).expect("ours");
    }
    assert!(!mistyped.exists(), "nothing is made");
}

#[test]
fn a_journal_of_another_boot_is_void_and_one_of_another_processor_is_valid() {
    let boot = match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(boot) => boot,
        Err(error) => return skipped!("this machine has no boot ID: {error}"),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let journal = |boot: &str| {
        // The FNV-1a of an empty text.
        let head = "hpt-state 1\npurpose journal\nboot ";
        fs::write(
            folder.path().join("journal"),
            format!("{head}{}\nprocessor a/b/c\nchecksum cbf29ce484222325\n", boot.trim()),
        )
        .expect("ours");
        stdout(&run(&["restore", "--list", "--journal", store])).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = journal("00000000-3b44-4a4f-8a43-0c3a7f4c2a10");
    assert!(said.contains("an earlier boot") && !said.contains("processor a/b/c"), "{said}");
    let said = journal(&boot);
    assert!(said.contains("was written on another processor (a/b/c)") && !said.contains("earlier boot"), "{said}");
}

#[test]
fn binary_files_of_a_captured_machine_are_refused_with_reasons() {
    let mut machine = Capture::new();
    machine.set_facts(capture_of("amd-epyc-zen3-kvm").facts());
    let explained = |machine: &Capture| {
        let (_folder, path) = written(machine.to_string());
        run(&["clocksource", "-v", "--host", &path])
    };
    let noise: Vec<u8> = (0..5000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    for content in
        [&noise[..], b"", b"\n", b"\x1b]0;title\x07 tsc\n", b"6,1,2,-;tsc: Marking TSC unstable due to \x1b[31m\n"]
    {
        for path in [
            "dev/kmsg",
            "proc/cmdline",
            "sys/devices/system/clocksource/clocksource0/available_clocksource",
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
        ] {
            set(&mut machine, path, content);
        }
        let output = explained(&machine);
        assert!([0, 3].contains(&code(&output)));
        assert!(!stdout(&output).contains(['\u{1b}', '\u{7}']), "{:?}", stdout(&output));
    }
    machine.remove("dev/kmsg").expect("it was there");
    let output = explained(&machine);
    let words = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("/dev/kmsg does not exist"), "{words}");
}

/// GPIO lines that do not exist, with any other options in any order: hpt reports an error and
/// drives no line.
#[test]
fn no_options_of_gpio_end_in_a_panic_or_a_signal() {
    const SEED: u64 = 0x6770_696f;
    const VALUES: [&str; 16] = [
        "",
        "0s",
        "1us",
        "-1",
        "1",
        "1ms",
        "18446744073709551616",
        "gpiochip99999:1",
        "/dev/null:1",
        "/dev/full",
        "\u{fffd}",
        "a=b",
        "hdr=/dev/null",
        "spin",
        "end-to-end",
        "99",
    ];
    const OPTIONS: [&str; 13] = [
        "--chip",
        "--listen",
        "--timeout",
        "--interval",
        "--duration",
        "--count",
        "--figure",
        "--stop-above",
        "--write",
        "--cpu",
        "--fifo",
        "--output",
        "--input-line",
    ];
    let mut state = SEED;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    for _ in 0..60 {
        let mut arguments = vec!["latency", "gpio"];
        if next(2) == 0 {
            arguments.extend(["--output-line", "gpiochip99999:0", "--input-line", "no such line"]);
        }
        for _ in 0..=next(4) {
            arguments.extend([OPTIONS[next(OPTIONS.len())], VALUES[next(VALUES.len())]]);
        }
        let output = run(&arguments);
        assert_eq!(code(&output), 2, "{arguments:?}, seed {SEED:#x}");
        assert!(!stderr(&output).is_empty() && stdout(&output).is_empty(), "{arguments:?}");
    }
}
