//! The High Precision Event Timer in PCs: a counter of at least 10 MHz in a page of device registers, which is read and
//! never written. The page is mapped in `hpt_sys::mmio`.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
};

use hpt_sys::{
    arch::Barrier,
    host::Host,
    mmio::{self, Registers, Window},
    process,
    units::{Frequency, Width},
};

use super::{split_counter::read_split_counter, tested};
use crate::source::{
    Backend, KernelVerdict, MissingRight, Nominal, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId,
    SourceInfo, StatedBy, TimeSource,
};

const WIDE_ID: SourceId = SourceId::new("hpet");
const LOW_ID: SourceId = SourceId::new("hpet-low");
const WIDE_DESCRIPTION: &str = "High Precision Event Timer, full width";
const LOW_DESCRIPTION: &str = "High Precision Event Timer, low 32 bits";

const DEVICE: &str = "/dev/hpet";
/// The kernel's name for this timer as a clocksource. Linux, arch/x86/kernel/hpet.c.
const CLOCK_SOURCE: &str = "hpet";

/// The offsets of the capability register's two words, the configuration register, and the main counter's two words, in
/// bytes from the first register. IA-PC HPET Specification 1.0a, 2.3.4, 2.3.5, 2.3.7.
const CAPABILITY: usize = 0x000;
const PERIOD: usize = 0x004;
const CONFIGURATION: usize = 0x010;
const LOW: usize = 0x0f0;
const HIGH: usize = 0x0f4;
/// The number of bytes to map, from the first register to the last register that is read.
const LENGTH: usize = 0x0f8;

/// Bits of the capability register. Bits 7 to 0 are the revision, which is never zero. Bit 13 is set if the main
/// counter has 64 bits. IA-PC HPET Specification 1.0a, 2.3.4.
const REVISION: u32 = 0xff;
const COUNTER_IS_WIDE: u32 = 1 << 13;
/// Bit 0 of the configuration register, which is set if the main counter runs. IA-PC HPET Specification 1.0a, 2.3.5.
const RUNS: u32 = 1 << 0;
/// The longest tick period (IA-PC HPET Specification 1.0a, 2.3.4) and the shortest tick period (Linux,
/// drivers/char/hpet.c and arch/x86/kernel/hpet.c, `HPET_MIN_PERIOD`), in femtoseconds.
const LONGEST_PERIOD_FS: u32 = 100_000_000;
const SHORTEST_PERIOD_FS: u32 = 100_000;

/// The maximum number of attempts to open the device while another thread of this process is releasing it.
const PATIENCE: u32 = 1_000;

/// The HPET's main counter at its full width: 64 bits on most machines, 32 bits on some.
///
/// A 64-bit counter is read with three loads, in the order high word, low word, high word. If the high word changed
/// between its two reads, both words are read again. A single 64-bit load would suffice on most chipsets, but some
/// emulators split it.
///
/// The kernel allows as many opens of /dev/hpet as the HPET has spare timers, often only one. This process therefore
/// maps the page once for all its sources.
///
/// # Ordering
///
/// The processor may execute the read in [`ticks`](TimeSource::ticks) early. [`ticks_start`](TimeSource::ticks_start)
/// first waits until all preceding instructions have completed. [`ticks_end`](TimeSource::ticks_end) also waits until
/// the read itself has completed.
///
/// # References
///
/// IA-PC HPET (High Precision Event Timers) Specification 1.0a; Linux, Documentation/timers/hpet.rst.
#[derive(Debug)]
pub struct Hpet(HpetCounter<Arc<Window>>);

/// The low 32 bits of the HPET's main counter. They are read with a single load. This is the cheapest read of the
/// timer. This counter wraps within minutes; [`Widened`](crate::Widened) extends it to 64 bits so that it can serve as
/// a clock.
///
/// # Ordering
///
/// The processor may execute the read in [`ticks`](TimeSource::ticks) early. [`ticks_start`](TimeSource::ticks_start)
/// first waits until all preceding instructions have completed. [`ticks_end`](TimeSource::ticks_end) also waits until
/// the read itself has completed.
///
/// # References
///
/// IA-PC HPET (High Precision Event Timers) Specification 1.0a; Linux, Documentation/timers/hpet.rst.
#[derive(Debug)]
pub struct HpetLow(HpetCounter<Arc<Window>>);

/// Either variant of the counter. Tests can replace its registers with a script.
#[derive(Debug)]
struct HpetCounter<R> {
    registers: R,
    /// Whether both words are read.
    both: bool,
    barrier: Barrier,
    info: SourceInfo,
}

impl<R: Registers> HpetCounter<R> {
    /// Creates the variant of the counter named `id`.
    ///
    /// # Errors
    ///
    /// Returns the evidence if these registers do not belong to an HPET.
    fn over(registers: R, id: SourceId) -> Result<Self, String> {
        let Shape { frequency, wide } = shape(&registers)?;
        let both = wide && id == WIDE_ID;
        let mut info = info(id);
        info.nominal = Some(Nominal { frequency, stated_by: StatedBy::Device });
        info.width = if both { Width::BITS_64 } else { Width::BITS_32 };
        let barrier = Barrier::detect(process::platform().as_deref());
        Ok(Self { registers, both, barrier, info })
    }

    #[inline(always)]
    fn read(&self) -> u64 {
        if self.both { read_split_counter(&self.registers, LOW, HIGH) } else { self.registers.read_u32(LOW).into() }
    }

    #[inline(always)]
    fn read_start(&self) -> u64 {
        self.barrier.wait();
        self.read()
    }

    #[inline(always)]
    fn read_end(&self) -> u64 {
        let ticks = self.read_start();
        self.barrier.wait();
        ticks
    }
}

macro_rules! time_source {
    ($form:ty) => {
        impl TimeSource for $form {
            #[inline(always)]
            fn ticks(&self) -> u64 {
                self.0.read()
            }

            #[inline(always)]
            fn ticks_start(&self) -> u64 {
                self.0.read_start()
            }

            #[inline(always)]
            fn ticks_end(&self) -> u64 {
                self.0.read_end()
            }

            fn info(&self) -> &SourceInfo {
                &self.0.info
            }
        }
    };
}

time_source!(Hpet);
time_source!(HpetLow);

impl Hpet {
    /// Maps the timer's page read-only, and compares the timer with `CLOCK_MONOTONIC_RAW`. The comparison takes a few
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if the machine has another architecture, if there is no such device, if the permission
    /// is missing, if the kernel does not map the device, if another process uses it, if the page does not belong to an
    /// HPET, or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, Hpet, TimeSource};
    ///
    /// match Hpet::open(&Host::live()) {
    ///     Ok(hpet) => println!("{} bits, now at {}", hpet.info().width, hpet.ticks()),
    ///     Err(reason) => println!("no HPET: {reason}; {}", reason.remedy().unwrap_or_default()),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        tested(Self(open(host, WIDE_ID)?))
    }
}

impl HpetLow {
    /// Maps the timer's page read-only, and compares the timer with `CLOCK_MONOTONIC_RAW`. The comparison takes a few
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] in the same cases as [`Hpet::open`].
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, HpetLow, TimeSource};
    ///
    /// match HpetLow::open(&Host::live()) {
    ///     Ok(hpet) => println!("{} bits, now at {}", hpet.info().width, hpet.ticks()),
    ///     Err(reason) => println!("no HPET: {reason}; {}", reason.remedy().unwrap_or_default()),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        tested(Self(open(host, LOW_ID)?))
    }
}

/// The properties of the counter, according to its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    frequency: Frequency,
    wide: bool,
}

/// Returns the rate and width of the counter, or the evidence that these are not the registers of an HPET.
fn shape<R: Registers>(registers: &R) -> Result<Shape, String> {
    let (capability, period_fs) = (registers.read_u32(CAPABILITY), registers.read_u32(PERIOD));
    if capability & REVISION == 0 {
        return Err(format!("the capability register is {capability:#010x}, which contains no revision"));
    }
    if !(SHORTEST_PERIOD_FS..=LONGEST_PERIOD_FS).contains(&period_fs) {
        return Err(format!("the stated period of {period_fs} fs is out of range for an HPET"));
    }
    let frequency = rate(period_fs).ok_or_else(|| format!("the stated period of {period_fs} fs is invalid"))?;
    Ok(Shape { frequency, wide: capability & COUNTER_IS_WIDE != 0 })
}

/// Returns the frequency of a counter whose tick lasts `period_fs` femtoseconds, rounded to the nearest microhertz.
fn rate(period_fs: u32) -> Option<Frequency> {
    const FEMTOSECONDS_TIMES_MICROHERTZ: u64 = 1_000_000_000_000_000;
    // One second is 10^15 fs, and one hertz is 10^6 µHz. Two 64-bit divisions would lose digits.
    let exact = u128::from(FEMTOSECONDS_TIMES_MICROHERTZ) * 1_000_000;
    let period = u128::from(period_fs);
    let microhertz = (exact + period / 2).checked_div(period)?;
    u64::try_from(microhertz).ok().and_then(Frequency::from_microhertz)
}

/// Returns the properties of a variant that are known before the page is read.
fn info(id: SourceId) -> SourceInfo {
    let mut info = SourceInfo::new(id);
    info.width = if info.id == LOW_ID { Width::BITS_32 } else { Width::BITS_64 };
    info.read_path = ReadPath::Mmio;
    info.rate = RateKind::Constant;
    info
}

fn open(host: &Host, id: SourceId) -> Result<HpetCounter<Arc<Window>>, SourceError> {
    let have = host.facts().architecture;
    if !have.is_x86() {
        return Err(SourceError::OtherArchitecture { have });
    }
    if !host.is_live() {
        return Err(SourceError::Captured);
    }
    let window = window().map_err(|(step, error)| refusal(host, step, error))?;
    HpetCounter::over(window, id).map_err(|evidence| SourceError::Malformed { path: DEVICE.to_owned(), evidence })
}

/// The request that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Opening,
    Mapping,
}

/// Returns the page, mapped once for the whole process. Each open file occupies one of the HPET's timers, and an HPET
/// may have only one spare timer.
fn window() -> Result<Arc<Window>, (Step, io::Error)> {
    static SHARED: Mutex<Weak<Window>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(window) = shared.upgrade() {
        return Ok(window);
    }
    let was_ours = !shared.ptr_eq(&Weak::new());
    let mut attempts = 0;
    let file = loop {
        match mmio::open(Path::new(DEVICE)) {
            // The last user of the page in this process is releasing it.
            Err(error) if was_ours && error.raw_os_error() == Some(libc::EBUSY) && attempts < PATIENCE => {
                attempts += 1;
                thread::yield_now();
            }
            opened => break opened.map_err(|error| (Step::Opening, error))?,
        }
    };
    let window = Window::of(&file, 0, 0, LENGTH).map_err(|error| (Step::Mapping, error))?;
    let window = Arc::new(window);
    *shared = Arc::downgrade(&window);
    Ok(window)
}

/// Translates the kernel's error into its cause and fix.
///
/// # References
///
/// Linux, drivers/char/hpet.c, `hpet_open` and `hpet_mmap`.
fn refusal(host: &Host, step: Step, error: io::Error) -> SourceError {
    let no_device = |evidence: &str| SourceError::NoDevice { evidence: evidence.to_owned() };
    let not_offered =
        |evidence: &str, remedy| SourceError::NotOffered { evidence: evidence.to_owned(), remedy: Some(remedy) };
    match (step, error.raw_os_error()) {
        (Step::Opening, Some(libc::ENOENT | libc::ENXIO | libc::ENODEV)) => no_device(
            "/dev/hpet does not exist: the kernel was built without CONFIG_HPET, or the container does not have the device",
        ),
        (Step::Opening, Some(libc::EACCES | libc::EPERM)) => {
            SourceError::NoRight { path: DEVICE.to_owned(), right: MissingRight::FileMode }
        }
        // The kernel also returns EBUSY if it found no HPET, and therefore has no timer to offer.
        (Step::Opening, Some(libc::EBUSY)) if host.clock_sources().offers(CLOCK_SOURCE) == Some(false) => no_device(
            "opening /dev/hpet returns EBUSY, and HPET is not among the kernel's clocksources: there is no HPET, the firmware hides it, or the kernel runs with hpet=disable",
        ),
        (Step::Opening, Some(libc::EBUSY)) => SourceError::Taken {
            path: DEVICE.to_owned(),
            evidence: "all HPET timers that the kernel can hand out are in use".to_owned(),
        },
        (Step::Mapping, Some(libc::EACCES | libc::EPERM)) => not_offered(
            "the kernel refuses to map /dev/hpet (hpet_mmap=0, or CONFIG_HPET_MMAP_DEFAULT=n)",
            "boot with hpet_mmap=1 on the kernel command line",
        ),
        (Step::Mapping, Some(libc::ENOSYS | libc::ENODEV)) => not_offered(
            "/dev/hpet cannot be mapped: the kernel was built without CONFIG_HPET_MMAP, or the registers are not page-aligned",
            "use a kernel with CONFIG_HPET_MMAP=y",
        ),
        _ => SourceError::refused(DEVICE, error),
    }
}

fn evidence<R: Registers>(counter: &HpetCounter<R>) -> Vec<String> {
    let read = |offset| counter.registers.read_u32(offset);
    let (capability, configuration) = (read(CAPABILITY), read(CONFIGURATION));
    vec![
        format!("mapped read-only from {DEVICE}"),
        format!(
            "capability register: revision {}, {} timers, vendor {:#06x}, {}-bit counter, {} fs per tick",
            capability & REVISION,
            (capability >> 8 & 0x1f) + 1,
            capability >> 16,
            if capability & COUNTER_IS_WIDE == 0 { 32 } else { 64 },
            read(PERIOD)
        ),
        format!(
            "configuration register: the counter {}",
            if configuration & RUNS == 0 { "is stopped" } else { "runs" }
        ),
    ]
}

fn verdict(host: &Host) -> KernelVerdict {
    if host.facts().architecture.is_x86() {
        KernelVerdict::of_clock_source(&host.clock_sources(), CLOCK_SOURCE)
    } else {
        KernelVerdict::Unknown("this counter does not exist on this architecture".to_owned())
    }
}

fn report(host: &Host, id: SourceId, description: &'static str) -> ProbeReport {
    let opened = open(host, id.clone());
    ProbeReport {
        id,
        description,
        kernel: verdict(host),
        evidence: opened.as_ref().map(evidence).unwrap_or_default(),
        availability: opened.map(|counter| counter.info),
    }
}

#[derive(Debug)]
pub(super) struct HpetBackend;

impl Backend for HpetBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![WIDE_ID, LOW_ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        vec![report(host, WIDE_ID, WIDE_DESCRIPTION), report(host, LOW_ID, LOW_DESCRIPTION)]
    }

    /// Describes the timer without opening the device, which may allow only one user at a time.
    fn outline(&self, host: &Host) -> Vec<ProbeReport> {
        let have = host.facts().architecture;
        let availability = |id| {
            if !have.is_x86() {
                Err(SourceError::OtherArchitecture { have })
            } else if host.is_live() && !Path::new(DEVICE).exists() {
                Err(refusal(host, Step::Opening, io::Error::from_raw_os_error(libc::ENOENT)))
            } else {
                Ok(info(id))
            }
        };
        let outline = |id: SourceId, description| ProbeReport {
            id: id.clone(),
            description,
            kernel: verdict(host),
            evidence: Vec::new(),
            availability: availability(id),
        };
        vec![outline(WIDE_ID, WIDE_DESCRIPTION), outline(LOW_ID, LOW_DESCRIPTION)]
    }

    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, SourceError> {
        if *id == LOW_ID {
            HpetLow::open(host).map(|hpet| Opened::Shared(Box::new(hpet)))
        } else {
            Hpet::open(host).map(|hpet| Opened::Shared(Box::new(hpet)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs, io,
        sync::atomic::{AtomicU64, Ordering},
    };

    use proptest::prelude::{any, prop_assert, proptest};

    use super::{
        CAPABILITY, CONFIGURATION, COUNTER_IS_WIDE, HIGH, HpetCounter, LENGTH, LOW, LOW_ID, PERIOD, Registers, Step,
        WIDE_ID, evidence, rate, refusal, shape,
    };
    use crate::source::{
        SelfTestError, SourceError, SourceInfo, TimeSource, Widened,
        linux::devices::test_world::{WorldClock, ticks_after},
        self_test,
    };
    use hpt_sys::{
        host::{Facts, Host},
        units::Frequency,
    };

    /// The HPET in Intel's chipsets: 14.318 18 MHz, three timers, 64 bits.
    const INTEL: (u32, u32) = (0x8086_a201, 69_841_279);

    /// A page whose counter advances with simulated time; each read takes some of that time.
    #[derive(Debug)]
    struct Moving<'a> {
        now_ns: &'a AtomicU64,
        capability: u32,
        period_fs: u32,
        ticks_per_ms: u64,
        read_ns: u64,
    }

    impl Registers for Moving<'_> {
        fn read_u32(&self, offset: usize) -> u32 {
            let ticks = ticks_after(self.now_ns, self.read_ns, self.ticks_per_ms);
            let word = |bits: u128| u32::try_from(bits & u128::from(u32::MAX)).expect("masked");
            match offset {
                CAPABILITY => self.capability,
                PERIOD => self.period_fs,
                CONFIGURATION => 1,
                LOW => word(ticks),
                HIGH if self.capability & COUNTER_IS_WIDE != 0 => word(ticks >> 32),
                HIGH => 0,
                other => panic!("hpt reads no register at {other:#x}"),
            }
        }
    }

    #[derive(Debug)]
    struct Source<'a>(HpetCounter<Moving<'a>>);
    time_source!(Source<'_>);

    fn intel(now_ns: &AtomicU64) -> Moving<'_> {
        Moving { now_ns, capability: INTEL.0, period_fs: INTEL.1, ticks_per_ms: 14_318, read_ns: 500 }
    }

    #[test]
    fn the_period_in_femtoseconds_determines_the_rate() {
        assert_eq!(rate(INTEL.1).map(Frequency::microhertz), Some(14_318_179_940_548));
        assert_eq!(rate(10_000_000).map(Frequency::hertz), Some(100_000_000));
        assert_eq!(rate(0), None);
    }

    #[test]
    fn a_wide_counter_has_two_words_and_a_narrow_one_its_low_word() {
        let now_ns = AtomicU64::new(0);
        let wide = HpetCounter::over(intel(&now_ns), WIDE_ID).expect("an HPET");
        assert_eq!((wide.both, wide.info.width.bits()), (true, 64));
        let low = HpetCounter::over(intel(&now_ns), LOW_ID).expect("an HPET");
        assert_eq!((low.both, low.info.width.bits()), (false, 32));
        let narrow = Moving { capability: INTEL.0 & !COUNTER_IS_WIDE, ..intel(&now_ns) };
        let narrow = HpetCounter::over(narrow, WIDE_ID).expect("an HPET");
        assert_eq!((narrow.both, narrow.info.width.bits()), (false, 32));
        let lines = evidence(&wide).join("\n");
        for said in ["3 timers", "vendor 0x8086", "64-bit counter", "69841279 fs", "the counter runs"] {
            assert!(lines.contains(said), "{said} in {lines}");
        }
    }

    proptest! {
        #[test]
        fn readings_are_never_torn_and_never_go_back(carry in 1..1_000_u64, before_ns in 0..40_000_u64, read_ns in 1..3_000_u64) {
            // One tick per nanosecond: the carry of the low word comes after `before_ns`.
            let now_ns = AtomicU64::new((carry << 32) - before_ns);
            let page = Moving { ticks_per_ms: 1_000_000, read_ns, ..intel(&now_ns) };
            let hpet = Source(HpetCounter::over(page, WIDE_ID).expect("an HPET"));
            let mut last = 0;
            for _ in 0..60 {
                let earliest = now_ns.load(Ordering::Relaxed);
                let ticks = hpet.ticks();
                let latest = now_ns.load(Ordering::Relaxed);
                prop_assert!((earliest..=latest).contains(&ticks) && ticks >= last, "{earliest} {ticks} {latest}");
                last = ticks;
            }
        }

        #[test]
        fn any_page_is_an_hpet_or_is_refused_with_a_reason(capability in any::<u32>(), period_fs in any::<u32>(), ticks_per_ms in 0..1_000_000_u64) {
            let now_ns = AtomicU64::new(0);
            let page = Moving { now_ns: &now_ns, capability, period_fs, ticks_per_ms, read_ns: 500 };
            match HpetCounter::over(page, WIDE_ID) {
                Ok(counter) => {
                    let _ = counter.read();
                }
                Err(reason) => prop_assert!(!reason.is_empty()),
            }
        }
    }

    #[test]
    fn a_page_that_is_not_an_hpet_is_refused() {
        let now_ns = AtomicU64::new(0);
        for (capability, period_fs) in
            [(0, 0), (u32::MAX, u32::MAX), (INTEL.0, 0), (INTEL.0, 99_999), (0x8086_a200, INTEL.1)]
        {
            let page = Moving { capability, period_fs, ..intel(&now_ns) };
            assert!(shape(&page).is_err(), "{capability:#x} {period_fs}");
        }
    }

    #[test]
    fn the_counter_passes_its_self_test_and_another_page_does_not() {
        let test = |page| {
            let Moving { now_ns, .. } = page;
            self_test(&Source(HpetCounter::over(page, LOW_ID).expect("an HPET")), &WorldClock::of(now_ns))
        };
        let now_ns = AtomicU64::new(0);
        test(intel(&now_ns)).expect("runs at its stated rate");
        // Across a wrap of the low word.
        now_ns.store(299_968_600_000, Ordering::Relaxed);
        test(intel(&now_ns)).expect("runs at its stated rate");
        assert!(now_ns.load(Ordering::Relaxed) > 299_969_700_000, "the test ran across the wrap");
        let stopped = test(Moving { ticks_per_ms: 0, ..intel(&now_ns) });
        assert!(matches!(stopped, Err(SelfTestError::StandsStill { .. })), "{stopped:?}");
        let another = test(Moving { ticks_per_ms: 100_000, ..intel(&now_ns) });
        assert!(matches!(another, Err(SelfTestError::WrongRate { .. })), "{another:?}");
    }

    #[test]
    fn a_narrow_counter_of_14_mhz_passes_its_self_test_across_a_wrap_and_is_widened() {
        // A millisecond before the wrap.
        let now_ns = AtomicU64::new(299_968_600_000);
        let page = Moving { capability: INTEL.0 & !COUNTER_IS_WIDE, ..intel(&now_ns) };
        let narrow = Source(HpetCounter::over(page, WIDE_ID).expect("an HPET"));
        self_test(&narrow, &WorldClock::of(&now_ns)).expect("runs at its stated rate");
        // At its nominal rate it counts more in five minutes than it has bits for.
        assert!(narrow.ticks() < 1 << 24, "the counter has wrapped");
        let wide = Widened::by(narrow, WorldClock::of(&now_ns)).expect("a constant-rate counter");
        let first = wide.ticks();
        for _ in 0..10 {
            now_ns.fetch_add(100_000_000_000, Ordering::Relaxed);
            wide.ticks();
        }
        let ticks = wide.ticks() - first;
        assert!((14_317_000_000..14_319_000_000).contains(&ticks), "{ticks}");
    }

    #[test]
    fn every_refusal_is_explained_with_a_fix() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let sources = folder.path().join("sys/devices/system/clocksource/clocksource0");
        fs::create_dir_all(&sources).expect("a new directory");
        fs::write(sources.join("available_clocksource"), "tsc hpet acpi_pm \n").expect("writable");
        let host = Host::below(folder.path(), Facts::live());
        let answer = |step, errno| refusal(&host, step, io::Error::from_raw_os_error(errno));
        assert!(matches!(answer(Step::Opening, libc::ENOENT), SourceError::NoDevice { .. }));
        assert!(matches!(answer(Step::Opening, libc::EACCES), SourceError::NoRight { .. }));
        let taken = answer(Step::Opening, libc::EBUSY);
        assert!(taken.remedy().is_some_and(|remedy| remedy.contains("fuser -v /dev/hpet")), "{taken}");
        let not_mapped = answer(Step::Mapping, libc::EACCES);
        assert!(not_mapped.remedy().is_some_and(|remedy| remedy.contains("hpet_mmap=1")), "{not_mapped}");
        assert!(answer(Step::Mapping, libc::ENOSYS).remedy().is_some_and(|remedy| remedy.contains("CONFIG_HPET_MMAP")));
        assert!(matches!(answer(Step::Mapping, libc::EIO), SourceError::Refused { .. }));
        // The same error on a machine whose HPET is off.
        fs::write(sources.join("available_clocksource"), "tsc acpi_pm \n").expect("writable");
        assert!(matches!(answer(Step::Opening, libc::EBUSY), SourceError::NoDevice { .. }));
    }

    #[test]
    fn all_registers_are_within_the_mapping() {
        for offset in [CAPABILITY, PERIOD, CONFIGURATION, LOW, HIGH] {
            assert!(offset + 4 <= LENGTH, "{offset:#x}");
        }
    }

    #[test]
    fn sources_of_a_captured_machine_are_not_opened() {
        let host = Host::captured(Default::default(), Facts::live());
        assert!(super::Hpet::open(&host).is_err());
    }
}
