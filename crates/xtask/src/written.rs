//! A path as it is written, and how.
//! Does not know what it stands for: `program` does.

use std::fmt;

use proc_macro2::Span;
use syn::{Ident, ext::IdentExt as _};

/// A path as it is written, without generic arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Written {
    /// It begins with `::`, so that its first name is a crate.
    pub absolute: bool,
    /// Its names. `r#type` is `type`.
    pub names: Vec<String>,
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

impl Written {
    /// The beginning of a path.
    pub(crate) fn start(absolute: bool) -> Self {
        Self { absolute, names: Vec::new() }
    }

    /// The path with one more name.
    pub(crate) fn with(&self, name: &Ident) -> Self {
        let mut path = self.clone();
        path.names.push(name.unraw().to_string());
        path
    }

    /// `Self::new`, and the variable `self`: names of something that was mentioned elsewhere.
    pub(crate) fn begins_with_a_type(&self) -> bool {
        self.names[0] == "Self" || self.names == ["self"]
    }

    /// The path of an expression, a type or whatever else has one.
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

/// Where a path begins.
pub(crate) fn begin(path: &syn::Path) -> Span {
    path.segments.first().map_or_else(Span::call_site, |segment| segment.ident.span())
}
