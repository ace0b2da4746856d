//! Where unsafe code is allowed: cargo enforces it if each crate says so.

use std::{fs, path::Path};

/// The crates with unsafe code of their own.
const EXCEPT: [&str; 2] = ["hpt-preload", "hpt-sys"];

#[test]
fn every_other_crate_forbids_unsafe_code() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut checked = 0;
    for entry in fs::read_dir(crates).expect("the crates are in one directory") {
        let folder = entry.expect("readable").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        for root in ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)) {
            let Ok(text) = fs::read_to_string(&root) else { continue };
            let forbids = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
            assert_eq!(forbids, !EXCEPT.contains(&name.as_str()), "{}", root.display());
            checked += 1;
        }
    }
    assert!(checked > EXCEPT.len(), "the crates are found");
}
