//! Published measurements, and the code that repeats them. Each measurement has its own module and an entry in
//! [`EXPERIMENTS`].
//! These modules print nothing. hpt-core takes the measurements, as it does for the other subcommands.

mod calls;
#[cfg(test)]
mod claims;
mod clock_sources;
mod cost;
mod definition;
mod figure;
mod frames;
mod instruments;
mod isolated_core;
mod late_loop;
mod one_loop;
mod pairs;
mod period;
mod sleeps;
mod steps;

pub(crate) use self::{
    definition::{Experiment, ExperimentRun, Part, Preflight, RunOptions},
    figure::{Measured, decimals},
    frames::Frames,
    instruments::in_one_line,
};

/// All experiments, in the order in which hpt lists them. A new experiment needs an entry here and a module above.
pub(crate) const EXPERIMENTS: &[&Experiment] = &[
    &calls::EXPERIMENT,
    &steps::EXPERIMENT,
    &late_loop::EXPERIMENT,
    &pairs::EXPERIMENT,
    &period::EXPERIMENT,
    &isolated_core::EXPERIMENT,
    &one_loop::EXPERIMENT,
    &cost::EXPERIMENT,
    &sleeps::EXPERIMENT,
    &clock_sources::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use super::EXPERIMENTS;

    #[test]
    fn experiments_have_unique_names_parts_and_figures() {
        for (number, experiment) in EXPERIMENTS.iter().enumerate() {
            assert!(EXPERIMENTS[..number].iter().all(|other| other.name != experiment.name), "{}", experiment.name);
            assert!(
                !experiment.parts.is_empty()
                    && experiment.parts.iter().all(|part| part.short <= part.count && part.short > 0)
            );
            assert!(experiment.brief.chars().count() <= 46, "{}: the list does not fit", experiment.name);
            let main = experiment.published.iter().find(|figure| figure.what == experiment.main);
            assert!(main.is_some(), "{}: {} is not published", experiment.name, experiment.main);
            let mut figures: Vec<_> = experiment.published.iter().map(|figure| figure.what).collect();
            figures.dedup();
            assert_eq!(figures.len(), experiment.published.len(), "{}", experiment.name);
        }
    }
}
