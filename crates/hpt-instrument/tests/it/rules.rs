//! The rules on small machines that these tests make up: the evidence on which each verdict rests, and the verdict
//! without that evidence.

use hpt_core::Host;
use hpt_instrument::diagnose::{Goal, MachineFacts, Verdict, examine};
use hpt_sys::host::{Capture, Entry};
use serde_json::{Value, json};

/// A machine without any file. Each test adds the evidence that a rule examines.
pub(crate) struct Machine {
    capture: Capture,
    facts: Value,
}

impl Machine {
    pub(crate) fn new(architecture: &str) -> Self {
        let facts = json!({
            "architecture": architecture, "kernel_release": "6.12.0", "kernel_version": "#1 SMP PREEMPT_DYNAMIC",
            "counter_permission": "unknown", "vdso": true, "clock_resolutions_ns": {}, "cpuid": [],
        });
        Self { capture: Capture::new(), facts }.file("sys/devices/system/cpu/online", "0-3")
    }

    /// A PC whose processor states a TSC of constant rate.
    pub(crate) fn pc() -> Self {
        Self::new("x86-64")
            .file("proc/cpuinfo", "flags\t: tsc constant_tsc nonstop_tsc\n")
            .file("proc/cmdline", "quiet")
    }

    pub(crate) fn file(mut self, path: &str, content: &str) -> Self {
        self.capture.insert(path, Entry::File(content.as_bytes().to_vec())).expect("a sound path");
        self
    }

    pub(crate) fn clocksources(self, current: &str, available: &str) -> Self {
        let folder = "sys/devices/system/clocksource/clocksource0";
        self.file(&format!("{folder}/current_clocksource"), current)
            .file(&format!("{folder}/available_clocksource"), available)
    }

    pub(crate) fn log(self, lines: &[&str]) -> Self {
        let records = lines.iter().enumerate().map(|(number, line)| format!("6,{number},{number},-;{line}\n"));
        let records: String = records.collect();
        self.file("dev/kmsg", &records)
    }

    pub(crate) fn fact(mut self, name: &str, value: Value) -> Self {
        self.facts[name] = value;
        self
    }

    pub(crate) fn clock(self, status: u32, tick_us: i64, frequency_scaled: i64, maximum_error_us: i64) -> Self {
        let timex = json!({
            "status": status, "frequency_scaled": frequency_scaled, "tick_us": tick_us, "usual_tick_us": 10_000,
            "maximum_error_us": maximum_error_us, "estimated_error_us": 0,
        });
        self.situation("timex", timex)
    }

    pub(crate) fn situation(mut self, name: &str, value: Value) -> Self {
        self.facts["situation"][name] = value;
        self
    }

    fn host(&self) -> Host {
        Host::captured(self.capture.clone(), serde_json::from_value(self.facts.clone()).expect("facts"))
    }

    pub(crate) fn processor(&self) -> Option<String> {
        self.host().cpu().name().map(str::to_owned)
    }

    /// Returns the verdict of a rule, its observation and its fixes, as one line of text.
    pub(crate) fn says(&self, rule: &str, cpu: Option<usize>, goal: Goal) -> String {
        let examined = examine(&MachineFacts::new(&self.host()), cpu, goal);
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
pub(crate) fn check(rule: &str, cpu: Option<usize>, goal: Goal, machines: Vec<(Machine, &str, &[&str], &[&str])>) {
    let mut wrong = Vec::new();
    for (number, (machine, beginning, has, lacks)) in machines.into_iter().enumerate() {
        let said = machine.says(rule, cpu, goal);
        let is_right = said.starts_with(beginning)
            && has.iter().all(|word| said.contains(word))
            && !lacks.iter().any(|word| said.contains(word));
        if !is_right {
            wrong.push(format!("{rule} {number}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) const UNSYNC: u32 = 0x2041;
pub(crate) const SYNCED: u32 = 0x2001;

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
fn a_process_that_may_set_the_clock_is_named_whatever_its_program() {
    let of = |status, error, daemons: &[&str], others: &[&str]| {
        Machine::pc()
            .clock(status, 10_000, 0, error)
            .situation("time_daemons", json!(daemons))
            .situation("other_clock_setters", json!(others))
    };
    let late = 16_000_000;
    check(
        "wall-time",
        None,
        Goal::General,
        vec![
            (of(UNSYNC, late, &[], &["gpsd"]), "high", &["gpsd may set it", "check its status"], &[]),
            (of(UNSYNC, late, &[], &[]), "high: no known time daemon is running", &[], &["CAP_SYS_TIME"]),
            (of(SYNCED, 900, &[], &["gpsd"]), "pass", &[], &[]),
        ],
    );
    check(
        "time-daemons",
        None,
        Goal::General,
        vec![
            (of(SYNCED, 900, &["chronyd"], &["gpsd"]), "unknown", &["chronyd is running, and gpsd may"], &[]),
            (of(SYNCED, 900, &[], &["radioclkd2"]), "unknown", &["radioclkd2 may set the clock"], &[]),
            (of(SYNCED, 900, &["chronyd", "ntpd"], &["gpsd"]), "high", &["chronyd and ntpd"], &[]),
            (of(SYNCED, 900, &["chronyd"], &[]), "pass", &[], &[]),
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
            // The kernel's own order decides where hpt knows of no counter of the processor.
            (Machine::new("other").clocksources("timebase", "timebase"), "pass: timebase", &[], &[]),
            (Machine::new("other").clocksources("stp", "stp tod"), "pass: stp", &[], &[]),
            (Machine::new("other").clocksources("tod", "stp tod"), "high: tod", &["clocksource set stp"], &[]),
            (
                Machine::new("riscv64").clocksources("clint_clocksource", "riscv_clocksource clint_clocksource"),
                "high: clint_clocksource",
                &["clocksource set riscv_clocksource"],
                &[],
            ),
            (Machine::new("other").clocksources("jiffies", "jiffies"), "not applicable", &[], &[]),
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
            // What was measured when the capture was made comes before what is known of names.
            (
                of("other", "6.1.0", "a-new-counter").fact("reads_by_vdso", json!(true)),
                "pass: the vDSO reads a-new-counter, as measured",
                &[],
                &[],
            ),
            (of("riscv64", "6.12.0", "riscv_clocksource").fact("reads_by_vdso", json!(false)), "low", &[], &[]),
            (of("x86-64", "6.12.0", "xen").fact("reads_by_vdso", json!(true)), "pass", &[], &[]),
            (of("other", "6.1.0", "a-new-counter"), "unknown", &["hpt measures it"], &[]),
            (of("x86-64", "6.1.0", "hpet"), "low", &[], &[]),
            (of("arm", "6.1.0", "mct-frc"), "low: the vDSO does not read mct-frc", &[], &[]),
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

/// A CPU's cpufreq files: the limit, the hardware maximum, and the base frequency, in MHz.
pub(crate) fn frequencies(machine: Machine, each: &[(u32, u32, Option<u32>)]) -> Machine {
    each.iter().enumerate().fold(machine, |machine, (cpu, (allowed, highest, base))| {
        let path = |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}");
        let machine = machine
            .file(&path("scaling_max_freq"), &format!("{allowed}000\n"))
            .file(&path("cpuinfo_max_freq"), &format!("{highest}000\n"));
        match base {
            Some(base) => machine.file(&path("base_frequency"), &format!("{base}000\n")),
            None => machine,
        }
    })
}

#[test]
fn an_interrupt_that_no_user_can_move_has_no_command() {
    let of = |chips: [&str; 2], command_line: &str| {
        let table = format!("CPU0 CPU1 CPU2 CPU3\n 36: 0 9 0 0 {} virtio1\n 37: 0 8 0 0 {} eth0\n", chips[0], chips[1]);
        let machine = Machine::pc().file("proc/interrupts", &table).file("proc/cmdline", command_line);
        machine.file("proc/irq/36/smp_affinity_list", "1").file("proc/irq/37/smp_affinity_list", "0-3")
    };
    check(
        "interrupts",
        Some(1),
        Goal::Realtime,
        vec![
            (
                of(["fixed", "chip"], ""),
                "low",
                &["no user move 1 of them (36)", "tee /proc/irq/37", "managed_irq", "isolcpus=1"],
                &["tee /proc/irq/36"],
            ),
            (of(["fixed", "fixed"], ""), "info", &["no user move them", "managed_irq"], &["tee /proc/irq"]),
            (of(["fixed", "fixed"], "isolcpus=managed_irq,domain,1"), "info", &["no user move them"], &["Boot with"]),
            (of(["chip", "chip"], ""), "low", &["tee /proc/irq/36", "tee /proc/irq/37"], &["managed_irq"]),
        ],
    );
}

#[test]
fn a_limit_is_compared_with_the_base_frequency_if_turbo_is_off_and_stated_for_each_group_of_cpus() {
    let off = || Machine::pc().file("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
    let on = || Machine::pc().file("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    check(
        "frequency-limit",
        None,
        Goal::General,
        vec![
            (
                frequencies(off(), &[(800, 4700, Some(1700)); 4]),
                "low: limited to 800 MHz (base frequency: 1700 MHz) on CPUs 0-3",
                &[],
                &[],
            ),
            (frequencies(off(), &[(1700, 4700, Some(1700)); 4]), "pass: only turbo", &[], &[]),
            (frequencies(off(), &[(2000, 4700, Some(1700)); 4]), "pass: only turbo", &[], &[]),
            (
                frequencies(off(), &[(800, 4700, None); 4]),
                "unknown: limited to 800 MHz",
                &["does not state the base"],
                &[],
            ),
            (
                frequencies(on(), &[(1700, 4700, Some(1700)); 4]),
                "low: limited to 1700 MHz (hardware maximum: 4700 MHz)",
                &[],
                &[],
            ),
            (frequencies(on(), &[(4700, 4700, Some(1700)); 4]), "pass: no limit", &[], &[]),
            (
                frequencies(
                    Machine::new("aarch64"),
                    &[(1017, 2016, None), (1017, 2016, None), (1056, 2803, None), (998, 3187, None)],
                ),
                "low: limited to 1017 MHz (hardware maximum: 2016 MHz) on CPUs 0-1, 1056 MHz (hardware maximum: 2803 MHz) on CPU 2, 998 MHz (hardware maximum: 3187 MHz) on CPU 3",
                &["echo 3187000"],
                &[],
            ),
            (
                frequencies(Machine::new("aarch64"), &[(1800, 1800, None), (1800, 1800, None), (1200, 2400, None)]),
                "low: limited to 1200 MHz (hardware maximum: 2400 MHz) on CPU 2 [",
                &[],
                &["1800 MHz"],
            ),
        ],
    );
}

#[test]
fn the_idle_states_of_each_group_of_cpus_are_stated() {
    let states = |each: &[(&str, u32)]| {
        each.iter().enumerate().fold(Machine::new("aarch64"), |machine, (cpu, (name, latency))| {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state1");
            machine
                .file(&format!("{folder}/name"), name)
                .file(&format!("{folder}/latency"), &latency.to_string())
                .file(&format!("{folder}/disable"), "0")
        })
    };
    check(
        "idle-states",
        None,
        Goal::Realtime,
        vec![
            (
                states(&[("silver", 1300), ("gold", 1900), ("gold", 1900)]),
                "low: the deepest idle state is silver, with an exit latency of 1300 µs, on CPU 0; gold, with an exit latency of 1900 µs, on CPUs 1-2",
                &[],
                &[],
            ),
            (
                states(&[("WFI", 1), ("cluster", 500)]),
                "low: the deepest idle state is cluster, with an exit latency of 500 µs, on CPU 1",
                &[],
                &["WFI"],
            ),
            (
                states(&[("C6", 133); 4]),
                "low: the deepest idle state is C6, with an exit latency of 133 µs, on CPUs 0-3",
                &[],
                &[],
            ),
        ],
    );
}

#[test]
fn a_sensor_that_cannot_be_true_is_no_problem() {
    let zone = |machine: Machine, number: u32, temperature: i64, kind: &str, limit: i64| {
        let path = |name: &str| format!("sys/class/thermal/thermal_zone{number}/{name}");
        machine
            .file(&path("type"), "acpitz")
            .file(&path("temp"), &temperature.to_string())
            .file(&path("trip_point_0_type"), kind)
            .file(&path("trip_point_0_temp"), &limit.to_string())
    };
    let one = |temperature, kind, limit| zone(Machine::pc(), 0, temperature, kind, limit);
    check(
        "temperature",
        None,
        Goal::General,
        vec![
            (zone(one(16_800, "critical", 18_800), 1, 27_800, "critical", 119_000), "pass: acpitz: 27 °C", &[], &[]),
            (one(16_800, "critical", 18_800), "unknown", &[], &["cooling"]),
            (one(95_000, "critical", 90_000), "unknown", &["have been passed"], &[]),
            (one(-273_000, "critical", 90_000), "unknown", &[], &[]),
            (one(255_000, "passive", 256_000), "unknown", &[], &[]),
            (one(84_000, "passive", 85_000), "low: acpitz: 84 °C", &[], &[]),
            (one(86_000, "passive", 85_000), "low", &[], &[]),
        ],
    );
}

#[test]
fn each_kind_of_core_has_its_own_setting_for_reads_of_its_counters() {
    let pmus = |each: &[(&str, &str)]| {
        each.iter().fold(Machine::pc(), |machine, (name, rdpmc)| {
            let folder = format!("sys/bus/event_source/devices/{name}");
            let kind = if *name == "software" { "1" } else { "4" };
            let machine = machine.file(&format!("{folder}/type"), kind);
            if rdpmc.is_empty() { machine } else { machine.file(&format!("{folder}/rdpmc"), rdpmc) }
        })
    };
    check(
        "rdpmc",
        None,
        Goal::General,
        vec![
            (
                pmus(&[("cpu_atom", "0"), ("cpu_core", "0")]),
                "info: rdpmc is 0 for cpu_atom and cpu_core",
                &["devices/cpu_core/rdpmc"],
                &["devices/cpu/rdpmc"],
            ),
            (
                pmus(&[("cpu_atom", "0"), ("cpu_core", "1")]),
                "info: rdpmc is 0 for cpu_atom:",
                &["devices/cpu_atom/rdpmc"],
                &["devices/cpu_core"],
            ),
            (pmus(&[("cpu_atom", "1"), ("cpu_core", "2")]), "pass: rdpmc is 1", &[], &[]),
            (pmus(&[("cpu", "0")]), "info: rdpmc is 0:", &["devices/cpu/rdpmc"], &[]),
            (pmus(&[("cpu", "")]), "unknown", &[], &[]),
            (pmus(&[("software", "")]), "not applicable", &[], &[]),
        ],
    );
}

#[test]
fn offline_cpus_are_mentioned() {
    let of = |online: &str, offline: &str, present: &str| {
        let file = |name: &str| format!("sys/devices/system/cpu/{name}");
        Machine::new("aarch64")
            .file(&file("online"), online)
            .file(&file("offline"), offline)
            .file(&file("present"), present)
            .file(&file("isolated"), "")
    };
    check(
        "isolated-cpus",
        None,
        Goal::General,
        vec![
            (of("0", "1-7", "0-7"), "info: only one CPU is online (CPUs 1-7 are offline)", &[], &[]),
            (of("0", "", "0"), "info: only one CPU is online:", &[], &["offline"]),
            (of("0-2,4", "3", "0-4"), "info: none of the 4 online CPUs is isolated; CPU 3 is offline", &[], &[]),
            // CPUs that the kernel could have, but that are not present.
            (of("0-3", "4-63", "0-3"), "info: none of the 4 CPUs is isolated", &[], &["offline"]),
        ],
    );
}

#[test]
fn a_small_budget_of_real_time_threads_is_a_problem_for_every_goal() {
    let of = |runtime: i64, period: i64| {
        Machine::pc()
            .fact("kernel_release", json!("6.6.1"))
            .file("proc/sys/kernel/sched_rt_runtime_us", &runtime.to_string())
            .file("proc/sys/kernel/sched_rt_period_us", &period.to_string())
    };
    for goal in Goal::ALL {
        check(
            "realtime-budget",
            None,
            goal,
            vec![
                (
                    of(1_000, 1_000_000),
                    "high: allowed: 1 ms of every 1000 ms: all of them together are paused for up to 999 ms",
                    &[],
                    &[],
                ),
                (of(0, 1_000_000), "high: allowed: 0 ms", &[], &[]),
                (of(500, 1_000), "high: allowed: 0.5 ms of every 1 ms", &[], &[]),
                (of(950_000, 1_000_000), "pass", &[], &[]),
                (of(-1, 1_000_000), "not applicable", &[], &[]),
                (of(1_000, 1_000_000).fact("kernel_release", json!("6.14.0")), "not applicable", &[], &[]),
            ],
        );
    }
}

#[test]
fn the_mode_of_preemption_is_named_and_judged_for_a_real_time_thread() {
    let of = |version: &str| Machine::pc().fact("kernel_version", json!(version));
    let configured =
        |version: &str, line: &str| of(version).file("boot/config-6.12.0", &format!("CONFIG_X=y\n{line}\n"));
    let mode = |modes: &str| of("#1 SMP PREEMPT_DYNAMIC").file("sys/kernel/debug/sched/preempt", modes);
    check(
        "preemption",
        None,
        Goal::Realtime,
        vec![
            (
                mode("none (voluntary) full lazy\n"),
                "high: PREEMPT_DYNAMIC, in mode `voluntary`",
                &["preempt=full"],
                &[],
            ),
            (mode("none voluntary (full) lazy\n"), "low: PREEMPT_DYNAMIC, in mode `full`", &[], &["preempt=full"]),
            (mode("full (lazy)\n"), "low: PREEMPT_DYNAMIC, in mode `lazy`", &[], &[]),
            (of("#1 SMP PREEMPT_DYNAMIC"), "low: PREEMPT_DYNAMIC; its mode", &["preempt=full"], &[]),
            (
                configured("#1 SMP PREEMPT_DYNAMIC", "CONFIG_PREEMPT_NONE=y"),
                "high: PREEMPT_DYNAMIC, in mode `none`",
                &[],
                &[],
            ),
            (configured("#1 SMP", "CONFIG_PREEMPT_NONE=y"), "high: built for the mode `none`", &[], &["preempt=full"]),
            (of("#1 SMP"), "high: preemptible only at explicit points in its code (PREEMPT_NONE", &[], &[]),
            (of("#1 SMP PREEMPT"), "low: preemptible outside of critical sections", &[], &[]),
            (of("#1 SMP PREEMPT_RT"), "pass", &[], &[]),
            (of(""), "unknown", &[], &[]),
        ],
    );
    assert!(of("#1 SMP").says("preemption", None, Goal::Benchmarks).starts_with("info"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn the_configuration_of_the_kernel_decides_what_it_supports() {
    let of = |lines: &str| Machine::pc().file("proc/config.gz", lines);
    let throttled = |lines: &str| {
        of(lines)
            .file("proc/sys/kernel/sched_rt_runtime_us", "950000")
            .file("proc/sys/kernel/sched_rt_period_us", "1000000")
            .fact("kernel_release", json!("6.16.0"))
            .file("sys/fs/cgroup/cpu.max", "max 100000")
    };
    let groups = "CONFIG_RT_GROUP_SCHED=y\n";
    let off = "CONFIG_RT_GROUP_SCHED=y\nCONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y\n";
    check(
        "throttling",
        None,
        Goal::Realtime,
        vec![
            (throttled(groups), "high: allowed: 950 ms", &[], &[]),
            (throttled("# CONFIG_RT_GROUP_SCHED is not set\n"), "not applicable", &[], &["unless"]),
            (throttled(off), "not applicable", &[], &[]),
            (throttled(off).file("proc/cmdline", "rt_group_sched=1"), "high: allowed: 950 ms", &[], &[]),
            (throttled(groups).file("proc/cmdline", "rt_group_sched=0"), "not applicable", &[], &[]),
            (throttled("CONFIG_HZ=250\n"), "unknown", &["CONFIG_RT_GROUP_SCHED"], &[]),
        ],
    );
    let files = |lines: &str, command_line: &str| {
        of(lines)
            .file("proc/cmdline", command_line)
            .file("sys/devices/system/cpu/isolated", "")
            .situation("kernel_threads", json!([{ "name": "kthreadd", "cpus": "0-3", "policy": 0, "priority": 0 }]))
    };
    let without =
        "# CONFIG_CPU_ISOLATION is not set\n# CONFIG_NO_HZ_FULL is not set\n# CONFIG_RCU_NOCB_CPU is not set\n";
    check(
        "isolated-cpus",
        Some(3),
        Goal::Realtime,
        vec![
            (files(without, ""), "high", &["this one ignores isolcpus"], &["Boot with"]),
            (files("CONFIG_CPU_ISOLATION=y\n", ""), "high", &["Boot with isolcpus=3"], &["ignores"]),
            (
                files("CONFIG_CPU_ISOLATION=y\n", "isolcpus=3"),
                "high",
                &["isolcpus=3 is on the kernel command line, but not in effect"],
                &["Boot with"],
            ),
            (files("", ""), "high", &["Boot with isolcpus=3"], &["ignores"]),
        ],
    );
    check(
        "parameters-ignored",
        None,
        Goal::Realtime,
        vec![
            (
                files(without, "isolcpus=3 rcu_nocbs=3"),
                "low",
                &["isolcpus=3 is set, but this kernel was built without CONFIG_CPU_ISOLATION", "CONFIG_RCU_NOCB_CPU"],
                &[],
            ),
            (files("CONFIG_CPU_ISOLATION=y\n", "isolcpus=3"), "low: isolcpus=3 is set, but not in effect", &[], &[]),
        ],
    );
    check(
        "rcu-callbacks",
        Some(3),
        Goal::Realtime,
        vec![
            (files(without, ""), "info", &["built without CONFIG_RCU_NOCB_CPU"], &["Boot with"]),
            (files("CONFIG_RCU_NOCB_CPU=y\n", ""), "low", &["Boot with rcu_nocbs=3"], &[]),
        ],
    );
    let realtime = of("CONFIG_PREEMPT_RT=y\n").fact("kernel_version", json!("#1 SMP PREEMPT"));
    check("preemption", None, Goal::Realtime, vec![(realtime, "pass: the kernel is PREEMPT_RT", &[], &[])]);
}

#[test]
fn a_quota_is_a_problem_if_it_is_used_up() {
    let of = |quota_us: u64, used_up: Option<u64>, periods: Option<u64>| {
        let quota = json!({ "quota_us": quota_us, "period_us": 100_000, "used_up": used_up, "periods": periods });
        Machine::pc().situation("control_groups", json!({ "tell_of_time": true, "quota": quota }))
    };
    check(
        "cpu-quota",
        None,
        Goal::General,
        vec![
            (of(50_000, Some(7), Some(900)), "high", &["used up 7 times in 900 periods"], &[]),
            (of(50_000, Some(1), None), "high", &["used up once"], &["periods"]),
            // Once a week.
            (of(200_000, Some(6), Some(6_048_000)), "low", &["used up 6 times in 6048000 periods"], &[]),
            // A service that stays within its quota.
            (of(200_000, Some(0), Some(86_400)), "info", &["never been used up in 86400 periods"], &[]),
            // Nothing has run in the group, or the kernel does not count.
            (of(200_000, Some(0), Some(0)), "unknown", &["cpu.stat"], &[]),
            (of(50_000, None, None), "unknown", &["cpu.stat"], &[]),
            (of(400_000, None, None), "pass", &["full time"], &[]),
        ],
    );
    check(
        "cpu-quota",
        Some(3),
        Goal::Realtime,
        vec![
            (of(50_000, Some(0), Some(900)), "high", &["it is less than the time of one CPU"], &[]),
            (of(100_000, Some(0), Some(900)), "info", &["never been used up"], &[]),
            (of(100_000, Some(3), Some(900)), "high", &["used up 3 times"], &[]),
        ],
    );
}

/// Describes the distribution of a machine whose services systemd starts.
fn system(distributions: &Value, is_a_container: bool, has_kernel: bool) -> Value {
    json!({ "distributions": distributions, "has_systemd": true, "is_a_container": is_a_container, "has_kernel": has_kernel })
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn fixes_are_commands_of_the_distribution_or_none() {
    let of = |system: Value| {
        Machine::pc()
            .clock(UNSYNC, 10_000, 0, 16_000_000)
            .situation("time_daemons", json!([]))
            .situation("system", system)
    };
    check(
        "wall-time",
        None,
        Goal::General,
        vec![
            (
                of(system(&json!(["debian"]), false, true)),
                "high",
                &["sudo apt-get install chrony", "timedatectl set-ntp"],
                &[],
            ),
            (of(system(&json!(["fedora", "rhel"]), false, true)), "high", &["sudo dnf install chrony"], &["apt-get"]),
            (
                of(system(&json!(["opensuse-leap", "suse"]), false, true)),
                "high",
                &["sudo zypper install chrony"],
                &["apt-get"],
            ),
            (of(system(&json!(["nixos"]), false, true)), "high", &["Install a time daemon"], &["apt-get", "sudo dnf"]),
            (of(Value::Null), "high", &["Install a time daemon"], &["apt-get", "timedatectl"]),
        ],
    );
    check(
        "preemption",
        None,
        Goal::Realtime,
        vec![
            (of(system(&json!(["debian"]), false, true)), "low", &["linux-image-rt-amd64"], &[]),
            (
                of(system(&json!(["ubuntu", "debian"]), false, true)),
                "low",
                &["sudo pro enable realtime-kernel"],
                &["linux-image"],
            ),
            (
                of(system(&json!(["fedora"]), false, true)),
                "low",
                &["if your distribution has one"],
                &["linux-image", "apt-get"],
            ),
            (of(system(&json!(["debian"]), true, true)), "low", &["on the host of this container"], &["apt-get"]),
            (of(system(&json!(["debian"]), false, false)), "low", &["no files of its kernel"], &["apt-get"]),
            (of(Value::Null), "low", &["if your distribution has one"], &["apt-get"]),
        ],
    );
    let two = |distribution: &str| {
        of(system(&json!([distribution]), false, true))
            .situation("time_daemons", json!(["systemd-timesyncd", "chronyd"]))
    };
    check(
        "time-daemons",
        None,
        Goal::General,
        vec![
            (two("debian"), "high", &["disable --now chrony]"], &[]),
            (two("fedora"), "high", &["disable --now chronyd]"], &[]),
        ],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn commands_of_a_service_manager_are_offered_only_where_it_runs() {
    let quota = |system: Value| {
        Machine::pc().situation("system", system).situation(
            "control_groups",
            json!({ "tell_of_time": true, "quota": { "quota_us": 50_000, "period_us": 100_000, "used_up": 7 }, "cpus": "0-1" }),
        )
    };
    let without = |mut system: Value| {
        system["has_systemd"] = json!(false);
        system
    };
    let (service, container) = (system(&json!(["debian"]), false, true), system(&json!(["debian"]), true, true));
    check(
        "cpu-quota",
        None,
        Goal::General,
        vec![
            (quota(service.clone()), "high", &["systemctl set-property --runtime SERVICE CPUQuota="], &[]),
            (quota(without(service.clone())), "high", &["Remove the quota"], &["systemctl"]),
            (quota(container.clone()), "high", &["Start the container without"], &["systemctl"]),
            (quota(Value::Null), "high", &["Remove the quota"], &["systemctl"]),
        ],
    );
    check(
        "cpus-left",
        Some(3),
        Goal::Realtime,
        vec![
            (quota(service.clone()), "low", &["AllowedCPUs=0-1,3"], &[]),
            (quota(without(service.clone())), "low", &["Allow these CPUs"], &["systemctl"]),
            (quota(container.clone()), "low", &["--cpuset-cpus"], &["systemctl", "SERVICE"]),
        ],
    );
    let isolated =
        |system: Value| Machine::pc().file("sys/devices/system/cpu/isolated", "").situation("system", system);
    check(
        "isolated-cpus",
        Some(3),
        Goal::Realtime,
        vec![
            (isolated(service.clone()), "high", &["set-property --runtime system.slice AllowedCPUs=0-2"], &[]),
            (isolated(without(service.clone())), "high", &["off the CPU with a cpuset"], &["systemctl"]),
            (isolated(container), "high", &["on the host of this container"], &["update-grub"]),
            (isolated(Value::Null), "high", &["isolcpus=3"], &["systemctl"]),
        ],
    );
    let balanced = |ids: Value| isolated(system(&ids, false, true)).situation("balances_interrupts", json!(true));
    check(
        "irqbalance",
        Some(3),
        Goal::Realtime,
        vec![
            (balanced(json!(["debian"])), "low", &["/etc/default/irqbalance", "systemctl restart irqbalance"], &[]),
            (balanced(json!(["fedora"])), "low", &["/etc/sysconfig/irqbalance"], &["/etc/default"]),
            (
                isolated(without(system(&json!(["alpine"]), false, true)))
                    .situation("balances_interrupts", json!(true)),
                "low",
                &["/etc/conf.d/irqbalance", "Disable irqbalance"],
                &["systemctl"],
            ),
        ],
    );
}

#[test]
fn the_release_of_an_imitated_kernel_is_no_evidence() {
    let of = |imitator: Value| {
        Machine::pc()
            .fact("imitator", imitator)
            .fact("kernel_release", json!("4.4.0"))
            .fact("kernel_version", json!("#1 SMP Sun Jan 10 15:06:54 PST 2016"))
    };
    for (rule, real) in [("preemption", "high"), ("fair-server", "not applicable: this kernel has no fair server")] {
        for imitator in ["an unnamed system, as gVisor is", "WSL 1", "FreeBSD"] {
            check(rule, None, Goal::Realtime, vec![(of(json!(imitator)), "unknown", &[], &[])]);
        }
        check(rule, None, Goal::Realtime, vec![(of(Value::Null), real, &[], &[])]);
    }
}
