//! The distribution of a machine, and how it starts services and its kernel: the facts that decide which commands work.
//! This module starts no program.

use super::Host;

const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// Files that exist only in containers. systemd, src/basic/virt.c.
const OF_CONTAINERS: [&str; 3] = ["/run/systemd/container", "/.dockerenv", "/run/.containerenv"];
const SYSTEMD: &str = "/run/systemd/system";

/// A distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct System {
    /// `ID` and `ID_LIKE` of os-release(5), the most specific first.
    pub distributions: Vec<String>,
    /// Whether systemd starts the services.
    pub has_systemd: bool,
    /// Whether this is a container, whose kernel is that of the host.
    pub is_a_container: bool,
    /// Whether the modules of the running kernel are installed. If not, the kernel comes from elsewhere, for example from
    /// the host of a virtual machine.
    pub has_kernel: bool,
}

/// The distributions whose commands are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Debian,
    Ubuntu,
    Fedora,
    Suse,
    Arch,
    Alpine,
}

impl System {
    /// Returns the family of the distribution; `None` if its commands are not known.
    pub(crate) fn family(&self) -> Option<Family> {
        self.distributions.iter().find_map(|id| match id.as_str() {
            "debian" | "raspbian" => Some(Family::Debian),
            "ubuntu" => Some(Family::Ubuntu),
            "fedora" | "rhel" | "centos" => Some(Family::Fedora),
            "suse" | "opensuse" => Some(Family::Suse),
            "arch" => Some(Family::Arch),
            "alpine" => Some(Family::Alpine),
            _ => None,
        })
    }
}

impl Family {
    /// Returns the command that installs a package.
    pub(crate) fn install(self, package: &str) -> String {
        let command = match self {
            Self::Debian | Self::Ubuntu => "apt-get install",
            Self::Fedora => "dnf install",
            Self::Suse => "zypper install",
            Self::Arch => "pacman -S",
            Self::Alpine => "apk add",
        };
        format!("sudo {command} {package}")
    }
}

impl Host {
    /// Returns the distribution; `None` if no file names it.
    pub(super) fn look_at_the_system(&self) -> Option<System> {
        let text = OS_RELEASE.iter().find_map(|path| self.text(path))?;
        let release = &self.facts().kernel_release;
        Some(System {
            distributions: distributions(&text),
            has_systemd: self.is_there(SYSTEMD),
            is_a_container: OF_CONTAINERS.iter().any(|path| self.is_there(path)),
            has_kernel: ["/lib/modules", "/usr/lib/modules"]
                .iter()
                .any(|path| self.is_there(&format!("{path}/{release}"))),
        })
    }
}

/// Returns the distributions in the text of os-release.
fn distributions(text: &str) -> Vec<String> {
    let value = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
    let words = |value: &str| value.trim_matches(['"', '\'']).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    ["ID", "ID_LIKE"].into_iter().filter_map(value).flat_map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::{Family, System, distributions};

    #[test]
    fn the_family_is_that_of_the_nearest_known_distribution() {
        let family = |text: &str| System { distributions: distributions(text), ..System::default() }.family();
        assert_eq!(family("NAME=x\nID=debian\n"), Some(Family::Debian));
        assert_eq!(family("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"), Some(Family::Ubuntu));
        assert_eq!(family("ID=fedora\n"), Some(Family::Fedora));
        assert_eq!(family("ID='almalinux'\nID_LIKE='rhel centos fedora'\n"), Some(Family::Fedora));
        assert_eq!(family("ID=opensuse-leap\nID_LIKE=\"suse opensuse\"\n"), Some(Family::Suse));
        assert_eq!(family("ID=manjaro\nID_LIKE=arch\n"), Some(Family::Arch));
        assert_eq!(family("ID=nixos\n"), None);
        assert_eq!(family("VERSION_ID=12\n"), None);
        assert_eq!(family(""), None);
    }
}
