//! The choice of a source, with a reason for every candidate. `select` is a pure function: its candidates have already
//! been examined. `choose` examines the candidates and opens the best source.

use std::{error::Error, fmt, time::Duration};

use hpt_sys::host::Host;

use super::{
    KernelVerdict, Opened, PosixClock, PosixId, ProbeReport, Scope, SelfTest, SelfTestError, SourceError, SourceId,
    SourceInfo, TimeSource, open, outline, self_test,
};

/// The coarsest resolution with which a source can be chosen, in nanoseconds. The Broadcom System Timer (1 µs) is fine
/// enough; a clock that advances with the kernel's tick (1 to 10 ms) is not.
pub(super) const COARSEST_CHOICE_NS: f64 = 10_000.0;

/// A width, in bits, at which a counter takes years to wrap at any realistic rate. It is the minimum width of the ARM
/// generic timer.
pub(crate) const SURELY_WIDE_BITS: u8 = 56;

/// Read overheads that differ by less than this factor are considered equal, because a short run is not accurate enough
/// to distinguish them. In that case the first source in the list wins, so that the choice does not change from run to
/// run.
const AS_FAST: f64 = 1.25;

/// A source, with all information on which the choice depends.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The report of the source's backend.
    pub report: ProbeReport,
    /// The result of the self-test; `None` if the source was not tested, because a source of its kind cannot be chosen.
    pub self_test: Option<Result<SelfTest, SelfTestError>>,
}

/// The verdict on whether a source can be chosen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fitness {
    /// The source is the fastest of the suitable sources.
    Chosen {
        /// The time per read, in nanoseconds.
        read_cost_ns: f64,
    },
    /// The source is suitable, but not faster than the chosen source.
    Slower {
        /// The time per read, in nanoseconds.
        read_cost_ns: f64,
    },
    /// The source cannot be read on this host.
    Unavailable(SourceError),
    /// The source can be stepped, or its rate is not constant.
    NotSteady,
    /// The source counts CPU time or events of this scope, not time.
    NotSystemWide(Scope),
    /// Access to the source can be revoked.
    Revocable,
    /// The source is too coarse. The number is the time between two changes of its reading, in nanoseconds.
    TooCoarse(f64),
    /// The source must be widened to serve as a clock. The duration is the time until it wraps.
    Wraps(Duration),
    /// The kernel does not trust the source, its verdict is unknown, or the source could not be assessed because it was
    /// not tested or its frequency is unknown.
    NotTrusted(KernelVerdict),
    /// The source failed the self-test.
    Failed(SelfTestError),
}

/// A time in nanoseconds, which is displayed in a suitable unit.
struct Cost(f64);

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The unit depends on the rounded number: 999.96 ns is printed as 1.0 µs.
        if self.0 < 999.95 { write!(f, "{:.1} ns", self.0) } else { write!(f, "{:.1} µs", self.0 / 1e3) }
    }
}

impl fmt::Display for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen { read_cost_ns } => {
                write!(f, "chosen: the fastest suitable source, {} per read", Cost(*read_cost_ns))
            }
            Self::Slower { read_cost_ns } => write!(f, "suitable, but not faster: {} per read", Cost(*read_cost_ns)),
            Self::Unavailable(reason) => {
                write!(f, "not available: {reason}")?;
                reason.source().map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
            Self::NotSteady => f.write_str("not constant-rate: the source can be stepped, or its rate changes"),
            Self::NotSystemWide(scope) => write!(f, "not system-wide: the source counts per {}", scope.name()),
            Self::Revocable => f.write_str("revocable: access can be revoked while the source is open"),
            Self::TooCoarse(resolution_ns) => {
                write!(f, "too coarse: the reading changes every {} ms", resolution_ns / 1e6)
            }
            Self::Wraps(after) => write!(f, "too narrow: the counter wraps every {} s", after.as_secs()),
            Self::NotTrusted(verdict) => write!(f, "not trusted: {}", verdict.evidence()),
            Self::Failed(failure) => write!(f, "failed the self-test: {failure}"),
        }
    }
}

/// A source and the verdict on whether it can be chosen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourceVerdict {
    /// The source.
    pub id: SourceId,
    /// The verdict, with its reason.
    pub fitness: Fitness,
}

/// The choice, with a reason for every source.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    verdicts: Vec<SourceVerdict>,
}

impl Selection {
    /// Returns the chosen source; `None` if none is suitable.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, source};
    ///
    /// let selection = source::choose(&Host::live())?.selection;
    /// match selection.chosen() {
    ///     Some(id) => println!("{id} is the fastest suitable source"),
    ///     None => println!("no source is suitable"),
    /// }
    /// assert_eq!(source::select([]).chosen(), None);
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    #[must_use]
    pub fn chosen(&self) -> Option<&SourceId> {
        self.chosen_verdict().map(|verdict| &verdict.id)
    }

    fn chosen_verdict(&self) -> Option<&SourceVerdict> {
        self.verdicts.iter().find(|verdict| matches!(verdict.fitness, Fitness::Chosen { .. }))
    }

    /// Returns the verdict on every source, in the order of the list.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, source};
    ///
    /// let selection = source::choose(&Host::live())?.selection;
    /// for verdict in selection.verdicts() {
    ///     println!("{}: {}", verdict.id, verdict.fitness);
    /// }
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    #[must_use]
    pub fn verdicts(&self) -> &[SourceVerdict] {
        &self.verdicts
    }

    /// Returns the reason for the choice, in one sentence.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(hpt_core::source::select([]).reason(), "no source is suitable");
    /// ```
    #[must_use]
    pub fn reason(&self) -> String {
        match self.chosen_verdict() {
            Some(SourceVerdict { id, fitness }) => {
                format!("{id} is {fitness}; constant-rate, system-wide, not revocable, trusted by the kernel")
            }
            None => "no source is suitable".to_owned(),
        }
    }
}

impl Candidate {
    /// Opens and tests the source, unless its kind rules it out.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PosixClock, PosixId, source::{self, Candidate}};
    ///
    /// let host = Host::live();
    /// let reference = PosixClock::open(&host, PosixId::Monotonic)?;
    /// for report in source::outline(&host) {
    ///     if let Some(Ok(test)) = Candidate::examine(&host, report, &reference).self_test {
    ///         println!("{test:?}");
    ///     }
    /// }
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    pub fn examine<R: TimeSource + ?Sized>(host: &Host, report: ProbeReport, reference: &R) -> Self {
        if ruled_out(&report).is_some() {
            return Self { report, self_test: None };
        }
        match open(host, report.id.as_str()) {
            Ok(source) => Self { self_test: Some(self_test(source.as_dyn(), reference)), report },
            Err(reason) => Self { report: ProbeReport { availability: Err(reason), ..report }, self_test: None },
        }
    }
}

/// Chooses the fastest of the `candidates` that are constant-rate, system-wide, not revocable, fine enough and trusted
/// by the kernel, and that passed the self-test.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, PosixClock, PosixId, source::{self, Candidate}};
///
/// let host = Host::live();
/// let reference = PosixClock::open(&host, PosixId::Monotonic)?;
/// // All sources but one take part.
/// let reports = source::outline(&host).into_iter().filter(|report| report.id.as_str() != "tsc");
/// let selection = source::select(reports.map(|report| Candidate::examine(&host, report, &reference)));
/// println!("{}", selection.reason());
/// # Ok::<(), hpt_core::SourceError>(())
/// ```
#[must_use]
pub fn select(candidates: impl IntoIterator<Item = Candidate>) -> Selection {
    let mut verdicts: Vec<SourceVerdict> = candidates
        .into_iter()
        .map(|candidate| {
            let fitness = ruled_out(&candidate.report).unwrap_or_else(|| match candidate.self_test {
                Some(Ok(test)) => Fitness::Slower { read_cost_ns: test.read_cost_ns },
                Some(Err(failure)) => Fitness::Failed(failure),
                None => Fitness::NotTrusted(KernelVerdict::Unknown("the source was not tested".to_owned())),
            });
            SourceVerdict { id: candidate.report.id, fitness }
        })
        .collect();
    let cost = |verdict: &SourceVerdict| match verdict.fitness {
        Fitness::Slower { read_cost_ns } => read_cost_ns,
        _ => f64::INFINITY,
    };
    let least = verdicts.iter().map(cost).fold(f64::INFINITY, f64::min);
    let fastest = verdicts.iter_mut().find(|verdict| cost(verdict) <= least * AS_FAST);
    if let Some(SourceVerdict { fitness, .. }) = fastest {
        if let Fitness::Slower { read_cost_ns } = *fitness {
            *fitness = Fitness::Chosen { read_cost_ns };
        }
    }
    Selection { verdicts }
}

/// Returns the reason why a source is ruled out by its report, before any test.
fn ruled_out(report: &ProbeReport) -> Option<Fitness> {
    let info = match &report.availability {
        Ok(info) => info,
        Err(reason) => return Some(Fitness::Unavailable(reason.clone())),
    };
    let SourceInfo { scope, rate, revocable, .. } = *info;
    if scope != Scope::System {
        Some(Fitness::NotSystemWide(scope))
    } else if !rate.is_steady() {
        Some(Fitness::NotSteady)
    } else if revocable {
        Some(Fitness::Revocable)
    } else if let Some(resolution_ns) = info.resolution_ns().filter(|&resolution_ns| resolution_ns > COARSEST_CHOICE_NS)
    {
        Some(Fitness::TooCoarse(resolution_ns))
    } else if let Some(after) = info.wraps_soon() {
        Some(Fitness::Wraps(after))
    } else if info.width.bits() < SURELY_WIDE_BITS && info.nominal.is_none() {
        let unknown = "the frequency is unknown, so the time until the counter wraps is unknown";
        Some(Fitness::NotTrusted(KernelVerdict::Unknown(unknown.to_owned())))
    } else {
        match &report.kernel {
            KernelVerdict::Trusted(_) => None,
            verdict @ (KernelVerdict::Distrusted(_) | KernelVerdict::Unknown(_)) => {
                Some(Fitness::NotTrusted(verdict.clone()))
            }
        }
    }
}

/// A source that [`choose`] opened, and the reasons for the choice.
#[derive(Debug)]
#[non_exhaustive]
pub struct Chosen {
    /// The open source.
    pub source: Opened,
    /// The verdicts on all sources.
    pub selection: Selection,
}

impl Chosen {
    /// Returns the ID of the open source.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, source};
    ///
    /// let host = Host::live();
    /// let chosen = source::choose(&host)?;
    /// assert!(source::names_on(&host).contains(chosen.id()));
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> &SourceId {
        &self.source.as_dyn().info().id
    }

    /// Returns the reason for the choice, in one sentence.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, source};
    ///
    /// let chosen = source::choose(&Host::live())?;
    /// println!("{}", chosen.reason());
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    #[must_use]
    pub fn reason(&self) -> String {
        self.selection.reason()
    }
}

/// Opens the source that [`select`] chooses on this host, and returns it with the verdicts on all sources.
///
/// Sources that cannot win because of their kind (stepped clocks, CPU-time clocks, coarse clocks) are not tested, so
/// the call takes only a few milliseconds. If no source is suitable, `CLOCK_MONOTONIC` is opened.
///
/// # Errors
///
/// Returns [`SourceError`] if `CLOCK_MONOTONIC` or the chosen source cannot be opened, or if `host` is a system
/// snapshot.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, source};
///
/// let chosen = source::choose(&Host::live())?;
/// println!("{}: {}", chosen.id(), chosen.reason());
/// for verdict in chosen.selection.verdicts() {
///     println!("{}: {}", verdict.id, verdict.fitness);
/// }
/// # Ok::<(), hpt_core::SourceError>(())
/// ```
pub fn choose(host: &Host) -> Result<Chosen, SourceError> {
    let reference = PosixClock::open(host, PosixId::Monotonic)?;
    let candidates: Vec<Candidate> =
        outline(host).into_iter().map(|report| Candidate::examine(host, report, &reference)).collect();
    let selection = select(candidates);
    let name = selection.chosen().map_or("monotonic", SourceId::as_str);
    Ok(Chosen { source: open(host, name)?, selection })
}

#[cfg(test)]
mod tests {
    use super::{Candidate, Fitness, select};
    use crate::{
        source::{
            KernelVerdict, Nominal, ProbeReport, RateKind, Scope, SelfTest, SelfTestError, SourceError, SourceId,
            SourceInfo, StatedBy,
        },
        stats::Steps,
    };
    use hpt_sys::units::{Frequency, FrequencyRange, Width};

    fn fit(name: &'static str, read_cost_ns: f64) -> Candidate {
        let info = SourceInfo::new(SourceId::new(name)).with_rate(RateKind::Constant).with_claimed_resolution_ns(1);
        let report = ProbeReport {
            id: info.id.clone(),
            description: "",
            availability: Ok(info),
            kernel: KernelVerdict::Trusted(String::new()),
            evidence: Vec::new(),
        };
        let rate = FrequencyRange { lowest: Frequency::GIGAHERTZ, highest: Frequency::GIGAHERTZ };
        Candidate { report, self_test: Some(Ok(SelfTest { read_cost_ns, steps: Steps::default(), rate })) }
    }

    /// Verifies that a faster source with a single disqualifying property never wins, and the reason names that
    /// property.
    fn loses(spoil: impl FnOnce(&mut Candidate)) -> Fitness {
        let mut spoiled = fit("spoiled", 1.0);
        spoil(&mut spoiled);
        let selection = select([spoiled, fit("sound", 20.0)]);
        assert_eq!(selection.chosen().map(SourceId::as_str), Some("sound"));
        selection.verdicts()[0].fitness.clone()
    }

    fn change(candidate: &mut Candidate, edit: impl FnOnce(&mut SourceInfo)) {
        edit(candidate.report.availability.as_mut().expect("the candidate was made available"));
    }

    #[test]
    fn the_fastest_suitable_source_wins() {
        let selection = select([fit("slow", 30.0), fit("quick", 10.0), fit("middle", 20.0)]);
        assert_eq!(selection.chosen().map(SourceId::as_str), Some("quick"));
        assert_eq!(selection.verdicts()[0].fitness, Fitness::Slower { read_cost_ns: 30.0 });
    }

    #[test]
    fn between_equally_fast_sources_the_first_listed_wins() {
        let selection = select([fit("first", 10.5), fit("second", 10.0)]);
        assert_eq!(selection.chosen().map(SourceId::as_str), Some("first"));
    }

    #[test]
    fn each_defect_excludes_a_source_by_name() {
        for rate in [RateKind::Stepped, RateKind::SlewedAndStepped, RateKind::Variable] {
            assert_eq!(loses(|c| change(c, |info| info.rate = rate)), Fitness::NotSteady);
        }
        assert_eq!(loses(|c| change(c, |info| info.scope = Scope::Thread)), Fitness::NotSystemWide(Scope::Thread));
        assert_eq!(loses(|c| change(c, |info| info.revocable = true)), Fitness::Revocable);
        let narrow = |info: &mut SourceInfo| {
            info.width = Width::BITS_32;
            info.nominal = Some(Nominal { frequency: Frequency::MEGAHERTZ, stated_by: StatedBy::Program });
        };
        assert!(matches!(loses(|c| change(c, narrow)), Fitness::Wraps(after) if after.as_secs() == 4294));
        assert!(matches!(loses(|c| change(c, |info| info.width = Width::BITS_32)), Fitness::NotTrusted(_)));
        assert_eq!(loses(|c| change(c, |info| info.claimed_resolution_ns = Some(4_000_000))), Fitness::TooCoarse(4e6));
        assert_eq!(
            loses(|c| c.report.availability = Err(SourceError::ForbiddenByPrctl)),
            Fitness::Unavailable(SourceError::ForbiddenByPrctl)
        );
        let failure = SelfTestError::RunsBackwards { from_ticks: 2, to_ticks: 1 };
        assert_eq!(loses(|c| c.self_test = Some(Err(failure))), Fitness::Failed(failure));
        for verdict in [KernelVerdict::Distrusted("dropped".to_owned()), KernelVerdict::Unknown("no /sys".to_owned())] {
            assert_eq!(loses(|c| c.report.kernel = verdict.clone()), Fitness::NotTrusted(verdict));
        }
    }

    #[test]
    fn a_source_that_was_never_tested_is_not_trusted() {
        assert!(matches!(loses(|c| c.self_test = None), Fitness::NotTrusted(_)));
    }

    #[test]
    fn the_absence_of_a_suitable_source_is_reported() {
        let selection = select([]);
        assert_eq!((selection.chosen(), selection.reason().as_str()), (None, "no source is suitable"));
    }
}
