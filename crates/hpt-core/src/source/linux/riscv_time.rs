//! The counter `time` of a RISC-V processor, which RDTIME reads. The instruction itself is in `hpt_sys::arch`.

use hpt_sys::{
    arch::TimeToken,
    host::{Architecture, Host},
    units::Frequency,
};

use crate::source::{
    Backend, KernelVerdict, Nominal, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId, SourceInfo,
    StatedBy, TimeSource,
};

const ID: SourceId = SourceId::new("riscv-time");
/// The kernel's name for the counter. Linux, drivers/clocksource/timer-riscv.c.
const CLOCK_SOURCE: &str = "riscv_clocksource";

/// The counter `time` of a RISC-V processor, which all its harts share.
///
/// RDCYCLE and RDINSTRET are no sources: each hart has its own, and Linux has closed both to programs since version 6.6.
/// [`PerfCycles`](super::PerfCycles) counts cycles through a perf event.
///
/// # Ordering
///
/// [`ticks`](TimeSource::ticks) is a plain read, which the processor may execute early.
/// [`ticks_start`](TimeSource::ticks_start) executes a FENCE before the read, which orders it after all preceding accesses
/// to memory and devices, but not after instructions that access nothing. [`ticks_end`](TimeSource::ticks_end) executes a
/// FENCE before and after the read.
///
/// # References
///
/// RISC-V ISA manual, volume I (20240411), "Zicntr" 7.1 and "Zicsr" 6.1.1. Linux,
/// Documentation/devicetree/bindings/riscv/cpus.yaml, `timebase-frequency`.
#[derive(Clone, Debug)]
pub struct RiscvTime {
    token: TimeToken,
    info: SourceInfo,
}

impl RiscvTime {
    /// Opens the counter.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if this is not a 64-bit RISC-V processor, or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, RiscvTime, TimeSource};
    ///
    /// match RiscvTime::open(&Host::live()) {
    ///     Ok(counter) => assert!(counter.ticks_start() <= counter.ticks_end()),
    ///     Err(reason) => println!("no RISC-V counter here: {reason}"),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        let info = describe(host)?;
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        let token = TimeToken::detect(true, false).map_err(SourceError::of_counter)?;
        Ok(Self { token, info })
    }
}

impl TimeSource for RiscvTime {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.token.read()
    }

    #[inline(always)]
    fn ticks_start(&self) -> u64 {
        self.token.read_start()
    }

    #[inline(always)]
    fn ticks_end(&self) -> u64 {
        self.token.read_end()
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

/// Returns the properties of the counter on this host, or the reason why it is not available. Uses only the files and
/// facts of the host.
fn describe(host: &Host) -> Result<SourceInfo, SourceError> {
    let have = host.facts().architecture;
    if have != Architecture::Riscv64 {
        return Err(SourceError::OtherArchitecture { have });
    }
    let mut info = SourceInfo::new(ID);
    info.nominal = host
        .timebase_frequency_hz()
        .and_then(Frequency::from_hertz)
        .map(|frequency| Nominal { frequency, stated_by: StatedBy::DeviceTree });
    info.read_path = ReadPath::Register;
    info.rate = RateKind::Constant;
    Ok(info)
}

fn evidence(host: &Host) -> Vec<String> {
    let frequency = host.timebase_frequency_hz().map_or_else(
        || "device tree: no timebase-frequency (or no device tree), so the rate has to be measured".to_owned(),
        |hertz| format!("device tree: timebase-frequency {hertz} Hz"),
    );
    let others = "rdcycle and rdinstret are not read: each hart has its own, and Linux has closed them to programs \
                  since version 6.6; perf-cycles counts cycles through a perf event";
    vec![frequency, others.to_owned()]
}

#[derive(Debug)]
pub(super) struct RiscvTimeBackend;

impl Backend for RiscvTimeBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        let here = host.facts().architecture == Architecture::Riscv64;
        let availability =
            if host.is_live() { RiscvTime::open(host).map(|counter| counter.info) } else { describe(host) };
        vec![ProbeReport {
            id: ID,
            description: "counter of a RISC-V processor, the CSR time",
            availability,
            kernel: if here {
                KernelVerdict::of_clock_source(&host.clock_sources(), CLOCK_SOURCE)
            } else {
                KernelVerdict::Unknown("this counter does not exist on this architecture".to_owned())
            },
            evidence: if here { evidence(host) } else { Vec::new() },
        }]
    }

    fn open(&self, host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        RiscvTime::open(host).map(|counter| Opened::Shared(Box::new(counter)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Architecture, RiscvTimeBackend, describe};
    use crate::source::{Backend, KernelVerdict};
    use hpt_sys::host::{Capture, Entry, Facts, Host};

    /// A board whose device tree states the frequency in one or two cells.
    fn board(frequency: &[u8]) -> Host {
        let mut capture = Capture::new();
        let mut put = |path, content: &[u8]| {
            capture.insert(path, Entry::File(content.to_vec())).expect("a path without links");
        };
        put("proc/device-tree/cpus/timebase-frequency", frequency);
        let list = b"riscv_clocksource \n".as_slice();
        put("sys/devices/system/clocksource/clocksource0/available_clocksource", list);
        put("sys/devices/system/clocksource/clocksource0/current_clocksource", list);
        Host::captured(capture, Facts { architecture: Architecture::Riscv64, ..Facts::live() })
    }

    #[test]
    fn the_device_tree_states_the_frequency() {
        // QEMU's virt board has 10 MHz, in one cell.
        for (bytes, hertz) in [
            (&10_000_000_u32.to_be_bytes()[..], Some(10_000_000)),
            (&4_000_000_u64.to_be_bytes()[..], Some(4_000_000)),
            (&[0; 4][..], None),
            (&[1, 2, 3][..], None),
        ] {
            let info = describe(&board(bytes)).expect("the board has the counter");
            assert_eq!(info.nominal.map(|nominal| nominal.frequency.hertz()), hertz, "{bytes:?}");
        }
    }

    #[test]
    fn the_kernel_trusts_the_counter_that_it_offers() {
        let report = RiscvTimeBackend.probe(&board(&[0, 0x98, 0x96, 0x80])).remove(0);
        assert!(matches!(report.kernel, KernelVerdict::Trusted(_)) && report.availability.is_ok());
        let evidence = report.evidence.join("\n");
        assert!(evidence.contains("timebase-frequency 10000000 Hz") && evidence.contains("since version 6.6"));
    }
}
