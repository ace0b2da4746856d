//! The subjects that a board can show: a file for each, and a table.

mod bench;
mod carry;
mod chipset;
mod clocksource;
mod cpus;
mod culprits;
mod cycles;
mod cycles_kernel;
mod cycles_kvm;
mod doctor;
mod experiments;
mod explain;
mod gpio;
mod hotplug;
mod howto;
mod live;
mod machine;
mod probe;
mod ptp;
mod rates;
mod realtime;
mod soc;
mod suspend;
mod try_fixes;
mod uio;
mod watch;
mod wraps;

use super::{case::Case, plant::Plants};

/// A subject, which a board's file lists in `shows`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    /// Judges the answers of every build of hpt.
    pub(super) judge: fn(&Case<'_>),
    /// The plants that the judge must notice.
    pub(super) plants: &'static [Plants],
}

/// Every subject.
pub(super) const SUBJECTS: &[Subject] = &[
    Subject { name: "machine", judge: machine::judge, plants: machine::PLANTS },
    Subject { name: "probe", judge: probe::judge, plants: probe::PLANTS },
    Subject { name: "doctor", judge: doctor::judge, plants: doctor::PLANTS },
    Subject { name: "rates", judge: rates::judge, plants: rates::PLANTS },
    Subject { name: "bench", judge: bench::judge, plants: bench::PLANTS },
    Subject { name: "experiments", judge: experiments::judge, plants: experiments::PLANTS },
    Subject { name: "live", judge: live::judge, plants: live::PLANTS },
    Subject { name: "uio", judge: uio::judge, plants: uio::PLANTS },
    Subject { name: "carry", judge: carry::judge, plants: carry::PLANTS },
    Subject { name: "soc", judge: soc::judge, plants: soc::PLANTS },
    Subject { name: "wraps", judge: wraps::judge, plants: wraps::PLANTS },
    Subject { name: "suspend", judge: suspend::judge, plants: suspend::PLANTS },
    Subject { name: "chipset", judge: chipset::judge, plants: chipset::PLANTS },
    Subject { name: "ptp", judge: ptp::judge, plants: ptp::PLANTS },
    Subject { name: "clocksource", judge: clocksource::judge, plants: clocksource::PLANTS },
    Subject { name: "watch", judge: watch::judge, plants: watch::PLANTS },
    Subject { name: "realtime", judge: realtime::judge, plants: realtime::PLANTS },
    Subject { name: "explain", judge: explain::judge, plants: explain::PLANTS },
    Subject { name: "culprits", judge: culprits::judge, plants: culprits::PLANTS },
    Subject { name: "gpio", judge: gpio::judge, plants: gpio::PLANTS },
    Subject { name: "cycles", judge: cycles::judge, plants: cycles::PLANTS },
    Subject { name: "try", judge: try_fixes::judge, plants: try_fixes::PLANTS },
    Subject { name: "hotplug", judge: hotplug::judge, plants: hotplug::PLANTS },
    Subject { name: "cpus", judge: cpus::judge, plants: cpus::PLANTS },
    Subject { name: "howto", judge: howto::judge, plants: howto::PLANTS },
];
