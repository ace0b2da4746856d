//! The steps that `hpt check --init` measures, and the text of the file with limits from their result.

use hpt_document::{
    check::{CheckDocument, CheckRow},
    limit::LimitRow,
};

use super::{PreparedStep, notes::notes_of};
use crate::{
    document_head::machine_line, measurements::Request, output::without_escapes, sampling::limits::quantity::Quantity,
    statistics::runs::upper_prediction,
};

/// The steps, each with the quantities that get a limit.
const STEPS: [(&str, &str, &[&str]); 4] = [
    ("timer", "latency timer --count 12000", &["p99", "p99.9", "max"]),
    ("stall", "latency stall --duration 10s", &["max"]),
    ("sleep", "sleep --length 1ms --count 1000 --strategy nanosleep,hpt", &["p99"]),
    ("read", "bench --source monotonic", &["read"]),
];

/// The digits with which a limit may begin.
const DIGITS: [u64; 6] = [10, 15, 20, 30, 50, 70];

/// Returns the steps to measure.
pub(super) fn steps() -> Vec<PreparedStep> {
    let step = |(name, command, quantities): (&str, &str, &[&str])| -> Result<PreparedStep, String> {
        let mut request = Request::read_line(command)?;
        let mut quantities = quantities.iter().filter_map(|quantity| Quantity::parse(quantity));
        quantities.try_for_each(|quantity| request.observe(quantity))?;
        let limits = request.limits()?.clone();
        Ok(PreparedStep { name: name.to_owned(), request, limits })
    };
    STEPS.into_iter().map(|one| step(one).expect("the command lines of the usual steps are valid")).collect()
}

/// The probability with which the next run exceeds a limit, if the runs of the measurement show how much runs differ.
const ERROR: f64 = 0.01;

/// Returns a round number of nanoseconds that is not below `headroom` times the highest value of all runs, and that the
/// next run seldom exceeds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded up, and at most an hour")]
fn limit_ns(seen_ns: &[f64], headroom: f64) -> u64 {
    let highest = seen_ns.iter().copied().fold(0.0, f64::max);
    let predicted = upper_prediction(seen_ns, ERROR).unwrap_or(0.0);
    let least = predicted.max(highest * headroom).ceil().clamp(10.0, 3.6e12) as u64;
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
    let unit = units.into_iter().find(|(_, size)| ns % *size == 0);
    unit.map_or_else(|| format!("{ns}ns"), |(unit, size)| format!("{}{unit}", ns / size))
}

/// Returns the highest value of a quantity in all rounds, and the values. Returns `None` if a round has no value.
pub(super) fn in_all_rounds(row: &CheckRow, rounds: &[Vec<CheckRow>]) -> Option<(LimitRow, Vec<f64>)> {
    let is_same = |other: &&CheckRow| other.step == row.step && other.limit.quantity == row.limit.quantity;
    let limits: Vec<&LimitRow> = rounds.iter().filter_map(|rows| Some(&rows.iter().find(is_same)?.limit)).collect();
    let seen: Vec<f64> = limits.iter().filter_map(|limit| limit.seen_ns).collect();
    let highest =
        limits.into_iter().max_by(|one, other| one.seen_ns.unwrap_or(0.0).total_cmp(&other.seen_ns.unwrap_or(0.0)))?;
    (seen.len() == rounds.len()).then(|| (highest.clone(), seen))
}

/// Replaces the limit of the measurement by one that follows from the values of all rounds.
pub(super) fn with_headroom((highest, seen_ns): &(LimitRow, Vec<f64>), headroom: f64) -> LimitRow {
    let ns = limit_ns(seen_ns, headroom);
    let text = format!("{}={}", highest.quantity, time(ns));
    let reason = Some(format!("the value is the highest of {} runs", seen_ns.len()));
    LimitRow { text, limit_ns: Some(ns), above: None, held: Some(true), reason, ..highest.clone() }
}

pub(super) fn text(data: &CheckDocument, (headroom, rounds): (f64, u32)) -> String {
    let mut text = format!(
        "# Limits for `hpt check`, written by `hpt check --init` on {}.\n# {}\n# Each limit is at least {headroom} times the \
         highest value of {rounds} runs.\n# It is higher if these runs differ so much that the next run would exceed it \
         with a probability above 1 %.\n",
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
            _ => {
                text.push('\n');
                for note in notes_of(step) {
                    let note = without_escapes(note).replace('\n', " ");
                    text.push_str(&format!("# When these limits were measured: {note}.\n"));
                }
                text.push_str(&content);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use hpt_document::{check::CheckRow, limit::LimitRow};

    use super::{in_all_rounds, limit_ns, steps, text, time, with_headroom};
    use crate::{
        cmd::check::{file, tests::example},
        sampling::limits::{
            quantity::{Accepted, Limit},
            table::tests::examples,
        },
    };

    #[test]
    fn limits_are_round_and_never_below_the_headroom() {
        let of = |seen: f64| limit_ns(&[seen; 5], 3.0);
        assert_eq!((of(100.0), of(101.0), of(25.1)), (300, 500, 100));
        assert_eq!((of(0.0), of(1e13)), (10, 3_600_000_000_000));
        assert_eq!([100, 1_500, 20_000, 3_000_000, 5_000_000_000].map(time), ["100ns", "1500ns", "20us", "3ms", "5s"]);
        for ns in [10, 1_500, 70_000, 3_600_000_000_000] {
            let limit = Limit::parse(&format!("max={}", time(ns)), Accepted::LATENCY);
            assert!(limit.is_ok(), "{limit:?}");
        }
    }

    #[test]
    fn a_limit_follows_from_all_runs() {
        // Runs that hardly differ: the headroom decides. Runs that differ by a factor of ten: the prediction does.
        assert_eq!(limit_ns(&[100.0, 101.0, 99.0, 100.0, 100.0], 3.0), 500);
        let (wild, highest) = ([100.0, 1_000.0, 120.0, 90.0, 300.0], 1_000.0);
        assert!(limit_ns(&wild, 3.0) as f64 > 5.0 * highest, "{}", limit_ns(&wild, 3.0));
        let [held, _, unknown] = examples().try_into().expect("three");
        let row = |ns: f64| {
            vec![CheckRow { step: "timer".to_owned(), limit: LimitRow { seen_ns: Some(ns), ..held.clone() } }]
        };
        let rounds = [row(3_000_000.0), row(3_200_000.0)];
        let limit = with_headroom(&in_all_rounds(&rounds[0][0], &rounds).expect("two values"), 2.0);
        assert_eq!((limit.text.as_str(), limit.seen_ns), ("max=20ms", Some(3_200_000.0)));
        // A value that one round lacks is not known.
        let rounds = [row(3_000_000.0), vec![CheckRow { step: "timer".to_owned(), limit: unknown }]];
        assert_eq!(in_all_rounds(&rounds[0][0], &rounds), None);
    }

    #[test]
    fn the_file_can_be_read_again() {
        let mut data = example();
        let names: Vec<String> = steps().into_iter().map(|step| step.name).collect();
        for (step, name) in data.steps.iter_mut().zip(&names) {
            data.results.iter_mut().filter(|row| row.step == step.name).for_each(|row| row.step.clone_from(name));
            step.name.clone_from(name);
        }
        data.steps[0].document = Some(serde_json::json!({ "notes": ["the machine was busy\n[[step]]"] }));
        let text = text(&data, (3.0, 5));
        assert!(text.contains("# When these limits were measured: the machine was busy [[step]].\n"), "{text}");
        let read = file::steps(&text).expect("what hpt writes");
        assert_eq!(read.first().map(|step| &step.name), names.first());
        assert!(read[0].limits.contains(&"max=5ms".to_owned()), "{read:?}");
    }
}
