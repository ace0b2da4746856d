//! The source tree: the text of every Rust file and manifest, and the targets that Cargo builds
//! from them.
//! Does not interpret a file: `facts` does, once for each text.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use crate::{facts::Facts, violation::Violation};

/// What a target is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A library.
    Library,
    /// A program.
    Program,
    /// An integration test, a benchmark or an example: code that nothing else is built on.
    Test,
    /// A build script.
    BuildScript,
}

/// A crate as rustc sees it: one root file and the modules that it declares.
#[derive(Clone, Debug)]
pub struct Target {
    /// The package that it belongs to.
    pub package: String,
    /// Its name, as a path in Rust spells it.
    pub name: String,
    /// What it is built for.
    pub kind: Kind,
    /// Its root file.
    pub root: String,
}

/// A file's text, and what it says once somebody asked.
#[derive(Debug)]
pub struct Source {
    /// The text.
    pub text: String,
    facts: OnceLock<Result<Facts, NotRust>>,
}

/// Why a text is not Rust, and in which line.
#[derive(Clone, Debug)]
struct NotRust {
    line: usize,
    message: String,
}

impl Source {
    /// What the file says.
    ///
    /// # Errors
    ///
    /// It is not Rust. `path` is where it is.
    pub fn facts(&self, path: &str) -> Result<&Facts, Violation> {
        let facts = self.facts.get_or_init(|| {
            Facts::read(&self.text).map_err(|error| NotRust {
                line: error.span().start().line,
                message: format!("this is not Rust: {error}"),
            })
        });
        facts.as_ref().map_err(|error| Violation::new(path, error.line, error.message.clone()))
    }
}

/// A workspace in memory, of which a copy shares the files. Paths are relative to its root and have
/// `/` between their parts.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Each `.rs` file and each `Cargo.toml`.
    pub files: BTreeMap<String, Arc<Source>>,
    /// What Cargo builds.
    pub targets: Vec<Target>,
    /// The directories of the workspace's packages.
    pub packages: BTreeSet<String>,
}

impl Tree {
    /// Reads the workspace that `directory` is in.
    ///
    /// # Errors
    ///
    /// `cargo metadata` fails, or a file cannot be read.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let metadata = metadata(directory)?;
        let root = PathBuf::from(text(&metadata, "workspace_root")?).canonicalize()?;
        let mut tree = Self::default();
        tree.read_directory(&root, &root)?;
        for package in list(&metadata, "packages")? {
            let manifest = relative(&root, text(package, "manifest_path")?)?;
            tree.packages.insert(parent(&manifest).to_owned());
            for target in list(package, "targets")? {
                tree.targets.push(Target {
                    package: text(package, "name")?.to_owned(),
                    name: text(target, "name")?.replace('-', "_"),
                    kind: kind(target)?,
                    root: relative(&root, text(target, "src_path")?)?,
                });
            }
        }
        Ok(tree)
    }

    /// Reads what is below `directory`. Follows no symbolic links, so that no file is read twice.
    fn read_directory(&mut self, root: &Path, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let file_type = entry.file_type()?;
            if file_type.is_dir() && name != "target" && !name.starts_with('.') {
                self.read_directory(root, &path)?;
            } else if file_type.is_file() && (name.ends_with(".rs") || name == "Cargo.toml") {
                let path_in_tree = path.strip_prefix(root).expect("the walk began at the root");
                self.put(&path_in_tree.to_string_lossy(), fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    /// Puts a file into the tree, or this text into its place.
    pub fn put(&mut self, path: &str, text: String) {
        self.files.insert(path.to_owned(), Arc::new(Source { text, facts: OnceLock::new() }));
    }

    /// The `.rs` files.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Arc<Source>)> {
        self.files.iter().filter(|(path, _)| path.ends_with(".rs")).map(|(path, source)| (path.as_str(), source))
    }
}

/// The directory that `path` is in; empty for the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// `path`, taken from `directory`, without `.` and `..`.
pub(crate) fn join(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn metadata(directory: &Path) -> io::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(directory)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

fn kind(target: &Value) -> io::Result<Kind> {
    let kinds = list(target, "kind")?;
    let is = |name: &str| kinds.iter().any(|kind| kind == name);
    Ok(if is("bin") {
        Kind::Program
    } else if is("test") || is("bench") || is("example") {
        Kind::Test
    } else if is("custom-build") {
        Kind::BuildScript
    } else {
        Kind::Library
    })
}

/// `path` without the workspace's root. Cargo may name a file by a symbolic link.
fn relative(root: &Path, path: &str) -> io::Result<String> {
    let path = Path::new(path).canonicalize()?;
    let path = path.strip_prefix(root).map_err(io::Error::other)?;
    Ok(path.to_string_lossy().into_owned())
}

fn text<'a>(value: &'a Value, key: &str) -> io::Result<&'a str> {
    value[key].as_str().ok_or_else(|| io::Error::other(format!("cargo metadata gives no {key}")))
}

fn list<'a>(value: &'a Value, key: &str) -> io::Result<&'a [Value]> {
    let list = value[key].as_array().ok_or_else(|| io::Error::other(format!("cargo metadata gives no {key}")))?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::{join, parent};

    #[test]
    fn a_path_is_joined_without_dots() {
        assert_eq!(join("crates/model/src", "../../core/src/clock.rs"), "crates/core/src/clock.rs");
        assert_eq!(join("", "./src/lib.rs"), "src/lib.rs");
    }

    #[test]
    fn a_file_at_the_root_is_in_the_empty_directory() {
        assert_eq!(parent("Cargo.toml"), "");
        assert_eq!(parent("src/a/b.rs"), "src/a");
    }
}
