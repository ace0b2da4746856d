//! The kernel's scheduler clock, computed from the processor's counter and from the kernel's own multiplier and shift,
//! which are in the page of a perf event. The event itself is opened in `sys::perf`.

mod page;

use std::{io, marker::PhantomData};

use hpt_sys::{
    host::{Architecture, CounterPermission, Host},
    native::Native,
    perf::{Page, PerfEvent},
    settings::PARANOID,
    units::Frequency,
};

use self::page::{Line, NoLine};
use super::tested;
use crate::source::{
    Backend, KernelVerdict, MissingRight, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId, SourceInfo,
    StatedBy, TimeSource, permitted_native,
};

const ID: SourceId = SourceId::new("perf-time");
const DESCRIPTION: &str = "kernel scheduler clock, from the processor's counter and a perf event's page";

/// The highest value of `kernel.perf_event_paranoid` at which a process may open a user-mode event. Linux,
/// Documentation/admin-guide/sysctl/kernel.rst; the Debian kernel refuses all events at 3 and above, and the Ubuntu
/// kernel does so at 4 and above.
const HIGHEST: i32 = 2;

/// The kernel's scheduler clock, in nanoseconds. It is computed from the processor's counter with the multiplier, shift
/// and start value that the kernel itself uses.
///
/// These values are in the page of a perf event that counts nothing. The kernel updates the page whenever the thread
/// that opened it is scheduled on a CPU, so the source is bound to that thread: another thread might read values from
/// before a suspend. A forked child process has no such page, and continues with the values that were valid when the
/// source was opened.
///
/// `perf` and the kernel log use this time. It starts near boot, stops during suspend, and is neither stepped nor
/// slewed. The kernel provides the values if its scheduler clock *is* the processor's counter. On x86-64, this requires
/// a TSC that the kernel considers stable, and no paravirtual clock. On 64-bit ARM, it requires Linux 5.9 or newer; the
/// counter is the generic timer.
///
/// # Ordering
///
/// The processor may execute the read in [`ticks`](TimeSource::ticks) early. [`ticks_start`](TimeSource::ticks_start)
/// and [`ticks_end`](TimeSource::ticks_end) order the read of the counter as [`Tsc`](crate::source::Tsc) and
/// [`ArmCounter`](crate::source::ArmCounter) do.
///
/// # References
///
/// Linux, include/uapi/linux/perf_event.h, `struct perf_event_mmap_page`, `cap_user_time_zero`.
#[derive(Debug)]
pub struct PerfTime {
    counter: Native,
    page: Page,
    at_opening: Line,
    info: SourceInfo,
    _event: PerfEvent,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl PerfTime {
    /// Opens an event that counts nothing for the calling thread, and compares the time from its page with
    /// `CLOCK_MONOTONIC_RAW`. The comparison takes a few milliseconds.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if the permission is missing, if the kernel does not provide its time this way, if this
    /// thread must not read the counter, or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PerfTime, TimeSource};
    ///
    /// match PerfTime::open(&Host::live()) {
    ///     Ok(time) => println!("{} s on the scheduler's clock", time.ticks() / 1_000_000_000),
    ///     Err(reason) => println!("no perf-time: {reason}; {}", reason.remedy().unwrap_or_default()),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        let info = describe(host)?;
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        let event = PerfEvent::that_counts_nothing().map_err(refusal)?;
        let page = event.map().map_err(|error| SourceError::refused("cannot map the page of a perf event", error))?;
        let at_opening = page::line(&page).map_err(|why| not_told(why, host.facts().architecture))?;
        let counter = permitted_native().map_err(SourceError::of_counter)?;
        tested(Self { counter, page, at_opening, info, _event: event, bound_to_its_thread: PhantomData })
    }

    #[inline(always)]
    fn line(&self) -> Line {
        if self.page.is_of_this_process() { page::line(&self.page).unwrap_or(self.at_opening) } else { self.at_opening }
    }
}

impl TimeSource for PerfTime {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.line().nanos(self.counter.read())
    }

    #[inline(always)]
    fn ticks_start(&self) -> u64 {
        self.line().nanos(self.counter.read_start())
    }

    #[inline(always)]
    fn ticks_end(&self) -> u64 {
        self.line().nanos(self.counter.read_end())
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

fn permission(host: &Host) -> CounterPermission {
    if host.is_live() { CounterPermission::of_this_thread() } else { host.facts().counter_permission }
}

/// Returns the properties of the source on this host, or the reason why it is not available. Uses only the files and
/// facts of the host.
fn describe(host: &Host) -> Result<SourceInfo, SourceError> {
    let have = host.facts().architecture;
    if have == Architecture::Other {
        return Err(SourceError::OtherArchitecture { have });
    }
    if permission(host) == CounterPermission::Forbidden {
        return Err(SourceError::ForbiddenByPrctl);
    }
    let is_constant = !have.is_x86() || host.tsc_runs_at_one_rate().unwrap_or(false);
    Ok(SourceInfo::new(ID)
        .with_rate(if is_constant { RateKind::Constant } else { RateKind::Variable })
        .with_nominal(Frequency::GIGAHERTZ, StatedBy::Definition)
        .with_read_path(ReadPath::Register)
        .with_counts_in_suspend(false))
}

/// Translates the kernel's error into its cause and fix. See perf_event_open(2), ERRORS.
fn refusal(error: io::Error) -> SourceError {
    let not_offered = |evidence: &str| SourceError::NotOffered { evidence: evidence.to_owned(), remedy: None };
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => SourceError::NoRight {
            path: PARANOID.path.to_owned(),
            right: MissingRight::PerfEvents { highest: HIGHEST },
        },
        Some(libc::ENOSYS) => {
            not_offered("perf_event_open returns ENOSYS: this kernel or emulator does not support perf events")
        }
        Some(libc::ENOENT | libc::EINVAL) => {
            not_offered("this kernel does not support the dummy perf event (available since Linux 3.12)")
        }
        _ => SourceError::refused("perf_event_open", error),
    }
}

fn not_told(why: NoLine, have: Architecture) -> SourceError {
    let (evidence, remedy) = match why {
        NoLine::NotTold(capabilities) => (
            format!(
                "the page of a perf event contains no time conversion ({}), because the kernel's scheduler clock is not the processor's counter",
                page::told(capabilities)
            ),
            match have {
                Architecture::X86_64 | Architecture::X86 => Some(
                    "use a kernel that considers its TSC stable, without a paravirtual clock (boot a guest with no-kvmclock)",
                ),
                Architecture::Aarch64 => Some("use Linux 5.9 or newer"),
                Architecture::Arm => {
                    Some("use a 64-bit kernel, Linux 5.9 or newer; 32-bit ARM kernels never provide the conversion")
                }
                Architecture::Riscv64 | Architecture::Other => None,
            },
        ),
        NoLine::Restless => ("the page of a perf event keeps changing while it is read".to_owned(), None),
        NoLine::NoSense => ("the page of a perf event contains an invalid conversion".to_owned(), None),
    };
    SourceError::NotOffered { evidence, remedy }
}

fn evidence(time: &PerfTime) -> Vec<String> {
    let Line { mult, shift, .. } = time.at_opening;
    let tick_ns = f64::from(mult) / 2_f64.powi(i32::from_ne_bytes(shift.to_ne_bytes()));
    vec![
        format!("page of a perf event: multiplier {mult}, shift {shift}, {}-bit counter", time.at_opening.bits()),
        format!("counter frequency according to the kernel: {:.6} MHz", 1e3 / tick_ns),
    ]
}

/// Returns the kernel's verdict. A kernel that publishes its own conversion trusts the counter, unless the kernel is
/// still calibrating it.
fn verdict(host: &Host, is_published: bool) -> KernelVerdict {
    if !is_published {
        KernelVerdict::Unknown("the kernel does not publish this conversion".to_owned())
    } else if host.clock_sources().current.as_deref() == Some("tsc-early") {
        KernelVerdict::Unknown("the kernel is still calibrating the counter (clocksource tsc-early)".to_owned())
    } else {
        KernelVerdict::Trusted("this is the kernel's scheduler clock".to_owned())
    }
}

#[derive(Debug)]
pub(super) struct PerfTimeBackend;

impl Backend for PerfTimeBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        let opened = PerfTime::open(host);
        vec![ProbeReport {
            id: ID,
            description: DESCRIPTION,
            kernel: verdict(host, opened.is_ok()),
            evidence: opened.as_ref().map(evidence).unwrap_or_default(),
            availability: opened.map(|time| time.info),
        }]
    }

    fn outline(&self, host: &Host) -> Vec<ProbeReport> {
        let availability = describe(host);
        let kernel = verdict(host, availability.is_ok());
        vec![ProbeReport { id: ID, description: DESCRIPTION, availability, kernel, evidence: Vec::new() }]
    }

    fn open(&self, host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        PerfTime::open(host).map(|time| Opened::ThreadBound(Box::new(time)))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Architecture, NoLine, SourceError, not_told, refusal};
    use crate::source::MissingRight;

    #[test]
    fn every_refusal_is_explained() {
        let answer = |errno| refusal(io::Error::from_raw_os_error(errno));
        assert!(matches!(
            answer(libc::EACCES),
            SourceError::NoRight { right: MissingRight::PerfEvents { highest: 2 }, .. }
        ));
        for errno in [libc::ENOSYS, libc::ENOENT] {
            assert_eq!(answer(errno).kind(), "not-offered");
        }
        assert!(matches!(answer(libc::EMFILE), SourceError::Refused { .. }));
    }

    #[test]
    fn a_page_without_its_bits_is_reported_with_those_bits_and_a_fix() {
        let remedy = |have| {
            let reason = not_told(NoLine::NotTold(0), have);
            assert!(reason.to_string().contains("no cap_user_time,"), "{reason}");
            reason.remedy().expect("a fix")
        };
        assert!(remedy(Architecture::X86_64).contains("no-kvmclock"));
        for arm in [Architecture::Aarch64, Architecture::Arm] {
            assert!(remedy(arm).contains("5.9") && !remedy(arm).contains("TSC"), "{}", remedy(arm));
        }
    }
}
