//! The steps that `hpt check --init` measures, and the text of the file with limits from their result. Measures nothing
//! itself.

use hpt_document::{check::CheckDocument, limit::LimitRow};

use super::file::Step;
use crate::{document_head::machine_line, output::without_escapes};

/// The steps, each with the quantities that get a limit. The limit for the measurement itself is never reached.
const STEPS: [(&str, &str, &[&str]); 4] = [
    ("timer", "latency timer --count 12000", &["p99", "p99.9", "max"]),
    ("stall", "latency stall --duration 10s", &["max"]),
    ("sleep", "sleep --length 1ms --count 1000 --strategy nanosleep,hpt", &["p99"]),
    ("read", "bench --source monotonic", &["read"]),
];

/// The digits with which a limit may begin.
const DIGITS: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// Returns the steps to measure.
pub(super) fn steps() -> Vec<Step> {
    let step = |(name, command, quantities): (&str, &str, &[&str])| {
        let limits = quantities.iter().flat_map(|quantity| ["--limit".to_owned(), format!("{quantity}=1h")]);
        let words = command.split(' ').map(str::to_owned).chain(limits).collect();
        Step { name: name.to_owned(), words }
    };
    STEPS.into_iter().map(step).collect()
}

/// Returns the limit for a value that was seen: `headroom` times the value, rounded up to a round number of
/// nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded up, and at most an hour")]
fn limit_ns(seen_ns: f64, headroom: f64) -> u64 {
    let least = (seen_ns * headroom).ceil().clamp(10.0, 3.6e12) as u64;
    let mut unit = 1;
    loop {
        if let Some(digits) = DIGITS.into_iter().find(|digits| digits * unit >= least) {
            return (digits * unit).min(3_600_000_000_000);
        }
        unit *= 10;
    }
}

/// Formats a time for `--limit`, in the largest unit without a fraction.
fn time(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.into_iter().find(|(_, size)| ns.is_multiple_of(*size));
    unit.map_or_else(|| format!("{ns}ns"), |(unit, size)| format!("{}{unit}", ns / size))
}

/// Replaces the limit of the measurement by one with headroom above the value that was seen. Returns `None` if no value
/// is known.
pub(super) fn with_headroom(limit: &LimitRow, headroom: f64) -> Option<LimitRow> {
    let ns = limit_ns(limit.seen_ns?, headroom);
    let text = format!("{}={}", limit.quantity, time(ns));
    Some(LimitRow { text, limit_ns: Some(ns), held: Some(true), ..limit.clone() })
}

/// Returns the text of the file.
pub(super) fn text(data: &CheckDocument, headroom: f64) -> String {
    let mut text = format!(
        "# Limits for `hpt check`, written by `hpt check --init` on {}.\n# {}\n# Each limit is {headroom} times the value that \
         was seen, rounded up.\n",
        data.started_at,
        without_escapes(&machine_line(&data.head.machine)).replace('\n', " "),
    );
    for step in &data.steps {
        let limits = data.results.iter().filter(|row| row.step == step.name);
        let limits: Vec<String> = limits.map(|row| format!("\"{}\"", row.limit.text)).collect();
        let command = STEPS.iter().find(|(name, ..)| *name == step.name).map_or("", |(_, command, _)| command);
        let content =
            format!("[[step]]\nname = \"{}\"\ncommand = \"{command}\"\nlimits = [{}]\n", step.name, limits.join(", "));
        match &step.reason {
            Some(reason) if limits.is_empty() => {
                let reason = without_escapes(reason).replace('\n', " ");
                text.push_str(&format!("\n# Step {:?} is left out: {reason}\n", step.name));
            }
            _ => text.push_str(&format!("\n{content}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{limit_ns, steps, text, time, with_headroom};
    use crate::{
        cmd::check::{file, tests::example},
        sampling::limits::{
            quantity::{Accepted, Limit},
            table::tests::examples,
        },
    };

    #[test]
    fn limits_are_round_and_never_below_the_headroom() {
        assert_eq!((limit_ns(100.0, 3.0), limit_ns(101.0, 3.0), limit_ns(25.1, 3.0)), (300, 500, 100));
        assert_eq!((limit_ns(0.0, 3.0), limit_ns(1e13, 3.0)), (10, 3_600_000_000_000));
        assert_eq!([100, 1_500, 20_000, 3_000_000, 5_000_000_000].map(time), ["100ns", "1500ns", "20us", "3ms", "5s"]);
        for ns in [10, 1_500, 70_000, 3_600_000_000_000] {
            let limit = Limit::parse(&format!("max={}", time(ns)), Accepted::LATENCY);
            assert!(limit.is_ok(), "{limit:?}");
        }
        let [held, _, unknown] = examples().try_into().expect("three");
        assert_eq!(with_headroom(&held, 2.0).map(|limit| limit.text).as_deref(), Some("max=10ms"));
        assert_eq!(with_headroom(&unknown, 2.0), None);
    }

    #[test]
    fn the_file_can_be_read_again() {
        let mut data = example();
        let names: Vec<String> = steps().into_iter().map(|step| step.name).collect();
        for (step, name) in data.steps.iter_mut().zip(&names) {
            data.results.iter_mut().filter(|row| row.step == step.name).for_each(|row| row.step.clone_from(name));
            step.name.clone_from(name);
        }
        let read = file::steps(&text(&data, 3.0)).expect("what hpt writes");
        assert_eq!(read.first().map(|step| &step.name), names.first());
        assert!(read[0].words.contains(&"max=5ms".to_owned()), "{read:?}");
    }
}
