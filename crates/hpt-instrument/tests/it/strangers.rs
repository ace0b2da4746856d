//! Inputs as strangers have them, from the kernel's documentation and from public reports about other programs: each with
//! the conclusion that its files allow, decided before the program was asked.

use hpt_instrument::diagnose::Goal;
use serde_json::json;

use crate::rules::{Machine, SYNCED, UNSYNC, check, frequencies};

#[test]
fn interrupts_of_each_cpu_on_other_architectures_are_not_moved() {
    let of = |architecture: &str, line: &str| {
        Machine::new(architecture)
            .file("proc/interrupts", &format!("           CPU0       CPU1       CPU2       CPU3\n{line}\n"))
            .file("proc/irq/16/smp_affinity_list", "1")
    };
    let stays = |architecture, line| (of(architecture, line), "pass", &[][..], &["smp_affinity"][..]);
    let device = |architecture, line| (of(architecture, line), "low", &["16 ("][..], &[][..]);
    check(
        "interrupts",
        Some(1),
        Goal::Realtime,
        vec![
            stays("other", " 16:       1201        998       1044       1101   CPUINTC  11      timer"),
            stays("other", " 16:      74810      70110      70090      70100      XICS   2 Edge      IPI"),
            stays("other", " 16:        210        190        180        200  XIVE-IPI   0 Edge      IPI-0"),
            stays("other", " 16:      90710      90650      90630      90611      MIPS   7  timer"),
            stays(
                "aarch64",
                " 16:          0          0          0          0     GICv3  27 Level     kvm guest vtimer",
            ),
            stays("aarch64", " 16:         70         66         61         60     GICv3  23 Level     arm-pmu"),
            stays("riscv64", " 16:       3920       4011       4002       3990  RISC-V INTC   5 Edge      riscv-timer"),
            device("riscv64", " 16:          0         52          0          0  SiFive PLIC   8 Edge      virtio0"),
            device("other", " 16:          0        880          0          0      XICS 4104 Edge      eth0-rx"),
            device("other", " 16:          0        880          0          0  XIVE-IRQ 4104 Edge      nvme0q0"),
            device("aarch64", " 16:          0         77          0          0  ITS-MSI 524288 Edge     xhci_hcd"),
        ],
    );
}

#[test]
fn combinations_of_time_daemons() {
    let of = |daemons: &[&str]| Machine::pc().situation("time_daemons", json!(daemons));
    check(
        "time-daemons",
        None,
        Goal::General,
        vec![
            // Fedora's and RHEL's PTP set-up: ptp4l on the card, chronyd reads it as a reference clock.
            (of(&["chronyd", "ptp4l"]), "pass", &[], &[]),
            // timemaster starts the other three itself, and tells phc2sys which clocks it may set.
            (of(&["chronyd", "phc2sys", "ptp4l", "timemaster"]), "unknown", &[], &["disable"]),
            (of(&["phc2sys", "ptp4l", "ts2phc"]), "pass", &[], &[]),
            (of(&["systemd-timesyncd"]), "pass", &[], &[]),
            // Debian's ntpsec beside a timesyncd that was not removed.
            (of(&["ntpd", "systemd-timesyncd"]), "high", &["ntpd and systemd-timesyncd"], &[]),
            (of(&["phc2sys", "systemd-timesyncd"]), "unknown", &[], &[]),
        ],
    );
    check(
        "wall-time",
        None,
        Goal::General,
        vec![
            // openntpd never clears STA_UNSYNC, and the kernel's maximum error stays at its limit.
            (
                Machine::pc().clock(UNSYNC, 10_000, 0, 16_000_000).situation("time_daemons", json!(["openntpd"])),
                "high: openntpd is running",
                &[],
                &[],
            ),
            // A guest of chronyd on a PTP device, a few µs off.
            (Machine::pc().clock(SYNCED, 10_000, -1_200_000, 12), "pass", &["12 µs"], &[]),
        ],
    );
}

#[test]
fn odd_limits_of_frequencies() {
    let of = |each: &[(u32, u32, Option<u32>)]| frequencies(Machine::new("aarch64"), each);
    let bare = |allowed: &str, highest: &str| {
        let folder = "sys/devices/system/cpu/cpu0/cpufreq";
        Machine::new("aarch64")
            .file(&format!("{folder}/scaling_max_freq"), allowed)
            .file(&format!("{folder}/cpuinfo_max_freq"), highest)
    };
    check(
        "frequency-limit",
        None,
        Goal::General,
        vec![
            // amd-pstate with boost: the limit exceeds the maximum that the driver states.
            (of(&[(4462, 3400, None); 4]), "pass", &[], &[]),
            // A limit of the platform 2 % below the maximum; up to 1 % counts as rounding.
            (of(&[(2350, 2400, None); 4]), "low: limited to 2350 MHz", &[], &[]),
            (of(&[(2399, 2400, None); 4]), "pass", &[], &[]),
            (bare("<unsupported>\n", "2400000\n"), "unknown", &[], &["limited to 0"]),
            (bare("0\n", "0\n"), "unknown", &[], &["limited to 0"]),
            (Machine::new("aarch64"), "not applicable", &[], &[]),
        ],
    );
}

#[test]
fn lines_of_the_log_about_the_tsc_that_are_no_verdict() {
    let of = |lines: &[&str]| Machine::pc().clocksources("hpet", "hpet acpi_pm").log(lines);
    let forced = &["tsc=reliable", "tsc=nowatchdog"];
    check(
        "clock-source",
        None,
        Goal::General,
        vec![
            // The watchdog was late, and judged nothing.
            (
                Machine::pc().clocksources("tsc", "tsc hpet acpi_pm").log(&[
                    "clocksource: Long readout interval, skipping watchdog check: cs_nsec: 1031910 wd_nsec: 1031905",
                    "clocksource: timekeeping watchdog on CPU2: hpet wd-wd read-back delay of 239924ns",
                    "clocksource: wd-tsc-wd read-back delay of 222171ns, clock-skew test skipped!",
                ]),
                "pass: tsc",
                &[],
                &["unstable"],
            ),
            (
                of(&["TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'."]),
                "high",
                &[],
                &[],
            ),
            (
                of(&["tsc: Marking TSC unstable due to TSC ADJUST differs within socket(s), fixing all errors failed"]),
                "info",
                &["differ"],
                forced,
            ),
            (of(&["Clocksource tsc unstable (delta = -299965612 ns)"]), "high", &[], &[]),
            (
                of(&[
                    "tsc: Fast TSC calibration failed",
                    "tsc: Unable to calibrate against PIT",
                    "tsc: Marking TSC unstable due to could not calculate TSC khz",
                ]),
                "info",
                &["could not determine"],
                forced,
            ),
            (
                Machine::pc()
                    .clocksources("acpi_pm", "acpi_pm")
                    .file("proc/cmdline", "notsc")
                    .log(&["tsc: Kernel compiled with CONFIG_X86_TSC, cannot disable TSC completely"]),
                "high",
                &["Remove tsc=unstable or notsc"],
                forced,
            ),
        ],
    );
}

#[test]
fn leaves_of_hypervisors_that_few_have() {
    let leaf = |leaf: u32, registers: [u32; 4]| json!({ "leaf": leaf, "subleaf": 0, "registers": registers });
    let named = |highest: u32, name: &[u8; 12]| {
        let word = |at: usize| u32::from_le_bytes([name[at], name[at + 1], name[at + 2], name[at + 3]]);
        let flag = leaf(1, [0, 0, 1 << 31, 0]);
        let leaves = json!([leaf(0, [22, 0, 0, 0]), flag, leaf(0x4000_0000, [highest, word(0), word(4), word(8)])]);
        Machine::pc().fact("cpuid", leaves)
    };
    let metal = json!([leaf(0, [22, 0, 0, 0]), leaf(1, [0, 0, 0, 0])]);
    check(
        "virtual-machine",
        None,
        Goal::General,
        vec![
            // An old KVM states no highest leaf.
            (named(0, b"KVMKVMKVM\0\0\0"), "info: this machine runs under KVM", &[], &[]),
            (named(0x4000_0001, b"TCGTCGTCGTCG"), "info: QEMU emulates this machine", &[], &[]),
            // The signatures of Parallels and of QNX begin with blanks.
            (named(0x4000_0000, b" lrpepyh  vr"), "info: this machine runs under", &["Parallels"], &[]),
            (named(0x4000_0000, b" QNXQVMBSQG "), "info: this machine runs under", &["QNX"], &[]),
            (
                named(0x4000_0000, b"\0\0\0\0\0\0\0\0\0\0\0\0"),
                "info: this machine runs under an unnamed hypervisor",
                &[],
                &[],
            ),
            (Machine::pc().fact("cpuid", metal), "pass", &[], &[]),
            // Nothing was read at all.
            (Machine::new("aarch64"), "unknown", &[], &["no hypervisor"]),
            (Machine::new("aarch64").file("proc/stat", "cpu  1 2 3 4 5 6 7 0 0 0\n"), "pass", &[], &[]),
        ],
    );
}

#[test]
fn offline_cpus_and_sensors_of_strangers() {
    let cpus = |online: &str, offline: &str| {
        let file = |name: &str| format!("sys/devices/system/cpu/{name}");
        Machine::new("aarch64")
            .file(&file("online"), online)
            .file(&file("offline"), offline)
            .file(&file("isolated"), "")
    };
    check(
        "isolated-cpus",
        None,
        Goal::General,
        vec![
            // CPU 0 is offline, and no file states which CPUs are present.
            (cpus("1-3", "0"), "info: none of the 3", &[], &[]),
            (
                cpus("0,2,4,6", "1,3,5,7").file("sys/devices/system/cpu/present", "0-7"),
                "info",
                &["CPUs 1,3,5,7 are offline"],
                &[],
            ),
        ],
    );
    let zone = |temperature: &str, kind: &str, limit: &str| {
        let path = |name: &str| format!("sys/class/thermal/thermal_zone0/{name}");
        Machine::new("aarch64")
            .file(&path("type"), "cpu-thermal")
            .file(&path("temp"), temperature)
            .file(&path("trip_point_0_type"), kind)
            .file(&path("trip_point_0_temp"), limit)
    };
    check(
        "temperature",
        None,
        Goal::General,
        vec![
            // A trip point that the firmware leaves out: THERMAL_TEMP_INVALID.
            (zone("45000", "critical", "-274000"), "not applicable", &[], &["cooling"]),
            (zone("-5000", "passive", "85000"), "pass", &["-5 °C"], &[]),
        ],
    );
}

#[test]
fn modes_of_preemption_of_strangers() {
    let of = |version: &str, command_line: &str| {
        Machine::pc().fact("kernel_version", json!(version)).file("proc/cmdline", command_line)
    };
    check(
        "preemption",
        None,
        Goal::Realtime,
        vec![
            (of("#1 SMP PREEMPT_DYNAMIC Fri Jan 24 04:59:26 UTC 2025", "quiet preempt=none"), "high", &["`none`"], &[]),
            (
                of("#1 SMP PREEMPT_DYNAMIC Fri Jan 24 04:59:26 UTC 2025", "preempt=none preempt=full"),
                "low",
                &["`full`"],
                &[],
            ),
            (of("#25 SMP PREEMPT RT Mon Jan 30 14:21:25 EST 2017", ""), "pass", &[], &[]),
            (of("#99~20.04.1-Ubuntu SMP PREEMPT_RT Tue May 2 18:04:34 UTC 2023", ""), "pass", &[], &[]),
            (of("#1 SMP Wed Mar 1 12:00:00 UTC 2023", ""), "high: preemptible only at explicit points", &[], &[]),
        ],
    );
}

/// Public reports of other programs: oxidecomputer/propolis 328, madgraph4gpu 116, cyring/CoreFreq 308, Mellanox/mkt 74,
/// arpl 244, and FrameworkComputer 107.
#[test]
fn logs_of_public_reports_about_the_tsc() {
    let unstable = |watchdog: &str| {
        vec![
            "clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:".to_owned(),
            format!("clocksource:                       '{watchdog}' wd_now: f4b7d wd_last: 6c50c5 mask: ffffff"),
            "clocksource:                       'tsc' cs_now: 1ca324f62cac cs_last: 1ca0b7a50c00 mask: ffffffffffffffff".to_owned(),
            "tsc: Marking TSC unstable due to clocksource watchdog".to_owned(),
            "TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.".to_owned(),
        ]
    };
    let of = |current: &str, available: &str, lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        Machine::pc().clocksources(current, available).log(&lines)
    };
    let early = [
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc-early' as unstable because the skew is too large:",
        "clocksource:                       'tsc-early' cs_now: 4208573b47b76a cs_last: 42085716e25bb4 mask: ffffffffffffffff",
        "tsc: Marking TSC unstable due to clocksource watchdog",
    ]
    .map(str::to_owned);
    let nested = [
        "clocksource: timekeeping watchdog on CPU6: hpet read-back delay of 5252e",
        "tsc: Marking TSC unstable due to clocksource watchdog",
    ]
    .map(str::to_owned);
    check(
        "clock-source",
        None,
        Goal::General,
        vec![
            // A guest whose ACPI timer has 24 bits: the watchdog compared it with the TSC.
            (of("acpi_pm", "acpi_pm", &unstable("acpi_pm")), "high", &["Boot with tsc=reliable", "only if"], &[]),
            (of("hpet", "hpet acpi_pm", &unstable("hpet")), "high", &["tsc=reliable", "only if"], &[]),
            // The user has tried that already, in vain.
            (
                of("hpet", "hpet acpi_pm", &early).file("proc/cmdline", "quiet clocksource=tsc tsc=reliable"),
                "high",
                &[],
                &["Boot with tsc=reliable"],
            ),
            (of("hpet", "hpet acpi_pm", &nested), "high", &[], &["Remove"]),
        ],
    );
}

/// Reports: siderolabs/talos 3582, pendulum-project/ntpd-rs 1553, chrissnell/graywolf 366, angeloc/htpdate 16,
/// openntpd-portable 25.
#[test]
fn states_of_the_clock_of_public_reports() {
    let of = |status: u32, error: i64, daemons: &[&str], others: &[&str]| {
        Machine::pc()
            .clock(status, 10_000, 0, error)
            .situation("time_daemons", json!(daemons))
            .situation("other_clock_setters", json!(others))
    };
    check(
        "wall-time",
        None,
        Goal::General,
        vec![
            // A service of its own sets the clock; the kernel knows of no bound of its error.
            (of(UNSYNC, 16_000_000, &[], &[]), "high: no known time daemon", &["kernel reports"], &[]),
            (of(UNSYNC, 50_000, &["ntpd-rs"], &[]), "pass", &["50 ms", "STA_UNSYNC is set"], &[]),
            // 8.9 hours after the last update.
            (of(UNSYNC, 16_000_000, &["systemd-timesyncd"], &[]), "high: systemd-timesyncd is running", &[], &[]),
            (of(SYNCED, 15_900_000, &["systemd-timesyncd"], &[]), "pass", &["15.9 s"], &[]),
            (
                of(UNSYNC, 16_000_000, &[], &["htpdate"]),
                "high",
                &["htpdate may set it"],
                &["no known time daemon is running, and"],
            ),
            (of(0x40, 4_000_000, &["openntpd"], &[]), "pass", &["4 s"], &[]),
        ],
    );
}

/// Reports: linrunner/TLP 764, konkor/cpufreq 90, intel/thermal_daemon 128, facebookincubator/below 8125, and
/// linrunner/TLP 150.
#[test]
fn limits_of_public_reports() {
    let turbo_off = |machine: Machine| machine.file("sys/devices/system/cpu/intel_pstate/no_turbo", "1");
    let turbo_on = |machine: Machine| machine.file("sys/devices/system/cpu/intel_pstate/no_turbo", "0");
    let boost = |machine: Machine| machine.file("sys/devices/system/cpu/cpufreq/boost", "1");
    let of = |each: &[(u32, u32, Option<u32>)]| frequencies(Machine::pc(), each);
    check(
        "frequency-limit",
        None,
        Goal::General,
        vec![
            // amd-pstate-epp with equal limits.
            (boost(of(&[(400, 4460, None); 4])), "low: limited to 400 MHz", &["4460 MHz"], &[]),
            // An i7-8565U whose turbo is off.
            (turbo_off(of(&[(2001, 4600, Some(2000)); 4])), "pass: only turbo", &[], &[]),
            // thermald on an i7-3770.
            (turbo_on(of(&[(1600, 3900, Some(3400)); 4])), "low: limited to 1600 MHz", &[], &[]),
            // acpi-cpufreq states the maximum without boost.
            (boost(of(&[(1700, 1700, None); 4])), "pass: no limit", &[], &[]),
            (turbo_on(of(&[(3000, 3600, Some(2600)); 4])), "low: limited to 3000 MHz", &[], &[]),
        ],
    );
}

/// Reports: systemd 38125, 21468, 23116, 18929, 8844 and 5318.
#[test]
fn firmware_of_public_reports() {
    let leaf = |leaf: u32, registers: [u32; 4]| json!({ "leaf": leaf, "subleaf": 0, "registers": registers });
    let cpuid = |hypervisor: Option<&[u8; 12]>| {
        let word =
            |name: &[u8; 12], at: usize| u32::from_le_bytes([name[at], name[at + 1], name[at + 2], name[at + 3]]);
        let flag = if hypervisor.is_some() { 1 << 31 } else { 0 };
        let mut leaves = vec![leaf(0, [22, 0, 0, 0]), leaf(1, [0, 0, flag, 0])];
        leaves.extend(
            hypervisor.map(|name| leaf(0x4000_0000, [0x4000_0001, word(name, 0), word(name, 4), word(name, 8)])),
        );
        json!(leaves)
    };
    let dmi = |machine: Machine, vendor: &str, product: &str| {
        machine.file("sys/class/dmi/id/sys_vendor", vendor).file("sys/class/dmi/id/product_name", product)
    };
    let pc = |hypervisor, vendor, product| dmi(Machine::pc().fact("cpuid", cpuid(hypervisor)), vendor, product);
    let arm =
        |vendor, product| dmi(Machine::new("aarch64").file("proc/stat", "cpu  1 2 3 4 5 6 7 0 0 0\n"), vendor, product);
    check(
        "virtual-machine",
        None,
        Goal::General,
        vec![
            // A machine of a cloud without a hypervisor: c3-highcpu-metal.
            (pc(None, "Google", "Google Compute Engine"), "pass", &[], &[]),
            (pc(None, "Microsoft Corporation", "Surface Laptop 4"), "pass", &[], &[]),
            (arm("Microsoft Corporation", "Surface Pro 9"), "pass", &[], &["Hyper-V"]),
            (arm("OpenStack Foundation", "OpenStack Nova"), "info: this machine runs under", &[], &[]),
            (arm("Amazon EC2", "a1.metal"), "pass", &[], &[]),
            // Xen answers as Hyper-V for the sake of Windows.
            (
                pc(Some(b"Microsoft Hv"), "Xen", "HVM domU").file("sys/hypervisor/type", "xen"),
                "info: this machine runs under Xen",
                &[],
                &["Hyper-V"],
            ),
            // A provider that put its own name into the firmware.
            (pc(Some(b"KVMKVMKVM\0\0\0"), "Tilaa", "VPS"), "info: this machine runs under KVM", &[], &[]),
            (pc(Some(b"KVMKVMKVM\0\0\0"), "Red Hat", "KVM"), "info: this machine runs under KVM", &[], &[]),
        ],
    );
}

/// Linux: arch/parisc/kernel/irq.c, `cpu_interrupt_type`; arch/sparc/kernel/irq_64.c; arch/alpha/kernel/sys_dp264.c;
/// drivers/irqchip/irq-riscv-aplic-msi.c; arch/arc/kernel/intc-arcv2.c.
#[test]
fn interrupts_of_processors_that_few_have() {
    let of = |line: &str| {
        Machine::new("other")
            .file("proc/interrupts", &format!("           CPU0       CPU1       CPU2       CPU3\n{line}\n"))
            .file("proc/irq/64/smp_affinity_list", "1")
    };
    let stays = |line| (of(line), "pass", &[][..], &["smp_affinity"][..]);
    let device = |line| (of(line), "low", &["64 ("][..], &[][..]);
    check(
        "interrupts",
        Some(1),
        Goal::Realtime,
        vec![
            stays(" 64:     112233     112240     112251     112230               CPU  timer"),
            stays(" 64:       9911       9910       9909       9917  ARCv2 core Intc  16  Timer0 (per-cpu-tick)"),
            device(" 64:          0       4410          0          0        sun4v_virt  eth0"),
            device(" 64:          0       4410          0          0            DP264  eth0"),
            device(" 64:          0       4410          0          0  APLIC-MSI-d000000.aplic  10 Level     ttyS0"),
        ],
    );
}

/// Linux, `show_cpuinfo` of these architectures.
#[test]
fn processors_that_few_have_are_named() {
    let named = |cpuinfo: &str| Machine::new("other").file("proc/cpuinfo", cpuinfo).processor();
    for (cpuinfo, name) in [
        ("processor\t: 0\nvendor_id\t: E8C-SWTX\ncpu family\t: 4\nmodel\t\t: 7\nmodel name\t: E8C\n", "E8C"),
        ("cpu\t\t\t: Alpha\ncpu model\t\t: EV67\ncpu variation\t\t: 7\n", "EV67"),
        ("processor\t: 0\ncpu family\t: PA-RISC 2.0\ncpu\t\t: PA8700 (PCX-W2)\n", "PA8700 (PCX-W2)"),
        ("CPU:\t\t68040\nMMU:\t\t68040\nFPU:\t\t68040\n", "68040"),
        ("machine\t\t: R2D+\nprocessor\t: 0\ncpu family\t: sh4\ncpu type\t: SH7751R\n", "SH7751R"),
    ] {
        assert_eq!(named(cpuinfo).as_deref(), Some(name), "{cpuinfo}");
    }
}
