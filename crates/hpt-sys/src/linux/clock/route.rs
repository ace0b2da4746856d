//! The two routes to the kernel's time. Uses neither; `seconds_64` and `seconds_32` do.

/// A route into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// The C library, which uses the vDSO if the kernel provides one.
    Library,
    /// The plain system call, which is slower but correct even if programs may not read the vDSO's counter.
    SystemCall,
}
