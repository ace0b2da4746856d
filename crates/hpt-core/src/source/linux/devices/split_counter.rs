//! Reads a 64-bit counter that consists of two 32-bit registers without a latch. The code does not depend on the
//! device: the source specifies the offsets of the two words.

use hpt_sys::mmio::Registers;

/// The maximum number of carries to tolerate within one reading.
const MOST_CARRIES: u32 = 4;

/// Returns both words as one value. The words are read in the order high, low, high. If the high word changed between
/// its two reads, both words are read again. No reading therefore combines a low word from after a carry with a high
/// word from before it.
#[inline(always)]
pub(super) fn read_split_counter<R: Registers>(registers: &R, low_offset: usize, high_offset: usize) -> u64 {
    let mut high = registers.read_u32(high_offset);
    let mut low = registers.read_u32(low_offset);
    // A carry happens once every few minutes. If the page belongs to another device, its values may look like a carry
    // in every read, so the loop has a limit.
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
