//! Compares the methods and traits of the standard library's `Instant`, as its source declares
//! them, with those of hpt-core's.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::Path,
    process::Command,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The declarations in a file that belong to `Instant`.
#[derive(Debug, Default)]
struct Declared {
    /// The arguments and the result of each public method.
    methods: BTreeMap<String, String>,
    /// The traits that are implemented or derived, with their arguments.
    traits: BTreeSet<String>,
}

fn declared(text: &str) -> Declared {
    let tokens: Vec<TokenTree> = text.parse::<TokenStream>().expect("Rust source").into_iter().collect();
    let mut found = Declared::default();
    let mut derived = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let attribute = match &tokens[at] {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some(group),
            _ => None,
        };
        if let Some(group) = attribute {
            // The attributes of the next item.
            let attribute = group.stream().to_string();
            let listed = attribute.strip_prefix("derive").map(|list| list.trim_matches([' ', '(', ')']));
            derived.extend(listed.into_iter().flat_map(|list| list.split(',')).map(|one| one.trim().to_owned()));
        } else if is_word(&tokens[at], "struct") {
            if is_word(&tokens[at + 1], "Instant") {
                found.traits.append(&mut std::mem::take(&mut derived).into_iter().collect());
            }
            derived.clear();
        } else if is_word(&tokens[at], "impl") {
            let length = tokens[at..].iter().position(is_braces).expect("a body");
            let head = spelled(&tokens[at + 1..at + length]);
            let body = &tokens[at + length];
            match head.strip_suffix("Instant").map(|rest| rest.strip_suffix(" for ")) {
                Some(Some(of)) => drop(found.traits.insert(of.replace("Self", "Instant").replace("fmt :: ", ""))),
                Some(None) if head == "Instant" => found.methods.append(&mut methods(body)),
                _ => {}
            }
            derived.clear();
            at += length;
        } else if is_word(&tokens[at], "enum") || is_word(&tokens[at], "fn") || is_word(&tokens[at], "trait") {
            derived.clear();
        }
        at += 1;
    }
    found
}

/// Returns the public methods in the body of an `impl`. What `pub(crate)` declares is not public.
fn methods(body: &TokenTree) -> BTreeMap<String, String> {
    let TokenTree::Group(body) = body else { return BTreeMap::new() };
    let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let mut found = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate() {
        if !is_word(token, "pub") {
            continue;
        }
        let after_const = at + 1 + usize::from(is_word(&tokens[at + 1], "const"));
        if !is_word(&tokens[after_const], "fn") {
            continue;
        }
        let first = after_const + 1;
        let length = tokens[first..].iter().position(is_braces).expect("a body");
        let signature = spelled(&tokens[first + 1..first + length]).replace("Self", "Instant");
        found.insert(tokens[first].to_string(), signature);
    }
    found
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(found) if found == word)
}

fn is_braces(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn spelled(tokens: &[TokenTree]) -> String {
    tokens.iter().cloned().collect::<TokenStream>().to_string().replace(" ,", ",").replace(", )", ")")
}

#[test]
fn instant_has_every_method_and_trait_of_the_standard_library() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output().expect("rustc runs");
    let sysroot = String::from_utf8(sysroot.stdout).expect("a path in UTF-8");
    let path = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/std/src/time.rs");
    let Ok(text) = fs::read_to_string(&path) else {
        let why = "skipped: the source of the standard library is not installed: rustup component add rust-src\n";
        std::io::stderr().write_all(why.as_bytes()).expect("standard error is open");
        return;
    };
    let std = declared(&text);
    assert!(std.methods.len() >= 7 && std.traits.len() >= 12, "{std:?}");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hpt-core/src/clock/instant.rs");
    let ours = declared(&fs::read_to_string(own).expect("a file of this workspace"));
    let missing: Vec<_> =
        std.methods.iter().filter(|&(name, signature)| ours.methods.get(name) != Some(signature)).collect();
    assert!(missing.is_empty(), "{missing:?} are missing among {:?}", ours.methods);
    let missing: Vec<_> = std.traits.difference(&ours.traits).collect();
    assert!(missing.is_empty(), "{missing:?} are missing among {:?}", ours.traits);
}

#[test]
fn declarations_are_read_from_source() {
    let found = declared(
        "#[derive(Copy, Clone)] pub struct Instant(u64);
        #[derive(Eq)] struct Other;
        impl Instant {
            #[must_use] pub const fn since(&self, earlier: Self) -> Option<Duration> { None }
            pub(crate) fn hidden(self) {}
            fn own(&self) {}
        }
        impl Add<Duration> for Instant { fn add(self) {} }
        impl Add<Duration> for Other {}",
    );
    assert_eq!(found.methods.keys().collect::<Vec<_>>(), ["since"]);
    let moved = declared("impl Instant { pub fn since(self, earlier: Instant) -> Option<Duration> { None } }");
    assert_ne!(found.methods["since"], moved.methods["since"], "another receiver");
    assert_eq!(found.traits.into_iter().collect::<Vec<_>>(), ["Add < Duration >", "Clone", "Copy"]);
}
