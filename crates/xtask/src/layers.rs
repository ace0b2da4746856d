//! Checks which module names which, under the rules in [`rules`](crate::rules).
//! Contains no names of modules.
//!
//! A path names the module that defines its last item, and each module whose re-export it uses:
//! `crate::source::Tsc` names `source` and, through the re-export there, `source::tsc`. In contrast
//! to [imports](crate::cycles), re-exports, modules without an item and test code count, too.

use std::collections::BTreeSet;

use crate::{
    facts::Mention,
    program::{File, Program, Route},
    rules::{LIBRARY, NOT_DATA, Output, Rules},
    tree::{Kind, Target},
    violation::Violation,
    written::{Role, Written},
};

/// Finds code that names a module which it must not name.
#[must_use]
pub fn check(program: &Program, rules: &[Rules]) -> Vec<Violation> {
    let mut violations = BTreeSet::new();
    for rules in rules {
        Checker { program, rules, violations: &mut violations }.check();
    }
    violations.into_iter().collect()
}

struct Checker<'a> {
    program: &'a Program,
    rules: &'a Rules,
    violations: &'a mut BTreeSet<Violation>,
}

/// A path, its location, and its target.
struct Named<'a> {
    file: &'a File,
    mention: &'a Mention,
    module: usize,
    test: bool,
    route: &'a Route,
}

impl Checker<'_> {
    fn check(&mut self) {
        let implementations = self.implementations();
        for part in &self.program.crates {
            if part.target.package == self.rules.package && self.has_layers(&part.target) {
                self.layers_are_complete(part.root);
            }
        }
        for file in &self.program.files {
            // A path to a crate outside the tree breaks none of these rules.
            for (mention, route) in file.mentions().filter(|(_, route)| !route.ends.is_empty()) {
                let module = self.program.module_of(file, mention);
                let test = self.program.is_test(file, mention);
                let named = Named { file, mention, module, test, route };
                self.test_support_is_for_tests(&named);
                let target = &self.program.crates[file.part_of].target;
                if target.package == self.rules.package && target.kind != Kind::Test {
                    self.only_lower_layers_are_named(&named);
                    self.implementations_are_apart(&named, &implementations);
                    self.children_are_separate(&named);
                    self.output_names_data(&named);
                }
            }
        }
    }

    /// Finds modules directly below the root that have no layer, and layers of modules that do not
    /// exist.
    fn layers_are_complete(&mut self, root: usize) {
        if self.rules.layers.is_empty() {
            return;
        }
        let root = &self.program.modules[root];
        let file = &self.program.files[root.file];
        let declared = file.facts().children.iter().filter(|child| child.scope == 0);
        for child in declared.clone() {
            if self.layer(&child.name).is_none() && self.rules.test_support != Some(child.name.as_str()) {
                let message = format!("the module {} has no layer: add it in crates/xtask/src/rules.rs", child.name);
                self.violations.insert(Violation::new(&file.path, child.line, message));
            }
        }
        for name in self.rules.layers.iter().copied().flatten() {
            if !declared.clone().any(|child| child.name == *name) {
                let message =
                    format!("crates/xtask/src/rules.rs has a layer for the module {name}, which does not exist");
                self.violations.insert(Violation::new(&file.path, 1, message));
            }
        }
    }

    fn only_lower_layers_are_named(&mut self, named: &Named<'_>) {
        if self.rules.layers.is_empty() || !self.has_layers(&self.program.crates[named.file.part_of].target) {
            return;
        }
        let Some(from) = self.program.modules[named.module].path.first() else { return };
        if self.rules.test_support == Some(from) {
            return;
        }
        let named_modules = self.modules_named(named);
        // Below the root, a macro is visible by its name alone.
        if named_modules.contains(&Vec::new()) && named.mention.role != Role::Macro {
            self.violation(named, "names the crate's root: name an item through its module".to_owned());
            return;
        }
        for to in &named_modules {
            let Some(to) = to.first() else { continue };
            if from == to || self.rules.test_support == Some(to) {
                continue;
            }
            let (Some(own), Some(other)) = (self.layer(from), self.layer(to)) else { continue };
            if other > own {
                let message =
                    format!("{from} (layer {own}) names {to} (layer {other}): only lower layers may be named");
                self.violation(named, message);
            } else if other == own {
                let message = format!(
                    "{from} names {to}: both are in layer {own}, and modules of one layer do not name each other"
                );
                self.violation(named, message);
            }
        }
    }

    fn test_support_is_for_tests(&mut self, named: &Named<'_>) {
        let Some(support) = self.rules.test_support else { return };
        let is_support = |module: usize| {
            let target = &self.program.crates[self.program.modules[module].part_of].target;
            target.package == self.rules.package
                && self.has_layers(target)
                && self.program.modules[module].path.first().is_some_and(|name| name == support)
        };
        let names_support = self.reached(named).into_iter().any(is_support);
        if names_support && !named.test && !is_support(named.module) {
            self.violation(named, format!("names {support}, which is for tests only, outside #[cfg(test)]"));
        }
    }

    fn implementations_are_apart(&mut self, named: &Named<'_>, implementations: &BTreeSet<Vec<String>>) {
        let around = |path: &[String]| implementations.iter().find(|outer| path.starts_with(outer));
        let Some(own) = around(&self.program.modules[named.module].path) else { return };
        for to in self.modules_named(named) {
            if let Some(other) = around(&to).filter(|other| *other != own) {
                let message =
                    format!("{} names {}: implementations do not name each other", own.join("::"), other.join("::"));
                self.violation(named, message);
            }
        }
    }

    /// Returns the modules that are below a parent in the rules and implement its trait.
    fn implementations(&self) -> BTreeSet<Vec<String>> {
        let mut found = BTreeSet::new();
        for (number, module) in self.program.modules.iter().enumerate() {
            let file = &self.program.files[module.file];
            if self.program.crates[module.part_of].target.package != self.rules.package {
                continue;
            }
            let scope = &file.facts().scopes[number - file.module];
            for (parent, implemented) in self.rules.implementations {
                let is_child = module.path.len() > 1 && module.path[0] == **parent;
                if is_child && scope.implements.contains(*implemented) && !module.test {
                    found.insert(self.program.modules[file.module].path.clone());
                }
            }
        }
        found
    }

    fn children_are_separate(&mut self, named: &Named<'_>) {
        let path = &self.program.modules[named.module].path;
        let [parent, own, ..] = path.as_slice() else { return };
        if named.mention.role == Role::Visibility || !self.rules.separate_children.contains(&parent.as_str()) {
            return;
        }
        for to in self.modules_named(named) {
            let is_other_child = matches!(to.as_slice(), [first, other, ..] if first == parent && other != own);
            // Children may use the types of the parent only.
            let is_parent = to.len() == 1 && to[0] == *parent;
            if is_other_child || is_parent && !names_a_type(&named.mention.path.names) {
                let message = format!(
                    "the module {own} names {}: move shared code to a module outside {parent}",
                    named.mention.path
                );
                self.violation(named, message);
            }
        }
    }

    fn output_names_data(&mut self, named: &Named<'_>) {
        let path = &self.program.modules[named.module].path;
        let Some(output) = self.rules.output.iter().find(|output| is_within(path, output.module)) else { return };
        // Tests may construct the data that is printed. Imported names are judged at their `use`.
        let is_judged = named.mention.role == Role::Code && self.program.is_imported(named.module, &named.mention.path);
        if named.test || named.mention.role == Role::Visibility || is_judged {
            return;
        }
        self.output_names_few_modules(named, *output);
        let from_root = self.program.from_root(named.module, &named.mention.path);
        let Some((part, names)) = from_root.filter(|(part, _)| self.program.crates[*part].target.name == LIBRARY)
        else {
            return;
        };
        let library = &self.program.crates[part].target.name;
        let data = names.iter().find(|name| name.starts_with(char::is_uppercase));
        if data.is_none_or(|name| NOT_DATA.contains(&name.as_str())) {
            let path = Written { absolute: false, names };
            self.violation(
                named,
                format!("{} names {library}::{path}: it may name only data types of {library}", output.module),
            );
        }
    }

    fn output_names_few_modules(&mut self, named: &Named<'_>, output: Output) {
        let own = self.program.modules[named.module].part_of;
        for to in self.reached(named) {
            let to = &self.program.modules[to];
            let may = to.part_of != own
                || is_within(&to.path, output.module)
                || output.may_name.iter().any(|module| is_within(&to.path, module));
            if !may {
                let allowed = [&[output.module], output.may_name].concat().join(" and ");
                let message = format!(
                    "{} names {}: within its crate it may name only {allowed}",
                    output.module, named.mention.path
                );
                self.violation(named, message);
            }
        }
    }

    /// Returns whether the layers of a package apply to this target: its library, or its program if
    /// it has no library.
    fn has_layers(&self, target: &Target) -> bool {
        let has_library = || {
            let mut targets = self.program.crates.iter().map(|part| &part.target);
            targets.any(|other| other.package == target.package && other.kind == Kind::Library)
        };
        match target.kind {
            Kind::Library => true,
            Kind::Program => !has_library(),
            Kind::Test | Kind::BuildScript => false,
        }
    }

    /// Returns a module's layer, counted from zero.
    fn layer(&self, module: &str) -> Option<usize> {
        self.rules.layers.iter().position(|layer| layer.contains(&module))
    }

    /// Returns the modules that a path names.
    fn reached(&self, named: &Named<'_>) -> BTreeSet<usize> {
        let ends = named.route.ends.iter().map(|end| end.module());
        ends.chain(named.route.through.iter().copied()).collect()
    }

    /// Returns the paths of the named modules in the same crate.
    fn modules_named(&self, named: &Named<'_>) -> BTreeSet<Vec<String>> {
        let own = self.program.modules[named.module].part_of;
        let reached = self.reached(named).into_iter().map(|module| &self.program.modules[module]);
        reached.filter(|module| module.part_of == own).map(|module| module.path.clone()).collect()
    }

    fn violation(&mut self, named: &Named<'_>, message: String) {
        let same = |known: &&Violation| known.file == named.file.path && known.message == message;
        // Reports only the first one in a file.
        if let Some(known) = self.violations.iter().find(same).cloned() {
            if known.line <= named.mention.line {
                return;
            }
            self.violations.remove(&known);
        }
        self.violations.insert(Violation::new(&named.file.path, named.mention.line, message));
    }
}

/// Returns whether the module `path` is `outer` or below it.
fn is_within(path: &[String], outer: &str) -> bool {
    let outer: Vec<&str> = outer.split("::").collect();
    path.len() >= outer.len() && path.iter().zip(outer).all(|(name, outer)| name == outer)
}

/// Returns whether a path ends at a type or within one.
fn names_a_type(names: &[String]) -> bool {
    names.iter().any(|name| name.starts_with(char::is_uppercase))
}
