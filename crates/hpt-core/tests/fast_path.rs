//! The machine instructions of `Instant::now`, of `Instant::now_unordered` and of a pair of readings, compared with a listing in the project.
//! Needs an optimized build: `cargo test --release --package hpt-core --test fast_path`. `UPDATE_LISTING=1` writes the listing anew.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::disallowed_methods, reason = "the test writes the listing")]

use std::{collections::BTreeMap, fmt::Write as _, fs, hint::black_box, io::Write as _, path::Path, process::Command};

use hpt_core::Instant;
use hpt_sys::cast::unsigned;

#[inline(never)]
fn ordered() -> u64 {
    unsigned(Instant::now().as_nanos())
}

#[inline(never)]
fn unordered() -> u64 {
    unsigned(Instant::now_unordered().as_nanos())
}

/// Two ordered readings and their difference.
#[inline(never)]
fn pair() -> u64 {
    let start = Instant::now();
    u64::from(start.elapsed().subsec_nanos())
}

const FUNCTIONS: [&str; 3] = ["ordered", "unordered", "pair"];

/// General-purpose registers: the name of all 64 bits, then those of its parts.
const REGISTERS: [[&str; 5]; 16] = [
    ["rax", "eax", "ax", "al", "ah"],
    ["rbx", "ebx", "bx", "bl", "bh"],
    ["rcx", "ecx", "cx", "cl", "ch"],
    ["rdx", "edx", "dx", "dl", "dh"],
    ["rsi", "esi", "si", "sil", ""],
    ["rdi", "edi", "di", "dil", ""],
    ["rbp", "ebp", "bp", "bpl", ""],
    ["rsp", "esp", "sp", "spl", ""],
    ["r8", "r8d", "r8w", "r8b", ""],
    ["r9", "r9d", "r9w", "r9b", ""],
    ["r10", "r10d", "r10w", "r10b", ""],
    ["r11", "r11d", "r11w", "r11b", ""],
    ["r12", "r12d", "r12w", "r12b", ""],
    ["r13", "r13d", "r13w", "r13b", ""],
    ["r14", "r14d", "r14w", "r14b", ""],
    ["r15", "r15d", "r15w", "r15b", ""],
];

/// The instructions of one function without what differs from build to build: addresses become labels, statics lose their place, and registers are numbered in
/// the order in which they appear. `lines` are those of `objdump --disassemble -M intel`.
fn normalized(lines: &[&str]) -> String {
    let instruction = |line: &str| -> Option<(u64, String)> {
        let (address, rest) = line.trim().split_once(':')?;
        Some((u64::from_str_radix(address, 16).ok()?, rest.trim().to_owned()))
    };
    let instructions: Vec<_> = lines.iter().filter_map(|line| instruction(line)).collect();
    let addresses: Vec<u64> = instructions.iter().map(|(address, _)| *address).collect();
    let target = |text: &str| {
        let (mnemonic, rest) = text.split_once(' ')?;
        let address = u64::from_str_radix(rest.split_whitespace().next()?, 16).ok()?;
        (mnemonic.starts_with('j') && addresses.contains(&address)).then_some(address)
    };
    let mut labels: BTreeMap<u64, usize> =
        instructions.iter().filter_map(|(_, text)| target(text)).map(|address| (address, 0)).collect();
    for (number, label) in labels.values_mut().enumerate() {
        *label = number;
    }
    let (mut listing, mut seen) = (String::new(), Vec::new());
    for (address, text) in &instructions {
        // Padding between functions.
        if text.starts_with("nop")
            || text.starts_with("int3")
            || text.contains("cs nop")
            || text.starts_with("xchg   ax,ax")
        {
            continue;
        }
        if let Some(label) = labels.get(address) {
            writeln!(listing, "L{label}:").expect("a string grows");
        }
        let mnemonic = text.split_whitespace().next().unwrap_or_default();
        let operands = text.strip_prefix(mnemonic).unwrap_or_default();
        let operands = match target(text) {
            Some(address) => format!("L{}", labels[&address]),
            // The slow path, directly or through a table whose place differs.
            None if mnemonic == "call" || mnemonic.starts_with('j') => "elsewhere".to_owned(),
            None => renamed(&without_places(operands), &mut seen),
        };
        writeln!(listing, "    {mnemonic} {operands}").expect("a string grows");
    }
    listing
}

/// `[rip+0x1234]` and the comment behind it say where a static lies.
fn without_places(operands: &str) -> String {
    let operands = operands.split('#').next().unwrap_or_default().trim();
    match operands.split_once("[rip") {
        Some((before, rest)) => {
            let after = rest.split_once(']').map_or("", |(_, after)| after);
            format!("{before}[static]{after}")
        }
        None => operands.to_owned(),
    }
}

fn renamed(operands: &str, seen: &mut Vec<usize>) -> String {
    let mut out = String::new();
    let mut word = String::new();
    // A space ends the last word.
    for character in operands.chars().chain([' ']) {
        if character.is_ascii_alphanumeric() {
            word.push(character);
            continue;
        }
        let found = REGISTERS.iter().enumerate().find_map(|(register, names)| {
            names.iter().position(|name| !name.is_empty() && *name == word).map(|part| (register, part))
        });
        match found {
            Some((register, part)) => {
                let number = seen.iter().position(|&other| other == register).unwrap_or_else(|| {
                    seen.push(register);
                    seen.len() - 1
                });
                let bits = ["", ".32", ".16", ".8", ".8h"][part];
                write!(out, "r{number}{bits}").expect("a string grows");
            }
            None => out.push_str(&word),
        }
        word.clear();
        out.push(character);
    }
    out.trim().to_owned()
}

/// The functions of this program, as they are listed.
fn listing(disassembly: &str) -> String {
    let mut listing = String::new();
    for function in FUNCTIONS {
        let ends = [format!("<fast_path::{function}>:"), format!("::fast_path::{function}>:")];
        let is_start = |line: &str| {
            let name = line.split_once(" <").map(|(_, name)| format!("<{name}")).unwrap_or_default();
            // The legacy mangling ends in a hash.
            let name = match name.rsplit_once("::h") {
                Some((path, hash)) if hash.len() == 18 => format!("{path}>:"),
                _ => name,
            };
            ends.iter().any(|end| name.ends_with(end.as_str()))
        };
        let lines: Vec<_> = disassembly
            .lines()
            .skip_while(|line| !is_start(line))
            .skip(1)
            .take_while(|line| !line.trim().is_empty())
            .collect();
        write!(listing, "{function}:\n{}\n", normalized(&lines)).expect("a string grows");
    }
    listing
}

/// The version of the compiler that this program was built with, from its section .comment.
fn compiler(program: &Path) -> String {
    let bytes = fs::read(program).expect("this program can be read");
    let key = b"rustc version ";
    let start = bytes.windows(key.len()).position(|window| window == key).map_or(0, |at| at + key.len());
    bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .map(|&byte| char::from(byte))
        .collect()
}

fn skipped(why: &str) {
    std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).expect("standard error is open");
}

#[test]
fn a_reading_and_a_pair_have_the_listed_instructions() {
    if cfg!(debug_assertions) {
        return skipped("the build is not optimized: cargo test --release --package hpt-core --test fast_path");
    }
    assert!([ordered, unordered, pair].iter().all(|read| black_box(read)() < u64::MAX));
    let program = std::env::current_exe().expect("Linux tells");
    let Ok(output) = Command::new("objdump")
        .args(["--disassemble", "--demangle", "--no-show-raw-insn", "--wide", "-M", "intel", "--section=.text"])
        .arg(&program)
        .output()
    else {
        return skipped("objdump is not installed (Debian: binutils)");
    };
    let compiler = compiler(&program);
    let is = format!("rustc {compiler}\n\n{}", listing(&String::from_utf8_lossy(&output.stdout)));
    assert_eq!(is.matches("rdtsc").count(), 4, "each reading reads the counter once: {is}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fast_path/x86_64.txt");
    if std::env::var_os("UPDATE_LISTING").is_some() {
        fs::write(&path, &is).expect("the listing can be written");
    }
    let listed = fs::read_to_string(&path).expect("the listing is in the project");
    if listed != is && listed.lines().next() != is.lines().next() {
        return skipped(&format!(
            "the listing is of {}, this build of rustc {compiler}",
            listed.lines().next().unwrap_or("nothing")
        ));
    }
    assert!(listed == is, "the listing says\n{listed}\nand this build has\n{is}");
}

#[test]
fn a_listing_has_labels_and_numbered_registers() {
    let lines = [
        "   1000:\tlfence",
        "   1003:\tmov    rcx,QWORD PTR [rip+0x1234]        # 5000 <hpt_sys::native::INSTALLED>",
        "   100a:\ttest   ecx,ecx",
        "   100c:\tje     1012 <fast_path::ordered+0x12>",
        "   100e:\tmov    rax,QWORD PTR [rcx+rdx*8+0x100]",
        "   1011:\tret",
        "   1012:\tjmp    2000 <hpt_core::clock::system::slow_now_ns>",
        "   1017:\tnop    WORD PTR [rax+rax*1+0x0]",
    ];
    let expected = "    lfence \n    mov r0,QWORD PTR [static]\n    test r0.32,r0.32\n    je L0\n    mov r1,QWORD PTR [r0+r2*8+0x100]\n    ret \nL0:\n    jmp elsewhere\n";
    assert_eq!(normalized(&lines), expected);
}
