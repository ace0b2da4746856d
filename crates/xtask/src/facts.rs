//! Reads one file: the modules, names and imports that it declares, and every path that it
//! mentions, with its line.
//! Does not resolve the paths: `program` does, which knows the other files.
//!
//! Everything comes from the syntax tree, except what is inside macros and attributes: `tokens`
//! searches there.

use std::collections::{BTreeSet, HashSet};

use proc_macro2::{Span, TokenStream};
use syn::{
    Attribute, Expr, ExprPath, Ident, ImplItemFn, Item, ItemFn, ItemImpl, ItemMacro, ItemMod, ItemUse, Lit, Macro,
    Meta, PatIdent, TraitItemFn, TypePath, UseTree, VisRestricted, Visibility,
    ext::IdentExt as _,
    parse::Parser as _,
    punctuated::Punctuated,
    visit::{self, Visit},
};

use crate::{
    tokens::{self, Found},
    unsafe_words::UnsafeWords,
    written::{Role, Written, begin},
};

/// A path that the file mentions.
#[derive(Clone, Debug)]
pub struct Mention {
    /// The scope that it stands in.
    pub scope: usize,
    /// The first line that mentions it so, from one.
    pub line: usize,
    /// It is compiled for tests only, as far as this file tells.
    pub test: bool,
    /// What is written.
    pub path: Written,
    /// How.
    pub role: Role,
}

/// A name that a `use` brings into a scope.
#[derive(Clone, Debug)]
pub struct Import {
    /// The name, or none for all names of a module.
    pub name: Option<String>,
    /// What it stands for.
    pub path: Written,
}

/// The file itself, or a module with a body in it.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The scope around it. The file itself is scope 0.
    pub parent: Option<usize>,
    /// The module's name; empty for the file itself.
    pub name: String,
    /// It is compiled for tests only, as far as this file tells.
    pub test: bool,
    /// The names that are defined here, modules excepted.
    pub defines: BTreeSet<String>,
    /// The macros that are defined here by `macro_rules!`.
    pub macros: BTreeSet<String>,
    /// The names that are brought in from elsewhere.
    pub imports: Vec<Import>,
    /// The traits that types implement here, by their last name.
    pub implements: BTreeSet<String>,
}

/// A declaration of a module that has its own file: `mod name;`.
#[derive(Clone, Debug)]
pub struct Child {
    /// The scope that declares it.
    pub scope: usize,
    /// Its line, from one.
    pub line: usize,
    /// The module's name.
    pub name: String,
    /// Its files by `#[path]`, of which each is compiled under another condition. Empty where its
    /// name says the file.
    pub paths: Vec<String>,
    /// It is compiled for tests only, as far as this file tells.
    pub test: bool,
}

/// What a file says.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The file itself, and its modules with a body.
    pub scopes: Vec<Scope>,
    /// Its modules with a file of their own.
    pub children: Vec<Child>,
    /// The paths that it mentions.
    pub mentions: Vec<Mention>,
    /// What it says about unsafe code.
    pub unsafe_words: UnsafeWords,
}

impl Facts {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// It is not Rust.
    pub fn read(text: &str) -> syn::Result<Self> {
        let file = syn::parse_file(text)?;
        let test = file.attrs.iter().any(is_for_tests);
        let mut reader = Reader { test, ..Reader::default() };
        reader.facts.unsafe_words = UnsafeWords::read(text, &file)?;
        reader.facts.scopes.push(Scope { test, ..Scope::default() });
        reader.visit_file(&file);
        Ok(reader.facts)
    }
}

/// Walks a file.
#[derive(Default)]
struct Reader {
    facts: Facts,
    /// The scope that the walk is in.
    scope: usize,
    /// What is being read is compiled for tests only.
    test: bool,
    mentioned: HashSet<(usize, bool, Role, Written)>,
    /// The variables of the function around, which hide items of the same name.
    variables: HashSet<String>,
}

impl Reader {
    fn scope(&mut self) -> &mut Scope {
        &mut self.facts.scopes[self.scope]
    }

    fn define(&mut self, name: &Ident) {
        self.scope().defines.insert(name.unraw().to_string());
    }

    fn mention(&mut self, path: Written, span: Span, role: Role) {
        if role == Role::Code && (is_a_variable(&path, &self.variables) || path.begins_with_a_type()) {
            return;
        }
        // Most paths of a file are mentioned again and again.
        if self.mentioned.insert((self.scope, self.test, role, path.clone())) {
            let mention = Mention { scope: self.scope, line: span.start().line, test: self.test, path, role };
            self.facts.mentions.push(mention);
        }
    }

    /// Reads `inner`, which these attributes belong to.
    fn under(&mut self, attributes: &[Attribute], inner: impl FnOnce(&mut Self)) {
        let outside = self.test;
        self.test |= attributes.iter().any(is_for_tests);
        inner(self);
        self.test = outside;
    }

    /// Reads a function, in which these names are variables.
    fn in_function(&mut self, variables: HashSet<String>, inner: impl FnOnce(&mut Self)) {
        let outside = std::mem::replace(&mut self.variables, variables);
        self.variables.extend(outside.iter().cloned());
        inner(self);
        self.variables = outside;
    }

    /// Each name that a `use` brings in. `prefix` is what stands before `tree`.
    fn use_tree(&mut self, prefix: &Written, tree: &UseTree, role: Role) {
        match tree {
            UseTree::Path(path) => self.use_tree(&prefix.with(&path.ident), &path.tree, role),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(prefix, tree, role)),
            UseTree::Name(name) => self.import(prefix, &name.ident, None, role),
            UseTree::Rename(rename) => self.import(prefix, &rename.ident, Some(&rename.rename), role),
            UseTree::Glob(glob) => {
                self.scope().imports.push(Import { name: None, path: prefix.clone() });
                self.mention(prefix.clone(), glob.star_token.span, Role::Glob);
            }
        }
    }

    fn import(&mut self, prefix: &Written, name: &Ident, rename: Option<&Ident>, role: Role) {
        // `a::{self}` is `a`.
        let path = if name == "self" && !prefix.names.is_empty() { prefix.clone() } else { prefix.with(name) };
        let known_as = rename.map(|rename| rename.unraw().to_string()).or_else(|| path.names.last().cloned());
        if known_as.as_deref() != Some("_") {
            self.scope().imports.push(Import { name: known_as, path: path.clone() });
        }
        self.mention(path, name.span(), role);
    }

    /// A path in an expression or a type, of which `qualified` is in angle brackets.
    fn path_of_type(&mut self, qualified: Option<&syn::QSelf>, path: &syn::Path) {
        if let Some(qualified) = qualified {
            self.visit_type(&qualified.ty);
        }
        // In `<T>::name` the path is a name in a type.
        if qualified.is_none_or(|qualified| qualified.position > 0) {
            self.mention(Written::of(path), begin(path), Role::Code);
        }
        visit::visit_path(self, path);
    }

    /// What the search among tokens finds.
    fn tokens(&mut self, tokens: &TokenStream) {
        for found in tokens::search(tokens.clone()) {
            match found {
                Found::Path(path, span, role) => self.mention(path, span, role),
                Found::Use(item) => {
                    self.use_tree(&Written::start(item.leading_colon.is_some()), &item.tree, Role::Import);
                }
                Found::Implements(name) => {
                    self.scope().implements.insert(name);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Const(item) => self.define(&item.ident),
            Item::Enum(item) => self.define(&item.ident),
            Item::Fn(item) => self.define(&item.sig.ident),
            Item::Static(item) => self.define(&item.ident),
            Item::Struct(item) => self.define(&item.ident),
            Item::Trait(item) => self.define(&item.ident),
            Item::TraitAlias(item) => self.define(&item.ident),
            Item::Type(item) => self.define(&item.ident),
            Item::Union(item) => self.define(&item.ident),
            _ => {}
        }
        self.under(attributes(item), |reader| visit::visit_item(reader, item));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        item.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
        self.visit_visibility(&item.vis);
        let name = item.ident.unraw().to_string();
        let (scope, test) = (self.scope, self.test);
        if let Some((_, items)) = &item.content {
            self.facts.scopes.push(Scope { parent: Some(scope), name, test, ..Scope::default() });
            self.scope = self.facts.scopes.len() - 1;
            items.iter().for_each(|item| self.visit_item(item));
            self.scope = scope;
        } else {
            let paths = item.attrs.iter().filter_map(|attribute| path_of(&attribute.meta)).collect();
            self.facts.children.push(Child { scope, line: item.ident.span().start().line, name, paths, test });
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let role = if matches!(item.vis, Visibility::Inherited) { Role::Import } else { Role::ReExport };
        self.use_tree(&Written::start(item.leading_colon.is_some()), &item.tree, role);
        self.visit_visibility(&item.vis);
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        if let Some(name) = &item.ident {
            self.scope().macros.insert(name.unraw().to_string());
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let Some((path, _)) = &item.trait_ {
            self.scope().implements.extend(path.segments.last().map(|segment| segment.ident.unraw().to_string()));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.in_function(Variables::of(|names| names.visit_item_fn(item)), |reader| visit::visit_item_fn(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        let variables = Variables::of(|names| names.visit_impl_item_fn(item));
        self.under(&item.attrs, |reader| {
            reader.in_function(variables, |reader| visit::visit_impl_item_fn(reader, item));
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        let variables = Variables::of(|names| names.visit_trait_item_fn(item));
        self.under(&item.attrs, |reader| {
            reader.in_function(variables, |reader| visit::visit_trait_item_fn(reader, item));
        });
    }

    // Elsewhere, as on a field or an arm, `#[cfg(test)]` is not looked for: what it covers counts
    // as code.
    fn visit_local(&mut self, local: &'ast syn::Local) {
        self.under(&local.attrs, |reader| visit::visit_local(reader, local));
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        path.attrs.iter().for_each(|attribute| self.visit_attribute(attribute));
        self.path_of_type(path.qself.as_ref(), &path.path);
    }

    fn visit_type_path(&mut self, path: &'ast TypePath) {
        self.path_of_type(path.qself.as_ref(), &path.path);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention(Written::of(path), begin(path), Role::Code);
        visit::visit_path(self, path);
    }

    fn visit_vis_restricted(&mut self, visibility: &'ast VisRestricted) {
        // `pub(crate)` and `pub(super)` name nothing.
        if visibility.in_token.is_some() {
            self.mention(Written::of(&visibility.path), begin(&visibility.path), Role::Visibility);
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.mention(Written::of(&call.path), begin(&call.path), Role::Macro);
        self.tokens(&call.tokens);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        // A link in the documentation is not an import.
        if !attribute.path().is_ident("doc") {
            visit::visit_attribute(self, attribute);
        }
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.tokens(tokens);
        for (path, span) in tokens::paths_in_strings(tokens.clone()) {
            self.mention(path, span, Role::Code);
        }
    }
}

/// The names that patterns in a function bind.
#[derive(Default)]
struct Variables(HashSet<String>);

impl Variables {
    fn of(visit: impl FnOnce(&mut Self)) -> HashSet<String> {
        let mut variables = Self::default();
        visit(&mut variables);
        variables.0
    }
}

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.0.insert(pattern.ident.unraw().to_string());
        visit::visit_pat_ident(self, pattern);
    }
}

/// A name that a pattern binds is a variable if it looks like one. A constant or a unit struct in a
/// pattern does not.
fn is_a_variable(path: &Written, variables: &HashSet<String>) -> bool {
    matches!(path.names.as_slice(), [name] if name.starts_with(|c: char| c.is_lowercase() || c == '_') && variables.contains(name))
}

/// Whether an attribute says that what it belongs to is compiled for tests only.
pub(crate) fn is_for_tests(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
        }
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

/// Whether a condition holds in tests only: `test`, or `all(..)` with it.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_test),
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

/// The file that `#[path = ".."]` or `#[cfg_attr(condition, path = "..")]` names.
fn path_of(attribute: &Meta) -> Option<String> {
    match attribute {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(path) => Some(path.value()),
                _ => None,
            },
            _ => None,
        },
        Meta::List(list) if list.path.is_ident("cfg_attr") => parts(list).iter().skip(1).find_map(path_of),
        Meta::List(_) | Meta::Path(_) | Meta::NameValue(_) => None,
    }
}

/// The parts of a list such as `all(test, unix)`.
fn parts(list: &syn::MetaList) -> Vec<Meta> {
    let parser = Punctuated::<Meta, syn::Token![,]>::parse_terminated;
    parser.parse2(list.tokens.clone()).map(|parts| parts.into_iter().collect()).unwrap_or_default()
}

/// An item's own attributes.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
