//! The choice of what happens in the last microseconds before a deadline. Does not wait.

/// The behavior between the kernel's wake-up and the deadline.
///
/// | variant | overshoot | CPU | other tasks meanwhile |
/// | --- | --- | --- | --- |
/// | [`Kernel`](Self::Kernel) | what the wake-up takes longer than the fastest of 64 | least | run |
/// | [`Yield`](Self::Yield) | the length of one round of the other tasks | like `Spin`, if no other task is ready | run |
/// | [`Spin`](Self::Spin) | least | the learned margin, usually some ten microseconds per sleep | wait, about 200 µs at most |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The kernel wakes the task before the deadline by the shortest of the last 64 wake-up latencies, which every wake-up
    /// takes. A task that is woken early blocks again. Nothing busy-waits.
    Kernel,
    /// The kernel wakes the task a learned margin before the deadline. Until the deadline, the task yields to the other
    /// tasks of its runtime.
    #[default]
    Yield,
    /// The kernel wakes the task a learned margin before the deadline. Until the deadline, the task occupies its
    /// thread. If 16 sleeps in a row had no time to block, the next one first yields to the other tasks.
    Spin,
}
