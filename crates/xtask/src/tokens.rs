//! Searches for paths where syn provides no syntax tree: among the tokens of macro calls, macro
//! definitions and attributes.
//! Parses only paths and `use` declarations.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use syn::{ItemUse, Lit, ext::IdentExt as _};

use crate::written::{Role, Written};

/// A finding among tokens.
pub(crate) enum Found {
    /// A path.
    Path(Written, Span, Role),
    /// An import.
    Use(Box<ItemUse>),
    /// The last name of a trait that is implemented.
    Implements(String),
}

/// Returns everything that names an item.
pub(crate) fn search(tokens: TokenStream) -> Vec<Found> {
    let mut found = Vec::new();
    search_into(tokens, &mut found);
    found
}

fn search_into(tokens: TokenStream, found: &mut Vec<Found>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let mut length = 1;
        match &tokens[at] {
            TokenTree::Group(group) => search_into(group.stream(), found),
            TokenTree::Ident(word) if word == "use" => {
                if let Some((item, tokens_of_it)) = import(&tokens[at..]) {
                    found.push(Found::Use(Box::new(item)));
                    length = tokens_of_it;
                }
            }
            TokenTree::Ident(word) if word == "impl" => {
                found.extend(implemented(&tokens[at..]).into_iter().map(Found::Implements));
            }
            TokenTree::Ident(word) => {
                let (path, tokens_of_it) = path(&tokens, at);
                let (before, after) = (&tokens[..at], &tokens[at + tokens_of_it..]);
                if can_name_an_item(&path, before, after) {
                    let is_call = is_punct(after.first(), '!') && !is_punct(after.get(1), '=');
                    found.push(Found::Path(path, word.span(), if is_call { Role::Macro } else { Role::Code }));
                }
                length = tokens_of_it;
            }
            TokenTree::Literal(_) | TokenTree::Punct(_) => {}
        }
        at += length;
    }
}

/// Returns paths in strings, as used in derive attributes: `#[serde(with = "crate::as_text")]`.
pub(crate) fn paths_in_strings(tokens: TokenStream) -> Vec<(Written, Span)> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => found.extend(paths_in_strings(group.stream())),
            TokenTree::Literal(literal) => {
                let Ok(Lit::Str(text)) = syn::parse_str::<Lit>(&literal.to_string()) else { continue };
                let Ok(path) = syn::parse_str::<syn::Path>(&text.value()) else { continue };
                if path.segments.len() > 1 {
                    found.push((Written::of(&path), literal.span()));
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
    found
}

/// Returns the path that begins at a token, and its number of tokens.
fn path(tokens: &[TokenTree], at: usize) -> (Written, usize) {
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
    (path, end - at)
}

/// Returns the `use` at the beginning of `tokens`, and its number of tokens. Returns `None` if a
/// macro definition has a variable instead of a name; then its tokens are searched one by one.
fn import(tokens: &[TokenTree]) -> Option<(ItemUse, usize)> {
    let end = tokens.iter().position(|token| is_punct(Some(token), ';'))?;
    // In the crate that defines the macro, `$crate` is `crate`.
    let item = tokens[..=end].iter().filter(|token| !is_punct(Some(token), '$')).cloned().collect();
    Some((syn::parse2(item).ok()?, end + 1))
}

/// Returns whether a path among the tokens of a macro may name an item, rather than a field, a
/// method, a field label, a lifetime or a macro variable.
fn can_name_an_item(path: &Written, before: &[TokenTree], after: &[TokenTree]) -> bool {
    // The part after a variable or a type, as in `$name::new` and `<T>::new`, is not a path.
    // Without one, it may be a path: `::libc::c_int`.
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

/// Returns the last names of the traits in `impl Trait for Type` at the beginning of `tokens`.
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

/// Returns whether the token `at` follows `::`.
fn is_after_colons(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2
        && is_punct(tokens.get(at - 2), ':')
        && tokens.get(at - 2).is_some_and(is_joint)
        && is_punct(tokens.get(at - 1), ':')
}

fn is_braced(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}
