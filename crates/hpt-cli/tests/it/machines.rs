//! What hpt concludes about machines of which the truth is known: captures, each with a truth file of the same name.
//! The captures that the environment variable `HPT_CORPUS` names are of real machines, and the project's own are
//! derived.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use hpt_core::Host;
use hpt_sys::host::{Capture, Cpu, CpuList};
use serde_json::Value;

use crate::support::{code, json, run};

/// How a conclusion of hpt compares with the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Right,
    /// hpt states no conclusion.
    Unknown,
    Wrong,
}

/// Returns the conclusions of hpt about the machine in a capture, by the keys of truth files. A conclusion that hpt
/// does not reach is null.
fn conclusions(capture: &Path) -> BTreeMap<&'static str, Value> {
    let path = capture.to_str().expect("UTF-8");
    let document = |arguments: &[&str]| {
        let output = run(&[arguments, &["--json", "--host", path]].concat());
        assert_eq!(code(&output), 0, "{path}");
        json(&output)
    };
    let (doctor, probe) = (document(&["doctor", "--for", "realtime"]), document(&["probe"]));
    let clocksources = run(&["clocksource", "--host", path]);
    assert!([0, 3].contains(&code(&clocksources)), "{path}");
    let rules = doctor["rules"].as_array().expect("a list").iter();
    let rules: BTreeMap<&str, &Value> = rules.map(|rule| (rule["rule"].as_str().expect("a name"), rule)).collect();
    let said = |rule: &str| match rules[rule]["verdict"].as_str() {
        Some("unknown") => Value::Null,
        _ => rules[rule]["observed"].clone(),
    };
    let vdso = match rules["clock-by-system-call"]["verdict"].as_str() {
        Some("pass") => Value::Bool(true),
        Some("problem") => Value::Bool(false),
        _ => Value::Null,
    };
    let tsc = probe["sources"].as_array().expect("a list").iter().find(|source| source["id"] == "tsc");
    let opened = Capture::open(capture).expect("a capture");
    let facts = serde_json::from_str(opened.facts()).expect("facts");
    let online = Host::captured(opened, facts).online_cpus();
    BTreeMap::from([
        ("online", online.map_or(Value::Null, |cpus| cpus.to_string().into())),
        ("cpu", probe["machine"]["cpu"].clone()),
        (
            "hypervisor",
            probe["machine"]["hypervisor"].as_str().map_or(Value::Null, |name| Cpu::hypervisor_name(name).into()),
        ),
        ("clocksource", probe["machine"]["clocksource"].clone()),
        ("vdso", vdso),
        ("tsc_hz", tsc.map_or(Value::Null, |tsc| tsc["frequency_hz"].clone())),
        ("tsc_constant", tsc.map_or(Value::Null, |tsc| tsc["constant_rate"].clone())),
        ("clock_source", said("clock-source")),
        ("coarse_clock", said("coarse-clock")),
        ("fixes", rules["clock-source"]["fixes"].to_string().into()),
        ("governor", said("governor")),
        ("frequency_limit", said("frequency-limit")),
        ("idle_states", said("idle-states")),
        ("smt", said("smt-sibling")),
        ("throttled", said("slowed-down")),
        ("isolated", said("isolated-cpus")),
        ("stolen", said("stolen-time")),
        ("preemption", said("preemption")),
        ("preemption_fixes", rules["preemption"]["fixes"].to_string().into()),
        ("quota", said("cpu-quota")),
    ])
}

fn compare(key: &str, expected: &Value, concluded: &Value) -> Compared {
    let text = match concluded {
        Value::String(text) => text.to_lowercase(),
        other => other.to_string(),
    };
    let has = |word: &Value| text.contains(&word.as_str().expect("words").to_lowercase());
    let words = |name: &str| expected[name].as_array().into_iter().flatten();
    let is_right = match expected {
        Value::Null => concluded.is_null(),
        _ if concluded.is_null() || (key == "cpu" && text.ends_with("unnamed")) => return Compared::Unknown,
        Value::String(any) if any == "any" => true,
        Value::String(list) if key == "online" => CpuList::parse(list) == CpuList::parse(&text),
        Value::Number(rate) => {
            let (rate, concluded) = (rate.as_f64().expect("a rate"), concluded.as_f64().expect("a rate"));
            (concluded / rate - 1.0).abs() <= 500e-6
        }
        Value::String(_) => has(expected),
        Value::Object(kinds) => {
            assert!(kinds.keys().all(|kind| ["has", "any_of", "lacks"].contains(&kind.as_str())), "{expected}");
            let any_of = expected.get("any_of").is_none() || words("any_of").any(has);
            any_of && words("has").all(has) && !words("lacks").any(has)
        }
        expected => expected == concluded,
    };
    if is_right { Compared::Right } else { Compared::Wrong }
}

/// Compares the conclusions about each captured machine in `folder` with its truth file. Prints the counts, and returns
/// the number of right conclusions, and those that are wrong or missing.
fn examine(folder: &Path) -> (usize, Vec<String>) {
    let entries = fs::read_dir(folder).expect("the directory of truth files");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(!files.is_empty(), "no truth file in {}", folder.display());
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut differences = Vec::new();
    for file in &files {
        let name = file.file_stem().expect("a name").to_str().expect("UTF-8");
        let truth: Value = serde_json::from_slice(&fs::read(file).expect("readable")).expect("a truth file");
        let concluded = conclusions(&folder.join(format!("{name}.capture")));
        for (key, expected) in truth["must_conclude"].as_object().expect("facts") {
            let concluded = concluded.get(key.as_str()).unwrap_or_else(|| panic!("{name}: {key} is not a fact"));
            let compared = compare(key, expected, concluded);
            counts.entry(key.clone()).or_default()[compared as usize] += 1;
            if compared != Compared::Right {
                differences.push(format!("{name}: {key}: {compared:?}: expected {expected}, concluded {concluded}"));
            }
        }
    }
    let total = counts.values().fold([0; 3], |sum, counts| [0, 1, 2].map(|index| sum[index] + counts[index]));
    println!("{} machines: fact, right, unknown, wrong", files.len());
    for (key, [right, unknown, wrong]) in counts.iter().chain([(&"all".to_owned(), &total)]) {
        println!("{key:16} {right:4} {unknown:4} {wrong:4}");
    }
    (total[0], differences)
}

#[test]
fn every_conclusion_about_each_kind_of_machine_is_right() {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let (right, differences) = examine(&machines);
    assert!(right > 50 && differences.is_empty(), "{right} right; not right:\n{}", differences.join("\n"));
    for file in fs::read_dir(&machines).expect("the directory").map(|entry| entry.expect("readable").path()) {
        if file.extension().is_some_and(|extension| extension == "capture") {
            let capture = Capture::open(&file).expect("a capture");
            assert!(capture.about().starts_with("Derived "), "{} does not say that it is derived", file.display());
            assert!(file.with_extension("json").exists(), "{} has no truth file", file.display());
        }
    }
}

#[test]
fn no_conclusion_about_a_real_machine_is_wrong() {
    let Some(corpus) = std::env::var_os("HPT_CORPUS") else {
        skipped!("HPT_CORPUS names no directory with captures of real machines and their truth files");
        return;
    };
    let (right, differences) = examine(Path::new(&corpus));
    let wrong: Vec<&String> = differences.iter().filter(|difference| difference.contains(": Wrong: ")).collect();
    assert!(right > 0 && wrong.is_empty(), "{right} right; not right:\n{}", differences.join("\n"));
}
