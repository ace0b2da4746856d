//! The picture of the crates in docs/design.md: what each builds on, and its modules, as its own files say.

use std::{fs, io, path::Path};

/// The crates that are published, on crates.io or as a Python package, each after those that it builds on.
const CRATES: [&str; 10] = [
    "hpt-sys",
    "hpt-core",
    "hpt-realtime",
    "hpt-instrument",
    "hpt-document",
    "hpt-async",
    "hpt-criterion",
    "hpt-tracing",
    "hpt-python",
    "hpt-cli",
];

/// Returns the picture, as a table in Markdown.
///
/// # Errors
///
/// A file of a crate cannot be read.
pub fn of_crates(root: &Path) -> io::Result<String> {
    let mut picture = "| crate | builds on | modules |\n| --- | --- | --- |\n".to_owned();
    for name in CRATES {
        let folder = root.join("crates").join(name);
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        let program = if folder.join("src/lib.rs").exists() { "src/lib.rs" } else { "src/main.rs" };
        let mut modules = modules(&fs::read_to_string(folder.join(program))?);
        if let Ok(text) = fs::read_to_string(folder.join("src/linux/mod.rs")) {
            modules.extend(self::modules(&text));
            modules.retain(|module| module != "linux" && module != "elsewhere");
        }
        modules.sort();
        let code = |names: Vec<String>| {
            let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
            if names.is_empty() { "-".to_owned() } else { names.join(", ") }
        };
        picture.push_str(&format!("| `{name}` | {} | {} |\n", code(builds_on(&manifest)), code(modules)));
    }
    Ok(picture)
}

/// Returns the crates of the workspace in a manifest's section of dependencies.
fn builds_on(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ']).next());
    names.filter(|name| CRATES.contains(name)).map(str::to_owned).collect()
}

/// Returns the modules that a file declares in files of their own.
fn modules(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub ").or(line.strip_prefix("pub(crate) ")).unwrap_or(line);
        rest.strip_prefix("mod ")?.strip_suffix(';')
    });
    names.filter(|name| !name.contains("test")).map(str::to_owned).collect()
}
