//! A counter of 64 bits in two registers of 32 without a latch.
//! Knows no device: where its words are is for the source.

use crate::sys::mmio::Registers;

/// Carries that are believed to happen within one reading.
const MOST_CARRIES: u32 = 4;

/// Both words, read as high, low, high, and again when the high word moved in between, so that no reading mixes a low word from after a carry with a high
/// word from before it.
#[inline(always)]
pub(super) fn read_split_counter<R: Registers>(registers: &R, low_offset: usize, high_offset: usize) -> u64 {
    let mut high = registers.read_u32(high_offset);
    let mut low = registers.read_u32(low_offset);
    // A carry happens once in minutes. A page that is something else may seem to carry all the time, and must not be read for ever.
    for _ in 0..MOST_CARRIES {
        let again = registers.read_u32(high_offset);
        if again == high {
            break;
        }
        high = again;
        low = registers.read_u32(low_offset);
    }
    u64::from(high) << 32 | u64::from(low)
}
