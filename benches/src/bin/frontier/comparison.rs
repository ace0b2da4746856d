//! Compares the settings of hpt with fixed margins: which of them has neither a higher CPU time nor higher latencies.

use super::line::Line;

/// A fixed margin, and what hpt offers instead.
#[derive(Debug, PartialEq)]
pub(crate) struct Compared<'a> {
    pub(crate) fixed: &'a str,
    /// The setting of hpt with the lowest CPU time among those whose trimmed mean, p90 and p99 are not higher, and the CPU
    /// time that it takes in addition, as a share of one CPU. Zero or less: it is nowhere worse. `None` if there is no such
    /// setting.
    pub(crate) best: Option<(&'a str, f64)>,
}

/// Compares each setting of `spin_sleep` with those of hpt.
pub(crate) fn compared(lines: &[Line]) -> Vec<Compared<'_>> {
    let fixed = lines.iter().filter(|line| line.name.starts_with("spin_sleep"));
    let compared = fixed.map(|fixed| {
        let ours = lines.iter().filter(|line| line.name.starts_with("hpt") && is_as_punctual(line, fixed));
        let best = ours.min_by(|one, other| one.cpu_share.total_cmp(&other.cpu_share));
        Compared { fixed: &fixed.name, best: best.map(|line| (line.name.as_str(), line.cpu_share - fixed.cpu_share)) }
    });
    compared.collect()
}

fn is_as_punctual(line: &Line, other: &Line) -> bool {
    line.trimmed_mean_ns <= other.trimmed_mean_ns && line.p90_ns <= other.p90_ns && line.p99_ns <= other.p99_ns
}

#[cfg(test)]
mod tests {
    use super::{Compared, compared};
    use crate::line::Line;

    fn line(name: &str, late_ns: u64, cpu_share: f64) -> Line {
        Line {
            name: name.to_owned(),
            samples: 1,
            early: 0,
            doubled: 0.0,
            p50_ns: late_ns,
            p90_ns: late_ns,
            p99_ns: late_ns,
            p999_ns: late_ns,
            trimmed_mean_ns: late_ns,
            cpu_share,
        }
    }

    #[test]
    fn the_cheapest_setting_that_is_nowhere_later_is_named() {
        let lines = [
            line("spin_sleep 1", 10, 0.02),
            line("spin_sleep 2", 1, 0.5),
            line("hpt a", 10, 0.03),
            line("hpt b", 9, 0.025),
            line("hpt c", 11, 0.01),
        ];
        let found = compared(&lines);
        let (name, additional) = found[0].best.expect("two are as punctual");
        assert_eq!((name, (additional * 1e6).round()), ("hpt b", 5_000.0));
        assert_eq!(found[1], Compared { fixed: "spin_sleep 2", best: None });
    }
}
