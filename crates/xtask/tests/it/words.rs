//! Plants of retired phrases and long lines, and text that must pass.

use xtask::words::check_text;

/// Asserts that this text of a file gives one violation in `line` with `want`.
#[track_caller]
fn finds(path: &str, text: &str, line: usize, want: &str) {
    let violations = check_text(path, text);
    let is_right = matches!(violations.as_slice(), [one] if one.line == line && one.message.contains(want));
    assert!(is_right, "{text:?} should give {want:?} in line {line} and gave {violations:#?}");
}

#[track_caller]
fn passes(path: &str, text: &str) {
    assert_eq!(check_text(path, text), []);
}

#[test]
fn retired_phrases_are_found() {
    for phrase in [
        "Whoever",
        "bites",
        "a storey",
        "so often",
        "for so long",
        "so many",
        "is told",
        "to be had",
        "kept back",
        "Nobody",
        "somebody",
    ] {
        let wanted = phrase.trim_start_matches("a ").to_lowercase();
        finds("README.md", &format!("One.\nIt says {phrase}.\n"), 2, &wanted);
    }
}

#[test]
fn a_phrase_is_found_across_the_lines_of_a_comment() {
    finds("src/lib.rs", "//! A file.\n\nfn f() {\n    // The caller is\n    // told of it.\n}\n", 4, "is told");
}

#[test]
fn a_phrase_is_found_in_a_name() {
    finds("src/lib.rs", "fn f() {}\nfn what_bites() {}\n", 2, "bites");
    finds("src/lib.rs", "fn f() {}\nfn sleeps_for_so_long() {}\n", 2, "for so long");
}

#[test]
fn a_part_of_a_word_is_not_a_phrase() {
    passes("README.md", "The megabites; also many; it is toldest.\n");
}

#[test]
fn the_user_nobody_may_be_named() {
    passes(
        "src/lib.rs",
        "let user = \"nobody\";\n// As `nobody` it fails; chown nobody FILE; setpriv --reuid nobody hpt\n",
    );
    passes("hpt.service", "User=nobody\n");
    finds("src/lib.rs", "// It is nobody that asks.\n", 1, "nobody");
}

#[test]
fn documentation_begins_with_a_verb_or_a_noun() {
    for opening in ["Who reads it.", "What it is.", "The same as above."] {
        finds("src/lib.rs", &format!("/// {opening}\nfn f() {{}}\n"), 1, "/// ");
        passes("README.md", &format!("/// {opening}\n"));
    }
    passes("src/lib.rs", "/// Whole numbers only.\nfn f() {}\n");
}

#[test]
fn long_lines_of_markdown_are_found() {
    let long = "word ".repeat(25);
    finds("README.md", &format!("Short.\n{long}\n"), 2, "characters");
    passes("notes.txt", &long);
}

#[test]
fn tables_links_code_and_generated_blocks_may_be_long() {
    let long = "word ".repeat(25);
    passes("README.md", &format!("| {long} |\n"));
    passes("README.md", &format!("```text\n{long}\n```\n"));
    passes("README.md", &format!("<!-- rules:begin, by a test -->\n{long}\n<!-- rules:end -->\n"));
    passes("README.md", &format!("See [this](https://example.org/{}) here.\n", "a".repeat(120)));
    finds("README.md", &format!("<!-- rules:begin -->\n<!-- rules:end -->\n{long}\n"), 3, "characters");
}
