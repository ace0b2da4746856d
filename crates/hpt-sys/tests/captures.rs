//! The text format of captures: written captures can be read again, and damaged or hostile ones are
//! rejected with the line number.

#![allow(clippy::disallowed_methods, reason = "tests write files of their own")]

#[macro_use(skipped)]
extern crate hpt_sys;

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use hpt_sys::{
    host::{Capture, CaptureError, Entry, ReadRefused},
    testing::hosts::{all, capture_of, path_of},
};
use proptest::{
    collection::vec,
    prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest},
};

/// A capture that uses every feature of the format.
const ALL: &str = "\
hpt-capture 1
about
|Captured on a machine\tof tests.
|
|It does not exist.
facts
|{
|}
no-newline
file proc/cpuinfo
|model name : µ
file proc/device-tree/model
=52 61 73 70 62 65 72 72 79 20 50 69 20 34 20 4d  Raspberry.Pi.4.M
=6f 64 65 6c 00                                   odel.
file proc/empty
link proc/device-tree-too -> ../../outside of it
unreadable permission-denied sys/one
unreadable error-5 sys/two
unreadable not-a-regular-file sys/three
unreadable too-large sys/four
absent sys/five and more
end
";

fn capture(text: &str) -> Capture {
    Capture::parse(text.as_bytes()).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

#[test]
fn every_kind_of_entry_in_a_capture_is_parsed() {
    let all = capture(ALL);
    assert_eq!(all.about(), "Captured on a machine\tof tests.\n\nIt does not exist.\n");
    assert_eq!(all.facts(), "{\n}");
    let expected: [(&str, Entry); 9] = [
        ("proc/cpuinfo", Entry::File("model name : µ\n".into())),
        ("proc/device-tree-too", Entry::Link("../../outside of it".to_owned())),
        ("proc/device-tree/model", Entry::File(b"Raspberry Pi 4 Model\0".to_vec())),
        ("proc/empty", Entry::File(Vec::new())),
        ("sys/four", Entry::Unreadable(ReadRefused::TooLarge)),
        ("sys/one", Entry::Unreadable(ReadRefused::PermissionDenied)),
        ("sys/three", Entry::Unreadable(ReadRefused::NotRegular)),
        ("sys/two", Entry::Unreadable(ReadRefused::Errno(5))),
        ("sys/five and more", Entry::Absent),
    ];
    let found: Vec<_> = all.entries().map(|(path, entry)| (path, entry.clone())).collect();
    assert_eq!(found, expected);
    for (path, entry) in &expected {
        assert_eq!(all.get(path), Some(entry), "{path}");
    }
    assert_eq!(all.get("proc"), None, "a folder is not an entry");
    assert_eq!(capture(&all.to_string()), all);
}

/// Replaces a line of the capture above, which must contain it.
fn with(line: &str, by: &str) -> String {
    let line = format!("{line}\n");
    assert!(ALL.contains(&line), "{line}");
    ALL.replacen(&line, by, 1)
}

#[test]
fn every_fault_is_reported_with_its_line_and_a_fix() {
    let text = |by: &str| with("|model name : µ", &format!("{by}\n"));
    let path = |by: &str| with("file proc/empty", &format!("file {by}\n"));
    let hex = |by: &str| with("=6f 64 65 6c 00                                   odel.", &format!("{by}\n"));
    let faults: Vec<(String, usize, &str)> = vec![
        (String::new(), 1, "not a capture"),
        ("hpt-capture".to_owned(), 1, "not a capture"),
        ("root:x:0:0:secret\n".to_owned(), 1, "`Host::capture` creates one"),
        ("hpt-capture 2\n".to_owned(), 1, "newer version"),
        (with("hpt-capture 1", "hpt-capture 1\nbase other.capture\n"), 2, "derived from other.capture"),
        (with("hpt-capture 1", "hpt-capture 1\nbase ../other.capture\n"), 2, "in the same directory"),
        (with("hpt-capture 1", "hpt-capture 1\nbase other\n"), 2, "NAME.capture"),
        (with("hpt-capture 1", "hpt-capture 1\nbase ..capture\n"), 2, "NAME.capture"),
        (with("about", ""), 2, "`about`"),
        (with("facts", ""), 9, "the facts are missing"),
        (with("file proc/cpuinfo", ""), 10, "is not recognized"),
        (text("model name : x"), 11, "starts with `|`"),
        (text(" |model name : x"), 11, "starts with `|`"),
        (text(""), 11, "is not recognized"),
        (text("|model name : x\r"), 11, "dos2unix"),
        (text("|a\u{1b}[31m"), 11, "U+001B"),
        (text("|a\u{202e}b"), 11, "U+202E"),
        (text("|a\u{7f}"), 11, "U+007F"),
        (text("|a\n=00"), 12, "are mixed"),
        (text("|\nno-newline"), 12, "remove this line"),
        (text("|a\n|\nno-newline"), 13, "remove this line"),
        (text("no-newline"), 11, "is not recognized"),
        (text("|a\nno-newline\nno-newline"), 13, "is not recognized"),
        (hex("="), 14, "is not a byte"),
        (hex("=0"), 14, "is not a byte"),
        (hex("=0x"), 14, "is not a byte"),
        (hex("=6F"), 14, "is not a byte"),
        (hex("=+1"), 14, "is not a byte"),
        (hex("=6f64"), 14, "is not a byte"),
        (hex("=00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"), 14, "more than 16"),
        (hex("=6f 64  xx"), 14, "the text next to them is"),
        (path("/proc/empty"), 15, "starts with a slash"),
        (path(""), 15, "it is empty"),
        (path("proc/../etc/passwd"), 15, "`..`"),
        (path(".."), 15, "`..`"),
        (path("proc/./empty"), 15, "`.`"),
        (path("proc//empty"), 15, "is empty"),
        (path("proc/empty/"), 15, "is empty"),
        (path("proc/empty "), 15, "a space"),
        (path("a\tb"), 15, "control character"),
        (path("a -> b"), 15, "arrow"),
        (path(&"x".repeat(513)), 15, "longer than 512"),
        (path(&["x"; 65].join("/")), 15, "more than 64"),
        (path("proc/cpuinfo"), 15, "is already on line 10"),
        (path("proc/device-tree"), 15, "is not a directory"),
        (path("proc/cpuinfo/more"), 15, "is not a directory"),
        (path("sys/five and more/x"), 21, "is not a directory"),
        (with("link proc/device-tree-too -> ../../outside of it", "link proc/x\n"), 16, "has no target"),
        (with("link proc/device-tree-too -> ../../outside of it", "link proc/x -> \n"), 16, "the target is empty"),
        (with("unreadable error-5 sys/two", "unreadable sys/two\n"), 18, "is not a valid reason"),
        (with("unreadable error-5 sys/two", "unreadable error-0 sys/two\n"), 18, "is not a valid reason"),
        (with("unreadable error-5 sys/two", "unreadable error-05 sys/two\n"), 18, "is not a valid reason"),
        (with("unreadable error-5 sys/two", "unreadable error-4096 sys/two\n"), 18, "is not a valid reason"),
        (with("unreadable error-5 sys/two", "removed sys/two\n"), 18, "with a base"),
        (with("end", ""), 22, "is truncated"),
        (with("end", "end\n\n"), 23, "the last line"),
        (format!("{ALL}x\n"), 23, "the last line"),
        (ALL.trim_end().to_owned(), 22, "be truncated"),
    ];
    for (text, line, help) in faults {
        let fault = Capture::parse(text.as_bytes()).expect_err(&text);
        assert!(
            fault.line == line && fault.to_string().contains(help),
            "{fault}\ninstead of line {line}: {help}\n{text}"
        );
        // It is safe for a terminal, and not long.
        let said = fault.to_string();
        assert!(said.len() < 400 && !said.contains(char::is_control), "{said:?}");
    }
    let bytes = b"hpt-capture 1\nabout\n|\xff\n";
    assert!(Capture::parse(bytes).expect_err("it is not UTF-8").to_string().contains("line 3: the line is not UTF-8"));
    let secret = Capture::parse(b"root:secret").expect_err("it is not a capture");
    assert!(!secret.to_string().contains("secret"), "nothing is quoted of a file that may be anything");
}

#[test]
fn a_capture_cut_off_at_any_byte_is_refused() {
    for length in 0..ALL.len() {
        Capture::parse(&ALL.as_bytes()[..length]).expect_err("it lacks its end");
    }
}

#[test]
fn a_path_that_a_capture_cannot_contain_is_not_inserted() {
    let mut all = capture(ALL);
    let file = || Entry::File(Vec::new());
    for path in
        ["", "/proc/x", "..", "a/../b", "a//b", "a\nb", "a\u{202e}", " a", "proc/cpuinfo/x", "proc", "sys/one/x"]
    {
        let refused = all.insert(path, file()).expect_err(path);
        assert_eq!(refused.path, path);
    }
    all.insert("a", Entry::Link("b\n".to_owned())).expect_err("a target of two lines");
    assert_eq!(all, capture(ALL), "nothing was changed");
    all.insert("proc/empty", Entry::Absent).expect("it is replaced");
    assert_eq!(all.get("proc/empty"), Some(&Entry::Absent));
    assert_eq!((all.remove("proc/empty"), all.remove("proc/empty")), (Some(Entry::Absent), None));
    assert_eq!(all.get("proc/empty"), None);
    all.insert("sys/five and more", file()).expect("it is replaced");
    assert_eq!(all.entries().filter(|(path, _)| *path == "sys/five and more").count(), 1);
}

/// Writes captures to a directory.
fn folder_of(captures: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in captures {
        fs::write(folder.path().join(name), text).expect("ours");
    }
    folder
}

fn derived_from(base: &str, sections: &str) -> String {
    format!("hpt-capture 1\nbase {base}\nabout\n|Derived from it.\n{sections}end\n")
}

#[test]
fn a_derived_capture_overlays_its_base() {
    let changes = "facts\n|{}\nfile proc/cpuinfo\n|another\nfile sys/five and more\nremoved proc/empty\nremoved sys/one\nabsent sys/two\nfile sys/one/below\n|x\n";
    let again = "file proc/empty\n|again\n";
    let folder = folder_of(&[
        ("base.capture", ALL),
        ("derived.capture", &derived_from("base.capture", changes)),
        ("twice.capture", &derived_from("derived.capture", again)),
    ]);
    let mut expected = capture(ALL);
    expected.set_about("Derived from it.\n");
    expected.set_facts("{}\n");
    for path in ["proc/empty", "sys/one"] {
        expected.remove(path);
    }
    for (path, entry) in [
        ("proc/cpuinfo", Entry::File(b"another\n".to_vec())),
        ("sys/five and more", Entry::File(Vec::new())),
        ("sys/two", Entry::Absent),
        ("sys/one/below", Entry::File(b"x\n".to_vec())),
    ] {
        expected.insert(path, entry).expect("it is sound");
    }
    let open = |name: &str| Capture::open(&folder.path().join(name)).expect(name);
    assert_eq!(open("derived.capture"), expected);
    expected.insert("proc/empty", Entry::File(b"again\n".to_vec())).expect("it is sound");
    assert_eq!(open("twice.capture"), expected);
    // A written capture is self-contained.
    assert_eq!(capture(&expected.to_string()), expected);
}

#[test]
fn a_derived_capture_that_does_not_fit_its_base_is_refused_with_its_line() {
    for (sections, line, help) in [
        ("removed proc/absent\n", 5, "is not in the base"),
        ("removed proc\n", 5, "is not in the base"),
        ("file proc/cpuinfo/more\n", 5, "is not a directory"),
        ("absent proc/swaps\nfile proc\n", 6, "is not a directory"),
        ("removed proc/empty\nfile proc/empty\n", 6, "is already on line 5"),
    ] {
        let folder = folder_of(&[("base.capture", ALL), ("x.capture", &derived_from("base.capture", sections))]);
        let path = folder.path().join("x.capture");
        match Capture::open(&path).expect_err(sections) {
            CaptureError::Faulty { path: named, fault } => {
                assert_eq!((named, fault.line), (path, line), "{fault}");
                assert!(fault.to_string().contains(help), "{fault}");
            }
            other => panic!("{sections}: {other}"),
        }
    }
}

#[test]
fn bases_that_are_missing_or_outside_of_the_directory_are_refused() {
    let derived = |base: &str| derived_from(base, "");
    let chain: Vec<(String, String)> =
        (0..20).map(|at| (format!("{at}.capture"), derived(&format!("{}.capture", at + 1)))).collect();
    let mut files: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let (own, absent, link, pipe, foul) = (
        derived("own.capture"),
        derived("absent.capture"),
        derived("link.capture"),
        derived("pipe.capture"),
        derived("foul.capture"),
    );
    files.extend([("own.capture", own.as_str()), ("to-absent.capture", &absent), ("to-link.capture", &link)]);
    files.extend([("to-pipe.capture", pipe.as_str()), ("to-foul.capture", &foul), ("foul.capture", "secret\n")]);
    files.extend([("20.capture", ALL), ("whole.capture", ALL)]);
    let folder = folder_of(&files);
    let path = |name: &str| folder.path().join(name);
    symlink("whole.capture", path("link.capture")).expect("ours");
    fs::create_dir(path("folder.capture")).expect("ours");
    let made = Command::new("mkfifo").arg(path("pipe.capture")).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo is part of every system");
    let said = |name: &str| {
        let refused = Capture::open(&path(name)).expect_err(name);
        let cause = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
        format!("{refused}: {cause}")
    };
    for (name, help) in [
        ("own.capture", "derived from itself"),
        ("0.capture", "through a chain of more than 8 captures"),
        ("to-absent.capture", "absent.capture: No such file"),
        ("to-link.capture", "not a regular file"),
        ("to-pipe.capture", "not a regular file"),
        ("folder.capture", "not a regular file"),
        ("pipe.capture", "not a regular file"),
        ("to-foul.capture", "foul.capture: line 1: this is not a capture"),
        ("nowhere.capture", "No such file"),
    ] {
        let said = said(name);
        assert!(said.contains(help) && !said.contains("secret"), "{name}: {said}");
    }
    assert_eq!(
        Capture::open(&path("12.capture")).expect("eight bases").get("proc/empty"),
        Some(&Entry::File(Vec::new()))
    );
    // The file on the command line may be a link.
    Capture::open(&path("link.capture")).expect("a link to a capture");
}

/// Any content: mostly text, sometimes with invisible characters, sometimes binary.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "([a-z |=µ\t]{0,12}\n){0,4}[a-z |=]{0,12}".prop_map(String::into_bytes),
        vec(any::<char>(), 0..20).prop_map(|letters| letters.into_iter().collect::<String>().into_bytes()),
        vec(any::<u8>(), 0..40),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        6 => content().prop_map(Entry::File),
        1 => "[a-z/.>-]{1,20}".prop_map(Entry::Link),
        1 => any::<bool>().prop_map(|_| Entry::Absent),
        1 => (1..4096_u16).prop_map(|errno| Entry::Unreadable(ReadRefused::Errno(errno))),
        1 => any::<u8>().prop_map(|any| Entry::Unreadable(match any % 3 {
            0 => ReadRefused::PermissionDenied,
            1 => ReadRefused::NotRegular,
            _ => ReadRefused::TooLarge,
        })),
    ]
}

/// Text without content that must be hidden from other users: `parse` accepts any such text.
fn written() -> impl Strategy<Value = Capture> {
    let text = || vec(any::<char>(), 0..20).prop_map(|letters| letters.into_iter().collect::<String>());
    (text(), text(), vec(("[a-c .#@:,-]{1,3}(/[a-c0 -]{1,2}){0,3}", entry()), 0..24)).prop_map(
        |(about, facts, entries)| {
            let mut capture = Capture::new();
            capture.set_about(about);
            capture.set_facts(facts);
            for (path, entry) in entries {
                // Omits entries that a capture cannot contain.
                let _ = capture.insert(&path, entry);
            }
            capture
        },
    )
}

proptest! {
    #[test]
    fn written_text_parses_to_the_same_value(capture in written()) {
        let text = capture.to_string();
        prop_assert_eq!(Capture::parse(text.as_bytes()).expect("hpt wrote it"), capture, "{}", text);
        let is_odd = |letter: char| letter.is_control() && !['\n', '\t'].contains(&letter);
        prop_assert!(!text.contains(is_odd), "{text:?}");
    }

    /// Changed, removed and inserted bytes, and moved lines: the text is rejected, or read and then
    /// written unchanged.
    #[test]
    fn a_damaged_capture_is_read_or_refused(
        capture in written(),
        damages in vec((any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), any::<u8>(), 0..5_u8), 1..6),
    ) {
        let mut bytes = capture.to_string().into_bytes();
        for (at, to, byte, what) in damages {
            if bytes.is_empty() {
                break;
            }
            let (at, to) = (at.index(bytes.len()), to.index(bytes.len()));
            match what {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                3 => bytes.swap(at, to),
                _ => {
                    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
                    let (at, to) = (at % lines.len(), to % lines.len());
                    lines.swap(at, to);
                    bytes = lines.concat();
                }
            }
        }
        match Capture::parse(&bytes) {
            Ok(read) => prop_assert_eq!(Capture::parse(read.to_string().as_bytes()).expect("hpt wrote it"), read),
            Err(fault) => {
                let last = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
                prop_assert!((1..=last).contains(&fault.line) && !fault.to_string().contains(char::is_control), "{fault}");
            }
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..200), begins in any::<bool>()) {
        let begin: &[u8] = if begins { b"hpt-capture 1\nabout\nfacts\n" } else { b"" };
        let _ = Capture::parse(&[begin, &bytes].concat());
    }
}

#[test]
fn every_captured_machine_round_trips() {
    for name in all() {
        let whole = capture_of(&name);
        assert_eq!(capture(&whole.to_string()), whole, "{name}");
        // A capture that is not derived has the text that hpt writes.
        let text = fs::read_to_string(path_of(&name)).expect("readable");
        assert!(text.contains("\nbase ") || text == whole.to_string(), "{name}");
    }
}

#[test]
fn the_capture_on_the_platform_page_is_valid() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/platform.md");
    let Ok(page) = fs::read_to_string(page) else {
        return skipped!("the project's docs/ are not part of the published package");
    };
    let (_, example) = page.split_once("```text\nhpt-capture").expect("the page has one");
    let (example, _) = example.split_once("```").expect("which ends");
    let example = capture(&format!("hpt-capture{example}"));
    assert_eq!(example.get("proc/device-tree/model"), Some(&Entry::File(b"Raspberry Pi 4\0".to_vec())));
    assert_eq!(capture(&example.to_string()), example);
}
