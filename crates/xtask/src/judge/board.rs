//! A board's file, `boards/NAME.board`: the subjects and the expectations of the board.
//! Reads assignments of words and lists in bash syntax, and runs nothing.

/// The effect of a perf event on later reads of a cycle counter that `hpt_cycles` opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterPerf {
    /// The kernel cannot count cycles with perf.
    #[default]
    None,
    /// Reading it raises SIGILL.
    Sigill,
    /// The counter does not advance.
    Stands,
    /// The module does not find a counter.
    Refused,
}

/// The HPET of a PC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hpet {
    /// There is none.
    #[default]
    None,
    /// The kernel does not map it.
    Unmapped,
    /// It runs at this rate.
    Hz(u64),
}

/// The ACPI timer of a PC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AcpiTimer {
    /// The board's file does not mention it.
    #[default]
    Unstated,
    /// It is at this port, in the kernel's notation.
    Port(String),
    /// The kernel is locked down and does not allow access to ports.
    Lockdown,
}

/// The subjects and expectations of a board. boards/README.md explains the variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// Its name.
    pub name: String,
    /// Debian's name of the kernel's architecture.
    pub architecture: String,
    /// Whether its time advances with executed instructions, independently of the host's load.
    pub counts_instructions: bool,
    /// The builds of hpt that it runs.
    pub builds: Vec<String>,
    /// The subjects to judge.
    pub shows: Vec<String>,
    /// The board's name in the device tree, if it has one.
    pub compatible: String,
    /// The kernel's clocksource.
    pub clock_source: String,
    /// The physical address of the System Timer.
    pub system_timer: Option<String>,
    /// The frequency of the ARM counter.
    pub arm_counter: Option<u64>,
    /// The kernel's verdict on the TSC.
    pub tsc: Option<String>,
    /// The HPET.
    pub hpet: Hpet,
    /// The ACPI timer.
    pub acpi_timer: AcpiTimer,
    /// Number of processors.
    pub cores: usize,
    /// Whether its kernel has a fair server in place of real-time throttling.
    pub has_fair_server: bool,
    /// Whether its second processor can be taken offline.
    pub hotplug: bool,
    /// Whether a module imitates KVM.
    pub vcpu: bool,
    /// Whether the kernel supports KVM guests.
    pub kvm: bool,
    /// The effect of a perf event on later reads of the cycle counter.
    pub after_perf: AfterPerf,
    /// The label of the board's own GPIO chip.
    pub gpio: Option<String>,
    /// Whether programs can map the registers of that chip.
    pub gpio_registers: bool,
    /// The counters of the SoC that root can read.
    pub soc_counters: Vec<SocCounter>,
    /// Other such counters, and a part of the reason why root cannot read them.
    pub soc_refused: Vec<(String, String)>,
}

/// A counter of a system on a chip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocCounter {
    /// The name of the source.
    pub id: String,
    /// Its rate.
    pub hz: u64,
    /// Whether it is the kernel's clocksource.
    pub is_the_kernels: bool,
}

impl SocCounter {
    /// Reads `SOURCE:HZ`, with `:kernel` if it is the kernel's clocksource.
    fn parse(word: &str) -> Result<Self, String> {
        let mut parts = word.split(':');
        let (id, hz) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let hz = hz.parse::<u64>().map_err(|error| format!("soc_counters: {word}: {error}"))?;
        Ok(Self { id: id.to_owned(), hz, is_the_kernels: parts.next() == Some("kernel") })
    }
}

/// The reason why a board's file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardError {
    line: usize,
    message: String,
}

impl std::fmt::Display for BoardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for BoardError {}

impl Board {
    /// Reads the text of a board's file.
    ///
    /// # Errors
    ///
    /// Fails if a line is not an assignment, or if a value is invalid for its variable.
    pub fn parse(name: &str, text: &str) -> Result<Self, BoardError> {
        let mut board = Self { name: name.to_owned(), cores: 1, ..Self::default() };
        board.read(text)?;
        Ok(board)
    }

    /// Reads further assignments, which replace earlier ones.
    ///
    /// # Errors
    ///
    /// As [`Board::parse`].
    pub fn read(&mut self, text: &str) -> Result<(), BoardError> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            self.assign(line).map_err(|message| BoardError { line: index + 1, message })?;
        }
        Ok(())
    }

    /// Returns the name of the first build.
    #[must_use]
    pub fn first_build(&self) -> &str {
        self.builds.first().map_or("", String::as_str)
    }

    /// Returns whether the board's file lists a subject.
    #[must_use]
    pub fn asked_for(&self, subject: &str) -> bool {
        self.shows.iter().any(|show| show == subject)
    }

    /// Returns the processor's own counter, if it has one that programs may read.
    #[must_use]
    pub fn processor_counter(&self) -> Option<&'static str> {
        if self.arm_counter.is_some() {
            Some("arm-counter")
        } else if self.tsc.is_some() {
            Some("tsc")
        } else {
            None
        }
    }

    /// Returns the sources with a known rate; if there are none, a clock that every kernel has.
    #[must_use]
    pub fn counters(&self) -> Vec<&'static str> {
        let mut counters = Vec::new();
        if self.system_timer.is_some() {
            counters.extend(["bcm-systimer", "bcm-systimer-low"]);
        }
        counters.extend(self.processor_counter());
        if counters.is_empty() {
            counters.push("monotonic");
        }
        counters
    }

    /// Returns whether the kernel has `kernel.perf_user_access` (64-bit kernels since Linux 5.17). Only such a kernel
    /// closes the counter when a perf event ends.
    #[must_use]
    pub fn has_user_access(&self) -> bool {
        self.after_perf == AfterPerf::Sigill
    }

    fn assign(&mut self, line: &str) -> Result<(), String> {
        let (variable, value) = line.split_once('=').ok_or_else(|| format!("{line} is not an assignment"))?;
        let words = words(value)?;
        let word = words.first().cloned().unwrap_or_default();
        let stated = (word != "none" && !word.is_empty()).then(|| word.clone());
        let number = |word: &str| word.parse::<u64>().map_err(|error| format!("{variable}: {word}: {error}"));
        match variable {
            "qemu" => self.counts_instructions = words.iter().any(|word| word == "-icount"),
            // Used for booting only.
            "qemu_suite" | "kernel_suite" | "console" | "dtb" | "tree" | "typing_stops" | "append" | "gpio_unwired"
            | "by_name" | "tested_builds" | "tested_shows" => {}
            "kernel" => self.architecture = word.rsplit(':').next().unwrap_or_default().to_owned(),
            "builds" => self.builds = words,
            "shows" => self.shows = words,
            "compatible" => self.compatible = word,
            "fair_server" => self.has_fair_server = word == "yes",
            "clock_source" => self.clock_source = word,
            "system_timer" => self.system_timer = stated,
            "arm_counter" => self.arm_counter = stated.as_deref().map(number).transpose()?,
            "tsc" => self.tsc = stated,
            "hpet" => {
                self.hpet = match stated.as_deref() {
                    None => Hpet::None,
                    Some("unmapped") => Hpet::Unmapped,
                    Some(hz) => Hpet::Hz(number(hz)?),
                };
            }
            "acpi_timer" => {
                self.acpi_timer = match word.as_str() {
                    "lockdown" => AcpiTimer::Lockdown,
                    port if port.starts_with("0x") => AcpiTimer::Port(port.to_owned()),
                    _ => return Err(format!("acpi_timer: {word} is neither a port nor lockdown")),
                };
            }
            "cores" => self.cores = word.parse::<usize>().map_err(|error| format!("cores: {word}: {error}"))?,
            "hotplug" => self.hotplug = word == "yes",
            "vcpu" => self.vcpu = word == "yes",
            "kvm" => self.kvm = word == "yes",
            "after_perf" => {
                self.after_perf = match word.as_str() {
                    "none" => AfterPerf::None,
                    "SIGILL" => AfterPerf::Sigill,
                    "stands" => AfterPerf::Stands,
                    "refused" => AfterPerf::Refused,
                    _ => return Err(format!("after_perf: unknown value {word}")),
                };
            }
            "gpio" => self.gpio = stated,
            "gpio_registers" => self.gpio_registers = word == "yes",
            "soc_counters" => {
                self.soc_counters = words.iter().map(|word| SocCounter::parse(word)).collect::<Result<_, _>>()?;
            }
            "soc_refused" => {
                let pair = |word: &String| word.split_once(':').map(|(id, why)| (id.to_owned(), why.to_owned()));
                self.soc_refused = words.iter().filter_map(pair).collect();
            }
            _ => return Err(format!("unknown variable {variable}")),
        }
        Ok(())
    }
}

/// Returns the words of a value: a list in parentheses, or a single word. Single quotes group
/// characters into one word.
fn words(value: &str) -> Result<Vec<String>, String> {
    let inner = match value.strip_prefix('(') {
        Some(list) => list.strip_suffix(')').ok_or_else(|| format!("{value} is not a list on one line"))?,
        None => value,
    };
    let mut words = Vec::new();
    let (mut word, mut quoted, mut begun) = (String::new(), false, false);
    for character in inner.chars() {
        match character {
            '\'' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            '"' | '$' | '`' | '\\' if !quoted => return Err(format!("{value}: only single quotes are supported")),
            character => {
                word.push(character);
                begun = true;
            }
        }
    }
    if quoted {
        return Err(format!("{value}: unterminated quote"));
    }
    if begun {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{AcpiTimer, AfterPerf, Board, Hpet, SocCounter, words};

    #[test]
    fn every_board_in_the_repository_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards");
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).expect("there are boards") {
            let path = entry.expect("the directory can be read").path();
            if path.extension().is_some_and(|kind| kind == "board") {
                let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
                let text = fs::read_to_string(&path).expect("a board's file is text");
                let board = Board::parse(&name, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(!board.builds.is_empty() && !board.shows.is_empty(), "{name}");
                names.push(name);
            }
        }
        assert!(names.len() >= 15, "{names:?}");
    }

    #[test]
    fn a_board_file_sets_the_expectations() {
        let text = "# A board.\nqemu=(qemu-system-arm -M virt -icount 'shift=0,sleep=off')\nkernel=linux-image-armmp:armhf\nbuilds=(armv7 armv6)\n\
                    clock_source='arm,sp804'\nsystem_timer=none\narm_counter=62500000\nhpet=unmapped\nacpi_timer=0x608\n\
                    cores=4\nafter_perf=stands\ngpio=none\n\
                    soc_counters=(imx-gpt:66000000:kernel a9-global-timer:100000000)\nsoc_refused=('sp804:not there')\n";
        let board = Board::parse("one", text).expect("it is a board");
        assert_eq!(
            (board.architecture.as_str(), board.builds.as_slice()),
            ("armhf", &["armv7".to_owned(), "armv6".to_owned()][..])
        );
        assert_eq!((board.clock_source.as_str(), board.system_timer.clone()), ("arm,sp804", None));
        assert_eq!((board.arm_counter, board.hpet, board.cores), (Some(62_500_000), Hpet::Unmapped, 4));
        assert_eq!(
            (board.acpi_timer.clone(), board.after_perf),
            (AcpiTimer::Port("0x608".to_owned()), AfterPerf::Stands)
        );
        assert!(board.counts_instructions);
        let soc = |id: &str, hz, is_the_kernels| SocCounter { id: id.to_owned(), hz, is_the_kernels };
        assert_eq!(board.soc_counters, [soc("imx-gpt", 66_000_000, true), soc("a9-global-timer", 100_000_000, false)]);
        assert_eq!(board.soc_refused, [("sp804".to_owned(), "not there".to_owned())]);
        assert_eq!((board.gpio.clone(), board.counters()), (None, vec!["arm-counter"]));
    }

    #[test]
    fn an_invalid_line_is_rejected_with_its_number() {
        for (text, message) in [
            ("# One.\ncolor=red\n", "line 2: unknown variable color"),
            ("load it\n", "line 1: load it is not an assignment"),
            ("shows=(probe\n", "line 1: (probe is not a list on one line"),
            ("arm_counter=fast\n", "line 1: arm_counter: fast: invalid digit found in string"),
            ("tsc=\"trusted\"\n", "line 1: \"trusted\": only single quotes are supported"),
            ("after_perf=maybe\n", "line 1: after_perf: unknown value maybe"),
        ] {
            assert_eq!(Board::parse("one", text).expect_err("it is wrong").to_string(), message);
        }
    }

    #[test]
    fn single_quotes_group_words() {
        let wanted = vec!["-cpu".to_owned(), "max,+invtsc".to_owned(), "a b".to_owned()];
        assert_eq!(words("(-cpu 'max,+invtsc'  'a b')"), Ok(wanted));
        assert_eq!(words(""), Ok(Vec::new()));
    }
}
