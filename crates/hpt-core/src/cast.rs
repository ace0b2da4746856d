//! Integers of 64 bits read with the other signedness, modulo 2^64. Rust 1.87 has methods for that, but this crate
//! builds with older versions too.

/// Returns the number with the same bits.
#[inline(always)]
pub(crate) const fn signed(bits: u64) -> i64 {
    i64::from_ne_bytes(bits.to_ne_bytes())
}

/// Returns the number with the same bits.
#[inline(always)]
pub(crate) const fn unsigned(bits: i64) -> u64 {
    u64::from_ne_bytes(bits.to_ne_bytes())
}
