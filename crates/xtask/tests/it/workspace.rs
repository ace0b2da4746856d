//! Checks this workspace.

use xtask::{
    cycles::{self, Graph},
    layers,
    program::Program,
    rules::{RULES, UNSAFE_FORBIDDEN, UNSAFE_PLACES},
    unsafe_code::{self, Places},
};

use crate::support::workspace;

#[test]
fn this_workspace_has_no_violations() {
    let tree = workspace();
    let (program, mut violations) = Program::link(&tree);
    violations.extend(cycles::check(&program, RULES));
    violations.extend(layers::check(&program, RULES));
    violations.extend(unsafe_code::check(&tree, Places { allowed: UNSAFE_PLACES, forbidden: UNSAFE_FORBIDDEN }));
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn the_layers_of_every_library_are_printed() {
    let (program, _) = Program::link(&workspace());
    let text = Graph::of(&program, RULES).layers();
    for package in ["hpt-core (crates/hpt-core/src/lib.rs)", "hpt-cli (crates/hpt-cli/src/main.rs)", "hpt-benches ("] {
        assert!(text.contains(package), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}
