//! `hpt clocksource compare`: measures the read overhead of the kernel's clocks under each clocksource, and restores
//! the original clocksource.

use clap::Args;
use hpt_document::clocksource_cost::ClocksourceCostDocument;
use hpt_instrument::measure::NotRunWatch;
use hpt_realtime::Pinned;

use super::costs::{CLOCKS, GUESSED_READ, MeasuringArguments, disturbances, run_page, with_ratios};
use crate::{
    arguments::{Codes, after_help},
    context::Context,
    document_head::head_of,
    exit::Failure,
    kernel_clocksources::{ClockReads, Comparison},
    output::{Answer, Document, progress::Progress},
    sampling::cpu_absences::Parts,
};

pub(super) const COMPARE_EXAMPLES: &str = "  \
  sudo hpt clocksource compare                  compare all clocksources
  sudo hpt clocksource compare --count 1e6 --yes --format csv > costs.csv
  sudo hpt clocksource compare --source tsc,hpet";

/// Measure the kernel's clocks under each clocksource
///
/// Needs root, and asks for confirmation. hpt restores the original clocksource at the end, even after Ctrl-C, SIGTERM,
/// SIGHUP or a panic. After SIGKILL, `hpt restore` restores it.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("the kernel did not accept a clocksource")), COMPARE_EXAMPLES))]
pub(super) struct ClocksourceCompareArguments {
    /// Clocksources to compare, separated by commas [default: all available]
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    source: Vec<String>,
    #[command(flatten)]
    run: MeasuringArguments,
}

pub(super) fn compare_all(arguments: &ClocksourceCompareArguments, context: &Context) -> Result<Document, Failure> {
    let run = &arguments.run;
    let comparison = Comparison::asked(context, &arguments.source, run.yes, run.journal.as_deref())?;
    context.signals.listen_until_the_end()?;
    let pinned = context.pin(run.cpu)?;
    let cpu = pinned.as_ref().map(Pinned::cpu);
    let mut parts = Parts::of(cpu, context);
    let steps = run.count.saturating_mul((CLOCKS.len() * comparison.names.len()) as u64);
    let progress = Progress::new(steps, GUESSED_READ.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)));
    let mut watch = NotRunWatch::of_spinning_thread(&context.host, cpu);
    let reads = ClockReads { context, cpu, clocks: &CLOCKS, calls: run.count };
    let compared = comparison.make("hpt clocksource compare", reads, &|name, done| {
        progress.name(name);
        progress.at(done);
    })?;
    let not_run = watch.read();
    drop(progress);
    parts.end("all of them");
    let warnings = compared.warnings;
    let disturbances = disturbances(&not_run, &compared.results);
    let data = ClocksourceCostDocument {
        head: head_of("clocksource-compare", &context.host),
        cpu,
        stopwatch: compared.stopwatch,
        before: comparison.before.current,
        after: compared.after,
        requested: comparison.names,
        refused: compared.refused,
        journal: comparison.journal.path().to_string_lossy().into_owned(),
        interrupted: context.interrupted(),
        cpu_absences: parts.absences(),
        not_run,
        results: with_ratios(compared.results),
        notes: [disturbances, context.notes(), parts.notes(), warnings.clone()].concat(),
    };
    let answer = match (warnings.is_empty() && data.after.as_ref() == Some(&data.before), data.refused.is_empty()) {
        (false, _) => Answer::Unknown,
        (true, false) => Answer::No,
        (true, true) => Answer::Yes,
    };
    let blocks = run_page(&data);
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}
