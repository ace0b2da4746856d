//! What the publications state, and the command that measures or shows each statement. The table in docs/published.md is
//! made from these entries and from the figures of the experiments.

use super::{EXPERIMENTS, Experiment};

/// A publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Article,
    Paper,
    Post,
    Library,
    Manual,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Article => "article",
            Self::Paper => "paper",
            Self::Post => "post",
            Self::Library => "HighPerTimer",
            Self::Manual => "manual",
        }
    }
}

/// A statement of a publication.
struct Claim {
    source: Source,
    /// A few words of the publication in quotation marks, or the statement in other words.
    claim: &'static str,
    measured: RepeatedBy,
    /// The differences between hpt's measurement and the publication; empty if the claim is measured by an experiment
    /// that states them, or if there are none.
    differs: &'static str,
}

/// The way to a value of this system.
enum RepeatedBy {
    /// Published figures of an experiment. A second command, if any, measures the same in more detail.
    Experiment(&'static str, fn(&str) -> bool, &'static str),
    /// The published value, and the command or the program that measures or shows it.
    Command(&'static str, &'static str),
    /// The published value, and the reason why hpt does not measure it.
    Nothing(&'static str, &'static str),
}

use RepeatedBy::{Command, Experiment as Figures, Nothing};
use Source::{Article, Library, Manual, Paper, Post};

const fn claim(source: Source, claim: &'static str, measured: RepeatedBy, differs: &'static str) -> Claim {
    Claim { source, claim, measured, differs }
}

/// All claims, in the order of the publications. An entry needs a command or a reason.
const CLAIMS: &[Claim] = &[
    // Article (2015).
    claim(
        Article,
        "time of a million calls; \"return TIMER_registers[1];\" is one load of the System Timer",
        Figures("calls", |_| true, "`sudo hpt bench`"),
        "",
    ),
    claim(
        Article,
        "clock_getres returns 1 ns, but readings advance by 1000 ns",
        Figures("steps", |what| !what.contains("coarse"), "`hpt bench` (columns *resol.* and *granul.*)"),
        "",
    ),
    claim(
        Article,
        "a loop that reads the time and acts when it has come is ± 900 ns late, and now and then over 10 µs; with the register, it is steady",
        Figures(
            "late-loop",
            |_| true,
            "with `--pulse GPIO17 --drive registers`, the pin can be recorded from outside, and `hpt latency edges FILE` evaluates the recording",
        ),
        "",
    ),
    claim(
        Article,
        "\"ALREADY DELAYED\": the call takes 700 to 800 ns and reads the register somewhere in it, so that a value is old when it arrives",
        Command("700 to 800 ns", "`hpt experiment late-loop` (the rows *longest reaction*); `hpt bench`"),
        "hpt computes the longest time to a reading that shows an event; see [The longest reaction](#the-longest-reaction)",
    ),
    claim(
        Article,
        "a step of 1 µs can be missed twice",
        Command("1 µs", "`hpt bench --source monotonic,bcm-systimer` (columns *granul.* and *p99*)"),
        "a step is missed if a read takes longer than the granularity; hpt shows both",
    ),
    claim(
        Article,
        "delays over 10 µs every few microseconds to milliseconds, put down to preemption",
        Command("10 µs", "`sudo hpt latency stall --explain`"),
        "hpt states the cause that the kernel's trace proves for each delay",
    ),
    claim(
        Article,
        "\"control external GPIO … sampler … at accuracy of 50Mhz\": 50 cycles of the sampler are 1 µs",
        Command("20 ns", "`hpt latency edges edges.csv`"),
        "the recording can have any sample rate; hpt states the jitter in nanoseconds and in cycles of 20 ns",
    ),
    claim(
        Article,
        "\"#define BCM2708_ST_BASE 0x20003000\": root, 32 bits, and a fixed address",
        Command("0x20003000", "`hpt probe --all` (source `bcm-systimer`)"),
        "hpt takes the address from the device tree, or without one from the name of the chip (BCM2708, BCM2709), and tests that the counter runs at its rate; 64-bit programs work, and with the overlay in dist/ also programs without root",
    ),
    claim(
        Article,
        "\"compiled without optimization\"",
        Command("-", "`cargo run -p hpt-cli -- experiment calls` builds without optimization"),
        "an installed hpt is optimized",
    ),
    // Paper (2020).
    claim(
        Paper,
        "Table 1, Figures 3 to 5: two readings in a row, repeated 1000 times; after 1 s; after 1 s and 5 s in turn",
        Figures(
            "pairs",
            |what| !what.ends_with("ratio"),
            "with `--svg FILE` as a picture; `hpt latency pairs --source monotonic,arm-cycles --interval 0s,1s,1s/5s --count 1000 --raw FILE` writes each pair, with the kernel module [hpt_cycles](../kmod/README.md)",
        ),
        "",
    ),
    claim(
        Paper,
        "Table 2, Figure 6: the master of an EtherCAT network takes the time at the start of each period",
        Figures(
            "period",
            |what| !what.ends_with("ratio"),
            "with `--svg FILE` as a picture; with `--frames hpt0,hpt1`, a frame in each period over a veth pair ([frames](#frames-of-an-ethercat-network))",
        ),
        "",
    ),
    claim(
        Paper,
        "the cycle counter is at least \"10 times\" better",
        Figures("pairs", |what| what.ends_with("ratio"), ""),
        "the quotient of the two figures above",
    ),
    claim(
        Paper,
        "as above, for the period error; 9.8 is below the stated 10",
        Figures("period", |what| what.ends_with("ratio"), ""),
        "the quotient of the two figures above, if both are above zero",
    ),
    claim(
        Paper,
        "the second node of the network, an AM3359 board on the same cable",
        Command(
            "-",
            "`sudo hpt experiment period --frames eth0`, with a device that returns frames (EtherType 0x88A4)",
        ),
        "not measured with such a device",
    ),
    claim(
        Paper,
        "the execution time of a part of a program is the difference of two readings minus the time of a reading",
        Command(
            "-",
            "`hpt bench` measures the time of a reading; `hpt_core::Stopwatch` states it beside each duration",
        ),
        "",
    ),
    claim(
        Paper,
        "a reading of the cycle counter is a single instruction",
        Command("6 ns", "`hpt bench --source arm-cycles` and `hpt experiment pairs`"),
        "the bare instruction, called through a pointer; the pairs with barriers are rows of their own",
    ),
    claim(
        Paper,
        "the 32-bit counter overflows, which is taken into account",
        Command("32 bits", "`hpt probe --all` (the width of a source)"),
        "every difference of readings is taken modulo the width of the counter",
    ),
    claim(
        Paper,
        "getnstimeofday, read in kernel space",
        Command("288 ns", "`hpt latency pairs --in-kernel` and `hpt experiment pairs`, with hpt_cycles and as root"),
        "hpt reads its successor, ktime_get_real_ts64",
    ),
    claim(
        Paper,
        "Linux \"4.9.59\"",
        Nothing(
            "-",
            "hpt_cycles needs Linux 5.10; the program runs on older kernels, without the cycle counter of 32-bit ARM",
        ),
        "",
    ),
    claim(
        Paper,
        "initialization: the registers PMNC, CNTENS and FLAG",
        Command("-", "`insmod hpt_cycles.ko` ([step by step](../kmod/README.md#what-the-module-does-step-by-step))"),
        "",
    ),
    claim(
        Paper,
        "DWT_CYCCNT of a Cortex-M; Cortex-R",
        Nothing("-", "these processors have no MMU, which the Linux that hpt supports needs"),
        "",
    ),
    claim(
        Paper,
        "useful for the synchronization of time in distributed systems",
        Command("-", "`hpt watch` compares the clocks of one machine, with the PTP clocks of its network cards"),
        "hpt synchronizes no clocks",
    ),
    // Post (2018).
    claim(
        Post,
        "18 hours on a dedicated core: over 99 % under 3 µs, worst 41 µs; \"no sample had a 0-microsecond latency\"",
        Figures(
            "isolated-core",
            |_| true,
            "`sudo hpt latency poll --cpu 3 --fifo 99 --no-throttling --governor performance --duration 18h --write line=counts`",
        ),
        "",
    ),
    claim(
        Post,
        "\"GPIO22 connected to GPIO23\": the latency of an edge, \"without any kernel drivers\"",
        Command(
            "-",
            "`sudo hpt latency gpio --output-line GPIO22 --input-line GPIO23 --cpu 3 --fifo 99 --governor performance --duration 18h --write line=counts`; add `--drive registers --listen level --no-throttling` to leave out the kernel's drivers on both sides",
        ),
        "by default, the edge passes through the kernel's GPIO driver, which timestamps it; the registers are those of a Raspberry Pi 1 to 4",
    ),
    claim(
        Post,
        "the program waits for a time of day",
        Command("-", "`sudo hpt latency timer --at 23:59:58 --cpu 3 --fifo 99`"),
        "",
    ),
    claim(
        Post,
        "\"worst-case latencies do not add\": several routines in one loop",
        Figures(
            "one-loop",
            |_| true,
            "with `--pulse GPIO22 --drive registers` on a Raspberry Pi 1 to 4, including the edge",
        ),
        "",
    ),
    claim(
        Post,
        "wait for an edge, read the ADC, write to a socket, 1000 times each second",
        Command("1 kHz", "`cargo run -p hpt-instrument --example sample_to_socket`"),
        "an example program; another thread writes to the socket, so that the network delays no sample",
    ),
    claim(
        Post,
        "isolcpus=3, affinity, SCHED_FIFO at the highest priority, throttling off",
        Command(
            "-",
            "`sudo hpt latency poll --cpu 3 --fifo 99 --no-throttling`; `hpt doctor --for realtime` states what is missing",
        ),
        "",
    ),
    claim(
        Post,
        "throttling takes 50 ms of each second",
        Command("50 ms", "`hpt doctor throttling`; `sudo hpt latency poll --fifo 99 --explain`"),
        "",
    ),
    claim(
        Post,
        "\"Disable turbo mode … screws up the SPI clock\"",
        Nothing(
            "-",
            "the kernel of a Raspberry Pi has no switch for turbo; [Turbo](#turbo) states what keeps the clock of SPI constant",
        ),
        "",
    ),
    claim(
        Post,
        "large latencies come from interrupts and the kernel's own tasks on the core",
        Command("41 µs", "`sudo hpt latency poll --cpu 3 --fifo 99 --explain`"),
        "hpt states the cause that the kernel's trace proves for each late sample",
    ),
    claim(
        Post,
        "models with a single core are much worse",
        Command("-", "`hpt doctor isolated-cpus` states why; `sudo hpt latency poll --fifo 99` measures it"),
        "",
    ),
    // HighPerTimer (2012 to 2016).
    claim(
        Library,
        "Table 1: \"loop of 100 million values and possible peaks … have not been filtered\"; the column \"Software clock Frequency\"",
        Figures("cost", |what| !what.ends_with(')'), "`hpt bench`"),
        "",
    ),
    claim(
        Library,
        "Table 2: \"total performance time of measurements is equal about 830 minutes\"",
        Figures("sleeps", |what| !what.ends_with(')'), "`hpt sleep`"),
        "",
    ),
    claim(
        Library,
        "\"support of Intel, AMD, VIA\", Cortex-A8, A9 and A5: the most reliable and fastest source is chosen at the start, and can be changed",
        Command(
            "-",
            "`hpt probe`; `hpt_core::clock::source` states the choice, and `hpt_core::open` opens another source",
        ),
        "a TSC is chosen if it is invariant, or if it has a constant rate, the kernel uses it, and no idle state is deeper than C1, as on a VIA Nano; the TSC of an Athlon X2 is not",
    ),
    claim(
        Library,
        "\"only intervals of more than 30 µsec can be tracked\" with the 32.768 kHz clock of a Cortex-A9; the library uses a clock of 19 MHz",
        Command(
            "30.518 µs, 19 MHz",
            "`hpt doctor coarse-clock`; `hpt bench --source monotonic` (column *granul.*); `hpt experiment steps`",
        ),
        "",
    ),
    claim(
        Library,
        "a driver maps the registers of the timers of Cortex-A8, A9 and A5",
        Command("-", "`sudo hpt probe`; `sudo hpt experiment cost` (row *counter*)"),
        "hpt needs no driver: it maps the page of the timer that the device tree describes, which requires root",
    ),
    claim(
        Library,
        "system calls take up to 2 µs; the library about 100 ns and less on a PC, about 200 ns on a Cortex-A",
        Figures("cost", |what| what.ends_with(')'), ""),
        "the mean of the same reads, with interrupts",
    ),
    claim(
        Library,
        "a system sleep is about 50 µs late on a PC, 100 to 400 µs on ARM; the CPU time of a sleep is 1 to 1.89 % instead of 100 %",
        Figures("sleeps", |what| what.ends_with(')'), ""),
        "the mean overshoot of the lengths below 1 ms; the CPU time over all lengths",
    ),
    claim(
        Library,
        "arithmetic and comparison of times in nanoseconds; a signed difference",
        Command("-", "`hpt_core::Instant`, with `signed_nanos_since`"),
        "",
    ),
    claim(Library, "a sleep can be interrupted", Command("-", "`hpt_core::sleep::Waker`"), ""),
    // Manual.
    claim(
        Manual,
        "example 15.1: ten million reads, with the TSC, the HPET and the ACPI timer as the clocksource",
        Figures("clock-sources", |what| what.starts_with("15.1"), "`sudo hpt clocksource compare`"),
        "",
    ),
    claim(
        Manual,
        "example 15.3: the resolution of the clocks, under each clocksource",
        Figures(
            "clock-sources",
            |what| what.contains("resolution"),
            "`sudo hpt clocksource compare -v` (column *resol.*)",
        ),
        "",
    ),
    claim(
        Manual,
        "example 15.4: CLOCK_MONOTONIC advances at each of five reads, 200 µs apart; the coarse clock stays for three, and then advances by 1 ms",
        Figures("steps", |what| what.contains("coarse"), "`hpt bench --source monotonic,monotonic-coarse`"),
        "",
    ),
    claim(
        Manual,
        "the readings of example 15.4, such as 218449.986980853",
        Command("-", "`hpt read monotonic monotonic-coarse -n 5 -i 200us`"),
        "",
    ),
    claim(
        Manual,
        "example 15.5: \"sys time … is greatly reduced when the _COARSE clocks are used\", most where a read is dear",
        Figures(
            "clock-sources",
            |what| !what.starts_with("15.1") && !what.contains("resolution"),
            "`sudo hpt clocksource compare -v`",
        ),
        "",
    ),
    claim(
        Manual,
        "\"time ./clock_timing\": real, user and sys of a program",
        Command("-", "`hpt run --time -- ./clock_timing`"),
        "hpt also states for how long the program was ready but did not run",
    ),
    claim(
        Manual,
        "the available clocksources, the active one, and how to override it",
        Command("-", "`hpt clocksource`; `sudo hpt clocksource set hpet`"),
        "",
    ),
    claim(
        Manual,
        "efficiency in descending order: TSC, HPET, ACPI PM; the PIT and the RTC are costly or coarse",
        Command(
            "-",
            "`sudo hpt clocksource compare`; `sudo hpt bench --source tsc,hpet,acpi-pm,rtc0`; hpt lists the PIT, but never reads it",
        ),
        "",
    ),
    claim(
        Manual,
        "some TSCs stop in idle, go out of step in deeper C-states, or change with the frequency",
        Command("-", "`hpt doctor clock-source`; `hpt clocksource -v`"),
        "",
    ),
    claim(
        Manual,
        "\"processor.max_cstate=1 … prevents the clock from entering deeper C-states\"; idle=poll; both cost power",
        Command("-", "`hpt clocksource --boot-parameters`"),
        "",
    ),
];

impl Claim {
    /// Returns the experiment that measures this claim, and the claim's figures.
    fn figures(&self) -> Option<(&'static Experiment, Vec<String>)> {
        let Figures(name, is_of_it, _) = self.measured else { return None };
        let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == name)?;
        let figures = experiment.published.iter().filter(|figure| is_of_it(figure.what));
        let figures = figures.map(|figure| format!("{}: {} {}", figure.what, figure.value, figure.unit));
        Some((experiment, figures.collect()))
    }

    fn command(&self) -> String {
        match self.measured {
            Figures(name, _, "") => format!("`hpt experiment {name}`"),
            Figures(name, _, more) => format!("`hpt experiment {name}`; {more}"),
            Command(_, command) => command.to_owned(),
            Nothing(_, why) => format!("not measured: {why}"),
        }
    }
}

/// Returns the part of the page that is made by this program: the machines, and the table of all claims.
fn page() -> String {
    let mut page = String::from("\n");
    for experiment in EXPERIMENTS {
        page.push_str(&format!("- `{}`: {}: {}.\n", experiment.name, experiment.published_in, experiment.hardware));
    }
    page.push_str(
        "\n| publication | claim | published | measured by | differences |\n| --- | --- | --- | --- | --- |\n",
    );
    let mut stated: Vec<&str> = Vec::new();
    for claim in CLAIMS {
        let (values, mut differs) = match claim.figures() {
            Some((experiment, values)) if stated.contains(&experiment.name) => {
                (values, format!("as stated above for `{}`", experiment.name))
            }
            Some((experiment, values)) => {
                stated.push(experiment.name);
                (values, experiment.differs.to_owned())
            }
            None => {
                let (Command(value, _) | Nothing(value, _)) = claim.measured else { continue };
                (vec![value.to_owned()], "-".to_owned())
            }
        };
        if !claim.differs.is_empty() {
            differs = claim.differs.to_owned();
        }
        for (place, value) in values.iter().enumerate() {
            let first = [claim.source.name(), claim.claim, value, &claim.command(), &differs].map(str::to_owned);
            let row = if place == 0 { first } else { ["", "", value, "", ""].map(str::to_owned) };
            page.push_str(&format!("| {} |\n", row.join(" | ")));
        }
    }
    page.push('\n');
    page
}

#[test]
fn the_page_in_the_docs_has_every_claim() {
    const BEGIN: &str = "<!-- claims:begin, by UPDATE_DOCS=1 cargo test -p hpt-cli the_page_in_the_docs -->\n";
    const END: &str = "<!-- claims:end -->\n";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/published.md");
    let text = std::fs::read_to_string(&path).expect("docs/published.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("the page has a section for the claims");
    let (now, after) = rest.split_once(END).expect("which ends");
    let expected = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).expect("the checkout is ours");
    } else {
        assert!(now == expected, "docs/published.md is out of date; run this test with UPDATE_DOCS=1");
    }
}

#[test]
fn every_published_figure_belongs_to_one_claim() {
    for experiment in EXPERIMENTS {
        for figure in experiment.published {
            let is_of_it = |claim: &&Claim| matches!(claim.measured, Figures(name, is_of_it, _) if name == experiment.name && is_of_it(figure.what));
            let claims: Vec<_> = CLAIMS.iter().filter(is_of_it).map(|claim| claim.claim).collect();
            assert_eq!(claims.len(), 1, "{}, {}: {claims:?}", experiment.name, figure.what);
        }
    }
}

#[test]
fn every_claim_has_figures_a_command_or_a_reason() {
    for claim in CLAIMS {
        match claim.measured {
            Figures(..) => assert!(claim.figures().is_some_and(|(_, figures)| !figures.is_empty()), "{}", claim.claim),
            Command(value, how) | Nothing(value, how) => {
                assert!(!value.is_empty() && !how.is_empty(), "{}", claim.claim);
            }
        }
        if let Command(_, command) = claim.measured {
            assert!(command.contains('`'), "{}: {command} names no command", claim.claim);
        }
        assert!(!claim.claim.contains('|') && !claim.differs.contains('|'), "{}: ends a cell", claim.claim);
        let earlier = CLAIMS.iter().filter(|other| other.claim == claim.claim).count();
        assert_eq!(earlier, 1, "{}", claim.claim);
    }
    // The rows of a publication stand together.
    let mut sources: Vec<Source> = CLAIMS.iter().map(|claim| claim.source).collect();
    sources.dedup();
    assert_eq!(sources, [Article, Paper, Post, Library, Manual]);
}
