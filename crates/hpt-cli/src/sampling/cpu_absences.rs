//! Times in which a pinned thread did not run on its CPU, for programs and for people.
//! Notices none: `realtime::PinWatch` does.

use hpt_core::{
    Instant,
    realtime::{Absence, PinWatch},
};
use hpt_document::away::Away;

use crate::{context::Context, output::rounded};

/// One of them, for programs.
pub(crate) fn away(cpu: usize, absence: &Absence) -> Away {
    Away {
        cpu,
        from_s: rounded(absence.from.as_secs_f64()),
        to_s: absence.to.map(|to| rounded(to.as_secs_f64())),
        offline: absence.offline,
        ran_on: absence.ran_on.clone(),
        samples: absence.samples,
    }
}

/// All of a thread.
pub(crate) fn all_of(presence: &PinWatch<'_>) -> Vec<Away> {
    presence.absences().iter().map(|absence| away(presence.cpu(), absence)).collect()
}

fn note(away: &Away, what: &str) -> String {
    let Away { cpu, from_s, to_s, offline, ran_on, samples } = away;
    let span = span(*from_s, *to_s);
    let elsewhere: Vec<_> = ran_on.iter().filter(|other| *other != cpu).map(|cpu| format!("CPU {cpu}")).collect();
    let elsewhere = if elsewhere.is_empty() { "other CPUs".to_owned() } else { elsewhere.join(", ") };
    if *offline {
        format!("CPU {cpu} was offline {span}: its thread ran on {elsewhere}, and {samples} {what}")
    } else {
        format!(
            "the thread of CPU {cpu} was allowed on {elsewhere} {span}, by another process or because its CPU was offline for a moment: {samples} {what}"
        )
    }
}

/// Follows a thread through a measurement of parts, each of which is judged at its end: a system call between two of them is in no figure.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    begun: Instant,
    presence: Option<PinWatch<'a>>,
    elsewhere: Vec<String>,
}

impl<'a> Parts<'a> {
    /// Of the calling thread, which is pinned to `cpu` or not at all.
    pub(crate) fn of(cpu: Option<usize>, context: &'a Context) -> Self {
        let presence = cpu.map(|cpu| PinWatch::of(cpu, &context.host));
        Self { begun: Instant::now(), presence, elsewhere: Vec::new() }
    }

    /// Whether the part that ends here was made on the thread's CPU from its beginning to its end.
    pub(crate) fn end(&mut self, name: impl Into<String>) -> bool {
        let since = self.begun.elapsed();
        let stayed = self.presence.as_mut().is_none_or(|presence| presence.stayed(since));
        if !stayed {
            self.elsewhere.push(name.into());
        }
        stayed
    }

    pub(crate) fn away(&self) -> Vec<Away> {
        self.presence.as_ref().map_or_else(Vec::new, all_of)
    }

    /// What is to be said of parts that are not, or not all, of the thread's CPU.
    pub(crate) fn notes(&self) -> Vec<String> {
        let parts = self.elsewhere.join(", ");
        notes(&self.away(), &format!("of the measurements were made there, or partly so ({parts})"))
    }
}

/// One note for each; `what` goes on behind the number of samples.
pub(crate) fn notes(away: &[Away], what: &str) -> Vec<String> {
    away.iter().map(|away| note(away, what)).collect()
}

/// From when to when, in seconds since the beginning.
pub(crate) fn span(from_s: f64, to_s: Option<f64>) -> String {
    to_s.map_or_else(|| format!("from {from_s:.3} s to the end"), |to_s| format!("from {from_s:.3} s to {to_s:.3} s"))
}

/// Behind the words for where a thread is pinned.
pub(crate) fn except(away: &[Away]) -> String {
    match away {
        [] => String::new(),
        [away] => format!("; not on its CPU {}", span(away.from_s, away.to_s)),
        _ => "; not on its CPU in the times that the notes name".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hpt_document::away::Away;

    use super::{except, notes, span};

    /// One to print.
    pub(crate) fn example() -> Away {
        Away { cpu: 1, from_s: 0.25, to_s: Some(0.75), offline: true, ran_on: vec![0, 2], samples: 48 }
    }

    #[test]
    fn the_time_and_the_reason_are_told() {
        let moved = Away { offline: false, to_s: None, ran_on: vec![0, 1], ..example() };
        assert_eq!(
            notes(&[example(), moved.clone()], "wake-ups are not counted"),
            [
                "CPU 1 was offline from 0.250 s to 0.750 s: its thread ran on CPU 0, CPU 2, and 48 wake-ups are not counted",
                "the thread of CPU 1 was allowed on CPU 0 from 0.250 s to the end, by another process or because its CPU was offline for a moment: 48 wake-ups are not counted"
            ]
        );
        assert_eq!(
            (except(&[]), except(&[moved])),
            (String::new(), "; not on its CPU from 0.250 s to the end".to_owned())
        );
        assert_eq!(except(&[example(), example()]), "; not on its CPU in the times that the notes name");
        assert_eq!(span(1.0, None), "from 1.000 s to the end");
    }
}
