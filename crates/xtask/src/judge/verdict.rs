//! The verdict on a board's answers: every subject that it was asked to show is judged.

use super::{answers::Answers, board::Board, case::Case, subjects::SUBJECTS};

/// What the judges found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// One line for each thing that is not as it must be, without the board's name.
    pub wrong: Vec<String>,
    /// What was shown, in words for a table.
    pub shown: Vec<String>,
}

/// Judges what a board answered.
#[must_use]
pub fn judge(board: &Board, answers: &Answers) -> Verdict {
    let case = Case::new(board, answers);
    // Whatever it is asked to show, it must be the machine that it is meant to be.
    for show in std::iter::once("machine").chain(board.shows.iter().map(String::as_str)) {
        match SUBJECTS.iter().find(|subject| subject.name == show) {
            Some(subject) => (subject.judge)(&case),
            None => case.wrong(format!("boards/{}.board: there is nothing called {show} to be shown", board.name)),
        }
    }
    let (wrong, shown) = case.close();
    Verdict { wrong, shown }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Answers, Board, SUBJECTS, judge};

    #[test]
    fn a_board_is_asked_only_for_what_can_be_judged() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards");
        for entry in fs::read_dir(folder).expect("there are boards") {
            let path = entry.expect("the folder can be read").path();
            if path.extension().is_none_or(|kind| kind != "board") {
                continue;
            }
            let board = Board::parse("one", &fs::read_to_string(&path).expect("a board's file is text"));
            for show in board.expect("it is a board").shows {
                assert!(SUBJECTS.iter().any(|subject| subject.name == show), "{}: {show}", path.display());
            }
        }
    }

    #[test]
    fn a_board_without_answers_is_wrong_in_each_step() {
        let board = Board {
            builds: vec!["a".to_owned()],
            shows: vec!["carry".to_owned(), "juggling".to_owned()],
            ..Board::default()
        };
        let wrong = judge(&Board { name: "one".to_owned(), ..board }, &Answers::default()).wrong;
        let unfinished =
            ["clock_source", "kernel", "a.carry"].map(|step| format!("{step}: the board did not get to its end"));
        assert_eq!(wrong[..3], unfinished);
        assert_eq!(wrong[3..], ["boards/one.board: there is nothing called juggling to be shown"]);
    }
}
