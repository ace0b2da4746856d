//! The rules on small machines that these tests make up: the evidence on which each verdict rests, and the verdict
//! without that evidence.

use hpt_core::{
    Host,
    diagnose::{Goal, MachineFacts, Verdict, examine},
    host::{Capture, Entry},
};
use serde_json::{Value, json};

/// A machine without any file. Each test adds the evidence that a rule examines.
struct Machine {
    capture: Capture,
    facts: Value,
}

impl Machine {
    fn new(architecture: &str) -> Self {
        let facts = json!({
            "architecture": architecture, "kernel_release": "6.12.0", "kernel_version": "#1 SMP PREEMPT_DYNAMIC",
            "counter_permission": "unknown", "vdso": true, "clock_resolutions_ns": {}, "cpuid": [],
        });
        Self { capture: Capture::new(), facts }.file("sys/devices/system/cpu/online", "0-3")
    }

    /// A PC whose processor states a TSC of constant rate.
    fn pc() -> Self {
        Self::new("x86-64")
            .file("proc/cpuinfo", "flags\t: tsc constant_tsc nonstop_tsc\n")
            .file("proc/cmdline", "quiet")
    }

    fn file(mut self, path: &str, content: &str) -> Self {
        self.capture.insert(path, Entry::File(content.as_bytes().to_vec())).expect("a sound path");
        self
    }

    fn clocksources(self, current: &str, available: &str) -> Self {
        let folder = "sys/devices/system/clocksource/clocksource0";
        self.file(&format!("{folder}/current_clocksource"), current)
            .file(&format!("{folder}/available_clocksource"), available)
    }

    fn log(self, lines: &[&str]) -> Self {
        let records = lines.iter().enumerate().map(|(number, line)| format!("6,{number},{number},-;{line}\n"));
        let records: String = records.collect();
        self.file("dev/kmsg", &records)
    }

    fn fact(mut self, name: &str, value: Value) -> Self {
        self.facts[name] = value;
        self
    }

    fn clock(self, status: u32, tick_us: i64, frequency_scaled: i64, maximum_error_us: i64) -> Self {
        let timex = json!({
            "status": status, "frequency_scaled": frequency_scaled, "tick_us": tick_us, "usual_tick_us": 10_000,
            "maximum_error_us": maximum_error_us, "estimated_error_us": 0,
        });
        self.situation("timex", timex)
    }

    fn situation(mut self, name: &str, value: Value) -> Self {
        self.facts["situation"][name] = value;
        self
    }

    /// Returns the verdict of a rule, its observation and its fixes, as one line of text.
    fn says(&self, rule: &str, cpu: Option<usize>, goal: Goal) -> String {
        let facts = serde_json::from_value(self.facts.clone()).expect("facts");
        let host = Host::captured(self.capture.clone(), facts);
        let examined = examine(&MachineFacts::new(&host), cpu, goal);
        let one = examined.iter().find(|examined| examined.rule.id == rule).expect("there is such a rule");
        match &one.verdict {
            Verdict::Problem(finding) => {
                let certain = if finding.certain { "" } else { " likely" };
                let fixes = finding.fixes.iter().map(|fix| format!(" [{} {}]", fix.text, fix.commands.join("; ")));
                let fixes: String = fixes.collect();
                format!("{}{certain}: {}{fixes}", finding.severity.name(), finding.observed)
            }
            Verdict::Pass(observed) => format!("pass: {observed}"),
            Verdict::NotApplicable(why) => format!("not applicable: {why}"),
            Verdict::Unknown { why, .. } => format!("unknown: {why}"),
        }
    }
}

/// Checks what a rule says about several machines: the beginning, words that it contains, and words that it lacks.
#[track_caller]
fn check(rule: &str, cpu: Option<usize>, goal: Goal, machines: Vec<(Machine, &str, &[&str], &[&str])>) {
    for (number, (machine, beginning, has, lacks)) in machines.into_iter().enumerate() {
        let said = machine.says(rule, cpu, goal);
        assert!(said.starts_with(beginning), "{rule} {number}: {said}");
        assert!(has.iter().all(|word| said.contains(word)), "{rule} {number}: {said}");
        assert!(!lacks.iter().any(|word| said.contains(word)), "{rule} {number}: {said}");
    }
}

const UNSYNC: u32 = 0x2041;
const SYNCED: u32 = 0x2001;

#[test]
fn the_error_that_grows_since_the_last_update_decides_whether_the_clock_is_synchronized() {
    let of =
        |status, error| Machine::pc().clock(status, 10_000, 0, error).situation("time_daemons", json!(["chronyd"]));
    check(
        "wall-time",
        None,
        Goal::General,
        vec![
            (of(SYNCED, 900), "pass: synchronized, with a maximum error of 900 µs", &[], &["STA_UNSYNC"]),
            (of(UNSYNC, 9_776), "pass: synchronized, with a maximum error of 9.776 ms", &["STA_UNSYNC is set"], &[]),
            (of(UNSYNC, 15_999_999), "pass", &[], &[]),
            (of(UNSYNC, 16_000_000), "high: chronyd is running", &[], &[]),
            (of(SYNCED, 16_000_000), "high", &[], &[]),
            (Machine::pc(), "unknown: adjtimex", &[], &[]),
        ],
    );
    let not_for_realtime = of(UNSYNC, 16_000_000).says("wall-time", None, Goal::Realtime);
    assert!(not_for_realtime.starts_with("info"), "{not_for_realtime}");
}

#[test]
fn a_rate_that_no_crystal_explains_is_named() {
    let of = |tick, frequency| Machine::pc().clock(SYNCED, tick, frequency, 900_000);
    check(
        "clock-rate",
        None,
        Goal::Timekeeping,
        vec![
            (
                of(9_256, -2_800_000),
                "high: CLOCK_REALTIME and CLOCK_MONOTONIC run 7.4 % slow",
                &["tick -74400 ppm", "frequency -42.7 ppm"],
                &[],
            ),
            (of(10_833, 0), "high: CLOCK_REALTIME and CLOCK_MONOTONIC run 8.3 % fast", &[], &[]),
            (of(10_006, 500 << 16), "high: CLOCK_REALTIME and CLOCK_MONOTONIC run 0.1 % fast", &[], &[]),
            (of(10_000, -500 << 16), "pass: tick +0 ppm, frequency -500.0 ppm", &[], &[]),
            (of(9_999, 0), "pass", &[], &[]),
            (Machine::pc(), "unknown", &[], &[]),
        ],
    );
    let synchronized = of(9_256, 0).says("wall-time", None, Goal::General);
    assert!(synchronized.contains("see clock-rate"), "{synchronized}");
}

#[test]
fn a_daemon_that_may_adjust_only_a_network_card_proves_no_conflict() {
    let of = |daemons: Value| Machine::pc().situation("time_daemons", daemons);
    check(
        "time-daemons",
        None,
        Goal::General,
        vec![
            (of(json!(["chronyd", "phc2sys"])), "unknown: chronyd and phc2sys", &[], &[]),
            (of(json!(["phc2sys", "ptp4l"])), "pass", &[], &[]),
            (of(json!(["chronyd", "ntpd"])), "high", &[], &[]),
            (of(json!([])), "not applicable", &[], &[]),
            (of(Value::Null), "unknown", &[], &[]),
        ],
    );
}

#[test]
fn a_clocksource_is_advised_only_if_the_processor_states_a_constant_rate() {
    let old = |flags: &str| Machine::new("x86-64").file("proc/cpuinfo", &format!("flags\t: {flags}\n"));
    check(
        "clock-source",
        None,
        Goal::General,
        vec![
            (
                old("fpu tsc").clocksources("hpet", "hpet tsc acpi_pm"),
                "not applicable",
                &["constant_tsc"],
                &["clocksource set"],
            ),
            (
                old("tsc constant_tsc").clocksources("acpi_pm", "acpi_pm tsc"),
                "not applicable",
                &[],
                &["clocksource set"],
            ),
            (old("tsc nonstop_tsc").clocksources("xen", "xen tsc"), "not applicable", &[], &["clocksource set"]),
            (Machine::new("x86-64").clocksources("hpet", "tsc hpet"), "unknown", &[], &["clocksource set"]),
            (Machine::pc().clocksources("hpet", "tsc hpet"), "high: hpet", &["clocksource set tsc"], &["clocksource="]),
            (
                Machine::pc().file("proc/cmdline", "clocksource=hpet").clocksources("hpet", "tsc hpet"),
                "high: hpet",
                &["Remove clocksource=hpet"],
                &[],
            ),
            (Machine::pc().clocksources("tsc", "tsc hpet"), "pass: tsc", &[], &[]),
            (Machine::new("riscv64").clocksources("riscv_clocksource", "riscv_clocksource"), "pass", &[], &[]),
        ],
    );
}

#[test]
fn the_remedy_depends_on_the_reason_that_the_kernel_logged() {
    let of = |lines: &[&str]| Machine::pc().clocksources("hpet", "hpet acpi_pm").log(lines);
    let bad = &["tsc=reliable", "tsc=nowatchdog"];
    check(
        "clock-source",
        None,
        Goal::General,
        vec![
            (of(&["tsc: Marking TSC unstable due to TSC halts in idle"]), "info", &["max_cstate=1"], bad),
            (of(&["Marking TSC unstable due to TSC halts in idle states deeper than C2"]), "info", &[], bad),
            (
                of(&[
                    "TSC synchronization [CPU#0 -> CPU#1]:",
                    "Measured 5 cycles TSC warp between CPUs, turning off TSC clock.",
                ]),
                "info",
                &["differ"],
                bad,
            ),
            (of(&["tsc: Marking TSC unstable due to check_tsc_sync_source failed"]), "info", &["differ"], bad),
            (of(&["tsc: Marking TSC unstable due to cpufreq changes on CPUs"]), "info", &["frequency"], bad),
            (
                of(&["tsc: Marking TSC unstable due to could not calculate TSC khz"]),
                "info",
                &["could not determine"],
                bad,
            ),
            (of(&["tsc: Marking TSC unstable due to boot parameter"]), "high", &["Remove tsc=unstable"], bad),
            (
                of(&[
                    "clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:",
                    "clocksource: 'refined-jiffies' wd_now: fffedb77",
                    "tsc: Marking TSC unstable due to clocksource watchdog",
                ]),
                "high",
                &["tsc=reliable"],
                &[],
            ),
            (
                of(&[
                    "clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the skew against 'refined-jiffies' is too large",
                ]),
                "high",
                &["acpi=off"],
                bad,
            ),
            (of(&["clocksource: hpet: mask: 0xffffffff"]), "high", &["gives no reason"], bad),
            (
                Machine::new("x86-64")
                    .file("proc/cpuinfo", "flags\t: tsc\n")
                    .clocksources("acpi_pm", "acpi_pm")
                    .log(&["x"]),
                "not applicable",
                &["does not state"],
                bad,
            ),
        ],
    );
}

#[test]
fn the_vdso_of_a_capture_is_known_only_by_what_its_kernel_states() {
    let of = |architecture: &str, release: &str, source: &str| {
        Machine::new(architecture).fact("kernel_release", json!(release)).clocksources(source, source)
    };
    check(
        "clock-by-system-call",
        None,
        Goal::General,
        vec![
            (of("riscv64", "6.12.0", "riscv_clocksource"), "pass", &[], &[]),
            (
                of("riscv64", "5.4.0", "riscv_clocksource"),
                "low: the vDSO does not read riscv_clocksource in this kernel",
                &[],
                &[],
            ),
            (of("riscv64", "unknown", "riscv_clocksource"), "unknown", &[], &[]),
            (of("other", "6.1.0", "timebase"), "pass", &[], &[]),
            (of("other", "6.1.0", "a-new-counter"), "unknown", &["hpt measures it"], &[]),
            (of("x86-64", "6.1.0", "hpet"), "low", &[], &[]),
            (of("aarch64", "6.1.0", "arch_sys_counter"), "pass", &[], &[]),
            (
                of("aarch64", "6.1.0", "arch_sys_counter").log(&[
                    "arch_timer: Enabling local workaround for ARM erratum 858921",
                    "arch_timer: CPU4: Trapping CNTVCT access",
                ]),
                "low",
                &["CPU4: Trapping"],
                &[],
            ),
            // This erratum alone disables only the vDSO of 32-bit programs.
            (
                of("aarch64", "6.1.0", "arch_sys_counter")
                    .log(&["arch_timer: Enabling local workaround for ARM erratum 1418040"]),
                "pass",
                &[],
                &[],
            ),
        ],
    );
}

#[test]
fn an_interrupt_of_each_cpu_is_not_moved() {
    let of = |chip: &str| {
        Machine::pc()
            .file("proc/interrupts", &format!("  CPU0 CPU1 CPU2 CPU3\n 54: 0 800 0 0 {chip}\n"))
            .file("proc/irq/54/smp_affinity_list", "1")
    };
    check(
        "interrupts",
        Some(1),
        Goal::Realtime,
        vec![
            (of("xen-percpu -virq timer1"), "pass", &[], &["smp_affinity"]),
            (of("GICv3 26 Level a-timer"), "pass", &[], &[]),
            (of("RISC-V INTC 5 Edge riscv-timer"), "pass", &[], &[]),
            (of("GICv3 64 Level nvme0q1"), "low", &["54 (nvme0q1"], &[]),
            (of("xen-dyn -event blkif"), "low", &["54 (blkif"], &[]),
        ],
    );
}
