//! Randomly modified files of other machines or users: reports, captures with their kernel logs and
//! device trees, and change logs.
//! Each run tests a few of each kind, or as many as fit into HPT_FUZZ_SECONDS seconds. The random
//! numbers are seeded, and a failure reports the seed.

use std::{
    fs,
    process::{Command, Output},
    time::{Duration, Instant},
};

use crate::support::{capture_of, contents, host, hosts, random::Random, run, runner, set, stderr, words, written};

/// Number of cases of each kind without HPT_FUZZ_SECONDS.
const CASES: u64 = 12;

/// Values that replace a number or a byte.
const ODD: [&str; 20] = [
    "0",
    "-1",
    "18446744073709551615",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999999",
    "4294967295",
    "1e308",
    "5e-324",
    "nan",
    "0x",
    "ffffffffffffffff",
    "0-8191",
    "8191",
    "-",
    "\u{1b}[31mX\u{7}",
    "0x7fffffffffffffff",
    "null",
    "\\u001b]0;owned\\u0007",
    "<script>alert(1)</script>",
];

/// Returns the positions of numbers, as ranges of bytes.
fn numbers(content: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut first = None;
    for (at, byte) in content.iter().chain([&b' ']).enumerate() {
        match (first, byte.is_ascii_digit()) {
            (None, true) => first = Some(at),
            (Some(begin), false) => {
                found.push((begin, at));
                first = None;
            }
            _ => {}
        }
    }
    found
}

fn changed(content: &[u8], random: &mut Random) -> Vec<u8> {
    let mut content = content.to_vec();
    let found = numbers(&content);
    match random.below(10) {
        0..=6 if !found.is_empty() => {
            let mut places: Vec<_> = (0..*random.of(&[1, 1, 2, 5, 50])).map(|_| *random.of(&found)).collect();
            // From the end, so that earlier positions remain valid.
            places.sort_unstable();
            places.dedup();
            for (begin, end) in places.into_iter().rev() {
                content.splice(begin..end, random.of(&ODD).bytes());
            }
        }
        7 => {
            let at = random.below(content.len() + 1);
            content.splice(at..at, random.of(&ODD).bytes());
        }
        8 => content.truncate(random.below(content.len() + 1)),
        _ => {
            for _ in 0..*random.of(&[1, 2, 8]) {
                let at = random.below(content.len());
                let byte = u8::try_from(random.below(256)).expect("a byte");
                if let Some(place) = content.get_mut(at) {
                    *place = byte;
                }
            }
        }
    }
    content
}

/// Runs hpt with a limit of one second of CPU time, which is independent of the load. An emulator
/// needs more.
fn run_briefly(arguments: &[&str]) -> Output {
    let limit = if runner().is_empty() { 1 } else { 60 };
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -t {limit}; exec \"$@\""), "sh"]).args(words()).args(arguments);
    command.env_remove("NO_COLOR").env("XDG_STATE_HOME", "/proc/nonexistent/state").output().expect("a shell")
}

#[track_caller]
fn is_sound(output: &Output, what: &str) {
    let (said, printed) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(!said.contains("panicked"), "{what}: {said}");
    let code = output.status.code();
    assert!(
        code.is_some_and(|code| (0..=3).contains(&code)),
        "{what}: {:?}, more than a second? {said}",
        output.status
    );
    let is_obeyed = |letter: char| letter.is_control() && !['\n', '\t'].contains(&letter);
    assert!(!said.contains(is_obeyed), "{what}: {said:?}");
    assert!(!printed.contains(is_obeyed), "{what}: {printed:?}");
}

/// Runs cases, each with its own seed, until there are enough.
fn for_each_case(kind: &str, mut case: impl FnMut(&mut Random, &str)) {
    let seconds = std::env::var("HPT_FUZZ_SECONDS").ok().and_then(|text| text.parse::<u64>().ok());
    let (began, least) = (Instant::now(), if runner().is_empty() { CASES } else { 2 });
    let mut seed = 0;
    while seconds.map_or(seed < least, |seconds| began.elapsed() < Duration::from_secs(seconds)) {
        seed += 1;
        case(&mut Random(seed), &format!("{kind} {seed}"));
    }
    if seconds.is_some() {
        use std::io::Write as _;
        let _ = std::io::stderr().write_all(format!("{kind}: {seed} cases\n").as_bytes());
    }
}

const LOOKS: [&[&str]; 12] = [
    &["probe"],
    &["probe", "tsc"],
    &["probe", "acpi-pm"],
    &["probe", "arm-counter"],
    &["probe", "bcm-systimer"],
    &["clocksource"],
    &["doctor"],
    &["doctor", "--cpu", "0"],
    &["doctor", "--cpu", "3", "--format", "json"],
    &["clocksource", "--format", "csv"],
    &["probe", "--format", "csv"],
    &["probe", "--format", "openmetrics"],
];

fn explain(capture: impl AsRef<[u8]>, random: &mut Random, what: &str) {
    let (_folder, path) = written(capture);
    for _ in 0..3 {
        let look = *random.of(&LOOKS);
        let output = run_briefly(&[look, &["--host", &path]].concat());
        is_sound(&output, &format!("{what}, {look:?}"));
    }
}

/// Changes some of the files of a capture that `is_meant` selects, and runs commands on it.
fn explain_changed_captures(kind: &str, is_meant: fn(&str) -> bool) {
    let have: Vec<_> = hosts()
        .into_iter()
        .map(|name| (capture_of(&name), name))
        .filter(|(capture, _)| contents(capture).iter().any(|(path, _)| is_meant(path)))
        .collect();
    for_each_case(kind, |random, what| {
        let (capture, name) = random.of(&have);
        let mut capture = capture.clone();
        for _ in 0..*random.of(&[1, 2, 5, 20, 60]) {
            let meant: Vec<_> = contents(&capture).into_iter().filter(|(path, _)| is_meant(path)).collect();
            let (path, content) = random.of(&meant);
            set(&mut capture, path, changed(content, random));
        }
        explain(capture.to_string(), random, &format!("{what}, {name}"));
    });
}

#[test]
fn changed_captures_are_explained_or_refused() {
    explain_changed_captures("capture", |_| true);
}

#[test]
fn changed_facts_are_explained_or_refused() {
    let names = hosts();
    for_each_case("facts", |random, what| {
        let name = random.of(&names);
        let mut capture = capture_of(name);
        let facts = changed(capture.facts().as_bytes(), random);
        capture.set_facts(String::from_utf8_lossy(&facts));
        explain(capture.to_string(), random, &format!("{what}, {name}"));
    });
}

#[test]
fn changed_texts_of_captures_are_explained_or_refused() {
    let names = hosts();
    for_each_case("text of a capture", |random, what| {
        let name = random.of(&names);
        let mut text = fs::read(host(name)).expect("readable");
        for _ in 0..*random.of(&[1, 2, 5]) {
            text = changed(&text, random);
        }
        explain(text, random, &format!("{what}, {name}"));
    });
}

#[test]
fn changed_kernel_logs_are_explained_or_refused() {
    explain_changed_captures("kernel log", |path| path == "dev/kmsg");
}

#[test]
fn changed_device_trees_are_explained_or_refused() {
    explain_changed_captures("device tree", |path| path.starts_with("proc/device-tree/"));
}

#[test]
fn changed_journals_are_listed_or_refused() {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot identity");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, victim) = (folder.path().join("store"), folder.path().join("victim"));
    fs::create_dir(&store).expect("ours");
    let entry = format!("change any\npath {}\nby hpt 1\nlasting yes\nbefore 17\nset 18\nset 19\n\n", victim.display());
    for_each_case("journal", |random, what| {
        fs::write(&victim, "18\n").expect("ours");
        let payload = changed(entry.repeat(random.below(4)).as_bytes(), random);
        // FNV-1a, as in hpt: content with a valid checksum is parsed further.
        let add = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let sum = payload.iter().fold(0xcbf2_9ce4_8422_2325, add);
        let head = format!("hpt-state 1\npurpose journal\nboot {}\nprocessor any\nchecksum {sum:016x}\n", boot.trim());
        let whole = [head.as_bytes(), &payload].concat();
        let journal = if random.below(3) == 0 { changed(&whole, random) } else { whole };
        fs::write(store.join("journal"), journal).expect("ours");
        // Only lists the settings: a restore locks them for the whole system, and a damaged change
        // log would keep other tests from changing them.
        let store = store.to_str().expect("UTF-8");
        is_sound(&run_briefly(&["restore", "--journal", store, "--list"]), what);
        assert_eq!(fs::read_to_string(&victim).expect("ours"), "18\n", "{what}: it is no setting");
    });
}

#[test]
fn changed_reports_are_drawn_or_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let word = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    // All parts if there is time for them.
    let parts = if std::env::var_os("HPT_FUZZ_SECONDS").is_some() {
        "doctor,probe,bench,timer,poll,stall,sleep"
    } else {
        "doctor,probe,timer"
    };
    let made = run(&["report", "--short", "--part", parts, "--output", &word("good.html")]);
    let data = fs::read(folder.path().join("good.json")).unwrap_or_else(|_| panic!("{}", stderr(&made)));
    for_each_case("report", |random, what| {
        fs::write(folder.path().join("bad.json"), changed(&data, random)).expect("ours");
        let (bad, good, page) = (word("bad.json"), word("good.json"), word("page.html"));
        let from = ["report", "--from", &bad, "--output", &page, "--force"];
        let compare = ["report", "--compare", &bad, &good, "--output", &page, "--force"];
        let arguments = if random.below(5) == 0 { &compare[..] } else { &from };
        is_sound(&run_briefly(arguments), what);
        if let Ok(page) = fs::read_to_string(&page) {
            assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{what}");
        }
        let _ = fs::remove_file(&page);
    });
}
