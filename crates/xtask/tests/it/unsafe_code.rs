//! Tests of the check for unsafe code and permissions for it.

use xtask::{
    Violation,
    rules::{UNSAFE_FORBIDDEN, UNSAFE_PLACES},
    tree::Tree,
    unsafe_code::{self, Places},
};

use crate::support::{append, judge, plant, workspace};

fn check(tree: &Tree) -> Vec<Violation> {
    unsafe_code::check(tree, Places { allowed: UNSAFE_PLACES, forbidden: UNSAFE_FORBIDDEN })
}

/// This workspace, with an additional example.
fn clean() -> Tree {
    let mut tree = workspace();
    append(&mut tree, "examples/planted.rs", "#![forbid(unsafe_code)]\nfn main() {}");
    assert_eq!(check(&tree), []);
    tree
}

#[track_caller]
fn plant_all(plants: &[(&str, &str, &str)]) {
    let clean = clean();
    for (want, file, text) in plants {
        plant(&clean, check, want, file, text);
    }
}

const UNITS: &str = "crates/hpt-core/src/units.rs";

#[test]
fn unsafe_code_outside_the_allowed_places_is_found() {
    let outside = "unsafe code outside the allowed places";
    plant_all(&[
        (outside, UNITS, "fn f(p: *const u8) -> u8 { unsafe { *p } }"),
        (outside, UNITS, "fn f(p: *const u8) -> u8 {\n    unsafe\n    {\n        *p\n    }\n}"),
        (outside, UNITS, "unsafe fn f() {}"),
        (outside, UNITS, "unsafe impl Send for Width {}"),
        (outside, UNITS, "unsafe trait T {}"),
        (outside, UNITS, "unsafe extern \"C\" { fn f(); }"),
        (outside, UNITS, "type F = unsafe extern \"C\" fn();"),
        (outside, UNITS, "#[unsafe(no_mangle)] fn f() {}"),
        (outside, UNITS, "#[cfg_attr(unix, unsafe(no_mangle))] fn f() {}"),
        (outside, UNITS, "#[cfg(target_arch = \"arm\")] macro_rules! m { () => { unsafe { f() } } }"),
        (outside, UNITS, "fn f() { println!(\"{}\", unsafe { g() }); }"),
        (outside, "crates/hpt-core/src/sys.rs", "unsafe fn f() {}"),
        (outside, "crates/hpt-core/tests/it/planted.rs", "unsafe fn f() {}"),
        (outside, "crates/hpt-core/build.rs", "unsafe fn f() {}"),
        (outside, "benches/src/barest.rs", "unsafe fn f() {}"),
        (outside, "benches/benches/planted.rs", "unsafe fn f() {}"),
        (outside, "examples/planted.rs", "unsafe fn f() {}"),
        (outside, "crates/xtask/src/lib.rs", "unsafe fn f() {}"),
    ]);
}

#[test]
fn a_permission_outside_the_allowed_places_is_found() {
    plant_all(&[
        ("allow(unsafe_code) outside", UNITS, "#[allow(unsafe_code)] fn f() {}"),
        (
            "expect(unsafe_code) outside",
            "crates/hpt-core/src/source/tsc.rs",
            "#[cfg_attr(\n    target_arch = \"arm\",\n    expect(dead_code, unsafe_code, reason = \"(none)\")\n)] fn f() {}",
        ),
        ("warn(unsafe_code) outside", "crates/hpt-core/tests/it/planted.rs", "#![warn(unsafe_code)]"),
    ]);
}

#[test]
fn unsafe_code_in_the_allowed_places_is_accepted() {
    plant_all(&[
        (
            "",
            "crates/hpt-core/src/sys/planted.rs",
            "#![expect(unsafe_code, reason = \"a place for it\")] fn f(p: *const u8) -> u8 { unsafe { *p } }",
        ),
        ("", "benches/src/bare.rs", "#[allow(unsafe_code)] unsafe extern \"C\" {}"),
        (
            "",
            "benches/src/bare/planted.rs",
            "#![expect(unsafe_code, reason = \"a place for it\")] unsafe impl Send for S {}",
        ),
        ("", "crates/hpt-core/tests/it/support/unsafe_calls.rs", "#[allow(unsafe_code)] fn g() { unsafe { f() } }"),
        ("", "crates/hpt-cli/tests/it/support/unsafe_calls.rs", "#[allow(unsafe_code)] fn g() { unsafe { f() } }"),
        ("", "crates/hpt-preload/src/planted.rs", "#![allow(unsafe_code)] #[unsafe(no_mangle)] extern \"C\" fn f() {}"),
    ]);
}

#[test]
fn text_that_only_resembles_unsafe_code_is_accepted() {
    plant_all(&[
        (
            "",
            UNITS,
            "/// unsafe { }\n// unsafe { }\n/* unsafe { } */ const S: &str = \"unsafe { }\"; const R: &str = r\"\\\"; // \"",
        ),
        ("", UNITS, "#[deny(unsafe_code)] #[allow(unused_unsafe)] fn f() { let unsafe_code = allow(1); unsafe_code; }"),
        ("", "examples/more.rs", "//! An example.\n#![forbid(unsafe_code)]"),
        ("", "examples/more.rs", "#![forbid(unused, unsafe_code, reason = \"not needed\")]"),
    ]);
}

#[test]
fn an_unsafe_function_without_a_safety_section_is_found() {
    let place = "crates/hpt-core/src/sys/planted.rs";
    let want = "f is unsafe and has no # Safety section";
    plant_all(&[
        (want, place, "unsafe fn f() {}"),
        (want, place, "/// Does something. Safety matters.\nunsafe extern \"C\" fn f() {}"),
        (want, place, "impl S {\n    /// Does something.\n    unsafe fn f() {}\n}"),
        (want, place, "trait T {\n    unsafe fn f();\n}"),
        ("T is unsafe and has no # Safety section", place, "unsafe trait T {}"),
        ("", place, "/// Does something.\n///\n/// # Safety\n///\n/// Never call it.\nunsafe fn f() {}"),
    ]);
}

#[test]
fn invalid_rust_is_found() {
    let mut tree = clean();
    append(&mut tree, UNITS, "fn f( {}");
    let said = check(&tree);
    assert!(
        matches!(said.as_slice(), [one] if one.file == UNITS && one.message.contains("not valid Rust")),
        "{said:?}"
    );
}

/// Replaces `from` with `to` in a file, and asserts that the check finds it.
#[track_caller]
fn replace(want: &str, file: &str, from: &str, to: &str) {
    let mut tree = clean();
    let text = tree.files[file].text.replace(from, to);
    assert_ne!(text, tree.files[file].text);
    tree.put(file, text);
    judge(&check(&tree), want, file, to);
}

#[test]
fn a_lint_that_is_not_forbidden_is_found() {
    let forbid = "#![forbid(unsafe_code)]";
    replace("is missing", "crates/hpt-cli/src/main.rs", forbid, "#![deny(unsafe_code)]");
    replace("is missing", "examples/planted.rs", forbid, "// #![forbid(unsafe_code)]");
    replace("is missing", "crates/xtask/src/main.rs", forbid, "#![forbid(unused)]");
    replace("is missing", "crates/hpt-core/Cargo.toml", "[lints]", "[lints.rust]");
    replace("is missing", "crates/hpt-preload/Cargo.toml", "[lints]", "[lints.rust]");
    replace("is missing", "benches/Cargo.toml", "[lints]\nworkspace = true", "[lints]\nworkspace = false");
    replace("does not deny", "Cargo.toml", "unsafe_code = \"deny\"", "unsafe_code = \"allow\"");
}
