//! Edges between GPIO lines that a module wires together, and the reasons if there is no GPIO or
//! nothing is wired.

use std::collections::BTreeMap;

use hpt_document::{
    gpio_latency::{GpioFigure, GpioLatencyDocument, GpioListening},
    gpio_line::{GpioDrive, GpioListDocument},
    latency::MicrosecondCount,
    wake_latency::WakeLatencyDocument,
};

use crate::judge::{
    case::{Case, code_of},
    plant::{Plant, Plants},
    text::last_line,
};

/// Number of edges in each run, and the delay of late edges in nanoseconds, as in
/// `scripts/lib/shows.bash`.
const EDGES: u64 = 200;
/// See [`EDGES`].
const DELAY_NS: u64 = 2_000_000;

/// The reason for an empty list on a kernel without GPIO.
const NO_GPIO: &str = "no /dev/gpiochip* exists: either the kernel was built without";

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.gpio");
        match &case.board.gpio {
            None => judge_without(case, &step),
            Some(label) => {
                judge_unwired(case, &step, label);
                judge_registers(case, &step);
                if !case.ended("gpio-load") {
                    return;
                }
                judge_edges(case, &step);
                judge_late_and_lost(case, &step);
                judge_pulses(case, &step);
                judge_refusals(case, &step);
                for signal in ["INT", "TERM", "HUP"] {
                    let said = format!("1;status {};1;0;input,false,,false;input,false,,false", code_of(signal));
                    case.said_all(&format!("{step}-{signal}"), &said);
                }
            }
        }
    }
    if case.board.gpio.is_none() {
        case.shown("reports why there is no GPIO");
    } else {
        case.ended("gpio-unload");
        case.shown("edges on wired GPIO lines, including lost and late edges");
    }
}

/// Judges the exit code, which is the last line of the output.
fn code(case: &Case<'_>, step: &str, said: &str, wanted: &str) {
    let code = last_line(said);
    if code != wanted {
        case.wrong(format!("{step}: exit code {code}, expected {wanted}"));
    }
}

fn judge_without(case: &Case<'_>, step: &str) {
    let own = format!("{step}-own");
    if let Some(list) = case.ended_with::<GpioListDocument>(&own) {
        list.holds("no chip is listed, with the reason", |it| {
            it.chips.is_empty() && it.lines.is_empty() && it.notes.iter().any(|note| note.contains(NO_GPIO))
        });
        code(case, &own, case.err(&own), "1");
    }
    let none = format!("{step}-none");
    if case.ended(&none) {
        if !case.out(&none).contains(NO_GPIO) {
            case.wrong(format!("{none}: no reason is reported"));
        }
        code(case, &none, case.out(&none), "3");
    }
}

/// Judges the board's own chip, with nothing wired to it.
fn judge_unwired(case: &Case<'_>, step: &str, label: &str) {
    let own = format!("{step}-own");
    if let Some(list) = case.ended_with::<GpioListDocument>(&own) {
        list.holds(&format!("{label} is listed with its lines"), |it| {
            let chip = it.chips.iter().find(|chip| chip.label.as_deref() == Some(label));
            chip.is_some_and(|chip| chip.lines.is_some_and(|lines| lines > 7) && chip.reason.is_none())
        });
        code(case, &own, case.err(&own), "0");
    }
    let unwired = format!("{step}-unwired");
    if let Some(edges) = case.ended_with::<GpioLatencyDocument>(&unwired) {
        edges.holds("if nothing is wired, no edge arrives, which a note reports", |it| {
            let said = |note: &String| note.starts_with("no edge arrived on ") && note.contains("connected");
            it.lost == 1 && it.unexpected == 0 && it.results.is_empty() && it.notes.iter().any(said)
        });
        code(case, &unwired, case.err(&unwired), "3");
    }
    let plain = format!("{step}-plain");
    if case.ended(&plain) {
        let said = |line: &str| {
            let refused = line.split_once("no permission to open /dev/gpiochip0; ");
            refused.is_some_and(|(_, helps)| helps.contains("group"))
        };
        if !case.out(&plain).lines().any(said) {
            case.wrong(format!("{plain}: unexpected: {}", case.out(&plain).lines().next().unwrap_or_default()));
        }
        code(case, &plain, case.out(&plain), "3");
    }
}

/// Judges a line that is driven and read back through the registers, or the reason why it is not.
fn judge_registers(case: &Case<'_>, step: &str) {
    let step = format!("{step}-registers");
    if !case.board.gpio_registers {
        if case.ended(&step) {
            if !case.out(&step).contains("cannot be used: ") {
                case.wrong(format!("{step}: no reason is reported"));
            }
            code(case, &step, case.out(&step), "3");
        }
        return;
    }
    if let Some(levels) = case.ended_with::<GpioLatencyDocument>(&step) {
        levels.holds("every level was read back through the registers, without a timestamp of the kernel", |it| {
            (it.drive, it.listen) == (GpioDrive::Registers, GpioListening::Level)
                && nothing_missing(it)
                && it.results.iter().map(|row| (row.figure, row.figures.samples)).eq([(GpioFigure::EndToEnd, EDGES)])
        });
    }
    case.said_all(&format!("{step}-INT"), &format!("status {};restored", code_of("INT")));
}

/// Returns whether all three figures exist and include every edge.
fn every_edge(it: &GpioLatencyDocument) -> bool {
    it.results.iter().map(|row| row.figure).eq([GpioFigure::OutputToIrq, GpioFigure::IrqToUser, GpioFigure::EndToEnd])
        && it.results.iter().all(|row| row.figures.samples == EDGES)
}

fn nothing_missing(it: &GpioLatencyDocument) -> bool {
    it.lost == 0 && it.unexpected == 0 && it.dropped == 0 && it.out_of_window == 0
}

/// Returns whether the parts add up to the end-to-end latency.
fn adds_up(it: &GpioLatencyDocument) -> bool {
    let means: Vec<f64> = it.results.iter().map(|row| row.figures.mean_ns).collect();
    matches!(means.as_slice(), [set, edge, whole] if (set + edge - whole).abs() < 1.0)
}

fn judge_edges(case: &Case<'_>, step: &str) {
    if let Some(list) = case.ended_with::<GpioListDocument>(&format!("{step}-list")) {
        list.holds("the wired lines are listed, and the one that the module uses", |it| {
            let names = ["LOOP_OUT", "LOOP_IN", "LOOP_OUT2", "LOOP_IN2", "LOOP_OPEN", "LOOP_KEPT"];
            it.lines.iter().map(|line| line.place.name.as_deref()).eq(names.map(Some))
                && it
                    .lines
                    .iter()
                    .filter(|line| line.in_use)
                    .map(|line| line.consumer.as_deref())
                    .eq([Some("gpio-loop-itself")])
                && it.lines.iter().filter(|line| line.direction == "output").map(|line| line.place.line).eq([5])
        });
    }
    if let Some(edges) = case.ended_with::<GpioLatencyDocument>(&format!("{step}-edges")) {
        edges.holds("every edge arrived, and the parts add up", |it| {
            every_edge(it)
                && nothing_missing(it)
                && it.listen == GpioListening::Poll
                && it.measuring.source == "monotonic"
                && adds_up(it)
        });
        judge_counts(case, step, &edges);
    }
    if let Some(spin) = case.ended_with::<GpioLatencyDocument>(&format!("{step}-spin")) {
        spin.holds("with --listen spin, every edge arrived, and the parts add up", |it| {
            every_edge(it)
                && nothing_missing(it)
                && it.listen == GpioListening::Spin
                && it.output_line.line == 2
                && adds_up(it)
        });
    }
    if let Some(realtime) = case.ended_with::<GpioLatencyDocument>(&format!("{step}-realtime")) {
        realtime.holds("under SCHED_FIFO on CPU 0, every edge arrived", |it| {
            let thread = &it.measuring.thread;
            every_edge(it)
                && thread.policy.as_deref() == Some("fifo")
                && thread.priority == Some(40)
                && thread.cpus == [0]
                && thread.locked_bytes.is_some_and(|bytes| bytes > 0)
        });
    }
}

fn judge_late_and_lost(case: &Case<'_>, step: &str) {
    if let Some(late) = case.ended_with::<GpioLatencyDocument>(&format!("{step}-late")) {
        late.holds("a delayed interrupt is measured as late", |it| {
            let least: Vec<u64> = it.results.iter().map(|row| row.figures.min_ns).collect();
            every_edge(it)
                && nothing_missing(it)
                && matches!(least.as_slice(), [set, _, whole] if *set >= DELAY_NS / 1000 * 999 && whole > set)
        });
    }
    let broke = format!("{step}-break");
    if let Some(first) = case.ended_with::<GpioLatencyDocument>(&broke) {
        first.holds("the first edge above the limit ends the measurement", |it| {
            it.end
                .stopped_at_ns
                .zip(it.results.first())
                .is_some_and(|(at_ns, row)| at_ns > 0 && row.figures.samples == 1 && row.figures.max_at_ns == at_ns)
        });
        code(case, &broke, case.err(&broke), "1");
    }
    // An edge after the timeout counts as lost, and as unexpected when it arrives.
    let lost = format!("{step}-lost");
    if let Some(edges) = case.ended_with::<GpioLatencyDocument>(&lost) {
        edges.holds("lost edges are counted", |it| {
            let said = format!("{} of {} edges did not arrive on LOOP_IN", it.lost, 50 + it.lost);
            it.lost.checked_sub(it.unexpected).is_some_and(|lost| (5..=6).contains(&lost))
                && it.results.get(2).is_some_and(|row| row.figures.samples == 50)
                && it.notes.iter().any(|note| note.starts_with(&said))
        });
        code(case, &lost, case.err(&lost), "1");
    }
}

fn judge_pulses(case: &Case<'_>, step: &str) {
    if let Some(pulse) = case.ended_with::<WakeLatencyDocument>(&format!("{step}-pulse")) {
        pulse.holds("the line is named in the document", |it| {
            let pulse = it.pulse.as_deref().unwrap_or_default();
            let chip = pulse.strip_prefix("LOOP_OPEN (gpiochip").and_then(|rest| rest.strip_suffix(":4)"));
            chip.is_some_and(|number| number.parse::<u32>().is_ok())
        });
    }
    // The level at the end may have to be driven once more.
    let pulses = format!("{step}-pulses");
    if case.ended(&pulses) && case.out(&pulses).trim_end() != "100" {
        case.wrong(format!("{pulses}: the line changed {} times, expected 100", case.out(&pulses).trim_end()));
    }
}

/// Judges invalid requests: each is rejected with this message and exit code.
fn judge_refusals(case: &Case<'_>, step: &str) {
    let step = format!("{step}-refused");
    if !case.ended(&step) {
        return;
    }
    let mut lines = case.out(&step).lines();
    for (wanted, expected) in [
        ("in use by \"gpio-loop-itself\"", "3"),
        ("does not support interrupts", "3"),
        ("cannot be both", "2"),
        ("has no line 6: its 6 lines", "2"),
        ("is named \"loop_out\"; similar: LOOP_OUT", "2"),
        ("is ambiguous without a chip", "2"),
        ("does not support interrupts", "3"),
    ] {
        let (said, code) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        if !said.contains(wanted) || code != expected {
            case.wrong(format!("{step}: printed {said} and {code}, expected {wanted} and {expected}"));
        }
    }
}

/// Judges the files: every edge was written, its parts add up, and the counts equal those in the
/// results and in the histogram file.
fn judge_counts(case: &Case<'_>, step: &str, edges: &GpioLatencyDocument) {
    let (raw, line) = (format!("{step}-raw"), format!("{step}-line"));
    if !case.ended(&raw) || !case.ended(&line) {
        return;
    }
    let counted = count(case.out(&raw));
    let whole = edges.results.iter().find(|row| row.figure == GpioFigure::EndToEnd);
    let told = whole.map(|row| row.figures.histogram_us.as_slice()).unwrap_or_default();
    let told: Vec<_> = told.iter().map(|MicrosecondCount(us, edges)| (*us, *edges)).collect();
    let line = counts_in(case.out(&line));
    // Latencies above ten milliseconds share one count.
    if !counted.as_ref().is_some_and(|counted| counted.starts_with(&told)) || line != told {
        let counted = counted.map_or("invalid".to_owned(), |counted| in_words(&counted));
        case.wrong(format!(
            "{step}: counts from the raw file: {counted}; from the results: {}; from the histogram file: {}",
            in_words(&told),
            in_words(&line)
        ));
    }
}

/// Returns the number of edges per microsecond of latency, from lines with five numbers. The last
/// number must be the sum of the two before it; otherwise, returns `None`.
fn count(raw: &str) -> Option<Vec<(u64, u64)>> {
    let mut counts = BTreeMap::new();
    for line in raw.lines() {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [_, _, set, edge, whole] = numbers.as_slice() else { return None };
        if set + edge != *whole {
            return None;
        }
        *counts.entry(whole / 1000).or_default() += 1;
    }
    Some(counts.into_iter().collect())
}

/// Returns the counts in a histogram file: `0us: 0 0 3 (later: 1)` has three edges of two
/// microseconds.
fn counts_in(line: &str) -> Vec<(u64, u64)> {
    let words = line.split_whitespace().take_while(|word| *word != "(later:").skip(1);
    let counts = (0..).zip(words).filter_map(|(us, word)| Some((us, word.parse().ok()?)));
    counts.filter(|(_, edges)| *edges > 0).collect()
}

fn in_words(counts: &[(u64, u64)]) -> String {
    counts.iter().map(|(us, edges)| format!("{us} {edges}")).collect::<Vec<_>>().join(";")
}

pub(super) const PLANTS: &[Plants] = &[
    Plants {
        about: "GPIO",
        fit: |board| board.asked_for("gpio") && board.gpio.is_some(),
        plants: &[
            Plant { what: "another chip is expected", change: |it| it.board.gpio = Some("gpio-brick".to_owned()) },
            Plant {
                what: "an edge arrived although nothing is wired",
                change: |it| it.replace(".gpio-unwired.out", "no edge arrived", "an edge arrived"),
            },
            Plant { what: "exit code 0 although nothing is wired", change: |it| it.append(".gpio-unwired.err", "0") },
            Plant {
                what: "an unprivileged user gets another reason",
                change: |it| it.replace(".gpio-plain.out", "no permission to open", "cannot use"),
            },
            Plant {
                what: "another program uses the line",
                change: |it| it.replace(".gpio-list.out", "gpio-loop-itself", "hpt"),
            },
            Plant {
                what: "an edge was lost",
                change: |it| it.document(".gpio-edges", |it: &mut GpioLatencyDocument| it.lost = 1),
            },
            Plant {
                what: "one edge was measured",
                change: |it| {
                    it.document(".gpio-edges", |it: &mut GpioLatencyDocument| {
                        it.results.iter_mut().for_each(|row| row.figures.samples = 1);
                    });
                },
            },
            Plant {
                what: "the parts do not add up",
                change: |it| {
                    it.document(".gpio-spin", |it: &mut GpioLatencyDocument| it.results[0].figures.mean_ns = 1.0);
                },
            },
            Plant {
                what: "an edge was not written",
                change: |it| it.lines(".gpio-raw.out", |number, line| (number != 2).then(|| line.to_owned())),
            },
            Plant {
                what: "an edge is not the sum of its parts",
                change: |it| {
                    it.lines(".gpio-raw.out", |number, line| {
                        let (parts, _) = line.rsplit_once(' ')?;
                        Some(if number == 1 { format!("{parts} 1") } else { line.to_owned() })
                    });
                },
            },
            Plant {
                what: "the histogram file has an edge without latency",
                change: |it| it.replace(".gpio-line.out", "0us: ", "0us: 1 "),
            },
            Plant { what: "the thread has default scheduling", change: |it| it.copy(".gpio-edges", ".gpio-realtime") },
            Plant {
                what: "a delayed interrupt arrives early",
                change: |it| {
                    it.document(".gpio-late", |it: &mut GpioLatencyDocument| it.results[0].figures.min_ns = 1_900_000);
                },
            },
            Plant {
                what: "the measurement ended at another time",
                change: |it| {
                    it.document(".gpio-break", |it: &mut GpioLatencyDocument| it.end.stopped_at_ns = Some(1));
                },
            },
            Plant { what: "no edge was lost", change: |it| it.copy(".gpio-edges", ".gpio-lost") },
            Plant {
                what: "the line is not named",
                change: |it| it.document(".gpio-pulse", |it: &mut WakeLatencyDocument| it.pulse = None),
            },
            Plant { what: "there were 99 pulses", change: |it| it.put(".gpio-pulses.out", "99\n") },
            Plant {
                what: "a line in use was not rejected",
                change: |it| {
                    it.lines(".gpio-refused.out", |number, line| Some(if number == 2 { "0" } else { line }.to_owned()));
                },
            },
            Plant {
                what: "SIGINT did not end the measurement",
                change: |it| it.set_lines(".gpio-INT.out", "status 130", "status 0"),
            },
            Plant {
                what: "the lines are outputs after SIGTERM",
                change: |it| it.set_lines(".gpio-TERM.out", "input,false", "output,false,,false"),
            },
            Plant { what: "the module was not unloaded", change: |it| it.never_ended("gpio-unload") },
        ],
    },
    Plants {
        about: "GPIO registers",
        fit: |board| board.asked_for("gpio") && board.gpio_registers,
        plants: &[
            Plant {
                what: "the kernel drove the line",
                change: |it| {
                    it.document(".gpio-registers", |it: &mut GpioLatencyDocument| it.drive = GpioDrive::Kernel);
                },
            },
            Plant {
                what: "an edge was lost",
                change: |it| it.document(".gpio-registers", |it: &mut GpioLatencyDocument| it.lost = 1),
            },
            Plant {
                what: "the line was not restored after SIGINT",
                change: |it| it.set_lines(".gpio-registers-INT.out", "restored", "- /tmp/before differ"),
            },
        ],
    },
    Plants {
        about: "GPIO registers that cannot be mapped",
        fit: |board| board.asked_for("gpio") && board.gpio.is_some() && !board.gpio_registers,
        plants: &[Plant {
            what: "no reason is reported",
            change: |it| it.replace(".gpio-registers.out", "cannot be used: ", "is fine: "),
        }],
    },
    Plants {
        about: "a kernel without GPIO",
        fit: |board| board.asked_for("gpio") && board.gpio.is_none(),
        plants: &[
            Plant {
                what: "the list has no reason",
                change: |it| it.document(".gpio-own", |it: &mut GpioListDocument| it.notes.clear()),
            },
            Plant { what: "exit code 0 without a chip", change: |it| it.append(".gpio-own.err", "0") },
            Plant {
                what: "a measurement reports no reason",
                change: |it| it.replace(".gpio-none.out", "/dev/gpiochip*", "/dev/null"),
            },
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::{count, counts_in};

    #[test]
    fn edges_are_counted_by_whole_microseconds() {
        assert_eq!(count("1 5 1000 1500 2500\n1 9 400 100 500\n1 9 1000 1000 2000\n"), Some(vec![(0, 1), (2, 2)]));
        assert_eq!(count("1 5 1000 1500 2400\n"), None, "the parts do not add up");
        assert_eq!(count("1 5 1000 1500\n"), None, "a number is missing");
        assert_eq!(counts_in("0us: 1 0 2 (later: 3)\n"), [(0, 1), (2, 2)]);
    }
}
