//! Time sources: their definition, the list of all sources, and functions to open a source by its name. This module
//! does not convert ticks to time, and measures no quality beyond the self-test.

mod backend;
mod bracket;
#[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
mod elsewhere;
mod info;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod linux;
mod select;
mod self_test;
mod time_source;
#[cfg(target_has_atomic = "64")]
mod widen;

pub(crate) use self::backend::Backend;
#[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
use self::elsewhere::BACKENDS;
#[cfg(not(all(target_os = "linux", target_has_atomic = "64")))]
pub use self::elsewhere::{PosixClock, PosixId};
pub(crate) use self::info::wraps_soon;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
use self::linux::BACKENDS;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) use self::linux::permitted_native;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use self::linux::*;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub(crate) use self::select::SURELY_WIDE_BITS;
#[cfg(target_has_atomic = "64")]
pub use self::widen::{WidenError, Widened};
pub use self::{
    backend::{KernelVerdict, MissingRight, Opened, ProbeReport, SourceError},
    bracket::{Pair, Reference},
    info::{Nominal, Quantity, RateKind, ReadPath, Scope, SourceId, SourceInfo, StatedBy},
    select::{Candidate, Chosen, Fitness, Selection, SourceVerdict, choose, select},
    self_test::{SelfTest, SelfTestError, self_test},
    time_source::TimeSource,
};
use hpt_sys::host::Host;

/// Probes every source of every backend on this host.
///
/// On a live system, the backends open their sources and may time a few reads. For a system snapshot, the reports are
/// based only on its files and facts.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, source};
///
/// let reports = source::probe(&Host::live());
/// let readable = reports.iter().filter(|report| report.availability.is_ok());
/// println!("{} of {} sources can be read here", readable.count(), reports.len());
/// assert!(reports.iter().any(|report| report.id.as_str() == "monotonic"));
/// ```
#[must_use]
pub fn probe(host: &Host) -> Vec<ProbeReport> {
    BACKENDS.iter().flat_map(|backend| backend.probe(host)).collect()
}

/// Probes the sources that could serve as a clock. Other sources, for example cycle counters, may be described without
/// being opened; their availability is then not checked.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, source};
///
/// for report in source::outline(&Host::live()) {
///     if let Ok(info) = &report.availability {
///         println!("{}: {:?}, {}", report.id, info.rate, report.kernel.name());
///     }
/// }
/// ```
#[must_use]
pub fn outline(host: &Host) -> Vec<ProbeReport> {
    BACKENDS.iter().flat_map(|backend| backend.outline(host)).collect()
}

/// Opens the source named `name`.
///
/// # Errors
///
/// Returns [`SourceError::Unknown`] with similar names if no source has this name. Otherwise returns the reason why the
/// source is not available on this machine.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, TimeSource, source};
///
/// let host = Host::live();
/// let monotonic = source::open(&host, "monotonic")?;
/// assert!(monotonic.ticks() <= monotonic.ticks());
/// if let Err(reason) = source::open(&host, "monotonik") {
///     assert_eq!(reason.to_string(), "unknown source \"monotonik\"");
/// }
/// # Ok::<(), hpt_core::SourceError>(())
/// ```
pub fn open(host: &Host, name: &str) -> Result<Opened, SourceError> {
    let id = SourceId::from(name.to_owned());
    let known = BACKENDS.iter().find(|backend| backend.knows(&id));
    match known.or_else(|| BACKENDS.iter().find(|backend| backend.ids_on(host).contains(&id))) {
        Some(backend) => backend.open(host, &id),
        None => Err(SourceError::Unknown { nearest: nearest_names(host, name), name: name.to_owned() }),
    }
}

/// Returns the names of all sources on this host, in the order of the list: the result of [`names`], and further names
/// if the host has several devices of a kind.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, source};
///
/// let names = source::names_on(&Host::live());
/// assert!(source::names().iter().all(|name| names.contains(name)));
/// ```
#[must_use]
pub fn names_on(host: &Host) -> Vec<SourceId> {
    BACKENDS.iter().flat_map(|backend| backend.ids_on(host)).collect()
}

/// Returns the names of the sources that are listed on every machine, in the order of the list.
///
/// # Examples
///
/// ```
/// use hpt_core::source;
///
/// assert!(source::names().iter().any(|name| name.as_str() == "monotonic"));
/// ```
#[must_use]
pub fn names() -> Vec<SourceId> {
    BACKENDS.iter().flat_map(|backend| backend.ids()).collect()
}

/// The largest edit distance at which a known name is suggested in place of an unknown name.
const MOST_EDITS: usize = 2;

/// Returns the names with the smallest edit distance from `name`, at most three.
fn nearest_names(host: &Host, name: &str) -> Vec<SourceId> {
    let name = name.to_lowercase();
    let scored = names_on(host).into_iter().map(|id| (edit_distance(&name, id.as_str()), id));
    let mut scored: Vec<_> = scored.filter(|(distance, _)| *distance <= MOST_EDITS).collect();
    scored.sort_by_key(|(distance, _)| *distance);
    let nearest = scored.first().map(|(distance, _)| *distance);
    scored.into_iter().take_while(|(distance, _)| Some(*distance) == nearest).take(3).map(|(_, id)| id).collect()
}

/// Returns the edit distance from `a` to `b`: the number of letters to insert, delete, replace, or swap with the next
/// letter. Implemented here to avoid a dependency: see docs/design.md.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut least = (row[j] + usize::from(from != to)).min(next[j] + 1).min(row[j + 1] + 1);
            if i > 0 && j > 0 && a[i - 1] == *to && b[j - 1] == *from {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(all(target_os = "linux", target_has_atomic = "64", test))]
mod tests {
    use super::{edit_distance, names, nearest_names};
    use hpt_sys::host::{Facts, Host};

    #[test]
    fn names_are_unique() {
        let mut names = names();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_typo_is_matched_to_the_intended_name() {
        let host = Host::captured(Default::default(), Facts::live());
        let nearest_names = |name| nearest_names(&host, name);
        let near = |name| nearest_names(name).iter().map(|id| id.as_str().to_owned()).collect::<Vec<_>>();
        for typed in ["tcs", "ts", "TSC"] {
            assert_eq!(near(typed), ["tsc"], "{typed}");
        }
        assert_eq!(nearest_names("monotonic_raw").first().map(super::info::SourceId::as_str), Some("monotonic-raw"));
        assert_eq!(nearest_names("zzzzzzzzzzzzzzzzzzzzzz"), []);
    }

    #[test]
    fn a_transposition_is_one_edit() {
        assert_eq!(
            [
                edit_distance("kitten", "sitting"),
                edit_distance("", "abc"),
                edit_distance("abc", "abc"),
                edit_distance("tcs", "tsc")
            ],
            [3, 3, 0, 1]
        );
    }
}
