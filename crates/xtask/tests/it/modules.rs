//! Tests how files, modules and names are resolved, and which problems are reported.

use xtask::{cycles, program::Program, tree::Tree};

use crate::support::tree;

/// Returns the problems when linking these files.
fn problems(files: &[(&str, &str)]) -> Vec<String> {
    Program::link(&tree(files)).1.iter().map(ToString::to_string).collect()
}

/// Returns whether `one.rs` imports `two.rs`. If it does, this program has a cycle, because
/// `two.rs` imports `one.rs`.
#[track_caller]
fn imports(root: &str, one: &str, two: &str) -> bool {
    let tree: Tree = tree(&[
        ("crates/a/src/lib.rs", &format!("mod one; mod two; {root}")),
        ("crates/a/src/one.rs", &format!("pub struct One; {one}")),
        ("crates/a/src/two.rs", &format!("use crate::one::One; {two}")),
    ]);
    let (program, violations) = Program::link(&tree);
    assert_eq!(violations, []);
    !cycles::check(&program, &[]).is_empty()
}

#[test]
fn invalid_rust_is_reported() {
    let said = problems(&[("crates/a/src/lib.rs", "mod one;"), ("crates/a/src/one.rs", "fn f() {}\nfn g( {}")]);
    assert!(
        matches!(said.as_slice(), [one] if one.starts_with("crates/a/src/one.rs:2: this is not valid Rust: ")),
        "{said:?}"
    );
}

#[test]
fn an_invalid_root_is_reported() {
    let said = problems(&[("crates/a/src/lib.rs", "mod"), ("crates/b/src/lib.rs", "use a::b;")]);
    assert!(
        matches!(said.as_slice(), [one] if one.starts_with("crates/a/src/lib.rs:1: this is not valid Rust: ")),
        "{said:?}"
    );
}

#[test]
fn a_module_without_a_file_is_reported() {
    let said = problems(&[("crates/a/src/lib.rs", "\nmod one;")]);
    assert_eq!(said, ["crates/a/src/lib.rs:2: the module one has no file"]);
    let said = problems(&[("crates/a/src/lib.rs", "#[path = \"elsewhere.rs\"] mod one;")]);
    assert_eq!(said, ["crates/a/src/elsewhere.rs:1: this file is missing"]);
}

#[test]
fn a_file_that_no_crate_includes_is_reported() {
    let said = problems(&[("crates/a/src/lib.rs", ""), ("crates/a/src/forgotten.rs", "")]);
    assert_eq!(said, ["crates/a/src/forgotten.rs:1: no crate includes this file"]);
}

#[test]
fn files_are_found_where_the_compiler_searches() {
    let said = problems(&[
        (
            "crates/a/src/lib.rs",
            "mod one; mod two; mod r#type; mod inline { mod below; #[path = \"other.rs\"] mod named; }",
        ),
        ("crates/a/src/one.rs", "mod child; mod inline { mod below; }"),
        ("crates/a/src/one/child.rs", ""),
        ("crates/a/src/one/inline/below.rs", ""),
        ("crates/a/src/two/mod.rs", "mod child; #[path = \"../../../b/shared.rs\"] mod shared;"),
        ("crates/a/src/two/child.rs", ""),
        ("crates/a/src/type.rs", ""),
        ("crates/a/src/inline/below.rs", ""),
        ("crates/a/src/inline/other.rs", ""),
        ("crates/b/shared.rs", "mod beside;"),
        ("crates/b/beside.rs", ""),
    ]);
    assert_eq!(said, [""; 0]);
}

#[test]
fn a_file_that_two_crates_include_is_part_of_both() {
    let tree = tree(&[
        ("crates/a/src/lib.rs", "#[path = \"../../b/src/shared.rs\"] mod shared; mod user;"),
        ("crates/a/src/user.rs", "use crate::shared::S; pub struct User;"),
        ("crates/b/src/lib.rs", "mod shared; mod user;"),
        ("crates/b/src/shared.rs", "use crate::user::User; pub struct S;"),
        ("crates/b/src/user.rs", "pub struct User;"),
    ]);
    let (program, violations) = Program::link(&tree);
    assert_eq!(violations, []);
    // It uses another file of its crate. In `a`, that file uses it, too.
    let said: Vec<String> = cycles::check(&program, &[]).iter().map(ToString::to_string).collect();
    assert!(matches!(said.as_slice(), [one] if one.contains("crates/a/src/user.rs")), "{said:?}");
}

#[test]
fn a_name_is_followed_to_its_definition() {
    assert!(imports("", "use crate::two::Two;", "pub struct Two;"));
    assert!(imports("pub use two::Two as Renamed;", "use crate::Renamed;", "pub struct Two;"));
    assert!(imports("pub use two::*;", "use crate::Two;", "pub struct Two;"));
    assert!(imports("pub use two::*;", "use crate::*; fn f() -> Two {}", "pub struct Two;"));
    assert!(imports("mod facade { pub use crate::two::Two; }", "use crate::facade::Two;", "pub struct Two;"));
    assert!(imports("use two as other; use other::Two;", "use super::Two;", "pub struct Two;"));
    assert!(imports(
        "pub use two::inner;",
        "use crate::inner::deep::Two;",
        "pub mod inner { pub mod deep { pub struct Two; } }"
    ));
    assert!(imports("", "fn f() { crate::two::Two::new(); }", "pub struct Two;"));
    assert!(imports("", "fn f() { m!(crate::two::made_by_a_macro); }", ""));
    // A name of the root itself, and names of other crates.
    assert!(!imports("pub struct Own;", "use crate::Own;", ""));
    assert!(!imports("pub use std::fmt;", "use crate::fmt::Debug; use serde::two;", ""));
}

#[test]
fn resolving_a_circular_name_terminates() {
    assert!(imports("pub use two::two;", "use crate::two;  fn f() { two() }", "pub fn two() {}"));
    assert!(!imports("pub use a::a; mod a { pub use super::a; }", "use crate::a;", ""));
    assert!(!imports("pub use b::*; mod b { pub use super::*; }", "use crate::nowhere::C;", ""));
}

#[test]
fn a_macro_is_visible_below_its_definition() {
    let root = "macro_rules! m { () => {} }";
    assert!(!imports(root, "fn f() { m!() }", ""));
    let tree = tree(&[
        ("crates/a/src/lib.rs", "macro_rules! m { () => {} } mod one; fn f() { one::f() }"),
        ("crates/a/src/one.rs", "pub fn f() { m!() }"),
    ]);
    assert_eq!(cycles::check(&Program::link(&tree).0, &[]).len(), 1);
}

#[test]
fn a_variable_shadows_a_name() {
    let root = "pub use two::two;";
    assert!(imports(root, "use super::*; fn f() { two() }", "pub fn two() {}"));
    let glob = "mod names { pub fn two() {} } ";
    assert!(!imports("", &format!("{glob} fn f(two: u8) {{ g(two); println!(\"\", two) }}"), "pub fn two() {}"));
}
