//! Tests of the check for import cycles.

use xtask::{
    Violation,
    cycles::{self, Graph},
    program::Program,
    rules::{NONE, RULES, Rules},
    tree::Tree,
};

use crate::support::{append, part_of_workspace, tree};

/// The library of this workspace.
fn library() -> Tree {
    part_of_workspace("crates/hpt-core/src/")
}

/// Returns the violations of the library, under its rules.
fn check(tree: &Tree) -> Vec<Violation> {
    let rules: Vec<Rules> = RULES.iter().filter(|rules| rules.package == "hpt-core").cloned().collect();
    cycles::check(&Program::link(tree).0, &rules)
}

/// Returns the violations of a small library, under the general rules only.
#[track_caller]
fn check_small(files: &[(&str, &str)]) -> Vec<String> {
    let (program, problems) = Program::link(&tree(files));
    assert_eq!(problems, []);
    cycles::check(&program, &[]).iter().map(ToString::to_string).collect()
}

#[test]
fn a_cycle_is_found_in_every_notation() {
    let clean = library();
    assert_eq!(check(&clean), []);
    let file = "crates/hpt-core/src/source/time_source.rs";
    for text in [
        "use super::tsc::Tsc;",
        "use super::Tsc;",
        "use super::Tsc as Harmless;",
        "use super::tsc::*;",
        "use super::*;\nfn f() -> Option<Tsc> { None }",
        "use crate::source::{info::{Scope}, self as sources}; fn f() { sources::tsc::permit_counter(); }",
        "fn f() -> Option<crate::source::Tsc> { None }",
        "impl From<super::Tsc> for u8 {}",
        "macro_rules! m { () => { $crate::source::Tsc } }",
        "macro_rules! m { () => {{ use $crate::source::{Pair, Tsc as Harmless}; Harmless }} }",
        "fn f() { assert!(super::tsc::TOKEN, \"{}\", 1); }",
        "mod inner { fn f() { super::super::tsc::permit_counter(); } }",
        "fn f() { use super::tsc; tsc::permit_counter(); }",
        "#[serde(with = \"crate::source::tsc::as_text\")] struct S;",
    ] {
        let mut planted = clean.clone();
        append(&mut planted, file, text);
        let violations = check(&planted);
        let is_right = matches!(violations.as_slice(), [one] if one.message.contains(&format!("{file}:")));
        assert!(is_right, "{text}\n{violations:#?}");
    }
}

#[test]
fn code_that_imports_nothing_makes_no_cycle() {
    let clean = library();
    for text in [
        "pub use super::tsc::Tsc;",
        "use super::tsc as unused;",
        "#[cfg(test)] use super::tsc::Tsc;",
        "#[cfg(test)] mod tests { use super::super::*; fn f() -> Option<Tsc> { None } }",
        "/// [`Tsc`](super::tsc::Tsc)\nfn f() {} // super::tsc::Tsc",
        "const S: &str = \"super::tsc::Tsc\";",
        "fn f(tsc: u8) { g(tsc); struct A { tsc: u8 } let a = A { tsc }; assert!(a.tsc == tsc); }",
        "pub(in crate::source) fn f() {}",
    ] {
        let mut planted = clean.clone();
        append(&mut planted, "crates/hpt-core/src/source/time_source.rs", text);
        assert_eq!(check(&planted), [], "{text}");
    }
}

#[test]
fn the_shortest_cycle_is_printed_with_the_line_of_each_import() {
    let said = check_small(&[
        ("crates/a/src/lib.rs", "mod one; mod two; mod three;"),
        ("crates/a/src/one.rs", "\nuse crate::two::Two;"),
        ("crates/a/src/two.rs", "\n\nuse crate::three::Three; pub struct Two;"),
        (
            "crates/a/src/three.rs",
            "use crate::one; fn f() {}\n\n\nfn g() { one::f() } fn h() -> super::two::Two {} pub struct Three;",
        ),
    ]);
    let cycle = "crates/a/src/two.rs:3: an import cycle (3 files import each other):\n    \
                 crates/a/src/two.rs:3 names crate::three::Three of crates/a/src/three.rs\n    \
                 crates/a/src/three.rs:4 names super::two::Two of crates/a/src/two.rs";
    assert_eq!(said, [cycle]);
}

#[test]
fn a_parent_and_its_child_must_not_use_each_other() {
    let parent = |text: &str| {
        check_small(&[("crates/a/src/lib.rs", text), ("crates/a/src/child.rs", "use super::Shared; pub fn f() {}")])
    };
    assert_eq!(parent("mod child; pub struct Shared; pub use child::f;"), [""; 0]);
    assert_eq!(parent("mod child; pub struct Shared; fn g() { child::f() }").len(), 1);
    assert_eq!(parent("mod child; pub struct Shared; pub use child::f; fn g() { f() }").len(), 1);
    assert_eq!(parent("mod child; pub struct Shared; mod inner { fn g() { super::child::f() } }").len(), 1);
    assert_eq!(parent("mod child; pub struct Shared; #[cfg(test)] fn g() { child::f() }"), [""; 0]);
}

#[test]
fn a_test_method_makes_no_cycle() {
    let said = check_small(&[
        ("crates/a/src/lib.rs", "mod child; pub struct Shared; impl Shared { #[cfg(test)] fn g() { child::f() } }"),
        ("crates/a/src/child.rs", "use super::Shared; pub fn f() {}"),
    ]);
    assert_eq!(said, [""; 0]);
}

#[test]
fn a_cycle_of_a_program_is_found() {
    let said = check_small(&[
        ("crates/a/src/main.rs", "mod one; mod two; fn main() { one::f() }"),
        ("crates/a/src/one.rs", "pub fn f() { crate::two::f() }"),
        ("crates/a/src/two.rs", "pub fn f() { println!(\"{}\", super::one::f()) }"),
    ]);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_program_may_use_the_library_of_its_package() {
    let said = check_small(&[
        ("crates/a-b/src/lib.rs", "pub mod one;"),
        ("crates/a-b/src/one.rs", "pub fn f() {}"),
        ("crates/a-b/src/main.rs", "mod one; fn main() { a_b::one::f(); one::g() }"),
        ("crates/a-b/src/one.rs", "pub fn g() { a_b::one::f() }"),
    ]);
    assert_eq!(said, [""; 0]);
}

#[test]
fn files_for_every_target_count() {
    let said = check_small(&[
        (
            "crates/a/src/lib.rs",
            "#[cfg_attr(unix, path = \"x/y.rs\")] #[cfg_attr(not(unix), path = \"z.rs\")] mod machine; mod user;",
        ),
        ("crates/a/src/x/y.rs", "pub struct Here;"),
        ("crates/a/src/z.rs", "use crate::user::User;"),
        ("crates/a/src/user.rs", "use crate::machine::Here; pub struct User;"),
    ]);
    assert!(
        matches!(said.as_slice(), [one] if one.contains("crates/a/src/z.rs:1 names crate::user::User")),
        "{said:?}"
    );
}

/// Checks a parent and a child that import each other, with these parents exempt.
fn check_excepting(parents: &'static [&'static str]) -> Vec<String> {
    let (program, _) = Program::link(&tree(&[
        ("crates/a/src/lib.rs", "mod parent;"),
        ("crates/a/src/parent/mod.rs", "mod child; mod other; pub struct Shared; fn g() { child::f() }"),
        ("crates/a/src/parent/child.rs", "use super::Shared; pub fn f() {}"),
        ("crates/a/src/parent/other.rs", ""),
    ]));
    let rules = Rules { package: "a", circular_parents: parents, ..NONE };
    cycles::check(&program, &[rules]).iter().map(ToString::to_string).collect()
}

#[test]
fn an_exempt_parent_may_use_its_users() {
    assert_eq!(check_excepting(&[]).len(), 1);
    assert_eq!(check_excepting(&["parent"]), [""; 0]);
}

#[test]
fn an_unnecessary_exception_is_found() {
    let said = check_excepting(&["parent", "parent::other"]);
    assert!(
        matches!(said.as_slice(), [one] if one.contains("parent::other is listed as circular but is not")),
        "{said:?}"
    );
}

#[test]
fn a_package_is_exempt_while_it_has_a_cycle() {
    let said = |root: &str| -> Vec<String> {
        let (program, _) =
            Program::link(&tree(&[("crates/a/src/lib.rs", root), ("crates/a/src/child.rs", "use super::Shared;")]));
        let rules = Rules { package: "a", cycles_are_allowed: true, ..NONE };
        cycles::check(&program, &[rules]).iter().map(ToString::to_string).collect()
    };
    assert_eq!(said("mod child; pub struct Shared; fn f() { child::f() }"), [""; 0]);
    let needless = said("mod child; pub struct Shared;");
    assert!(
        matches!(needless.as_slice(), [one] if one.contains("a has no import cycles, but the rules allow them")),
        "{needless:?}"
    );
}

#[test]
fn a_file_is_one_layer_above_its_imports() {
    let (program, _) = Program::link(&tree(&[
        ("crates/a/src/lib.rs", "mod high; mod low; mod parts; mod unused;"),
        ("crates/a/src/high.rs", "use crate::{low::f, parts::g};"),
        ("crates/a/src/low.rs", "pub fn f() {}"),
        ("crates/a/src/parts/mod.rs", "mod one; mod two; pub use self::{one::g, two::h};"),
        ("crates/a/src/parts/one.rs", "use super::h; pub fn g() {}"),
        ("crates/a/src/parts/two.rs", "pub fn h() {}"),
        ("crates/a/src/unused.rs", ""),
    ]));
    let text = Graph::of(&program, &[]).layers();
    let layers = "a (crates/a/src/lib.rs): 7 files, 3 layers\n   3  high\n   2  parts/one\n   1  low, parts/two\n   -  lib, unused, parts/mod\n";
    assert_eq!(text, layers);
}
