//! A board's file, `boards/NAME.board`: what the board is expected to show.
//! Reads assignments of words and lists in bash's notation, and runs nothing.

/// What reading the cycle counter meets after a perf event, although `hpt_cycles` opened it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterPerf {
    /// The kernel cannot count cycles with perf.
    #[default]
    None,
    /// Reading it raises SIGILL.
    Sigill,
    /// It stands still.
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
    /// The kernel is locked down and lets nobody at ports.
    Lockdown,
}

/// What a board is expected to show. boards/README.md explains the variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// Its name.
    pub name: String,
    /// Debian's name of the kernel's architecture.
    pub architecture: String,
    /// Whether its time goes by executed instructions, whatever else the host does.
    pub counts_instructions: bool,
    /// The builds of hpt that it runs.
    pub builds: Vec<String>,
    /// The subjects that it is asked to show.
    pub shows: Vec<String>,
    /// The board's name in the device tree, if it has one.
    pub compatible: String,
    /// The kernel's clocksource.
    pub clock_source: String,
    /// The physical address of the System Timer.
    pub system_timer: Option<String>,
    /// The frequency of the ARM counter.
    pub arm_counter: Option<u64>,
    /// What the kernel thinks of the TSC.
    pub tsc: Option<String>,
    /// The HPET.
    pub hpet: Hpet,
    /// The ACPI timer.
    pub acpi_timer: AcpiTimer,
    /// Number of processors.
    pub cores: usize,
    /// Whether its second processor can be taken offline.
    pub hotplug: bool,
    /// Whether a module stands in for KVM.
    pub vcpu: bool,
    /// Whether the kernel has guests of KVM.
    pub kvm: bool,
    /// What reading the cycle counter meets after a perf event.
    pub after_perf: AfterPerf,
    /// The label of the board's own GPIO chip.
    pub gpio: Option<String>,
}

/// Why a board's file cannot be read.
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
    /// A line is not an assignment, or a value is not one that the variable can have.
    pub fn parse(name: &str, text: &str) -> Result<Self, BoardError> {
        let mut board = Self { name: name.to_owned(), cores: 1, ..Self::default() };
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            board.assign(line).map_err(|message| BoardError { line: index + 1, message })?;
        }
        Ok(board)
    }

    /// The name of the first build.
    #[must_use]
    pub fn first_build(&self) -> &str {
        self.builds.first().map_or("", String::as_str)
    }

    /// Whether the board is asked to show a subject.
    #[must_use]
    pub fn asked_for(&self, subject: &str) -> bool {
        self.shows.iter().any(|show| show == subject)
    }

    /// The processor's own counter, if it has one that programs may read.
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

    /// The sources whose rate is known; a clock that every kernel has if there are none.
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

    fn assign(&mut self, line: &str) -> Result<(), String> {
        let (variable, value) = line.split_once('=').ok_or_else(|| format!("{line} is not an assignment"))?;
        let words = words(value)?;
        let word = words.first().cloned().unwrap_or_default();
        let stated = (word != "none" && !word.is_empty()).then(|| word.clone());
        let number = |word: &str| word.parse::<u64>().map_err(|error| format!("{variable}: {word}: {error}"));
        match variable {
            "qemu" => self.counts_instructions = words.iter().any(|word| word == "-icount"),
            // Only booting takes these.
            "qemu_suite" | "dtb" | "typing_stops" | "append" | "gpio_unwired" => {}
            "kernel" => self.architecture = word.rsplit(':').next().unwrap_or_default().to_owned(),
            "builds" => self.builds = words,
            "shows" => self.shows = words,
            "compatible" => self.compatible = word,
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
                    _ => return Err(format!("after_perf: there is no {word}")),
                };
            }
            "gpio" => self.gpio = stated,
            _ => return Err(format!("there is no variable {variable}")),
        }
        Ok(())
    }
}

/// The words of a value: of a list in parentheses, or one. Single quotes hold a word together.
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
            '"' | '$' | '`' | '\\' if !quoted => return Err(format!("{value}: only single quotes are read")),
            character => {
                word.push(character);
                begun = true;
            }
        }
    }
    if quoted {
        return Err(format!("{value}: a quote is not closed"));
    }
    if begun {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{AcpiTimer, AfterPerf, Board, Hpet, words};

    #[test]
    fn every_board_in_the_repository_is_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards");
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).expect("there are boards") {
            let path = entry.expect("the folder can be read").path();
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
    fn a_board_says_what_to_expect() {
        let text = "# A board.\nqemu=(qemu-system-arm -M virt -icount 'shift=0,sleep=off')\nkernel=linux-image-armmp:armhf\nbuilds=(armv7 armv6)\n\
                    clock_source='arm,sp804'\nsystem_timer=none\narm_counter=62500000\nhpet=unmapped\nacpi_timer=0x608\n\
                    cores=4\nafter_perf=stands\ngpio=none\n";
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
        assert_eq!((board.gpio.clone(), board.counters()), (None, vec!["arm-counter"]));
    }

    #[test]
    fn what_is_not_a_boards_file_is_refused_with_its_line() {
        for (text, message) in [
            ("# One.\ncolour=red\n", "line 2: there is no variable colour"),
            ("load it\n", "line 1: load it is not an assignment"),
            ("shows=(probe\n", "line 1: (probe is not a list on one line"),
            ("arm_counter=fast\n", "line 1: arm_counter: fast: invalid digit found in string"),
            ("tsc=\"trusted\"\n", "line 1: \"trusted\": only single quotes are read"),
            ("after_perf=maybe\n", "line 1: after_perf: there is no maybe"),
        ] {
            assert_eq!(Board::parse("one", text).expect_err("it is wrong").to_string(), message);
        }
    }

    #[test]
    fn quotes_hold_words_together() {
        let wanted = vec!["-cpu".to_owned(), "max,+invtsc".to_owned(), "a b".to_owned()];
        assert_eq!(words("(-cpu 'max,+invtsc'  'a b')"), Ok(wanted));
        assert_eq!(words(""), Ok(Vec::new()));
    }
}
