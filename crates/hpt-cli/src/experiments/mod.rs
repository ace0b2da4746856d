//! Published measurements and how each is made here: one file for each, and its line in [`RECIPES`].
//! Prints nothing. What measures is hpt-core's, the same that other subcommands use.

mod calls;
mod clock_sources;
mod cost;
mod figure;
mod instruments;
mod isolated_core;
mod late_loop;
mod pairs;
mod period;
mod recipe;
mod sleeps;
mod steps;

pub(crate) use self::{
    figure::{Measured, Standing, decimals},
    instruments::in_one_line,
    recipe::{Outlook, Part, Recipe, Run, Ways},
};

/// Every recipe, in the order in which they are listed. A new one stands here and in the modules above.
pub(crate) const RECIPES: &[&Recipe] = &[
    &calls::RECIPE,
    &steps::RECIPE,
    &late_loop::RECIPE,
    &pairs::RECIPE,
    &period::RECIPE,
    &isolated_core::RECIPE,
    &cost::RECIPE,
    &sleeps::RECIPE,
    &clock_sources::RECIPE,
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::RECIPES;

    #[test]
    fn published_figures_are_those_of_the_page() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/published.md");
        let page = std::fs::read_to_string(page).expect("the page is in the repository");
        for recipe in RECIPES {
            let section =
                page.split("\n### ").find(|section| section.lines().next() == Some(&format!("`{}`", recipe.name)));
            let section = section.unwrap_or_else(|| panic!("docs/published.md has no section on {}", recipe.name));
            let section = section.split("\n## ").next().unwrap_or(section);
            let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
            let on_the_page: Vec<Vec<&str>> =
                rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
            let here: Vec<Vec<String>> = recipe
                .published
                .iter()
                .map(|figure| vec![figure.what.to_owned(), figure.value.to_string(), figure.unit.to_owned()])
                .collect();
            assert_eq!(on_the_page, here, "{}", recipe.name);
            let (first, rest) = recipe.published_in.split_at(1);
            let source = format!("{}{rest}: {}.", first.to_uppercase(), recipe.hardware);
            assert!(section.lines().any(|line| line == source), "{}: {source}", recipe.name);
        }
    }

    #[test]
    fn recipes_have_names_of_their_own_and_say_what_they_are() {
        for (number, recipe) in RECIPES.iter().enumerate() {
            assert!(RECIPES[..number].iter().all(|other| other.name != recipe.name), "{}", recipe.name);
            assert!(
                !recipe.parts.is_empty() && recipe.parts.iter().all(|part| part.short <= part.count && part.short > 0)
            );
            let mut figures: Vec<_> = recipe.published.iter().map(|figure| figure.what).collect();
            figures.dedup();
            assert_eq!(figures.len(), recipe.published.len(), "{}", recipe.name);
        }
    }
}
