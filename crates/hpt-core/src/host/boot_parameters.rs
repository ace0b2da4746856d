//! The kernel's command line, and the known parameters that affect clocksources. Only parses; `Host` opens the file.
//! Changes nothing; only the boot loader can.

use super::Architecture;

/// A parameter that the kernel was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BootParameter {
    /// Its name, with `-` instead of `_`, because the kernel treats both alike.
    pub name: String,
    /// The part after the `=`, without quotes; `None` if there is none.
    pub value: Option<String>,
    /// As written.
    pub text: String,
}

/// A parameter that affects clocksources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownParameter {
    /// The parameter, with its value if only that one is meant. A value in capitals is a placeholder.
    pub text: &'static str,
    /// What it does.
    pub effect: &'static str,
    /// When it helps, and what its disadvantages are.
    pub helps: &'static str,
    x86: bool,
    advised: bool,
}

const fn x86(text: &'static str, effect: &'static str, helps: &'static str) -> KnownParameter {
    KnownParameter { text, effect, helps, x86: true, advised: true }
}

/// A parameter that is explained if it is set, and not suggested.
const fn understood(text: &'static str, effect: &'static str, helps: &'static str) -> KnownParameter {
    KnownParameter { text, effect, helps, x86: true, advised: false }
}

/// Linux, Documentation/admin-guide/kernel-parameters.txt; where that says less, arch/x86/kernel/tsc.c and
/// kernel/time/clocksource.c.
const KNOWN: [KnownParameter; 19] = [
    KnownParameter {
        text: "clocksource=NAME",
        effect: "makes this clock source the current one from the start, if the kernel has it",
        helps: "to keep a choice over reboots",
        x86: false,
        advised: true,
    },
    x86(
        "tsc=reliable",
        "the TSC is taken for good: not checked at boot, not watched later",
        "where the TSC is known to be good and the kernel drops it all the same, as on a busy host of virtual machines; a TSC that is not good makes time wrong unseen",
    ),
    x86(
        "tsc=nowatchdog",
        "the TSC is checked at boot and not watched later",
        "where being interrupted twice a second is too often; a TSC that goes bad later makes time wrong unseen",
    ),
    x86(
        "tsc=recalibrate",
        "a rate of the TSC that the processor or firmware states is measured against the HPET or the ACPI timer",
        "where clocks run wrong by hundreds of ppm although nobody corrects them; in kernels from 2023 on",
    ),
    x86(
        "tsc=watchdog",
        "the TSC watches the HPET and the ACPI timer, instead of being watched",
        "where those are not to be trusted; in kernels from 2023 on",
    ),
    x86(
        "tsc=unstable",
        "the TSC is dropped from the start",
        "where the kernel drops it later anyway, and time jumps when it does; every reading of a clock costs a system call from then on",
    ),
    understood("tsc=noirqtime", "the TSC is not read to account for interrupts", "where reading the TSC is slow"),
    understood(
        "notsc",
        "the TSC is dropped from the start",
        "only where it is broken; every reading of a clock costs a system call from then on",
    ),
    x86(
        "tsc_early_khz=KHZ",
        "states the TSC's rate for the beginning of the boot",
        "where the kernel finds a wrong rate early, as on overclocked processors",
    ),
    x86(
        "hpet=disable",
        "the HPET is not used: the ACPI timer watches the TSC instead",
        "where the HPET stops in deep sleep or is slow, and makes the kernel drop a good TSC",
    ),
    understood("nohpet", "the HPET is not used", "as hpet=disable"),
    x86("hpet=force", "an HPET that the firmware hides is used", "on old boards without another good source"),
    understood("hpet=verbose", "the HPET's registers are written to the log", "to look for faults"),
    x86(
        "idle=poll",
        "idle CPUs never sleep",
        "where the TSC stops in sleep states, and for the shortest wake-ups; costs power, heat and turbo clock",
    ),
    x86("processor.max_cstate=1", "idle CPUs sleep no deeper than C1 (acpi_idle)", "as idle=poll, at a lower price"),
    x86(
        "intel_idle.max_cstate=0",
        "intel_idle is off: acpi_idle, and so processor.max_cstate, decides",
        "with processor.max_cstate=1 on Intel processors; 1 instead of 0 is the same limit within intel_idle",
    ),
    x86(
        "no-kvmclock",
        "kvm-clock is not used",
        "in a virtual machine whose TSC is good, and where kvm-clock costs a system call",
    ),
    x86(
        "acpi_pm_good",
        "the ACPI timer is read once and not three times",
        "where the log speaks of a PM-Timer bug that this chipset does not have",
    ),
    x86("pmtmr=PORT", "states the I/O port of the ACPI timer", "where the firmware states a wrong one"),
];

/// The emulator of the machine, stated on the kernel's command line by the user who started the emulator.
pub(super) fn emulator(parameters: &[BootParameter]) -> Option<String> {
    let said = parameters.iter().find(|parameter| parameter.name == EMULATED)?;
    Some(said.value.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| "an emulator".to_owned()))
}

impl BootParameter {
    /// Returns the parameters of a command line up to `--`; the rest is for the init program.
    #[must_use]
    pub fn all(command_line: &str) -> Vec<Self> {
        words(command_line).into_iter().take_while(|word| word != "--").map(|word| Self::parse(&word)).collect()
    }

    fn parse(word: &str) -> Self {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.trim_matches('"').to_owned())),
            None => (word, None),
        };
        Self { name: name.trim_matches('"').replace('_', "-"), value, text: word.to_owned() }
    }

    /// Returns what is known of it if it affects clocksources: of this value, otherwise of any value.
    #[must_use]
    pub fn known(&self) -> Option<&'static KnownParameter> {
        let exact = KNOWN.iter().find(|known| {
            let known = Self::parse(known.text);
            known.name == self.name && known.value == self.value
        });
        exact.or_else(|| {
            KNOWN.iter().find(|known| known.is_for_any_value() && Self::parse(known.text).name == self.name)
        })
    }

    /// Returns whether it affects clocksources, even with an unknown value.
    #[must_use]
    pub fn bears_on_clock_sources(&self) -> bool {
        KNOWN.iter().any(|known| Self::parse(known.text).name == self.name)
    }
}

impl KnownParameter {
    /// Returns those that may help the clocksources of this architecture.
    pub fn all(architecture: Architecture) -> impl Iterator<Item = &'static Self> {
        KNOWN.iter().filter(move |known| known.advised && (!known.x86 || architecture == Architecture::X86_64))
    }

    fn is_for_any_value(&self) -> bool {
        self.text.split_once('=').is_some_and(|(_, value)| value.bytes().all(|byte| byte.is_ascii_uppercase()))
    }
}

/// Parameters that affect latency, with `-` instead of `_`. Linux, Documentation/admin-guide/kernel-parameters.txt.
const ON_LATENCY: [&str; 27] = [
    "isolcpus",
    "nohz",
    "nohz-full",
    "rcu-nocbs",
    "rcu-nocb-poll",
    "irqaffinity",
    "threadirqs",
    "preempt",
    "skew-tick",
    "nosmt",
    "mitigations",
    "nmi-watchdog",
    "nowatchdog",
    "nosoftlockup",
    "intel-pstate",
    "amd-pstate",
    "cpufreq.default-governor",
    "idle",
    "transparent-hugepage",
    "kthread-cpus",
    "maxcpus",
    "nr-cpus",
    "acpi-irq-nobalance",
    "numa-balancing",
    "highres",
    "cpuidle.off",
    "lpj",
];

/// The user who starts an emulator tells programs in it about that with this parameter. The kernel takes it for a
/// module parameter and ignores it.
const EMULATED: &str = "hpt.emulated";

/// Returns the part of a command line that affects clocksources and latency, for a capture. Nothing else of it leaves
/// the machine.
pub(super) fn only_what_matters(command_line: &str) -> String {
    let kept = BootParameter::all(command_line)
        .into_iter()
        .filter(|known| known.bears_on_clock_sources() || known.name == EMULATED || ON_LATENCY.contains(&&*known.name));
    let mut kept = kept.map(|parameter| parameter.text).collect::<Vec<_>>().join(" ");
    kept.push('\n');
    kept
}

/// Words between spaces; a quoted part may contain spaces. Linux, lib/cmdline.c, next_arg.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        quoted ^= letter == '"';
        if letter.is_whitespace() && !quoted {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        } else {
            word.push(letter);
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Architecture, BootParameter, KNOWN, KnownParameter, only_what_matters};

    #[test]
    fn parameters_are_words_and_quotes_hold_blanks_together() {
        let parameters = BootParameter::all("quiet tsc=reliable  foo=\"a b\" processor.max_cstate=1 -- tsc=unstable\n");
        let read: Vec<_> = parameters.iter().map(|known| (known.name.as_str(), known.value.as_deref())).collect();
        let expected =
            [("quiet", None), ("tsc", Some("reliable")), ("foo", Some("a b")), ("processor.max-cstate", Some("1"))];
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_known_of_a_parameter_is_found_by_its_value_first() {
        let known = |text| BootParameter::all(text)[0].known().map(|known| known.text);
        assert_eq!(known("tsc=reliable"), Some("tsc=reliable"));
        assert_eq!(known("no_kvmclock"), Some("no-kvmclock"));
        assert_eq!(known("clocksource=hpet"), Some("clocksource=NAME"));
        assert_eq!(known("tsc=sideways"), None);
        assert!(BootParameter::all("tsc=sideways")[0].bears_on_clock_sources());
        assert_eq!(known("root=/dev/sda1"), None);
    }

    #[test]
    fn every_parameter_is_known_by_its_own_text() {
        for known in &KNOWN {
            assert_eq!(BootParameter::all(known.text)[0].known(), Some(known));
        }
        assert!(KnownParameter::all(Architecture::Aarch64).all(|known| !known.text.starts_with("tsc")));
    }

    #[test]
    fn a_capture_keeps_no_other_parameter() {
        let kept = only_what_matters(
            "root=UUID=1234 tsc=reliable password=\"x tsc=y\" idle=poll nohz_full=1-3 hpt.emulated=QEMU -- hpet=force",
        );
        assert_eq!(kept, "tsc=reliable idle=poll nohz_full=1-3 hpt.emulated=QEMU\n");
    }

    #[test]
    fn what_emulates_the_machine_is_what_the_command_line_says() {
        let emulator = |line| super::emulator(&BootParameter::all(line));
        assert_eq!(emulator("quiet hpt.emulated=QEMU panic=-1").as_deref(), Some("QEMU"));
        assert_eq!(emulator("hpt.emulated=\"QEMU 7.2\"").as_deref(), Some("QEMU 7.2"));
        for unnamed in ["hpt.emulated", "hpt.emulated="] {
            assert_eq!(emulator(unnamed).as_deref(), Some("an emulator"), "{unnamed}");
        }
        assert_eq!(["quiet", "emulated=QEMU", "quiet -- hpt.emulated=QEMU"].map(emulator), [None, None, None]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(line in any::<String>()) {
            for parameter in BootParameter::all(&line) {
                let _ = parameter.known();
                prop_assert!(line.contains(&parameter.text));
            }
        }
    }
}
