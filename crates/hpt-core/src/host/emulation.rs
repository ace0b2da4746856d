//! Signs of an emulator that does not identify itself. Does not cover hypervisors, under which a real processor
//! executes the program.

use std::{fs, path::Path};

use super::{Architecture, Host};
use crate::units::Frequency;

/// QEMU's name for itself.
pub(super) const QEMU: &str = "QEMU";

/// The rate at which the ARM counter ticks when QEMU emulates the processor of a Raspberry Pi, in hertz. QEMU,
/// target/arm/cpu.h: `GTIMER_SCALE`, since 9.1 `GTIMER_BACKCOMPAT_HZ`.
///
/// A real Raspberry Pi counts the cycles of its crystal: 19.2 MHz (Raspberry Pi 2 and 3) or 54 MHz (4 and 5), which its
/// firmware writes to CNTFRQ. Raspberry Pi, tools, armstubs/armstub8.S: `OSC_FREQ`.
const QEMUS_ARM_COUNTER_HZ: u64 = 62_500_000;

/// Returns the emulator that translates this program's instructions; `None` if a processor executes them.
///
/// QEMU's user emulation replaces its own name with the name of the program that it runs, but only in /proc/self:
/// /proc/thread-self comes from the kernel.
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
    /// Returns whether this is QEMU emulating a Raspberry Pi, recognized by a counter rate that no Raspberry Pi has.
    /// The kernel derives its delay loop from the rate of the ARM counter, unless it was given another value, and shows
    /// it to all users. Linux, arch/arm64/kernel/time.c, `time_init`; init/calibrate.c, `calibrate_delay`.
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
