//! Asks for confirmation before a system-wide change.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::{exit::Failure, output::message};

/// Prints the warning and asks for confirmation at the terminal, unless `--yes` was given. Returns `false` if the user
/// declines.
pub(crate) fn consent(warning: &str, yes: bool) -> Result<bool, Failure> {
    message::warning(warning);
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::NoTerminal);
    }
    let mut answer = String::new();
    let _ = write!(io::stderr(), "hpt: Continue? [y/N] ");
    io::stdin().lock().read_line(&mut answer).map_err(|_| Failure::NoTerminal)?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::is_yes;

    #[test]
    fn only_an_explicit_yes_confirms() {
        assert!(is_yes("y\n") && is_yes(" YES \n"));
        assert!(!is_yes("") && !is_yes("\n") && !is_yes("n\n") && !is_yes("yesterday\n"));
    }
}
