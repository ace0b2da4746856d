//! Times during which a pinned thread did not run on its CPU, as document fields and as text. `PinWatch` of
//! hpt-realtime detects them.

use hpt_core::Instant;
use hpt_document::cpu_absence::CpuAbsence;
use hpt_realtime::{Absence, PinWatch};

use crate::{
    context::Context,
    output::{one_or_many, rounded},
};

pub(crate) fn field_of(cpu: usize, absence: &Absence) -> CpuAbsence {
    CpuAbsence {
        cpu,
        from_s: rounded(absence.from.as_secs_f64()),
        to_s: absence.to.map(|to| rounded(to.as_secs_f64())),
        offline: absence.offline,
        ran_on_cpus: absence.ran_on.clone(),
        samples: absence.samples,
    }
}

pub(crate) fn all_of(presence: &PinWatch<'_>) -> Vec<CpuAbsence> {
    presence.absences().iter().map(|absence| field_of(presence.cpu(), absence)).collect()
}

fn note(absence: &CpuAbsence, [one, many]: [&str; 2]) -> String {
    let CpuAbsence { cpu, from_s, to_s, offline, ran_on_cpus, samples } = absence;
    let span = span(*from_s, *to_s);
    let what = one_or_many(*samples, one, many);
    let others: Vec<_> = ran_on_cpus.iter().filter(|other| *other != cpu).map(|cpu| format!("CPU {cpu}")).collect();
    let others = if others.is_empty() { "other CPUs".to_owned() } else { others.join(", ") };
    if *offline {
        format!("CPU {cpu} was offline {span}: its thread ran on {others}, and {samples} {what}")
    } else {
        format!(
            "the thread of CPU {cpu} was allowed to run on {others} {span}, because another process changed its affinity or its CPU was briefly offline: {samples} {what}"
        )
    }
}

/// Tracks a thread through the parts of a measurement. The system call for this check is made between two parts,
/// so it affects no measured value.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    begun: Instant,
    presence: Option<PinWatch<'a>>,
    disturbed: Vec<String>,
}

impl<'a> Parts<'a> {
    /// Starts to track the calling thread, which is pinned to `cpu`, or is not pinned if `cpu` is `None`.
    pub(crate) fn of(cpu: Option<usize>, context: &'a Context) -> Self {
        let presence = cpu.map(|cpu| PinWatch::new(cpu, &context.host));
        Self { begun: Instant::now(), presence, disturbed: Vec::new() }
    }

    /// Ends a part, and returns whether the thread was on its CPU during the whole part.
    pub(crate) fn end(&mut self, name: impl Into<String>) -> bool {
        let since = self.begun.elapsed();
        let stayed = self.presence.as_mut().is_none_or(|presence| presence.stayed(since));
        if !stayed {
            self.disturbed.push(name.into());
        }
        stayed
    }

    pub(crate) fn absences(&self) -> Vec<CpuAbsence> {
        self.presence.as_ref().map_or_else(Vec::new, all_of)
    }

    /// Returns notes on parts that were not measured entirely on the thread's CPU.
    pub(crate) fn notes(&self) -> Vec<String> {
        let parts = self.disturbed.join(", ");
        notes(
            &self.absences(),
            [
                &format!("measurement was taken there, at least in part ({parts})"),
                &format!("measurements were taken there, at least in part ({parts})"),
            ],
        )
    }
}

/// Returns a note for each absence. `what` is the text after the number of samples: for one sample, and for several.
pub(crate) fn notes(absences: &[CpuAbsence], what: [&str; 2]) -> Vec<String> {
    absences.iter().map(|absence| note(absence, what)).collect()
}

/// Returns the time span as text, in seconds since the start.
pub(crate) fn span(from_s: f64, to_s: Option<f64>) -> String {
    to_s.map_or_else(|| format!("from {from_s:.3} s to the end"), |to_s| format!("from {from_s:.3} s to {to_s:.3} s"))
}

/// Returns the text to append to the description of a thread's CPU.
pub(crate) fn except(absences: &[CpuAbsence]) -> String {
    match absences {
        [] => String::new(),
        [absence] => format!("; not on its CPU {}", span(absence.from_s, absence.to_s)),
        _ => "; not on its CPU during the times listed in the notes".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hpt_document::cpu_absence::CpuAbsence;

    use super::{except, notes, span};

    /// Returns an example of an absence, for tests of the output.
    pub(crate) fn example() -> CpuAbsence {
        CpuAbsence { cpu: 1, from_s: 0.25, to_s: Some(0.75), offline: true, ran_on_cpus: vec![0, 2], samples: 48 }
    }

    #[test]
    fn an_absence_is_reported_with_its_time_and_reason() {
        let moved = CpuAbsence { offline: false, to_s: None, ran_on_cpus: vec![0, 1], ..example() };
        assert_eq!(
            notes(&[example(), moved.clone()], ["wake-up is not counted", "wake-ups are not counted"]),
            [
                "CPU 1 was offline from 0.250 s to 0.750 s: its thread ran on CPU 0, CPU 2, and 48 wake-ups are not counted",
                "the thread of CPU 1 was allowed to run on CPU 0 from 0.250 s to the end, because another process changed its affinity or its CPU was briefly offline: 48 wake-ups are not counted"
            ]
        );
        let single = CpuAbsence { samples: 1, ..example() };
        assert_eq!(
            notes(&[single], ["wake-up is not counted", "wake-ups are not counted"]),
            ["CPU 1 was offline from 0.250 s to 0.750 s: its thread ran on CPU 0, CPU 2, and 1 wake-up is not counted"]
        );
        assert_eq!(
            (except(&[]), except(&[moved])),
            (String::new(), "; not on its CPU from 0.250 s to the end".to_owned())
        );
        assert_eq!(except(&[example(), example()]), "; not on its CPU during the times listed in the notes");
        assert_eq!(span(1.0, None), "from 1.000 s to the end");
    }
}
