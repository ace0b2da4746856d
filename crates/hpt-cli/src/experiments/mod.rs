//! Published measurements, and the code that repeats them. Each measurement has its own module and an entry in
//! [`EXPERIMENTS`].
//! These modules print nothing. hpt-core takes the measurements, as it does for the other subcommands.

mod calls;
mod clock_sources;
mod cost;
mod definition;
mod figure;
mod instruments;
mod isolated_core;
mod late_loop;
mod pairs;
mod period;
mod sleeps;
mod steps;

pub(crate) use self::{
    definition::{Experiment, Part, Preflight, Run, Ways},
    figure::{Measured, decimals},
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
    &cost::EXPERIMENT,
    &sleeps::EXPERIMENT,
    &clock_sources::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::EXPERIMENTS;

    #[test]
    fn published_figures_match_the_page() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/published.md");
        let page = std::fs::read_to_string(page).expect("the page is in the repository");
        for experiment in EXPERIMENTS {
            let section =
                page.split("\n### ").find(|section| section.lines().next() == Some(&format!("`{}`", experiment.name)));
            let section = section.unwrap_or_else(|| panic!("docs/published.md has no section on {}", experiment.name));
            let section = section.split("\n## ").next().unwrap_or(section);
            let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
            let on_the_page: Vec<Vec<&str>> =
                rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
            let here: Vec<Vec<String>> = experiment
                .published
                .iter()
                .map(|figure| vec![figure.what.to_owned(), figure.value.to_string(), figure.unit.to_owned()])
                .collect();
            assert_eq!(on_the_page, here, "{}", experiment.name);
            let (first, rest) = experiment.published_in.split_at(1);
            let source = format!("{}{rest}: {}.", first.to_uppercase(), experiment.hardware);
            // The page wraps its lines.
            let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(in_one_line(section).contains(&in_one_line(&source)), "{}: {source}", experiment.name);
        }
    }

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
