//! What PMUSERENR says of who may read the cycle counter of an ARM core.
//! Pure: the register is read elsewhere.

/// Programs may reach everything; the cycle counter; the other counters. Arm ARM (DDI 0487), D24.5, PMUSERENR_EL0; ARMv7 has EN only.
const EN: u32 = 1 << 0;
const CR: u32 = 1 << 2;
const ER: u32 = 1 << 3;

/// Whether every program on this CPU may read the cycle counter. The other counters beside it are what Linux opens to a thread with a perf event of its
/// own, and to no other: with that event, or at the next switch to another thread, the right is gone. Linux, drivers/perf/arm_pmuv3.c,
/// `armv8pmu_enable_user_access`.
pub(super) const fn lets_in(access: u32) -> bool {
    access & EN != 0 || access & (CR | ER) == CR
}

/// Whether it also may read how the counters are set up, PMCR.
pub(super) const fn shows_control(access: u32) -> bool {
    access & EN != 0
}

#[cfg(test)]
mod tests {
    use super::{CR, EN, ER, lets_in, shows_control};

    #[test]
    fn what_was_opened_for_one_threads_event_is_not_open() {
        assert!(lets_in(EN) && lets_in(CR) && lets_in(EN | CR | ER));
        assert!(!lets_in(0) && !lets_in(CR | ER) && !lets_in(ER));
        assert!(shows_control(EN) && !shows_control(CR));
    }
}
