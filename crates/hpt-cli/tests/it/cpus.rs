//! CPUs that the affinity leaves out, as it leaves out isolated CPUs: a named CPU is used, and a refused one is reported
//! with its cause.

use hpt_realtime::allowed_cpus;

use crate::support::{code, command, hpt, json, run, runner, stderr, stdout, words};

/// Returns the words that run hpt with an affinity that contains only `cpu`; `None` without taskset.
fn restricted_to(cpu: usize) -> Option<Vec<String>> {
    let cpu = cpu.to_string();
    let works =
        std::process::Command::new("taskset").args(["-c", &cpu, "true"]).status().is_ok_and(|ended| ended.success());
    works.then(|| ["taskset".to_owned(), "-c".to_owned(), cpu].into_iter().chain(words()).collect())
}

/// Returns hpt restricted to the first CPU, the first CPU and the last CPU.
fn restricted() -> Option<(Vec<String>, usize, usize)> {
    let [first, .., last] = *allowed_cpus() else {
        skipped!("this test may run on one CPU only");
        return None;
    };
    let words = restricted_to(first);
    if words.is_none() {
        skipped!("taskset is not installed");
    }
    words.map(|words| (words, first, last))
}

#[test]
fn a_cpu_outside_the_affinity_can_be_named() {
    let Some((words, _, last)) = restricted() else { return };
    let last = last.to_string();
    for arguments in [
        &["latency", "timer", "--count", "3"][..],
        &["latency", "poll", "--count", "3"],
        &["latency", "stall", "--duration", "20ms"],
        &["latency", "timer", "--count", "3", "--best-effort"],
        &["sleep", "--count", "2", "--length", "100us", "--strategy", "std"],
    ] {
        let output = command(&words).args(arguments).args(["--cpu", &last, "--json"]).output().expect("taskset runs");
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        let document = json(&output);
        let cpu = if document["cpu"].is_null() { &document["results"][0]["cpu"] } else { &document["cpu"] };
        assert_eq!(cpu.to_string(), last, "{arguments:?}");
        assert_eq!(document["thread"]["refused"].as_array().map(Vec::len), Some(0), "{arguments:?}");
    }
    let load = ["latency", "timer", "--load", "cpu", "--load-cpus", &last, "--count", "3"];
    let load = runner().is_empty().then_some(&load[..]);
    if load.is_none() {
        skipped!("a load: the emulator is not the program that hpt would start again");
    }
    for arguments in [&["bench", "--count", "100"][..], &["doctor", "--measure"]].into_iter().chain(load) {
        let output = command(&words).args(arguments).args(["--cpu", &last]).output().expect("taskset runs");
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(&format!("CPU {last}")), "{arguments:?}: {}", stdout(&output));
    }
    let script = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$$/status";
    let output =
        command(&words).args(["run", "--cpu", &last, "--", "sh", "-c", script]).output().expect("taskset runs");
    assert_eq!((code(&output), stdout(&output).trim()), (0, last.as_str()), "{}", stderr(&output));
}

#[test]
fn a_restricted_affinity_limits_the_default_and_all_cpus() {
    let Some((words, first, _)) = restricted() else { return };
    for choice in [&[][..], &["--cpu", "all"]] {
        let measured = ["latency", "timer", "--count", "3", "--json"];
        let output = command(&words).args(measured).args(choice).output().expect("taskset runs");
        let rows = json(&output)["results"].as_array().expect("a list").clone();
        let cpus: Vec<_> = rows.iter().map(|row| row["cpu"].as_u64()).collect();
        assert_eq!(cpus, [Some(first as u64)], "{choice:?}: {}", stderr(&output));
    }
}

#[test]
fn with_best_effort_a_thread_whose_cpu_is_refused_is_measured_without_a_cpu() {
    for mode in [&["timer", "--count", "20"][..], &["poll", "--count", "20"], &["stall", "--duration", "20ms"]] {
        let output = run(&[&["latency"], mode, &["--cpu", "99999", "--best-effort", "--json"]].concat());
        assert_eq!(code(&output), 0, "{mode:?}: {}", stderr(&output));
        let document = json(&output);
        let refused = document["thread"]["refused"][0]["reason"].as_str().unwrap_or_default().to_owned();
        assert!(refused.starts_with("no such CPU: 99999 (present: "), "{mode:?}: {refused}");
        assert!(document["results"][0]["cpu"].is_null(), "{mode:?}: {}", document["results"]);
        assert_eq!(document["cpu_absences"].as_array().map(Vec::len), Some(0), "{mode:?}");
    }
}

#[test]
fn an_error_of_a_cpu_names_the_machines_cpus() {
    let output = hpt().args(["latency", "timer", "--cpu", "99999"]).output().expect("the binary was built");
    let present = std::fs::read_to_string("/sys/devices/system/cpu/present").unwrap_or_default();
    let expected = format!("hpt: error: no such CPU: 99999 (present: {})\n", present.trim());
    assert_eq!((code(&output), stderr(&output)), (2, expected));
}
