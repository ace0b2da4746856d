//! Tests of the checks of declared layers and the other rules about modules.

use xtask::{
    Violation, layers,
    program::Program,
    rules::{NONE, Output, RULES, Rules},
    tree::Tree,
};

use crate::support::{append, part_of_workspace, plant, tree};

fn check(tree: &Tree) -> Vec<Violation> {
    layers::check(&Program::link(tree).0, RULES)
}

/// The library of this workspace, with two additional backends.
fn library() -> Tree {
    let mut tree = part_of_workspace("crates/hpt-core/src/");
    append(&mut tree, "crates/hpt-core/src/source/planted_one.rs", "pub struct One;\nimpl Backend for One {}");
    append(&mut tree, "crates/hpt-core/src/source/planted_two.rs", "pub struct Two;\nimpl Backend for Two {}");
    let declarations =
        "mod planted_one;\nmod planted_two;\npub use self::{planted_one::One, planted_two::Two as Second};";
    append(&mut tree, "crates/hpt-core/src/source/mod.rs", declarations);
    assert_eq!(check(&tree), []);
    tree
}

/// Plants each text in its file of the library.
#[track_caller]
fn plant_all(plants: &[(&str, &str, &str)]) {
    let clean = library();
    for (want, file, text) in plants {
        plant(&clean, check, want, &format!("crates/hpt-core/src/{file}"), text);
    }
}

#[test]
fn an_import_of_a_higher_layer_is_found_in_every_notation() {
    plant_all(&[
        ("source (layer 3) names calibrate (layer 4)", "source/info.rs", "use crate::calibrate::Calibration;"),
        ("units (layer 1) names host (layer 2)", "units.rs", "fn f() { crate::host::Host::live(); }"),
        (
            "scale (layer 2) names source (layer 3)",
            "scale.rs",
            "use crate::{\n    units::Frequency,\n    source::{info::{Scope}, Pair},\n};",
        ),
        ("(layer 3) names clock (layer 5)", "source/tsc.rs", "use super::super::clock::Clock;"),
        ("(layer 3) names clock (layer 5)", "source/tsc.rs", "use super::{super::{clock::Clock}, TimeSource};"),
        (
            "(layer 3) names sleep (layer 6)",
            "source/tsc.rs",
            "mod inner { fn f(x: super::super::super::sleep::Sleeper) {} }",
        ),
        ("(layer 2) names measure (layer 8)", "host/mod.rs", "fn f() -> self::super::measure::ReadCost { loop {} }"),
        (
            "(layer 5) names measure (layer 8)",
            "clock/mod.rs",
            "macro_rules! m { () => { $crate::measure::read_cost() } }",
        ),
        (
            "(layer 5) names measure (layer 8)",
            "clock/mod.rs",
            "macro_rules! m { () => {{ use $crate::{measure::{read_cost as harmless}, units::Width}; harmless() }} }",
        ),
        ("(layer 1) names pace (layer 7)", "stats.rs", "use crate::pace as harmless;"),
        ("(layer 1) names pace (layer 7)", "stats.rs", "pub(crate) use crate::pace::Pacer;"),
        ("(layer 1) names pace (layer 7)", "stats.rs", "use crate::pace::*;"),
        ("(layer 1) names pace (layer 7)", "stats.rs", "fn f() { assert!(crate::pace::Pacer::is_late(1), \"late\"); }"),
        ("(layer 1) names pace (layer 7)", "stats.rs", "#[derive(crate::pace::Derive)] struct S;"),
        ("(layer 1) names pace (layer 7)", "stats.rs", "#[serde(with = \"crate::pace::as_text\")] struct S;"),
        ("(layer 1) names pace (layer 7)", "stats.rs", "fn f(x: u8) { match x { crate::pace::MOST => {} _ => {} } }"),
        ("(layer 1) names pace (layer 7)", "stats.rs", "impl From<crate::pace::Pacer> for u8 {}"),
        ("(layer 1) names pace (layer 7)", "stats.rs", "fn f() { <u8 as crate::pace::Trait>::f(); }"),
        (
            "(layer 4) names diagnose (layer 9)",
            "calibrate/fit.rs",
            "#[cfg(test)] mod more { use crate::diagnose::Finding; }",
        ),
    ]);
}

#[test]
fn an_import_of_the_same_layer_is_found() {
    plant_all(&[
        ("stats names units: both are in layer 1", "stats.rs", "use crate::units::Frequency;"),
        ("stopwatch names clock: both are in layer 5", "stopwatch/mod.rs", "type T = crate::clock::Reading;"),
    ]);
}

#[test]
fn a_name_of_the_root_is_found() {
    let want = "names the crate's root";
    plant_all(&[
        (want, "source/info.rs", "use crate::Calibration;"),
        (want, "source/info.rs", "use crate::*;"),
        (want, "source/info.rs", "use crate::{self as root};"),
        (want, "source/info.rs", "use super::super as root;"),
        (want, "state.rs", "use super::*;"),
    ]);
}

#[test]
fn only_tests_may_name_the_test_support() {
    let want = "names testing, which is for tests only";
    plant_all(&[
        (want, "measure/mod.rs", "use crate::testing::ManualSource;"),
        (want, "measure/mod.rs", "#[cfg(test)]\nuse crate::testing::One;\nuse crate::testing::Two;"),
        (want, "measure/mod.rs", "#[cfg(test)]\nmod a { fn f() {} }\nmod b { use crate::testing::Two; }"),
        (want, "measure/mod.rs", "#[cfg(not(test))] use crate::testing::Two;"),
        (want, "measure/mod.rs", "#[cfg(any(test, unix))] use crate::testing::Two;"),
        (want, "measure/mod.rs", "use super::testing as harmless;"),
        ("", "stats.rs", "#[cfg(test)]\nmod more { use crate::testing::ManualSource; }"),
        ("", "stats.rs", "#[cfg(all(unix, test))]\nmod more { use crate::testing::ManualSource; }"),
        ("", "stats.rs", "#[cfg(test)] #[allow(dead_code)] fn f() { let x: [u8; 1] = [0]; crate::testing::f(); }"),
        ("", "stats.rs", "#[test] fn f() { crate::testing::f(); }"),
        ("", "testing.rs", "use crate::{diagnose::Finding, units::Width};"),
    ]);
}

#[test]
fn a_test_file_may_name_the_test_support() {
    let mut clean = library();
    append(&mut clean, "crates/hpt-core/src/measure/mod.rs", "mod planted;");
    let text = "#![cfg(test)]\nfn f() {}\nuse crate::testing::ManualSource;";
    plant(&clean, check, "", "crates/hpt-core/src/measure/planted.rs", text);
}

#[test]
fn a_module_without_a_layer_is_found() {
    let mut tree = library();
    append(&mut tree, "crates/hpt-core/src/attic.rs", "//! A module without a layer.");
    plant(&tree, check, "the module attic has no layer", "crates/hpt-core/src/lib.rs", "mod attic;");
}

#[test]
fn a_layer_of_a_module_that_does_not_exist_is_found() {
    const EMPTY: &[Rules] = &[rules(&[&["gone", "here"]])];
    let tree = tree(&[("crates/hpt-core/src/lib.rs", "mod here;"), ("crates/hpt-core/src/here.rs", "")]);
    let violations = layers::check(&Program::link(&tree).0, EMPTY);
    assert!(
        matches!(violations.as_slice(), [one] if one.message.contains("gone, which does not exist")),
        "{violations:?}"
    );
}

#[test]
fn lower_layers_may_be_named() {
    plant_all(&[
        ("", "diagnose/mod.rs", "use crate::{clock, measure::{self, ReadCost}, units::Width};"),
        (
            "",
            "source/info.rs",
            "pub(in crate::source) fn f<'a>(x: &'a u8) -> impl Sized + use<'a> { super::select::f(x) }",
        ),
    ]);
}

#[test]
fn comments_and_literals_name_nothing() {
    plant_all(&[
        (
            "",
            "units.rs",
            "/// crate::clock\n// crate::clock\n/* crate::clock /* nested */ crate::clock */ const X: char = '\"'; \
             const Y: &str = r#\"\\\"crate::clock\"#;",
        ),
        ("", "units.rs", "const Z: &str = \"two lines \\\n crate::clock \\\" crate::clock\"; const Q: u8 = b'\\'';"),
        ("", "units.rs", "/// [`Clock`](crate::clock::Clock)\nstruct S;"),
        (
            "units (layer 1) names clock",
            "units.rs",
            "const Q: (char, &str) = ('\\\\', \"\\\\\"); /* */ type T = crate::clock::Clock; // \"",
        ),
    ]);
}

#[test]
fn a_backend_that_names_another_is_found() {
    let one = "source::planted_two names source::planted_one";
    let two = "source::planted_one names source::planted_two";
    plant_all(&[
        (one, "source/planted_two.rs", "use super::planted_one::One;"),
        (one, "source/planted_two.rs", "use super::planted_one::One as Harmless;"),
        (one, "source/planted_two.rs", "use super::planted_one::*;"),
        (one, "source/planted_two.rs", "use crate::source::{Pair, planted_one};"),
        (one, "source/planted_two.rs", "use super::One;"),
        (one, "source/planted_two.rs", "macro_rules! m { () => { $crate::source::One } }"),
        (one, "source/planted_two.rs", "fn f() { println!(\"{:?}\", super::One); }"),
        (two, "source/planted_one.rs", "fn f() -> super::Second { super::Second }"),
        ("", "source/planted_one.rs", "use super::{One, TimeSource, backend::Sealed};"),
    ]);
}

#[test]
fn a_backend_from_a_macro_is_recognized() {
    let mut clean = library();
    append(&mut clean, "crates/hpt-core/src/source/mod.rs", "mod planted_three;");
    let text = "macro_rules! m { ($name:ident) => { impl Backend for $name {} } }\nuse super::planted_one::One;";
    let want = "source::planted_three names source::planted_one";
    plant(&clean, check, want, "crates/hpt-core/src/source/planted_three.rs", text);
}

#[test]
fn a_submodule_of_a_backend_that_names_another_is_found() {
    let mut clean = library();
    append(&mut clean, "crates/hpt-core/src/source/planted_one.rs", "mod part;");
    let want = "source::planted_one names source::planted_two";
    plant(&clean, check, want, "crates/hpt-core/src/source/planted_one/part.rs", "use super::super::planted_two;");
}

/// Rules with these layers for hpt-core.
const fn rules(layers: &'static [&'static [&'static str]]) -> Rules {
    Rules { package: "hpt-core", layers, test_support: Some("testing"), ..NONE }
}

/// A small command, its library, and rules for them.
const COMMAND: &[Rules] = &[
    rules(&[]),
    Rules {
        package: "hpt-cli",
        separate_children: &["cmd"],
        output: &[
            Output { module: "picture", may_name: &["render"] },
            Output { module: "render", may_name: &[] },
            Output { module: "progress", may_name: &["render"] },
        ],
        ..NONE
    },
];

fn command() -> Tree {
    let tree = tree(&[
        (
            "crates/hpt-core/src/lib.rs",
            "pub mod source; pub mod testing; pub struct Calibration; pub struct Frequency; pub struct Host;",
        ),
        ("crates/hpt-core/src/source.rs", "pub struct Pair; pub struct ProbeReport; pub fn probe() {}"),
        ("crates/hpt-core/src/testing.rs", "pub struct ManualSource;"),
        ("crates/hpt-cli/src/main.rs", "mod cmd; mod context; mod machine; mod picture; mod progress; mod render;"),
        (
            "crates/hpt-cli/src/cmd/mod.rs",
            "mod other; mod planted; mod probe; pub use other::Options; struct Shared; fn help() {}",
        ),
        ("crates/hpt-cli/src/cmd/other.rs", "pub struct Args; pub struct Options; pub fn run() {}"),
        ("crates/hpt-cli/src/cmd/planted.rs", "pub struct X;"),
        ("crates/hpt-cli/src/cmd/probe.rs", "pub fn run() {}"),
        ("crates/hpt-cli/src/context.rs", "pub struct Context;"),
        ("crates/hpt-cli/src/machine.rs", "pub struct Machine;"),
        ("crates/hpt-cli/src/picture/mod.rs", "mod planted; pub struct Picture;"),
        ("crates/hpt-cli/src/picture/planted.rs", ""),
        ("crates/hpt-cli/src/progress.rs", ""),
        (
            "crates/hpt-cli/src/render/mod.rs",
            "pub mod planted; mod time; pub struct Document; pub use time::short_time;",
        ),
        ("crates/hpt-cli/src/render/planted.rs", "pub struct X;"),
        ("crates/hpt-cli/src/render/time.rs", "pub fn short_time() {}"),
    ]);
    assert_eq!(Program::link(&tree).1, []);
    assert_eq!(layers::check(&Program::link(&tree).0, COMMAND), []);
    tree
}

/// Plants each text in its file of the small command.
#[track_caller]
fn plant_in_command(plants: &[(&str, &str, &str)]) {
    let clean = command();
    let check = |tree: &Tree| layers::check(&Program::link(tree).0, COMMAND);
    for (want, file, text) in plants {
        plant(&clean, check, want, &format!("crates/hpt-cli/src/{file}"), text);
    }
}

#[test]
fn an_output_module_that_names_another_module_is_found() {
    plant_in_command(&[
        ("render names crate::context::Context", "render/planted.rs", "use crate::context::Context;"),
        ("render names super::super::cmd::probe", "render/planted.rs", "use super::super::cmd::probe;"),
        ("progress names crate::cmd::probe::run", "progress.rs", "fn f() { crate::cmd::probe::run(); }"),
        ("progress names crate::cmd::probe::run", "progress.rs", "fn f() { vec![crate::cmd::probe::run()]; }"),
        ("may name only picture and render", "picture/planted.rs", "use crate::cmd::probe;"),
        ("", "picture/planted.rs", "use crate::render::short_time; use super::Picture;"),
    ]);
}

#[test]
fn an_output_module_that_names_more_than_data_is_found() {
    let want = "it may name only data types of hpt_core";
    plant_in_command(&[
        (want, "render/planted.rs", "use hpt_core::{Calibration, Host};"),
        (want, "render/planted.rs", "use hpt_core::Host as Harmless; fn f() -> Harmless { Harmless::live() }"),
        (want, "render/planted.rs", "use hpt_core::*;"),
        (want, "render/planted.rs", "fn f() { hpt_core::source::probe(); }"),
        (want, "render/planted.rs", "fn f() { println!(\"{}\", hpt_core::source::probe()); }"),
        (want, "progress.rs", "use hpt_core::source::{self, Pair};"),
        (
            "",
            "render/planted.rs",
            "use hpt_core::{Calibration, source::ProbeReport}; use super::Document; use crate::render::planted::X;",
        ),
        (
            "",
            "progress.rs",
            "use crate::render::Document; const F: hpt_core::Frequency = hpt_core::Frequency::GIGAHERTZ;",
        ),
        ("", "render/planted.rs", "#[cfg(test)] mod tests { use hpt_core::Host; use crate::machine::Machine; }"),
    ]);
}

#[test]
fn a_subcommand_that_names_another_is_found() {
    let want = "the module planted names";
    plant_in_command(&[
        (want, "cmd/planted.rs", "use super::other::Args;"),
        (want, "cmd/planted.rs", "use super::Options;"),
        (want, "cmd/planted.rs", "use super::*;"),
        (want, "cmd/planted.rs", "use super::help;"),
        (want, "cmd/planted.rs", "fn f() { crate::cmd::other::run() }"),
        (
            "",
            "cmd/planted.rs",
            "use crate::{cmd::planted::X, context::Context}; use super::Shared; use hpt_core::Host;",
        ),
    ]);
}

#[test]
fn tests_of_the_command_may_name_the_librarys_test_support() {
    let want = "names testing, which is for tests only";
    plant_in_command(&[
        (want, "cmd/planted.rs", "use hpt_core::testing::ManualSource;"),
        ("", "cmd/planted.rs", "#[cfg(test)] mod tests { use hpt_core::testing::ManualSource; use super::X; }"),
    ]);
    let mut tree = command();
    append(&mut tree, "crates/hpt-cli/tests/it/main.rs", "use hpt_core::testing::ManualSource;");
    assert_eq!(layers::check(&Program::link(&tree).0, COMMAND), []);
}
