//! The end of every measurement: its document with the parts that all documents of measurements have, its answer and its
//! page.

use hpt_document::{
    bench::{BenchDocument, BenchRow},
    conditions::Conditions,
    cpu_absence::CpuAbsence,
    explain::Explanation,
    gpio_latency::{GpioLatencyDocument, GpioLatencyRow},
    limit::LimitRow,
    load::LoadedPhase,
    pairs::{PairsDocument, PairsRow},
    sleep::{SleepDocument, SleepRow},
    stall::{StallDocument, StallThreadRow},
    wake_latency::{WakeLatencyDocument, WakeLatencyRow},
};

use super::{limits::verdict, observers::Observed};
use crate::output::{Answer, Block, Document};

/// The parts that the documents of measurements have.
pub(crate) struct ResultParts<'a, Row> {
    pub(crate) results: &'a mut Vec<Row>,
    pub(crate) limits: &'a mut Vec<LimitRow>,
    pub(crate) conditions: &'a mut Conditions,
    pub(crate) notes: &'a mut Vec<String>,
    pub(crate) interrupted: &'a mut bool,
    pub(crate) cpu_absences: &'a mut Vec<CpuAbsence>,
    /// The sample that ended the run.
    pub(crate) stopped_at_ns: Option<u64>,
    /// Whether the answer is no, whatever the limits are.
    pub(crate) is_no: bool,
    /// `None` for measurements without `--explain`.
    pub(crate) explanation: Option<&'a mut Explanation>,
    /// `None` for measurements without `--load`.
    pub(crate) loaded: Option<&'a mut Option<LoadedPhase<Row>>>,
}

/// The document of a measurement.
pub(crate) trait ResultDocument: Into<hpt_document::Document> {
    type Row;

    /// The name of one sample and of several.
    const SAMPLES: (&'static str, &'static str);

    fn parts(&mut self) -> ResultParts<'_, Self::Row>;
}

/// Expands to a field of the document if there is one.
macro_rules! optional {
    (with $field:expr) => {
        Some($field)
    };
    (without $field:expr) => {
        None
    };
}

/// Implements the trait. `[.end]` is the path to the fields that state how the run ended.
macro_rules! result_documents {
    ($($document:ident of $row:ident: $samples:expr, [$($end:tt)*], no $no:expr, $explained:ident explanation,
       $loaded:ident load;)*) => {
        $(impl ResultDocument for $document {
            type Row = $row;
            const SAMPLES: (&'static str, &'static str) = $samples;

            fn parts(&mut self) -> ResultParts<'_, $row> {
                let stopped_or_lost: fn(&Self) -> (Option<u64>, bool) = $no;
                let (stopped_at_ns, is_no) = stopped_or_lost(self);
                ResultParts {
                    stopped_at_ns,
                    is_no: is_no || stopped_at_ns.is_some(),
                    explanation: optional!($explained &mut self.explanation),
                    loaded: optional!($loaded &mut self.loaded),
                    results: &mut self.results,
                    limits: &mut self.limits,
                    conditions: &mut self.conditions,
                    notes: &mut self.notes,
                    interrupted: &mut self $($end)* .interrupted,
                    cpu_absences: &mut self $($end)* .cpu_absences,
                }
            }
        })*
    };
}

result_documents! {
    WakeLatencyDocument of WakeLatencyRow: ("wake-up", "wake-ups"), [.end],
        no |document| (document.end.stopped_at_ns, false), with explanation, with load;
    StallDocument of StallThreadRow: ("stall", "stalls"), [.end],
        no |document| (document.end.stopped_at_ns, false), with explanation, with load;
    GpioLatencyDocument of GpioLatencyRow: ("edge", "edges"), [.end],
        no |document| (document.end.stopped_at_ns, document.lost > 0), with explanation, without load;
    SleepDocument of SleepRow: ("sleep", "sleeps"), [], no |_| (None, false), with explanation, with load;
    BenchDocument of BenchRow: ("read", "reads"), [], no |_| (None, false), without explanation, with load;
    PairsDocument of PairsRow: ("pair", "pairs"), [], no |_| (None, false), without explanation, without load;
}

/// The result of a measurement, or of one of its phases.
#[derive(Debug)]
pub(crate) struct Finished<D> {
    pub(crate) data: D,
    pub(crate) blocks: Vec<Block>,
    pub(crate) warnings: Vec<String>,
    pub(crate) answer: Answer,
}

impl<D: ResultDocument> Finished<D> {
    /// Judges a result. The notes of `data` contain the warnings already. The answer is unknown without results, no if
    /// the run was stopped by a sample, and unknown if something failed; limits and conditions may make it worse.
    pub(crate) fn new(
        mut data: D,
        warnings: Vec<String>,
        observed: Observed,
        page: impl FnOnce(&D) -> Vec<Block>,
    ) -> Self {
        let parts = data.parts();
        *parts.conditions = observed.conditions;
        if let Some(explanation) = parts.explanation {
            *explanation = observed.explanation;
        }
        let answer = match (parts.results.is_empty(), parts.is_no, warnings.is_empty()) {
            (true, ..) | (false, false, false) => Answer::Unknown,
            (false, true, _) => Answer::No,
            (false, false, true) => Answer::Yes,
        };
        let answer = answer.and(verdict::answer(parts.limits));
        let remarks = (parts.notes, parts.limits.as_mut_slice());
        let answer = observed.options.judge(parts.conditions, remarks, answer);
        let blocks = page(&data);
        Self { data, blocks, warnings, answer }
    }
}

impl<D: ResultDocument> From<Finished<D>> for Document {
    fn from(Finished { data, blocks, warnings, answer }: Finished<D>) -> Self {
        Self { answer, warnings, ..Self::new(data, blocks) }
    }
}
