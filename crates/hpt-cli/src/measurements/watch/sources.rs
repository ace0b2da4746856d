//! The sources and the pairs of CPUs that `hpt watch` compares, and the expected behavior of each source.

use std::{io, time::Duration};

use hpt_core::{
    FrequencyEstimate, Instant, Opened, SourceId, SourceInfo, TimeSource,
    source::{self, ReadPath, Scope},
};
use hpt_instrument::{
    diagnose::{Expected, Surroundings, are_one_reading},
    measure::{BurstReader, CoreOffset, CpuPair, core_offset},
};
use hpt_sys::host::CpuList;

use crate::{
    context::{Context, continue_if},
    exit::Failure,
    kernel_clocksources::common_counter,
    source_rate::Rate,
};

/// The number of timestamps that two CPUs exchange, and the time limit for the exchange.
const HANDOVERS: u32 = 400;
const LONGEST_HANDOVER: Duration = Duration::from_millis(20);
/// The number of CPU pairs that are compared in one interval.
const PAIRS_IN_AN_INTERVAL: usize = 4;
/// The time for which a source without a nominal frequency is calibrated.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(100);
/// The bound assumed for a measurement without a bound. It allows any rate.
const ANY_PPM: f64 = 1e6;
/// The coarsest resolution of sources that are watched by default. Coarser sources are watched only on request.
const COARSEST_NS: f64 = 1_000.0;

pub(super) fn fit_for_reference(reference: &dyn TimeSource) -> Result<(), Failure> {
    let info = reference.info();
    match (info.scope, info.nominal) {
        (Scope::System, Some(_)) => Ok(()),
        (Scope::System, None) => {
            Err(Failure::Usage("the reference has no nominal frequency; choose one of the kernel's clocks"))
        }
        (Scope::Core | Scope::Process | Scope::Thread, _) => {
            Err(Failure::Usage("the reference does not count system-wide time; choose one of the kernel's clocks"))
        }
    }
}

/// Returns the requested sources that count system-wide time. By default, returns all constant-rate sources that are
/// not coarse, and the wall clock. Also returns notes on the other requested sources.
pub(super) fn sources(
    wanted: &[String],
    context: &Context,
    reference: &dyn TimeSource,
) -> Result<(Vec<Opened>, Vec<String>), Failure> {
    let mut notes = Vec::new();
    let reference_id = &reference.info().id;
    if !wanted.is_empty() {
        if let Some(same) = wanted.iter().find(|name| are_one_reading(name, reference_id.as_str())) {
            return Err(Failure::WatchedIsReference { watched: same.clone(), reference: reference_id.to_string() });
        }
        let opened = context.open_all(wanted)?;
        let (time, other): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|opened| opened.as_dyn().info().scope == Scope::System);
        notes.extend(other.iter().map(|opened| {
            let info = opened.as_dyn().info();
            format!("{} is not watched: it does not count system-wide time (scope: {})", info.id, info.scope.name())
        }));
        return Ok((time, notes));
    }
    let worth_it = |info: &SourceInfo| {
        let fine = info.resolution_ns().is_none_or(|resolution_ns| resolution_ns <= COARSEST_NS);
        let wall_time = info.id.as_str() == "realtime";
        info.scope == Scope::System && !info.revocable && fine && (info.rate.is_steady() || wall_time)
    };
    let names = source::outline(&context.host)
        .into_iter()
        .filter(|report| !are_one_reading(report.id.as_str(), reference_id.as_str()))
        .filter(|report| report.availability.as_ref().is_ok_and(worth_it));
    Ok((names.filter_map(|report| source::open(&context.host, report.id.as_str()).ok()).collect(), notes))
}

/// Returns the sources that have a rate, each with its expectation. `notes` receives a note for each source without a
/// rate, and for each source without a nominal rate.
pub(super) fn with_expectations(
    sources: Vec<Opened>,
    reference: &dyn TimeSource,
    (bursts, around): (&BurstReader<'_>, &Surroundings),
    notes: &mut Vec<String>,
) -> (Vec<Opened>, Vec<Expected>) {
    let (mut kept, mut expected) = (Vec::new(), Vec::new());
    for opened in sources {
        let id = &opened.as_dyn().info().id;
        match expected_of(opened.as_dyn(), reference, bursts, around) {
            Some(expectation) => {
                if !expectation.is_stated() {
                    notes
                        .push(format!("{id} has no nominal frequency; it is compared with its frequency at the start"));
                }
                expected.push(expectation);
                kept.push(opened);
            }
            None => notes.push(format!("{id} is not watched: its frequency against the reference cannot be measured")),
        }
    }
    (kept, expected)
}

/// Returns the expectation for a source. Measures the frequency of a source that has no nominal frequency.
fn expected_of(
    source: &dyn TimeSource,
    reference: &dyn TimeSource,
    bursts: &BurstReader<'_>,
    around: &Surroundings,
) -> Option<Expected> {
    let (granules, info) = (bursts.granules(source), source.info());
    Expected::from_statements(info.clone(), reference.info(), granules, around).or_else(|| {
        let measured = Rate::measured(source, reference, CALIBRATION_WINDOW).ok()?;
        let measured =
            FrequencyEstimate { frequency: measured.frequency, uncertainty_ppm: measured.bound_ppm.unwrap_or(ANY_PPM) };
        Expected::from_measurement(info.clone(), measured, reference.info(), granules, around)
    })
}

/// Returns a note for each period in which the reference used the counter of a watched source. A note states its period
/// unless the period is the whole run.
pub(super) fn common_counters(
    watched: &[Opened],
    reference: &dyn TimeSource,
    counted_by: &[(f64, Option<&str>)],
    end_s: f64,
) -> Vec<String> {
    let ends_s = counted_by.iter().skip(1).map(|(from_s, _)| *from_s).chain([end_s]);
    let spans = counted_by.iter().zip(ends_s);
    let notes = spans.filter_map(|((from_s, counter), to_s)| {
        let note = common_counter(watched.iter().map(|opened| &opened.as_dyn().info().id), reference, *counter)?;
        Some(if counted_by.len() == 1 { note } else { format!("from {from_s} s to {to_s} s: {note}") })
    });
    notes.collect()
}

/// Pairs the first CPU with each of the other CPUs.
pub(super) fn pairs(cpus: &[usize]) -> Vec<(usize, usize)> {
    match cpus.split_first() {
        Some((&first, others)) => others.iter().map(|&other| (first, other)).collect(),
        None => Vec::new(),
    }
}

/// Selects the CPUs to compare, a few pairs in each interval.
pub(super) struct Turns {
    /// The CPUs that hpt may use.
    allowed: Vec<usize>,
    /// Whether hpt may use all CPUs. If so, a CPU that comes online later is also compared.
    are_all: bool,
    place: usize,
}

impl Turns {
    pub(super) fn among(allowed: Vec<usize>, online: Option<&CpuList>) -> Self {
        let are_all = online.is_some_and(|online| online.iter().all(|cpu| allowed.contains(&cpu)));
        Self { allowed, are_all, place: 0 }
    }

    /// Returns the next pairs. Each pair consists of the first online CPU and another online CPU.
    pub(super) fn next(&mut self, running: Option<&CpuList>) -> Vec<(usize, usize)> {
        let cpus: Vec<usize> = match running {
            Some(running) if self.are_all => running.iter().collect(),
            Some(running) => self.allowed.iter().copied().filter(|&cpu| running.contains(cpu)).collect(),
            None => self.allowed.clone(),
        };
        let pairs = pairs(&cpus);
        let now = pairs.iter().cycle().skip(self.place % pairs.len().max(1));
        let now: Vec<_> = now.take(PAIRS_IN_AN_INTERVAL.min(pairs.len())).copied().collect();
        self.place = self.place.wrapping_add(now.len());
        now
    }
}

pub(super) fn has_a_counter_on_each_core(opened: &Opened) -> bool {
    let info = opened.as_dyn().info();
    matches!(opened, Opened::Shared(_)) && info.rate.is_steady() && info.read_path == ReadPath::Register
}

pub(super) fn hand_over(
    opened: &Opened,
    (first, second): (usize, usize),
) -> io::Result<Option<(SourceId, CoreOffset)>> {
    let Opened::Shared(source) = opened else { return Ok(None) };
    let info = source.info();
    let Some(nominal) = &info.nominal else { return Ok(None) };
    let begun = Instant::now();
    let in_time = || continue_if(begun.elapsed() < LONGEST_HANDOVER);
    let offset = core_offset(source.as_ref(), nominal.frequency, CpuPair { first, second }, HANDOVERS, &in_time)?;
    Ok(offset.map(|offset| (info.id.clone(), offset)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hpt_core::{
        Frequency, Host, SourceId, SourceInfo,
        calibrate::Granules,
        source::{self, RateKind, StatedBy},
    };
    use hpt_instrument::diagnose::{Expected, Surroundings};
    use hpt_sys::host::{Capture, CpuList, Entry, ReadRefused};

    use super::{Turns, pairs};
    use crate::context::Context;

    #[test]
    fn the_first_cpu_is_compared_with_each_other() {
        assert_eq!(pairs(&[0, 2, 3]), [(0, 2), (0, 3)]);
        assert!(pairs(&[4]).is_empty() && pairs(&[]).is_empty());
    }

    fn list(text: &str) -> CpuList {
        CpuList::parse(text).expect("a list")
    }

    #[test]
    fn the_first_cpu_that_runs_is_compared_with_the_others_that_run() {
        let mut turns = Turns::among(vec![0, 1, 2, 3], Some(&list("0-3")));
        assert_eq!(turns.next(Some(&list("0-3"))), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(turns.next(Some(&list("1-3"))), [(1, 3), (1, 2)], "the turns continue");
        assert_eq!(turns.next(Some(&list("2"))), []);
        assert_eq!(turns.next(None).len(), 3, "if the online CPUs are unknown, all are tried");
        // A CPU comes online later: hpt may use all CPUs in one case, but not in the other.
        assert!(turns.next(Some(&list("0-4"))).contains(&(0, 4)));
        let mut some = Turns::among(vec![1, 3], Some(&list("0-3")));
        assert_eq!((some.next(Some(&list("0-3"))), some.next(Some(&list("0-2")))), (vec![(1, 3)], vec![]));
    }

    #[test]
    fn many_cpus_are_compared_in_turn() {
        let cpus: Vec<usize> = (0..8).collect();
        let mut turns = Turns::among(cpus, Some(&list("0-7")));
        let mut seen: Vec<_> = (0..2).flat_map(|_| turns.next(Some(&list("0-7")))).map(|(_, second)| second).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
    }

    /// Returns the expectation for the TSC of a captured machine, compared with the kernel's clock.
    fn tsc_on(host: &Host) -> Option<Expected> {
        let mut reports = source::outline(host).into_iter();
        let tsc = reports.find(|report| report.id.as_str() == "tsc").expect("it is listed");
        let reference = SourceInfo::new(SourceId::new("monotonic-raw"))
            .with_rate(RateKind::Constant)
            .with_nominal(Frequency::GIGAHERTZ, StatedBy::Definition);
        let granules = Granules { source_ticks: 1, reference_ns: 1 };
        let tsc = tsc.availability.expect("it has one");
        Expected::from_statements(tsc, &reference, granules, &Surroundings::new(host))
    }

    #[test]
    fn the_rate_that_the_kernel_uses_is_found_if_it_is_published() {
        let path =
            |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../hpt-sys/tests/hosts/{name}.capture"));
        let host = |name: &str| Context::captured(&path(name)).expect("it is there");
        // The rates come from the BogoMIPS of a kernel that was given the rate, from a kernel log, and from a machine
        // whose kernel log is not readable.
        let mut closed = Capture::open(&path("qemu-q35")).expect("it is there");
        closed.insert("dev/kmsg", Entry::Unreadable(ReadRefused::PermissionDenied)).expect("a sound path");
        let closed = Host::captured(closed, host("qemu-q35").facts().clone());
        for (name, host, is_known) in [
            ("amd-epyc-zen3-kvm", host("amd-epyc-zen3-kvm"), true),
            ("qemu-q35", host("qemu-q35"), true),
            ("closed", closed, false),
        ] {
            let tsc = tsc_on(&host).expect("its rate is stated");
            assert_eq!(tsc.beside(Some("tsc")) != tsc.beside(None), is_known, "{name}");
        }
        assert!(tsc_on(&host("derived-no-tsc-flags")).is_none(), "it has no nominal frequency, so it is measured");
    }
}
