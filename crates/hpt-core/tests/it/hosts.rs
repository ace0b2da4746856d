//! Every source on every captured machine: listed once, with a reason where it is not to be had. Nothing is opened.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use hpt_core::{
    Host, Unavailable,
    host::Facts,
    source::{self, KernelVerdict, ProbeReport, StatedBy},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts")
}

fn host(name: &str) -> Host {
    let root = folder().join(name);
    let text = fs::read_to_string(root.join("facts.json")).expect("every captured machine has its facts");
    let facts: Facts = serde_json::from_str(&text).expect("facts.json is what hpt probe --capture writes");
    Host::captured(root, facts)
}

fn all() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("the captured machines are beside the tests");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert!(names.len() >= 10, "{names:?}");
    names
}

fn report(host_name: &str, id: &str) -> ProbeReport {
    let reports = source::probe(&host(host_name));
    reports.into_iter().find(|report| report.id.as_str() == id).expect("every source is listed on every machine")
}

#[test]
fn every_source_is_listed_once_on_every_machine() {
    for name in all() {
        let mut listed: BTreeMap<String, usize> = BTreeMap::new();
        for report in source::probe(&host(&name)) {
            *listed.entry(report.id.to_string()).or_default() += 1;
            assert!(!report.description.is_empty(), "{} on {name} is not described", report.id);
        }
        for id in source::names() {
            assert_eq!(listed.get(id.as_str()), Some(&1), "{id} on {name}");
        }
    }
}

#[test]
fn nothing_is_opened_on_a_captured_machine() {
    for name in all() {
        for id in source::names() {
            assert!(source::open(&host(&name), id.as_str()).is_err(), "{id} on {name}");
        }
    }
}

#[test]
fn every_machine_says_where_it_is_from() {
    for name in all() {
        let about = fs::read_to_string(folder().join(&name).join("about.txt")).unwrap_or_default();
        let derived = about.starts_with("Derived from ");
        assert!(derived || about.starts_with("Captured "), "{name}/about.txt");
        assert_eq!(derived, name.starts_with("derived-"), "{name}: a derived machine is named so");
        let emulated = about.contains("Emulated") || about.contains("emulation");
        assert_eq!(emulated && !derived, name.starts_with("qemu-"), "{name}: an emulated machine is named so");
    }
}

#[test]
fn every_source_and_every_machine_has_its_row_in_the_platform_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    if !docs.is_dir() {
        return println!("skipped: the project's docs/ are not part of the published package");
    }
    let page = fs::read_to_string(docs.join("platform.md")).expect("docs/ has the platform page");
    let row = |name: &str| page.lines().any(|line| line.starts_with(&format!("| `{name}` |")));
    for id in source::names() {
        assert!(row(id.as_str()), "docs/platform.md has no row for the source {id}");
    }
    for name in all() {
        assert!(row(&name), "docs/platform.md has no row for the captured machine {name}");
    }
}

#[test]
fn the_kernels_verdict_on_the_tsc_is_read_from_its_list() {
    assert!(matches!(report("amd-epyc-zen3-kvm", "tsc").kernel, KernelVerdict::Trusted(_)));
    assert!(matches!(report("derived-stated-crystal-hpet-in-use", "tsc").kernel, KernelVerdict::Trusted(_)));
    assert!(matches!(report("derived-tsc-dropped", "tsc").kernel, KernelVerdict::Distrusted(_)));
    assert!(matches!(report("derived-tsc-early", "tsc").kernel, KernelVerdict::Unknown(_)));
    assert!(matches!(report("derived-no-sysfs", "tsc").kernel, KernelVerdict::Unknown(_)));
}

#[test]
fn the_tsc_is_refused_for_the_reason_that_holds() {
    let reason = |host| report(host, "tsc").availability.expect_err("it cannot be used there");
    assert_eq!(reason("derived-tsc-forbidden"), Unavailable::ForbiddenByPrctl);
    assert!(reason("derived-tsc-forbidden").remedy().is_some_and(|remedy| remedy.contains("PR_SET_TSC")));
    assert!(matches!(reason("derived-no-tsc"), Unavailable::NoCounter { .. }));
    for arm in ["qemu-user-aarch64", "qemu-user-armv7"] {
        assert!(matches!(reason(arm), Unavailable::OtherArchitecture { .. }), "{arm}");
    }
}

#[test]
fn a_tsc_without_its_flags_is_not_steady() {
    let steady = |host| report(host, "tsc").availability.expect("it can be read").steady;
    assert!(steady("amd-epyc-zen3-kvm"));
    assert!(!steady("derived-no-tsc-flags"));
    // Without /proc there are no flags to miss: CPUID's own word decides.
    assert!(steady("derived-no-procfs"));
}

#[test]
fn who_states_the_tscs_rate_is_told() {
    let stated = |host| report(host, "tsc").availability.expect("it can be read").nominal;
    let by_crystal = stated("derived-stated-crystal-hpet-in-use").expect("CPUID states it");
    assert_eq!((by_crystal.frequency.hertz(), by_crystal.stated_by), (2_100_000_000, StatedBy::Cpuid));
    assert_eq!(stated("amd-epyc-zen3-kvm").map(|nominal| nominal.stated_by), Some(StatedBy::BogoMips));
    assert_eq!(stated("derived-no-procfs"), None);
}

#[test]
fn the_kernels_clocks_are_there_on_every_machine() {
    for name in all() {
        for id in ["realtime", "monotonic", "monotonic-raw", "boottime", "tai", "thread-cpu", "gettimeofday"] {
            assert!(report(&name, id).availability.is_ok(), "{id} on {name}");
        }
    }
}

#[test]
fn the_arm_counter_is_there_on_arm_machines_only() {
    for name in all() {
        let availability = report(&name, "arm-counter").availability;
        assert_eq!(
            availability.is_ok(),
            name.contains("aarch64") || name.contains("armv7"),
            "{name}: {availability:?}"
        );
    }
    let stated = report("derived-aarch64-device-tree", "arm-counter").availability.expect("it is an ARM machine");
    let nominal = stated.nominal.expect("the device tree states it");
    assert_eq!((nominal.frequency.hertz(), nominal.stated_by), (54_000_000, StatedBy::DeviceTree));
    assert_eq!((stated.counts_in_suspend, stated.width.bits()), (Some(false), 56));
    assert!(matches!(report("derived-aarch64-device-tree", "arm-counter").kernel, KernelVerdict::Trusted(_)));
}
