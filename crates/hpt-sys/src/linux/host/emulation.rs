//! Detects emulators that do not identify themselves. Hypervisors are not covered, because a real processor executes
//! the program under a hypervisor.

use std::{fs, path::Path};

use super::{Architecture, Host};
use crate::units::Frequency;

pub(super) const QEMU: &str = "QEMU";

/// The rate at which the ARM counter ticks when QEMU emulates the processor of a Raspberry Pi, in hertz. QEMU,
/// target/arm/cpu.h: `GTIMER_SCALE`, or `GTIMER_BACKCOMPAT_HZ` since QEMU 9.1.
///
/// On a real Raspberry Pi, the counter ticks at the rate of the crystal: 19.2 MHz (Raspberry Pi 2 and 3) or 54 MHz
/// (Raspberry Pi 4 and 5). The firmware writes this rate to CNTFRQ. Raspberry Pi, tools, armstubs/armstub8.S:
/// `OSC_FREQ`.
const QEMUS_ARM_COUNTER_HZ: u64 = 62_500_000;

/// Returns the emulator that translates this program's instructions; `None` if a processor executes them directly.
///
/// In /proc/self, QEMU's user-mode emulation replaces its own path with the path of the program that it runs. It does
/// not change /proc/thread-self, in which the kernel shows the path of QEMU.
///
/// # References
///
/// QEMU, linux-user/syscall.c: `is_proc_myself`. Linux 3.17, fs/proc/thread_self.c.
pub(super) fn translator() -> Option<String> {
    let said = |path| fs::read_link(path).ok();
    translator_by(&said("/proc/self/exe")?, &said("/proc/thread-self/exe")?)
}

/// Returns the system that imitates the Linux kernel for this program, as far as it names itself; `None` if the kernel is
/// Linux. The version of every Linux kernel begins with the number of its build, and the banner in /proc/version contains
/// who built the kernel and with which compiler. The subsystem of Windows that has no Linux kernel names Microsoft in
/// its release.
///
/// # References
///
/// Linux: init/Makefile, `UTS_VERSION`; init/version-timestamp.c, `linux_proc_banner`.
pub(super) fn imitator(release: &str, version: &str, banner: Option<&str>) -> Option<String> {
    let lacks_builder = |banner: &str| !banner.split_once(" (").is_some_and(|(_, builder)| builder.contains(") "));
    if release.ends_with("-Microsoft") {
        Some("WSL 1".to_owned())
    } else if !version.is_empty() && !version.starts_with('#') {
        version.split_whitespace().next().map(str::to_owned)
    } else if banner.is_some_and(lacks_builder) {
        Some("an unnamed system, as gVisor is".to_owned())
    } else {
        None
    }
}

fn translator_by(said: &Path, kernel: &Path) -> Option<String> {
    let name = kernel.file_name()?.to_str()?;
    (said != kernel && name.starts_with("qemu-")).then(|| "qemu-user".to_owned())
}

impl Host {
    /// Returns whether the machine is a Raspberry Pi that QEMU emulates. Its counter has a rate that no real Raspberry
    /// Pi has. Unless the kernel was given another value, it calibrates its delay loop with this rate, and shows the
    /// result to all users. Linux, arch/arm64/kernel/time.c, `time_init`; init/calibrate.c, `calibrate_delay`.
    pub(super) fn is_qemus_raspberry_pi(&self) -> bool {
        let cpu = self.cpu();
        let is_arm = matches!(self.facts().architecture, Architecture::Aarch64 | Architecture::Arm);
        is_arm
            && cpu.board().is_some_and(|board| board.starts_with("Raspberry Pi "))
            && cpu.delay_loop_frequency() == Frequency::from_hertz(QEMUS_ARM_COUNTER_HZ)
            && self.arch_timer().is_some()
            && !self.boot_parameters().is_some_and(|given| given.iter().any(|parameter| parameter.name == "lpj"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{imitator, translator_by};

    #[test]
    fn a_kernel_is_imitated_if_it_does_not_state_its_build() {
        let is = |release, version, banner: Option<&str>| imitator(release, version, banner);
        let gvisor = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
        let banner = format!("Linux version 4.4.0 {gvisor}\n");
        assert!(is("4.4.0", gvisor, Some(&banner)).is_some_and(|name| name.contains("gVisor")));
        let windows = "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc version 5.4.0 (GCC) ) #1-Microsoft Fri Dec 06 14:06:00 PST 2019";
        assert_eq!(is("4.4.0-19041-Microsoft", "#1-Microsoft Fri Dec 06", Some(windows)).as_deref(), Some("WSL 1"));
        assert_eq!(is("4.3.0", "BrandZ virtual linux", None).as_deref(), Some("BrandZ"));
        assert_eq!(is("5.15.0", "FreeBSD 14.1-RELEASE-p5 GENERIC", None).as_deref(), Some("FreeBSD"));
        let built = [
            "Linux version 6.1.0-41-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.158-1",
            "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) (gcc (GCC) 11.2.0, GNU ld (GNU Binutils) 2.37) #1 SMP Tue Nov 5 00:21:55 UTC 2024",
            "Linux version 3.4.67 (build@host) (gcc version 4.7 (GCC) ) #1 SMP PREEMPT Fri Aug 21 11:29:41 CST 2015",
        ];
        for banner in built {
            let (release, version) = (banner.split(' ').nth(2).expect("a release"), "#1 SMP");
            assert_eq!(is(release, version, Some(banner)), None, "{banner}");
        }
        assert_eq!((is("6.12.0", "#1 SMP", None), is("", "", None)), (None, None));
    }

    #[test]
    fn a_program_is_not_emulated_if_the_kernel_reports_its_own_path() {
        let by = |said, kernel| translator_by(Path::new(said), Path::new(kernel));
        assert_eq!(by("/bin/hpt", "/usr/bin/qemu-aarch64-static").as_deref(), Some("qemu-user"));
        for itself in ["/bin/hpt", "/usr/bin/qemu-hpt", "/lib/ld-linux.so.2", "/bin/hpt (deleted)"] {
            assert_eq!(by(itself, itself), None, "{itself}");
        }
        assert_eq!(by("/bin/hpt", "/bin/other"), None);
    }
}
