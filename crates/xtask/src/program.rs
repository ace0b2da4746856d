//! Links the modules of all crates: which file each module is in, and what a path in it stands for.
//! Does not apply rules: `cycles` and `layers` do.
//!
//! A path is followed through `use`, renamed or not, globs, re-exports and modules, to the file
//! that defines what it names. Calls of methods are not followed: the compiler finds a method by
//! its type, and the text does not name the file.

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

/// A crate: its root file and what that declares.
#[derive(Debug)]
pub struct Crate {
    /// What Cargo builds it as.
    pub target: Target,
    /// Its root module.
    pub root: usize,
}

/// A source file, once for each crate and each place in it that includes it.
#[derive(Debug)]
pub struct File {
    /// Its path in the tree.
    pub path: String,
    /// The crate that it is part of.
    pub part_of: usize,
    /// The module that is this file. Those that it holds with a body follow.
    pub module: usize,
    source: Arc<Source>,
    /// Where each of its mentions leads.
    routes: Vec<Route>,
}

impl File {
    /// The paths that it mentions, and where they lead.
    pub fn mentions(&self) -> impl Iterator<Item = (&Mention, &Route)> {
        self.facts().mentions.iter().zip(&self.routes)
    }

    /// What it says.
    ///
    /// # Panics
    ///
    /// Never: only what is Rust is linked.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.source.facts(&self.path).expect("only what is Rust is linked")
    }
}

/// A module.
#[derive(Debug)]
pub struct Module {
    /// The crate that it is part of.
    pub part_of: usize,
    /// The file that it is in.
    pub file: usize,
    /// The module that declares it.
    pub parent: Option<usize>,
    /// Its path below the crate's root.
    pub path: Vec<String>,
    /// It is compiled for tests only.
    pub test: bool,
    names: HashMap<String, Vec<Binding>>,
    globs: Vec<Written>,
}

/// What a name in a module stands for.
#[derive(Debug)]
enum Binding {
    /// An item that is defined here.
    Item,
    /// A module that is declared here.
    Module(usize),
    /// What a `use` names.
    Import(Written),
}

/// What a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    /// A module itself.
    Module(usize),
    /// An item that this module defines.
    ItemOf(usize),
}

impl Meaning {
    /// The module itself, or the one that defines the item.
    #[must_use]
    pub fn module(self) -> usize {
        match self {
            Self::Module(module) | Self::ItemOf(module) => module,
        }
    }
}

/// A path followed to its end.
#[derive(Debug, Default)]
pub struct Route {
    /// What it stands for: more than one thing where the machine, or the kind of name, decides.
    /// Nothing for a path into a crate that is not ours.
    pub ends: BTreeSet<Meaning>,
    /// The modules of which it takes a name that is not a module declared there: an item, or what a
    /// `use` handed on.
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
    /// Links the crates of `tree`, and says what is in the way: a file that is not Rust, a module
    /// without a file, a file that no crate includes. Where any is, a check of the rest proves
    /// nothing.
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

    /// The module that a mention stands in.
    #[must_use]
    pub fn module_of(&self, file: &File, mention: &Mention) -> usize {
        file.module + mention.scope
    }

    /// Whether a mention is compiled for tests only.
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
            // A macro of `macro_rules!` is also known below the module that defines it.
            (Role::Macro, [name]) => match self.defining_macro(module, name) {
                Some(module) => BTreeSet::from([Meaning::ItemOf(module)]),
                None => self.resolve(module, &mention.path, &mut way),
            },
            _ => self.resolve(module, &mention.path, &mut way),
        };
        route.ends = ends;
        // A single name in code is an item's: a module alone is nothing there.
        if matches!(mention.role, Role::Code | Role::Macro) && mention.path.names.len() == 1 {
            route.ends.retain(|end| matches!(end, Meaning::ItemOf(_)));
        }
        route
    }

    /// Whether the first name of `path`, seen from `module`, is one that a `use` brought in.
    #[must_use]
    pub fn is_imported(&self, module: usize, path: &Written) -> bool {
        let bindings = self.modules[module].names.get(&path.names[0]);
        !path.absolute
            && bindings.is_some_and(|bindings| bindings.iter().any(|binding| matches!(binding, Binding::Import(_))))
    }

    /// The names of `path` from the root of a crate of the tree, and that crate, where the text
    /// alone says both.
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

    /// Whether a module has `mod name`.
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

    /// What `crate`, `self` and `super` at the beginning of `names` stand for, and the names that
    /// follow.
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

    /// What `names` stand for, taken from each of `ends`.
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
                        // A name that the module does not have is one that a macro makes there, or
                        // an error of its own.
                        let unknown = || BTreeSet::from([Meaning::ItemOf(module)]);
                        next.extend(self.look_up(module, name, way).unwrap_or_else(unknown));
                    }
                }
            }
            ends = next;
        }
        ends
    }

    /// What a name in a module stands for: nothing where that is in a foreign crate, none where the
    /// module has no such name.
    fn look_up(&self, module: usize, name: &str, way: &mut Way<'_>) -> Option<BTreeSet<Meaning>> {
        let step = (module, name.to_owned());
        // Imports lead in a circle where a module and its function have one name, as in `use
        // fit::fit`, and where two modules import each other's names. The way ends at what is
        // declared.
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

/// The way of a path so far.
struct Way<'a> {
    route: &'a mut Route,
    /// The names that are being looked up, so that two globs of each other come to an end.
    busy: Vec<(usize, String)>,
}

/// Makes a program of a tree.
struct Linker<'a> {
    tree: &'a Tree,
    program: Program,
    /// Each file that was looked for.
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
            // It was reported. The crate stays, without a module.
            self.program.crates.pop();
            self.program.libraries.retain(|_, library| *library != number);
        }
    }

    /// Adds a file and what it declares, and gives its module.
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

    /// Adds the file, or the files for different machines, of `mod name;`.
    fn add_child(&mut self, place: &Place, first: usize, facts: &Facts, child: &Child) {
        let around = inline_modules(facts, child.scope);
        let below = |directory: &str| around.iter().fold(directory.to_owned(), |below, name| tree::join(&below, name));
        let explicit = child.paths.iter().map(|path| {
            // From the file's own directory, unless a module with a body is between.
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

    /// A file that is there and is Rust. What is wrong with it is reported once.
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

/// Where a file is, and where the files of its modules are.
struct Place {
    path: String,
    directory: String,
}

/// Where a file's module is among the others.
struct Position {
    part_of: usize,
    parent: Option<usize>,
    path: Vec<String>,
    test: bool,
}

/// The modules with a body around a scope, the outermost first.
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
