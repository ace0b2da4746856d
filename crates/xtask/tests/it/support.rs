//! Trees for planted violations: small ones, and copies of this workspace.

use std::{path::Path, sync::LazyLock};

use xtask::{
    Violation,
    tree::{Kind, Target, Tree},
};

/// This workspace. Copies share the unchanged files, which are parsed once.
static WORKSPACE: LazyLock<Tree> =
    LazyLock::new(|| Tree::read(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the workspace can be read"));

/// Returns a copy of this workspace.
pub(crate) fn workspace() -> Tree {
    WORKSPACE.clone()
}

/// Returns a copy of the files below a directory of this workspace, with its libraries and
/// programs.
pub(crate) fn part_of_workspace(directory: &str) -> Tree {
    let mut tree = workspace();
    tree.files.retain(|path, _| path.starts_with(directory));
    tree.targets
        .retain(|target| target.root.starts_with(directory) && matches!(target.kind, Kind::Library | Kind::Program));
    tree
}

/// Returns a tree of these files: `crates/NAME/src/lib.rs` is a library, `main.rs` a program,
/// `tests/it/main.rs` a test.
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.put(path, (*text).to_owned());
        let package = path.strip_prefix("crates/").and_then(|path| path.split('/').next());
        let kind = if path.ends_with("/src/lib.rs") {
            Kind::Library
        } else if path.ends_with("/src/main.rs") {
            Kind::Program
        } else if path.ends_with("/tests/it/main.rs") {
            Kind::Test
        } else {
            continue;
        };
        let package = package.expect("a crate is below crates/").to_owned();
        let name = package.replace('-', "_");
        tree.targets.push(Target { package, name, kind, root: (*path).to_owned() });
    }
    tree
}

/// Appends text to a file, which is created if it does not exist.
pub(crate) fn append(tree: &mut Tree, path: &str, text: &str) {
    let before = tree.files.get(path).map(|source| source.text.clone()).unwrap_or_default();
    tree.put(path, format!("{before}\n{text}\n"));
}

/// Appends text to a file in a copy of `clean`, and asserts that `check` reports `want` for that
/// file and nothing else. With an empty `want`, `check` must report nothing.
#[track_caller]
pub(crate) fn plant(clean: &Tree, check: impl Fn(&Tree) -> Vec<Violation>, want: &str, file: &str, text: &str) {
    let mut tree = clean.clone();
    append(&mut tree, file, text);
    judge(&check(&tree), want, file, text);
}

/// Asserts that these are the expected violations of a plant.
#[track_caller]
pub(crate) fn judge(violations: &[Violation], want: &str, file: &str, text: &str) {
    let is_right = match violations {
        [] => want.is_empty(),
        [violation] => !want.is_empty() && violation.file == file && violation.message.contains(want),
        [_, _, ..] => false,
    };
    assert!(is_right, "in {file}\n{text}\nexpected: {want:?}\nfound: {violations:#?}");
}
