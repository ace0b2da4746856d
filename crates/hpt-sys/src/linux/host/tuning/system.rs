//! The distribution of a machine, and how it starts services and its kernel: the facts that decide which commands work.

use std::{fs, os::unix::fs::MetadataExt};

use super::Host;

const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// The namespaces of processes, each with the number that the kernel gives to the first one. A container has others. Linux,
/// include/linux/proc_ns.h, `PROC_PID_INIT_INO` and `PROC_CGROUP_INIT_INO`.
const FIRST_NAMESPACES: [(&str, u64); 2] = [("/proc/self/ns/pid", 0xEFFF_FFFC), ("/proc/self/ns/cgroup", 0xEFFF_FFFB)];
/// The number of the first namespace of mounts, since Linux 6.18; `MNT_NS_INIT_INO`.
const FIRST_MOUNTS: u64 = 0xEFFF_FFF8;
/// Files that exist only in containers. systemd, src/basic/virt.c.
const OF_CONTAINERS: [&str; 3] = ["/run/systemd/container", "/.dockerenv", "/run/.containerenv"];
const SYSTEMD: &str = "/run/systemd/system";

/// A distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct System {
    /// `ID` and `ID_LIKE` of os-release(5), the most specific first.
    pub distributions: Vec<String>,
    /// Whether systemd starts the services.
    pub has_systemd: bool,
    /// Whether this is a container, whose kernel is that of the host.
    pub is_a_container: bool,
    /// Whether the image of the running kernel is installed. If not, the kernel comes from elsewhere, for example from
    /// the host of a virtual machine, which may also provide the modules.
    pub has_kernel: bool,
}

/// The distributions whose commands are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Debian,
    Ubuntu,
    Fedora,
    Suse,
    Arch,
    Alpine,
}

impl System {
    /// Returns the family of the distribution; `None` if its commands are not known.
    pub fn family(&self) -> Option<Family> {
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
    pub fn install(self, package: &str) -> String {
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
        let facts = self.facts();
        let is_there = |path: &str| self.is_there(path);
        Some(System {
            distributions: distributions(&text),
            has_systemd: self.is_there(SYSTEMD),
            is_a_container: facts.imitator.is_some() || self.is_a_container(),
            has_kernel: images(&facts.kernel_release).iter().any(|path| is_there(path)),
        })
    }

    /// Returns whether this is a container. A file of a container manager also remains in the image of a container that
    /// a virtual machine starts, in which the first process has the same files.
    fn is_a_container(&self) -> bool {
        let number = |path: &str| self.number_of(path);
        let is_the_first_system = || {
            let own = number("/proc/self/ns/mnt");
            own == Some(FIRST_MOUNTS) || (own.is_some() && own == number("/proc/1/ns/mnt"))
        };
        FIRST_NAMESPACES.into_iter().any(|(path, first)| number(path).is_some_and(|is| is != first))
            || (OF_CONTAINERS.into_iter().any(|path| self.is_there(path)) && !is_the_first_system())
    }

    /// Returns the number of the file to which a link leads.
    fn number_of(&self, path: &str) -> Option<u64> {
        Some(fs::metadata(self.locate(path)?).ok()?.ino())
    }
}

/// Returns the paths at which distributions install the image of a kernel: Debian and those based on it, Fedora, SUSE
/// (`Image` and `image` on ARM and s390), Arch, and Alpine, whose file names the flavor of the kernel.
fn images(release: &str) -> Vec<String> {
    let boot = ["vmlinuz", "vmlinux", "Image", "image", "zImage"].map(|name| format!("/boot/{name}-{release}"));
    let modules = ["/lib/modules", "/usr/lib/modules"];
    let with_modules = modules
        .iter()
        .flat_map(|folder| ["vmlinuz", "Image", "kernel-suffix"].map(|name| format!("{folder}/{release}/{name}")));
    boot.into_iter().chain(with_modules).collect()
}

/// Returns the distributions in the text of os-release.
fn distributions(text: &str) -> Vec<String> {
    let value = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
    let words = |value: &str| value.trim_matches(['"', '\'']).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    ["ID", "ID_LIKE"].into_iter().filter_map(value).flat_map(words).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Family, System, distributions};
    use crate::host::{Facts, Host};

    fn seen(release: &str, files: &[&str]) -> System {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for path in ["etc/os-release"].iter().chain(files) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("ours");
            fs::write(path, "ID=debian\n").expect("ours");
        }
        let facts = Facts { kernel_release: release.to_owned(), imitator: None, ..Facts::live() };
        Host::below(folder.path(), facts).look_at_the_system().expect("os-release exists")
    }

    #[test]
    fn a_kernel_is_installed_if_its_image_is() {
        let has = |release, file| seen(release, &[file]).has_kernel;
        assert!(has("6.1.0-41-amd64", "boot/vmlinuz-6.1.0-41-amd64"));
        assert!(has("6.18.7-200.fc43.x86_64", "lib/modules/6.18.7-200.fc43.x86_64/vmlinuz"));
        assert!(has("6.12.8-0-lts", "lib/modules/6.12.8-0-lts/kernel-suffix"));
        assert!(has("6.4.0-default", "boot/Image-6.4.0-default"));
        assert!(!has("6.1.0-41-amd64", "boot/vmlinuz-6.1.0-40-amd64"), "of another kernel");
        // The host provides the modules, too.
        assert!(!has(
            "5.15.167.4-microsoft-standard-WSL2",
            "lib/modules/5.15.167.4-microsoft-standard-WSL2/modules.dep"
        ));
    }

    #[test]
    fn a_container_has_its_own_namespaces_or_a_file_of_its_manager() {
        assert!(!seen("6.1", &[]).is_a_container, "nothing states one");
        assert!(seen("6.1", &["run/.containerenv"]).is_a_container);
        let folder = tempfile::tempdir().expect("a temporary directory");
        let root = folder.path();
        for name in ["etc", "proc/self/ns", "proc/1/ns"] {
            fs::create_dir_all(root.join(name)).expect("ours");
        }
        for name in ["etc/os-release", ".dockerenv", "proc/self/ns/mnt"] {
            fs::write(root.join(name), "").expect("ours");
        }
        let is_one = || {
            let host = Host::below(root, Facts { imitator: None, ..Facts::live() });
            host.look_at_the_system().expect("os-release exists").is_a_container
        };
        assert!(is_one(), "the first process is not visible");
        fs::hard_link(root.join("proc/self/ns/mnt"), root.join("proc/1/ns/mnt")).expect("ours");
        assert!(!is_one(), "a file of the image of a virtual machine");
        // The number of a file is not that of the kernel's first namespace.
        assert!(seen("6.1", &["proc/self/ns/pid"]).is_a_container);
        assert!(seen("6.1", &["proc/self/ns/cgroup"]).is_a_container);
    }

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
