//! The rules about unsafe code: where it may stand, that nothing else permits it, and what is written above it.
//! Leaves unsafe blocks to Clippy, which looks for `// SAFETY:` above each.
//!
//! All code counts, whichever machine it is for. What is in a macro counts as well: the rules are about the word, in
//! the tokens of a file.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Attribute, Meta, visit::Visit};

use crate::{Violation, tree::Tree};

/// Where unsafe code may stand, and where it must be forbidden. A directory ends in a slash.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The files and directories that may hold it.
    pub allowed: &'a [&'a str],
    /// Those of which each file says `#![forbid(unsafe_code)]`.
    pub forbidden: &'a [&'a str],
}

/// Finds unsafe code, or a permission for it, outside of its places, and unsafe functions without a `# Safety` section.
pub fn check(tree: &Tree, places: Places<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.sources() {
        match (syn::parse_file(text), text.parse::<TokenStream>()) {
            (Ok(syntax), Ok(tokens)) => {
                if is_in(path, places.allowed) {
                    violations.extend(undocumented(path, &syntax));
                } else {
                    find(path, "", tokens, &mut violations);
                }
                if is_in(path, places.forbidden) && !syntax.attrs.iter().any(forbids) {
                    violations.push(Violation::new(path, 1, "#![forbid(unsafe_code)] is missing".to_owned()));
                }
            }
            (Err(error), _) => {
                let message = format!("this is not Rust: {error}");
                violations.push(Violation::new(path, error.span().start().line, message));
            }
            (Ok(_), Err(error)) => {
                let message = format!("this is not Rust: {error}");
                violations.push(Violation::new(path, error.span().start().line, message));
            }
        }
    }
    violations.extend(manifests(tree));
    violations.sort();
    violations.dedup();
    violations
}

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| if place.ends_with('/') { path.starts_with(place) } else { path == *place })
}

/// The word `unsafe`, and `unsafe_code` in a list that permits it. `caller` is the word before the list.
fn find(path: &str, caller: &str, tokens: TokenStream, violations: &mut Vec<Violation>) {
    let mut before = String::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let caller = if group.delimiter() == Delimiter::Parenthesis { before.as_str() } else { "" };
                find(path, caller, group.stream(), violations);
                before.clear();
            }
            TokenTree::Ident(word) => {
                let line = word.span().start().line;
                if word == "unsafe" {
                    violations.push(Violation::new(path, line, "unsafe outside the places for it".to_owned()));
                }
                if word == "unsafe_code" && matches!(caller, "allow" | "expect" | "warn") {
                    violations.push(Violation::new(
                        path,
                        line,
                        format!("{caller}(unsafe_code) outside the places for unsafe code"),
                    ));
                }
                before = word.to_string();
            }
            TokenTree::Literal(_) | TokenTree::Punct(_) => before.clear(),
        }
    }
}

/// Unsafe functions and traits whose documentation does not say what their callers promise. Clippy looks at the public ones only.
fn undocumented(path: &str, file: &syn::File) -> Vec<Violation> {
    let mut search = Undocumented { path, violations: Vec::new() };
    search.visit_file(file);
    search.violations
}

struct Undocumented<'a> {
    path: &'a str,
    violations: Vec<Violation>,
}

impl Undocumented<'_> {
    fn look_at(&mut self, name: &syn::Ident, attributes: &[Attribute]) {
        let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => Some(&pair.value),
            Meta::NameValue(_) | Meta::Path(_) | Meta::List(_) => None,
        });
        let is_section = |line: &syn::Expr| matches!(line, syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) if text.value().trim() == "# Safety");
        if !lines.into_iter().any(is_section) {
            let message = format!("{name} is unsafe and has no section # Safety");
            self.violations.push(Violation::new(self.path, name.span().start().line, message));
        }
    }
}

impl<'ast> Visit<'ast> for Undocumented<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if matches!(item.sig.safety, syn::Safety::Unsafe(_)) {
            self.look_at(&item.sig.ident, &item.attrs);
        }
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if matches!(item.sig.safety, syn::Safety::Unsafe(_)) {
            self.look_at(&item.sig.ident, &item.attrs);
        }
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if matches!(item.sig.safety, syn::Safety::Unsafe(_)) {
            self.look_at(&item.sig.ident, &item.attrs);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if item.unsafety.is_some() {
            self.look_at(&item.ident, &item.attrs);
        }
        syn::visit::visit_item_trait(self, item);
    }
}

/// Whether an attribute of a file is `#![forbid(unsafe_code)]`, alone or with others.
fn forbids(attribute: &Attribute) -> bool {
    let mut found = false;
    if attribute.path().is_ident("forbid") {
        // What is no list of paths, such as a reason, ends the search.
        let _ = attribute.parse_nested_meta(|lint| {
            found |= lint.path.is_ident("unsafe_code");
            Ok(())
        });
    }
    found
}

/// The workspace denies unsafe code, and every package takes its lints from there.
fn manifests(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut expect = |manifest: &str, section: &str, entries: &[&str], message: &str| {
        let text = tree.files.get(manifest).map_or("", String::as_str);
        let mut lines = section_of(text, section);
        if !lines.any(|line| entries.contains(&line.as_str())) {
            violations.push(Violation::new(manifest, 1, message.to_owned()));
        }
    };
    let denied = ["unsafe_code=\"deny\"", "unsafe_code=\"forbid\""];
    expect("Cargo.toml", "[workspace.lints.rust]", &denied, "[workspace.lints.rust] does not deny unsafe_code");
    for package in &tree.packages {
        let manifest = format!("{package}/Cargo.toml");
        expect(&manifest, "[lints]", &["workspace=true"], "[lints] workspace = true is missing");
    }
    violations
}

/// The lines of a section of a manifest, without spaces and comments.
fn section_of<'a>(manifest: &'a str, section: &'a str) -> impl Iterator<Item = String> + 'a {
    let lines = manifest.lines().map(|line| line.split('#').next().unwrap_or(line).replace(' ', ""));
    let from = lines.skip_while(move |line| line != section).skip(1);
    from.take_while(|line| !line.starts_with('['))
}
