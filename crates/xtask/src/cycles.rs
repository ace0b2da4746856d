//! Builds the graph of files (which file imports which), prints its layers and checks that it has
//! no cycles.
//! Does not check the declared layers: `layers` does.
//!
//! # Definition of an import
//!
//! A file imports the file that defines an item which it names, in a `use` or in place. The modules
//! along the path do not matter: `use super::Tsc`, where the parent has `pub use tsc::Tsc`, imports
//! `tsc.rs`.
//! Therefore these are not imports:
//!
//! - `mod name;`, which declares another file.
//! - `pub use`, which re-exports a name that the file does not use itself. A module's own file may
//!   re-export names of its children, and a child may name items that the parent's file defines.
//! - `use a::b`, where `b` is a module, unless an item of it is used. A glob imports all it can.
//! - Code that is compiled for tests only. Tests may use everything, and so does `testing`.
//!
//! # The rule
//!
//! No two files import each other, directly or indirectly. A module's own file is like any other
//! file: if it uses its children, they cannot use what it defines. Code that both need goes into a
//! separate file.
//!
//! [`rules`] lists parents that do not follow this rule yet (`circular_parents`). Imports of the
//! parent's own file by its children do not count there. A whole package can be exempt, too
//! (`cycles_are_allowed`). An unnecessary exception is an error, so the list can only get shorter.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    program::{Meaning, Program},
    rules::{self, Rules},
    tree::{self, Kind},
    violation::Violation,
    written::Role,
};

/// The file in which unnecessary exceptions are reported.
const RULES_FILE: &str = "crates/xtask/src/rules.rs";

/// An import: the first line that names an item of the other file, and the path there.
#[derive(Clone, Debug)]
struct Import {
    line: usize,
    names: String,
}

/// Which file imports which, by their numbers in the program.
#[derive(Debug)]
pub struct Graph<'a> {
    program: &'a Program,
    imports: Vec<BTreeMap<usize, Import>>,
    /// For each file, the files that it imports directly or indirectly.
    reaches: Vec<BTreeSet<usize>>,
}

/// Finds the cycles that the rules do not allow.
#[must_use]
pub fn check(program: &Program, rules: &[Rules]) -> Vec<Violation> {
    let mut violations = Graph::of(program, &[]).needless_exceptions(rules);
    let graph = Graph::of(program, rules);
    let mut allowed: BTreeSet<&str> = BTreeSet::new();
    for knot in graph.knots() {
        let package = &program.crates[program.files[knot[0]].part_of].target.package;
        if rules::of(rules, package).is_some_and(|rules| rules.cycles_are_allowed) {
            allowed.insert(package);
        } else {
            violations.push(graph.describe(&knot));
        }
    }
    for rules in rules.iter().filter(|rules| rules.cycles_are_allowed && !allowed.contains(rules.package)) {
        let message = format!("{} has no import cycles, but the rules allow them: forbid them", rules.package);
        violations.push(Violation::new(RULES_FILE, 1, message));
    }
    violations
}

impl<'a> Graph<'a> {
    /// Builds the graph of all files of `program`, without the imports that `rules` exempt.
    #[must_use]
    pub fn of(program: &'a Program, rules: &[Rules]) -> Self {
        let mut imports = vec![BTreeMap::new(); program.files.len()];
        for (from, file) in program.files.iter().enumerate() {
            for (mention, route) in file.mentions() {
                let names_nothing = matches!(mention.role, Role::ReExport | Role::Visibility);
                if names_nothing || program.is_test(file, mention) {
                    continue;
                }
                for end in &route.ends {
                    let is_module_alone = matches!(end, Meaning::Module(_)) && mention.role != Role::Glob;
                    let to = program.modules[end.module()].file;
                    if !is_module_alone && to != from && !is_excepted(program, rules, from, to) {
                        let import = || Import { line: mention.line, names: mention.path.to_string() };
                        imports[from].entry(to).or_insert_with(import);
                    }
                }
            }
        }
        let reaches = (0..imports.len()).map(|from| reach(&imports, from)).collect();
        Self { program, imports, reaches }
    }

    /// Returns the groups of files that reach each other.
    fn knots(&self) -> Vec<Vec<usize>> {
        let mut knots: Vec<Vec<usize>> = Vec::new();
        for file in 0..self.imports.len() {
            if self.reaches[file].contains(&file) && !knots.iter().any(|knot| knot.contains(&file)) {
                knots.push(self.knot_of(file));
            }
        }
        knots
    }

    /// Returns `file`, and the files that it reaches and that reach it.
    fn knot_of(&self, file: usize) -> Vec<usize> {
        let tied = |&other: &usize| other == file || self.reaches[other].contains(&file);
        let reached = self.reaches[file].iter().copied().filter(tied);
        reached.chain([file]).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the shortest path from a file of `knot` back to itself.
    fn shortest_cycle(&self, knot: &[usize]) -> Vec<usize> {
        let cycles = knot.iter().filter_map(|&start| self.way(start, start));
        cycles.min_by_key(Vec::len).expect("the files of a knot reach each other")
    }

    /// Returns the shortest path along imports, both ends included.
    fn way(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut ways = VecDeque::from([vec![from]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            for &next in self.imports[way[way.len() - 1]].keys() {
                let longer = [way.as_slice(), &[next]].concat();
                if next == to {
                    return Some(longer);
                }
                if seen.insert(next) {
                    ways.push_back(longer);
                }
            }
        }
        None
    }

    fn describe(&self, knot: &[usize]) -> Violation {
        let cycle = self.shortest_cycle(knot);
        let path = |file: usize| self.program.files[file].path.as_str();
        let mut message = format!("an import cycle ({} files import each other):", knot.len());
        for step in cycle.windows(2) {
            let (from, to, import) = (path(step[0]), path(step[1]), &self.imports[step[0]][&step[1]]);
            message.push_str(&format!("\n    {from}:{} names {} of {to}", import.line, import.names));
        }
        Violation::new(path(cycle[0]), self.imports[cycle[0]][&cycle[1]].line, message)
    }

    /// Finds parents that are exempt in `rules` although their children need no exception.
    fn needless_exceptions(&self, rules: &[Rules]) -> Vec<Violation> {
        let mut violations = Vec::new();
        for rules in rules {
            for parent in rules.circular_parents {
                let is_needed = |file: usize| {
                    let child = |&other: &usize| is_below(self.program, rules, parent, other, file);
                    self.reaches[file].iter().any(|other| child(other) && self.reaches[*other].contains(&file))
                };
                if !(0..self.imports.len()).any(is_needed) {
                    let message = format!("{}: {parent} is listed as circular but is not", rules.package);
                    violations.push(Violation::new(RULES_FILE, 1, message));
                }
            }
        }
        violations
    }

    /// Returns the layers of each crate that has more than one file, as text. A file is one layer
    /// above the highest layer that it imports. Files that neither import nor are imported, because
    /// they only declare others or are for tests, are listed separately.
    pub fn layers(&self) -> String {
        let imported: BTreeSet<usize> = self.imports.iter().flat_map(BTreeMap::keys).copied().collect();
        let mut text = String::new();
        for (number, part) in self.program.crates.iter().enumerate() {
            let is_part = |file: &usize| self.program.files[*file].part_of == number;
            let files: Vec<usize> = (0..self.imports.len()).filter(is_part).collect();
            if files.len() < 2 || !matches!(part.target.kind, Kind::Library | Kind::Program) {
                continue;
            }
            let mut layers: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
            let mut apart = BTreeSet::new();
            let mut known = BTreeMap::new();
            for &file in &files {
                let path = self.program.files[file].path.as_str();
                if self.imports[file].is_empty() && !imported.contains(&file) {
                    apart.insert(path);
                } else {
                    layers.entry(self.layer(file, number, &mut known)).or_default().insert(path);
                }
            }
            let (target, count) = (&part.target, layers.len());
            let heading = format!("{} ({}): {} files, {count} layers\n", target.package, target.root, files.len());
            text.push_str(&heading);
            let root = tree::parent(&target.root);
            for (layer, paths) in layers.iter().rev() {
                text.push_str(&wrap(&format!("{:>4}  ", layer + 1), &by_directory(root, paths)));
            }
            if !apart.is_empty() {
                text.push_str(&wrap("   -  ", &by_directory(root, &apart)));
            }
        }
        text
    }

    /// Returns a file's layer in its crate, from zero. Files that import each other share a layer.
    fn layer(&self, file: usize, part_of: usize, known: &mut BTreeMap<usize, usize>) -> usize {
        if let Some(&layer) = known.get(&file) {
            return layer;
        }
        let knot = self.knot_of(file);
        let below = knot.iter().flat_map(|tied| self.imports[*tied].keys()).copied();
        let below = below.filter(|other| !knot.contains(other) && self.program.files[*other].part_of == part_of);
        let layer = below.map(|other| self.layer(other, part_of, known) + 1).max().unwrap_or(0);
        known.extend(knot.iter().map(|&tied| (tied, layer)));
        layer
    }
}

/// Returns the files that `from` imports directly or indirectly.
fn reach(imports: &[BTreeMap<usize, Import>], from: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(imports[at].keys().copied().filter(|&to| seen.insert(to)));
    }
    seen
}

/// Returns whether `from` is a child of an exempt parent, and `to` is the parent's own file.
fn is_excepted(program: &Program, rules: &[Rules], from: usize, to: usize) -> bool {
    let package = &program.crates[program.files[from].part_of].target.package;
    let Some(rules) = rules::of(rules, package) else { return false };
    rules.circular_parents.iter().any(|parent| is_below(program, rules, parent, from, to))
}

/// Returns whether `above` is the module `parent`'s own file, and `file` is below it.
fn is_below(program: &Program, rules: &Rules, parent: &str, file: usize, above: usize) -> bool {
    let module = |file: usize| &program.modules[program.files[file].module];
    let (lower, upper) = (module(file), module(above));
    let target = &program.crates[upper.part_of].target;
    lower.part_of == upper.part_of
        && target.package == rules.package
        && upper.path.join("::") == parent
        && lower.path.len() > upper.path.len()
        && lower.path.starts_with(&upper.path)
}

/// Returns paths below `root` without extension, grouped by directory: `host/{acpi, cpu}`.
fn by_directory(root: &str, paths: &BTreeSet<&str>) -> Vec<String> {
    let mut directories: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        let path = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/').trim_end_matches(".rs");
        let name = path.rsplit('/').next().unwrap_or(path);
        directories.entry(tree::parent(path)).or_default().push(name);
    }
    let mut grouped = Vec::new();
    for (directory, names) in directories {
        match (directory, names.as_slice()) {
            ("", names) => grouped.extend(names.iter().map(|name| (*name).to_owned())),
            (directory, [name]) => grouped.push(format!("{directory}/{name}")),
            (directory, [first, middle @ .., last]) => {
                grouped.push(format!("{directory}/{{{first}"));
                grouped.extend(middle.iter().map(|name| (*name).to_owned()));
                grouped.push(format!("{last}}}"));
            }
            (_, []) => {}
        }
    }
    grouped
}

/// Joins `words` with commas, in lines of at most 100 columns.
fn wrap(heading: &str, words: &[String]) -> String {
    let mut text = heading.to_owned();
    let mut column = heading.len();
    for (number, word) in words.iter().enumerate() {
        if number > 0 {
            text.push(',');
            // A comma and a space before the word, and a comma after it.
            let breaks = column + word.len() + 3 > 100;
            text.push_str(&if breaks { format!("\n{}", " ".repeat(heading.len())) } else { " ".to_owned() });
            column = if breaks { heading.len() } else { column + 2 };
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
    text
}
