//! The ACPI power management timer in PCs: 3.579 545 MHz, read through an I/O port. The port instruction itself is in
//! `hpt_sys::arch`.

use std::{io, marker::PhantomData};

use hpt_sys::{
    arch::Barrier,
    host::{Host, IO_PORTS, Latch, NoPmTimer},
    port::{InputPort, OpenPort},
    process,
    units::{Frequency, Width},
};

use super::{rights, tested};
use crate::source::{
    Backend, KernelVerdict, MissingRight, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId, SourceInfo,
    StatedBy, TimeSource,
};

const ID: SourceId = SourceId::new("acpi-pm");
const DESCRIPTION: &str = "ACPI power management timer, read through its I/O port";
/// The kernel's name for this timer as a clocksource. Linux, drivers/clocksource/acpi_pm.c.
const CLOCK_SOURCE: &str = "acpi_pm";

/// The frequency of the timer. ACPI Specification 6.5, 4.8.2.1.
const RATE: Frequency = Frequency::from_hertz(3_579_545).expect("not zero");
/// Firmware may state 32 bits, also for a timer with 24 bits, so the kernel and this source use 24.
const WIDTH: Width = Width::new(24).expect("24 bits");

/// The maximum number of attempts to obtain three readings in ascending order. If all attempts fail, the middle reading
/// of the last attempt is used without a check.
const MOST_ATTEMPTS: u32 = 16;

/// The ACPI power management timer. Its 24 bits wrap every 4.7 seconds;
/// [`Widened`](crate::Widened) extends it to 64 bits so that it can serve as a clock.
///
/// Its register is accessed through an I/O port, for which the kernel must grant permission to the calling thread
/// (ioperm). The source is bound to that thread: a read in another thread would raise SIGSEGV. If the chipset can
/// return invalid values while the timer changes, a reading is the middle of three consecutive values that are in
/// ascending order.
///
/// /dev/port is not an alternative: the kernel reads the port one byte at a time, so a reading would combine bytes from
/// four points in time. It also requires the same permission.
///
/// # Ordering
///
/// The processor may execute the read in [`ticks`](TimeSource::ticks) early. [`ticks_start`](TimeSource::ticks_start)
/// first waits until all preceding instructions have completed. [`ticks_end`](TimeSource::ticks_end) also waits until
/// the read itself has completed.
///
/// # References
///
/// ACPI Specification 6.5, 4.8.2.1, Power Management Timer; Linux, drivers/clocksource/acpi_pm.c.
#[derive(Debug)]
pub struct AcpiPm {
    counter: PmCounter<OpenPort>,
    barrier: Barrier,
    info: SourceInfo,
    bound_to_its_thread: PhantomData<*const ()>,
}

/// The timer's register, read through a port that tests can replace with a script.
#[derive(Debug)]
struct PmCounter<P> {
    port: P,
    /// Whether the chipset can return invalid values while the timer changes.
    doubtful: bool,
}

impl<P: InputPort> PmCounter<P> {
    #[inline(always)]
    fn once(&self) -> u64 {
        u64::from(self.port.read_u32()) & WIDTH.mask()
    }

    #[inline(always)]
    fn read(&self) -> u64 {
        if self.doubtful { self.middle_of_three() } else { self.once() }
    }

    /// Returns the middle reading of three consecutive readings in ascending order. It lies between the first and the
    /// last reading, even if one of these two is invalid.
    fn middle_of_three(&self) -> u64 {
        let in_order = |earlier, later| WIDTH.signed_difference(earlier, later) >= 0;
        let mut middle = 0;
        for _ in 0..MOST_ATTEMPTS {
            let first = self.once();
            middle = self.once();
            let last = self.once();
            if in_order(first, middle) && in_order(middle, last) && in_order(first, last) {
                break;
            }
        }
        middle
    }
}

impl AcpiPm {
    /// Opens the timer's port for the calling thread, and compares the timer with `CLOCK_MONOTONIC_RAW`. The comparison
    /// takes a few milliseconds. When the last `AcpiPm` of a thread is dropped, the thread releases the port
    /// permission.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if the machine has another architecture, if the firmware describes no such timer, if the
    /// permission is missing, if the port's values do not advance at the timer's rate, or if `host` is a system
    /// snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{AcpiPm, Host, TimeSource};
    ///
    /// match AcpiPm::open(&Host::live()) {
    ///     Ok(timer) => println!("{} bits, now at {}", timer.info().width, timer.ticks()),
    ///     Err(reason) => println!("no ACPI timer: {reason}; {}", reason.remedy().unwrap_or_default()),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        tested(open(host)?)
    }
}

impl TimeSource for AcpiPm {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.counter.read()
    }

    #[inline(always)]
    fn ticks_start(&self) -> u64 {
        self.barrier.wait();
        self.counter.read()
    }

    #[inline(always)]
    fn ticks_end(&self) -> u64 {
        let ticks = self.ticks_start();
        self.barrier.wait();
        ticks
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

/// Returns the port of the timer on this host, or the reason why there is no timer. Uses only the files and facts of the
/// host.
fn describe(host: &Host) -> Result<u16, SourceError> {
    let have = host.facts().architecture;
    if !have.is_x86() {
        return Err(SourceError::OtherArchitecture { have });
    }
    host.pm_timer().map_err(|error| match error {
        // A snapshot contains the ports only if root made it.
        NoPmTimer::Unreadable(_) if !host.is_live() => SourceError::Captured,
        NoPmTimer::Unreadable(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            SourceError::NoRight { path: IO_PORTS.to_owned(), right: MissingRight::FileMode }
        }
        NoPmTimer::Unreadable(error) => SourceError::refused(IO_PORTS, error),
        NoPmTimer::Absent => SourceError::NoDevice {
            evidence: format!(
                "{IO_PORTS} has no ACPI PM_TMR: the firmware has no ACPI or a reduced one, or the kernel runs with acpi=off"
            ),
        },
    })
}

fn info() -> SourceInfo {
    SourceInfo::new(ID)
        .with_rate(RateKind::Constant)
        .with_width(WIDTH)
        .with_nominal(RATE, StatedBy::Definition)
        .with_read_path(ReadPath::Port)
}

fn open(host: &Host) -> Result<AcpiPm, SourceError> {
    let port = describe(host)?;
    if !host.is_live() {
        return Err(SourceError::Captured);
    }
    let port = OpenPort::open(port).map_err(|error| refusal(host, port, error))?;
    let doubtful = host.pm_timer_latch() != Latch::Sound;
    let barrier = Barrier::detect(process::platform().as_deref());
    Ok(AcpiPm { counter: PmCounter { port, doubtful }, barrier, info: info(), bound_to_its_thread: PhantomData })
}

/// Translates the kernel's error into its cause and fix.
///
/// # References
///
/// ioperm(2); Linux, arch/x86/kernel/ioport.c, `ksys_ioperm`.
fn refusal(host: &Host, port: u16, error: io::Error) -> SourceError {
    match error.raw_os_error() {
        Some(libc::EPERM) => SourceError::NoRight {
            path: format!("I/O port {port:#x}"),
            right: rights::behind_eperm(host).unwrap_or(MissingRight::Ports),
        },
        Some(libc::ENOSYS) => SourceError::NotOffered {
            evidence: "ioperm returns ENOSYS: this kernel or sandbox does not let programs access I/O ports".to_owned(),
            remedy: Some("use a kernel with CONFIG_X86_IOPL_IOPERM=y"),
        },
        _ => SourceError::refused(format!("ioperm failed for port {port:#x}"), error),
    }
}

fn evidence(host: &Host, opened: bool) -> Vec<String> {
    let Ok(port) = describe(host) else { return Vec::new() };
    let chipset = match host.pm_timer_latch() {
        Latch::Sound => "chipset: not known to return invalid timer values, so one read is enough".to_owned(),
        Latch::Doubtful(why) => {
            format!("chipset: {why}; this source uses the middle of three readings in ascending order")
        }
    };
    let granted = opened.then(|| "ioperm granted access to this thread".to_owned());
    [format!("{IO_PORTS}: ACPI PM_TMR at port {port:#x}"), chipset].into_iter().chain(granted).collect()
}

fn verdict(host: &Host) -> KernelVerdict {
    if host.facts().architecture.is_x86() {
        KernelVerdict::of_clock_source(&host.clock_sources(), CLOCK_SOURCE)
    } else {
        KernelVerdict::Unknown("this counter does not exist on this architecture".to_owned())
    }
}

#[derive(Debug)]
pub(super) struct AcpiPmBackend;

impl Backend for AcpiPmBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        let opened = host.is_live().then(|| open(host));
        let is_open = opened.as_ref().is_some_and(Result::is_ok);
        vec![ProbeReport {
            id: ID,
            description: DESCRIPTION,
            kernel: verdict(host),
            evidence: evidence(host, is_open),
            availability: match opened {
                None => describe(host).map(|_| info()),
                Some(opened) => opened.map(|timer| timer.info),
            },
        }]
    }

    /// Describes the timer without opening its port, because the timer wraps too soon to be a clock.
    fn outline(&self, host: &Host) -> Vec<ProbeReport> {
        vec![ProbeReport {
            id: ID,
            description: DESCRIPTION,
            kernel: verdict(host),
            evidence: Vec::new(),
            availability: describe(host).map(|_| info()),
        }]
    }

    fn open(&self, host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        AcpiPm::open(host).map(|timer| Opened::ThreadBound(Box::new(timer)))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        io,
    };

    use proptest::{
        collection::vec,
        prelude::{Strategy, any, prop_assert, proptest},
    };

    use super::{InputPort, MOST_ATTEMPTS, PmCounter, SourceError, WIDTH, refusal};
    use crate::source::MissingRight;
    use hpt_sys::host::{Facts, Host};

    /// A timer that advances by one with every read, unless the script contains another value.
    #[derive(Debug)]
    struct Flaky {
        now: Cell<u32>,
        nonsense: RefCell<Vec<Option<u32>>>,
        reads: Cell<u32>,
    }

    impl InputPort for Flaky {
        fn read_u32(&self) -> u32 {
            self.reads.set(self.reads.get() + 1);
            let now = self.now.get();
            self.now.set(now.wrapping_add(1));
            self.nonsense.borrow_mut().pop().flatten().unwrap_or(now)
        }
    }

    fn flaky(now: u32, nonsense: Vec<Option<u32>>, doubtful: bool) -> PmCounter<Flaky> {
        let port = Flaky { now: Cell::new(now), nonsense: RefCell::new(nonsense), reads: Cell::new(0) };
        PmCounter { port, doubtful }
    }

    #[test]
    fn a_sound_timer_is_read_once_and_its_upper_bits_are_masked() {
        let counter = flaky(0xff00_0005, Vec::new(), false);
        assert_eq!((counter.read(), counter.port.reads.get()), (5, 1));
    }

    proptest! {
        #[test]
        fn one_implausible_reading_of_three_is_never_used(
            now in any::<u32>(),
            nonsense in any::<u32>(),
            which in 0_usize..3,
        ) {
            // The invalid reading is the first, the middle or the last of the first three.
            let mut script = vec![None; 3];
            script[which] = Some(nonsense);
            let counter = flaky(now, script, true);
            let read = counter.read();
            let since = WIDTH.difference(u64::from(now) & WIDTH.mask(), read);
            prop_assert!(since <= u64::from(counter.port.reads.get()), "{read:#x} at {now:#x}");
        }

        #[test]
        fn a_timer_with_only_implausible_readings_does_not_block_the_reader(nonsense in vec(any::<u32>().prop_map(Some), 200)) {
            let counter = flaky(0, nonsense, true);
            counter.read();
            prop_assert!(counter.port.reads.get() <= 3 * MOST_ATTEMPTS);
        }
    }

    #[test]
    fn a_wrap_between_readings_is_accepted() {
        let counter = flaky(0x00ff_fffe, Vec::new(), true);
        assert_eq!((counter.read(), counter.port.reads.get()), (0x00ff_ffff, 3));
    }

    #[test]
    fn every_refusal_is_explained_with_a_fix() {
        let host = Host::captured(Default::default(), Facts::live());
        let answer = |errno| refusal(&host, 0x608, io::Error::from_raw_os_error(errno));
        let not_root = answer(libc::EPERM);
        assert!(matches!(not_root, SourceError::NoRight { right: MissingRight::Ports, .. }), "{not_root}");
        assert!(not_root.to_string().starts_with("I/O port 0x608: ") && not_root.remedy().is_some(), "{not_root}");
        assert!(answer(libc::ENOSYS).remedy().is_some());
        assert!(matches!(answer(libc::EIO), SourceError::Refused { .. }));
    }
}
