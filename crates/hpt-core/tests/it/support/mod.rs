//! What the tests share.

pub(crate) mod unsafe_calls;
