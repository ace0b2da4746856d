//! A path as written in the source, and its role.
//! Does not resolve paths: `program` does.

use std::fmt;

use proc_macro2::Span;
use syn::{Ident, ext::IdentExt as _};

/// A path as written in the source, without generic arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Written {
    /// Whether the path begins with `::`, so that its first name is a crate.
    pub absolute: bool,
    /// The names. `r#type` becomes `type`.
    pub names: Vec<String>,
}

/// The role of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Part of an expression, a type, a pattern, an attribute or the tokens of a macro.
    Code,
    /// The name of a macro that is called.
    Macro,
    /// A private `use`.
    Import,
    /// A `use` that is visible to other modules.
    ReExport,
    /// A `use` of all names of a module.
    Glob,
    /// `pub(in path)`.
    Visibility,
}

impl Written {
    /// Creates an empty path.
    pub(crate) fn start(absolute: bool) -> Self {
        Self { absolute, names: Vec::new() }
    }

    /// Returns the path with one more name.
    pub(crate) fn with(&self, name: &Ident) -> Self {
        let mut path = self.clone();
        path.names.push(name.unraw().to_string());
        path
    }

    /// Returns whether the path begins with `Self`, or is the variable `self`. Such paths refer to
    /// an item that is named elsewhere.
    pub(crate) fn begins_with_a_type(&self) -> bool {
        self.names[0] == "Self" || self.names == ["self"]
    }

    /// Converts a path of the syntax tree.
    pub(crate) fn of(path: &syn::Path) -> Self {
        let names = path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
        Self { absolute: path.leading_colon.is_some(), names }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.absolute { "::" } else { "" }, self.names.join("::"))
    }
}

/// Returns the location of the first name of a path.
pub(crate) fn begin(path: &syn::Path) -> Span {
    path.segments.first().map_or_else(Span::call_site, |segment| segment.ident.span())
}
