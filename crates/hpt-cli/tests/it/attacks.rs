//! Attacks by another user on root's hpt: one test for each row of the table in SECURITY.md. The
//! attacker is user 65534.
//! Attacks files only: system settings are not changed.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use hpt_sys::host::{Capture, Entry};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

use crate::support::{capture_of, code, is_root, pages::project, run, runner, set, stderr, stdout, words};

const ATTACKER: u32 = 65_534;
const SECRET: &str = "root:$6$secret:19000::::::";

/// A directory with a file of root that the attacker cannot read, and a subdirectory like /tmp.
struct Scene(tempfile::TempDir);

impl Scene {
    /// Returns `None` if the tests do not run as root: only root's hpt is attacked.
    fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let scene = Self(tempfile::tempdir().expect("a temporary folder"));
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        mode(scene.0.path(), 0o755);
        fs::create_dir(scene.path("sticky")).expect("ours");
        mode(&scene.path("sticky"), 0o1777);
        fs::write(scene.path("victim"), SECRET).expect("ours");
        mode(&scene.path("victim"), 0o600);
        Some(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    /// Runs a shell script as the attacker. `$1` is the directory of the scene.
    fn attacker(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-ec", script, "sh"]).arg(self.0.path()).uid(ATTACKER).gid(ATTACKER).current_dir("/");
        command
    }

    #[track_caller]
    fn attack(&self, script: &str) {
        let output = self.attacker(script).output().expect("a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[track_caller]
    fn is_unharmed(&self, after: &str) {
        assert_eq!(fs::read_to_string(self.path("victim")).expect("root reads it"), SECRET, "{after}");
    }

    /// A capture, which the attacker sends to root.
    fn capture(&self, content: &impl ToString) -> String {
        let path = self.path("sticky/my.capture");
        fs::write(&path, content.to_string()).expect("ours");
        self.give_away(&path);
        self.word("sticky/my.capture")
    }

    fn give_away(&self, path: &Path) {
        let given = Command::new("chown").args(["-hR", "65534:65534"]).arg(path).status().expect("chown");
        assert!(given.success());
    }
}

/// Runs the rest of the test if it runs as root.
macro_rules! scene {
    () => {
        match Scene::new() {
            Some(scene) => scene,
            None => return skipped!("only root can be attacked by another user"),
        }
    };
}

/// Returns a change log as hpt writes it, with one change. Its checksum is the FNV-1a of the
/// payload.
fn journal(payload: &str) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot identity");
    let add = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = payload.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, add);
    format!("hpt-state 1\npurpose journal\nboot {}\nprocessor any\nchecksum {sum:016x}\n{payload}", boot.trim())
}

#[test]
fn a_forged_journal_does_not_make_root_write_a_file() {
    let scene = scene!();
    fs::write(scene.path("victim"), "core").expect("ours");
    let forged = journal(&format!(
        "change any\npath {}\nby hpt\nlasting yes\nbefore |/tmp/evil\nset core\n\n",
        scene.word("victim")
    ));
    fs::write(scene.path("sticky/forged"), forged).expect("ours");
    // Modes and owners of an earlier version under umask 0, of a user group under umask 002, and of
    // a directory and a file that the attacker owns.
    for (folder, file, owner) in [(0o777, 0o666, 0), (0o755, 0o666, 0), (0o777, 0o600, 0), (0o755, 0o644, ATTACKER)] {
        let store = scene.path("store");
        fs::create_dir(&store).expect("ours");
        fs::write(store.join("journal"), fs::read(scene.path("sticky/forged")).expect("ours")).expect("ours");
        for (path, mode) in [(store.join("journal"), file), (store.clone(), folder)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
            std::os::unix::fs::chown(&path, Some(owner), None).expect("root");
        }
        let _ = scene.attacker("cat \"$1/sticky/forged\" > \"$1/store/journal\"").output().expect("a shell");
        let output = run(&["restore", "--journal", &scene.word("store")]);
        assert_ne!(code(&output), 0, "{}", stdout(&output));
        assert_eq!(fs::read_to_string(scene.path("victim")).expect("ours"), "core", "{folder:o} {file:o} {owner}");
        fs::remove_dir_all(&store).expect("ours");
    }
    // Even root's own change log can restore system settings only.
    fs::create_dir(scene.path("own")).expect("ours");
    fs::copy(scene.path("sticky/forged"), scene.path("own/journal")).expect("ours");
    let output = run(&["restore", "--journal", &scene.word("own")]);
    assert!(code(&output) != 0 && stdout(&output).contains("is not a setting"), "{}", stdout(&output));
    assert_eq!(fs::read_to_string(scene.path("victim")).expect("ours"), "core");
}

#[test]
fn a_step_of_a_check_does_not_make_root_write_a_file() {
    let scene = scene!();
    let path = scene.path("sticky/check.toml");
    for option in ["--raw", "--write", "--svg", "--journal"] {
        let format = if option == "--write" { "line=" } else { "" };
        let victim = scene.word("victim");
        for words in [format!("\"{option}\", \"{format}{victim}\""), format!("\"{option}={format}{victim}\"")] {
            let step = format!(
                "[[step]]\nname = \"a\"\ncommand = [\"latency\", \"timer\", \"-n\", \"3\", {words}]\nlimits = [\"max=1h\"]\n"
            );
            fs::write(&path, step).expect("ours");
            scene.give_away(&path);
            let output = run(&["check", &scene.word("sticky/check.toml")]);
            assert_eq!(code(&output), 2, "{words}: {}", stderr(&output));
            scene.is_unharmed(&words);
        }
    }
}

#[test]
fn a_link_in_place_of_an_output_file_does_not_reach_a_file_of_root() {
    let scene = scene!();
    scene.attack(
        "for name in out.prom out.txt out.svg out.raw; do ln -s ../victim \"$1/sticky/$name\"; done; ln -s .. \"$1/sticky/folder\"",
    );
    let timer = ["latency", "timer", "--count", "3", "--cpu", "any"];
    let sticky = |name: &str| scene.word(&format!("sticky/{name}"));
    for (option, value) in [
        ("--textfile", sticky("out.prom")),
        ("--write", format!("cyclictest={}", sticky("out.txt"))),
        ("--svg", sticky("out.svg")),
        ("--raw", sticky("out.raw")),
        ("--write", format!("cyclictest={}", sticky("folder/victim"))),
    ] {
        let output = run(&[&timer[..], &[option, &value]].concat());
        scene.is_unharmed(option);
        assert_eq!(code(&output), 3, "{option}: {}", stderr(&output));
        assert!(stderr(&output).contains("belongs to user 65534"), "{option}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{option}: it was measured before it was refused");
    }
    // Root's own links are followed.
    symlink("own.txt", scene.path("link.txt")).expect("ours");
    let output = run(&[&timer[..], &["--write", &format!("cyclictest={}", scene.word("link.txt"))]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(scene.path("own.txt").is_file());
}

#[test]
fn a_hard_link_to_a_file_of_root_is_not_written_to() {
    let scene = scene!();
    // With fs.protected_hardlinks=0, the attacker can create it for a file on the same file system.
    fs::hard_link(scene.path("victim"), scene.path("sticky/out.raw")).expect("ours");
    let output = run(&["latency", "timer", "--count", "3", "--cpu", "any", "--raw", &scene.word("sticky/out.raw")]);
    scene.is_unharmed("--raw");
    assert!(code(&output) == 3 && stderr(&output).contains("hard link"), "{}", stderr(&output));
}

#[test]
fn a_capture_does_not_show_files_outside_of_it() {
    let scene = scene!();
    let whole = capture_of("amd-epyc-zen3-kvm").to_string();
    let look = |capture: &str| {
        let outputs = [&["probe"][..], &["doctor"], &["clocksource"]]
            .map(|command| run(&[command, &["--host", capture, "--format", "json"]].concat()));
        let said = outputs.map(|output| stdout(&output) + &stderr(&output)).concat();
        assert!(!said.contains("$6$secret"), "{said}");
        said
    };
    // Links in a capture are reported, but not followed.
    let mut links = capture_of("amd-epyc-zen3-kvm");
    for (path, target) in [
        ("proc/device-tree/model", scene.word("victim")),
        ("proc/swaps", "../../victim".to_owned()),
        ("dev", "/dev".to_owned()),
    ] {
        links.insert(path, Entry::Link(target)).expect("a sound path");
    }
    assert!(look(&scene.capture(&links)).contains("\"probe\""));
    // Paths that leave the directory are rejected, and so is a base that is a link or in another
    // directory.
    let path = scene.word("victim");
    for hostile in [
        whole.replace("file proc/cpuinfo", "file ../../victim"),
        whole.replace("file proc/cpuinfo", &format!("file {path}")),
        "hpt-capture 1\nbase link.capture\nabout\nend\n".to_owned(),
        "hpt-capture 1\nbase ../victim\nabout\nend\n".to_owned(),
        format!("hpt-capture 1\nbase {path}\nabout\nend\n"),
    ] {
        let capture = scene.capture(&hostile);
        scene.attack("ln -sf ../victim \"$1/sticky/link.capture\"");
        assert!(!look(&capture).contains("\"probe\""));
    }
    // Nothing is shown of a file that is not a capture.
    look(&scene.word("sticky/link.capture"));
    look(&path);
}

#[test]
fn a_capture_opens_no_device_and_no_pipe() {
    let scene = scene!();
    let derived = scene.capture(&"hpt-capture 1\nbase pipe.capture\nabout\nend\n");
    // The pipe represents a watchdog device: opening it has a visible effect, because the writer
    // continues as soon as a reader opens it.
    scene.attack("mkfifo \"$1/sticky/pipe.capture\"");
    for capture in [derived, scene.word("sticky/pipe.capture")] {
        let script = "exec 3> \"$1/sticky/pipe.capture\"; : > \"$1/sticky/opened\"";
        let mut writer = scene.attacker(script).spawn().expect("a shell");
        let output = run(&["doctor", "--host", &capture]);
        assert_eq!(code(&output), 2);
        // The writer has ended only if the pipe was opened.
        let ended = writer.try_wait().expect("a child").is_some();
        let opened = ended || scene.path("sticky/opened").exists();
        writer.kill().expect("a child");
        writer.wait().expect("a child");
        assert!(!opened, "{capture} was opened");
    }
}

/// The directory of the manual, and of the options that name a directory: each through a link of the attacker.
#[test]
fn a_link_in_place_of_a_directory_does_not_reach_a_directory_of_root() {
    let scene = scene!();
    fs::create_dir(scene.path("rootd")).expect("ours");
    scene.attack("ln -s \"$1/rootd\" \"$1/sticky/dl\"");
    scene.attack("mkdir \"$1/sticky/man\"; ln -s \"$1/victim\" \"$1/sticky/man/hpt.1\"");
    let (linked, below) = (scene.word("sticky/dl"), scene.word("sticky/dl/sub"));
    for arguments in [
        &["manual", &scene.word("sticky/man")][..],
        &["manual", &linked],
        &["manual", &below],
        &["calibrate", "--source", "monotonic", "--duration", "10ms", "--save", "--state-dir", &linked],
        &["calibrate", "--source", "monotonic", "--duration", "10ms", "--save", "--state-dir", &below],
        &["restore", "--journal", &below],
        &["report", "--short", "--part", "probe", "-o", &scene.word("page.html"), "--svg", &below],
    ] {
        let output = run(arguments);
        assert!(code(&output) > 0, "{arguments:?}: {}", stdout(&output));
        let there = fs::read_dir(scene.path("rootd")).expect("ours").count();
        assert_eq!(there, 0, "{arguments:?}: {}", stderr(&output));
        scene.is_unharmed("hpt manual");
    }
}

/// It is refused before a fix is tried.
#[test]
fn a_link_in_place_of_the_directory_of_kept_fixes_does_not_reach_a_directory_of_root() {
    let scene = scene!();
    fs::create_dir(scene.path("rootd")).expect("ours");
    scene.attack("ln -s \"$1/rootd\" \"$1/sticky/dl\"");
    let kept = scene.word("sticky/dl/sub");
    let output = run(&["doctor", "throttling", "--for", "realtime", "--try", "--yes", "--keep", "--output", &kept]);
    if stdout(&output).starts_with("Nothing to try") {
        return skipped!("real-time threads are not throttled here");
    }
    assert_eq!(code(&output), 3, "{}", stdout(&output));
    assert!(stderr(&output).contains("belongs to user 65534"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(scene.path("rootd")).expect("ours").count(), 0);
}

#[test]
fn a_file_for_a_check_opens_no_device_and_no_pipe() {
    let scene = scene!();
    scene.attack("mkfifo \"$1/sticky/pipe.toml\"; ln -s \"$1/victim\" \"$1/sticky/link.toml\"");
    let script = "exec 3> \"$1/sticky/pipe.toml\"; : > \"$1/sticky/opened\"";
    let mut writer = scene.attacker(script).spawn().expect("a shell");
    for command in [&["check"][..], &["latency", "edges"]] {
        let pipe = scene.word("sticky/pipe.toml");
        let output = run(&[command, &[pipe.as_str()]].concat());
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        assert!(stderr(&output).contains("it is not a regular file"), "{}", stderr(&output));
    }
    let ended = writer.try_wait().expect("a child").is_some();
    let opened = ended || scene.path("sticky/opened").exists();
    writer.kill().expect("a child");
    writer.wait().expect("a child");
    assert!(!opened, "the pipe was opened");
    for command in [&["check"][..], &["latency", "edges"]] {
        let link = scene.word("sticky/link.toml");
        let output = run(&[command, &[link.as_str()]].concat());
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("does not follow the symbolic link"), "{}", stderr(&output));
    }
}

/// The attacker exchanges a capture and a link to a pipe, again and again.
#[test]
fn a_capture_that_is_exchanged_opens_no_device_and_no_pipe() {
    let scene = scene!();
    let capture = scene.capture(&capture_of("qemu-q35"));
    scene.attack("mkfifo \"$1/sticky/pipe\"; ln -s pipe \"$1/sticky/link\"");
    let script = "exec 3> \"$1/sticky/pipe\"; : > \"$1/sticky/opened\"";
    let mut writer = scene.attacker(script).spawn().expect("a shell");
    let is_over = AtomicBool::new(false);
    let outcomes: BTreeSet<_> = thread::scope(|scope| {
        // The attacker's program. In one system call, each name gets the file of the other.
        scope.spawn(|| {
            let link = scene.path("sticky/link");
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &capture, CWD, &link, RenameFlags::EXCHANGE).expect("both exist");
            }
        });
        let outcomes = (0..60).map(|_| code(&run(&["probe", "--host", &capture]))).collect();
        is_over.store(true, Ordering::Relaxed);
        outcomes
    });
    let opened = writer.try_wait().expect("a child").is_some() || scene.path("sticky/opened").exists();
    writer.kill().expect("a child");
    writer.wait().expect("a child");
    assert!(!opened, "the pipe was opened: {outcomes:?}");
}

/// The attacker runs programs with the names of time daemons and of irqbalance.
#[test]
fn a_program_of_another_user_is_no_daemon_of_the_system() {
    const NAMES: [&str; 4] = ["chronyd", "systemd-timesyncd", "ntpd", "irqbalance"];
    let scene = scene!();
    let doctor = || {
        let output = run(&["doctor", "time-daemons", "irqbalance", "--for", "realtime", "--format", "json"]);
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        document["rules"].clone()
    };
    let before = doctor();
    let sleeps = Command::new("sh").args(["-c", "command -v sleep"]).output().expect("a shell");
    let mut programs: Vec<_> = NAMES
        .iter()
        .map(|name| {
            let program = scene.path(&format!("sticky/{name}"));
            fs::copy(stdout(&sleeps).trim(), &program).expect("a program");
            scene.give_away(&program);
            Command::new(program).arg("1000").uid(ATTACKER).gid(ATTACKER).spawn().expect("a program")
        })
        .collect();
    let beside = doctor();
    for program in &mut programs {
        program.kill().expect("a child");
        program.wait().expect("a child");
    }
    assert_eq!(before, beside);
}

/// The attacker owns the directory into which the service links its files as root.
#[test]
fn the_service_makes_no_links_in_a_directory_of_root() {
    let scene = scene!();
    let unit = fs::read_to_string(project().join("dist/systemd/hpt-metrics.service")).expect("a unit");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStartPost=+sh -c ")).expect("a line for root");
    let script = line.trim_matches('\'').replace("$$", "$");
    let linked = scene.word("owned/node-exporter");
    let script = script.replace("/var/lib/prometheus/node-exporter", &linked);
    for folder in ["owned", "owned/node-exporter", "rootd"] {
        fs::create_dir(scene.path(folder)).expect("ours");
    }
    scene.give_away(&scene.path("owned"));
    let create = || Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let output = create();
    if stderr(&output).contains("not found") {
        return skipped!("there is no systemd-tmpfiles");
    }
    assert_eq!(fs::read_dir(&linked).expect("there").count(), 4, "{}", stderr(&output));
    scene.attack("rm -r \"$1/owned/node-exporter\"; ln -s \"$1/rootd\" \"$1/owned/node-exporter\"");
    let output = create();
    assert_eq!(fs::read_dir(scene.path("rootd")).expect("ours").count(), 0, "{}", stderr(&output));
    assert!(!output.status.success());
}

/// Devices and programs have chosen what the kernel logs, and a machine has serial numbers under several names.
#[test]
fn a_capture_keeps_nothing_private_of_the_kernel_log() {
    const LOG: &str = "6,1,1,-;tsc: Refined TSC clocksource calibration: 2000.000 MHz
6,2,2,-;usb 1-1: SerialNumber: private-TSC-1
6,3,3,-;input: hpet of private-2 as /devices/1
6,4,4,-;audit: type=1400 avc: granted { setsched } for comm=\"private-3\"
6,5,5,-;EXT4-fs (vg-hpet-private-4): mounted filesystem
12,6,6,-;tsc: of the program private-5
";
    const PROCESSORS: &str = "processor\t: 0\nmodel name\t: any\nSerial\t\t: private-6\nSystem Serial\t: private-7\nprocessor 0: version = FF,  identification = private-8,  machine = 3931\n";
    let scene = scene!();
    if !runner().is_empty() {
        return skipped!("the emulator needs its own files");
    }
    fs::write(scene.path("log"), LOG).expect("ours");
    fs::write(scene.path("processors"), PROCESSORS).expect("ours");
    let script = "mount --bind \"$1/log\" /dev/kmsg && mount --bind \"$1/processors\" /proc/cpuinfo || exit 42; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(scene.0.path()).args(words()).args(["capture", "-"]);
    let output = command.output().expect("unshare");
    if [1, 42].contains(&code(&output)) {
        return skipped!("no file can be mounted over another here");
    }
    let capture = stdout(&output);
    assert!(capture.contains("Refined TSC") && capture.contains("model name"), "{capture}");
    let private: Vec<_> = capture.lines().filter(|line| line.contains("private")).collect();
    assert!(private.is_empty(), "{private:?}");
}

/// Root replaces a file that the attacker made beforehand in a directory for all users.
#[test]
fn a_result_is_not_given_to_the_user_who_made_the_file_first() {
    let scene = scene!();
    scene.attack("umask 0; : > \"$1/sticky/result.prom\"");
    let output = run(&["probe", "--textfile", &scene.word("sticky/result.prom")]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let made = fs::metadata(scene.path("sticky/result.prom")).expect("written");
    assert_eq!((made.uid(), made.mode() & 0o777), (0, 0o644));
}

#[test]
fn nothing_but_a_regular_file_is_replaced() {
    let scene = scene!();
    let made = Command::new("mkfifo").arg(scene.path("page.html")).arg(scene.path("page.json")).status();
    assert!(made.expect("mkfifo").success());
    let device = Command::new("mknod").arg(scene.path("device")).args(["c", "1", "3"]).status();
    assert!(device.expect("mknod").success());
    let socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).expect("ours");
    for (arguments, path) in [
        (&["report", "--short", "--part", "probe", "--force", "-o"][..], "page.html"),
        (&["report", "--short", "--part", "probe", "--force", "-o"], "device"),
        (&["report", "--short", "--part", "probe", "--force", "-o"], "socket"),
        (&["capture", "--force"], "device"),
        (&["check", "--init", "--force"], "page.json"),
    ] {
        let before = fs::symlink_metadata(scene.path(path)).expect("there");
        let output = run(&[arguments, &[scene.word(path).as_str()]].concat());
        let said = stderr(&output);
        assert!(code(&output) > 0 && said.contains("it is not a regular file"), "{arguments:?} {path}: {said}");
        let after = fs::symlink_metadata(scene.path(path)).expect("there");
        assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()), "{arguments:?} {path}");
    }
    drop(socket);
}

#[test]
fn a_capture_by_root_is_readable_only_by_root() {
    let scene = scene!();
    let about = |name: &str| fs::symlink_metadata(scene.path(name)).expect("it is there");
    let output = run(&["capture", &scene.word("sticky/new.capture")]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!((about("sticky/new.capture").mode() & 0o7777, about("sticky/new.capture").uid()), (0o600, 0));
    // A link to a file of root, a hard link to it, an empty file of the attacker, and a directory
    // that is a link.
    scene.attack("cd \"$1/sticky\"; ln -s ../victim link.capture; : > empty.capture; ln -s .. folder");
    fs::hard_link(scene.path("victim"), scene.path("sticky/name.capture")).expect("ours");
    for (refused, expected) in [("link.capture", 2), ("name.capture", 2), ("folder/new.capture", 3)] {
        let output = run(&["capture", &scene.word(&format!("sticky/{refused}"))]);
        assert_eq!(code(&output), expected, "{refused}");
        scene.is_unharmed(refused);
    }
    for replaced in ["link.capture", "name.capture", "empty.capture"] {
        let name = format!("sticky/{replaced}");
        let output = run(&["capture", "--force", &scene.word(&name)]);
        assert_eq!(code(&output), 0, "{replaced}: {}", stderr(&output));
        scene.is_unharmed(replaced);
        assert_eq!((about(&name).mode() & 0o7777, about(&name).uid(), about(&name).is_file()), (0o600, 0, true));
    }
    assert_eq!(code(&run(&["capture", "--force", &scene.word("sticky/folder/new.capture")])), 3);
    assert!(!scene.path("new.capture").exists());
}

#[test]
fn a_hostile_file_cannot_control_the_terminal() {
    let scene = scene!();
    let escape = "\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m";
    let report = format!(
        r#"{{"schema":2,"kind":"report","hpt":"1","name":null,"machine":{{}},"emulated_by":null,"started_at":"","elapsed_s":0,"interrupted":false,"parts":[{{"name":"a","command":"b","state":"{escape}","reason":null,"elapsed_s":0}}],"documents":{{}},"notes":[]}}"#
    );
    let named = scene.path("sticky/\u{1b}[2Jreport.json");
    fs::write(&named, report).expect("ours");
    let facts = capture_of("amd-epyc-zen3-kvm").to_string().replace("\"enabled\"", &format!("\"{escape}\""));
    let capture = &scene.capture(&facts);
    let out = scene.word("page.html");
    for arguments in [
        &["report", "--from", named.to_str().expect("UTF-8"), "--output", &out][..],
        &["probe", "--host", capture],
        &["doctor", "--host", capture],
    ] {
        let output = run(arguments);
        let said = stdout(&output) + &stderr(&output);
        assert!(code(&output) == 2 && !said.is_empty());
        assert!(!said.contains(|letter: char| letter.is_control() && letter != '\n'), "{said:?}");
    }
}

#[test]
fn a_cell_of_a_hostile_capture_is_not_a_formula() {
    let scene = scene!();
    let mut capture = capture_of("amd-epyc-zen3-kvm");
    for file in ["available_clocksource", "current_clocksource"] {
        let path = format!("sys/devices/system/clocksource/clocksource0/{file}");
        set(&mut capture, &path, "=HYPERLINK(0)\n");
    }
    let output = run(&["clocksource", "--host", &scene.capture(&capture), "--format", "csv"]);
    let table = stdout(&output);
    assert!(table.contains("'=HYPERLINK"), "{table}");
    assert!(!table.lines().any(|line| line.split(',').any(|cell| cell.trim_matches('"').starts_with('='))), "{table}");
}

#[test]
fn a_hostile_list_of_cpus_takes_no_time() {
    let scene = scene!();
    if !runner().is_empty() {
        return skipped!("an emulator takes its own time");
    }
    let mut capture = capture_of("amd-epyc-zen3-kvm");
    let mut list = ["0-8191"; 149_000].join(",");
    list.truncate((1 << 20) - 1);
    for file in ["isolated", "nohz_full", "online"] {
        set(&mut capture, &format!("sys/devices/system/cpu/{file}"), &list);
    }
    // Limits CPU time, which is independent of the load, and memory. With the whole input, a list took half a
    // minute, and gigabytes.
    let doctor = |capture: &Capture| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -t 5 -v 1000000; exec \"$@\"", "sh"]).args(words());
        let output = command.args(["doctor", "--host", &scene.capture(capture)]).output().expect("a shell");
        assert!((0..=2).contains(&code(&output)), "{}", stderr(&output));
    };
    doctor(&capture);
    for parameter in ["isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"] {
        let mut capture = capture_of("amd-epyc-zen3-kvm");
        set(&mut capture, "proc/cmdline", format!("{parameter}={}", ["0-8191"; 60_000].join(",")));
        doctor(&capture);
    }
}
