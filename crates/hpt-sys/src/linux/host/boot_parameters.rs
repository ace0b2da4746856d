//! The kernel's command line, and the known parameters that affect clocksources. This module only parses them; `Host`
//! opens the file. Parameters can be changed only in the configuration of the boot loader.

use super::Architecture;

/// A parameter on the kernel command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootParameter {
    /// Its name, with every `_` replaced by `-`. The kernel treats the two characters as equal.
    pub name: String,
    /// Its value, without quotes; `None` if the parameter contains no `=`.
    pub value: Option<String>,
    /// The whole parameter, as written on the command line.
    pub text: String,
}

/// A parameter that affects clocksources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownParameter {
    /// The parameter, including its value if the entry applies only to that value. A value in capitals is a
    /// placeholder.
    pub text: &'static str,
    /// Its effect.
    pub effect: &'static str,
    /// The circumstances in which it helps, and its disadvantages.
    pub helps: &'static str,
    x86: bool,
    advised: bool,
}

const fn x86(text: &'static str, effect: &'static str, helps: &'static str) -> KnownParameter {
    KnownParameter { text, effect, helps, x86: true, advised: true }
}

/// Creates an entry for a parameter that is explained if it is set, but never suggested.
const fn understood(text: &'static str, effect: &'static str, helps: &'static str) -> KnownParameter {
    KnownParameter { text, effect, helps, x86: true, advised: false }
}

/// The known parameters. Linux, Documentation/admin-guide/kernel-parameters.txt; for details that are missing there,
/// arch/x86/kernel/tsc.c and kernel/time/clocksource.c.
const KNOWN: [KnownParameter; 19] = [
    KnownParameter {
        text: "clocksource=NAME",
        effect: "selects this clocksource at boot, if the kernel offers it",
        helps: "to keep the selection across reboots",
        x86: false,
        advised: true,
    },
    x86(
        "tsc=reliable",
        "makes the kernel trust the TSC: it is not checked at boot, and no watchdog monitors it later",
        "if the TSC is reliable but the kernel drops it anyway, for example on a busy virtualization host; with an unreliable TSC, time is wrong without any warning",
    ),
    x86(
        "tsc=nowatchdog",
        "checks the TSC at boot, but disables the watchdog",
        "if two watchdog interrupts per second are too many; if the TSC becomes unreliable later, time is wrong without any warning",
    ),
    x86(
        "tsc=recalibrate",
        "checks the TSC frequency stated by the processor or firmware against the HPET or the ACPI timer",
        "if undisciplined clocks have a frequency error of hundreds of ppm; requires Linux 6.3 or later",
    ),
    x86(
        "tsc=watchdog",
        "uses the TSC as the watchdog for the HPET and the ACPI timer, instead of the other way around",
        "if those timers are unreliable; requires Linux 6.3 or later",
    ),
    x86(
        "tsc=unstable",
        "marks the TSC as unstable at boot",
        "if the kernel would otherwise drop the TSC later, with a time step; every clock read then requires a system call",
    ),
    understood("tsc=noirqtime", "excludes the TSC from interrupt time accounting", "if reading the TSC is slow"),
    understood(
        "notsc",
        "marks the TSC as unstable at boot",
        "only if the TSC is broken; every clock read then requires a system call",
    ),
    x86(
        "tsc_early_khz=KHZ",
        "sets the TSC frequency for early boot",
        "if the kernel determines a wrong frequency early, for example on overclocked processors",
    ),
    x86(
        "hpet=disable",
        "disables the HPET, so that the ACPI timer becomes the watchdog for the TSC",
        "if the HPET stops in deep idle states or is slow, so that the kernel drops a reliable TSC",
    ),
    understood("nohpet", "disables the HPET", "in the same cases as hpet=disable"),
    x86("hpet=force", "enables an HPET that the firmware hides", "on old boards without another good clocksource"),
    understood("hpet=verbose", "logs the HPET's registers", "to debug the HPET"),
    x86(
        "idle=poll",
        "disables CPU idle states, so that idle CPUs busy-wait",
        "if the TSC stops in idle states, or if the lowest wake-up latency is required; increases power consumption and heat, and reduces turbo frequencies",
    ),
    x86(
        "processor.max_cstate=1",
        "limits idle CPUs to C1 (acpi_idle)",
        "in the same cases as idle=poll, at a lower cost",
    ),
    x86(
        "intel_idle.max_cstate=0",
        "disables intel_idle, so that acpi_idle and processor.max_cstate apply",
        "together with processor.max_cstate=1 on Intel processors; intel_idle.max_cstate=1 sets the same limit and keeps intel_idle",
    ),
    x86(
        "no-kvmclock",
        "disables kvm-clock",
        "in a virtual machine with a reliable TSC, if kvm-clock requires a system call",
    ),
    x86(
        "acpi_pm_good",
        "makes the kernel read the ACPI timer once instead of three times",
        "if the kernel log reports a PM-Timer bug that this chipset does not have",
    ),
    x86("pmtmr=PORT", "sets the I/O port of the ACPI timer", "if the firmware reports a wrong port"),
];

/// Returns the name of the emulator if the user who started it has set `hpt.emulated` on the kernel command line.
pub(super) fn emulator(parameters: &[BootParameter]) -> Option<String> {
    let said = parameters.iter().find(|parameter| parameter.name == EMULATED)?;
    Some(said.value.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| "an emulator".to_owned()))
}

impl BootParameter {
    /// Returns the parameters on a command line before `--`. The kernel passes the rest to the init program.
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

    /// Returns the known parameter that matches this one, if there is one. An entry for this value takes precedence
    /// over an entry for any value.
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

    /// Returns whether a parameter with this name affects clocksources, regardless of its value.
    #[must_use]
    pub fn bears_on_clock_sources(&self) -> bool {
        KNOWN.iter().any(|known| Self::parse(known.text).name == self.name)
    }
}

impl KnownParameter {
    /// Returns the suggested parameters for the clocksources of an architecture.
    pub fn all(architecture: Architecture) -> impl Iterator<Item = &'static Self> {
        KNOWN.iter().filter(move |known| known.advised && (!known.x86 || architecture.is_x86()))
    }

    fn is_for_any_value(&self) -> bool {
        self.text.split_once('=').is_some_and(|(_, value)| value.bytes().all(|byte| byte.is_ascii_uppercase()))
    }
}

/// The names of parameters that affect latency, with `-` instead of `_`. Linux,
/// Documentation/admin-guide/kernel-parameters.txt.
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

/// The parameter that contains the name of the emulator, for programs in the emulated machine. The user who starts the
/// emulator sets it. The kernel treats it as a module parameter and ignores it.
const EMULATED: &str = "hpt.emulated";

/// Returns the parameters on a command line that affect clocksources or latency, for a capture. No other part of the
/// command line leaves the machine.
pub(super) fn only_what_matters(command_line: &str) -> String {
    let kept = BootParameter::all(command_line)
        .into_iter()
        .filter(|known| known.bears_on_clock_sources() || known.name == EMULATED || ON_LATENCY.contains(&&*known.name));
    let mut kept = kept.map(|parameter| parameter.text).collect::<Vec<_>>().join(" ");
    kept.push('\n');
    kept
}

/// Splits a line into words at whitespace, except at whitespace within quotes. Linux, lib/cmdline.c, next_arg.
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
    fn parameters_are_split_at_blanks_outside_quotes() {
        let parameters = BootParameter::all("quiet tsc=reliable  foo=\"a b\" processor.max_cstate=1 -- tsc=unstable\n");
        let read: Vec<_> = parameters.iter().map(|known| (known.name.as_str(), known.value.as_deref())).collect();
        let expected =
            [("quiet", None), ("tsc", Some("reliable")), ("foo", Some("a b")), ("processor.max-cstate", Some("1"))];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_known_parameter_is_matched_by_its_value_first() {
        let known = |text| BootParameter::all(text)[0].known().map(|known| known.text);
        assert_eq!(known("tsc=reliable"), Some("tsc=reliable"));
        assert_eq!(known("no_kvmclock"), Some("no-kvmclock"));
        assert_eq!(known("clocksource=hpet"), Some("clocksource=NAME"));
        assert_eq!(known("tsc=sideways"), None);
        assert!(BootParameter::all("tsc=sideways")[0].bears_on_clock_sources());
        assert_eq!(known("root=/dev/sda1"), None);
    }

    #[test]
    fn every_known_parameter_matches_its_own_text() {
        for known in &KNOWN {
            assert_eq!(BootParameter::all(known.text)[0].known(), Some(known));
        }
        assert!(KnownParameter::all(Architecture::Aarch64).all(|known| !known.text.starts_with("tsc")));
    }

    #[test]
    fn a_capture_contains_no_unknown_parameter() {
        let kept = only_what_matters(
            "root=UUID=1234 tsc=reliable password=\"x tsc=y\" idle=poll nohz_full=1-3 hpt.emulated=QEMU -- hpet=force",
        );
        assert_eq!(kept, "tsc=reliable idle=poll nohz_full=1-3 hpt.emulated=QEMU\n");
    }

    #[test]
    fn the_emulator_is_the_one_named_on_the_command_line() {
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
        fn any_text_is_parsed_without_a_panic(line in any::<String>()) {
            for parameter in BootParameter::all(&line) {
                let _ = parameter.known();
                prop_assert!(line.contains(&parameter.text));
            }
        }
    }
}
