//! Reads one file: the modules, names and imports that it declares, and every path that it
//! mentions, with its line.
//! Does not resolve paths: `program` does, with the other files.
//!
//! Uses the syntax tree. Inside macros and attributes, `tokens` searches instead.

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
    /// The scope that contains it.
    pub scope: usize,
    /// The first line with this mention, from one.
    pub line: usize,
    /// Whether it is compiled for tests only, according to this file.
    pub test: bool,
    /// The path as written.
    pub path: Written,
    /// Its role.
    pub role: Role,
}

/// A name that a `use` brings into a scope.
#[derive(Clone, Debug)]
pub struct Import {
    /// The name, or `None` for all names of a module.
    pub name: Option<String>,
    /// The path that the name refers to.
    pub path: Written,
}

/// The file itself, or a module with a body in it.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The enclosing scope. The file itself is scope 0.
    pub parent: Option<usize>,
    /// The module's name; empty for the file itself.
    pub name: String,
    /// Whether it is compiled for tests only, according to this file.
    pub test: bool,
    /// The names that are defined here, except modules.
    pub defines: BTreeSet<String>,
    /// The macros that `macro_rules!` defines here.
    pub macros: BTreeSet<String>,
    /// The imported names.
    pub imports: Vec<Import>,
    /// The last names of the traits that are implemented here.
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
    /// The files in its `#[path]` attributes, each of which is compiled under another condition.
    /// Empty if the module's name determines the file.
    pub paths: Vec<String>,
    /// Whether it is compiled for tests only, according to this file.
    pub test: bool,
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The file itself, and its modules with a body.
    pub scopes: Vec<Scope>,
    /// Its modules with a file of their own.
    pub children: Vec<Child>,
    /// The paths that it mentions.
    pub mentions: Vec<Mention>,
    /// Its unsafe code.
    pub unsafe_words: UnsafeWords,
}

impl Facts {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// Fails if the text is not valid Rust.
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

/// Visits a file.
#[derive(Default)]
struct Reader {
    facts: Facts,
    /// The current scope.
    scope: usize,
    /// Whether the current code is compiled for tests only.
    test: bool,
    mentioned: HashSet<(usize, bool, Role, Written)>,
    /// The variables of the enclosing function, which shadow items of the same name.
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
        // Most paths of a file occur repeatedly.
        if self.mentioned.insert((self.scope, self.test, role, path.clone())) {
            let mention = Mention { scope: self.scope, line: span.start().line, test: self.test, path, role };
            self.facts.mentions.push(mention);
        }
    }

    /// Reads `inner`, to which these attributes apply.
    fn under(&mut self, attributes: &[Attribute], inner: impl FnOnce(&mut Self)) {
        let outside = self.test;
        self.test |= attributes.iter().any(is_for_tests);
        inner(self);
        self.test = outside;
    }

    /// Reads a function in which these names are variables.
    fn in_function(&mut self, variables: HashSet<String>, inner: impl FnOnce(&mut Self)) {
        let outside = std::mem::replace(&mut self.variables, variables);
        self.variables.extend(outside.iter().cloned());
        inner(self);
        self.variables = outside;
    }

    /// Reads each name that a `use` imports. `prefix` is the path before `tree`.
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

    /// Reads a path in an expression or a type. `qualified` is its part in angle brackets.
    fn path_of_type(&mut self, qualified: Option<&syn::QSelf>, path: &syn::Path) {
        if let Some(qualified) = qualified {
            self.visit_type(&qualified.ty);
        }
        // In `<T>::name`, the path is a name in a type.
        if qualified.is_none_or(|qualified| qualified.position > 0) {
            self.mention(Written::of(path), begin(path), Role::Code);
        }
        visit::visit_path(self, path);
    }

    /// Reads the names among tokens.
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

    // `#[cfg(test)]` is ignored elsewhere, such as on a field or a match arm, so the code there
    // does not count as test code.
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

/// The names bound by patterns in a function.
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

/// Returns whether a name that a pattern binds is written like a variable, unlike a constant or a
/// unit struct in a pattern.
fn is_a_variable(path: &Written, variables: &HashSet<String>) -> bool {
    matches!(path.names.as_slice(), [name] if name.starts_with(|c: char| c.is_lowercase() || c == '_') && variables.contains(name))
}

/// Returns whether an attribute restricts its item to tests.
pub(crate) fn is_for_tests(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
        }
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

/// Returns whether a condition holds in tests only: `test`, or `all(..)` that contains it.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_test),
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

/// Returns the file in `#[path = ".."]` or `#[cfg_attr(condition, path = "..")]`.
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

/// Returns the parts of a list such as `all(test, unix)`.
fn parts(list: &syn::MetaList) -> Vec<Meta> {
    let parser = Punctuated::<Meta, syn::Token![,]>::parse_terminated;
    parser.parse2(list.tokens.clone()).map(|parts| parts.into_iter().collect()).unwrap_or_default()
}

/// Returns an item's own attributes.
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
