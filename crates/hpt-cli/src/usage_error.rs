//! The text of usage errors: clap's message, with hints for users of cyclictest and rtla.

use std::ffi::OsString;

use clap::{
    Command, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::arguments::OPTIONS_WITH_VALUE;

/// Options of cyclictest and rtla, each with the start of the corresponding hpt option as clap displays it, and a hint.
const FAMILIAR: [(&[&str], &str, &str); 9] = [
    (&["-p"], "--interval", "use --interval for a period (rtla), or -P f:80 for a priority (cyclictest)"),
    (&["--period"], "--interval", "use --interval"),
    (&["--prio"], "--priority", "use -P f:80"),
    (&["-b", "--break", "--breaktrace"], "--stop-above", "use --stop-above"),
    (&["-D"], "--duration", "use --duration"),
    (&["-l", "--loops"], "--count", "use --count"),
    (&["-m"], "--mlockall", "use --mlockall"),
    (&["-t", "--threads", "-S", "--smp"], "--cpu <CPU,...>", "use --cpu all for a thread on each CPU"),
    (&["-a", "--affinity", "--cpus"], "--cpu", "use --cpu"),
];

/// Returns the text of an error in `arguments`. `hpt` is the definition of the whole command line.
pub(crate) fn text(mut error: Error, arguments: impl IntoIterator<Item = OsString>, mut hpt: Command) -> String {
    hpt.build();
    let (name, command) = addressed(&hpt, arguments);
    let hint = hint(&error, &hpt, command);
    if hint.is_some() {
        // Clap's own suggestions would compete with the hint.
        for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::Suggested] {
            error.remove(kind);
        }
    }
    let text = error.render().to_string();
    let mut paragraphs: Vec<String> = text.trim_end().split("\n\n").map(str::to_owned).collect();
    match (error.kind(), better(&error, command)) {
        // Clap's message is the help text, so the error text must precede it.
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, Some(better)) => paragraphs.insert(0, better),
        (_, Some(better)) => better.clone_into(&mut paragraphs[0]),
        (_, None) => {}
    }
    if let Some(hint) = hint {
        paragraphs.insert(1, format!("  tip: {hint}"));
    }
    paragraphs.retain(|paragraph| !paragraph.starts_with("For more information"));
    paragraphs.push(format!("For more information, try '{name} -h'."));
    paragraphs.join("\n\n")
}

/// Returns the command that the arguments name, for example `hpt latency timer`, and its definition.
fn addressed(hpt: &Command, arguments: impl IntoIterator<Item = OsString>) -> (String, &Command) {
    let (mut name, mut command) = ("hpt".to_owned(), hpt);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if OPTIONS_WITH_VALUE.iter().any(|option| argument == *option) {
            arguments.next();
        } else if !argument.as_encoded_bytes().starts_with(b"-") {
            let Some(named) = command.find_subcommand(&argument) else { break };
            name = format!("{name} {}", named.get_name());
            command = named;
        }
    }
    (name, command)
}

/// Returns a text from the context of the error, or an empty text.
fn context(error: &Error, kind: ContextKind) -> &str {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text,
        _ => "",
    }
}

/// Returns a text that replaces clap's message, including its label.
fn better(error: &Error, command: &Command) -> Option<String> {
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let names = command.get_subcommands().map(Command::get_name).filter(|name| *name != "help");
            let names: Vec<_> = names.collect();
            let (last, others) = names.split_last()?;
            Some(format!("error: command missing: {} or {last}", others.join(", ")))
        }
        ErrorKind::InvalidValue if context(error, ContextKind::InvalidValue).is_empty() => {
            let option = context(error, ContextKind::InvalidArg).split(' ').next().unwrap_or_default();
            let is_priority = ["--fifo", "--rr"].contains(&option);
            is_priority.then(|| format!("error: {option} needs a priority from 1 to 99, for example {option} 80"))
        }
        _ => None,
    }
}

/// Returns a hint for a word that another tool or another command of hpt accepts.
fn hint(error: &Error, hpt: &Command, command: &Command) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let unknown = context(error, ContextKind::InvalidArg);
            let has = |option: &str| command.get_arguments().any(|argument| argument.to_string().starts_with(option));
            let familiar = FAMILIAR.iter().find(|(options, ours, _)| options.contains(&unknown) && has(ours));
            familiar.map(|(_, _, hint)| (*hint).to_owned())
        }
        ErrorKind::InvalidSubcommand => {
            let unknown = context(error, ContextKind::InvalidSubcommand);
            let mut groups = hpt.get_subcommands().filter(|group| group.get_name() != "help");
            let group = groups.find(|group| group.get_subcommands().any(|command| command.get_name() == unknown))?;
            Some(format!("did you mean 'hpt {} {unknown}'?", group.get_name()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::cli::Cli;

    fn of(line: &str) -> String {
        let error = Cli::read(line.split(' '), clap::ColorChoice::Never).expect_err(line);
        text(error, line.split(' ').skip(1).map(Into::into), Cli::definition())
    }

    #[test]
    fn options_of_cyclictest_and_rtla_have_a_hint() {
        for (line, hint) in [
            ("hpt latency timer -p 80", "use --interval for a period (rtla), or -P f:80 for a priority (cyclictest)"),
            ("hpt latency timer -p80", "use --interval for a period (rtla), or -P f:80 for a priority (cyclictest)"),
            ("hpt latency poll --period 100", "use --interval"),
            ("hpt latency timer --period=100", "use --interval"),
            ("hpt latency stall --cpus 0-3", "use --cpu"),
            ("hpt latency timer -b 100", "use --stop-above"),
            ("hpt latency timer --break 100", "use --stop-above"),
            ("hpt latency stall -D 1h", "use --duration"),
            ("hpt -f json latency timer -l 1000", "use --count"),
            ("hpt sleep --loops 1000", "use --count"),
            ("hpt latency timer -t", "use --cpu all for a thread on each CPU"),
            ("hpt timer", "did you mean 'hpt latency timer'?"),
            ("hpt poll", "did you mean 'hpt latency poll'?"),
            ("hpt stall --cpu 3", "did you mean 'hpt latency stall'?"),
            ("hpt gpio", "did you mean 'hpt latency gpio'?"),
            ("hpt pairs", "did you mean 'hpt latency pairs'?"),
        ] {
            let text = of(line);
            assert_eq!(text.matches("tip: ").count(), 1, "{line}: {text}");
            assert!(text.contains(&format!("\n\n  tip: {hint}\n\n")), "{line}: {text}");
        }
        // These commands have no such option.
        for line in ["hpt bench -b 100", "hpt bench -t", "hpt latency gpio -t", "hpt latency timer -x"] {
            assert!(!of(line).contains("tip: use"), "{line}: {}", of(line));
        }
        assert!(of("hpt prob").contains("'probe'"), "a suggestion of clap remains");
    }

    #[test]
    fn a_usage_error_ends_with_the_short_help_of_its_command() {
        for (line, command) in [
            ("hpt latency timer --nonsense", "hpt latency timer"),
            ("hpt --format json latency --color never timer -i 1", "hpt latency timer"),
            ("hpt run --fifo 80", "hpt run"),
            ("hpt bench --count 0", "hpt bench"),
            ("hpt nonsense", "hpt"),
            ("hpt latency", "hpt latency"),
        ] {
            let text = of(line);
            assert!(text.ends_with(&format!("\n\nFor more information, try '{command} -h'.")), "{line}: {text}");
            assert!(!text.contains("try '--help'"), "{line}: {text}");
        }
    }

    #[test]
    fn a_missing_command_or_value_is_named() {
        for line in ["hpt latency", "hpt latency --json"] {
            let text = of(line);
            assert!(text.starts_with("error: command missing: timer, poll, stall, "), "{text}");
            assert!(text.contains("Usage: hpt latency "), "{text}");
        }
        for option in ["--fifo", "--rr"] {
            for rest in ["", " --mlockall"] {
                let text = of(&format!("hpt latency timer {option}{rest}"));
                let error = format!("error: {option} needs a priority from 1 to 99, for example {option} 80\n");
                assert!(text.starts_with(&error), "{text}");
            }
        }
        assert!(of("hpt latency timer --interval").contains("a value is required for"));
    }
}
