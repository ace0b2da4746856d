//! Judges what an emulated board answered: `scripts/test-boards` boots it, and keeps its answers in
//! a folder.
//! Boots nothing, and says nothing of what the guest does: `scripts/lib/shows.bash` does.
//!
//! There is a file for each subject that a board can be asked to show, in `subjects`. It has the
//! judgments of that subject, and plants: changes of the answers, or of what is expected, that a
//! judgment must notice. CONTRIBUTING.md says how one is added.

mod answers;
mod board;
mod case;
mod counter;
mod doubt;
mod plant;
mod subjects;
mod text;
mod verdict;

pub use answers::Answers;
pub use board::{Board, BoardError};
pub use doubt::{Doubt, doubt};
pub use verdict::{Verdict, judge};
