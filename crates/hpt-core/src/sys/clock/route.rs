//! The two routes to the kernel's time. Uses neither; `seconds_64` and `seconds_32` do.

/// A route into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    /// The C library, which uses the vDSO if the kernel provides one.
    Library,
    /// The plain system call: slower, and correct even if the vDSO's counter is closed.
    SystemCall,
}
