//! `hpt doctor`: finds problems that impair latency and timekeeping on a machine.

mod measure;

use std::path::PathBuf;

use clap::Args;
use hpt_core::{
    Host,
    diagnose::{Examined, Finding, MachineFacts, Severity, Verdict, examine},
    realtime::allowed_cpus,
};
use hpt_document::doctor::{DoctorDocument, DoctorFix, DoctorMeasurement, DoctorRule, DoctorSeverity, DoctorVerdict};

use self::measure::measure;
use crate::{
    arguments::{Codes, CpuChoice, after_help},
    context::Context,
    document_head::{head_of, machine_facts},
    exit::Failure,
    output::{Answer, Block, Cell, Document, Tone, remarks},
    sampling::cpu_absences::Parts,
};

const EXAMPLES: &str = "  \
  hpt doctor                         check this machine
  hpt doctor --cpu 3                 check it for a thread dedicated to CPU 3
  sudo hpt doctor --cpu 3 --measure  also measure for six seconds
  hpt doctor --host my.capture       check a system snapshot";

/// Find what causes latency and clock errors, and how to fix it
///
/// Checks the clocksource, time synchronization, real-time permissions and throttling, isolated CPUs and what still
/// runs there, frequency scaling and idle states, memory, the hypervisor, the power supply of a board, and permissions
/// for counters and devices. hpt doctor changes nothing and does not need root. Without root, it lists the checks that
/// need root. With --measure, hpt also measures for six seconds to confirm problems while they occur.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("a problem was found")), EXAMPLES))]
pub(crate) struct Arguments {
    /// Check for a thread on this CPU [default: isolated CPUs]
    ///
    /// Without this option, checks of dedicated CPUs examine the isolated CPUs, and all other checks examine all CPUs.
    #[arg(short, long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Also measure for six seconds
    ///
    /// Measures the read overhead of the clock, the pauses of a thread that never blocks, and wake-up latency.
    #[arg(long)]
    measure: bool,
    /// Check the system snapshot in FILE (see hpt capture)
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    host: Option<PathBuf>,
}

/// The results other than the verdicts of the rules.
struct Said {
    measured: Option<Vec<DoctorMeasurement>>,
    interrupted: bool,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    let captured = arguments.host.as_deref().map(Context::captured).transpose()?;
    let host = captured.as_ref().unwrap_or(&context.host);
    let facts = MachineFacts::new(host);
    if let (Some(cpu), Some(online)) = (arguments.cpu, facts.cpus())
        && !online.contains(cpu)
    {
        return Err(Failure::NoSuchCpu { cpu, usable: online.to_string() });
    }
    let mut examined = examine(&facts, arguments.cpu);
    let mut notes = context.notes();
    let measured = if arguments.measure {
        context.signals.listen()?;
        // Determine the allowed CPUs before pinning the thread, because pinning leaves only one allowed CPU.
        let cpus = allowed_cpus();
        let pinned = context.pin(arguments.cpu.map(CpuChoice::Number))?.expect("the thread is pinned by default");
        let mut parts = Parts::of(Some(pinned.cpu()), context);
        let spare = cpus.into_iter().find(|cpu| *cpu != pinned.cpu());
        let measured = measure(host, &facts, &mut examined, (&pinned, spare), context);
        parts.end("all of them");
        notes.extend(parts.notes());
        Some(measured)
    } else {
        None
    };
    let said = Said { measured, interrupted: context.interrupted(), notes };
    Ok(document(host, &facts, arguments.cpu, &examined, said))
}

fn document(host: &Host, facts: &MachineFacts, cpu: Option<usize>, examined: &[Examined], said: Said) -> Document {
    let count = |severity: Severity| findings(examined).filter(|finding| finding.severity == severity).count() as u64;
    let answer = answer(examined);
    let data = DoctorDocument {
        head: head_of("doctor", host),
        cpu,
        problems_found: match answer {
            Answer::Yes => Some(false),
            Answer::No => Some(true),
            Answer::Unknown => None,
        },
        high: count(Severity::High),
        low: count(Severity::Low),
        info: count(Severity::Info),
        rules: examined.iter().map(row).collect(),
        measured: said.measured,
        interrupted: said.interrupted,
        needs_root: facts.needs_root().into_iter().map(str::to_owned).collect(),
        notes: said.notes,
    };
    let blocks = page(&data);
    Document { answer, ..Document::new(data, blocks) }
}

fn findings(examined: &[Examined]) -> impl Iterator<Item = &Finding> {
    examined.iter().filter_map(|examined| match &examined.verdict {
        Verdict::Problem(finding) => Some(finding),
        Verdict::Pass(_) | Verdict::NotApplicable(_) | Verdict::Unknown { .. } => None,
    })
}

/// Returns `Answer::No` if a problem was observed. Otherwise, returns `Answer::Unknown` if a problem is likely or a
/// check had no result.
fn answer(examined: &[Examined]) -> Answer {
    let has_problem = |certain: bool| {
        findings(examined).any(|finding| finding.severity >= Severity::Low && finding.certain == certain)
    };
    // A check without a result does not make the answer unknown if it needs root or if its problem is unlikely.
    let is_unknown = || {
        let matters =
            |verdict: &Verdict| matches!(verdict, Verdict::Unknown { needs_root: false, is_unlikely: false, .. });
        examined.iter().any(|examined| matters(&examined.verdict))
    };
    match (has_problem(true), has_problem(false) || is_unknown()) {
        (true, _) => Answer::No,
        (false, true) => Answer::Unknown,
        (false, false) => Answer::Yes,
    }
}

fn row(examined: &Examined) -> DoctorRule {
    let rule = examined.rule;
    let (verdict, observed, finding) = match &examined.verdict {
        Verdict::Problem(finding) => (DoctorVerdict::Problem, finding.observed.clone(), Some(finding)),
        Verdict::Pass(observed) => (DoctorVerdict::Pass, observed.clone(), None),
        Verdict::NotApplicable(why) => (DoctorVerdict::NotApplicable, why.clone(), None),
        Verdict::Unknown { why, .. } => (DoctorVerdict::Unknown, why.clone(), None),
    };
    let fixes = finding.map(|finding| finding.fixes.as_slice()).unwrap_or_default();
    DoctorRule {
        rule: rule.id.to_owned(),
        theme: examined.theme.to_owned(),
        title: rule.title.to_owned(),
        about: rule.about.to_owned(),
        verdict,
        severity: finding.map(|finding| severity(finding.severity)),
        certain: finding.map(|finding| finding.certain),
        observed,
        why: rule.why.to_owned(),
        affects: rule.affects.to_owned(),
        fixes: fixes.iter().map(|fix| DoctorFix { text: fix.text.clone(), commands: fix.commands.clone() }).collect(),
        references: rule.references.iter().map(|&text| text.to_owned()).collect(),
    }
}

const fn severity(severity: Severity) -> DoctorSeverity {
    match severity {
        Severity::High => DoctorSeverity::High,
        Severity::Low => DoctorSeverity::Low,
        Severity::Info => DoctorSeverity::Info,
    }
}

fn page(data: &DoctorDocument) -> Vec<Block> {
    let mut facts = machine_facts(&data.head.machine);
    facts.extend(data.cpu.map(|cpu| ("checked for", format!("a thread dedicated to CPU {cpu}"))));
    facts.push(("verdict", verdict_line(data)));
    facts.push(("severity", "high: a delay of a millisecond or more, or wrong time; low: a shorter delay".to_owned()));
    let mut blocks = vec![Block::Facts(facts)];
    for severity in [DoctorSeverity::High, DoctorSeverity::Low, DoctorSeverity::Info] {
        let of_this = data.rules.iter().filter(|row| row.severity == Some(severity));
        blocks.extend(of_this.map(|row| finding_block(row, severity)));
    }
    for (verdict, title) in [
        (DoctorVerdict::Pass, "Passed:"),
        (DoctorVerdict::Unknown, "Unknown:"),
        (DoctorVerdict::NotApplicable, "Not applicable:"),
    ] {
        let rows = rows_of(data, verdict);
        if !rows.is_empty() {
            blocks.push(Block::Section(title.to_owned(), rows));
        }
    }
    if !data.needs_root.is_empty() {
        let rows = data.needs_root.iter().map(|what| vec![Cell::plain(what)]);
        blocks.push(Block::Section("To check the following, run hpt as root:".to_owned(), rows.collect()));
    }
    if let Some(measured) = &data.measured {
        let rows = measured.iter().map(|measured| vec![Cell::plain(&measured.what), Cell::plain(&measured.result)]);
        blocks.push(Block::Section("Measured:".to_owned(), rows.collect()));
    }
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// Returns the verdict in one line, for example `problems: 5 high, 3 low; notes: 1`.
fn verdict_line(data: &DoctorDocument) -> String {
    let is_likely = data.high + data.low > 0;
    let found = match data.problems_found {
        Some(true) => "problems",
        Some(false) => "no problems",
        None if is_likely => "likely problems, none observed",
        None => "no problems observed, but some checks had no result",
    };
    format!("{found}: {} high, {} low; notes: {}", data.high, data.low, data.info)
}

/// Formats the rules with this verdict. Unless the verdict is `Pass`, rules with the same text share a row.
fn rows_of(data: &DoctorDocument, verdict: DoctorVerdict) -> Vec<Vec<Cell>> {
    let mut by_text: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in data.rules.iter().filter(|row| row.verdict == verdict) {
        let alike =
            by_text.iter_mut().find(|(observed, _)| *observed == row.observed && verdict != DoctorVerdict::Pass);
        match alike {
            Some((_, rules)) => rules.push(&row.rule),
            None => by_text.push((&row.observed, vec![&row.rule])),
        }
    }
    by_text.into_iter().map(|(observed, rules)| vec![Cell::plain(rules.join(", ")), Cell::faint(observed)]).collect()
}

fn finding_block(row: &DoctorRule, severity: DoctorSeverity) -> Block {
    let tone = if severity == DoctorSeverity::Info { Tone::Plain } else { Tone::Bad };
    let observed = match row.certain {
        Some(false) => format!("{} (likely, not observed)", row.observed),
        _ => row.observed.clone(),
    };
    let mut lines = vec![
        line("rule", &format!("{}: checks {}", row.rule, row.about), Tone::Plain),
        line("observed", &observed, tone),
        line("why", &row.why, Tone::Plain),
        line("affects", &row.affects, Tone::Plain),
    ];
    for fix in &row.fixes {
        let colon = if fix.commands.is_empty() { "" } else { ":" };
        lines.push(line("fix", &format!("{}{colon}", fix.text), Tone::Plain));
        lines.extend(fix.commands.iter().map(|command| line("", &format!("$ {command}"), Tone::Good)));
    }
    lines.push(line("see", &row.references.join(" · "), Tone::Faint));
    Block::Section(format!("{}: {}", severity.name(), row.title), lines)
}

fn line(name: &str, text: &str, tone: Tone) -> Vec<Cell> {
    vec![Cell::faint(format!("  {name}")), Cell(text.to_owned(), tone)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::diagnose::{Gap, Gaps, MachineFacts, Verdict, examine, prove};

    use super::{Said, answer, document, measure::measured};
    use crate::{golden, output::Answer};

    /// Creates three gaps of this length, one second apart.
    fn gaps(length_ms: u64) -> Gaps {
        let length = Duration::from_millis(length_ms);
        let gaps = [0, 1, 2].map(|second| Gap { began: Duration::from_secs(second), length, waited: Some(length) });
        Gaps { gaps: gaps.into(), window: Duration::from_millis(3_300) }
    }

    #[test]
    fn a_measurement_is_printed_exactly() {
        let host = golden::host();
        let facts = MachineFacts::new(&host);
        let mut examined = examine(&facts, Some(1));
        prove(&mut examined, &facts, 1, &gaps(52));
        let woken = measured("wake-up latency", &["idle-states"], "p50 7 µs".to_owned());
        let said = Said { measured: Some(vec![woken]), interrupted: true, notes: vec!["a note".to_owned()] };
        golden::assert("doctor-measured", &document(&host, &facts, Some(1), &examined, said));
    }

    #[test]
    fn a_likely_problem_leaves_the_answer_unknown_and_an_observed_one_decides_it() {
        let host = golden::host();
        let facts = MachineFacts::new(&host);
        let mut examined = examine(&facts, None);
        examined.retain(|examined| examined.rule.id == "fair-server" || examined.rule.id == "turbo");
        assert_eq!(answer(&examined), Answer::Unknown);
        prove(&mut examined, &facts, 1, &gaps(50));
        assert_eq!(answer(&examined), Answer::No);
        examined.retain(|examined| !matches!(examined.verdict, Verdict::Problem(_)));
        assert_eq!((examined.len(), answer(&examined)), (1, Answer::Yes));
        for (needs_root, is_unlikely, expected) in
            [(false, false, Answer::Unknown), (true, false, Answer::Yes), (false, true, Answer::Yes)]
        {
            examined[0].verdict = Verdict::Unknown { why: "no file".to_owned(), needs_root, is_unlikely };
            assert_eq!(answer(&examined), expected, "{:?}", examined[0].verdict);
        }
    }
}
