//! The source tree: the text of every Rust file and manifest, and the Cargo targets.
//! Does not interpret files: `facts` does, once for each text.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use crate::{facts::Facts, violation::Violation};

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A library.
    Library,
    /// A program.
    Program,
    /// An integration test, a benchmark or an example: code that no other crate depends on.
    Test,
    /// A build script.
    BuildScript,
}

/// A crate as rustc sees it: one root file and the modules that it declares.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its package.
    pub package: String,
    /// Its name, as in Rust paths.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its root file.
    pub root: String,
}

/// A file's text, and its contents, which are read on demand.
#[derive(Debug)]
pub struct Source {
    /// The text.
    pub text: String,
    facts: OnceLock<Result<Facts, NotRust>>,
}

/// The reason why a text is not valid Rust, and the line.
#[derive(Clone, Debug)]
struct NotRust {
    line: usize,
    message: String,
}

impl Source {
    /// Returns the contents of the file. `path` is its path, for error messages.
    ///
    /// # Errors
    ///
    /// Fails if the text is not valid Rust.
    pub fn facts(&self, path: &str) -> Result<&Facts, Violation> {
        let facts = self.facts.get_or_init(|| {
            Facts::read(&self.text).map_err(|error| NotRust {
                line: error.span().start().line,
                message: format!("this is not valid Rust: {error}"),
            })
        });
        facts.as_ref().map_err(|error| Violation::new(path, error.line, error.message.clone()))
    }
}

/// A workspace in memory. Copies share the files. Paths are relative to its root and use `/` as the
/// separator.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Each `.rs` file and each `Cargo.toml`.
    pub files: BTreeMap<String, Arc<Source>>,
    /// The Cargo targets.
    pub targets: Vec<Target>,
    /// The directories of the workspace's packages.
    pub packages: BTreeSet<String>,
}

impl Tree {
    /// Reads the workspace that contains `directory`.
    ///
    /// # Errors
    ///
    /// Fails if `cargo metadata` fails, or if a file cannot be read.
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

    /// Reads the files below `directory`. Does not follow symbolic links, so that no file is read
    /// twice.
    fn read_directory(&mut self, root: &Path, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let file_type = entry.file_type()?;
            if file_type.is_dir() && name != "target" && !name.starts_with('.') {
                self.read_directory(root, &path)?;
            } else if file_type.is_file() && (name.ends_with(".rs") || name == "Cargo.toml") {
                let path_in_tree = path.strip_prefix(root).expect("the traversal starts at the root");
                self.put(&path_in_tree.to_string_lossy(), fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    /// Adds a file to the tree, or replaces it.
    pub fn put(&mut self, path: &str, text: String) {
        self.files.insert(path.to_owned(), Arc::new(Source { text, facts: OnceLock::new() }));
    }

    /// Returns the `.rs` files.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Arc<Source>)> {
        self.files.iter().filter(|(path, _)| path.ends_with(".rs")).map(|(path, source)| (path.as_str(), source))
    }
}

/// Returns the directory that contains `path`; empty for the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Resolves `path` relative to `directory`, without `.` and `..`.
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

/// Returns `path` relative to the workspace's root. Cargo may report a path with a symbolic link.
fn relative(root: &Path, path: &str) -> io::Result<String> {
    let path = Path::new(path).canonicalize()?;
    let path = path.strip_prefix(root).map_err(io::Error::other)?;
    Ok(path.to_string_lossy().into_owned())
}

fn text<'a>(value: &'a Value, key: &str) -> io::Result<&'a str> {
    value[key].as_str().ok_or_else(|| io::Error::other(format!("cargo metadata has no {key}")))
}

fn list<'a>(value: &'a Value, key: &str) -> io::Result<&'a [Value]> {
    let list = value[key].as_array().ok_or_else(|| io::Error::other(format!("cargo metadata has no {key}")))?;
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
