//! The verdict on a board's answers: judges every subject in its file.

use super::{answers::Answers, board::Board, case::Case, subjects::SUBJECTS};

/// The findings of the judges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The problems, one per line, without the board's name.
    pub wrong: Vec<String>,
    /// The results, as text for a table.
    pub shown: Vec<String>,
}

/// Judges the answers of a board.
#[must_use]
pub fn judge(board: &Board, answers: &Answers) -> Verdict {
    let case = Case::new(board, answers);
    // Every board must be the expected machine, whatever its subjects are.
    for show in std::iter::once("machine").chain(board.shows.iter().map(String::as_str)) {
        match SUBJECTS.iter().find(|subject| subject.name == show) {
            Some(subject) => (subject.judge)(&case),
            None => case.wrong(format!("boards/{}.board: unknown subject: {show}", board.name)),
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
    fn every_subject_of_a_board_has_a_judge() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards");
        for entry in fs::read_dir(folder).expect("there are boards") {
            let path = entry.expect("the directory can be read").path();
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
    fn without_answers_each_step_is_a_problem() {
        let board = Board {
            builds: vec!["a".to_owned()],
            shows: vec!["carry".to_owned(), "juggling".to_owned()],
            ..Board::default()
        };
        let wrong = judge(&Board { name: "one".to_owned(), ..board }, &Answers::default()).wrong;
        let unfinished = ["clock_source", "kernel", "a.carry"].map(|step| format!("{step}: the step did not complete"));
        assert_eq!(wrong[..3], unfinished);
        assert_eq!(wrong[3..], ["boards/one.board: unknown subject: juggling"]);
    }
}
