//! Finds unsafe code, permissions and prohibitions of it in a file, and unsafe functions without a
//! `# Safety` section.
//! Does not apply rules: `unsafe_code` does.
//!
//! Searches all tokens of the file for the word `unsafe`, including those in macros.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Attribute, Ident, Meta, visit::Visit};

/// The unsafe code of a file.
#[derive(Clone, Debug, Default)]
pub struct UnsafeWords {
    /// The lines of the word `unsafe`.
    pub uses: Vec<usize>,
    /// The lines that permit it, with the lint level: `allow`, `expect` or `warn`.
    pub permissions: Vec<(usize, String)>,
    /// The unsafe functions and traits without a `# Safety` section, with their lines.
    pub undocumented: Vec<(usize, String)>,
    /// Whether the file contains `#![forbid(unsafe_code)]`.
    pub is_forbidden: bool,
}

impl UnsafeWords {
    /// Reads a file from its text and its syntax tree.
    ///
    /// # Errors
    ///
    /// Fails if the file is not valid Rust.
    pub fn read(text: &str, file: &syn::File) -> syn::Result<Self> {
        let mut words = Self { is_forbidden: file.attrs.iter().any(forbids), ..Self::default() };
        words.search("", text.parse()?);
        words.visit_file(file);
        Ok(words)
    }

    /// Searches for the word `unsafe`, and for `unsafe_code` in a list that permits it. `caller` is
    /// the word before the list.
    fn search(&mut self, caller: &str, tokens: TokenStream) {
        let mut before = String::new();
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    let is_list = group.delimiter() == Delimiter::Parenthesis;
                    self.search(if is_list { &before } else { "" }, group.stream());
                    before.clear();
                }
                TokenTree::Ident(word) => {
                    let line = word.span().start().line;
                    if word == "unsafe" {
                        self.uses.push(line);
                    }
                    if word == "unsafe_code" && matches!(caller, "allow" | "expect" | "warn") {
                        self.permissions.push((line, caller.to_owned()));
                    }
                    before = word.to_string();
                }
                TokenTree::Literal(_) | TokenTree::Punct(_) => before.clear(),
            }
        }
    }

    /// Records an unsafe item whose documentation has no `# Safety` section.
    fn look_at(&mut self, name: &Ident, attributes: &[Attribute]) {
        let is_section = |attribute: &Attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => {
                matches!(&pair.value, syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) if text.value().trim() == "# Safety")
            }
            Meta::NameValue(_) | Meta::Path(_) | Meta::List(_) => false,
        };
        if !attributes.iter().any(is_section) {
            self.undocumented.push((name.span().start().line, name.to_string()));
        }
    }
}

impl<'ast> Visit<'ast> for UnsafeWords {
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

/// Returns whether an attribute of a file is `#![forbid(unsafe_code)]`, alone or with other lints.
fn forbids(attribute: &Attribute) -> bool {
    let mut found = false;
    if attribute.path().is_ident("forbid") {
        // Anything other than a list of paths, such as a reason, ends the search.
        let _ = attribute.parse_nested_meta(|lint| {
            found |= lint.path.is_ident("unsafe_code");
            Ok(())
        });
    }
    found
}
