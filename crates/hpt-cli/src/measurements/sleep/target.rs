//! The option `--target` of `hpt sleep`, and whether a sleeper met it.

use std::time::Duration;

use hpt_core::sleep::{Report, Target, TargetStatus};
use hpt_document::sleep::TargetField;

use crate::{
    arguments::sleep_length,
    output::{exact_time, rounded, rounded_cpu_share},
};

const EXPECTED: &str = "expected p99=TIME, p99.9=TIME, cpu=SHARE or p99=TIME,cpu=SHARE, for example p99=1us or cpu=2%";

/// Parses a target: a quantile of the overshoot, a share of CPU time, or p99 and a share of CPU time.
pub(super) fn parse(text: &str) -> Result<Target, String> {
    let (mut p99, mut p999, mut cpu) = (None, None, None);
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(|| EXPECTED.to_owned())?;
        let is_repeated = match name.trim() {
            "p99" => p99.replace(limit(value)?).is_some(),
            "p99.9" => p999.replace(limit(value)?).is_some(),
            "cpu" => cpu.replace(share(value)?).is_some(),
            _ => return Err(EXPECTED.to_owned()),
        };
        if is_repeated {
            return Err(format!("{} is given twice", name.trim()));
        }
    }
    match (p99, p999, cpu) {
        (Some(late), None, None) => Ok(Target::P99(late)),
        (None, Some(late), None) => Ok(Target::P999(late)),
        (None, None, Some(part)) => Ok(Target::CpuShare(part)),
        (Some(late), None, Some(part)) => Ok(Target::P99WithinCpuShare(late, part)),
        _ => Err(EXPECTED.to_owned()),
    }
}

fn limit(text: &str) -> Result<Duration, String> {
    sleep_length(text.trim())
}

/// Parses a share of one CPU: `2%` or `0.02`.
fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / unit);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a share from 0% to 100%, or from 0 to 1".to_owned())
}

/// Returns a share in percent, with two decimal places at most; four if the share is below 0.1 %.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let number = if percent < 0.1 { format!("{percent:.4}") } else { format!("{percent:.2}") };
    format!("{} %", number.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns the target in the form of the option.
pub(super) fn text(target: Target) -> String {
    match target {
        Target::P99(late) => format!("p99={}", exact_time(late)),
        Target::P999(late) => format!("p99.9={}", exact_time(late)),
        Target::CpuShare(part) => format!("cpu={}", percent(part)),
        Target::P99WithinCpuShare(late, part) => format!("p99={},cpu={}", exact_time(late), percent(part)),
        _ => "default".to_owned(),
    }
}

/// Returns the call that selects a target in a program. `text` has the form that [`text`] returns.
pub(super) fn call(text: &str) -> Option<String> {
    let target = match parse(&text.replace(" µs", "us").replace(' ', "")) {
        Ok(Target::P99(late)) if late.subsec_nanos() % 1_000 == 0 => {
            format!("Target::P99(Duration::from_micros({}))", late.as_micros())
        }
        Ok(Target::P99(late)) => format!("Target::P99(Duration::from_nanos({}))", late.as_nanos()),
        Ok(Target::CpuShare(share)) => format!("Target::CpuShare({})", rounded_cpu_share(share)),
        _ if text == "default" => return Some("Sleeper::new()".to_owned()),
        _ => return None,
    };
    Some(format!("Sleeper::new().with_target({target})"))
}

pub(super) fn field(report: &Report) -> TargetField {
    let TargetStatus { target, is_met, needed_cpu_share, out_of_reach, .. } = report.target;
    TargetField {
        text: text(target),
        met: is_met,
        needed_cpu_share: needed_cpu_share.map(rounded_cpu_share),
        out_of_reach_share: rounded(out_of_reach),
    }
}

/// States whether the target was met for a length, and what that takes.
pub(super) fn sentence(length: &str, field: &TargetField) -> Option<String> {
    let verdict = match field.met {
        _ if field.text == "default" => return None,
        Some(true) => "met",
        Some(false) => "not met",
        None => "unknown, because there are too few sleeps",
    };
    let needed =
        field.needed_cpu_share.map_or_else(String::new, |share| format!("; it needs {} of a CPU", percent(share)));
    let beyond = if field.out_of_reach_share > 0.0 {
        format!(
            "; {} of the wake-ups were late by 0.5 ms or more, for which no margin is long enough",
            percent(field.out_of_reach_share)
        )
    } else {
        String::new()
    };
    Some(format!("{length}, target {}: {verdict}{needed}{beyond}.", field.text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::sleep::Target;
    use hpt_document::sleep::TargetField;

    use super::{call, parse, sentence, text};

    #[test]
    fn targets_are_parsed_and_printed() {
        let us = Duration::from_micros;
        for (given, target) in [
            ("p99=1us", Target::P99(us(1))),
            ("p99.9=250us", Target::P999(us(250))),
            ("cpu=2%", Target::CpuShare(0.02)),
            ("cpu=0.5", Target::CpuShare(0.5)),
            ("cpu=0", Target::CpuShare(0.0)),
            ("p99=5us,cpu=3 %", Target::P99WithinCpuShare(us(5), 0.03)),
            ("cpu=3%, p99=5us", Target::P99WithinCpuShare(us(5), 0.03)),
        ] {
            assert_eq!(parse(given), Ok(target), "{given}");
            assert_eq!(parse(&text(target).replace('µ', "u").replace(' ', "")), Ok(target), "{given}");
        }
    }

    #[test]
    fn a_call_selects_the_target_in_a_program() {
        for (text, expected) in [
            ("default", Some("Sleeper::new()")),
            ("p99=5 µs", Some("Sleeper::new().with_target(Target::P99(Duration::from_micros(5)))")),
            ("p99=1.5 µs", Some("Sleeper::new().with_target(Target::P99(Duration::from_nanos(1500)))")),
            ("cpu=2.5 %", Some("Sleeper::new().with_target(Target::CpuShare(0.025))")),
            ("p99.9=1 ms", None),
        ] {
            assert_eq!(call(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn other_targets_are_refused() {
        for (given, said) in [
            ("", "expected p99=TIME"),
            ("p99", "expected p99=TIME"),
            ("p50=1us", "expected p99=TIME"),
            ("p99=1us,p99.9=1us", "expected p99=TIME"),
            ("p99.9=1us,cpu=2%", "expected p99=TIME"),
            ("p99=1", "time unit missing"),
            ("p99=1us,p99=2us", "p99 is given twice"),
            ("cpu=101%", "expected a share from 0% to 100%"),
            ("cpu=-1", "expected a share from 0% to 100%"),
            ("cpu=NaN", "expected a share from 0% to 100%"),
        ] {
            let error = parse(given).expect_err(given);
            assert!(error.contains(said), "{given}: {error}");
        }
    }

    #[test]
    fn a_sentence_states_whether_the_target_was_met_and_what_it_takes() {
        let field = TargetField {
            text: "p99=1 µs".to_owned(),
            met: Some(false),
            needed_cpu_share: Some(0.058),
            out_of_reach_share: 0.002,
        };
        assert_eq!(
            sentence("1 ms", &field).as_deref(),
            Some(
                "1 ms, target p99=1 µs: not met; it needs 5.8 % of a CPU; 0.2 % of the wake-ups were late by 0.5 ms or more, for which no margin is long enough."
            )
        );
        let plain = |met, text: &str| TargetField {
            text: text.to_owned(),
            met,
            needed_cpu_share: None,
            out_of_reach_share: 0.0,
        };
        assert_eq!(sentence("1 ms", &plain(Some(true), "cpu=2 %")).as_deref(), Some("1 ms, target cpu=2 %: met."));
        assert_eq!(
            sentence("1 ms", &plain(None, "p99=1 µs")).as_deref(),
            Some("1 ms, target p99=1 µs: unknown, because there are too few sleeps.")
        );
        assert_eq!(sentence("1 ms", &plain(None, "default")), None);
    }
}
