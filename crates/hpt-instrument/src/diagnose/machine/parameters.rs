//! Boot parameters for fixes: how to pass a parameter to the kernel on this machine, and which CPUs a parameter already
//! lists.

use std::collections::BTreeSet;

use hpt_sys::{
    host::{BootLoader, BootParameter, CpuList, Family},
    settings::{ISOLATED, NEW_INTERRUPTS},
};

use super::MachineFacts;

/// The value of a parameter that lists CPUs, for example `domain,managed_irq,2-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The flags before the list of CPUs.
    pub(super) words: Vec<String>,
    /// The listed CPUs; `None` if the list is invalid.
    pub(super) cpus: Option<CpuList>,
}

impl Listed {
    /// Parses the value of a parameter. Linux, Documentation/admin-guide/kernel-parameters.rst, cpu lists.
    pub(super) fn parse(value: &str, online: &CpuList) -> Self {
        let is_word = |part: &&str| {
            part.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && !["all", "N"].contains(part)
                && !part.starts_with("N-")
                && !part.starts_with("all:")
        };
        let words: Vec<String> = value.split(',').take_while(is_word).map(str::to_owned).collect();
        let last = online.iter().next_back().unwrap_or(0);
        let number =
            |text: &str| if text == "N" { Some(last) } else { text.parse::<usize>().ok().filter(|&cpu| cpu < MOST) };
        let part = |part: &str| {
            let (range, groups) = part.split_once(':').map_or((part, None), |(range, groups)| (range, Some(groups)));
            let (first, end) = match range.split_once('-') {
                _ if range == "all" => (0, last),
                Some((first, end)) => (number(first)?, number(end)?),
                None => (number(range)?, number(range)?),
            };
            let (used, group) = match groups {
                Some(groups) => {
                    groups.split_once('/').and_then(|(used, group)| Some((number(used)?, number(group)?)))?
                }
                None => (1, 1),
            };
            (first <= end && used > 0 && used <= group).then_some((first, end, used, group))
        };
        let (mut listed, mut named) = (BTreeSet::new(), 0);
        let mut parts = value.split(',').skip(words.len());
        // The parts of a valid list do not overlap. Without the limit, a list that names CPUs again and again would take
        // minutes and gigabytes.
        let is_valid = parts.all(|text| {
            let Some((first, end, used, group)) = part(text) else { return false };
            named += end - first + 1;
            listed.extend((first..=end).filter(|cpu| named <= MOST && (cpu - first) % group < used));
            named <= MOST
        });
        let cpus = Some(listed.into_iter().collect::<CpuList>()).filter(|cpus| is_valid && !cpus.is_empty());
        Self { words, cpus }
    }
}

/// The maximum number of CPUs that Linux supports.
const MOST: usize = 8192;

impl MachineFacts {
    /// Returns the value of a parameter on the kernel command line; empty if the parameter has no value. If the
    /// parameter is given several times, the last value applies.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        Some(self.boot_parameter(name)?.value.as_deref().unwrap_or_default())
    }

    fn boot_parameter(&self, name: &str) -> Option<&BootParameter> {
        let name = name.replace('_', "-");
        self.parameters.as_ref()?.iter().rev().find(|parameter| parameter.name == name)
    }

    /// Returns the CPUs that a parameter on the kernel command line lists.
    pub(super) fn listed(&self, name: &str) -> Option<Listed> {
        let online = self.cores.online.is().cloned().unwrap_or_default();
        self.parameter(name).map(|value| Listed::parse(value, &online))
    }

    /// Returns a fix that adds `cpus` to the CPUs that the parameter `name` lists.
    pub(super) fn at_boot_also(&self, name: &str, cpus: &CpuList) -> (String, Vec<String>) {
        let listed = self.listed(name);
        let before = listed.as_ref().and_then(|listed| listed.cpus.clone()).unwrap_or_default();
        let all = before.or(cpus);
        let is_all = self.cores.online.is().is_some_and(|online| online.without(&all).is_empty());
        if is_all {
            let choice = if before.is_empty() { String::new() } else { format!(", one of {before}") };
            let text = format!(
                "Choose another CPU{choice}: {name} cannot list all CPUs, because one must remain for everything else"
            );
            return (text, Vec::new());
        }
        let mut words = listed.map(|listed| listed.words).unwrap_or_default();
        // Without `domain`, the other flags have no effect on the scheduler.
        if name == ISOLATED.boot_name() && !words.is_empty() && !words.iter().any(|word| word == "domain") {
            words.insert(0, "domain".to_owned());
        }
        words.push(all.to_string());
        self.at_boot_instead(name, &format!("{name}={}", words.join(",")))
    }

    /// Returns a fix that routes interrupts to `cpus` with the parameter `irqaffinity`. If the parameter already lists
    /// some of these CPUs, the fix keeps only those.
    pub(super) fn at_boot_to(&self, cpus: &CpuList) -> (String, Vec<String>) {
        let name = NEW_INTERRUPTS.boot_name();
        let before = self.listed(name).and_then(|listed| listed.cpus);
        let both = before.map(|before| before.and(cpus)).filter(|both| !both.is_empty());
        let cpus = both.as_ref().unwrap_or(cpus);
        self.at_boot_instead(name, &format!("{name}={cpus}"))
    }

    /// Returns a fix that sets `parameter` in place of an existing parameter with the same name.
    fn at_boot_instead(&self, name: &str, parameter: &str) -> (String, Vec<String>) {
        match self.boot_parameter(name).map(|before| before.text.as_str()) {
            Some(before) if before == parameter => (
                format!("{parameter} is on the kernel command line, but not in effect: see parameters-ignored"),
                Vec::new(),
            ),
            Some(before) => self.at_boot_as(&format!("{parameter} instead of {before}")),
            None => self.at_boot(parameter),
        }
    }

    /// Returns a fix that passes a parameter to the kernel on this machine: a description and commands.
    pub(super) fn at_boot(&self, parameter: &str) -> (String, Vec<String>) {
        self.at_boot_as(parameter)
    }

    fn at_boot_as(&self, parameters: &str) -> (String, Vec<String>) {
        let release = &self.kernel_release;
        let (place, commands) = match self.boot_loader() {
            _ if self.is_a_container() => {
                ("on the host of this container, which sets the kernel command line", Vec::new())
            }
            Some(BootLoader::RaspberryPi) => {
                ("edit the single line of /boot/firmware/cmdline.txt, then reboot", Vec::new())
            }
            Some(BootLoader::RaspberryPiBefore12) => {
                ("edit the single line of /boot/cmdline.txt, then reboot", Vec::new())
            }
            Some(BootLoader::Grub) => (
                "edit GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, run update-grub, then reboot",
                vec!["sudo update-grub".to_owned()],
            ),
            Some(BootLoader::OtherGrub) => self.with_other_grub(parameters),
            Some(BootLoader::SystemdBoot) if is_a_release(release) => (
                "edit /etc/kernel/cmdline, which holds the whole command line, regenerate the systemd-boot entry, then reboot",
                vec![format!("sudo kernel-install add {release} /boot/vmlinuz-{release}")],
            ),
            Some(BootLoader::SystemdBoot) => (
                "edit /etc/kernel/cmdline, which holds the whole command line, regenerate the systemd-boot entry, then reboot",
                Vec::new(),
            ),
            None if self.is_a_raspberry_pi => (
                "edit the single line of /boot/firmware/cmdline.txt, or /boot/cmdline.txt before Debian 12, then reboot",
                Vec::new(),
            ),
            None if self.hypervisor.is_some() => (
                "edit the configuration of the boot loader, or of the host if the host sets the kernel command line, then reboot",
                Vec::new(),
            ),
            None if self.architecture.is_x86() => (
                "edit the configuration of the boot loader, then reboot; with GRUB on Debian, edit GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub and run update-grub",
                Vec::new(),
            ),
            None => ("edit the configuration of the boot loader, then reboot", Vec::new()),
        };
        (format!("Boot with {parameters} ({place})"), commands)
    }

    /// Returns how to pass parameters to a kernel that GRUB starts, on a distribution without `update-grub`.
    fn with_other_grub(&self, parameters: &str) -> (&'static str, Vec<String>) {
        let regenerate =
            "edit GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, regenerate the GRUB configuration, then reboot";
        match self.family() {
            // The entries of the boot menu hold the parameters, and the file only those of new kernels.
            Some(Family::Fedora) => {
                let is_one = is_a_word(parameters);
                let set = || format!("sudo grubby --update-kernel=ALL --args={parameters}");
                ("with grubby, then reboot", is_one.then(set).into_iter().collect())
            }
            Some(Family::Suse) => (regenerate, vec!["sudo grub2-mkconfig -o /boot/grub2/grub.cfg".to_owned()]),
            Some(Family::Arch | Family::Alpine) => {
                (regenerate, vec!["sudo grub-mkconfig -o /boot/grub/grub.cfg".to_owned()])
            }
            _ => (regenerate, Vec::new()),
        }
    }

    fn boot_loader(&self) -> Option<BootLoader> {
        self.situation.boot_loader
    }
}

/// Returns whether a parameter can be used in a command without quoting.
fn is_a_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+_=,".contains(&byte))
}

/// Returns whether the text can be used in a command without quoting.
fn is_a_release(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+_~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::Listed;
    use hpt_sys::host::CpuList;

    fn of(value: &str) -> (Vec<String>, Option<String>) {
        let online = CpuList::parse("0-3").expect("a list");
        let listed = Listed::parse(value, &online);
        (listed.words, listed.cpus.map(|cpus| cpus.to_string()))
    }

    #[test]
    fn the_cpus_of_a_parameter_follow_its_flags() {
        let cpus = |value| of(value).1;
        assert_eq!(
            of("domain,managed_irq,2-3"),
            (vec!["domain".to_owned(), "managed_irq".to_owned()], Some("2-3".to_owned()))
        );
        assert_eq!(
            (cpus("all").as_deref(), cpus("1-N").as_deref(), cpus("3").as_deref()),
            (Some("0-3"), Some("1-3"), Some("3"))
        );
        assert_eq!(
            (cpus("N").as_deref(), cpus("0-7:1/2").as_deref(), cpus("all:2/3").as_deref()),
            (Some("3"), Some("0,2,4,6"), Some("0-1,3"))
        );
        for wrong in ["nohz", "", "1-x", "3-1", "1-3:0/2", "1-3:2/0", "1,,2", "99999"] {
            assert_eq!(cpus(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_parsed_without_a_panic(value in any::<String>(), list in "[0-9N,:/-]{0,20}") {
            of(&value);
            prop_assert!(of(&list).0.is_empty() || list.starts_with('N'));
        }
    }
}
