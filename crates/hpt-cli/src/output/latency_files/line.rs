//! All counts of a thread on one line, in the format of a published measurement on a Raspberry Pi 3 B+. The line
//! contains the number of samples with a latency of 0, 1, 2, … whole microseconds.

use super::counts::ThreadLatencies;

/// Returns one line per thread, with the counts up to the last microsecond that has samples. Appends the number of
/// samples above ten milliseconds, if there are any.
pub(super) fn text(threads: &[ThreadLatencies]) -> String {
    let line = |thread: &ThreadLatencies| {
        let counts = thread.latencies.microseconds();
        let end = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let counts: Vec<_> = counts[..end].iter().map(u64::to_string).collect();
        let beyond = match thread.latencies.overflows() {
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
    fn counts_are_at_the_position_of_their_microsecond() {
        assert_eq!(text(&tests::threads()), "0us: 1 2 0 0 0 0 0 0 0 0 0 0 1\n0us: 0 0 0 1 1 (later: 1)\n");
    }
}
