//! Detects emulators that do not identify themselves. Hypervisors are not covered, because a real processor executes
//! the program under a hypervisor.

use std::{fs, path::Path};

use super::{Architecture, Host};
use crate::units::Frequency;

/// The name of QEMU.
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

    use super::translator_by;

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
