//! The timeline of the worst samples: what the CPU did from the start of each latency to its end.

use hpt_document::explain::{CauseKind, ExplainedSample, Explanation};

use super::{
    axis::{Axis, time},
    provenance::{Origin, about},
    svg::{Chart, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, Unreadable, whole},
};
use crate::output::cause_words::CauseWords;

/// The maximum number of samples in the chart. The table contains all of them.
const MOST_SAMPLES: usize = 12;
/// The place of the pieces in a row, below the name of the row on a narrow screen.
const PIECES: (f64, f64) = (-0.18, 0.24);
/// The groups of kinds that have a color each, with their names in the legend. Unexplained time is a gap.
const GROUPS: [&str; 6] = [
    "other threads",
    "interrupts",
    "leaving an idle state",
    "late timer interrupt, interrupts off",
    "host (steal time)",
    "the measuring thread",
];

/// Returns the group of a kind; `None` if the time is unexplained.
const fn group(kind: CauseKind) -> Option<usize> {
    match kind {
        CauseKind::Thread | CauseKind::NotPreemptible => Some(0),
        CauseKind::HardInterrupt | CauseKind::SoftInterrupt => Some(1),
        CauseKind::IdleExit => Some(2),
        CauseKind::InterruptsOff | CauseKind::InterruptsOffOrHost | CauseKind::TimerDelivery => Some(3),
        CauseKind::Host => Some(4),
        CauseKind::Scheduling
        | CauseKind::TimerSlack
        | CauseKind::Return
        | CauseKind::OwnWork
        | CauseKind::Stopped
        | CauseKind::Traced
        | CauseKind::PageFault
        | CauseKind::Blocked
        | CauseKind::CpuQuota
        | CauseKind::Budget
        | CauseKind::Paused => Some(5),
        CauseKind::Unexplained => None,
    }
}

/// Returns the timeline of the explained samples of a document. `samples` is the name of the samples.
pub(crate) fn timeline(
    explanation: &Explanation,
    origin: &Origin<'_>,
    (name, samples): (&str, &str),
) -> Result<TitledChart, Unreadable> {
    let all = &explanation.explained;
    if all.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let words = CauseWords::of(explanation);
    let drawn = &all[..all.len().min(MOST_SAMPLES)];
    let title = if name.is_empty() {
        format!("Timeline of the worst {samples}")
    } else {
        format!("Timeline of the worst {samples}: {name}")
    };
    Ok(TitledChart {
        name: "timeline".to_owned(),
        title,
        says: says(explanation, words, (drawn.len(), samples)),
        chart: Chart { panels: vec![panel(drawn, words)], side_by_side: false },
        figures: Figures {
            head: ["latency", "CPU", "part", "after the start", "duration"].map(str::to_owned).to_vec(),
            rows: all.iter().flat_map(|sample| rows(sample, words)).collect(),
        },
        provenance: about(origin, "from the kernel's trace"),
    })
}

fn says(explanation: &Explanation, words: CauseWords<'_>, (drawn, samples): (usize, &str)) -> String {
    let main = explanation.causes.first().map_or_else(String::new, |cause| {
        format!("The main cause is {} ({:.0} % of the latency). ", words.of_cause(cause), cause.share * 100.0)
    });
    let all = &explanation.explained;
    let omitted = if drawn < all.len() {
        format!(" The chart shows {drawn} of {} {samples}; the table contains all of them.", all.len())
    } else {
        String::new()
    };
    let long = all[..drawn].iter().filter(|sample| is_cut_off(sample)).count();
    let cut_off = match long {
        0 => String::new(),
        1 => " One row ends early, because it has too many pieces.".to_owned(),
        several => format!(" {several} rows end early, because they have too many pieces."),
    };
    format!(
        "{main}Each row is one sample, from the start of its latency to the end, with its longest part. Gaps are unexplained.{cut_off}{omitted}"
    )
}

/// Returns whether the timeline lacks the end of the latency.
fn is_cut_off(sample: &ExplainedSample) -> bool {
    let end = sample.timeline.last().map_or(0, |piece| piece.0.saturating_add(piece.1));
    end < sample.latency_ns
}

fn panel(drawn: &[ExplainedSample], words: CauseWords<'_>) -> Panel {
    let places = || (0_u32..).map(f64::from).zip(drawn);
    let series = GROUPS.iter().enumerate().filter_map(|(look, name)| {
        let marks: Vec<Mark> = places().flat_map(|(place, sample)| pieces(place, sample, look)).collect();
        (!marks.is_empty()).then(|| Series { name: Some((*name).to_owned()), look, marks })
    });
    let mut series: Vec<Series> = series.collect();
    let hovers = places().flat_map(|(place, sample)| hovers(place, sample, words)).collect();
    series.push(Series { name: None, look: 0, marks: hovers });
    Panel {
        title: String::new(),
        x: Axis::linear("part of the latency, from its start", [0.0, 1.0], true, |share| {
            format!("{:.0} %", share * 100.0)
        }),
        y: Axis::names(drawn.iter().map(|sample| name_of(sample, words)).collect()),
        height: 30 * i32::try_from(drawn.len()).unwrap_or(1) + 8,
        series,
    }
}

/// Returns the latency of a sample and its longest part.
fn name_of(sample: &ExplainedSample, words: CauseWords<'_>) -> String {
    let latency = time(whole(sample.latency_ns));
    sample.parts.first().map_or_else(|| latency.clone(), |part| format!("{latency}: {}", words.in_one_line(part)))
}

/// Returns the share of the latency at which a piece begins, and that at which it ends.
fn ends(sample: &ExplainedSample, at_ns: u64, duration_ns: u64) -> (f64, f64) {
    let all = whole(sample.latency_ns.max(1));
    (whole(at_ns) / all, whole(at_ns.saturating_add(duration_ns)) / all)
}

fn pieces(place: f64, sample: &ExplainedSample, look: usize) -> impl Iterator<Item = Mark> {
    sample.timeline.iter().filter_map(move |piece| {
        let part = sample.parts.get(piece.2)?;
        (group(part.kind) == Some(look))
            .then(|| Mark::Piece { x: ends(sample, piece.0, piece.1), y: (place + PIECES.0, place + PIECES.1) })
    })
}

/// Returns a text for each part, at its first piece.
fn hovers(place: f64, sample: &ExplainedSample, words: CauseWords<'_>) -> impl Iterator<Item = Mark> {
    sample.parts.iter().enumerate().filter_map(move |(index, part)| {
        let piece = sample.timeline.iter().find(|piece| piece.2 == index)?;
        Some(Mark::Hover {
            x: ends(sample, piece.0, piece.1),
            y: (place + PIECES.0, place + PIECES.1),
            words: format!(
                "{}: {}, {} after the start",
                words.of_part(part),
                time(whole(part.duration_ns)),
                time(whole(part.at_ns))
            ),
        })
    })
}

fn rows(sample: &ExplainedSample, words: CauseWords<'_>) -> impl Iterator<Item = Vec<String>> {
    sample.parts.iter().enumerate().map(move |(index, part)| {
        let cpu = sample.cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
        let first = |text: String| if index == 0 { text } else { String::new() };
        vec![
            first(time(whole(sample.latency_ns))),
            first(cpu),
            words.of_part(part),
            time(whole(part.at_ns)),
            time(whole(part.duration_ns)),
        ]
    })
}

#[cfg(test)]
mod tests {
    use hpt_document::{
        Document,
        explain::{CauseKind, ExplainedPart, ExplainedSample, Explanation, TimelinePiece},
    };

    use super::{CauseWords, GROUPS, group, says, timeline};
    use crate::{
        golden,
        output::chart::{Origin, Unreadable, Width},
    };

    fn part(kind: CauseKind, name: &str, (at_ns, duration_ns): (u64, u64)) -> ExplainedPart {
        ExplainedPart {
            kind,
            name: Some(name.to_owned()),
            kernel: None,
            boosted: false,
            inherits_from: None,
            doubt: None,
            after: None,
            longest_ns: None,
            pid: Some(4_711),
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

    fn sample(latency_ns: u64, name: &str) -> ExplainedSample {
        ExplainedSample {
            cpu: Some(1),
            thread: 7,
            deadline_ns: 1,
            latency_ns,
            complete: true,
            parts: vec![
                part(CauseKind::Thread, name, (latency_ns / 4, latency_ns / 2)),
                part(CauseKind::InterruptsOffOrHost, "cat", (0, latency_ns / 4)),
                part(CauseKind::Unexplained, "", (latency_ns - latency_ns / 4, latency_ns / 4)),
            ],
            timeline: vec![
                TimelinePiece(0, latency_ns / 4, 1),
                TimelinePiece(latency_ns / 4, latency_ns / 2, 0),
                TimelinePiece(latency_ns - latency_ns / 4, latency_ns / 4, 2),
            ],
        }
    }

    fn drawn(explained: Vec<ExplainedSample>, width: Width) -> Result<String, Unreadable> {
        let Document::WakeLatency(document) = golden::empty("latency-timer") else { panic!("it is another one") };
        let explanation = Explanation { explained, ..Explanation::default() };
        let chart = timeline(&explanation, &Origin::from(&document), ("", "wake-ups"))?;
        Ok(chart.in_page(width, "chart").into_string())
    }

    #[test]
    fn each_explained_kind_has_a_place_in_the_legend() {
        let drawing = drawn(vec![sample(4_000_000, "hog")], Width::Wide).expect("it can be drawn");
        assert!(drawing.contains(GROUPS[0]) && drawing.contains(GROUPS[3]) && !drawing.contains(GROUPS[2]));
        assert!(drawing.contains("4 ms: thread hog (pid 4711)"), "{drawing}");
        for kind in CauseKind::ALL {
            let kind: CauseKind = serde_json::from_value(kind.name().into()).expect("documents have every kind");
            assert_eq!(group(kind).is_none(), kind == CauseKind::Unexplained);
        }
        assert!(matches!(drawn(Vec::new(), Width::Wide), Err(Unreadable::Nothing)));
    }

    #[test]
    fn a_row_without_its_end_is_noted() {
        let of = |explained: Vec<ExplainedSample>| {
            let count = explained.len();
            let explanation = Explanation { explained, ..Explanation::default() };
            says(&explanation, CauseWords::of(&explanation), (count, "wake-ups"))
        };
        let whole = sample(4_000_000, "hog");
        let mut long = whole.clone();
        long.timeline.pop();
        assert!(!of(vec![whole.clone()]).contains("early"));
        assert!(of(vec![long.clone(), whole]).contains("One row ends early"));
        assert!(of(vec![long.clone(), long]).contains("2 rows end early"));
    }

    #[test]
    fn labels_of_rows_do_not_overlap_at_any_width() {
        let long = "a-thread-with-a-very-long-name-that-no-kernel-would-keep-because-it-is-too-long";
        for name in ["hog", long] {
            let samples = (1..=20).map(|number| sample(number * 1_000_000, name)).collect::<Vec<_>>();
            for width in [Width::Broad, Width::Wide, Width::Narrow] {
                let drawing = drawn(samples.clone(), width).expect("it can be drawn");
                let places = drawing.split("<text ").filter(|text| text.contains(": thread ")).map(|text| {
                    let (_, y) = text.split_once("y=\"").expect("a place");
                    y.split('"').next().and_then(|y| y.parse::<i32>().ok()).expect("a number")
                });
                let mut places: Vec<i32> = places.collect();
                places.sort_unstable();
                assert_eq!(places.len(), super::MOST_SAMPLES);
                // The size of the font is 12 pixels, which are 10 units each.
                assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 140), "{width:?}: {places:?}");
            }
        }
    }
}
