//! Access to the cycle counter of an ARM core, according to PMUSERENR. Pure: the register is read elsewhere.

/// The bits of the access register that let programs access all counters (EN), the cycle counter (CR), and the other
/// counters (ER). Arm ARM (DDI 0487), D24.5, PMUSERENR_EL0; ARMv7 has EN only.
const EN: u32 = 1 << 0;
const CR: u32 = 1 << 2;
const ER: u32 = 1 << 3;

/// Returns whether every program on this CPU may read the cycle counter. If the other counters are open too, Linux has
/// opened them for a thread with its own perf event and will close them after it switches to another thread, unless a
/// kernel module keeps the cycle counter open (`by_module`).
/// Linux, drivers/perf/arm_pmuv3.c, `armv8pmu_enable_user_access`.
pub(super) const fn lets_in(access: u32, by_module: bool) -> bool {
    access & EN != 0 || (access & CR != 0 && (access & ER == 0 || by_module))
}

/// Returns whether programs may also read the configuration of the counters, PMCR.
pub(super) const fn shows_control(access: u32) -> bool {
    access & EN != 0
}

#[cfg(test)]
mod tests {
    use super::{CR, EN, ER, lets_in, shows_control};

    #[test]
    fn access_for_the_event_of_one_thread_does_not_count_as_open() {
        for by_module in [false, true] {
            assert!(lets_in(EN, by_module) && lets_in(CR, by_module) && lets_in(EN | CR | ER, by_module));
            assert!(!lets_in(0, by_module) && !lets_in(ER, by_module));
        }
        assert!(!lets_in(CR | ER, false) && lets_in(CR | ER, true));
        assert!(shows_control(EN) && !shows_control(CR));
    }
}
