//! Checks whether the counters of two cores are offset from each other. `measure` passes the timestamps between the
//! cores.

use super::{Fault, Limits};
use crate::measure::CoreOffset;

/// Returns a fault if the offset certainly exceeds the accepted offset. This is the case if both limits of the offset
/// exceed it in the same direction.
#[must_use]
pub fn core_fault(offset: &CoreOffset, limits: &Limits) -> Option<Fault> {
    let accepted_ns = limits.core_offset.as_secs_f64() * 1e9;
    let apart = offset.least_ns > accepted_ns || offset.most_ns < -accepted_ns;
    apart.then_some(Fault::CoresApart {
        first_cpu: offset.cpus.first,
        second_cpu: offset.cpus.second,
        least_ns: offset.least_ns,
        most_ns: offset.most_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::{Limits, core_fault};
    use crate::measure::{CoreOffset, CpuPair};

    #[test]
    fn only_an_offset_that_no_handover_explains_is_a_fault() {
        let offset =
            |least_ns, most_ns| CoreOffset { cpus: CpuPair { first: 0, second: 1 }, least_ns, most_ns, handovers: 100 };
        let fault = |least_ns, most_ns| core_fault(&offset(least_ns, most_ns), &Limits::default());
        // Five microseconds apart, in either direction.
        assert!(fault(4_900.0, 5_100.0).is_some() && fault(-5_100.0, -4_900.0).is_some());
        // The thread lost its CPU: the limits are wide and include zero.
        assert_eq!(fault(-4_000_000.0, 5_000.0), None);
        assert_eq!(fault(200.0, 900.0), None);
        assert_eq!(fault(900.0, 900_000.0), None);
    }
}
