//! The configuration with which the running kernel was built. This module reads the file; it reaches no verdict.

use std::{borrow::Cow, io};

use super::Host;

/// The kernel's own copy, if it was built with one: Linux, kernel/configs.c (CONFIG_IKCONFIG_PROC).
const OWN_COPY: &str = "/proc/config.gz";
/// The first bytes of compressed data. RFC 1952, section 2.3.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The size that no configuration reaches. Those of distributions have 300 KB.
#[cfg(feature = "instrument")]
const LARGEST: u64 = 4 << 20;
/// The beginnings of the options that hpt uses. A capture contains only these.
const USED: [&str; 6] = ["PREEMPT", "HZ", "NO_HZ_", "RT_GROUP_SCHED", "CPU_ISOLATION", "RCU_NOCB_CPU"];

/// The configuration of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelConfiguration {
    pub path: String,
    text: String,
}

impl KernelConfiguration {
    /// Returns whether an option is set; `None` if the file does not mention it.
    pub fn is_set(&self, option: &str) -> Option<bool> {
        self.text.lines().find_map(|line| match option_in(line)? {
            (name, value) if name == option => Some(value == Some("y")),
            _ => None,
        })
    }

    /// Returns the preemption model for which the kernel was built, as `preempt=` names it.
    pub fn preemption(&self) -> Option<&'static str> {
        let models = [
            ("PREEMPT_NONE", "none"),
            ("PREEMPT_VOLUNTARY", "voluntary"),
            ("PREEMPT", "full"),
            ("PREEMPT_LAZY", "lazy"),
        ];
        models.into_iter().find(|(option, _)| self.is_set(option) == Some(true)).map(|(_, model)| model)
    }

    /// Returns the lines about these options, separated by semicolons; `None` if there are none.
    pub fn lines_about(&self, options: &[&str]) -> Option<String> {
        let is_meant = |line: &&str| option_in(line).is_some_and(|(name, _)| options.contains(&name));
        let lines: Vec<&str> = self.text.lines().filter(is_meant).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

/// Returns the option of a line such as `CONFIG_HZ=250` and its value, or `# CONFIG_HZ_1000 is not set`.
fn option_in(line: &str) -> Option<(&str, Option<&str>)> {
    match line.strip_prefix("# CONFIG_") {
        Some(rest) => Some((rest.strip_suffix(" is not set")?, None)),
        None => line.strip_prefix("CONFIG_")?.split_once('=').map(|(name, value)| (name, Some(value))),
    }
}

impl Host {
    /// Returns the configuration of the running kernel; `None` if no file states it.
    pub fn kernel_configuration(&self) -> Option<KernelConfiguration> {
        self.configuration_files().into_iter().find_map(|path| {
            let content = self.read(&path).ok()?;
            let text = String::from_utf8_lossy(&decompressed(&content).ok()?).into_owned();
            Some(KernelConfiguration { path, text })
        })
    }

    /// Returns the files that may contain the configuration. The kernel's own copy comes first; distributions install the
    /// others with the kernel of this release.
    pub(super) fn configuration_files(&self) -> [String; 3] {
        let release = &self.facts().kernel_release;
        [OWN_COPY.to_owned(), format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")]
    }
}

/// Returns the part of a configuration that hpt uses; `None` if the file is another one.
pub(super) fn only_what_is_used(path: &str, content: &[u8]) -> Option<io::Result<Vec<u8>>> {
    let of_modules = path.starts_with("/lib/modules/") && path.ends_with("/config");
    let is_one = path == OWN_COPY || path.starts_with("/boot/config-") || of_modules;
    let is_used =
        |line: &&str| option_in(line).is_some_and(|(name, _)| USED.iter().any(|beginning| name.starts_with(beginning)));
    let used = |content: Cow<'_, [u8]>| {
        let text = String::from_utf8_lossy(&content);
        text.lines().filter(is_used).flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
    };
    is_one.then(|| decompressed(content).map(used))
}

/// Returns the content of a file that may be compressed.
fn decompressed(content: &[u8]) -> io::Result<Cow<'_, [u8]>> {
    if content.starts_with(&GZIP) { unzipped(content).map(Cow::Owned) } else { Ok(Cow::Borrowed(content)) }
}

#[cfg(feature = "instrument")]
fn unzipped(content: &[u8]) -> io::Result<Vec<u8>> {
    use std::io::Read as _;

    let mut text = Vec::new();
    flate2::read::GzDecoder::new(content).take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

#[cfg(not(feature = "instrument"))]
fn unzipped(_: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, feature = "instrument"))]
mod tests {
    use std::{fs, io::Write as _};

    use super::{LARGEST, only_what_is_used};
    use crate::host::{Facts, Host};

    const TEXT: &str = "#\n# Linux/arm64 6.12.25 Kernel Configuration\n#\nCONFIG_PREEMPT_BUILD=y\n# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT=y\n# CONFIG_RT_GROUP_SCHED is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\nCONFIG_LOCALVERSION=\"-of-alice\"\n";

    fn zipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    fn machine(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent directory")).expect("ours");
            fs::write(path, content).expect("ours");
        }
        let host = Host::below(folder.path(), Facts { kernel_release: "6.12.25".to_owned(), ..Facts::live() });
        (folder, host)
    }

    #[test]
    fn the_copy_of_the_kernel_precedes_the_files_of_the_distribution() {
        let other = b"CONFIG_PREEMPT_NONE=y\nCONFIG_RT_GROUP_SCHED=y\n";
        let both = [("proc/config.gz", &*zipped(TEXT.as_bytes())), ("boot/config-6.12.25", &other[..])];
        let (_folder, host) = machine(&both);
        let found = host.kernel_configuration().expect("a file");
        assert_eq!((found.path.as_str(), found.preemption()), ("/proc/config.gz", Some("full")));
        let is_set = ["RT_GROUP_SCHED", "HZ_250", "HZ_1000"].map(|option| found.is_set(option));
        assert_eq!(is_set, [Some(false), Some(true), None]);
        assert_eq!(found.lines_about(&["HZ", "PREEMPT"]).as_deref(), Some("CONFIG_PREEMPT=y; CONFIG_HZ=250"));
        let (_folder, host) = machine(&[("lib/modules/6.12.25/config", other)]);
        let found = host.kernel_configuration().expect("a file");
        assert_eq!((found.path.as_str(), found.preemption()), ("/lib/modules/6.12.25/config", Some("none")));
        assert_eq!(machine(&[]).1.kernel_configuration(), None);
    }

    #[test]
    fn a_capture_has_only_the_options_that_are_used_as_text() {
        let kept = only_what_is_used("/proc/config.gz", &zipped(TEXT.as_bytes())).expect("a configuration");
        let kept = String::from_utf8(kept.expect("gzip")).expect("text");
        assert!(kept.contains("# CONFIG_RT_GROUP_SCHED is not set\nCONFIG_HZ_250=y\n"), "{kept}");
        assert!(!kept.contains("alice") && !kept.contains("Kernel Configuration"), "{kept}");
        let (_folder, host) = machine(&[("proc/config.gz", kept.as_bytes())]);
        assert_eq!(host.kernel_configuration().and_then(|found| found.preemption()), Some("full"));
        assert!(only_what_is_used("/proc/cpuinfo", b"").is_none());
    }

    #[test]
    fn damaged_and_huge_data_is_no_configuration() {
        let zip = zipped(TEXT.as_bytes());
        let mut changed = zip.clone();
        changed[zip.len() - 6] ^= 1;
        for damaged in [&zip[..zip.len() / 2], &zip[..2], &changed] {
            let (_folder, host) = machine(&[("proc/config.gz", damaged)]);
            assert_eq!(host.kernel_configuration(), None);
        }
        let bomb = zipped(&vec![b'\n'; usize::try_from(LARGEST).expect("64 bits") + 1]);
        let (_folder, host) = machine(&[("proc/config.gz", &bomb)]);
        assert_eq!(host.kernel_configuration(), None);
    }
}
