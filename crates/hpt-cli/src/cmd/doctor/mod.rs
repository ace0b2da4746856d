//! `hpt doctor`: what impairs latency and timekeeping on a machine.

mod measure;

use std::path::PathBuf;

use clap::Args;
use hpt_core::{
    Host,
    diagnose::{Examined, Finding, MachineFacts, Severity, Verdict, examine},
};
use hpt_document::doctor::{
    DoctorDocument, DoctorMeasurement, DoctorRemedy, DoctorRule, DoctorSeverity, DoctorVerdict,
};

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
  hpt doctor                        what is in the way on this machine
  hpt doctor --cpu 3                for a thread that is to have CPU 3
  sudo hpt doctor --cpu 3 --measure what a few seconds show of it
  hpt doctor --host my.capture      what is in the way on a captured machine";

/// Find what causes latency and clock errors, and how to fix it
///
/// Checks the kernel's clocksource, time synchronization, real-time permissions and throttling, isolated CPUs and what still runs there, frequency scaling and idle states, memory, the hypervisor, the power supply of a board, and permissions for counters. Changes nothing, and needs no permissions; what only root can read is named. With --measure, a thread also measures for five seconds which of the problems occur now.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("a problem was found")), EXAMPLES))]
pub(crate) struct Arguments {
    /// Check for a thread that gets this CPU [default: isolated CPUs]
    ///
    /// Without it, the checks of single CPUs are made for the isolated CPUs, and the others for all.
    #[arg(short, long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Also measure for five seconds
    ///
    /// Measures the cost of reading the clock, how long a real-time thread is held up, and wake-up latency.
    #[arg(long)]
    measure: bool,
    /// Check the captured machine in FILE (see hpt capture)
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    host: Option<PathBuf>,
}

/// Returns the notes, in addition to the rules' verdicts.
struct Said {
    measured: Option<Vec<DoctorMeasurement>>,
    interrupted: bool,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    let captured = arguments.host.as_deref().map(Context::captured).transpose()?;
    let host = captured.as_ref().unwrap_or(&context.host);
    let facts = MachineFacts::of(host);
    if let (Some(cpu), Some(online)) = (arguments.cpu, facts.cpus())
        && !online.contains(cpu)
    {
        return Err(Failure::NoSuchCpu { cpu, usable: online.to_string() });
    }
    let mut examined = examine(&facts, arguments.cpu);
    let mut notes = context.notes();
    let measured = if arguments.measure {
        context.signals.listen()?;
        let pinned = context.pin(arguments.cpu.map(CpuChoice::Number))?.expect("it is pinned unless it is any CPU");
        let mut parts = Parts::of(Some(pinned.cpu()), context);
        let measured = measure(host, &facts, &mut examined, &pinned, context);
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
        in_the_way: match answer {
            Answer::Yes => Some(false),
            Answer::No => Some(true),
            Answer::Unknown => None,
        },
        major: count(Severity::Major),
        minor: count(Severity::Minor),
        to_know: count(Severity::ToKnow),
        rules: examined.iter().map(row).collect(),
        measured: said.measured,
        interrupted: said.interrupted,
        root_would_be_told: facts.root_would_be_told().into_iter().map(str::to_owned).collect(),
        notes: said.notes,
    };
    let blocks = page(&data);
    Document { answer, ..Document::new(data, blocks) }
}

fn findings(examined: &[Examined]) -> impl Iterator<Item = &Finding> {
    examined.iter().filter_map(|examined| match &examined.verdict {
        Verdict::Found(finding) => Some(finding),
        Verdict::Fine(_) | Verdict::NotHere(_) | Verdict::Untold { .. } => None,
    })
}

/// Returns whether there is no problem.
fn answer(examined: &[Examined]) -> Answer {
    let in_the_way = |certain: bool| {
        findings(examined).any(|finding| finding.severity >= Severity::Minor && finding.certain == certain)
    };
    // Rules that only root can decide, and unlikely problems, are reported, but do not make the verdict unknown.
    let untold = || {
        let weighs =
            |verdict: &Verdict| matches!(verdict, Verdict::Untold { root_is_told: false, is_unlikely: false, .. });
        examined.iter().any(|examined| weighs(&examined.verdict))
    };
    match (in_the_way(true), in_the_way(false) || untold()) {
        (true, _) => Answer::No,
        (false, true) => Answer::Unknown,
        (false, false) => Answer::Yes,
    }
}

fn row(examined: &Examined) -> DoctorRule {
    let rule = examined.rule;
    let (verdict, seen, finding) = match &examined.verdict {
        Verdict::Found(finding) => (DoctorVerdict::Found, finding.seen.clone(), Some(finding)),
        Verdict::Fine(seen) => (DoctorVerdict::Fine, seen.clone(), None),
        Verdict::NotHere(why) => (DoctorVerdict::NotHere, why.clone(), None),
        Verdict::Untold { why, .. } => (DoctorVerdict::Untold, why.clone(), None),
    };
    let remedies = finding.map(|finding| finding.remedies.as_slice()).unwrap_or_default();
    DoctorRule {
        rule: rule.id.to_owned(),
        theme: examined.theme.to_owned(),
        about: rule.about.to_owned(),
        verdict,
        severity: finding.map(|finding| severity(finding.severity)),
        certain: finding.map(|finding| finding.certain),
        seen,
        why: rule.why.to_owned(),
        bites: rule.bites.to_owned(),
        remedies: remedies
            .iter()
            .map(|remedy| DoctorRemedy { text: remedy.text.clone(), commands: remedy.commands.clone() })
            .collect(),
        references: rule.references.iter().map(|&text| text.to_owned()).collect(),
    }
}

const fn severity(severity: Severity) -> DoctorSeverity {
    match severity {
        Severity::Major => DoctorSeverity::Major,
        Severity::Minor => DoctorSeverity::Minor,
        Severity::ToKnow => DoctorSeverity::ToKnow,
    }
}

fn page(data: &DoctorDocument) -> Vec<Block> {
    let mut facts = machine_facts(&data.head.machine);
    facts.extend(data.cpu.map(|cpu| ("for", format!("a thread that is to have CPU {cpu}"))));
    let word = match data.in_the_way {
        Some(true) => "something is in the way",
        Some(false) => "nothing is in the way",
        None => "cannot be told for certain",
    };
    facts.push((
        "verdict",
        format!(
            "{word}: {} major (a millisecond or more, or wrong time), {} minor; {} to know",
            data.major, data.minor, data.to_know
        ),
    ));
    let mut blocks = vec![Block::Facts(facts)];
    for severity in [DoctorSeverity::Major, DoctorSeverity::Minor, DoctorSeverity::ToKnow] {
        let of_this = data.rules.iter().filter(|row| row.severity == Some(severity));
        blocks.extend(of_this.map(|row| finding_block(row, severity)));
    }
    for (verdict, title) in [
        (DoctorVerdict::Fine, "As it should be"),
        (DoctorVerdict::Untold, "Not to be told"),
        (DoctorVerdict::NotHere, "Nothing of the kind here"),
    ] {
        let rows = rows_of(data, verdict);
        if !rows.is_empty() {
            blocks.push(Block::Section(title.to_owned(), rows));
        }
    }
    if !data.root_would_be_told.is_empty() {
        let rows = data.root_would_be_told.iter().map(|what| vec![Cell::plain(what)]);
        blocks.push(Block::Section("As root, hpt would be told besides".to_owned(), rows.collect()));
    }
    if let Some(measured) = &data.measured {
        let rows = measured.iter().map(|measured| vec![Cell::plain(&measured.what), Cell::plain(&measured.result)]);
        blocks.push(Block::Section("Measured".to_owned(), rows.collect()));
    }
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// Formats the rules with this verdict, combining those with the same text.
fn rows_of(data: &DoctorDocument, verdict: DoctorVerdict) -> Vec<Vec<Cell>> {
    let mut by_words: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in data.rules.iter().filter(|row| row.verdict == verdict) {
        let alike = by_words.iter_mut().find(|(seen, _)| *seen == row.seen && verdict != DoctorVerdict::Fine);
        match alike {
            Some((_, rules)) => rules.push(&row.rule),
            None => by_words.push((&row.seen, vec![&row.rule])),
        }
    }
    by_words.into_iter().map(|(seen, rules)| vec![Cell::plain(rules.join(", ")), Cell::faint(seen)]).collect()
}

fn finding_block(row: &DoctorRule, severity: DoctorSeverity) -> Block {
    let tone = if severity == DoctorSeverity::ToKnow { Tone::Plain } else { Tone::Bad };
    let seen = match row.certain {
        Some(false) => format!("{} (not seen, but likely)", row.seen),
        _ => row.seen.clone(),
    };
    let mut lines = vec![
        line("about", &row.about, Tone::Plain),
        line("seen", &seen, tone),
        line("why", &row.why, Tone::Plain),
        line("bites", &row.bites, Tone::Plain),
    ];
    for help in &row.remedies {
        lines.push(line("helps", &help.text, Tone::Plain));
        lines.extend(help.commands.iter().map(|command| line("", &format!("$ {command}"), Tone::Good)));
    }
    lines.push(line("see", &row.references.join(" · "), Tone::Faint));
    Block::Section(format!("{}: {}", severity.name(), row.rule), lines)
}

fn line(name: &str, text: &str, tone: Tone) -> Vec<Cell> {
    vec![Cell::faint(format!("  {name}")), Cell(text.to_owned(), tone)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::diagnose::{Hole, Holes, MachineFacts, Verdict, examine, prove};

    use super::{Said, answer, document, measure::measured};
    use crate::{golden, output::Answer};

    /// Three of this length, one second apart.
    fn holes(length_ms: u64) -> Holes {
        let length = Duration::from_millis(length_ms);
        let holes = [0, 1, 2].map(|second| Hole { began: Duration::from_secs(second), length, waited: Some(length) });
        Holes { holes: holes.into(), window: Duration::from_millis(3_300) }
    }

    #[test]
    fn what_was_measured_is_printed_to_the_letter() {
        let host = golden::host();
        let facts = MachineFacts::of(&host);
        let mut examined = examine(&facts, Some(1));
        let holes = holes(52);
        prove(&mut examined, &facts, 1, &holes);
        let woken = measured("how late a thread was woken", &["idle-states"], "p50 7 µs".to_owned());
        let said = Said { measured: Some(vec![woken]), interrupted: true, notes: vec!["a note".to_owned()] };
        golden::assert("doctor-measured", &document(&host, &facts, Some(1), &examined, said));
    }

    #[test]
    fn what_is_likely_is_no_answer_and_what_was_seen_is_one() {
        let host = golden::host();
        let facts = MachineFacts::of(&host);
        let mut examined = examine(&facts, None);
        examined.retain(|examined| examined.rule.id == "fair-server" || examined.rule.id == "turbo");
        assert_eq!(answer(&examined), Answer::Unknown);
        prove(&mut examined, &facts, 1, &holes(50));
        assert_eq!(answer(&examined), Answer::No);
        examined.retain(|examined| !matches!(examined.verdict, Verdict::Found(_)));
        assert_eq!((examined.len(), answer(&examined)), (1, Answer::Yes));
        for (root_is_told, is_unlikely, expected) in
            [(false, false, Answer::Unknown), (true, false, Answer::Yes), (false, true, Answer::Yes)]
        {
            examined[0].verdict = Verdict::Untold { why: "no file".to_owned(), root_is_told, is_unlikely };
            assert_eq!(answer(&examined), expected, "{:?}", examined[0].verdict);
        }
    }
}
