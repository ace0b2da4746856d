//! Scarce or excessive resources: no threads, a container without an init process, tables of 512
//! CPUs.
//! Uses limits of a process only, and exhausts no resources of the system.

use std::{
    fmt::Write as _,
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Output},
};

use hpt_sys::host::{Capture, Entry, ReadRefused};

use crate::support::{
    capture_of, code, copied_for_everybody, is_root, json, run, runner, set, stderr, stdout, words, written,
};

/// Runs hpt as user 65534 with a limit that does not permit another thread.
fn without_threads(binary: &Path, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -u 1 2> /dev/null || ulimit -p 1; exec \"$@\"", "sh"]).arg(binary).args(arguments);
    command.current_dir(folder).env("XDG_STATE_HOME", "/proc/nonexistent").uid(65_534).gid(65_534);
    command.output().expect("a shell")
}

#[test]
fn without_threads_nothing_is_measured_and_the_reason_is_reported() {
    if !is_root() || !runner().is_empty() {
        return skipped!("only root can become another user, and an emulator needs threads itself");
    }
    let (copy, binary) = copied_for_everybody();
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).expect("root");
    for arguments in [
        &["latency", "timer", "--cpu", "any", "--duration", "1h"][..],
        &["latency", "timer", "--cpu", "all", "--duration", "1h"],
        &["latency", "poll", "--cpu", "any", "--duration", "1h"],
        &["latency", "stall", "--cpu", "any", "--duration", "1h"],
        &["latency", "timer", "--cpu", "any", "--duration", "1h", "--raw", "samples"],
    ] {
        let output = without_threads(&binary, folder.path(), arguments);
        assert_eq!(code(&output), 3, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("cannot create a thread"), "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty() && !folder.path().join("samples").exists(), "{arguments:?}");
    }
    // Commands that use threads for part of their result must not panic.
    let output = without_threads(&binary, folder.path(), &["watch", "--duration", "1s", "--cpu", "any"]);
    assert!((0..=2).contains(&code(&output)), "{}", stderr(&output));
    let page = ["report", "--part", "doctor,timer", "--short", "--output", "page.html"];
    let output = without_threads(&binary, folder.path(), &page);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let data = fs::read_to_string(folder.path().join("page.json")).expect("the parts before are kept");
    assert!(data.contains("\"rules\"") && data.contains("cannot create a thread"));
    drop(copy);
}

#[test]
fn hpt_run_reaps_orphans_as_the_init_process_of_a_container() {
    let within = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--"]).args(words()).args(["run", "--", "sh", "-c", script]);
        command.output()
    };
    if !is_root() || !runner().is_empty() || !within("exit 0").is_ok_and(|output| output.status.success()) {
        return skipped!("no process namespace can be made here");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pids = folder.path().join("pids");
    // Each orphan prints its process ID and ends. A zombie keeps its directory in /proc.
    let script = format!(
        "for i in 1 2 3; do (sh -c 'echo $$ >> {pids}' &); done
         while :; do
             sleep 0.1
             [ \"$(wc -l < {pids})\" = 3 ] || continue
             left=0; for pid in $(cat {pids}); do [ ! -e /proc/$pid ] || left=1; done
             [ $left = 1 ] || exit 7
         done 2> /dev/null",
        pids = pids.display()
    );
    let output = within(&script).expect("unshare");
    assert_eq!(code(&output), 7, "no zombie is left: {}", stderr(&output));
}

/// /proc/interrupts of a system with 512 CPUs: many interrupts, with that of the network card last.
fn interrupts(number: usize) -> String {
    const CPUS: usize = 512;
    let mut text = String::from("           ");
    (0..CPUS).for_each(|cpu| write!(text, "CPU{cpu:<8}").expect("memory"));
    text.push('\n');
    for interrupt in 1..=number {
        let is_last = interrupt == number;
        write!(text, "{interrupt:5}:").expect("memory");
        for cpu in 0..CPUS {
            let count = match (is_last, cpu) {
                (true, 3) => 3_768_467,
                (false, 0) => 12,
                _ => 0,
            };
            write!(text, "{count:11}").expect("memory");
        }
        let name = if is_last { "eth0" } else { "mlx5_comp0" };
        writeln!(text, "  IR-PCI-MSI-0000:00:00.0 {interrupt}-edge      {name}").expect("memory");
    }
    text
}

#[test]
fn the_last_of_4000_interrupts_is_read_and_an_endless_table_is_not_examined() {
    if !runner().is_empty() {
        return skipped!("an emulator takes minutes for it");
    }
    let mut big = capture_of("derived-pc-tuned");
    set(&mut big, "sys/devices/system/cpu/online", "0-511\n");
    set(&mut big, "proc/irq/4000/effective_affinity_list", "3\n");
    let verdict = |big: &Capture| {
        let (_folder, path) = written(big.to_string());
        let output = run(&["doctor", "--host", &path, "--cpu", "3", "--format", "json"]);
        let document = json(&output);
        let rules = document["rules"].as_array().expect("rules").clone();
        let rule = rules.into_iter().find(|rule| rule["rule"] == "interrupts").expect("it is there");
        (rule["verdict"].as_str().expect("text").to_owned(), rule.to_string())
    };
    let table = interrupts(4_000);
    assert!(table.len() > 20 << 20);
    set(&mut big, "proc/interrupts", &table);
    let (found, rule) = verdict(&big);
    assert!(found == "problem" && rule.contains("4000 (eth0, 3768467 times)"), "{rule}");
    // Above the limit, the omitted rest is unknown.
    big.insert("proc/interrupts", Entry::Unreadable(ReadRefused::TooLarge)).expect("a sound path");
    let (unknown, rule) = verdict(&big);
    assert_eq!(unknown, "unknown", "{rule}");
    // A larger capture is not read either.
    let line = table.lines().nth(1).expect("a line").to_owned() + "\n";
    set(&mut big, "proc/interrupts", line.repeat((65 << 20) / line.len()));
    let (_folder, path) = written(big.to_string());
    let refused = run(&["doctor", "--host", &path]);
    assert!(code(&refused) == 2 && stderr(&refused).contains("larger than 64 MiB"), "{}", stderr(&refused));
}
