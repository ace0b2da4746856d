//! Shell completion. Subcommands and options come from their definitions, and values come from this machine. This
//! module only reads lists; it opens no source.

use std::ffi::OsStr;

use clap::{Arg, Command};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate},
    env::Shells,
};
use hpt_core::{Host, source};
use hpt_instrument::gpio::{Chip, chips};
use hpt_realtime::usable_cpus;

/// The environment variable with which a shell requests completions and names itself. It is specific to hpt, so that a
/// variable set for another program has no effect.
const ASKED_BY: &str = "HPT_COMPLETE";

/// Prints completions and exits if a shell requested them. Otherwise does nothing. `hpt` returns the definition of the
/// whole command line.
pub(crate) fn answer_the_shell(hpt: impl Fn() -> Command) {
    CompleteEnv::with_factory(|| with_values(hpt())).var(ASKED_BY).complete();
}

/// Returns the script that enables completion in a shell, which must be one of [`SHELLS`].
pub(crate) fn script(shell: &str) -> std::io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(shell).expect("one of the shells");
    completer.write_registration(ASKED_BY, "hpt", "hpt", "hpt", &mut script)?;
    if shell == "bash" {
        script.extend_from_slice(WHOLE_WORDS.as_bytes());
    }
    if shell == "zsh" {
        // zsh runs a function from $fpath at the first completion, and this first call must already return candidates.
        script.extend_from_slice(b"\nif [[ $funcstack[1] == _hpt ]]; then _clap_dynamic_completer_hpt \"$@\"; fi\n");
    }
    Ok(script)
}

/// Bash code that rejoins split words. bash splits words at `=` and `:`; without this code, it would complete and
/// replace only the last part of `--source=tsc` and of `gpiochip0:22`.
const WHOLE_WORDS: &str = r#"
_hpt() {
    local words=() word current=0 before='' joins='' i
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if ((i == COMP_CWORD)); then
            word=$2
            if [[ ${COMP_WORDS[i]} =~ ^[=:]+$ ]]; then word=${COMP_WORDS[i]}; fi
        fi
        if ((i > 1)) && [[ $joins || $word =~ ^[=:]+$ ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        if [[ $word =~ ^[=:]+$ ]]; then joins=yes; else joins=''; fi
        if ((i == COMP_CWORD)); then
            current=$((${#words[@]} - 1))
            if [[ $joins ]]; then before=${words[current]}; else before=${words[current]%"$word"}; fi
        fi
    done
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$current
    _clap_complete_hpt "$1" "${words[current]}" "${words[current - 1]}"
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -o nospace -o bashdefault -F _hpt hpt
"#;

/// The supported shells.
pub(crate) const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];

/// Adds the values that options accept on this machine.
fn with_values(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_subcommands(with_values).mut_args(move |argument| values_of(&name, argument))
}

fn values_of(command: &str, argument: Arg) -> Arg {
    let takes_several_cpus =
        || argument.get_value_names().is_some_and(|names| names.iter().any(|name| name.ends_with(",...")));
    let candidates = match (argument.get_id().as_str(), command) {
        ("name", "set") | ("source", "compare") => ArgValueCandidates::new(clock_sources),
        ("name", "probe" | "read") | ("source" | "reference", _) => ArgValueCandidates::new(sources),
        ("cpu", "doctor") => ArgValueCandidates::new(numbers),
        ("cpu", _) if takes_several_cpus() => return argument.add(ArgValueCompleter::new(several_cpus)),
        ("cpu", _) => ArgValueCandidates::new(|| numbers().into_iter().chain(["any".into()]).collect()),
        ("output_line" | "input_line" | "pulse", _) => ArgValueCandidates::new(gpio_lines),
        ("chip", _) => ArgValueCandidates::new(gpio_chips),
        _ => return argument,
    };
    argument.add(candidates)
}

fn sources() -> Vec<CompletionCandidate> {
    source::names_on(&Host::live()).into_iter().map(|id| CompletionCandidate::new(id.as_str().to_owned())).collect()
}

fn clock_sources() -> Vec<CompletionCandidate> {
    let available = Host::live().clock_sources().available;
    available.into_iter().flatten().map(CompletionCandidate::new).collect()
}

/// Returns the chips that can be opened. Opening a chip affects none of its lines.
fn opened_chips() -> impl Iterator<Item = Chip> {
    chips().into_iter().flatten().filter_map(|path| Chip::open(&path).ok())
}

fn gpio_chips() -> Vec<CompletionCandidate> {
    opened_chips()
        .map(|chip| CompletionCandidate::new(chip.name().to_owned()).help(Some(chip.label().to_owned().into())))
        .collect()
}

/// Returns the lines that are not in use.
fn gpio_lines() -> Vec<CompletionCandidate> {
    let free = |chip: Chip| {
        let lines = chip.all_lines().unwrap_or_default().into_iter().filter(|line| !line.is_used);
        let name = |line: hpt_instrument::gpio::LineState| {
            line.name.unwrap_or_else(|| format!("{}:{}", chip.name(), line.offset))
        };
        lines.map(name).map(CompletionCandidate::new).collect::<Vec<_>>()
    };
    opened_chips().flat_map(free).collect()
}

fn numbers() -> Vec<CompletionCandidate> {
    usable_cpus(&Host::live()).into_iter().map(|cpu| CompletionCandidate::new(cpu.to_string())).collect()
}

/// Returns candidates for the last entry of a list of CPU numbers and ranges, without repetition, and words that
/// replace the whole list.
fn several_cpus(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let (before, last) = typed.rfind(',').map_or(("", &*typed), |comma| typed.split_at(comma + 1));
    if let Some((first, _)) = last.split_once('-') {
        let ends =
            usable_cpus(&Host::live()).into_iter().filter(|cpu| first.parse().is_ok_and(|first: usize| first < *cpu));
        let ranges = ends.map(|end| format!("{first}-{end}")).filter(|range| range.starts_with(last));
        return ranges.map(|range| CompletionCandidate::new(format!("{before}{range}"))).collect();
    }
    let words = ["all", "any"].into_iter().filter(|_| before.is_empty()).map(str::to_owned);
    let numbers = usable_cpus(&Host::live()).into_iter().map(|cpu| cpu.to_string());
    let is_new = |number: &String| !before.split(',').any(|one| one == number);
    let fitting = numbers.filter(is_new).chain(words).filter(|value| value.starts_with(last));
    fitting.map(|value| CompletionCandidate::new(format!("{before}{value}"))).collect()
}
