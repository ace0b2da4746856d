//! The file of a check: named steps, each a command line with limits. Reads the text of the file, and runs nothing.

use serde::Deserialize;

/// A step, as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: String,
    /// The command line of the measurement.
    pub(super) words: Vec<String>,
    pub(super) limits: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    step: Vec<StepContent>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepContent {
    name: String,
    command: Words,
    #[serde(default)]
    limits: Vec<String>,
}

/// A command line: words with spaces between them, or a list of words.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string, or a list of strings")]
enum Words {
    Line(String),
    List(Vec<String>),
}

impl Words {
    fn into_words(self) -> Vec<String> {
        let words: Vec<String> = match self {
            Self::Line(line) => line.split_whitespace().map(str::to_owned).collect(),
            Self::List(words) => words,
        };
        // The name of the command itself may be there.
        if words.first().is_some_and(|word| word == "hpt") { words[1..].to_vec() } else { words }
    }
}

/// Returns the steps, or the reason why the file is not one of a check, with the line.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, String> {
    let content: Content = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let place = line.map_or_else(String::new, |line| format!("line {line}: "));
        format!("{place}{}", error.message().replace('\n', ", "))
    })?;
    if content.step.is_empty() {
        return Err("it has no [[step]]".to_owned());
    }
    let mut steps: Vec<Step> = Vec::new();
    for StepContent { name, command, limits } in content.step {
        if name.trim().is_empty() {
            return Err("a step has an empty name".to_owned());
        }
        if steps.iter().any(|step| step.name == name) {
            return Err(format!("two steps are named {name:?}"));
        }
        let words = command.into_words();
        if words.is_empty() {
            return Err(format!("step {name:?}: its command is empty"));
        }
        steps.push(Step { name, words, limits });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::{Step, steps};

    #[test]
    fn steps_are_read_in_their_order() {
        let text = "[[step]]\nname = \"timer\"\ncommand = \"hpt latency timer  -d 10s\"\nlimits = [\"p99=1ms\", \"max=1s\"]\n\
                    [[step]]\nname = \"bench\"\ncommand = [\"bench\", \"--limit\", \"read=1us\"]\n";
        let step = |name: &str, line: &str, limits: &[&str]| Step {
            name: name.to_owned(),
            words: line.split(' ').map(str::to_owned).collect(),
            limits: limits.iter().map(|&limit| limit.to_owned()).collect(),
        };
        assert_eq!(
            steps(text).expect("sound"),
            [
                step("timer", "latency timer -d 10s", &["p99=1ms", "max=1s"]),
                step("bench", "bench --limit read=1us", &[])
            ]
        );
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        let wrong = |text: &str| steps(text).expect_err(text);
        assert_eq!(wrong(""), "it has no [[step]]");
        assert_eq!(wrong("[[step]]\nname = \"a\"\n"), "line 1: missing field `command`");
        assert!(
            wrong("[[step]]\nname = \"a\"\ncommand = \"bench\"\nlimit = []\n")
                .starts_with("line 4: unknown field `limit`")
        );
        assert!(wrong("[[step]]\nname = 1\n").starts_with("line 2: invalid type"));
        assert!(wrong("step = 3\n").starts_with("line 1: "));
        assert!(wrong("[[step]\n").starts_with("line 1: "));
        assert!(wrong("[[step]]\nname = \"a\"\ncommand = 5\n").contains("expected a string, or a list of strings"));
        let twice = "[[step]]\nname = \"a\"\ncommand = \"bench\"\n";
        assert_eq!(wrong(&twice.repeat(2)), "two steps are named \"a\"");
        assert_eq!(wrong("[[step]]\nname = \" \"\ncommand = \"bench\"\n"), "a step has an empty name");
        assert_eq!(wrong("[[step]]\nname = \"a\"\ncommand = \"hpt\"\n"), "step \"a\": its command is empty");
    }
}
