//! Checks unsafe code: it may occur in the listed places only, no other file may permit it, and
//! each unsafe function documents what its callers must ensure.
//! Does not check unsafe blocks: Clippy requires a `// SAFETY:` comment above each.
//!
//! Checks all code, for every target.

use crate::{tree::Tree, violation::Violation};

/// The places where unsafe code is allowed, and where it must be forbidden. A directory ends in a
/// slash.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The files and directories that may contain unsafe code.
    pub allowed: &'a [&'a str],
    /// The files and directories in which each file must contain `#![forbid(unsafe_code)]`.
    pub forbidden: &'a [&'a str],
}

/// Finds unsafe code, or a permission for it, outside the allowed places, and unsafe functions
/// without a `# Safety` section.
#[must_use]
pub fn check(tree: &Tree, places: Places<'_>) -> Vec<Violation> {
    let mut violations = manifests(tree);
    for (path, source) in tree.sources() {
        let words = match source.facts(path) {
            Ok(facts) => &facts.unsafe_words,
            Err(violation) => {
                violations.push(violation);
                continue;
            }
        };
        let mut report = |line, message| violations.push(Violation::new(path, line, message));
        if is_in(path, places.allowed) {
            // Clippy checks public functions only.
            for (line, name) in &words.undocumented {
                report(*line, format!("{name} is unsafe and has no # Safety section"));
            }
        } else {
            for line in &words.uses {
                report(*line, "unsafe code outside the allowed places".to_owned());
            }
            for (line, word) in &words.permissions {
                report(*line, format!("{word}(unsafe_code) outside the allowed places"));
            }
        }
        if is_in(path, places.forbidden) && !words.is_forbidden {
            report(1, "#![forbid(unsafe_code)] is missing".to_owned());
        }
    }
    violations.sort();
    violations.dedup();
    violations
}

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| if place.ends_with('/') { path.starts_with(place) } else { path == *place })
}

/// Checks that the workspace denies unsafe code, and that every package inherits its lints.
fn manifests(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut expect = |manifest: &str, section: &str, entries: &[&str], message: &str| {
        let text = tree.files.get(manifest).map_or("", |manifest| manifest.text.as_str());
        let mut lines = section_of(text, section);
        if !lines.any(|line| entries.contains(&line.as_str())) {
            violations.push(Violation::new(manifest, 1, message.to_owned()));
        }
    };
    let denied = ["unsafe_code=\"deny\"", "unsafe_code=\"forbid\""];
    expect("Cargo.toml", "[workspace.lints.rust]", &denied, "[workspace.lints.rust] does not deny unsafe_code");
    for package in &tree.packages {
        let manifest = format!("{package}/Cargo.toml");
        expect(&manifest, "[lints]", &["workspace=true"], "[lints] workspace = true is missing");
    }
    violations
}

/// Returns the lines of a section of a manifest, without spaces and comments.
fn section_of<'a>(manifest: &'a str, section: &'a str) -> impl Iterator<Item = String> + 'a {
    let lines = manifest.lines().map(|line| line.split('#').next().unwrap_or(line).replace(' ', ""));
    let from = lines.skip_while(move |line| line != section).skip(1);
    from.take_while(|line| !line.starts_with('['))
}
