//! All counts in one line: how many were late by 0, 1, 2, … whole microseconds, as a published measurement on a Raspberry Pi 3 B+ shows them.

use super::counts::ThreadLatencies;

/// A line for each thread, which ends with its last microsecond that has samples; what is later than ten milliseconds is added at the end.
pub(super) fn text(threads: &[ThreadLatencies]) -> String {
    let line = |thread: &ThreadLatencies| {
        let counts = thread.lateness.microseconds();
        let end = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let counts: Vec<_> = counts[..end].iter().map(u64::to_string).collect();
        let beyond = match thread.lateness.beyond() {
            0 => String::new(),
            beyond => format!(" (later: {beyond})"),
        };
        format!("0us: {}{beyond}\n", counts.join(" "))
    };
    threads.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::output::latency_files::counts::tests;

    #[test]
    fn counts_stand_at_their_microsecond() {
        assert_eq!(text(&tests::threads()), "0us: 1 2 0 0 0 0 0 0 0 0 0 0 1\n0us: 0 0 0 1 1 (later: 1)\n");
    }
}
