//! Instructions in user mode, counted by a perf event of the thread.

use hpt_core::Host;

use self::perf::Counter;
use crate::{
    counting::{CountError, Event, sealed::Sealed},
    format::Units,
};

/// Instructions that the thread executed in user mode, counted by a perf event of the thread and read with a system
/// call.
#[derive(Debug)]
pub struct UserInstructions(Counter);

impl Sealed for UserInstructions {}

impl Event for UserInstructions {
    /// The count, or the reason why it is unknown.
    type Started = Result<u64, String>;

    const UNITS: &'static Units = &Units {
        one: "instructions",
        larger: ["Kinstructions", "Minstructions", "Ginstructions"],
        per: ["instructions/bit", "instructions/byte", "instructions/element"],
    };

    fn open(host: &Host) -> Result<Self, CountError> {
        if !host.is_live() {
            return Err(hpt_core::SourceError::Captured.into());
        }
        Counter::open().map(Self)
    }

    fn counter(&self) -> &'static str {
        "perf"
    }

    #[inline]
    fn start(&self) -> Result<u64, String> {
        self.0.count()
    }

    #[inline]
    fn stop(&self, started: Result<u64, String>) -> Result<u64, String> {
        let count = self.0.count()?;
        let start = started?;
        count.checked_sub(start).ok_or_else(|| format!("the counter ran backwards, from {start} to {count}"))
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod perf {
    //! The perf event, opened through perf-event2.

    use std::{cell::RefCell, io};

    use hpt_core::{Architecture, SourceError, source::MissingRight};
    use perf_event::{Builder, ReadFormat, events::Hardware};

    use crate::counting::CountError;

    /// The highest value of `kernel.perf_event_paranoid` at which a process may count its own events in user mode.
    const HIGHEST_PARANOID: i32 = 2;

    #[derive(Debug)]
    pub(super) struct Counter(RefCell<perf_event::Counter>);

    impl Counter {
        pub(super) fn open() -> Result<Self, CountError> {
            let refused = |error: io::Error| refusal(&error);
            // A pinned event has its counter all the time, or is in an error state; it is never scaled.
            let mut counter = Builder::new(Hardware::INSTRUCTIONS)
                .observe_self()
                .any_cpu()
                .exclude_kernel(true)
                .exclude_hv(true)
                .pinned(true)
                .read_format(ReadFormat::empty())
                .enabled(true)
                .build()
                .map_err(refused)?;
            counter.read().map_err(refused)?;
            Ok(Self(RefCell::new(counter)))
        }

        #[inline]
        pub(super) fn count(&self) -> Result<u64, String> {
            self.0.borrow_mut().read().map_err(|error| format!("the event has lost its counter: {error}"))
        }
    }

    /// Translates the error of `perf_event_open(2)` into its cause and fix.
    pub(super) fn refusal(error: &io::Error) -> CountError {
        let no_pmu = |name: &str, meaning: &str| {
            let reason = format!("no hardware counter for instructions: perf_event_open returns {name}: {meaning}");
            let fix = SourceError::NoPmu { evidence: String::new(), have: Architecture::HERE }.remedy();
            CountError { reason, fix }
        };
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return SourceError::InUse {
                evidence: "the kernel assigned no counter to a pinned event".to_owned(),
                cause: None,
            }
            .into();
        }
        match error.raw_os_error() {
            Some(libc::ENOENT) => no_pmu("ENOENT", "the kernel has no driver for this processor's counters"),
            Some(libc::ENODEV | libc::ENXIO) => no_pmu("ENODEV", "the processor has no working counters"),
            Some(libc::EOPNOTSUPP) => no_pmu("EOPNOTSUPP", "the available counters cannot count instructions"),
            Some(libc::ENOSYS) => no_pmu("ENOSYS", "this kernel or emulator does not support perf events"),
            Some(libc::EACCES) => SourceError::NoRight {
                path: "/proc/sys/kernel/perf_event_paranoid".to_owned(),
                right: MissingRight::PerfEvents { highest: HIGHEST_PARANOID },
            }
            .into(),
            _ => CountError {
                reason: format!("perf_event_open failed: {error}"),
                fix: Some("check for a seccomp filter or a sandbox around this process".to_owned()),
            },
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod perf {
    //! The crate perf-event2 does not support this architecture.

    use crate::counting::CountError;

    #[derive(Debug)]
    pub(super) enum Counter {}

    impl Counter {
        pub(super) fn open() -> Result<Self, CountError> {
            Err(CountError {
                reason: "hpt-criterion counts instructions only on x86-64 and aarch64".to_owned(),
                fix: Some("count cycles with hpt_criterion::Cycles".to_owned()),
            })
        }

        pub(super) fn count(&self) -> Result<u64, String> {
            match *self {}
        }
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use std::io;

    use super::perf::refusal;

    #[test]
    fn every_refusal_states_its_reason_and_a_fix() {
        for errno in
            [libc::ENOENT, libc::ENODEV, libc::ENXIO, libc::EOPNOTSUPP, libc::ENOSYS, libc::EACCES, libc::EPERM]
        {
            let refused = refusal(&io::Error::from_raw_os_error(errno));
            assert!(!refused.reason.is_empty() && refused.fix.is_some(), "{errno}: {refused}");
        }
        let denied = refusal(&io::Error::from_raw_os_error(libc::EACCES));
        assert!(denied.fix.is_some_and(|fix| fix.contains("kernel.perf_event_paranoid=2")), "{}", denied.reason);
        assert!(refusal(&io::ErrorKind::UnexpectedEof.into()).reason.contains("in use"));
    }
}
