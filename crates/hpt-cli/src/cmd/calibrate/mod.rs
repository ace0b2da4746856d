//! `hpt calibrate`: measures the frequency of each source, with an error bound.

mod terminal;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use hpt_core::{
    Calibration, Opened, TimeSource,
    calibrate::{CalibrateError, calibrate_together},
    source::{self, Scope, StatedBy},
};
use hpt_document::{
    calibrate::{CalibrateDocument, CalibrationRow},
    not_run::NotRun,
};
use hpt_instrument::{
    diagnose::{Surroundings, counter_of_clock_source},
    measure::NotRunWatch,
};
use hpt_realtime::{Pinned, state::StateError};

use self::terminal::page;
use crate::{
    arguments::{Codes, CpuChoice, after_help, cpu_choice, window},
    context::Context,
    document_head::head_of,
    exit::Failure,
    kernel_clocksources::common_counter,
    output::{Answer, Document, progress::Progress},
    sampling::{cpu_absences::Parts, not_run},
};

const EXAMPLES: &str = "  \
  hpt calibrate                              all sources that count time, 1 s
  hpt calibrate --source tsc --duration 10s  one source, with a tighter bound
  hpt calibrate --save                       save the result until the next boot";

/// Measure the frequency of each source, with an error bound
///
/// Brackets each reading of a source between two readings of the reference. The narrowest brackets
/// limit the frequency to a range; a constant frequency outside this range is impossible. The
/// stated bound is this hard limit, not a standard uncertainty. Ten times the run time gives a
/// bound ten times tighter.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("a source could not be calibrated, or nothing is saved")), EXAMPLES))]
pub(crate) struct CalibrateArguments {
    /// Sources to calibrate, separated by commas [default: all that count time]
    #[arg(short, long, value_name = "SOURCE", value_delimiter = ',')]
    source: Vec<String>,
    /// Reference clock
    #[arg(long, value_name = "SOURCE", default_value = "monotonic-raw")]
    reference: String,
    /// Run time
    ///
    /// Ten times the run time gives a bound ten times tighter.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = window)]
    duration: Duration,
    /// CPU; any: not pinned [default: isolated or highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    /// Save the result, which remains valid until the next boot
    #[arg(long)]
    save: bool,
    /// Print the saved result without measuring
    #[arg(long, conflicts_with_all = ["save", "reference", "duration", "cpu"])]
    saved: bool,
    /// Directory of saved results [default: $XDG_STATE_HOME/hpt or ~/.local/state/hpt]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &CalibrateArguments, context: &Context) -> Result<Document, Failure> {
    if arguments.saved { show(arguments, context) } else { measure(arguments, context) }
}

/// Returns the saved result, or an error if the result is not valid.
fn show(arguments: &CalibrateArguments, context: &Context) -> Result<Document, Failure> {
    for name in &arguments.source {
        context.known(name)?;
    }
    let saved = context.saved(&context.store(arguments.state_dir.as_deref())?);
    let mut calibrations = match saved {
        Err(Failure::State(StateError::Missing { .. })) => Vec::new(),
        saved => saved?,
    };
    if !arguments.source.is_empty() {
        calibrations.retain(|calibration| arguments.source.iter().any(|name| name == calibration.source.as_str()));
    }
    let rows: Vec<CalibrationRow> = calibrations.iter().map(measured).collect();
    let answer = if rows.is_empty() { Answer::No } else { Answer::Yes };
    let mut data = data(context, rows, false);
    if answer == Answer::No {
        data.notes.push("no calibration of these sources is saved; save one with `hpt calibrate --save`".to_owned());
    }
    let blocks = page(&data);
    Ok(Document { answer, ..Document::new(data, blocks) })
}

fn measure(arguments: &CalibrateArguments, context: &Context) -> Result<Document, Failure> {
    context.signals.listen()?;
    // Pin first, because a source that counts the cycles of one core pins its thread to the current CPU.
    let pinned = context.pin(arguments.cpu)?;
    let reference = context.open(&arguments.reference)?;
    if reference.as_dyn().info().scope != Scope::System {
        return Err(Failure::NoReference(arguments.reference.clone()));
    }
    let (sources, left_out) = sources(arguments, context)?;
    let mut parts = Parts::of(pinned.as_ref().map(Pinned::cpu), context);
    let mut watch = NotRunWatch::of_spinning_thread(&context.host, pinned.as_ref().map(Pinned::cpu));
    let mut results = {
        let progress = Progress::new(1_000, arguments.duration);
        progress.name("calibrating");
        let started = Instant::now();
        let borrowed: Vec<&dyn TimeSource> = sources.iter().map(Opened::as_dyn).collect();
        calibrate_together(&borrowed, reference.as_dyn(), arguments.duration, || {
            let done = started.elapsed().as_secs_f64() / arguments.duration.as_secs_f64();
            progress.at_fraction(done);
            context.check()
        })
    };
    let not_run = watch.read();
    let stayed = parts.end("all of them");
    // A thread that is not pinned, or whose CPU went offline, may have run on several CPUs.
    if pinned.is_none() || !stayed {
        results.iter_mut().flatten().for_each(|calibration| calibration.cpu = None);
    }
    let rows =
        sources.iter().zip(&results).map(|(source, result)| row(source.as_dyn(), reference.as_dyn(), result)).collect();
    let good: Vec<Calibration> = results.into_iter().filter_map(Result::ok).collect();
    let mut data = data(context, rows, true);
    data.cpu_absences = parts.absences();
    data.notes.extend(not_run::note(&not_run, "the bounds hold, but are wider than on an idle machine"));
    data.not_run = not_run;
    data.notes.extend(left_out_note(&left_out).into_iter().chain(parts.notes()));
    let counter = context.host.clock_sources().current;
    let counter = counter.and_then(|name| counter_of_clock_source(&context.host, &name));
    let ids = sources.iter().map(|source| &source.as_dyn().info().id);
    let common = common_counter(ids, reference.as_dyn(), counter);
    data.counter_of_reference = common.as_ref().and(counter).map(str::to_owned);
    data.notes.extend(common);
    let mut warnings = Vec::new();
    if arguments.save {
        let saved = context.store(arguments.state_dir.as_deref()).and_then(|store| context.save(&store, &good));
        match saved {
            Ok(path) => data.saved_to = path.map(|path| path.to_string_lossy().into_owned()),
            // hpt still prints the result, followed by the reason for the failure.
            Err(failure) => warnings.push(failure),
        }
    }
    let answer = match (warnings.is_empty(), good.len()) {
        (false, _) | (_, 0) => Answer::Unknown,
        (true, calibrated) if calibrated < data.calibrations.len() => Answer::No,
        (true, _) => Answer::Yes,
    };
    let blocks = page(&data);
    let warnings = warnings.iter().map(Failure::text).collect();
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}

/// Returns the requested sources. By default, returns all available sources that count time, except the reference. Also
/// returns the names of the sources that are skipped because their resolution is too coarse for the run time.
fn sources(arguments: &CalibrateArguments, context: &Context) -> Result<(Vec<Opened>, Vec<String>), Failure> {
    // Its readings would agree exactly, and the bound would mean nothing.
    if arguments.source.contains(&arguments.reference) {
        return Err(Failure::CalibratedByItself(arguments.reference.clone()));
    }
    if !arguments.source.is_empty() {
        return Ok((context.open_all(&arguments.source)?, Vec::new()));
    }
    let count_time = source::outline(&context.host)
        .into_iter()
        .filter(|report| report.id.as_str() != arguments.reference)
        .filter(|report| report.availability.as_ref().is_ok_and(|info| info.scope == Scope::System));
    let opened = count_time.filter_map(|report| source::open(&context.host, report.id.as_str()).ok());
    let (left_out, sources): (Vec<Opened>, Vec<Opened>) =
        opened.partition(|opened| is_too_coarse(opened.as_dyn().info().claimed_resolution_ns, arguments.duration));
    Ok((sources, left_out.iter().map(|opened| opened.as_dyn().info().id.to_string()).collect()))
}

/// Returns whether the resolution of a source is too coarse to measure its frequency within the run time. Every useful
/// run time is longer than the kernel's tick, so only resolutions that are coarser than the tick matter.
fn is_too_coarse(claimed_resolution_ns: Option<u64>, window: Duration) -> bool {
    const KERNELS_TICK: Duration = Duration::from_millis(10);
    let claimed = Duration::from_nanos(claimed_resolution_ns.unwrap_or(0));
    claimed > KERNELS_TICK && claimed >= window
}

fn left_out_note(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "skipped {}: the resolution is too coarse for this run time; run `hpt calibrate --source {} --duration 5m`",
            names.join(", "),
            names.join(",")
        )
    })
}

fn data(context: &Context, calibrations: Vec<CalibrationRow>, measured_now: bool) -> CalibrateDocument {
    let around = Surroundings::new(&context.host);
    CalibrateDocument {
        counter_of_reference: None,
        head: head_of("calibrate", &context.host),
        measured_now,
        interrupted: context.interrupted(),
        cpu_absences: Vec::new(),
        not_run: NotRun::default(),
        calibrations: calibrations.into_iter().map(|row| with_kernels_frequency(row, &around)).collect(),
        saved_to: None,
        notes: context.notes(),
    }
}

/// Compares the TSC with the frequency that the kernel uses, as `hpt watch` does. BogoMIPS is this frequency with fewer
/// digits, which alone makes a difference of up to 2 ppm.
fn with_kernels_frequency(row: CalibrationRow, around: &Surroundings) -> CalibrationRow {
    let Some(kernels) = around.kernels_tsc.filter(|_| row.source == "tsc") else { return row };
    let nominal_hz = kernels.frequency.hertz_f64();
    CalibrationRow {
        nominal_hz: Some(nominal_hz),
        nominal_origin: Some(StatedBy::Kernel.name().to_owned()),
        error_ppm: row.error_ppm.and(row.frequency_hz).map(|hz| (hz - nominal_hz) / nominal_hz * 1e6),
        ..row
    }
}

fn row(
    source: &dyn TimeSource,
    reference: &dyn TimeSource,
    result: &Result<Calibration, CalibrateError>,
) -> CalibrationRow {
    let info = source.info();
    match result {
        Ok(calibration) => measured(calibration),
        Err(failure) => CalibrationRow {
            reference: Some(reference.info().id.to_string()),
            failure: Some(failure.to_string()),
            nominal_hz: info.nominal.map(|nominal| nominal.frequency.hertz_f64()),
            nominal_origin: info.nominal.map(|nominal| nominal.stated_by.name().to_owned()),
            ..row_of_failure(info.id.as_str())
        },
    }
}

fn row_of_failure(source: &str) -> CalibrationRow {
    CalibrationRow {
        source: source.to_owned(),
        reference: None,
        calibrated: false,
        failure: None,
        method: None,
        frequency_hz: None,
        lowest_hz: None,
        highest_hz: None,
        bound_ppm: None,
        nominal_hz: None,
        nominal_origin: None,
        error_ppm: None,
        window_ns: None,
        pairs: None,
        narrowest_bracket_ns: None,
        cpu: None,
    }
}

/// Returns the row of a calibrated source. A frequency without a bound is left out, because nothing limits its error.
fn measured(calibration: &Calibration) -> CalibrationRow {
    let is_bounded = calibration.limits.is_some();
    CalibrationRow {
        source: calibration.source.to_string(),
        reference: calibration.reference.as_ref().map(ToString::to_string),
        calibrated: true,
        failure: None,
        method: Some(calibration.method.name().to_owned()),
        frequency_hz: is_bounded.then(|| calibration.frequency.hertz_f64()),
        lowest_hz: calibration.limits.map(|limits| limits.lowest.hertz_f64()),
        highest_hz: calibration.limits.map(|limits| limits.highest.hertz_f64()),
        bound_ppm: calibration.bound_ppm(),
        nominal_hz: calibration.nominal.map(|nominal| nominal.frequency.hertz_f64()),
        nominal_origin: calibration.nominal.map(|nominal| nominal.stated_by.name().to_owned()),
        error_ppm: calibration.error_ppm().filter(|_| is_bounded),
        window_ns: Some(calibration.window_ns),
        pairs: Some(calibration.pairs),
        narrowest_bracket_ns: calibration.narrowest_ns,
        cpu: calibration.cpu,
    }
}

#[cfg(test)]
mod tests {
    use hpt_core::FrequencyEstimate;
    use hpt_instrument::diagnose::Surroundings;

    #[test]
    fn the_nominal_frequency_of_the_tsc_is_the_one_that_watch_uses() {
        let frequency = Frequency::from_hertz(2_445_426_000).expect("not zero");
        let mut around = Surroundings::default();
        around.kernels_tsc = Some(FrequencyEstimate { frequency, uncertainty_ppm: 0.2 });
        let row = |source: &str| super::CalibrationRow {
            source: source.to_owned(),
            frequency_hz: Some(2_445_425_890.0),
            nominal_hz: Some(2_445_425_000.0),
            nominal_origin: Some("bogomips".to_owned()),
            error_ppm: Some(0.364),
            ..super::row_of_failure("tsc")
        };
        let tsc = super::with_kernels_frequency(row("tsc"), &around);
        assert_eq!(tsc.nominal_origin.as_deref(), Some("kernel"));
        assert!(tsc.error_ppm.is_some_and(|ppm| (ppm + 0.045).abs() < 1e-3), "{tsc:?}");
        assert_eq!(super::with_kernels_frequency(row("hpet"), &around), row("hpet"));
        assert_eq!(super::with_kernels_frequency(row("tsc"), &Surroundings::default()), row("tsc"));
    }

    use hpt_core::{
        Frequency, FrequencyRange, SourceId, TimeSource,
        calibrate::stated,
        source::{Nominal, StatedBy},
        testing::ManualSource,
    };

    use hpt_document::{calibrate::CalibrateDocument, not_run::NotRun};

    use super::{CalibrateError, Scope, page, row};
    use crate::{golden, output::Document};

    #[test]
    fn a_result_is_printed_exactly() {
        let reference = ManualSource::new("monotonic-raw");
        let mut info = ManualSource::new("tsc").info().clone();
        let nominal = Frequency::from_hertz(2_250_000_000).expect("not zero");
        info.nominal = Some(Nominal { frequency: nominal, stated_by: StatedBy::BogoMips });
        let mut calibration = stated(&info).expect("a rate is stated");
        calibration.reference = Some(SourceId::new("monotonic-raw"));
        let hertz = |hertz| Frequency::from_hertz(hertz).expect("not zero");
        calibration.frequency = hertz(2_250_000_134);
        calibration.limits = Some(FrequencyRange { lowest: hertz(2_250_000_000), highest: hertz(2_250_000_268) });
        (calibration.window_ns, calibration.pairs, calibration.narrowest_ns) = (1_000_000_000, 256, Some(49));
        calibration.cpu = Some(1);
        let tsc = ManualSource::with_info(info);
        let mut unbounded = calibration.clone();
        (unbounded.source, unbounded.limits) = (SourceId::new("boottime"), None);
        let rows = vec![
            row(&tsc, &reference, &Ok(calibration)),
            row(&tsc, &reference, &Ok(unbounded)),
            row(&ManualSource::new("thread-cpu"), &reference, &Err(CalibrateError::NotATimeCounter(Scope::Thread))),
        ];
        let data = CalibrateDocument {
            counter_of_reference: None,
            head: golden::head("calibrate"),
            measured_now: true,
            interrupted: false,
            cpu_absences: Vec::new(),
            not_run: NotRun::default(),
            calibrations: rows,
            saved_to: Some("/home/user/.local/state/hpt/calibrations".to_owned()),
            notes: Vec::new(),
        };
        let blocks = page(&data);
        golden::assert("calibrate", &Document::new(data, blocks));
    }

    #[test]
    fn a_clock_with_whole_seconds_needs_a_window_of_several_seconds() {
        use std::time::Duration;

        use super::{is_too_coarse, left_out_note};
        assert!(is_too_coarse(Some(1_000_000_000), Duration::from_secs(1)));
        assert!(!is_too_coarse(Some(1_000_000_000), Duration::from_secs(2)));
        assert!(
            !is_too_coarse(Some(4_000_000), Duration::from_millis(1)) && !is_too_coarse(None, Duration::from_millis(1))
        );
        assert_eq!(left_out_note(&[]), None);
        assert!(left_out_note(&["rtc0".to_owned()]).is_some_and(|note| note.contains("--source rtc0 --duration")));
    }
}
