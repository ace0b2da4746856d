//! The room for `unsafe`: instructions and system calls, each behind a safe function or a token.
//! Decides nothing: whether and when a counter may be read is for `source`.
#![expect(unsafe_code, reason = "this is the one room where it lives; see docs/safety.md")]

pub(crate) mod arch;
pub(crate) mod clock;
pub(crate) mod mmio;
pub(crate) mod native;
pub(crate) mod process;
#[cfg_attr(
    not(target_arch = "arm"),
    allow(dead_code, reason = "other machines can be asked; the tests try it everywhere")
)]
pub(crate) mod trial;
