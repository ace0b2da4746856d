//! The sides of a comparison: their names, their runs, and the order in which these were taken.

use std::path::PathBuf;

use hpt_document::compare::ComparedSide;

use super::super::data_file::Report;

/// One side: the documents of one file.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) name: String,
    pub(super) file: String,
    /// At least one run.
    pub(super) runs: Vec<Report>,
}

impl Side {
    pub(super) fn all(paths: &[PathBuf], runs: Vec<Vec<Report>>) -> Vec<Self> {
        let names = names(&runs);
        let sides = paths.iter().zip(runs).zip(names);
        sides.map(|((path, runs), name)| Self { name, file: path.display().to_string(), runs }).collect()
    }

    pub(super) fn first(&self) -> &Report {
        &self.runs[0]
    }

    pub(super) fn described(&self) -> ComparedSide {
        let first = self.first();
        let title = match first.0.parts.as_slice() {
            [part] if first.0.name.is_none() => format!("{}: {}", part.command, first.machine_name()),
            _ => first.title(),
        };
        ComparedSide {
            name: self.name.clone(),
            file: self.file.clone(),
            runs: self.runs.len(),
            title,
            started_at: Some(first.0.started_at.clone()).filter(|text| !text.is_empty()),
            hpt: first.0.hpt.clone(),
            interrupted: self.runs.iter().any(|run| run.0.interrupted),
            emulated_by: first.0.emulated_by.clone(),
            conditions: first.0.conditions.clone(),
            machine: first.0.machine.clone(),
        }
    }
}

/// Returns the names of the sides: those that the user gave to reports, or letters if one has no name or two have the
/// same.
fn names(sides: &[Vec<Report>]) -> Vec<String> {
    let given: Option<Vec<String>> = sides.iter().map(|runs| runs[0].0.name.clone()).collect();
    let letter = |at: usize| {
        let letter = u8::try_from(at).ok().filter(|at| *at < 26).map(|at| char::from(b'A' + at));
        letter.map_or_else(|| format!("R{}", at + 1), String::from)
    };
    let distinct = |names: &Vec<String>| {
        let mut sorted = names.clone();
        sorted.sort();
        sorted.windows(2).all(|two| two[0] != two[1])
    };
    given.filter(distinct).unwrap_or_else(|| (0..sides.len()).map(letter).collect())
}

/// Returns whether the runs were taken in turns: in their order in time, the side changes at least once for every two
/// runs. Returns `None` if a run does not state its start.
pub(super) fn in_turns(sides: &[Side]) -> Option<bool> {
    let mut order = Vec::new();
    for (at, side) in sides.iter().enumerate() {
        for (place, run) in side.runs.iter().enumerate() {
            // The start is stated in whole seconds. Runs of the same second are in the order of their files.
            order.push((run.0.started_at.parse::<jiff::Timestamp>().ok()?, place, at));
        }
    }
    order.sort_unstable();
    let changes = order.windows(2).filter(|two| two[0].2 != two[1].2).count();
    Some(2 * changes >= order.len())
}

/// Explains which parts were measured with different command lines.
pub(super) fn differing_commands(sides: &[Side]) -> Vec<String> {
    let (first, others) = (sides[0].first(), &sides[1..]);
    let mut notes = Vec::new();
    for part in &first.0.parts {
        // A snapshot is examined with another command line, but in the same way.
        let is_other = |command: &str| !command.is_empty() && command != part.command && !command.contains(" --host ");
        let differing: Vec<String> = others
            .iter()
            .filter_map(|side| {
                let command = side.first().command(&part.name);
                is_other(&command).then(|| format!("`{command}` in {}", side.name))
            })
            .collect();
        if !differing.is_empty() && !part.command.contains(" --host ") {
            notes.push(format!(
                "the commands differ: `{}` in {}, {}",
                part.command,
                sides[0].name,
                differing.join(", ")
            ));
        }
    }
    notes
}
