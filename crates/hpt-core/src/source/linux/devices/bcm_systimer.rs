//! The Broadcom System Timer in every Raspberry Pi: a microsecond counter in a page of device registers, which is read
//! and never written. The page is mapped in `hpt_sys::mmio`.

use std::path::PathBuf;

use hpt_sys::{
    arch::Barrier,
    host::{Architecture, Host, Region, SystemTimer},
    mmio::{Registers, Window},
    process,
    units::{Frequency, Width},
};

use super::{page, split_counter::read_split_counter, tested};
use crate::source::{
    Backend, KernelVerdict, Nominal, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId, SourceInfo,
    StatedBy, TimeSource,
};

const WIDE_ID: SourceId = SourceId::new("bcm-systimer");
const LOW_ID: SourceId = SourceId::new("bcm-systimer-low");

/// The offsets of the free-running counter's lower and higher 32 bits, in bytes from the first register. BCM2835 ARM
/// Peripherals, 12.1.
const LOW: usize = 0x04;
const HIGH: usize = 0x08;
/// The number of bytes to map, from the first register to the last register that is read.
const LENGTH: usize = 0x0c;

/// The kernel's names for this timer as a clocksource, on boards where the kernel uses it. Linux,
/// drivers/clocksource/bcm2835_timer.c; raspberrypi/linux, rpi-3.12.y, arch/arm/mach-bcm2708/bcm2708.c.
const CLOCK_SOURCE: &str = "timer";
const OLD_CLOCK_SOURCE: &str = "stc";

/// The full 64-bit Broadcom System Timer, at one tick per microsecond.
///
/// The two halves of the counter are separate registers without a latch. They are read in the order high, low, high. If
/// the high half changed between its two reads, both halves are read again. No reading therefore combines the low half
/// from after a carry with the high half from before it.
///
/// # Ordering
///
/// [`ticks`](TimeSource::ticks) reads the registers in that order, but the processor may execute the loads earlier or
/// later. [`ticks_start`](TimeSource::ticks_start) first waits until all preceding instructions have completed.
/// [`ticks_end`](TimeSource::ticks_end) also waits until the read itself has completed.
///
/// # References
///
/// BCM2835 ARM Peripherals, chapter 12, System Timer.
#[derive(Debug)]
pub struct BcmSystimer(SystimerCounter<Window>);

/// The low 32 bits of the Broadcom System Timer. They are read with a single load. This is the cheapest read of the
/// timer. This counter wraps every 71.6 minutes; [`Widened`](crate::Widened) extends it to 64 bits so that it can serve
/// as a clock.
///
/// # Ordering
///
/// The processor may execute the read in [`ticks`](TimeSource::ticks) early. [`ticks_start`](TimeSource::ticks_start)
/// first waits until all preceding instructions have completed. [`ticks_end`](TimeSource::ticks_end) also waits until
/// the read itself has completed.
///
/// # References
///
/// BCM2835 ARM Peripherals, chapter 12, System Timer.
#[derive(Debug)]
pub struct BcmSystimerLow(SystimerCounter<Window>);

/// Either variant of the counter. Tests can replace its registers with a script.
#[derive(Debug)]
struct SystimerCounter<R> {
    registers: R,
    barrier: Barrier,
    info: SourceInfo,
}

impl<R: Registers> SystimerCounter<R> {
    #[inline(always)]
    fn low(&self) -> u64 {
        self.registers.read_u32(LOW).into()
    }

    #[inline(always)]
    fn wide(&self) -> u64 {
        read_split_counter(&self.registers, LOW, HIGH)
    }

    #[inline(always)]
    fn after_all<T>(&self, read: impl FnOnce(&Self) -> T) -> T {
        self.barrier.wait();
        read(self)
    }

    #[inline(always)]
    fn between_all<T>(&self, read: impl FnOnce(&Self) -> T) -> T {
        let ticks = self.after_all(read);
        self.barrier.wait();
        ticks
    }
}

macro_rules! time_source {
    ($form:ty, $read:ident) => {
        impl TimeSource for $form {
            #[inline(always)]
            fn ticks(&self) -> u64 {
                self.0.$read()
            }

            #[inline(always)]
            fn ticks_start(&self) -> u64 {
                self.0.after_all(SystimerCounter::$read)
            }

            #[inline(always)]
            fn ticks_end(&self) -> u64 {
                self.0.between_all(SystimerCounter::$read)
            }

            fn info(&self) -> &SourceInfo {
                &self.0.info
            }
        }
    };
}

time_source!(BcmSystimer, wide);
time_source!(BcmSystimerLow, low);

impl BcmSystimer {
    /// Maps the timer's page read-only, and compares the timer with `CLOCK_MONOTONIC_RAW`. The comparison takes a few
    /// milliseconds. Uses a UIO window over the page if one can be opened, otherwise /dev/mem.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if the machine has another architecture, if there is no such device, if the permission
    /// is missing, if the registers do not advance at the timer's rate, or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{BcmSystimer, Host, TimeSource};
    ///
    /// match BcmSystimer::open(&Host::live()) {
    ///     Ok(timer) => println!("up for {} s", timer.ticks() / 1_000_000),
    ///     Err(reason) => println!("no System Timer: {reason}; {}", reason.remedy().unwrap_or_default()),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        let (counter, _) = open(host, WIDE_ID)?;
        tested(Self(counter))
    }
}

impl BcmSystimerLow {
    /// Maps the timer's page read-only, and compares the timer with `CLOCK_MONOTONIC_RAW`. The comparison takes a few
    /// milliseconds. Uses a UIO window over the page if one can be opened, otherwise /dev/mem.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] in the same cases as [`BcmSystimer::open`].
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{BcmSystimerLow, Host, TimeSource};
    ///
    /// match BcmSystimerLow::open(&Host::live()) {
    ///     Ok(timer) => println!("{} µs, modulo 2^32", timer.ticks()),
    ///     Err(reason) => println!("no System Timer: {reason}; {}", reason.remedy().unwrap_or_default()),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        let (counter, _) = open(host, LOW_ID)?;
        tested(Self(counter))
    }
}

/// Returns the properties and the location of the timer on this host, or the reason why there is no timer. Uses only
/// the files and facts of the host.
fn describe(host: &Host, id: SourceId) -> Result<(SourceInfo, Region), SourceError> {
    let have = host.facts().architecture;
    if !matches!(have, Architecture::Arm | Architecture::Aarch64) {
        return Err(SourceError::OtherArchitecture { have });
    }
    let timer = host.system_timer().map_err(|evidence| SourceError::NoDevice { evidence })?;
    let Some(registers) = timer.registers else {
        return Err(SourceError::NoDevice {
            evidence: format!("the address of the timer's registers is unknown ({})", timer.evidence),
        });
    };
    let length = u64::try_from(LENGTH).expect("twelve");
    if registers.length < length || registers.address % 4 != 0 {
        return Err(SourceError::NoDevice {
            evidence: format!(
                "{} bytes at {:#x} cannot be the timer's registers ({})",
                registers.length, registers.address, timer.evidence
            ),
        });
    }
    Ok((info(id, timer.clock_frequency_hz), Region { length, ..registers }))
}

fn info(id: SourceId, clock_frequency_hz: Option<u32>) -> SourceInfo {
    let mut info = SourceInfo::new(id);
    let stated = clock_frequency_hz.and_then(|hertz| Frequency::from_hertz(hertz.into()));
    info.nominal = Some(stated.map_or(
        Nominal { frequency: Frequency::MEGAHERTZ, stated_by: StatedBy::Definition },
        |frequency| Nominal { frequency, stated_by: StatedBy::DeviceTree },
    ));
    if info.id == LOW_ID {
        info.width = Width::BITS_32;
    }
    info.read_path = ReadPath::Mmio;
    info.rate = RateKind::Constant;
    info
}

fn open(host: &Host, id: SourceId) -> Result<(SystimerCounter<Window>, PathBuf), SourceError> {
    let (info, region) = describe(host, id)?;
    if !host.is_live() {
        return Err(SourceError::Captured);
    }
    let (registers, path) = page::map(host, region)?;
    let barrier = Barrier::detect(process::platform().as_deref());
    Ok((SystimerCounter { registers, barrier, info }, path))
}

/// A note about the true rate of the timer, because the stated rate is rounded. The divider is from pigpio's
/// documentation and has not been verified by a measurement.
const TRUE_RATE: &str = "pigpio's documentation states 19.2 MHz / (19 + 819/4096) = 1.00000254 MHz for a Pi 1 to 3, which has not been verified";

fn evidence(host: &Host, opened: Option<&PathBuf>) -> Vec<String> {
    let SystemTimer { registers, clock_frequency_hz, evidence } = match host.system_timer() {
        Ok(timer) => timer,
        Err(why) => return vec![why],
    };
    let place = registers.map_or("the address of its registers cannot be determined".to_owned(), |registers| {
        format!("registers at {:#x}", registers.address)
    });
    let mut lines = vec![format!("{evidence}; {place}")];
    let window = registers.and_then(|registers| host.uio_window(registers));
    lines.push(window.map_or("UIO: no device maps these registers".to_owned(), |window| {
        format!("UIO: map {} of /dev/{} ({}) covers these registers", window.map, window.device, window.name)
    }));
    lines.extend(opened.map(|path| format!("mapped read-only from {}", path.display())));
    let stated_by = if clock_frequency_hz.is_some() { "according to the device tree" } else { "by definition" };
    lines.push(format!("rate: 1 MHz {stated_by}; {TRUE_RATE}"));
    lines
}

fn report(host: &Host, id: SourceId, description: &'static str) -> ProbeReport {
    let opened = host.is_live().then(|| open(host, id.clone()));
    let path = opened.as_ref().and_then(|opened| opened.as_ref().ok()).map(|(_, path)| path);
    let described = describe(host, id.clone());
    let here = matches!(host.facts().architecture, Architecture::Arm | Architecture::Aarch64);
    ProbeReport {
        evidence: if here { evidence(host, path) } else { Vec::new() },
        kernel: verdict(host, here),
        availability: match opened {
            None => described.map(|(info, _)| info),
            Some(opened) => opened.map(|(counter, _)| counter.info),
        },
        id,
        description,
    }
}

/// Returns the kernel's verdict on the timer. A kernel that does not offer it as a clocksource has no driver for it, or
/// has a better counter. Neither is evidence against the timer.
fn verdict(host: &Host, here: bool) -> KernelVerdict {
    if !here {
        return KernelVerdict::Unknown("this counter does not exist on this architecture".to_owned());
    }
    let sources = host.clock_sources();
    let name = if sources.offers(OLD_CLOCK_SOURCE) == Some(true) { OLD_CLOCK_SOURCE } else { CLOCK_SOURCE };
    match KernelVerdict::of_clock_source(&sources, name) {
        KernelVerdict::Distrusted(_) => KernelVerdict::Unknown(
            "the kernel does not offer this timer as a clocksource, which is not evidence against it".to_owned(),
        ),
        // Drivers of other timers use the same names.
        KernelVerdict::Trusted(_) if host.system_timer().is_err() => KernelVerdict::Unknown(
            "the kernel offers a clocksource of this name, but nothing shows that it is this timer".to_owned(),
        ),
        verdict @ (KernelVerdict::Trusted(_) | KernelVerdict::Unknown(_)) => verdict,
    }
}

#[derive(Debug)]
pub(super) struct BcmSystimerBackend;

impl Backend for BcmSystimerBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![WIDE_ID, LOW_ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        vec![
            report(host, WIDE_ID, "Broadcom System Timer, all 64 bits"),
            report(host, LOW_ID, "Broadcom System Timer, low 32 bits"),
        ]
    }

    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, SourceError> {
        if *id == LOW_ID {
            BcmSystimerLow::open(host).map(|timer| Opened::Shared(Box::new(timer)))
        } else {
            BcmSystimer::open(host).map(|timer| Opened::Shared(Box::new(timer)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::{prop_assert, proptest};

    use super::{Barrier, HIGH, LOW, LOW_ID, Registers, SystimerCounter, WIDE_ID, info};
    use crate::source::{
        SelfTestError, SourceId, SourceInfo, TimeSource,
        linux::devices::test_world::{Scripted, WorldClock, ticks_after},
        self_test,
    };
    use hpt_sys::{host::Host, units::Frequency};

    /// Device registers that advance with simulated time; each read takes some of that time.
    #[derive(Debug)]
    struct Moving<'a> {
        now_ns: &'a AtomicU64,
        ticks_per_ms: u64,
        read_ns: u64,
    }

    impl Registers for Moving<'_> {
        fn read_u32(&self, offset: usize) -> u32 {
            let ticks = ticks_after(self.now_ns, self.read_ns, self.ticks_per_ms);
            let half = if offset == HIGH { ticks >> 32 } else { ticks };
            u32::try_from(half & u128::from(u32::MAX)).expect("masked")
        }
    }

    #[derive(Debug)]
    struct Wide<'a>(SystimerCounter<Moving<'a>>);
    time_source!(Wide<'_>, wide);
    #[derive(Debug)]
    struct Low<'a>(SystimerCounter<Moving<'a>>);
    time_source!(Low<'_>, low);

    fn counter<R: Registers>(registers: R, id: SourceId) -> SystimerCounter<R> {
        SystimerCounter { registers, barrier: Barrier::detect(None), info: info(id, None) }
    }

    fn moving(now_ns: &AtomicU64, ticks_per_ms: u64) -> Moving<'_> {
        Moving { now_ns, ticks_per_ms, read_ns: 100 }
    }

    fn scripted(reads: &[(usize, u32)]) -> SystimerCounter<Scripted> {
        counter(Scripted::new(reads), WIDE_ID)
    }

    #[test]
    fn a_carry_between_the_words_is_read_again() {
        // The low word wrapped after the high one was read: combined they would be 71 minutes late.
        let late = scripted(&[(HIGH, 6), (LOW, 3), (HIGH, 7), (LOW, 4), (HIGH, 7)]);
        assert_eq!(late.wide(), 7 << 32 | 4);
        // The high word changed after the low one was read: with the second high word it would be 71 minutes early.
        let early = scripted(&[(HIGH, 6), (LOW, u32::MAX), (HIGH, 7), (LOW, 0), (HIGH, 7)]);
        assert_eq!(early.wide(), 7 << 32);
        let quiet = scripted(&[(HIGH, 6), (LOW, u32::MAX), (HIGH, 6)]);
        assert_eq!(quiet.wide(), 6 << 32 | 0xffff_ffff);
    }

    #[test]
    fn a_page_that_is_not_a_timer_does_not_block_the_reader() {
        let reads =
            [(HIGH, 1), (LOW, 9), (HIGH, 2), (LOW, 9), (HIGH, 3), (LOW, 9), (HIGH, 4), (LOW, 9), (HIGH, 5), (LOW, 9)];
        assert_eq!(scripted(&reads).wide(), 5 << 32 | 9);
    }

    #[test]
    fn the_low_form_takes_one_read() {
        assert_eq!(scripted(&[(LOW, 0x8000_0001)]).low(), 0x8000_0001);
    }

    proptest! {
        #[test]
        fn readings_are_never_torn_and_never_go_back(carry in 1..1_000_u64, before_ns in 0..40_000_u64, read_ns in 1..3_000_u64) {
            let now_ns = AtomicU64::new((carry << 32) * 1_000 - before_ns);
            let timer = Wide(counter(Moving { read_ns, ..moving(&now_ns, 1_000) }, WIDE_ID));
            let mut last = 0;
            for _ in 0..60 {
                let earliest = now_ns.load(Ordering::Relaxed) / 1_000;
                let ticks = timer.ticks();
                let latest = now_ns.load(Ordering::Relaxed) / 1_000;
                prop_assert!((earliest..=latest).contains(&ticks) && ticks >= last, "{earliest} {ticks} {latest}");
                last = ticks;
            }
        }
    }

    #[test]
    fn the_timer_passes_its_self_test_even_across_a_wrap() {
        for start_ns in [0, (1_u64 << 32) * 1_000 - 300_000] {
            let now_ns = AtomicU64::new(start_ns);
            let clock = WorldClock::of(&now_ns);
            self_test(&Wide(counter(moving(&now_ns, 1_000), WIDE_ID)), &clock).expect("both words");
            now_ns.store(start_ns, Ordering::Relaxed);
            self_test(&Low(counter(moving(&now_ns, 1_000), LOW_ID)), &clock).expect("the low word");
        }
    }

    #[test]
    fn a_wrong_page_is_detected() {
        let now_ns = AtomicU64::new(0);
        let clock = WorldClock::of(&now_ns);
        let stuck = self_test(&Low(counter(moving(&now_ns, 0), LOW_ID)), &clock);
        assert!(matches!(stuck, Err(SelfTestError::StandsStill { .. })), "{stuck:?}");
        let another = self_test(&Low(counter(moving(&now_ns, 250_000), LOW_ID)), &clock);
        assert!(matches!(another, Err(SelfTestError::WrongRate { stated: Frequency::MEGAHERTZ, .. })), "{another:?}");
    }

    #[test]
    fn sources_of_a_captured_machine_are_not_opened() {
        let host = Host::captured(Default::default(), hpt_sys::host::Facts::live());
        assert!(super::BcmSystimer::open(&host).is_err());
    }
}
