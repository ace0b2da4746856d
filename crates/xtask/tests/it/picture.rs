//! Compares the picture of the crates in docs/design.md with the code.

use std::{fs, path::Path};

#[test]
fn the_picture_of_the_crates_is_that_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = root.join("docs/design.md");
    let text = fs::read_to_string(&page).expect("the page exists");
    let (begin, end) = ("<!-- crates:begin, by a test -->\n", "<!-- crates:end -->");
    let (before, rest) = text.split_once(begin).expect("the page has the picture");
    let (drawn, after) = rest.split_once(end).expect("the picture ends");
    let picture = format!("\n{}\n", xtask::picture::of_crates(&root).expect("every crate has a manifest"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, format!("{before}{begin}{picture}{end}{after}")).expect("the page can be written");
    } else {
        assert_eq!(drawn, picture, "UPDATE_DOCS=1 cargo test -p xtask updates docs/design.md");
    }
}
