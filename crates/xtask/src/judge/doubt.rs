//! Tests the judges: plants faults in the answers of boards that passed, and checks that a judge
//! notices each.

use std::fmt;

use super::{
    answers::Answers,
    board::Board,
    plant::{Planted, Plants},
    subjects::SUBJECTS,
    verdict::judge,
};

/// The result of the plants of one subject in the answers of one board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The board.
    pub board: String,
    /// The topic of the plants.
    pub about: &'static str,
    /// Number of plants.
    pub planted: usize,
    /// The plants that no judge noticed.
    pub missed: Vec<&'static str>,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for plant in &self.missed {
            writeln!(f, "the judges did not notice: {plant}")?;
        }
        let Self { board, about, planted, missed } = self;
        let noticed = planted - missed.len();
        write!(f, "the judges noticed {noticed} of {planted} faults planted in the answers of {board} ({about})")
    }
}

/// Plants faults in the answers of boards that passed: the plants of each subject in the answers of
/// the last board that they apply to.
#[must_use]
pub fn doubt(boards: &[(Board, Answers)]) -> Vec<Doubt> {
    let all = SUBJECTS.iter().flat_map(|subject| subject.plants);
    all.filter_map(|plants| {
        let (board, answers) = boards.iter().rev().find(|(board, _)| (plants.fit)(board))?;
        Some(doubt_one(plants, board, answers))
    })
    .collect()
}

fn doubt_one(plants: &Plants, board: &Board, answers: &Answers) -> Doubt {
    let goes_unnoticed = |change: fn(&mut Planted)| {
        let mut planted = Planted { board: board.clone(), answers: answers.clone() };
        change(&mut planted);
        judge(&planted.board, &planted.answers).wrong.is_empty()
    };
    let missed = plants.plants.iter().filter(|plant| goes_unnoticed(plant.change)).map(|plant| plant.what).collect();
    Doubt { board: board.name.clone(), about: plants.about, planted: plants.plants.len(), missed }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Answers, Board, Plants, SUBJECTS, doubt, doubt_one, judge};
    use crate::judge::plant::Plant;

    /// Returns a board with one subject, and its answers.
    fn board_that_carries() -> (Board, Answers) {
        let text = "kernel=linux-image-arm64:arm64\nbuilds=(aarch64)\nshows=(carry)\ncompatible=linux,dummy-virt\n\
                    clock_source=arch_sys_counter\n";
        let board = Board::parse("one", text).expect("it is a board");
        let mut answers = Answers::default();
        for (step, out) in [
            ("compatible", "linux,dummy-virt\n"),
            ("clock_source", "arch_sys_counter\n"),
            ("aarch64.carry", "running 1 test\ncarried: 32638 readings, 0 late\ntest result: ok. 1 passed\n"),
            ("kernel", "[    0.000000] Booting Linux\n"),
        ] {
            answers.put(&format!("{step}.out"), out);
            answers.put(&format!("{step}.err"), "");
            answers.put(&format!("{step}.status"), "0\n");
        }
        (board, answers)
    }

    #[test]
    fn a_board_with_the_expected_answers_passes() {
        let (board, answers) = board_that_carries();
        let verdict = judge(&board, &answers);
        assert_eq!((verdict.wrong, verdict.shown), (vec![], vec!["carried: 32638 readings across a wrap".to_owned()]));
    }

    #[test]
    fn every_applicable_plant_is_noticed() {
        let doubts = doubt(&[board_that_carries()]);
        let about: Vec<_> = doubts.iter().map(|doubt| (doubt.about, doubt.missed.len())).collect();
        assert_eq!(about, [("machine", 0), ("carry", 0)]);
        let said = "the judges noticed 3 of 3 faults planted in the answers of one (machine)";
        assert_eq!(doubts[0].to_string(), said);
    }

    #[test]
    fn an_unnoticed_plant_is_reported() {
        let (board, answers) = board_that_carries();
        let plants = &[Plant { what: "nothing is changed", change: |_| {} }];
        let doubted = doubt_one(&Plants { about: "nothing", fit: |_| true, plants }, &board, &answers);
        assert_eq!(
            doubted.to_string(),
            "the judges did not notice: nothing is changed\n\
             the judges noticed 0 of 1 faults planted in the answers of one (nothing)"
        );
    }

    #[test]
    fn plants_are_made_in_the_last_board_that_they_apply_to() {
        let (mut board, answers) = board_that_carries();
        board.name = "two".to_owned();
        let doubts = doubt(&[board_that_carries(), (board, answers)]);
        assert!(doubts.iter().all(|doubt| doubt.board == "two"), "{doubts:?}");
    }

    #[test]
    fn every_subject_has_plants_with_different_descriptions() {
        for subject in SUBJECTS {
            assert!(!subject.plants.is_empty(), "{}", subject.name);
            for plants in subject.plants {
                let words: BTreeSet<_> = plants.plants.iter().map(|plant| plant.what).collect();
                assert_eq!(words.len(), plants.plants.len(), "{}: {words:?}", plants.about);
            }
        }
    }
}
