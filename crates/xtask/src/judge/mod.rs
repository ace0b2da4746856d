//! Judges the answers of an emulated board. `scripts/test-boards` boots the board and saves its
//! answers in a directory.
//! Does not boot boards or define the guest's script: `scripts/lib/shows.bash` does.
//!
//! `subjects` has a file for each subject that a board can show. It contains the judgments of that
//! subject, and plants: changes of the answers or expectations that a judgment must notice.
//! docs/contributing/board.md describes how to add a subject.

mod answers;
mod board;
mod case;
mod counter;
mod doubt;
mod guides;
mod plant;
mod subjects;
mod text;
mod verdict;

pub use answers::Answers;
pub use board::{Board, BoardError};
pub use doubt::{Doubt, doubt};
pub use guides::steps as guide_steps;
pub use verdict::{Verdict, judge};
