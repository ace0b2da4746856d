//! The kernel's counts of interrupts, softirqs and steal time for each CPU, and the time that a thread has waited for a
//! CPU. This module only parses; the caller opens the files and keeps them open.

use super::{Host, Known, cores::STAT};

/// A line of /proc/interrupts or /proc/softirqs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountLine<'a> {
    /// The kernel's name for the interrupt or softirq: a number, or letters such as `LOC` or `TIMER`.
    pub name: &'a str,
    /// Its count.
    pub count: u64,
    /// The names of the interrupt's handlers, or the description at the end of the line; empty if there is none.
    pub label: &'a str,
}

/// CPU time since boot, in kernel ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stolen {
    /// The time during which the hypervisor ran other guests although this machine had work.
    pub stolen: u64,
    /// The total CPU time.
    pub all: u64,
}

impl Host {
    /// Returns the total steal time and the total CPU time of all CPUs. proc_stat(5).
    pub fn stolen(&self) -> Known<Stolen> {
        self.told(STAT).parsed(|text| stolen(&text))
    }
}

/// Returns the lines of /proc/interrupts or /proc/softirqs, each with its count for `cpu` or, without `cpu`, with the
/// sum over all CPUs. Offline CPUs have no column. Lines without a count for each CPU are omitted, and so is a
/// truncated last line.
///
/// # References
///
/// proc_interrupts(5), proc_softirqs(5).
pub fn count_lines(text: &str, cpu: Option<usize>) -> impl Iterator<Item = CountLine<'_>> {
    // Without a newline, the last number may be incomplete.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let (header, rest) = whole.split_once('\n').unwrap_or(("", ""));
    let columns = cpus_of(header).unwrap_or_default();
    let width = columns.len();
    let wanted = match cpu {
        Some(cpu) => columns.iter().position(|&column| column == cpu).map(|at| at..at + 1),
        None => Some(0..width),
    };
    wanted.into_iter().flat_map(move |wanted| rest.lines().filter_map(move |line| count_line(line, width, &wanted)))
}

/// Returns the CPUs in a header line; `None` if the line is not a header.
pub(super) fn cpus_of(header: &str) -> Option<Vec<usize>> {
    header.split_whitespace().map(|column| column.strip_prefix("CPU")?.parse().ok()).collect()
}

fn count_line<'a>(line: &'a str, columns: usize, wanted: &std::ops::Range<usize>) -> Option<CountLine<'a>> {
    let (name, mut rest) = line.split_once(':')?;
    let mut count = 0_u64;
    for column in 0..columns {
        rest = rest.trim_start();
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        // A number must be followed by whitespace or by the end of the line.
        if after.chars().next().is_some_and(|letter| !letter.is_whitespace()) {
            return None;
        }
        let number: u64 = digits.parse().ok()?;
        if wanted.contains(&column) {
            count = count.saturating_add(number);
        }
        rest = after;
    }
    let name = name.trim();
    (!name.is_empty() && columns > 0).then_some(CountLine { name, count, label: last_words(rest) })
}

/// Returns the names of the handlers of a device interrupt, which follow its controller and its line number. For other
/// interrupts, returns the whole label.
fn last_words(label: &str) -> &str {
    let label = label.trim();
    label.rsplit_once("  ").map_or(label, |(_, last)| last)
}

/// Returns the steal time of `cpu` from /proc/stat, in hundredths of a second; `None` if the kernel does not report it.
/// During steal time, the hypervisor runs other guests although the CPU has work. Without `cpu`, returns the sum over
/// all CPUs.
///
/// # References
///
/// proc_stat(5): the eighth number of a line, in units of USER_HZ, which is 100 on all supported machines.
#[must_use]
pub fn stolen_hundredths(text: &str, cpu: Option<usize>) -> Option<u64> {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let line = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let mut words =
        line.map(str::split_whitespace).find_map(|mut words| (words.next() == Some(&name)).then_some(words))?;
    words.nth(7)?.parse().ok()
}

/// Returns the time that a thread has waited for a CPU, in nanoseconds, from its schedstat file; `None` if the kernel
/// does not report it. A kernel without these statistics prints three zeros, although the thread has run.
///
/// # References
///
/// Linux, Documentation/scheduler/sched-stats.rst: the second of three numbers.
#[must_use]
pub fn waited_ns(text: &str) -> Option<u64> {
    ran_and_waited_ns(text).map(|(_, waited_ns)| waited_ns)
}

/// Returns the time that a thread has run, and the time that it has waited for a CPU, in nanoseconds, from its schedstat
/// file; `None` as for [`waited_ns`].
pub fn ran_and_waited_ns(text: &str) -> Option<(u64, u64)> {
    let numbers: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [ran_ns, waited_ns, runs] = numbers.try_into().ok()?;
    (ran_ns > 0 || runs > 0).then_some((ran_ns, waited_ns))
}

/// Parses `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Guest time is included in user time.
fn stolen(stat: &str) -> Option<Stolen> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).take(8).collect();
    let all = ticks.iter().fold(0_u64, |sum, &ticks| sum.saturating_add(ticks));
    Some(Stolen { stolen: *ticks.get(7)?, all })
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{any, prop_assert, prop_assert_eq, proptest},
        sample::Index,
    };

    use super::{CountLine, Stolen, count_lines, stolen, stolen_hundredths, waited_ns};

    const X86: &str = "           CPU0       CPU1       \n \
        26:          0         15  IO-APIC   4-edge      ttyS0\n \
        36:          2    3760378 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
        LOC:    9030366   10099911   Local timer interrupts\n\
        ERR:          0\n\
        MIS:          0\n";
    /// CPU 1 is offline, and one line has no counts.
    const ARM: &str = "           CPU0       CPU2       CPU3       \n \
        18:       1200        700         30     GICv2  29 Level     arch_timer\n \
        23:          7          0          0  bcm2836-timer   9 Edge      arch_timer, other\n\
        FIQ:              usb_fiq\n\
        IPI0:         1          2          3  CPU wakeup interrupts\n\
        Err:          0\n";
    const SOFT: &str = "                    CPU0       CPU1       \n          HI:          1          0\n       TIMER:    1161893    1319657\n";

    fn counts(text: &str, cpu: Option<usize>) -> Vec<(&str, u64, &str)> {
        count_lines(text, cpu).map(|CountLine { name, count, label }| (name, count, label)).collect()
    }

    #[test]
    fn steal_time_is_the_eighth_number() {
        let told = stolen("cpu  10 20 30 40 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8\n");
        assert_eq!(told, Some(Stolen { stolen: 8, all: 126 }));
        assert_eq!((stolen(""), stolen("cpu  1 2 3\n")), (None, None));
    }

    #[test]
    fn a_line_has_counts_for_one_cpu_or_for_all() {
        assert_eq!(
            counts(X86, Some(1)),
            [("26", 15, "ttyS0"), ("36", 3_760_378, "virtio1-req.0"), ("LOC", 10_099_911, "Local timer interrupts")]
        );
        assert_eq!(counts(X86, None)[1], ("36", 3_760_380, "virtio1-req.0"));
        assert_eq!(counts(SOFT, Some(0)), [("HI", 1, ""), ("TIMER", 1_161_893, "")]);
    }

    #[test]
    fn columns_are_matched_by_their_headings_and_offline_cpus_have_none() {
        assert_eq!(
            counts(ARM, Some(3)),
            [("18", 30, "arch_timer"), ("23", 0, "arch_timer, other"), ("IPI0", 3, "CPU wakeup interrupts")]
        );
        assert_eq!(counts(ARM, Some(1)), []);
        assert_eq!(counts(ARM, None)[0], ("18", 1_930, "arch_timer"));
    }

    #[test]
    fn a_truncated_line_is_ignored() {
        let cut = &X86[..X86.find("99911").expect("it is there")];
        assert_eq!(counts(cut, Some(1)).len(), 2);
        assert_eq!(counts("", Some(0)), []);
        assert_eq!(counts("CPU0\n", Some(0)), []);
        assert_eq!(counts("no head\n1: 2\n", None), []);
    }

    #[test]
    fn stolen_time_is_the_eighth_number_of_its_cpu() {
        let text = "cpu  10 0 20 30 0 5 6 7082 2 0\ncpu0 1 0 2 3 0 0 0 3583 1 0\ncpu10 1 0 2 3 0 0 0 7 1 0\nintr 5\n";
        assert_eq!((stolen_hundredths(text, Some(0)), stolen_hundredths(text, None)), (Some(3_583), Some(7_082)));
        assert_eq!((stolen_hundredths(text, Some(1)), stolen_hundredths(text, Some(10))), (None, Some(7)));
        assert_eq!(stolen_hundredths("cpu0 1 2 3 4\n", Some(0)), None);
        assert_eq!(stolen_hundredths("cpu0 1 0 2 3 0 0 0 35", Some(0)), None, "cut off");
    }

    #[test]
    fn the_second_of_three_numbers_is_the_wait_time_of_a_thread() {
        assert_eq!(waited_ns("197152 2822815 2\n"), Some(2_822_815));
        assert!(["", "0 0", "0 0 0", "1 2 3 4", "a b c"].iter().all(|wrong| waited_ns(wrong).is_none()));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in any::<String>(), cpu in any::<Option<usize>>()) {
            let _ = count_lines(&text, cpu).count();
            let _ = stolen_hundredths(&text, cpu);
            let _ = waited_ns(&text);
        }

        #[test]
        fn truncated_output_is_parsed_up_to_the_cut(
            rows in vec(vec(any::<u32>(), 3), 1..8),
            cut in any::<Index>(),
        ) {
            let mut text = "CPU0 CPU2 CPU7\n".to_owned();
            for (number, row) in rows.iter().enumerate() {
                text.push_str(&format!("{number}: {} {} {}  chip  some device\n", row[0], row[1], row[2]));
            }
            let read = |text: &str, cpu| count_lines(text, cpu).map(|line| line.count).collect::<Vec<_>>();
            prop_assert_eq!(read(&text, Some(2)), rows.iter().map(|row| u64::from(row[1])).collect::<Vec<_>>());
            prop_assert_eq!(read(&text, None), rows.iter().map(|row| row.iter().copied().map(u64::from).sum()).collect::<Vec<u64>>());
            prop_assert_eq!(read(&text, Some(1)), Vec::<u64>::new());
            let whole = read(&text, Some(7));
            let part = read(&text[..cut.index(text.len())], Some(7));
            prop_assert!(whole.starts_with(&part));
        }
    }
}
