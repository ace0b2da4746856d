//! The result of `hpt doctor --try` for a terminal: what to keep, and a table of all fixes.

use std::time::Duration;

use hpt_document::doctor_try::{DoctorTryDocument, TriedFix, TryVerdict};

use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, Tone, one_or_many, remarks, short_time},
};

/// The state of the machine after the run, as far as the document does not contain it.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The command that restores what stays in effect.
    pub(super) restore: String,
    /// Whether a setting could not be restored.
    pub(super) is_anything_left: bool,
    /// Whether the user wants to keep what helped.
    pub(super) is_to_keep: bool,
    /// Whether nothing was tried, although there may be something to try.
    pub(super) is_unknown: bool,
}

/// Returns the answer in one sentence.
fn headline(data: &DoctorTryDocument, state: &State) -> String {
    let of = |accept: &dyn Fn(&&TriedFix) -> bool| {
        let texts: Vec<&str> = data.results.iter().filter(accept).map(|row| row.text.as_str()).collect();
        texts.join(", ")
    };
    let kept = of(&|row| row.keep);
    let alone = of(&|row| row.verdict == TryVerdict::Helpful && !row.keep);
    let is_any_tried = data.results.iter().any(|row| row.verdict != TryVerdict::NotPossible);
    let figure = &data.figure;
    // A rule that is violated stays so, whatever the others show.
    let untried = of(&|row| row.verdict == TryVerdict::NotPossible);
    let untried = if untried.is_empty() { String::new() } else { format!("Not tried: {untried}. ") };
    match (data.baseline_ns, data.result_ns) {
        (Some(before), Some(after)) if !kept.is_empty() => {
            format!("Keep {kept}: {figure} {} → {}", short_time(before), short_time(after))
        }
        (Some(_), _) if !is_any_tried => "Unknown: no fix could be applied".to_owned(),
        (Some(before), _) if !alone.is_empty() => {
            format!("Ended early; each of these helped until then: {alone}. Without: {figure} {}", short_time(before))
        }
        (Some(before), _) => {
            // A fix is found only if its effect exceeds the spread between rounds.
            let unseen = data.baseline_spread_ns.map(|ns| {
                format!(
                    "; changes below {} cannot be seen in {} {} of this length. To see half of that takes about four times as long (--duration {}), if samples are independent",
                    short_time(ns),
                    data.rounds,
                    one_or_many(data.rounds, "round", "rounds"),
                    four_times(data.duration_s)
                )
            });
            format!("{untried}No effect shown: {figure} is {}{}", short_time(before), unseen.unwrap_or_default())
        }
        (None, _) if data.results.is_empty() && state.is_unknown => "Unknown: some checks had no result".to_owned(),
        (None, _) if data.results.is_empty() => "Nothing to try".to_owned(),
        (None, _) => "Unknown: nothing was measured".to_owned(),
    }
}

/// Returns four times a duration, as an option expects it. The spread between rounds falls with the square root of their
/// length.
fn four_times(seconds: f64) -> String {
    let longer = Duration::from_secs_f64((seconds.max(1.0) * 4.0).min(1e9).round());
    humantime::format_duration(longer).to_string().replace(' ', "")
}

/// Returns the verdict in words, and what became of the fix.
fn verdict(row: &TriedFix, stays: bool) -> Cell {
    match (row.verdict, row.keep) {
        (TryVerdict::Helpful, true) if stays => Cell("helps, kept".to_owned(), Tone::Good),
        (TryVerdict::Helpful, true) => Cell("helps".to_owned(), Tone::Good),
        (TryVerdict::Helpful, false) => Cell::plain("helps alone, undone"),
        (TryVerdict::WithinSpread, _) => Cell::faint("no effect shown, undone"),
        (TryVerdict::Worse, _) => Cell("worse, undone".to_owned(), Tone::Bad),
        (TryVerdict::NotPossible, _) => Cell::faint("not possible here"),
        (TryVerdict::Unknown, _) => Cell("unknown, undone".to_owned(), Tone::Strong),
    }
}

/// Returns the remark on a fix.
fn remark(row: &TriedFix) -> Option<String> {
    let on_top = (!row.on_top_of.is_empty()).then(|| format!("compared on top of {}", row.on_top_of.join(", ")));
    let all: Vec<String> = on_top.into_iter().chain(row.reason.clone()).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns the remarks on all fixes. Fixes with the same remark share a line.
fn remarks_on_fixes(rows: &[TriedFix]) -> Vec<String> {
    let mut remarks: Vec<(Vec<&str>, String)> = Vec::new();
    for (row, remark) in rows.iter().filter_map(|row| Some((row, remark(row)?))) {
        match remarks.iter_mut().find(|(_, same)| *same == remark) {
            Some((texts, _)) => texts.push(&row.text),
            None => remarks.push((vec![&row.text], remark)),
        }
    }
    remarks.into_iter().map(|(texts, remark)| format!("{}: {remark}.", texts.join(", "))).collect()
}

pub(super) fn page(data: &DoctorTryDocument, state: &State) -> Vec<Block> {
    let mut blocks = vec![Block::Headline(headline(data, state))];
    if !data.results.is_empty() {
        let columns = vec![
            Column("fix", Align::Left),
            Column("off", Align::Right),
            Column("on", Align::Right),
            Column("p-value", Align::Right),
            Column("verdict", Align::Left),
        ];
        let rows = data.results.iter().map(|row| {
            vec![
                Cell::plain(&row.text),
                Cell::or_dash(row.off_ns.filter(|_| row.on_ns.is_some()).map(short_time)),
                Cell::or_dash(row.on_ns.map(short_time)),
                Cell::or_dash(row.p_value.map(probability)),
                // The limit of the exit latency is no setting, and ends with this process.
                verdict(row, data.kept_until_reboot && !row.settings.is_empty()),
            ]
        });
        blocks.push(Block::Table(Table { columns, rows: rows.collect() }.without_empty_columns()));
    }
    let reasons = remarks_on_fixes(&data.results);
    if !reasons.is_empty() {
        blocks.push(Block::Text(reasons.join("\n")));
    }
    blocks.push(Block::Text(ending(data, state)));
    if data.rounds > 0 {
        blocks.push(Block::Text(format!(
            "{} of {} in {} {}, {:.0} s. {}.",
            data.figure,
            data.measurement,
            data.rounds,
            one_or_many(data.rounds, "round", "rounds"),
            data.elapsed_s,
            machine_line(&data.head.machine)
        )));
        blocks.push(Block::detail(
            "off and on are medians of the rounds without and with the fix. A fix helps if the exact rank-sum test finds a \
             difference (5 %, divided by twice the number of fixes), and if the difference of the medians exceeds the interquartile \
             range of both groups. Fixes that help are compared again on top of the better ones.",
        ));
    }
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// Returns what is in effect, and how to change that.
fn ending(data: &DoctorTryDocument, state: &State) -> String {
    let is_any_kept = data.results.iter().any(|row| row.keep);
    let files = data.files.iter().map(|path| format!("\nWrote {path}"));
    let files: String = files.collect();
    let state = match (is_any_kept, data.kept_until_reboot) {
        (true, true) => format!("What helped stays in effect until reboot; `sudo {}` undoes it.", state.restore),
        _ if state.is_anything_left => "A setting was not restored or not kept: see the warnings.".to_owned(),
        (true, false) if data.files.is_empty() && !state.is_to_keep => {
            "All changes were undone. --keep keeps what helped until reboot, and --output DIR writes it as files."
                .to_owned()
        }
        _ if data.rounds == 0 => "Nothing was changed.".to_owned(),
        _ => "All changes were undone.".to_owned(),
    };
    format!("{state}{files}")
}

fn probability(p: f64) -> String {
    if p < 0.000_1 { "<0.0001".to_owned() } else { format!("{p:.4}") }
}

#[cfg(test)]
pub(super) mod tests {
    use hpt_document::{
        doctor::Goal,
        doctor_try::{DoctorTryDocument, TriedFix, TriedSetting, TryVerdict},
    };

    use super::{State, ending, headline, page, remarks_on_fixes};
    use crate::{golden, output::Document};

    fn row(fix: &str, text: &str, verdict: TryVerdict) -> TriedFix {
        TriedFix {
            fix: fix.to_owned(),
            rule: fix.to_owned(),
            text: text.to_owned(),
            settings: Vec::new(),
            verdict,
            keep: false,
            off_ns: Some(41_000.0),
            on_ns: Some(40_600.0),
            p_value: Some(0.42),
            off_rounds_ns: vec![41_000.0, 40_000.0, 42_000.0],
            on_rounds_ns: vec![40_600.0],
            on_top_of: Vec::new(),
            reason: None,
        }
    }

    /// A result with each verdict.
    #[expect(clippy::too_many_lines, reason = "one example with all fields")]
    pub(in super::super) fn example() -> DoctorTryDocument {
        let set = |path: &str, original: &str, value: &str| TriedSetting {
            path: path.to_owned(),
            original_value: Some(original.to_owned()),
            value: value.to_owned(),
        };
        let governor = TriedFix {
            keep: true,
            on_ns: Some(17_000.0),
            p_value: Some(0.000_02),
            settings: vec![set("/sys/devices/system/cpu/cpufreq/policy3/scaling_governor", "powersave", "performance")],
            ..row("governor", "governor performance on CPU 3", TryVerdict::Helpful)
        };
        let watchdog = TriedFix {
            keep: true,
            off_ns: Some(17_000.0),
            on_ns: Some(14_000.0),
            p_value: Some(0.004_3),
            on_top_of: vec!["governor".to_owned()],
            settings: vec![set("/proc/sys/kernel/nmi_watchdog", "1", "0")],
            ..row("nmi-watchdog", "NMI watchdog off", TryVerdict::Helpful)
        };
        let turbo =
            TriedFix { on_ns: Some(60_000.0), p_value: Some(0.000_3), ..row("turbo", "turbo off", TryVerdict::Worse) };
        let refused = TriedFix {
            off_ns: None,
            on_ns: None,
            p_value: None,
            off_rounds_ns: Vec::new(),
            on_rounds_ns: Vec::new(),
            reason: Some("the kernel refused \"0-2\" for /proc/irq/9/smp_affinity_list: input/output error".to_owned()),
            ..row("interrupts", "interrupts moved off CPU 3", TryVerdict::NotPossible)
        };
        let unknown = TriedFix {
            reason: Some("the run was interrupted".to_owned()),
            ..row("same-pages", "KSM off", TryVerdict::Unknown)
        };
        DoctorTryDocument {
            head: golden::head("doctor-try"),
            goal: Goal::Realtime,
            cpu: 3,
            measurement: "hpt latency timer --cpu 3 --fifo 80 --duration 1s".to_owned(),
            figure: "p99".to_owned(),
            duration_s: 180.0,
            elapsed_s: 172.4,
            rounds: 5,
            interrupted: true,
            baseline_ns: Some(41_000.0),
            baseline_spread_ns: Some(1_200.0),
            result_ns: Some(14_000.0),
            kept_until_reboot: false,
            results: vec![
                governor,
                watchdog,
                row("huge-pages", "transparent huge pages madvise", TryVerdict::WithinSpread),
                turbo,
                refused,
                unknown,
            ],
            files: Vec::new(),
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn the_answer_comes_first() {
        let data = example();
        let blocks = page(&data, &State::default());
        golden::assert("doctor-try", &Document::new(data, blocks));
    }

    #[test]
    fn the_headline_states_what_is_known() {
        let with = |change: &dyn Fn(&mut TriedFix)| {
            let mut data = DoctorTryDocument { result_ns: None, ..example() };
            data.results.iter_mut().for_each(change);
            headline(&data, &State::default())
        };
        let early = with(&|row| row.keep = false);
        assert_eq!(
            early,
            "Ended early; each of these helped until then: governor performance on CPU 3, NMI watchdog off. Without: p99 41 µs"
        );
        let refused = with(&|row| (row.verdict, row.keep) = (TryVerdict::NotPossible, false));
        assert_eq!(refused, "Unknown: no fix could be applied");
        let none = with(&|row| (row.verdict, row.keep) = (TryVerdict::WithinSpread, false));
        let unseen = "No effect shown: p99 is 41 µs; changes below 1.2 µs cannot be seen in 5 rounds of this length. To see half of that takes about four times as long (--duration 12m)";
        assert!(none.starts_with(unseen), "{none}");
        // The fix that cannot be tried comes first.
        let some = with(&|row| {
            let verdict = if row.fix == "interrupts" { TryVerdict::NotPossible } else { TryVerdict::WithinSpread };
            (row.verdict, row.keep) = (verdict, false);
        });
        assert!(some.starts_with("Not tried: interrupts moved off CPU 3. No effect shown: "), "{some}");
        let open = with(&|row| (row.verdict, row.keep) = (TryVerdict::Unknown, false));
        assert!(open.starts_with("No effect shown: p99 is 41 µs"), "{open}");
        let nothing = DoctorTryDocument { results: Vec::new(), baseline_ns: None, ..example() };
        assert_eq!(headline(&nothing, &State::default()), "Nothing to try");
        let unknown = State { is_unknown: true, ..State::default() };
        assert_eq!(headline(&nothing, &unknown), "Unknown: some checks had no result");
    }

    #[test]
    fn fixes_with_the_same_remark_share_a_line() {
        let with = |text: &str, reason: &str| TriedFix {
            reason: Some(reason.to_owned()),
            ..row("any", text, TryVerdict::Unknown)
        };
        let rows = [with("KSM off", "refused"), with("turbo off", "absent"), with("NMI watchdog off", "refused")];
        assert_eq!(remarks_on_fixes(&rows), ["KSM off, NMI watchdog off: refused.", "turbo off: absent."]);
    }

    #[test]
    fn the_ending_states_what_is_in_effect() {
        let mut data = example();
        let mut state = State { restore: "hpt restore --journal /somewhere".to_owned(), ..State::default() };
        assert!(ending(&data, &state).contains("--keep keeps what helped"));
        state.is_to_keep = true;
        assert_eq!(ending(&data, &state), "All changes were undone.");
        state.is_anything_left = true;
        assert_eq!(ending(&data, &state), "A setting was not restored or not kept: see the warnings.");
        data.kept_until_reboot = true;
        assert!(ending(&data, &state).contains("`sudo hpt restore --journal /somewhere` undoes it"));
    }

    #[test]
    fn nothing_to_try_is_said_in_one_line() {
        let data = DoctorTryDocument {
            results: Vec::new(),
            baseline_ns: None,
            baseline_spread_ns: None,
            result_ns: None,
            rounds: 0,
            interrupted: false,
            ..example()
        };
        let blocks = page(&data, &State::default());
        golden::assert("doctor-try-nothing", &Document::new(data, blocks));
    }
}
