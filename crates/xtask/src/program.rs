//! Links the modules of all crates: determines the file of each module, and resolves paths.
//! Does not apply rules: `cycles` and `layers` do.
//!
//! Follows a path through `use`, renames, globs, re-exports and modules to the file that defines
//! its target. Does not follow method calls: the compiler finds a method through its type, and the
//! source text does not name the file.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    facts::{Child, Facts, Mention},
    tree::{self, Kind, Source, Target, Tree},
    violation::Violation,
    written::{Role, Written},
};

/// A crate: its root file and the modules that it declares.
#[derive(Debug)]
pub struct Crate {
    /// Its Cargo target.
    pub target: Target,
    /// Its root module.
    pub root: usize,
}

/// A source file, once for each place in a crate that includes it.
#[derive(Debug)]
pub struct File {
    /// Its path in the tree.
    pub path: String,
    /// The crate that it is part of.
    pub part_of: usize,
    /// The module of this file. Its modules with a body follow.
    pub module: usize,
    source: Arc<Source>,
    /// The route of each mention.
    routes: Vec<Route>,
}

impl File {
    /// Returns the paths that the file mentions, and their routes.
    pub fn mentions(&self) -> impl Iterator<Item = (&Mention, &Route)> {
        self.facts().mentions.iter().zip(&self.routes)
    }

    /// Returns the contents of the file.
    ///
    /// # Panics
    ///
    /// Never: only valid Rust is linked.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.source.facts(&self.path).expect("only valid Rust is linked")
    }
}

/// A module.
#[derive(Debug)]
pub struct Module {
    /// The crate that it is part of.
    pub part_of: usize,
    /// The file that contains it.
    pub file: usize,
    /// The module that declares it.
    pub parent: Option<usize>,
    /// Its path below the crate's root.
    pub path: Vec<String>,
    /// Whether it is compiled for tests only.
    pub test: bool,
    names: HashMap<String, Vec<Binding>>,
    globs: Vec<Written>,
}

/// The meaning of a name in a module.
#[derive(Debug)]
enum Binding {
    /// An item that is defined here.
    Item,
    /// A module that is declared here.
    Module(usize),
    /// The path of a `use`.
    Import(Written),
}

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    /// A module itself.
    Module(usize),
    /// An item that this module defines.
    ItemOf(usize),
}

impl Meaning {
    /// Returns the module itself, or the one that defines the item.
    #[must_use]
    pub fn module(self) -> usize {
        match self {
            Self::Module(module) | Self::ItemOf(module) => module,
        }
    }
}

/// A resolved path.
#[derive(Debug, Default)]
pub struct Route {
    /// The targets of the path: several if the target depends on the architecture or on the kind of
    /// name, none for a path into an external crate.
    pub ends: BTreeSet<Meaning>,
    /// The modules from which the path takes a name other than a declared module: an item, or a
    /// name that a `use` re-exports.
    pub through: BTreeSet<usize>,
}

/// All crates of a tree.
#[derive(Debug, Default)]
pub struct Program {
    /// The crates.
    pub crates: Vec<Crate>,
    /// The files, as each crate includes them.
    pub files: Vec<File>,
    /// The modules of all files.
    pub modules: Vec<Module>,
    libraries: HashMap<String, usize>,
}

impl Program {
    /// Links the crates of `tree`, and returns problems: a file that is not valid Rust, a module
    /// without a file, a file that no crate includes. If there is a problem, checks of the program
    /// prove nothing.
    #[must_use]
    pub fn link(tree: &Tree) -> (Self, Vec<Violation>) {
        let mut linker = Linker { tree, program: Self::default(), read: BTreeSet::new(), violations: Vec::new() };
        for target in &tree.targets {
            linker.add_crate(target);
        }
        for (path, _) in tree.sources() {
            if !linker.read.contains(path) {
                linker.violations.push(Violation::new(path, 1, "no crate includes this file".to_owned()));
            }
        }
        let mut program = linker.program;
        let routes: Vec<Vec<Route>> = program.files.iter().map(|file| program.routes(file)).collect();
        for (file, routes) in program.files.iter_mut().zip(routes) {
            file.routes = routes;
        }
        (program, linker.violations)
    }

    /// Returns the module that contains a mention.
    #[must_use]
    pub fn module_of(&self, file: &File, mention: &Mention) -> usize {
        file.module + mention.scope
    }

    /// Returns whether a mention is compiled for tests only.
    #[must_use]
    pub fn is_test(&self, file: &File, mention: &Mention) -> bool {
        mention.test || self.modules[self.module_of(file, mention)].test
    }

    fn routes(&self, file: &File) -> Vec<Route> {
        let mentions = file.facts().mentions.iter();
        mentions.map(|mention| self.follow(self.module_of(file, mention), mention)).collect()
    }

    fn follow(&self, module: usize, mention: &Mention) -> Route {
        let mut route = Route::default();
        let mut way = Way { route: &mut route, busy: Vec::new() };
        let ends = match (mention.role, mention.path.names.as_slice()) {
            // A macro of `macro_rules!` is also visible below the module that defines it.
            (Role::Macro, [name]) => match self.defining_macro(module, name) {
                Some(module) => BTreeSet::from([Meaning::ItemOf(module)]),
                None => self.resolve(module, &mention.path, &mut way),
            },
            _ => self.resolve(module, &mention.path, &mut way),
        };
        route.ends = ends;
        // A single name in code refers to an item: a module alone has no meaning there.
        if matches!(mention.role, Role::Code | Role::Macro) && mention.path.names.len() == 1 {
            route.ends.retain(|end| matches!(end, Meaning::ItemOf(_)));
        }
        route
    }

    /// Returns whether a `use` in `module` imports the first name of `path`.
    #[must_use]
    pub fn is_imported(&self, module: usize, path: &Written) -> bool {
        let bindings = self.modules[module].names.get(&path.names[0]);
        !path.absolute
            && bindings.is_some_and(|bindings| bindings.iter().any(|binding| matches!(binding, Binding::Import(_))))
    }

    /// Returns a crate of the tree and the names of `path` from its root, if the source text
    /// determines both.
    #[must_use]
    pub fn from_root(&self, module: usize, path: &Written) -> Option<(usize, Vec<String>)> {
        let start = &self.modules[module];
        let known = |name: &str| start.names.contains_key(name);
        let names = &path.names;
        match names[0].as_str() {
            "crate" | "self" | "super" if !path.absolute => {
                let (base, rest) = self.walk_up(module, names);
                Some((start.part_of, [&self.modules[base].path, rest].concat()))
            }
            name if path.absolute || !known(name) => Some((*self.libraries.get(name)?, names[1..].to_vec())),
            _ => Some((start.part_of, [&start.path, names.as_slice()].concat())),
        }
    }

    /// Returns whether a module has `mod name`.
    fn declares(&self, module: usize, name: &str) -> bool {
        let bindings = self.modules[module].names.get(name).into_iter().flatten();
        bindings.into_iter().any(|binding| matches!(binding, Binding::Module(_)))
    }

    fn root_of(&self, module: usize) -> usize {
        self.crates[self.modules[module].part_of].root
    }

    fn defining_macro(&self, module: usize, name: &str) -> Option<usize> {
        let mut around = Some(module);
        while let Some(module) = around {
            let here = &self.modules[module];
            let file = &self.files[here.file];
            if file.facts().scopes[module - file.module].macros.contains(name) {
                return Some(module);
            }
            around = here.parent;
        }
        None
    }

    /// Resolves `crate`, `self` and `super` at the beginning of `names`. Returns the module and the
    /// remaining names.
    fn walk_up<'a>(&self, module: usize, names: &'a [String]) -> (usize, &'a [String]) {
        let mut at = module;
        let mut rest = names;
        while let [name, further @ ..] = rest {
            match name.as_str() {
                "crate" => at = self.root_of(module),
                "self" => {}
                "super" => at = self.modules[at].parent.unwrap_or(at),
                _ => break,
            }
            rest = further;
        }
        (at, rest)
    }

    fn resolve(&self, module: usize, path: &Written, way: &mut Way<'_>) -> BTreeSet<Meaning> {
        let (start, rest) =
            if path.absolute { (module, path.names.as_slice()) } else { self.walk_up(module, &path.names) };
        if rest.len() < path.names.len() {
            return self.descend(BTreeSet::from([Meaning::Module(start)]), rest, way);
        }
        let Some((first, rest)) = rest.split_first() else { return BTreeSet::new() };
        let bound = if path.absolute { None } else { self.look_up(module, first, way) };
        let ends = bound.unwrap_or_else(|| {
            let root = self.libraries.get(first).map(|&library| Meaning::Module(self.crates[library].root));
            root.into_iter().collect()
        });
        self.descend(ends, rest, way)
    }

    /// Resolves `names` from each of `ends`.
    fn descend(&self, mut ends: BTreeSet<Meaning>, names: &[String], way: &mut Way<'_>) -> BTreeSet<Meaning> {
        for name in names {
            let mut next = BTreeSet::new();
            for end in ends {
                match end {
                    // A variant, a constant or a function of a type.
                    Meaning::ItemOf(_) => {
                        next.insert(end);
                    }
                    Meaning::Module(module) => {
                        if !self.declares(module, name) {
                            way.route.through.insert(module);
                        }
                        // A name that the module lacks is generated by a macro, or it is a compile
                        // error.
                        let unknown = || BTreeSet::from([Meaning::ItemOf(module)]);
                        next.extend(self.look_up(module, name, way).unwrap_or_else(unknown));
                    }
                }
            }
            ends = next;
        }
        ends
    }

    /// Resolves a name in a module. The result is empty if the target is in an external crate, and
    /// `None` if the module has no such name.
    fn look_up(&self, module: usize, name: &str, way: &mut Way<'_>) -> Option<BTreeSet<Meaning>> {
        let step = (module, name.to_owned());
        // Imports form a cycle if a module and its function have the same name, as in `use
        // fit::fit`, or if two modules import each other's names. The route then ends at a
        // declaration.
        let again = way.busy.contains(&step);
        way.busy.push(step);
        let here = &self.modules[module];
        let mut found: Option<BTreeSet<Meaning>> = None;
        for binding in here.names.get(name).into_iter().flatten() {
            let ends = match binding {
                Binding::Import(_) if again => continue,
                Binding::Import(path) => self.resolve(module, path, way),
                Binding::Item => BTreeSet::from([Meaning::ItemOf(module)]),
                Binding::Module(child) => BTreeSet::from([Meaning::Module(*child)]),
            };
            found.get_or_insert_default().extend(ends);
        }
        if found.is_none() && !again {
            found = here.globs.iter().find_map(|glob| self.look_up_in_glob(module, name, glob, way));
        }
        way.busy.pop();
        found
    }

    fn look_up_in_glob(
        &self,
        module: usize,
        name: &str,
        glob: &Written,
        way: &mut Way<'_>,
    ) -> Option<BTreeSet<Meaning>> {
        self.resolve(module, glob, way).into_iter().find_map(|end| match end {
            Meaning::Module(module) => self.look_up(module, name, way),
            Meaning::ItemOf(_) => None,
        })
    }
}

/// The state while a path is resolved.
struct Way<'a> {
    route: &'a mut Route,
    /// The names that are being looked up, so that mutual globs terminate.
    busy: Vec<(usize, String)>,
}

/// Links a tree into a program.
struct Linker<'a> {
    tree: &'a Tree,
    program: Program,
    /// The files that were read, or that are missing.
    read: BTreeSet<String>,
    violations: Vec<Violation>,
}

impl Linker<'_> {
    fn add_crate(&mut self, target: &Target) {
        let (number, root) = (self.program.crates.len(), self.program.modules.len());
        self.program.crates.push(Crate { target: target.clone(), root });
        if target.kind == Kind::Library {
            self.program.libraries.insert(target.name.clone(), number);
        }
        let file = Place { path: target.root.clone(), directory: tree::parent(&target.root).to_owned() };
        let module = Position { part_of: number, parent: None, path: Vec::new(), test: target.kind == Kind::Test };
        if self.add_file(&file, &module).is_none() {
            // The problem was reported. Removes the crate.
            self.program.crates.pop();
            self.program.libraries.retain(|_, library| *library != number);
        }
    }

    /// Adds a file and the modules that it declares, and returns its module.
    fn add_file(&mut self, place: &Place, position: &Position) -> Option<usize> {
        let source = self.read(&place.path)?;
        let facts = source.facts(&place.path).ok()?;
        let (file, first) = (self.program.files.len(), self.program.modules.len());
        self.program.files.push(File {
            path: place.path.clone(),
            part_of: position.part_of,
            source: Arc::clone(&source),
            routes: Vec::new(),
            module: first,
        });
        for scope in &facts.scopes {
            let parent = scope.parent.map_or(position.parent, |parent| Some(first + parent));
            let mut path = position.path.clone();
            if let Some(parent) = scope.parent {
                path.clone_from(&self.program.modules[first + parent].path);
                path.push(scope.name.clone());
            }
            let mut names: HashMap<String, Vec<Binding>> = HashMap::new();
            for name in &scope.defines {
                names.entry(name.clone()).or_default().push(Binding::Item);
            }
            let mut globs = Vec::new();
            for import in &scope.imports {
                match &import.name {
                    Some(name) => names.entry(name.clone()).or_default().push(Binding::Import(import.path.clone())),
                    None => globs.push(import.path.clone()),
                }
            }
            let test = position.test || scope.test;
            self.program.modules.push(Module { part_of: position.part_of, file, parent, path, test, names, globs });
        }
        for (number, scope) in facts.scopes.iter().enumerate() {
            if let Some(parent) = scope.parent {
                self.bind(first + parent, &scope.name, first + number);
            }
        }
        for child in &facts.children {
            self.add_child(place, first, facts, child);
        }
        Some(first)
    }

    /// Adds the file of `mod name;`, or its files for different targets.
    fn add_child(&mut self, place: &Place, first: usize, facts: &Facts, child: &Child) {
        let around = inline_modules(facts, child.scope);
        let below = |directory: &str| around.iter().fold(directory.to_owned(), |below, name| tree::join(&below, name));
        let explicit = child.paths.iter().map(|path| {
            // Relative to the file's own directory, unless a module with a body encloses it.
            let from = if around.is_empty() { tree::parent(&place.path).to_owned() } else { below(&place.directory) };
            let path = tree::join(&from, path);
            Place { directory: tree::parent(&path).to_owned(), path }
        });
        let directory = tree::join(&below(&place.directory), &child.name);
        let implicit = [format!("{directory}.rs"), format!("{directory}/mod.rs")]
            .map(|path| Place { path, directory: directory.clone() })
            .into_iter()
            .filter(|place| self.tree.files.contains_key(&place.path));
        let places: Vec<Place> = explicit.chain(implicit).collect();
        if places.is_empty() {
            let message = format!("the module {} has no file", child.name);
            self.violations.push(Violation::new(&place.path, child.line, message));
        }
        for place in places {
            let declaring = &self.program.modules[first + child.scope];
            let position = Position {
                part_of: declaring.part_of,
                parent: Some(first + child.scope),
                path: [declaring.path.as_slice(), std::slice::from_ref(&child.name)].concat(),
                test: declaring.test || child.test,
            };
            if let Some(module) = self.add_file(&place, &position) {
                self.bind(first + child.scope, &child.name, module);
            }
        }
    }

    fn bind(&mut self, module: usize, name: &str, child: usize) {
        self.program.modules[module].names.entry(name.to_owned()).or_default().push(Binding::Module(child));
    }

    /// Returns a file that exists and is valid Rust. Otherwise, reports the problem once.
    fn read(&mut self, path: &str) -> Option<Arc<Source>> {
        let is_new = self.read.insert(path.to_owned());
        let source = self.tree.files.get(path);
        let missing = || Violation::new(path, 1, "this file is missing".to_owned());
        match source.ok_or_else(missing).and_then(|source| source.facts(path).map(|_| source)) {
            Ok(source) => Some(Arc::clone(source)),
            Err(violation) => {
                self.violations.extend(is_new.then_some(violation));
                None
            }
        }
    }
}

/// The path of a file, and the directory of the files of its modules.
struct Place {
    path: String,
    directory: String,
}

/// The position of a file's module among the others.
struct Position {
    part_of: usize,
    parent: Option<usize>,
    path: Vec<String>,
    test: bool,
}

/// Returns the modules with a body that enclose a scope, the outermost first.
fn inline_modules(facts: &Facts, scope: usize) -> Vec<&str> {
    let mut names = Vec::new();
    let mut at = &facts.scopes[scope];
    while let Some(parent) = at.parent {
        names.push(at.name.as_str());
        at = &facts.scopes[parent];
    }
    names.reverse();
    names
}
