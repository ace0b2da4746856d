//! The commands of the guides for real-time machines, and how a board runs them: in the printed order, with durations
//! cut to seconds. Every command is either run or has a reason why it is not; there is no default.

/// The guides, in the order in which a board follows them.
const GUIDES: [(&str, &str); 4] = [
    ("preempt-rt-pc", include_str!("../../../../docs/howto/preempt-rt-pc.md")),
    ("under-3-us", include_str!("../../../../docs/howto/under-3-us.md")),
    ("cloud-vm", include_str!("../../../../docs/howto/cloud-vm.md")),
    ("raspberry-pi", include_str!("../../../../docs/howto/raspberry-pi.md")),
];

/// The control groups in which a board runs the guides: the root group, and one with a delegated cpuset.
pub(super) const GROUPS: [&str; 2] = ["root", "delegated"];

/// The beginnings of commands that a board does not run, and why.
const NOT_RUN: [(&str, &str); 12] = [
    ("sudo apt-get ", "installs a package; the board has the real-time kernel"),
    ("sudo apt install ", "installs a package; the board has the program"),
    ("apt-cache ", "asks a package manager, which the board lacks"),
    ("sudo reboot", "restarts the machine; the board boots with the kernel parameters of the guides"),
    ("sudo update-grub", "changes a boot loader; the board boots with the kernel parameters of the guides"),
    ("sudo groupadd ", "changes a user; the board sets the limits of the ordinary user"),
    ("sudo usermod ", "changes a user; the board sets the limits of the ordinary user"),
    ("echo ", "writes a setting; the CPU or the interrupt is an example"),
    ("cargo ", "builds hpt"),
    ("scripts/", "builds hpt"),
    ("scp ", "copies hpt"),
    ("cross ", "builds hpt"),
];

/// Programs besides hpt with which a command that a board runs may begin.
const HELPERS: [&str; 5] = ["uname ", "cat ", "awk ", "tar ", "sudo chown "];

/// Subcommands with a duration, and the duration on a board.
const CUT: [(&str, &str); 6] = [
    ("latency timer", "2s"),
    ("latency poll", "2s"),
    ("latency stall", "2s"),
    ("latency gpio", "2s"),
    ("calibrate", "1s"),
    ("watch", "2s"),
];

/// Subcommands that can print a document. Others print text, or write files.
const PRINT_DOCUMENTS: [&str; 9] =
    ["latency", "calibrate", "watch", "bench", "probe", "doctor", "clocksource", "restore", "sleep"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The guide, without `.md`.
    pub(super) guide: &'static str,
    pub(super) line: usize,
    /// The number of the command in its guide, from 1.
    pub(super) number: usize,
    /// The command as printed, without its comment.
    pub(super) printed: String,
    /// How a board runs the command.
    pub(super) plan: Plan,
}

/// How a board runs a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// The board runs this script.
    Run(String),
    /// The board does not run the command, for this reason.
    NotRun(&'static str),
    /// Neither a known command nor one with a reason.
    Unknown,
}

impl Command {
    fn new(guide: &'static str, line: usize, number: usize, printed: &str) -> Self {
        Self { guide, line, number, printed: printed.to_owned(), plan: plan(printed) }
    }

    /// Returns the name of the step that runs the command in a control group, without the build.
    #[must_use]
    pub(super) fn step(&self, group: &str) -> String {
        format!("howto-{group}-{}-{:02}", self.guide, self.number)
    }

    #[must_use]
    pub(super) fn is_of_root(&self) -> bool {
        self.printed.contains("sudo ")
    }

    /// Returns the words of hpt's command line, from the subcommand on; empty if the command runs no hpt.
    #[must_use]
    pub(super) fn words(&self) -> Vec<&str> {
        words_of_hpt(&self.printed)
    }
}

/// Returns every command of the guides, in the printed order: the lines of code blocks, and commands in the text that
/// stand nowhere before in the same guide.
#[must_use]
pub(super) fn commands() -> Vec<Command> {
    GUIDES.iter().flat_map(|(guide, text)| commands_of(guide, text)).collect()
}

fn commands_of(guide: &'static str, text: &str) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    let mut language = None;
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(begun) = content.strip_prefix("```") {
            language = if language.is_some() { None } else { Some(begun) };
            continue;
        }
        let printed: Vec<&str> = match language {
            Some("sh") if !content.trim().is_empty() => vec![content],
            Some("console") => content.strip_prefix("$ ").into_iter().collect(),
            Some(_) => Vec::new(),
            None => {
                let spans = content.split('`').skip(1).step_by(2).filter(|span| is_of_hpt(span));
                spans.filter(|span| found.iter().all(|one| one.printed != **span)).collect()
            }
        };
        for printed in printed {
            // A comment is set off by two spaces.
            let printed = printed.split("  #").next().unwrap_or_default().trim();
            found.push(Command::new(guide, line, found.len() + 1, printed));
        }
    }
    found
}

fn is_of_hpt(command: &str) -> bool {
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    ["hpt", "./hpt"].contains(&command.split(' ').next().unwrap_or_default())
}

fn words_of_hpt(command: &str) -> Vec<&str> {
    if !is_of_hpt(command) {
        return Vec::new();
    }
    let (command, _) = parts(command);
    command.split_whitespace().skip_while(|word| !word.ends_with("hpt")).skip(1).collect()
}

/// Returns the first program's part of a command line, and the rest: a pipe or a redirection.
fn parts(command: &str) -> (&str, &str) {
    let end = [" | ", " >"].into_iter().filter_map(|mark| command.find(mark)).min().unwrap_or(command.len());
    command.split_at(end)
}

fn plan(printed: &str) -> Plan {
    if let Some((_, why)) = NOT_RUN.iter().find(|(beginning, _)| printed.starts_with(beginning)) {
        return Plan::NotRun(why);
    }
    if HELPERS.iter().any(|helper| printed.starts_with(helper)) {
        return Plan::Run(printed.to_owned());
    }
    if !is_of_hpt(printed) {
        return Plan::Unknown;
    }
    let words = words_of_hpt(printed);
    if words.iter().any(|word| word.ends_with(".json") && word.starts_with(|first: char| first.is_uppercase())) {
        return Plan::NotRun("names files of other machines");
    }
    if words == ["run"] || words == ["latency", "gpio"] {
        return Plan::NotRun("names a subcommand without what it needs");
    }
    Plan::Run(script(printed, &words))
}

/// Returns the command with its durations cut, without questions, and with a document as its output.
fn script(printed: &str, words: &[&str]) -> String {
    let (command, rest) = parts(printed);
    let mut cut: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let subcommand = words.iter().take_while(|word| !word.starts_with('-')).copied().collect::<Vec<_>>().join(" ");
    let has = |option: &str| words.contains(&option);
    let mut added: Vec<&str> = Vec::new();
    if let Some((_, seconds)) = CUT.iter().find(|(name, _)| subcommand.starts_with(name)).filter(|_| !has("--list")) {
        match cut.iter().position(|word| ["-d", "--duration"].contains(&word.as_str())) {
            Some(place) => cut[place + 1] = (*seconds).to_owned(),
            None => added.extend(["--duration", seconds]),
        }
    }
    match subcommand.split(' ').collect::<Vec<_>>()[..] {
        ["report", ..] if !has("--compare") => added.push("--short"),
        // One fix, and a figure that needs few samples: a run for all fixes takes minutes.
        ["doctor", ..] if has("--try") => {
            added.extend(["throttling", "--figure", "p50", "--duration", "60s", "--yes"]);
        }
        ["clocksource", "compare" | "set", ..] => added.push("--yes"),
        ["bench", ..] => added.extend(["--count", "2000"]),
        _ => {}
    }
    let prints = words.first().is_some_and(|first| PRINT_DOCUMENTS.contains(first));
    if prints && !has("--format") {
        added.extend(["--format", "json"]);
    }
    cut.extend(added.into_iter().map(str::to_owned));
    let command = cut.join(" ") + rest;
    // What is redirected is judged too.
    match rest.strip_prefix(" >") {
        Some(file) => format!("{command}; status=$?; cat {file}; exit $status"),
        None => command,
    }
}

/// Returns the lines of the guest's script for a build: each command's script, and the step that runs it with
/// `/tmp/guide GROUP USER FILE`.
#[must_use]
pub fn steps(build: &str) -> String {
    let mut steps = String::new();
    for group in GROUPS {
        for command in commands() {
            let Plan::Run(script) = &command.plan else { continue };
            let (step, user) = (command.step(group), if command.is_of_root() { "root" } else { "plain" });
            let file = format!("/tmp/{step}");
            steps += &format!("cat >{file} <<'GUIDE'\n{script}\nGUIDE\n");
            steps += &format!("step {build}.{step} /tmp/guide {group} {user} {file}\n");
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::{Plan, commands, commands_of, plan};

    fn run(printed: &str) -> String {
        match plan(printed) {
            Plan::Run(script) => script,
            other => panic!("{printed}: {other:?}"),
        }
    }

    #[test]
    fn every_command_of_the_guides_is_run_or_has_a_reason() {
        let commands = commands();
        for command in &commands {
            assert_ne!(
                command.plan,
                Plan::Unknown,
                "docs/howto/{}.md:{}: {}",
                command.guide,
                command.line,
                command.printed
            );
        }
        let run = commands.iter().filter(|command| matches!(command.plan, Plan::Run(_))).count();
        assert!(run > 60, "{run} of {}", commands.len());
    }

    #[test]
    fn commands_are_found_in_blocks_and_in_text_in_the_printed_order() {
        let text = "Run `hpt doctor -v`, `uname -v` or `sudo hpt restore`.\n```sh\nhpt probe   # all of them\n\nrm -r /\n```\n\
                    ```text\nhpt nothing\n```\n```console\n$ hpt\nhpt 1.0\n```\n`hpt doctor -v` again.\n";
        let found = commands_of("one", text);
        let printed: Vec<_> = found.iter().map(|one| (one.line, one.number, one.printed.as_str())).collect();
        assert_eq!(
            printed,
            [
                (1, 1, "hpt doctor -v"),
                (1, 2, "sudo hpt restore"),
                (3, 3, "hpt probe"),
                (5, 4, "rm -r /"),
                (11, 5, "hpt")
            ]
        );
        assert_eq!(found[3].plan, Plan::Unknown);
        assert_eq!((found[1].is_of_root(), found[1].step("root").as_str()), (true, "howto-root-one-02"));
    }

    #[test]
    fn durations_are_cut_and_questions_answered() {
        for (printed, script) in [
            ("hpt latency timer --cpu 3 -d 8h", "hpt latency timer --cpu 3 -d 2s --format json"),
            ("sudo hpt watch", "sudo hpt watch --duration 2s --format json"),
            ("hpt report --output a.html", "hpt report --output a.html --short"),
            ("hpt report --compare a.json b.json", "hpt report --compare a.json b.json"),
            (
                "sudo hpt doctor --try --cpu 3",
                "sudo hpt doctor --try --cpu 3 throttling --figure p50 --duration 60s --yes --format json",
            ),
            ("sudo hpt clocksource set tsc", "sudo hpt clocksource set tsc --yes --format json"),
            (
                "./hpt bench --format json >a",
                "./hpt bench --format json --count 2000 >a; status=$?; cat a; exit $status",
            ),
            ("hpt latency gpio --list", "hpt latency gpio --list --format json"),
            ("./hpt doctor --format json | jq .", "./hpt doctor --format json | jq ."),
            ("hpt probe --format json >a", "hpt probe --format json >a; status=$?; cat a; exit $status"),
            ("sudo hpt run -P f:10 -- ./it", "sudo hpt run -P f:10 -- ./it"),
            ("hpt", "hpt"),
            ("awk '{ print }' a", "awk '{ print }' a"),
        ] {
            assert_eq!(run(printed), script);
        }
        for printed in ["sudo reboot", "hpt run", "hpt report --compare A.json B.json"] {
            assert!(matches!(plan(printed), Plan::NotRun(_)), "{printed}");
        }
        for printed in ["rm -r /", "hptx", "sudo rm"] {
            assert_eq!(plan(printed), Plan::Unknown, "{printed}");
        }
    }
}
