//! The conditions during a measurement: a thread that reads them on a CPU that is not measured, the document field, and
//! notes on conditions that spoil a result. `measure::ConditionsWatch` reads them.

use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use clap::Args;
use hpt_core::Host;
use hpt_document::{
    conditions::{Conditions, CpuConditions},
    limit::LimitRow,
};
use hpt_instrument::measure::ConditionsWatch;
use hpt_realtime::{Pinned, allowed_cpus};

use super::{limits::verdict::doubt, not_run::NOTICEABLE};
use crate::{
    context::Context,
    output::{Align, Answer, Block, Cell, Column, Table, one_or_many, short_frequency, short_time},
};

/// The shortest time between two readings during a measurement.
const PACE: Duration = Duration::from_secs(1);
/// The number of readings per doubling of the elapsed time, after the first minute. A run of an hour has about 300
/// readings.
const READINGS: u32 = 60;

/// Options that say what the conditions mean for the result.
#[derive(Clone, Copy, Debug, Default, Args, Serialize, Deserialize)]
pub(crate) struct ConditionOptions {
    /// Exit code 3 if conditions spoiled the result
    ///
    /// The conditions are: thermal or firmware throttling, under-voltage, a change of the clocksource, firmware
    /// interrupts (SMI), and steal time of 2 % or more. Without --strict, hpt only prints a note.
    #[arg(long, hide_short_help = true)]
    strict: bool,
}

/// Reads the conditions from the beginning to the end of a measurement.
#[derive(Debug)]
pub(crate) struct ConditionsThread<'a> {
    host: &'a Host,
    watch: Arc<Mutex<Option<ConditionsWatch>>>,
    sampler: Option<Sampler>,
}

/// The thread that reads the conditions during a measurement.
#[derive(Debug)]
struct Sampler {
    cpu: usize,
    /// Dropping it ends the thread.
    stop: mpsc::Sender<()>,
    /// Returns whether the thread was on its CPU.
    thread: JoinHandle<bool>,
}

impl<'a> ConditionsThread<'a> {
    /// Reads the conditions of the CPUs on which threads will measure. `None` stands for a thread that is not pinned.
    /// Call this function before the measuring thread gets its CPU and its scheduling policy, because the thread that
    /// reads the conditions inherits both.
    pub(crate) fn begin(context: &'a Context, measured: &[Option<usize>]) -> Self {
        let allowed = allowed_cpus();
        let cpus: Vec<usize> = match measured.iter().copied().collect::<Option<Vec<_>>>() {
            Some(cpus) => cpus,
            None => allowed.clone(),
        };
        let unmeasured = unmeasured_cpu(measured, &allowed);
        // This reading itself must not warm up a measured CPU.
        let _there = unmeasured.and_then(|cpu| Pinned::new(cpu).ok());
        let watch = Arc::new(Mutex::new(Some(ConditionsWatch::begin(&context.host, cpus))));
        let sampler = unmeasured.and_then(|cpu| Sampler::start(cpu, context.host.clone(), Arc::clone(&watch)));
        Self { host: &context.host, watch, sampler }
    }

    /// Reads the conditions for the last time, and returns them as a document field.
    pub(crate) fn end(self) -> Conditions {
        let sampled_on_cpu = self.sampler.and_then(Sampler::end);
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let found = watch.map(|watch| watch.end(self.host));
        found.map(|found| Conditions { sampled_on_cpu, ..found }).unwrap_or_default()
    }
}

impl Sampler {
    fn start(cpu: usize, host: Host, watch: Arc<Mutex<Option<ConditionsWatch>>>) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let sample = move || {
            // On another CPU, the thread would disturb a measurement.
            let Ok(_there) = Pinned::new(cpu) else { return false };
            let begun = Instant::now();
            while stopped.recv_timeout(pace(begun.elapsed())) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Some(watch) = watch.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                    watch.sample(&host);
                }
            }
            true
        };
        // Without the thread, the conditions are known only at the beginning and at the end.
        let thread = Builder::new().name("conditions".to_owned()).spawn(sample).ok()?;
        Some(Self { cpu, stop, thread })
    }

    /// Ends the thread, and returns its CPU.
    fn end(self) -> Option<usize> {
        drop(self.stop);
        self.thread.join().unwrap_or(false).then_some(self.cpu)
    }
}

/// Returns the time until the next reading.
fn pace(elapsed: Duration) -> Duration {
    PACE.max(elapsed / READINGS)
}

/// Returns a CPU on which nothing is measured, or `None` if every CPU may run a measuring thread.
pub(crate) fn unmeasured_cpu(measured: &[Option<usize>], allowed: &[usize]) -> Option<usize> {
    let is_free = |cpu: &&usize| !measured.contains(&Some(**cpu));
    if measured.contains(&None) { None } else { allowed.iter().find(is_free).copied() }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Spoiled {
    /// A few words for the condition.
    what: &'static str,
    note: String,
}

fn spoiled(conditions: &Conditions) -> Vec<Spoiled> {
    let mut found = Vec::new();
    if let Some(states) = &conditions.firmware {
        let flags = states.get_throttled.map_or_else(String::new, |flags| format!(" (get_throttled: {flags:#x})"));
        if states.under_voltage == Some(true) {
            let note = format!(
                "the supply voltage was too low during the run, so the firmware may have lowered the CPU frequency{flags}; use a stronger power supply"
            );
            found.push(Spoiled { what: "under-voltage", note });
        }
        let is = |state: Option<bool>| state == Some(true);
        if is(states.throttled) || is(states.frequency_capped) || is(states.soft_temperature_limit) {
            let note = format!(
                "the firmware throttled the CPUs during the run{flags}; improve the cooling or the power supply"
            );
            found.push(Spoiled { what: "throttling by the firmware", note });
        }
    }
    for cpu in &conditions.cpus {
        if let Some(count) = cpu.thermal_throttles.filter(|&count| count > 0) {
            let times = one_or_many(count, "time", "times");
            let note = format!(
                "the processor throttled CPU {} {count} {times} during the run because of its temperature; improve the cooling",
                cpu.cpu
            );
            found.push(Spoiled { what: "thermal throttling", note });
        }
        if let Some(count) = cpu.smi_count.filter(|&count| count > 0) {
            let handled = one_or_many(count, "firmware interrupt (SMI)", "firmware interrupts (SMI)");
            let note =
                format!("CPU {} handled {count} {handled} during the run, which the kernel cannot prevent", cpu.cpu);
            found.push(Spoiled { what: "firmware interrupts", note });
        }
    }
    if let Some(changes) = conditions.clocksource_changes.filter(|&changes| changes > 0) {
        let name = |source: &Option<String>| source.clone().unwrap_or_else(|| "unknown".to_owned());
        let note = format!(
            "the kernel's clocksource changed {changes} {} during the run ({} at the beginning, {} at the end), so readings of the kernel's clocks before and after it are not comparable",
            one_or_many(changes, "time", "times"),
            name(&conditions.clocksource_begin),
            name(&conditions.clocksource_end)
        );
        found.push(Spoiled { what: "a change of the clocksource", note });
    }
    found.extend(stolen(conditions));
    found
}

/// Returns whether the hypervisor took a noticeable share of the time of a CPU.
fn stolen(conditions: &Conditions) -> Option<Spoiled> {
    // Steal time is counted in steps, and one step may be next to nothing.
    let certain_s = |stolen_s: f64| (stolen_s - STOLEN_STEP_S).max(0.0);
    let share = |cpu: &CpuConditions| Some((cpu.cpu, certain_s(cpu.stolen_s?) / conditions.elapsed_s));
    let shares = conditions.cpus.iter().filter_map(share);
    let (cpu, share) = shares.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (share.is_finite() && share >= NOTICEABLE).then(|| Spoiled {
        what: STOLEN,
        note: format!(
            "the hypervisor ran other guests on CPU {cpu} for {:.0} % of the time (steal time)",
            share.min(1.0) * 100.0
        ),
    })
}

const STOLEN: &str = "steal time";
/// The step in which the kernel counts steal time, in seconds.
const STOLEN_STEP_S: f64 = 0.01;
/// The start of the note that says that `--strict` refused a result.
pub(crate) const REFUSAL: &str = "--strict: ";

/// The words of the notes on time that a thread did not run because it was stolen.
const STOLEN_WORDS: &str = "the hypervisor ran other guests on its CPU";

impl ConditionOptions {
    /// Adds a note for each condition that spoils the result. With `--strict`, limits that held are then unknown, and so
    /// is the answer, unless it is no. A further note says so.
    pub(crate) fn judge(
        self,
        conditions: &Conditions,
        (notes, limits): (&mut Vec<String>, &mut [LimitRow]),
        answer: Answer,
    ) -> Answer {
        let spoiled = spoiled(conditions);
        let is_said = notes.iter().any(|note| note.contains(STOLEN_WORDS));
        notes.extend(spoiled.iter().filter(|one| !(one.what == STOLEN && is_said)).map(|one| one.note.clone()));
        if !self.strict || spoiled.is_empty() {
            return answer;
        }
        let mut what: Vec<&str> = spoiled.iter().map(|one| one.what).collect();
        what.dedup();
        let what = what.join(", ");
        doubt(limits, &format!("{REFUSAL}the value does not count because of {what}"));
        notes.push(match answer {
            Answer::No => format!("{REFUSAL}the answer is no (exit code 1) despite {what}; other values do not count"),
            Answer::Yes | Answer::Unknown => format!("{REFUSAL}the result is unknown (exit code 3) because of {what}"),
        });
        answer.and(Answer::Unknown)
    }
}

/// Returns a table and a text about the conditions, which are printed only with `--verbose`.
pub(crate) fn details(conditions: &Conditions) -> Vec<Block> {
    if conditions.cpus.is_empty() {
        return Vec::new();
    }
    let columns = ["CPU", "freq min", "freq mean", "freq max", "interrupts/s", "stolen", "SMI", "throttled"];
    let columns = columns.into_iter().map(|name| Column(name, Align::Right)).collect();
    let row = |cpu: &CpuConditions| {
        let frequency = |hz: Option<f64>| Cell::or_dash(hz.map(short_frequency));
        let count = |count: Option<u64>| Cell::or_dash(count.map(|count| count.to_string()));
        vec![
            Cell::plain(cpu.cpu.to_string()),
            frequency(cpu.frequency_min_hz),
            frequency(cpu.frequency_mean_hz),
            frequency(cpu.frequency_max_hz),
            Cell::or_dash(cpu.interrupts_per_s.map(|rate| format!("{rate:.0}"))),
            Cell::or_dash(cpu.stolen_s.map(|stolen_s| short_time(stolen_s * 1e9))),
            count(cpu.smi_count),
            count(cpu.thermal_throttles),
        ]
    };
    let table = Table { columns, rows: conditions.cpus.iter().map(row).collect() };
    let mut blocks = vec![Block::Detail(Box::new(Block::Table(table.without_empty_columns())))];
    blocks.push(Block::detail(words(conditions)));
    blocks
}

fn words(conditions: &Conditions) -> String {
    let times = one_or_many(conditions.readings, "time", "times");
    let place = conditions.sampled_on_cpu.map_or_else(
        || "only at the beginning and at the end".to_owned(),
        |cpu| format!("during the run on CPU {cpu}"),
    );
    let mut sentences = vec![format!("Conditions: read {} {times}, {place}", conditions.readings)];
    for cpu in &conditions.cpus {
        let states = cpu.idle_states.iter().flatten().filter(|state| state.entries > 0 || state.share > 0.0);
        let states: Vec<_> = states.map(|state| format!("{} {:.1} %", state.name, state.share * 100.0)).collect();
        if !states.is_empty() {
            sentences.push(format!("Idle states of CPU {}: {}", cpu.cpu, states.join(", ")));
        }
    }
    let hottest = conditions.temperatures.iter().flatten();
    if let Some(zone) = hottest.max_by(|one, other| one.max_celsius.total_cmp(&other.max_celsius)) {
        let (min, max) = (zone.min_celsius, zone.max_celsius);
        sentences.push(format!("Temperature ({}): {min:.0} °C to {max:.0} °C", zone.zone));
    }
    if let Some(source) = &conditions.clocksource_end {
        sentences.push(format!("Clocksource: {source}"));
    }
    if let Some(slew) = &conditions.slew {
        sentences.push(format!(
            "Rate correction of the kernel's clocks: {:.3} ppm to {:.3} ppm",
            slew.rate_min_ppm, slew.rate_max_ppm
        ));
    }
    sentences.join(". ") + "."
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use hpt_core::Host;
    use hpt_document::conditions::{
        ClockSlew, Conditions, CpuConditions, FirmwareStates, IdleResidency, ZoneTemperature,
    };
    use hpt_instrument::measure::ConditionsWatch;
    use hpt_sys::host::{Capture, Entry};

    use super::{ConditionOptions, pace, spoiled, unmeasured_cpu};
    use crate::{
        golden,
        output::Answer,
        sampling::limits::{table::tests::examples, verdict},
    };

    const STRICT: ConditionOptions = ConditionOptions { strict: true };
    const NOT_STRICT: ConditionOptions = ConditionOptions { strict: false };

    /// Returns an example of conditions, for tests of the output.
    pub(crate) fn example() -> Conditions {
        let zone = |zone: &str, max_celsius| ZoneTemperature {
            zone: zone.to_owned(),
            min_celsius: 41.5,
            mean_celsius: 43.25,
            max_celsius,
        };
        let state = |name: &str, share, entries| IdleResidency { name: name.to_owned(), share, entries };
        Conditions {
            elapsed_s: 60.001,
            readings: 61,
            sampled_on_cpu: Some(0),
            cpus: vec![CpuConditions {
                cpu: 1,
                frequency_min_hz: Some(6e8),
                frequency_mean_hz: Some(1.4e9),
                frequency_max_hz: Some(1.5e9),
                idle_states: Some(vec![state("WFI", 0.875, 61_000), state("C6", 0.0, 0)]),
                thermal_throttles: Some(0),
                smi_count: None,
                stolen_s: Some(0.01),
                interrupts_per_s: Some(1_003.25),
            }],
            temperatures: Some(vec![zone("cpu-thermal", 55.0), zone("gpu-thermal", 44.0)]),
            firmware: Some(FirmwareStates {
                under_voltage: Some(false),
                frequency_capped: Some(false),
                throttled: Some(false),
                soft_temperature_limit: Some(false),
                get_throttled: Some(0),
            }),
            clocksource_begin: Some("tsc".to_owned()),
            clocksource_end: Some("tsc".to_owned()),
            clocksource_changes: Some(0),
            slew: Some(ClockSlew {
                rate_min_ppm: -12.5,
                rate_mean_ppm: -12.25,
                rate_max_ppm: -12.0,
                offset_begin_ns: -1_500,
                offset_end_ns: 0,
            }),
        }
    }

    #[test]
    fn usual_conditions_spoil_nothing() {
        let mut notes = Vec::new();
        assert_eq!(STRICT.judge(&example(), (&mut notes, &mut []), Answer::No), Answer::No);
        assert_eq!(STRICT.judge(&Conditions::default(), (&mut notes, &mut []), Answer::Yes), Answer::Yes);
        assert_eq!(notes, Vec::<String>::new());
    }

    /// Returns the derived Raspberry Pi with this content of get_throttled.
    fn raspberry_pi(flags: &str) -> Host {
        const NAME: &str = "derived-raspberry-pi-4-untuned";
        let host = golden::captured(NAME);
        let path = format!("{}/../hpt-sys/tests/hosts/{NAME}.capture", env!("CARGO_MANIFEST_DIR"));
        let mut capture = Capture::open(path.as_ref()).expect("one of the test data files of hpt-core");
        let file = "sys/bus/platform/drivers/raspberrypi-firmware/soc:firmware/get_throttled";
        assert!(capture.remove(file).is_some(), "the derived machine has that file");
        capture.insert(file, Entry::File(flags.into())).expect("a file of the machine");
        Host::captured(capture, host.facts().clone())
    }

    #[test]
    fn a_throttling_bit_that_appears_half_way_is_a_note_and_with_strict_unknown() {
        let run = |before: &str, after: &str| {
            let watch = ConditionsWatch::begin(&raspberry_pi(before), [0]);
            watch.end(&raspberry_pi(after))
        };
        for (before, after, what) in [
            ("0\n", "40004\n", "the firmware throttled the CPUs during the run (get_throttled: 0x40004)"),
            ("0\n", "40000\n", "the firmware throttled the CPUs"),
            ("50000\n", "50001\n", "the supply voltage was too low during the run"),
        ] {
            let conditions = run(before, after);
            let mut notes = Vec::new();
            assert_eq!(NOT_STRICT.judge(&conditions, (&mut notes, &mut []), Answer::Yes), Answer::Yes);
            assert!(notes.len() == 1 && notes[0].starts_with(what), "{notes:?}");
            let mut notes = Vec::new();
            assert_eq!(STRICT.judge(&conditions, (&mut notes, &mut []), Answer::Yes), Answer::Unknown);
            assert!(
                notes.len() == 2 && notes[1].starts_with("--strict: the result is unknown (exit code 3)"),
                "{notes:?}"
            );
        }
        // It had happened before the run.
        assert_eq!(spoiled(&run("50000\n", "50000\n")), []);
    }

    #[test]
    fn an_exceeded_limit_outweighs_a_spoiled_result_and_a_held_one_becomes_unknown() {
        let mut conditions = example();
        conditions.cpus[0].thermal_throttles = Some(1);
        let judged = |wanted: &[Option<bool>]| {
            let mut limits = examples();
            limits.retain(|limit| wanted.contains(&limit.held));
            let (mut notes, answer) = (Vec::new(), verdict::answer(&limits));
            let answer = STRICT.judge(&conditions, (&mut notes, &mut limits), answer);
            // The exit code and the verdicts agree.
            assert_eq!(answer, verdict::answer(&limits));
            let held: Vec<_> = limits.iter().map(|limit| limit.held).collect();
            (answer, held, notes.last().cloned().unwrap_or_default(), limits)
        };
        let (answer, held, note, limits) = judged(&[Some(true), Some(false), None]);
        assert_eq!((answer, held), (Answer::No, vec![None, Some(false), None]));
        assert_eq!(
            note,
            "--strict: the answer is no (exit code 1) despite thermal throttling; other values do not count"
        );
        let reason = "--strict: the value does not count because of thermal throttling";
        assert_eq!(limits[0].reason.as_deref(), Some(reason));
        assert!(limits[0].seen_ns.is_some() && limits[1].reason == examples()[1].reason, "{limits:?}");
        let (answer, held, note, _) = judged(&[Some(true)]);
        assert_eq!((answer, held), (Answer::Unknown, vec![None]));
        assert!(note.starts_with("--strict: the result is unknown (exit code 3)"), "{note}");
    }

    #[test]
    fn each_condition_that_spoils_a_result_is_named() {
        let of = |change: fn(&mut Conditions)| {
            let mut conditions = example();
            change(&mut conditions);
            let mut notes = Vec::new();
            assert_eq!(STRICT.judge(&conditions, (&mut notes, &mut []), Answer::Yes), Answer::Unknown);
            notes.join("\n")
        };
        for (text, what) in [
            (of(|conditions| conditions.cpus[0].thermal_throttles = Some(1)), "thermal throttling"),
            (of(|conditions| conditions.cpus[0].smi_count = Some(2)), "firmware interrupts"),
            (of(|conditions| conditions.clocksource_changes = Some(1)), "a change of the clocksource"),
            (of(|conditions| conditions.cpus[0].stolen_s = Some(1.22)), "steal time"),
        ] {
            assert!(text.ends_with(&format!("because of {what}")) && text.lines().count() == 2, "{text}");
        }
    }

    #[test]
    fn steal_time_is_reported_once_and_only_if_noticeable() {
        let mut conditions = example();
        conditions.cpus[0].stolen_s = Some(1.2);
        assert_eq!(spoiled(&conditions), []);
        conditions.cpus[0].stolen_s = Some(30.0);
        let mut notes = vec!["the thread did not run, because the hypervisor ran other guests on its CPU".to_owned()];
        assert_eq!(STRICT.judge(&conditions, (&mut notes, &mut []), Answer::Yes), Answer::Unknown);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn readings_become_rarer_in_long_runs() {
        let s = Duration::from_secs;
        assert_eq!([0, 30, 60, 600].map(|elapsed| pace(s(elapsed))), [s(1), s(1), s(1), s(10)]);
    }

    #[test]
    fn helper_threads_stay_off_the_measured_cpus() {
        assert_eq!(unmeasured_cpu(&[Some(0), Some(2)], &[0, 1, 2, 3]), Some(1));
        assert_eq!(unmeasured_cpu(&[Some(0), Some(1)], &[0, 1]), None);
        assert_eq!(unmeasured_cpu(&[None], &[0, 1]), None);
    }
}
