//! `hpt probe`: lists every time source, and explains why it is or is not available.

mod terminal;

use std::path::PathBuf;

use clap::{Args, ValueHint};
use hpt_core::{
    Frequency, Host, Instant, PosixClock, PosixId, SourceError, SourceInfo, clock,
    source::{self, Candidate, Fitness, ProbeReport, Scope, Selection, SelfTest, select, self_test},
};
use hpt_document::probe::{InstantStatus, ProbeDocument, ProbeRow, SourceRecommendation};
use hpt_instrument::measure::{Granularity, NotRunWatch};

use self::terminal::{explanation, page};
use crate::{
    arguments::{Codes, after_help},
    context::Context,
    document_head::head_of,
    exit::{Failure, causes, source_remedy},
    output::{Answer, Document, rounded, saturating_nanos},
    sampling::not_run,
    source_granularity::known_granularity,
};

const EXAMPLES: &str = "  \
  hpt probe                       list this machine's sources, best first
  hpt probe --all                 list every source, and why it cannot be used
  hpt probe tsc                   explain tsc; exit code 0 if available, else 1
  hpt probe --host my.capture     list the sources in a system snapshot";

/// List time sources, and explain why each is available or not
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(Some("the source is not available (hpt probe SOURCE)")), EXAMPLES))]
pub(crate) struct ProbeArguments {
    /// Explain this source in detail
    #[arg(value_name = "SOURCE")]
    name: Option<String>,
    /// Same as the argument SOURCE
    #[arg(short, long, value_name = "SOURCE", conflicts_with = "name")]
    source: Option<String>,
    /// List every source, with all columns, the legend and the reasons
    #[arg(short, long, conflicts_with_all = ["name", "source"])]
    all: bool,
    /// Read the system snapshot in FILE (see hpt capture)
    ///
    /// With this option, hpt does not open any source.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) host: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ProbeArguments, context: &Context) -> Result<Document, Failure> {
    let captured = arguments.host.as_deref().map(Context::captured).transpose()?;
    let host = captured.as_ref().unwrap_or(&context.host);
    let wanted = arguments.name.as_deref().or(arguments.source.as_deref());
    if let Some(name) = wanted {
        context.known(name)?;
    }
    let mut data = survey(host, context.notes());
    let Some(name) = wanted else {
        let blocks = page(&data, arguments.all);
        return Ok(Document::new(data, blocks));
    };
    data.sources.retain(|row| row.id == name);
    let row = data.sources.first().expect("every known name has a report");
    if row.read_cost_ns.is_none() {
        // No figure of this source was measured.
        let of_costs = data.not_run.as_ref().and_then(|not_run| not_run::note(not_run, AFFECTED));
        data.notes.retain(|note| Some(note) != of_costs.as_ref());
    }
    let answer = if row.available { Answer::Yes } else { Answer::No };
    let blocks = explanation(&data, row);
    Ok(Document { answer, ..Document::new(data, blocks) })
}

/// The effect of time during which the thread did not run.
const AFFECTED: &str = "the read overheads may be too high";

fn survey(host: &Host, notes: Vec<String>) -> ProbeDocument {
    if host.is_live() {
        // Start the clock before the survey, so that it determines the frequency of the counter during the survey.
        clock::prime();
    }
    let mut not_run = host.is_live().then(|| NotRunWatch::of_blocking_thread(host, None));
    let reference = PosixClock::open(host, PosixId::MonotonicRaw);
    let examined: Vec<(Candidate, Option<Granularity>)> =
        source::probe(host).into_iter().map(|report| examine(host, report, reference.as_ref().ok())).collect();
    let not_run = not_run.as_mut().map(NotRunWatch::read);
    let notes = not_run.iter().filter_map(|not_run| not_run::note(not_run, AFFECTED)).chain(notes).collect();
    let selection = select(examined.iter().map(|(candidate, _)| candidate.clone()));
    let sources: Vec<ProbeRow> = examined
        .into_iter()
        .zip(selection.verdicts())
        .map(|((candidate, granularity), verdict)| row(candidate, granularity, &verdict.fitness))
        .collect();
    let served = sources.iter().find(|row| row.id == "monotonic").and_then(|row| row.read_path.clone());
    ProbeDocument {
        head: head_of("probe", host),
        clock_gettime_read_path: served,
        recommendation: choice(host, &selection),
        instant: host.is_live().then(instant_status),
        sources,
        not_run,
        notes,
    }
}

fn instant_status() -> InstantStatus {
    let _ = Instant::now();
    let status = clock::status();
    InstantStatus {
        source: status.source.to_string(),
        reason: status.reason.to_owned(),
        bound_ns: saturating_nanos(status.bound),
        last_bracket_ns: status.last_bracket.map(saturating_nanos),
        frequency_error_ppm: status.frequency_error_ppm.map(rounded),
        comparisons: status.anchorings,
        rate_changes: status.rate_changes,
        steps: status.jumps,
        disruptions: status.disruptions,
        rejected_brackets: status.refused_brackets,
    }
}

fn choice(host: &Host, selection: &Selection) -> SourceRecommendation {
    let reason = if host.is_live() {
        selection.reason()
    } else {
        "none: hpt tests sources only on a live system, not in a snapshot".to_owned()
    };
    SourceRecommendation { source: selection.chosen().map(ToString::to_string), reason }
}

/// Opens and tests an available source. A system snapshot has no sources to open.
fn examine(host: &Host, report: ProbeReport, reference: Option<&PosixClock>) -> (Candidate, Option<Granularity>) {
    let untested = |report| (Candidate { report, self_test: None }, None);
    let Some(reference) = reference.filter(|_| report.availability.is_ok()) else {
        return untested(report);
    };
    let opened = match source::open(host, report.id.as_str()) {
        Ok(opened) => opened,
        Err(reason) => return untested(ProbeReport { availability: Err(reason), ..report }),
    };
    let opened = opened.as_dyn();
    let tested = self_test(opened, reference);
    let watched = tested.ok().and_then(|test| {
        let info = opened.info();
        let frequency = info.nominal.map(|nominal| nominal.frequency).or(measured(info, test))?;
        known_granularity(opened, frequency, reference)
    });
    (Candidate { report, self_test: Some(tested) }, watched)
}

/// Returns the frequency that the self-test measured. A source that counts for one thread in user mode has no frequency
/// relative to a clock, because its reads run in the kernel.
fn measured(info: &SourceInfo, test: SelfTest) -> Option<Frequency> {
    (info.scope != Scope::Thread).then(|| test.rate.midpoint())
}

fn row(candidate: Candidate, granularity: Option<Granularity>, fitness: &Fitness) -> ProbeRow {
    let Candidate { report, self_test } = candidate;
    let test = self_test.and_then(Result::ok);
    let unavailable = match (&report.availability, self_test) {
        (Err(reason), _) => Some(reason.clone()),
        (Ok(_), Some(Err(failure))) => Some(SourceError::SelfTest(failure)),
        (Ok(_), Some(Ok(_)) | None) => None,
    };
    let info = report.availability.as_ref().ok();
    let stated = info.and_then(|info| info.nominal);
    let measured = info.zip(test).and_then(|(info, test)| measured(info, test));
    let untested = info.is_some() && self_test.is_none();
    ProbeRow {
        id: report.id.to_string(),
        description: report.description.to_owned(),
        available: unavailable.is_none(),
        reason_kind: unavailable.as_ref().map(|reason| reason.kind().to_owned()),
        reason: unavailable.as_ref().map(|reason| causes(reason)),
        fix: unavailable.as_ref().and_then(source_remedy),
        width_bits: info.map(|info| info.width.bits()),
        frequency_hz: stated.map(|nominal| nominal.frequency).or(measured).map(Frequency::hertz_f64).map(rounded),
        frequency_origin: stated
            .map(|nominal| nominal.stated_by.name())
            .or(measured.map(|_| "measured"))
            .map(str::to_owned),
        resolution_ns: info.and_then(SourceInfo::resolution_ns).or(measured.map(Frequency::tick_ns_f64)).map(rounded),
        granularity_ns: granularity.map(|seen| rounded(seen.smallest_ns)),
        step_multiple_ticks: granularity.map(|seen| seen.multiple_ticks),
        read_cost_ns: test.map(|test| rounded(test.read_cost_ns)),
        read_path: info.map(|info| info.read_path.name().to_owned()),
        scope: info.map(|info| info.scope.name().to_owned()),
        constant_rate: info.map(|info| info.rate.is_steady()),
        disciplined: info.map(|info| info.rate.is_slewed()),
        counts_in_suspend: info.and_then(|info| info.counts_in_suspend),
        revocable: info.map(|info| info.revocable),
        kernel_verdict: report.kernel.name().to_owned(),
        kernel_evidence: report.kernel.evidence().to_owned(),
        suitability: if untested && matches!(fitness, Fitness::NotTrusted(_)) && report.kernel.name() == "trusted" {
            "not tested (snapshot)".to_owned()
        } else {
            fitness.to_string()
        },
        evidence: report.evidence,
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::not_run::NotRun;

    use super::{InstantStatus, page, survey};
    use crate::{golden, output::Document};

    /// Returns a survey as on a live machine. A snapshot has no read overheads.
    fn live() -> super::ProbeDocument {
        let mut data = survey(&golden::host(), vec!["a note".to_owned()]);
        data.head = golden::head("probe");
        data.head.machine.live = true;
        data.clock_gettime_read_path = Some("vdso".to_owned());
        data.recommendation.source = Some("tsc".to_owned());
        "tsc is chosen: the fastest suitable source, 10.6 ns per read".clone_into(&mut data.recommendation.reason);
        data.instant = Some(InstantStatus {
            source: "tsc".to_owned(),
            reason: "the fastest suitable source".to_owned(),
            bound_ns: 1_040,
            last_bracket_ns: Some(50),
            frequency_error_ppm: Some(0.001),
            comparisons: 1,
            rate_changes: 0,
            steps: 0,
            disruptions: None,
            rejected_brackets: 0,
        });
        for (id, cost_ns) in [("tsc", 10.6), ("boottime", 24.5), ("monotonic-coarse", 9.25), ("monotonic", 23.25)] {
            let row = data.sources.iter_mut().find(|row| row.id == id).expect("it is listed");
            (row.available, row.read_cost_ns, row.granularity_ns) = (true, Some(cost_ns), Some(cost_ns));
        }
        data.not_run = Some(NotRun { share: Some(0.01), wall_s: 0.125, stolen_s: None, ..NotRun::default() });
        data
    }

    #[test]
    fn a_list_is_printed_exactly() {
        let data = live();
        let blocks = page(&data, false);
        golden::assert("probe-live", &Document::new(data, blocks));
    }

    #[test]
    fn the_best_source_is_first_and_other_clocks_are_in_the_order_of_their_cost() {
        let data = live();
        let rows = super::terminal::best_first(data.sources.iter(), data.recommendation.source.as_ref());
        let place = |id: &str| rows.iter().position(|row| row.id == id).expect("it is listed");
        let order = ["tsc", "monotonic", "boottime", "monotonic-coarse", "arm-counter"].map(place);
        assert!(order.is_sorted() && order[0] == 0, "{order:?}");
    }
}
