//! The tables of `--explain`.

use hpt_document::explain::{ExplainedCause, ExplainedSample, Explanation, TraceRecording};

use crate::output::{Align, Block, Cell, Column, Table, cause_words::CauseWords, one_or_many, short_time};

/// The number of causes and of samples in the tables, and of parts in one row.
const CAUSES: usize = 8;
const SAMPLES: usize = 20;
const PARTS: usize = 3;
/// The number of functions of a stack.
const FUNCTIONS: usize = 6;
/// The share of the latency that the summary names.
const MOST: f64 = 0.8;

/// Returns the causes and the worst samples. `samples` is the name of one sample and of several.
pub(crate) fn blocks(explanation: &Explanation, samples: (&str, &str)) -> Vec<Block> {
    let Some(recording) = &explanation.explain else { return Vec::new() };
    if !recording.available {
        return vec![Block::Text(not_available(recording))];
    }
    let words = CauseWords::of(explanation);
    let mut blocks = vec![Block::Text(summary((recording, words), &explanation.causes, samples))];
    if !explanation.causes.is_empty() {
        blocks.push(causes(&explanation.causes, words));
        blocks.extend(fixes(&explanation.causes, words));
        blocks.extend(stacks(&explanation.causes, words));
    }
    if !explanation.explained.is_empty() {
        blocks.push(worst(&explanation.explained, words));
    }
    blocks.extend(doubts(recording).map(Block::Text));
    blocks
}

/// Returns the causes and the worst samples of one phase of a measurement with `--load`.
pub(crate) fn blocks_of_phase(phase: &str, explanation: &Explanation, samples: (&str, &str)) -> Vec<Block> {
    let mut blocks = blocks(explanation, samples);
    if let Some(Block::Text(first)) = blocks.first_mut() {
        *first = format!("{phase}: {first}");
    }
    blocks
}

fn not_available(recording: &TraceRecording) -> String {
    let reason = recording.reason.as_deref().unwrap_or("unknown");
    let fix = recording.fix.as_deref().map_or_else(String::new, |fix| format!(" To get it, {fix}."));
    format!(
        "Causes not recorded: {reason}. The kernel's trace would name the threads, interrupts and idle states behind each late sample.{fix}"
    )
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn time(ns: u64) -> String {
    short_time(ns as f64)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn summary(
    (recording, words): (&TraceRecording, CauseWords<'_>),
    causes: &[ExplainedCause],
    (one, many): (&str, &str),
) -> String {
    let threshold = time(recording.threshold_ns);
    let what = one_or_many(recording.samples, one, many);
    if recording.samples == 0 {
        return format!("Causes: no {one} took {threshold} or longer.");
    }
    let mut sum = 0.0;
    let main: Vec<_> = causes
        .iter()
        .take(3)
        .take_while(|cause| {
            let is_short = sum < MOST;
            sum += if is_short { cause.share } else { 0.0 };
            is_short
        })
        .map(|cause| words.of_cause(cause))
        .collect();
    format!(
        "Causes: {} of the latency of {} {what} of {threshold} or longer: {}.",
        percent(sum),
        recording.samples,
        joined(&main)
    )
}

fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn causes(causes: &[ExplainedCause], words: CauseWords<'_>) -> Block {
    let columns = [
        ("cause", Align::Left),
        ("share", Align::Right),
        ("samples", Align::Right),
        ("total", Align::Right),
        ("worst", Align::Right),
    ];
    let columns = columns.into_iter().map(|(name, align)| Column(name, align)).collect();
    let row = |cause: &ExplainedCause| {
        [
            words.of_cause(cause),
            percent(cause.share),
            cause.samples.to_string(),
            time(cause.total_ns),
            time(cause.worst_ns),
        ]
        .map(Cell::plain)
        .to_vec()
    };
    Block::Table(Table { columns, rows: causes.iter().take(CAUSES).map(row).collect() })
}

/// Returns the causes that the sections after the table discuss.
fn main_causes(causes: &[ExplainedCause]) -> impl Iterator<Item = &ExplainedCause> {
    causes.iter().take(CAUSES).filter(|cause| cause.share >= 0.1)
}

/// Returns the functions of the kernel in the main causes.
fn stacks(causes: &[ExplainedCause], words: CauseWords<'_>) -> Option<Block> {
    let lines = main_causes(causes).filter(|cause| !cause.stack.is_empty()).map(|cause| {
        let shown = &cause.stack[..cause.stack.len().min(FUNCTIONS)];
        let further = if cause.stack.len() > FUNCTIONS { ", …" } else { "" };
        vec![Cell::plain(words.of_cause(cause)), Cell::plain(shown.join(", called by ") + further)]
    });
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty())
        .then(|| Block::Section("Functions of the kernel in the longest part that has a stack".to_owned(), lines))
}

/// Returns the fixes of the main causes.
fn fixes(causes: &[ExplainedCause], words: CauseWords<'_>) -> Option<Block> {
    let lines = main_causes(causes).filter_map(|cause| {
        let fix = cause.fix.clone()?;
        let rule = cause.rule.as_deref().map_or_else(String::new, |rule| format!(" (hpt doctor {rule})"));
        Some(vec![Cell::plain(words.of_cause(cause)), Cell::plain(fix + &rule)])
    });
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| Block::Section("Fixes".to_owned(), lines))
}

fn worst(explained: &[ExplainedSample], words: CauseWords<'_>) -> Block {
    let columns = [("worst", Align::Right), ("CPU", Align::Right), ("parts", Align::Left)];
    let columns = columns.into_iter().map(|(name, align)| Column(name, align)).collect();
    let row = |sample: &ExplainedSample| {
        let mut parts: Vec<_> = sample
            .parts
            .iter()
            .take(PARTS)
            .map(|part| format!("{} {}", words.of_part(part), time(part.duration_ns)))
            .collect();
        let rest: u64 = sample.parts.iter().skip(PARTS).map(|part| part.duration_ns).sum();
        if rest > 0 {
            parts.push(format!("other {}", time(rest)));
        }
        vec![
            Cell::plain(time(sample.latency_ns)),
            Cell::or_dash(sample.cpu.map(|cpu| cpu.to_string())),
            Cell::plain(parts.join(", ")),
        ]
    };
    Block::Table(Table { columns, rows: explained.iter().take(SAMPLES).map(row).collect() })
}

fn doubts(recording: &TraceRecording) -> impl Iterator<Item = String> {
    let cost = recording.event_ns.zip(recording.events).map(|(event_ns, events)| {
        format!(
            "Note: recording an event takes {} or less on this machine, and each latency contains {events} events or more: {}.",
            time(event_ns),
            time(event_ns.saturating_mul(events))
        )
    });
    let lost = (recording.lost_events > 0).then(|| {
        format!(
            "Note: the kernel's trace lost {} events. {} of the samples above contain lost events; that time is unexplained.",
            recording.lost_events, recording.incomplete
        )
    });
    let skipped = (recording.skipped > 0)
        .then(|| format!("Note: {} late samples were not examined, because too many came at once.", recording.skipped));
    let steal = recording.steal_s.filter(|&steal_s| steal_s > 0.0).map(|steal_s| {
        format!(
            "Note: the hypervisor took {steal_s:.2} s from the recorded CPUs. The kernel reports this in steps of 10 ms, so a shorter pause can appear as leaving an idle state or as a kernel that could not be preempted."
        )
    });
    let unknown = recording.host_unknown.then(|| {
        "Note: this virtual machine has never counted steal time. If the host runs other guests, that time appears as disabled interrupts, as leaving an idle state, as a kernel that could not be preempted or as unexplained.".to_owned()
    });
    [cost, lost, skipped, steal, unknown].into_iter().flatten()
}

#[cfg(test)]
pub(crate) mod tests {
    use hpt_document::explain::{
        CauseKind, ExplainedCause, ExplainedPart, ExplainedSample, Explanation, TimelinePiece, TraceRecording,
    };

    use super::blocks;
    use crate::output::Block;

    fn part(kind: CauseKind, at_ns: u64, duration_ns: u64) -> ExplainedPart {
        ExplainedPart {
            kind,
            name: None,
            pid: None,
            kernel: None,
            boosted: false,
            inherits_from: None,
            doubt: None,
            after: None,
            longest_ns: None,
            policy: None,
            priority: None,
            irq: None,
            function: None,
            stack: Vec::new(),
            idle_state: None,
            count: 1,
            at_ns,
            duration_ns,
        }
    }

    pub(crate) fn recording() -> TraceRecording {
        TraceRecording {
            available: true,
            reason: None,
            fix: None,
            threshold_ns: 20_000,
            samples: 60,
            latency_ns: 300_000_000,
            incomplete: 1,
            lost_events: 12,
            event_ns: Some(300),
            events: Some(5),
            skipped: 0,
            host_unknown: false,
            own_threads: Vec::new(),
            steal_s: Some(0.02),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one example with all fields")]
    pub(crate) fn example() -> Explanation {
        let hog = ExplainedPart {
            name: Some("hog".to_owned()),
            pid: Some(4_711),
            policy: Some("fifo".to_owned()),
            priority: Some(90),
            ..part(CauseKind::Thread, 4_000, 4_900_000)
        };
        let irq = ExplainedPart {
            name: Some("virtio0-input.0".to_owned()),
            irq: Some(24),
            count: 3,
            ..part(CauseKind::HardInterrupt, 10_000, 90_000)
        };
        let idle = ExplainedPart { idle_state: Some(1), ..part(CauseKind::IdleExit, 0, 4_000) };
        let sample = ExplainedSample {
            cpu: Some(1),
            thread: 4_700,
            deadline_ns: 1_000_000_000,
            latency_ns: 5_000_000,
            complete: true,
            parts: vec![hog, irq, idle, part(CauseKind::Return, 4_994_000, 6_000)],
            timeline: vec![
                TimelinePiece(0, 4_000, 2),
                TimelinePiece(4_000, 6_000, 0),
                TimelinePiece(10_000, 90_000, 1),
                TimelinePiece(100_000, 4_894_000, 0),
                TimelinePiece(4_994_000, 6_000, 3),
            ],
        };
        let cause = |kind, share: f64| ExplainedCause {
            kind,
            name: None,
            pid: None,
            kernel: None,
            boosted: false,
            inherits_from: None,
            doubt: None,
            policy: None,
            priority: None,
            irq: None,
            function: None,
            stack: Vec::new(),
            idle_state: None,
            samples: 60,
            total_ns: 270_000_000,
            share,
            worst_ns: 4_900_000,
            rule: None,
            fix: None,
        };
        let hog = ExplainedCause {
            name: Some("hog".to_owned()),
            pid: Some(4_711),
            priority: Some(90),
            rule: Some("isolated-cpus".to_owned()),
            fix: Some("isolate the CPU".to_owned()),
            ..cause(CauseKind::Thread, 0.9)
        };
        Explanation {
            explain: Some(recording()),
            explained: vec![sample],
            causes: vec![
                hog,
                ExplainedCause { samples: 2, total_ns: 30_000_000, ..cause(CauseKind::Unexplained, 0.1) },
            ],
        }
    }

    #[test]
    fn a_trace_that_cannot_be_recorded_is_one_line_with_its_fix() {
        let recording = TraceRecording {
            available: false,
            reason: Some("tracefs is not mounted".to_owned()),
            fix: Some("mount it".to_owned()),
            ..recording()
        };
        let explanation = Explanation { explain: Some(recording), ..Explanation::default() };
        let blocks = blocks(&explanation, ("wake-up", "wake-ups"));
        let [Block::Text(line)] = blocks.as_slice() else { panic!("{blocks:?}") };
        assert!(line.contains("tracefs is not mounted.") && line.ends_with("To get it, mount it."), "{line}");
    }

    #[test]
    fn a_virtual_machine_without_steal_time_is_named_as_a_doubt() {
        let last_line = |host_unknown| {
            let recording =
                TraceRecording { steal_s: Some(0.0), lost_events: 0, event_ns: None, host_unknown, ..recording() };
            let explanation = Explanation { explain: Some(recording), ..example() };
            match blocks(&explanation, ("wake-up", "wake-ups")).pop() {
                Some(Block::Text(line)) => Some(line),
                _ => None,
            }
        };
        assert!(last_line(true).is_some_and(|line| line.contains("has never counted steal time")));
        assert_eq!(last_line(false), None);
    }

    #[test]
    fn each_phase_of_a_measurement_under_load_is_named() {
        let blocks = super::blocks_of_phase("Under load", &example(), ("wake-up", "wake-ups"));
        let Some(Block::Text(line)) = blocks.first() else { panic!("{blocks:?}") };
        assert!(line.starts_with("Under load: Causes: 90 % "), "{line}");
        assert_eq!(super::blocks_of_phase("Idle", &Explanation::default(), ("wake-up", "wake-ups")), []);
    }

    #[test]
    fn the_functions_of_the_main_causes_are_a_section() {
        let functions = |explanation: &Explanation| {
            let sections = blocks(explanation, ("wake-up", "wake-ups")).into_iter();
            sections
                .filter_map(|block| match block {
                    Block::Section(title, rows) if title.starts_with("Functions") => Some(rows.len()),
                    _ => None,
                })
                .sum::<usize>()
        };
        let mut explanation = example();
        assert_eq!(functions(&explanation), 0);
        explanation.causes[0].stack = (0..8).map(|number| format!("function_{number}")).collect();
        explanation.causes[1].stack = vec!["other".to_owned()];
        assert_eq!(functions(&explanation), 2);
        // A small cause is in the table only.
        explanation.causes[1].share = 0.01;
        assert_eq!(functions(&explanation), 1);
        let shown = format!("{:?}", blocks(&explanation, ("wake-up", "wake-ups")));
        assert!(shown.contains("function_0, called by function_1") && !shown.contains("function_6"), "{shown}");
    }

    #[test]
    fn without_the_option_nothing_is_printed() {
        assert_eq!(blocks(&Explanation::default(), ("wake-up", "wake-ups")), []);
    }
}
