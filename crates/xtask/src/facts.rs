//! What one file says: the modules, names and imports that it declares, and every path that it mentions, with its line.
//! Resolves nothing: `program` does, which knows the other files.
//!
//! Everything is read from the syntax tree. Where the tree ends, at the tokens of a macro call, a macro's definition or
//! an attribute, the tokens are searched for paths.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
};

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use syn::{
    Attribute, Expr, ExprPath, Ident, ImplItemFn, Item, ItemFn, ItemImpl, ItemMacro, ItemMod, ItemUse, Lit, Macro,
    Meta, PatIdent, TraitItemFn, TypePath, UseTree, VisRestricted, Visibility,
    ext::IdentExt as _,
    parse::Parser as _,
    punctuated::Punctuated,
    visit::{self, Visit},
};

use crate::unsafe_words::UnsafeWords;

/// A path as it is written, without generic arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Written {
    /// It begins with `::`, so that its first name is a crate.
    pub absolute: bool,
    /// Its names. `r#type` is `type`.
    pub names: Vec<String>,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.absolute { "::" } else { "" }, self.names.join("::"))
    }
}

/// How a path is mentioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// In an expression, a type, a pattern, an attribute or the tokens of a macro.
    Code,
    /// As the name of a macro that is called.
    Macro,
    /// By a private `use`.
    Import,
    /// By a `use` that others can see.
    ReExport,
    /// By a `use` of all names of a module.
    Glob,
    /// By `pub(in path)`.
    Visibility,
}

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
    /// Its files by `#[path]`, of which each is compiled under another condition. Empty where its name says the file.
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

    /// The paths among `tokens`, which syn leaves alone.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at += match &tokens[at] {
                TokenTree::Group(group) => {
                    self.tokens(group.stream());
                    1
                }
                TokenTree::Ident(ident) if ident == "use" => self.use_among_tokens(&tokens[at..]),
                TokenTree::Ident(ident) if ident == "impl" => {
                    self.scope().implements.extend(implemented(&tokens[at..]));
                    1
                }
                TokenTree::Ident(_) => self.path_among_tokens(&tokens, at),
                TokenTree::Literal(_) | TokenTree::Punct(_) => 1,
            };
        }
    }

    /// The path that begins at a token of a macro: how many tokens it has.
    fn path_among_tokens(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        let mut path = Written::start(is_after_colons(tokens, at));
        let mut end = at;
        while let Some(TokenTree::Ident(name)) = tokens.get(end) {
            path = path.with(name);
            end += 1;
            if !(is_after_colons(tokens, end + 2) && matches!(tokens.get(end + 2), Some(TokenTree::Ident(_)))) {
                break;
            }
            end += 2;
        }
        let is_call = is_punct(tokens.get(end), '!') && !is_punct(tokens.get(end + 1), '=');
        if can_name_an_item(&path, &tokens[..at], &tokens[end..]) {
            self.mention(path, tokens[at].span(), if is_call { Role::Macro } else { Role::Code });
        }
        end - at
    }

    /// A `use` among the tokens of a macro: how many tokens it has. What a macro has instead of a name, such as
    /// `$name`, makes it no `use` to syn; then its tokens are searched one by one.
    fn use_among_tokens(&mut self, tokens: &[TokenTree]) -> usize {
        let Some(end) = tokens.iter().position(|token| is_punct(Some(token), ';')) else { return 1 };
        // In the crate that defines the macro, `$crate` is `crate`.
        let item = tokens[..=end].iter().filter(|token| !is_punct(Some(token), '$')).cloned().collect();
        let Ok(item) = syn::parse2::<ItemUse>(item) else { return 1 };
        self.use_tree(&Written::start(item.leading_colon.is_some()), &item.tree, Role::Import);
        end + 1
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

    // Elsewhere, as on a field or an arm, `#[cfg(test)]` is not looked for: what it covers counts as code.
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
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        // A link in the documentation is not an import.
        if !attribute.path().is_ident("doc") {
            visit::visit_attribute(self, attribute);
        }
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.tokens(tokens.clone());
        self.paths_in_strings(tokens.clone());
    }
}

impl Reader {
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

    /// Derives take paths as strings: `#[serde(with = "crate::as_text")]`.
    fn paths_in_strings(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.paths_in_strings(group.stream()),
                TokenTree::Literal(literal) => {
                    let Ok(Lit::Str(text)) = syn::parse_str::<Lit>(&literal.to_string()) else { continue };
                    let Ok(path) = syn::parse_str::<syn::Path>(&text.value()) else { continue };
                    if path.segments.len() > 1 {
                        self.mention(Written::of(&path), literal.span(), Role::Code);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl Written {
    fn start(absolute: bool) -> Self {
        Self { absolute, names: Vec::new() }
    }

    fn with(&self, name: &Ident) -> Self {
        let mut path = self.clone();
        path.names.push(name.unraw().to_string());
        path
    }

    /// `Self::new`, and the variable `self`: names of something that was mentioned elsewhere.
    fn begins_with_a_type(&self) -> bool {
        self.names[0] == "Self" || self.names == ["self"]
    }

    fn of(path: &syn::Path) -> Self {
        let names = path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
        Self { absolute: path.leading_colon.is_some(), names }
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

/// A name that a pattern binds is a variable if it looks like one. A constant or a unit struct in a pattern does not.
fn is_a_variable(path: &Written, variables: &HashSet<String>) -> bool {
    matches!(path.names.as_slice(), [name] if name.starts_with(|c: char| c.is_lowercase() || c == '_') && variables.contains(name))
}

/// Whether an attribute says that what it belongs to is compiled for tests only.
fn is_for_tests(attribute: &Attribute) -> bool {
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

/// Where a path begins.
fn begin(path: &syn::Path) -> Span {
    path.segments.first().map_or_else(Span::call_site, |segment| segment.ident.span())
}

/// The parts of a list such as `all(test, unix)`.
fn parts(list: &syn::MetaList) -> Vec<Meta> {
    let parser = Punctuated::<Meta, syn::Token![,]>::parse_terminated;
    parser.parse2(list.tokens.clone()).map(|parts| parts.into_iter().collect()).unwrap_or_default()
}

/// Whether a path among the tokens of a macro may be one of an item: not a field, a method, the label of a value, a
/// lifetime or a variable of the macro.
fn can_name_an_item(path: &Written, before: &[TokenTree], after: &[TokenTree]) -> bool {
    // What follows a variable or a type, as in `$name::new` and `<T>::new`, is no path. Alone it may be one: `::libc::c_int`.
    if path.absolute {
        return path.names.len() > 1;
    }
    if is_punct(before.last(), '$') {
        return path.names[0] == "crate";
    }
    if path.names.len() > 1 {
        return true;
    }
    let is_part = is_punct(before.last(), '.') || is_punct(before.last(), '\'');
    let is_label =
        (is_punct(after.first(), ':') || is_punct(after.first(), '=')) && !after.first().is_some_and(is_joint);
    !is_part && !is_label
}

/// The last names of the traits in `impl Trait for Type`, with which `tokens` begin.
fn implemented(tokens: &[TokenTree]) -> Vec<String> {
    let header: Vec<&TokenTree> = tokens.iter().take_while(|token| !is_braced(token)).collect();
    let before_for = header.windows(2).filter_map(|pair| match pair {
        [TokenTree::Ident(name), TokenTree::Ident(keyword)] if keyword == "for" => Some(name.unraw().to_string()),
        _ => None,
    });
    before_for.collect()
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn is_joint(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint)
}

/// Whether `::` stands before the token `at`.
fn is_after_colons(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2
        && is_punct(tokens.get(at - 2), ':')
        && tokens.get(at - 2).is_some_and(is_joint)
        && is_punct(tokens.get(at - 1), ':')
}

fn is_braced(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
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
