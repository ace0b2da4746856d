//! The two ways to ask the kernel for the time.
//! Takes neither: `seconds_64` and `seconds_32` do.

/// The way into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    /// The C library, which uses the vDSO where the kernel offers one.
    Library,
    /// The bare system call: slower, and right also where the vDSO's counter is shut.
    SystemCall,
}
