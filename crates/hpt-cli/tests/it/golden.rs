//! The exact output of hpt on captured machines, in `snapshots/`. To update: `INSTA_UPDATE=always
//! cargo test`.

use serde_json::Value;

use crate::support::{code, commands, host, hosts, json, run, stdout};

/// The captured machines whose pages of `hpt probe` are stored: a virtual machine, a PC and a Raspberry Pi. The table of
/// all machines has the facts of the others.
const RENDERED: [&str; 3] = ["amd-epyc-zen3-kvm", "qemu-q35-fadt", "qemu-raspi3b"];

/// Returns what `hpt probe --json` says about a source, but for the description: one line per fact.
fn facts_of(source: &Value) -> String {
    let source = source.as_object().expect("a source is an object");
    let left_out = ["id", "description", "suitability"];
    let facts = source.iter().filter(|(key, value)| !left_out.contains(&key.as_str()) && !value.is_null());
    facts.map(|(key, value)| format!("    {key}: {value}\n")).collect()
}

/// The machines on which the facts of a source are the same, with these facts.
type Groups = Vec<(String, Vec<String>)>;

#[test]
fn sources_of_every_captured_machine() {
    let mut found: Vec<(String, Groups)> = Vec::new();
    for name in hosts() {
        let document = json(&run(&["probe", "--host", &host(&name), "--json"]));
        for source in document["sources"].as_array().expect("a list") {
            let id = source["id"].as_str().expect("a name").to_owned();
            if !found.iter().any(|(known, _)| *known == id) {
                found.push((id.clone(), Vec::new()));
            }
            let groups = &mut found.iter_mut().find(|(known, _)| *known == id).expect("just added").1;
            let facts = facts_of(source);
            match groups.iter_mut().find(|(known, _)| *known == facts) {
                Some((_, machines)) => machines.push(name.clone()),
                None => groups.push((facts, vec![name.clone()])),
            }
        }
    }
    let mut text = String::new();
    for (id, groups) in found {
        text += &format!("{id}\n");
        for (facts, machines) in groups {
            text += &format!("  {}\n{facts}", machines.join(" "));
        }
    }
    insta::assert_snapshot!("probe-sources", text);
}

#[test]
fn probe_of_every_captured_machine_fits_on_a_screen() {
    for name in hosts() {
        let output = run(&["probe", "--host", &host(&name)]);
        assert_eq!(code(&output), 0, "{name}");
        let lines = stdout(&output).lines().count();
        assert!((3..=24).contains(&lines), "{name}: {lines} lines\n{}", stdout(&output));
    }
}

#[test]
fn pages_of_probe() {
    for name in RENDERED {
        let machine = host(name);
        let document = json(&run(&["probe", "--host", &machine, "--json"]));
        let sources = document["sources"].as_array().expect("a list").iter().map(|source| source["id"].as_str());
        let sources: Vec<&str> = sources.map(|id| id.expect("a name")).collect();
        let pages = [&[], &["--all"][..]].into_iter().chain(sources.iter().map(std::slice::from_ref));
        let text: String = pages
            .map(|options| {
                let output = run(&[&["probe"], options, &["--host", &machine]].concat());
                let command = ["hpt probe", &options.concat()].join(" ");
                format!("$ {}\n{}exit {}\n\n", command.trim_end(), stdout(&output), code(&output))
            })
            .collect();
        insta::assert_snapshot!(format!("probe-{name}"), text);
    }
}

#[test]
fn clocksources_of_captured_machines() {
    for name in [
        "amd-epyc-zen3-kvm",
        "derived-tsc-dropped",
        "derived-no-sysfs",
        "derived-no-procfs",
        "derived-pc-untuned",
        "derived-stated-crystal-hpet-in-use",
        "qemu-raspi2b",
        "qemu-q35",
    ] {
        for (option, kind) in [(None, "clocksource"), (Some("--verbose"), "clocksource-verbose")] {
            let output = run(&[&["clocksource", "--host", &host(name)][..], option.as_slice()].concat());
            let text = stdout(&output);
            let lines = text.lines().count();
            assert!(option.is_some() || lines <= 24, "{name}: {lines} lines\n{text}");
            insta::assert_snapshot!(format!("{kind}-{name}"), format!("{text}exit {}\n", code(&output)));
        }
    }
}

#[test]
fn boot_parameters_of_clocksources_are_listed_only_on_request() {
    let text = |options: &[&str]| {
        stdout(&run(&[&["clocksource", "--host", &host("amd-epyc-zen3-kvm")][..], options].concat()))
    };
    let title = "Boot parameters that may help";
    assert!(!text(&[]).contains(title), "{}", text(&[]));
    assert!(text(&["--boot-parameters"]).contains(title) && text(&["-v"]).contains(title));
    assert!(text(&["--json"]).contains("tsc=recalibrate"));
    assert_eq!(code(&run(&["clocksource", "--boot-parameters", "set", "tsc"])), 2);
}

#[test]
fn problems_of_captured_machines() {
    for (name, cpu) in [
        ("amd-epyc-zen4-kvm-as-root", None),
        ("amd-epyc-zen5-kvm-limited", None),
        ("derived-kvm-nothing-stolen", Some("1")),
        ("derived-pc-untuned", None),
        ("derived-pc-untuned", Some("1")),
        ("derived-pc-tuned", None),
        ("derived-raspberry-pi-4-untuned", None),
        ("derived-raspberry-pi-4-tuned", Some("3")),
        ("derived-no-sysfs", None),
        ("derived-no-procfs", None),
        ("derived-tsc-dropped", None),
        ("qemu-raspi0", None),
        ("qemu-raspi3b-as-root", Some("0")),
    ] {
        let machine = host(name);
        let for_a_cpu = cpu.map(|cpu| ["--cpu", cpu]);
        let arguments =
            [&["doctor", "-v", "--host", &machine][..], for_a_cpu.as_ref().map_or(&[], |words| &words[..])].concat();
        let output = run(&arguments);
        let suffix = cpu.map(|cpu| format!("-cpu{cpu}")).unwrap_or_default();
        insta::assert_snapshot!(
            format!("doctor-{name}{suffix}"),
            format!("{}exit {}\n", stdout(&output), code(&output))
        );
    }
    let machine = host("derived-raspberry-pi-4-untuned");
    for format in ["json", "csv"] {
        let output = run(&["doctor", "--host", &machine, "--format", format]);
        insta::assert_snapshot!(format!("doctor-derived-raspberry-pi-4-untuned-{format}"), stdout(&output));
    }
}

#[test]
fn problems_of_captured_machines_on_one_screen() {
    for (name, options) in [
        ("amd-epyc-zen4-kvm-as-root", ""),
        ("derived-debian-13-stock", ""),
        ("derived-debian-13-stock", "--for benchmarks"),
        ("derived-debian-13-stock", "--for realtime --fail-on high"),
        ("derived-no-procfs", "--for realtime --fail-on low"),
        ("derived-pc-tuned", "--for realtime --fail-on low"),
        ("derived-pc-untuned", "--for timekeeping"),
        ("derived-pc-untuned", "--cpu 1"),
        ("derived-raspberry-pi-4-untuned", "--fail-on high"),
        ("derived-raspberry-pi-os-stock", ""),
    ] {
        let machine = host(name);
        let options: Vec<&str> = options.split_whitespace().collect();
        let output = run(&[&["doctor", "--host", &machine], &options[..]].concat());
        // Commands contain the path, and are never wrapped.
        let text = stdout(&output).replace(&machine, "my.capture");
        let options: String = options.iter().map(|word| format!("-{}", word.trim_start_matches('-'))).collect();
        insta::assert_snapshot!(format!("doctor-screen-{name}{options}"), format!("{text}exit {}\n", code(&output)));
    }
    let named = run(&["doctor", "wall-time", "swap", "--host", &host("derived-debian-13-stock")]);
    insta::assert_snapshot!("doctor-rules-derived-debian-13-stock", stdout(&named));
}

#[test]
fn one_captured_machine_as_json() {
    let output = run(&["probe", "--host", &host("amd-epyc-zen3-kvm"), "--json"]);
    insta::assert_snapshot!("probe-amd-epyc-zen3-kvm-json", stdout(&output));
}

#[test]
fn help_is_complete() {
    for words in commands() {
        let name = [&["help".to_owned()], &words[..]].concat().join("-");
        let output = run(&words.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>());
        assert_eq!(code(&output), 0);
        let text = stdout(&output);
        for promised in ["Exit codes:", "Examples:"] {
            assert!(text.contains(promised), "{name} lacks {promised}");
        }
        insta::assert_snapshot!(name, text);
    }
}
