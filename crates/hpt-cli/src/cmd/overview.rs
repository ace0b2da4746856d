//! The overview that `hpt` prints without a command. On one screen, it shows the machine, its recommended time source,
//! the most severe problems, and commands to try next.

use hpt_core::source::{PosixClock, PosixId, SourceInfo, choose, self_test};
use hpt_instrument::diagnose::{Finding, Goal, MachineFacts, Rule, Severity, Verdict, examine};

use crate::{
    context::Context,
    document_head::{machine_line, machine_of},
    exit::Failure,
    output::{Answer, Block, Cell, Format, Tone, print_page, short_time, unbroken},
};

/// The maximum number of problems shown.
const SHOWN: usize = 3;

const NEXT: [(&str, &str); 3] = [
    ("hpt doctor", "list the problems of this machine with their fixes"),
    ("hpt latency timer", "measure wake-up latency"),
    ("hpt report", "measure everything, and write an HTML page"),
];

pub(crate) fn run(context: &Context) -> Result<Answer, Failure> {
    if context.format != Format::Human {
        return Err(Failure::Usage("hpt without a command prints text only; specify a command, for example hpt probe"));
    }
    let title = |text: &str| Block::Text(text.to_owned());
    let facts = MachineFacts::new(&context.host);
    let examined = examine(&facts, None, Goal::General);
    let mut found: Vec<(&Rule, &Finding)> = examined
        .iter()
        .filter_map(|examined| match &examined.verdict {
            Verdict::Problem(finding) if finding.severity >= Severity::Low => Some((examined.rule, finding)),
            _ => None,
        })
        .collect();
    // The most severe problems come first, and of these the observed ones. The sort is stable, so all others keep the
    // order of the rules.
    found.sort_by_key(|(_, finding)| std::cmp::Reverse((finding.severity, finding.certain)));
    let findings = found.iter().take(SHOWN).map(|(rule, finding)| {
        let (word, tone) = if finding.severity == Severity::High { ("high", Tone::Bad) } else { ("low", Tone::Plain) };
        vec![Cell(format!("  {word}"), tone), Cell::plain(rule.title), Cell::faint(rule.id)]
    });
    let findings: Vec<_> = findings.collect();
    let heading = match found.len() {
        0 => "Problems found: none".to_owned(),
        count if count > SHOWN => format!("Problems found: {count} (the {SHOWN} most severe)"),
        _ => "Problems found, most severe first".to_owned(),
    };
    let next =
        NEXT.map(|(command, what)| vec![Cell(unbroken(&format!("  {command} ")), Tone::Good), Cell::plain(what)]);
    let blocks = [
        title(&machine_line(&machine_of(&context.host))),
        Block::Facts(vec![("time source", best_source(context)?)]),
        Block::Section(heading, findings),
        Block::Section("Try next".to_owned(), next.into()),
        title("All commands: hpt --help"),
    ];
    print_page(&blocks).map_err(Failure::Print)?;
    Ok(Answer::Yes)
}

/// Returns the source that hpt chooses, with its read overhead.
fn best_source(context: &Context) -> Result<String, Failure> {
    let monotonic = || Failure::Source { name: "monotonic".to_owned(), reason: hpt_core::SourceError::Captured };
    let source = choose(&context.host).map_err(|_| monotonic())?.source;
    let raw = PosixClock::open(&context.host, PosixId::MonotonicRaw).map_err(|_| monotonic())?;
    let cost =
        self_test(source.as_dyn(), &raw).ok().map(|test| format!(", {} per read", short_time(test.read_cost_ns)));
    let SourceInfo { id, .. } = source.as_dyn().info();
    Ok(format!("{id}{}", cost.unwrap_or_default()))
}
