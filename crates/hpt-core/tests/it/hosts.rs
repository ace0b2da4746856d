//! Every source on every captured machine: listed once, with a reason if it is not available.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path};

use hpt_core::{
    Host, SourceError,
    source::{self, KernelVerdict, ProbeReport, Quantity, RateKind, StatedBy},
};
use hpt_sys::{
    host::{Architecture, Capture, Entry, Facts, ReadRefused, SOC_COUNTERS},
    testing::hosts::{all, capture_of, content, files, host, machine_of, write},
};
use proptest::{
    collection::vec,
    prelude::{any, prop_assert, proptest},
};

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
fn every_machine_states_its_origin() {
    for name in all() {
        let capture = capture_of(&name);
        let about = capture.about();
        let derived = about.starts_with("Derived from ");
        assert!(derived || about.starts_with("Captured "), "{name}: {about}");
        assert_eq!(derived, name.starts_with("derived-"), "{name}: a derived machine is named so");
        let emulated = about.contains("Emulated") || about.contains("emulation");
        assert_eq!(emulated && !derived, name.starts_with("qemu-"), "{name}: an emulated machine is named so");
    }
}

#[test]
fn an_emulator_is_named_if_it_is_visible_and_no_other_board_is_called_emulated() {
    let shows = [
        "qemu-debian-13",
        "qemu-q35",
        "qemu-q35-fadt",
        "qemu-raspi2b",
        "qemu-raspi3b",
        "qemu-raspi3b-as-root",
        "qemu-raspi4b",
    ];
    for name in all() {
        let expected = shows.contains(&name.as_str()).then(|| "QEMU".to_owned());
        assert_eq!(host(&name).emulator(), expected, "{name}");
    }
    let mut facts = host("qemu-user-aarch64").facts().clone();
    facts.translator = Some("qemu-user".to_owned());
    let translated = Host::captured(capture_of("qemu-user-aarch64"), facts);
    assert_eq!(translated.emulator().as_deref(), Some("qemu-user"));
}

#[test]
fn a_configured_delay_loop_is_not_evidence_of_an_emulator() {
    let mut board = capture_of("qemu-raspi3b");
    assert_eq!(machine_of(board.clone()).emulator().as_deref(), Some("QEMU"));
    write(&mut board, "proc/cmdline", "quiet lpj=250000\n");
    assert_eq!(machine_of(board).emulator(), None);
}

#[test]
fn every_source_and_every_machine_has_its_row_in_the_platform_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    if !docs.is_dir() {
        return skipped!("the project's docs/ are not part of the published package");
    }
    let page = fs::read_to_string(docs.join("platform.md")).expect("docs/ has the platform page");
    let row = |name: &str| page.lines().any(|line| line.starts_with(&format!("| `{name}` |")));
    for id in source::names() {
        assert!(row(id.as_str()), "docs/platform.md has no row for the source {id}");
    }
    let safety = fs::read_to_string(docs.join("safety.md")).expect("docs/ has the safety page");
    for kind in SOC_COUNTERS {
        let id = kind.id;
        assert!(row(id), "docs/platform.md has no row for the source {id}");
        assert!(safety.contains(&format!("\n| `{id}` |")), "docs/safety.md has no row for the page of {id}");
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
    assert_eq!(reason("derived-tsc-forbidden"), SourceError::ForbiddenByPrctl);
    assert!(reason("derived-tsc-forbidden").remedy().is_some_and(|remedy| remedy.contains("PR_SET_TSC")));
    assert!(matches!(reason("derived-no-tsc"), SourceError::NoCounter { .. }));
    for arm in ["qemu-user-aarch64", "qemu-user-armv7"] {
        assert!(matches!(reason(arm), SourceError::OtherArchitecture { .. }), "{arm}");
    }
}

#[test]
fn a_tsc_without_its_flags_is_not_constant_rate() {
    let steady = |host| report(host, "tsc").availability.expect("it can be read").rate.is_steady();
    assert!(steady("amd-epyc-zen3-kvm"));
    assert!(!steady("derived-no-tsc-flags"));
    // Without /proc there are no flags to check, so CPUID decides.
    assert!(steady("derived-no-procfs"));
}

#[test]
fn the_origin_of_the_tsc_rate_is_reported() {
    let stated = |host| report(host, "tsc").availability.expect("it can be read").nominal;
    let by_crystal = stated("derived-stated-crystal-hpet-in-use").expect("CPUID states it");
    assert_eq!((by_crystal.frequency.hertz(), by_crystal.stated_by), (2_100_000_000, StatedBy::Cpuid));
    assert_eq!(stated("amd-epyc-zen3-kvm").map(|nominal| nominal.stated_by), Some(StatedBy::BogoMips));
    assert_eq!(stated("derived-no-procfs"), None);
}

#[test]
fn every_machine_has_the_kernels_clocks() {
    for name in all() {
        for id in ["realtime", "monotonic", "monotonic-raw", "boottime", "tai", "thread-cpu", "gettimeofday"] {
            assert!(report(&name, id).availability.is_ok(), "{id} on {name}");
        }
    }
}

#[test]
fn only_arm_machines_have_the_arm_counter() {
    for name in all() {
        let availability = report(&name, "arm-counter").availability;
        let is_arm = host(&name).facts().architecture != Architecture::X86_64;
        let lacks_it = ["qemu-raspi0", "qemu-vexpress-a9", "derived-omap3-32k"].contains(&name.as_str());
        assert_eq!(availability.is_ok(), is_arm && !lacks_it, "{name}: {availability:?}");
    }
    let stated = report("derived-aarch64-device-tree", "arm-counter").availability.expect("it is an ARM machine");
    let nominal = stated.nominal.expect("the device tree states it");
    assert_eq!((nominal.frequency.hertz(), nominal.stated_by), (54_000_000, StatedBy::DeviceTree));
    assert_eq!((stated.counts_in_suspend, stated.width.bits()), (Some(false), 56));
    assert!(matches!(report("derived-aarch64-device-tree", "arm-counter").kernel, KernelVerdict::Trusted(_)));
}

#[test]
fn cycles_are_never_a_clock_and_a_captured_machine_states_the_reason() {
    for name in all() {
        for id in ["arm-cycles", "perf-cycles"] {
            let report = report(&name, id);
            if let Ok(info) = &report.availability {
                assert!(!info.rate.is_steady() && info.revocable, "{id} on {name}: {info:?}");
                assert_eq!(info.quantity, Quantity::Cycles, "{id} on {name}");
            }
        }
        let reason = report(&name, "arm-cycles").availability.expect_err("no file tells that it is open");
        let expected =
            if host(&name).facts().architecture == Architecture::X86_64 { "other-architecture" } else { "captured" };
        assert_eq!(reason.kind(), expected, "{name}");
    }
}

#[test]
fn the_other_clocks_of_a_pc_are_identified_on_every_captured_machine() {
    for name in all() {
        let kind = |id| report(&name, id).availability.err().map(|reason| reason.kind());
        let is_a_pc = host(&name).facts().architecture == Architecture::X86_64;
        let of_a_pc = |here| if is_a_pc { here } else { "other-architecture" };
        assert_eq!((kind("hpet"), kind("pit")), (Some(of_a_pc("captured")), Some(of_a_pc("needs-write"))), "{name}");
        let has_its_table = host(&name).pm_timer().is_ok();
        // These were captured as root, with the kernel's list of ports, which states that there is none.
        let has_none = ["amd-epyc-zen4-kvm-as-root", "amd-epyc-zen5-kvm-limited", "derived-kvm-nothing-stolen"]
            .contains(&name.as_str());
        let expected = if has_none { "no-device" } else { of_a_pc("captured") };
        assert_eq!(kind("acpi-pm"), (!has_its_table).then_some(expected), "{name}");
        assert_eq!(has_its_table, name == "qemu-q35-fadt", "{name}");
        assert_eq!((kind("rtc0"), kind("ptp0")), (Some("captured"), Some("captured")), "{name}");
        let forbidden = name == "derived-tsc-forbidden";
        let expected = if forbidden { "forbidden-by-prctl" } else { "captured" };
        assert_eq!(kind("perf-time"), Some(expected), "{name}");
    }
}

/// Returns the files of the device tree in a capture.
fn properties(capture: &Capture) -> Vec<String> {
    files(capture).into_iter().filter(|path| path.starts_with("proc/device-tree/")).collect()
}

const SYSTEM_TIMER: &str = "brcm,bcm2835-system-timer";

fn machines_with_a_system_timer() -> Vec<String> {
    all().into_iter().filter(|name| host(name).device_node(SYSTEM_TIMER).is_some()).collect()
}

#[test]
fn the_system_timer_of_a_raspberry_pi_5_lies_above_four_gigabytes() {
    let node = host("derived-raspberry-pi-5").device_node(SYSTEM_TIMER).expect("the board has one");
    let registers = node.registers.expect("its buses translate");
    assert_eq!((registers.address, registers.length), (0x10_7c00_3000, 0x1000));
    assert_eq!((node.path.as_str(), node.clock_frequency_hz), ("/soc@107c000000/timer@7c003000", Some(1_000_000)));
    let described = report("derived-raspberry-pi-5", "bcm-systimer").availability.expect("it would be there");
    assert_eq!((described.width.bits(), described.rate), (64, RateKind::Constant));
}

#[test]
fn the_system_timer_is_found_at_the_address_of_each_board() {
    let place =
        |name| host(name).device_node(SYSTEM_TIMER).and_then(|node| node.registers).map(|region| region.address);
    assert_eq!(place("qemu-raspi0"), Some(0x2000_3000));
    assert_eq!(place("qemu-raspi2b"), Some(0x3f00_3000));
    assert_eq!(place("qemu-raspi3b"), Some(0x3f00_3000));
    assert_eq!(place("qemu-raspi4b"), Some(0xfe00_3000));
    assert_eq!(place("qemu-virt-a72"), None);
    assert_eq!(place("qemu-vexpress-a9"), None);
    let reason = report("qemu-virt-a72", "bcm-systimer").availability.expect_err("it has none");
    assert!(matches!(reason, SourceError::NoDevice { .. }), "{reason}");
}

#[test]
fn without_a_device_tree_only_a_name_of_one_chip_determines_the_address() {
    let found = |name| {
        let report = report(name, "bcm-systimer");
        (report.availability.map(|info| info.nominal.expect("1 MHz").stated_by), report.evidence)
    };
    for (name, chip, address) in [
        ("derived-raspberry-pi-1-linux-3.12", "BCM2708", "0x20003000"),
        ("derived-raspberry-pi-2-linux-3.18", "BCM2709", "0x3f003000"),
    ] {
        let (stated_by, evidence) = found(name);
        assert_eq!(stated_by.expect("it would be there"), StatedBy::Definition, "{name}");
        assert!(
            evidence[0].contains(chip) && evidence[0].ends_with(&format!("registers at {address}")),
            "{evidence:?}"
        );
    }
    assert!(matches!(report("derived-raspberry-pi-1-linux-3.12", "bcm-systimer").kernel, KernelVerdict::Trusted(_)));
    // Every Raspberry Pi prints this name.
    let (unknown, _) = found("derived-raspberry-pi-1-without-tree");
    let reason = unknown.expect_err("no address is known").to_string();
    assert!(reason.contains("names BCM2835, which does not determine the address"), "{reason}");
    // Its clocksource is called timer, as that of many boards.
    assert!(matches!(report("derived-raspberry-pi-1-without-tree", "bcm-systimer").kernel, KernelVerdict::Unknown(_)));
}

#[test]
fn the_kernel_trusts_the_system_timer_if_it_uses_it() {
    let verdict = |name| report(name, "bcm-systimer").kernel;
    assert!(matches!(verdict("qemu-raspi0"), KernelVerdict::Trusted(_)));
    assert!(matches!(verdict("qemu-raspi2b"), KernelVerdict::Trusted(_)));
    assert!(matches!(verdict("qemu-raspi3b"), KernelVerdict::Unknown(_)));
}

#[test]
fn a_truncated_device_tree_yields_the_right_address_or_none() {
    let place = |capture: &Capture| {
        let spoiled = machine_of(capture.clone());
        assert_eq!(source::probe(&spoiled).len(), source::names().len());
        spoiled.device_node(SYSTEM_TIMER).and_then(|node| node.registers)
    };
    for name in machines_with_a_system_timer() {
        let mut capture = capture_of(&name);
        let whole = place(&capture);
        for file in properties(&capture) {
            let property = content(&capture, &file).to_vec();
            for length in 0..property.len() {
                write(&mut capture, &file, &property[..length]);
                // An empty `ranges` means that the bus does not translate addresses.
                let cut_ranges = length == 0 && file.ends_with("/ranges");
                let found = place(&capture);
                assert!(found.is_none() || found == whole || cut_ranges, "{name}: {found:?} at {length} of {file}");
            }
            capture.remove(&file).expect("it was there");
            let _ = place(&capture);
            write(&mut capture, &file, property);
        }
    }
}

#[test]
fn a_device_tree_with_a_link_cycle_is_abandoned() {
    let mut capture = Capture::new();
    write(&mut capture, "proc/device-tree/soc/ranges", []);
    capture.insert("proc/device-tree/soc/soc", Entry::Link(".".to_owned())).expect("a sound path");
    assert_eq!(Host::captured(capture, Facts::live()).device_node(SYSTEM_TIMER), None);
}

#[test]
fn nothing_is_read_through_a_link_of_a_capture() {
    let mut capture = Capture::new();
    write(&mut capture, "proc/own", "own");
    for (path, target) in
        [("proc/inner", "own"), ("proc/absolute", "/etc/passwd"), ("proc/folder", "../.."), ("dev", "/dev")]
    {
        capture.insert(path, Entry::Link(target.to_owned())).expect("a sound path");
    }
    capture.insert("sys/closed", Entry::Unreadable(ReadRefused::PermissionDenied)).expect("a sound path");
    let host = Host::captured(capture, Facts::live());
    assert_eq!(host.read("/proc/own").expect("a file"), b"own");
    for path in ["/proc/folder/etc/passwd", "/dev/null"] {
        assert_eq!(host.read(path).expect_err(path).raw_os_error(), Some(libc::ELOOP), "{path}");
    }
    for (path, kind) in [
        ("/proc/inner", ErrorKind::InvalidInput),
        ("/proc/absolute", ErrorKind::InvalidInput),
        ("/proc", ErrorKind::InvalidInput),
        ("/proc/own/more", ErrorKind::NotADirectory),
        ("/proc/../proc/own", ErrorKind::NotFound),
        ("/etc/passwd", ErrorKind::NotFound),
        ("/sys/closed", ErrorKind::PermissionDenied),
    ] {
        assert_eq!(host.read(path).expect_err(path).kind(), kind, "{path}");
    }
}

proptest! {
    /// Arbitrary bytes in the properties: a result, and no panic.
    #[test]
    fn a_device_tree_of_any_bytes_is_traversed_without_a_panic(
        machine in any::<proptest::sample::Index>(),
        changes in vec((any::<proptest::sample::Index>(), vec(any::<u8>(), 0..24)), 1..4),
    ) {
        let mut capture = capture_of(machine.get::<String>(&machines_with_a_system_timer()));
        let properties = properties(&capture);
        for (file, content) in changes {
            write(&mut capture, file.get::<String>(&properties), content);
        }
        let spoiled = machine_of(capture);
        if let Some(region) = spoiled.device_node(SYSTEM_TIMER).and_then(|node| node.registers) {
            prop_assert!(region.address.checked_add(region.length).is_some());
        }
        prop_assert!(source::probe(&spoiled).len() == source::names().len());
    }
}
