//! Measures the size of the project: tracked files, the longest sources, lines of shell and awk.
//! Informational only: no check depends on these figures.

use std::{collections::BTreeSet, fmt, fs, io, path::Path, process::Command};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::{
    Attribute, ImplItem, Item, TraitItem,
    spanned::Spanned as _,
    visit::{self, Visit},
};

use crate::facts::is_for_tests;

/// The number of sources that are listed.
const LONGEST: usize = 10;

/// The figures of a working tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The number of files in Git.
    pub files: usize,
    /// Sources below `src` with their lines of code, the longest first. A line of code contains a
    /// token that is neither in a comment nor in test code.
    pub sources: Vec<(usize, String)>,
    /// The lines of bash and sh scripts, comments included.
    pub shell_lines: usize,
    /// The lines of awk program files, comments included.
    pub awk_lines: usize,
}

impl Figures {
    /// Counts the files that Git tracks in `directory` and below.
    ///
    /// # Errors
    ///
    /// Fails if `git ls-files` fails, a file cannot be read, or a source is not valid Rust.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(directory).output()?;
        if !listed.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr)));
        }
        let mut figures = Self::default();
        for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            figures.files += 1;
            let Ok(text) = fs::read_to_string(directory.join(path)) else { continue };
            figures.count(path, &text).map_err(|error| io::Error::other(format!("{path}: {error}")))?;
        }
        figures.sources.sort_by(|one, other| other.cmp(one));
        Ok(figures)
    }

    fn count(&mut self, path: &str, text: &str) -> syn::Result<()> {
        let interpreter = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
        if path.ends_with(".awk") {
            self.awk_lines += text.lines().count();
        } else if path.ends_with(".bash") || path.ends_with(".sh") || interpreter.ends_with("sh") {
            self.shell_lines += text.lines().count();
        } else if path.ends_with(".rs") && (path.starts_with("src/") || path.contains("/src/")) {
            self.sources.push((lines_of_code(text)?, path.to_owned()));
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:6} tracked files", self.files)?;
        writeln!(f, "{:6} lines of bash", self.shell_lines)?;
        writeln!(f, "{:6} lines of awk", self.awk_lines)?;
        let all: usize = self.sources.iter().map(|(lines, _)| lines).sum();
        writeln!(f, "{all:6} lines of code below src, without tests and comments; the longest files:")?;
        self.sources.iter().take(LONGEST).try_for_each(|(lines, path)| writeln!(f, "{lines:6} {path}"))
    }
}

/// Returns the number of lines that contain a token of the program. Comments, documentation and
/// test code do not count.
///
/// # Errors
///
/// Fails if `text` is not valid Rust.
pub fn lines_of_code(text: &str) -> syn::Result<usize> {
    let file = syn::parse_file(text)?;
    if file.attrs.iter().any(is_for_tests) {
        return Ok(0);
    }
    let mut tests = Tests::default();
    tests.visit_file(&file);
    // The first line may be a `#!` line.
    let tokens: TokenStream = text.strip_prefix("#!/").unwrap_or(text).parse()?;
    let mut lines = BTreeSet::new();
    count_tokens(tokens, &mut |span| {
        let (first, last) = (span.start().line, span.end().line);
        if !tests.ranges.iter().any(|(begin, end)| (*begin..=*end).contains(&first)) {
            lines.extend(first..=last);
        }
    });
    Ok(lines.len())
}

/// Calls `count` with every token except those of documentation.
fn count_tokens(tokens: TokenStream, count: &mut impl FnMut(Span)) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let rest = &tokens[at..];
        if let Some(length) = documentation(rest) {
            at += length;
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                count(group.span_open());
                count_tokens(group.stream(), count);
                count(group.span_close());
            }
            token => count(token.span()),
        }
        at += 1;
    }
}

/// Returns the number of tokens of `#[doc = ".."]` or `#![doc = ".."]`, as which a documentation
/// comment is parsed.
fn documentation(tokens: &[TokenTree]) -> Option<usize> {
    let is =
        |at: usize, wanted: char| matches!(tokens.get(at), Some(TokenTree::Punct(sign)) if sign.as_char() == wanted);
    let at = if !is(0, '#') {
        return None;
    } else if is(1, '!') {
        2
    } else {
        1
    };
    let Some(TokenTree::Group(group)) = tokens.get(at) else { return None };
    let first = group.stream().into_iter().next();
    let is_doc = matches!(&first, Some(TokenTree::Ident(name)) if name == "doc");
    (group.delimiter() == Delimiter::Bracket && is_doc).then_some(at + 1)
}

/// Finds the lines of test items.
#[derive(Default)]
struct Tests {
    ranges: Vec<(usize, usize)>,
}

impl Tests {
    /// Returns whether an item is for tests, and records its lines if it is.
    fn keep(&mut self, attributes: &[Attribute], item: Span) -> bool {
        let test = attributes.iter().any(is_for_tests);
        if test {
            self.ranges.push((item.start().line, item.end().line));
        }
        test
    }
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if !self.keep(attributes, item.span()) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Const(item) => &item.attrs,
            _ => &[],
        };
        self.keep(attributes, item.span());
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if let TraitItem::Fn(function) = item {
            self.keep(&function.attrs, item.span());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, lines_of_code};

    #[test]
    fn comments_documentation_and_tests_do_not_count() {
        let text = "//! A file.\n\n/// One.\nfn one() { // here\n    two();\n}\n/* no */\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(lines_of_code(text).expect("it is Rust"), 3);
    }

    #[test]
    fn every_line_of_a_multi_line_string_counts() {
        assert_eq!(lines_of_code("const A: &str = \"a\nb\nc\";\n").expect("it is Rust"), 3);
    }

    #[test]
    fn files_are_counted_by_kind() {
        let mut figures = Figures::default();
        for (path, text) in [
            ("scripts/one", "#!/usr/bin/env bash\necho\n"),
            ("scripts/lib/two.bash", "echo\n"),
            ("scripts/three.awk", "{ print }\n"),
            ("crates/a/src/lib.rs", "fn f() {}\n"),
            ("crates/a/tests/it.rs", "fn f() {}\n"),
        ] {
            figures.count(path, text).expect("it is Rust");
        }
        let sources = vec![(1, "crates/a/src/lib.rs".to_owned())];
        assert_eq!(figures, Figures { files: 0, sources, shell_lines: 3, awk_lines: 1 });
    }
}
