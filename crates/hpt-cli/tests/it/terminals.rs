//! Output on a terminal: narrow terminals.

use crate::support::{at_a_terminal::AtATerminal, host, hpt, stderr};

/// Returns the numbers of a text, in order.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| word.trim_matches(|letter| "()[],.;:".contains(letter)));
    let mut numbers: Vec<String> =
        words.filter(|word| word.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned).collect();
    numbers.sort();
    numbers
}

#[test]
fn no_number_is_broken_on_a_narrow_terminal() {
    let machines = ["amd-epyc-zen3-kvm", "derived-raspberry-pi-4-untuned", "qemu-q35", "derived-tsc-dropped"];
    for machine in machines.map(host) {
        for arguments in [&["probe"][..], &["probe", "tsc"], &["clocksource"], &["doctor"]] {
            let shown = |columns: u16| {
                let mut command = hpt();
                command.args(arguments).args(["--host", &machine, "--color", "never"]);
                stderr(&AtATerminal::start_with_output(columns, &mut command).output())
            };
            let wide = numbers(&shown(400));
            for columns in [40, 60] {
                let text = shown(columns);
                let narrow = numbers(&text);
                let count = |list: &[String], number: &String| list.iter().filter(|one| *one == number).count();
                let broken: Vec<_> = wide.iter().filter(|one| count(&narrow, one) < count(&wide, one)).collect();
                assert!(broken.is_empty(), "{arguments:?} at {columns} columns: {broken:?}\n{text}");
            }
        }
    }
}
