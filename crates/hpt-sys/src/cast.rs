//! Integers of 64 bits read with the other signedness, modulo 2^64. Rust 1.87 has methods for that, but this crate
//! builds with older versions too.

/// Returns the number with the same bits.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "the purpose of the function")]
pub const fn signed(bits: u64) -> i64 {
    bits as i64
}

/// Returns the number with the same bits.
#[inline(always)]
#[expect(clippy::cast_sign_loss, reason = "the purpose of the function")]
pub const fn unsigned(bits: i64) -> u64 {
    bits as u64
}
