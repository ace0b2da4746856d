//! Inputs as strangers have them, from the kernel's documentation and from public reports about other programs: each with
//! the conclusion that its files allow, decided before the program was asked.

use hpt_core::diagnose::Goal;
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
