//! The counter that this program reads with an instruction known to be permitted, and the words from which the program
//! computes the time. Does not decide whether the counter is suitable; `clock::system`
//! does.

use std::{
    mem, ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::{clock_words::ClockWords, process};

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
pub use super::arch::CounterToken as Native;
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
pub use super::arch::TscToken as Native;

/// The arguments of `install`, packed into one pointer to the words. The lowest bit of the pointer is the token's own
/// bit.
static INSTALLED: AtomicPtr<ClockWords> = AtomicPtr::new(ptr::null_mut());

/// Returns the token and the words that were installed last, unless they were removed.
#[inline(always)]
pub fn installed() -> Option<(Native, &'static ClockWords)> {
    // Acquire, so that a thread that sees the pointer also sees what was written to the words before the installation.
    let packed = INSTALLED.load(Ordering::Acquire);
    if packed.is_null() {
        return None;
    }
    // The bit needs to be cleared only if the token has a bit of its own.
    let words = if cfg!(target_arch = "aarch64") { packed.map_addr(|address| address & !1) } else { packed };
    // SAFETY: a non-null pointer was created in `install` from a reference to words that live forever. Only its lowest
    // bit was changed, which the alignment leaves free, and the bit is cleared again here. pointer, "Pointer to
    // reference conversion".
    let words = unsafe { &*words };
    // The pointer is not null, so a token was installed, and a copy of that token may be used like the token itself.
    Some((Native::installed(packed.addr() & 1 == 1)?, words))
}

/// A reading, and its low half, which may be available sooner.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    pub whole: u64,
    pub low: u32,
}

/// Reads the counter without ordering. Returns the reading and the words; `None` if no token is installed.
#[inline(always)]
pub fn read() -> Option<(Ticks, &'static ClockWords)> {
    let (native, words) = installed()?;
    #[cfg(target_arch = "x86_64")]
    let (whole, low) = native.read_split();
    #[cfg(not(target_arch = "x86_64"))]
    let (whole, low) = split(native.read());
    Some((Ticks { whole, low }, words))
}

/// Reads the counter like `read`, but not before all preceding instructions have completed.
#[inline(always)]
pub fn read_start() -> Option<(Ticks, &'static ClockWords)> {
    // The barrier comes first: if it came after the check for a token, it would also wait for the result of the check.
    #[cfg(target_arch = "x86_64")]
    {
        super::arch::wait_for_earlier();
        read()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let (native, words) = installed()?;
        let (whole, low) = split(native.read_start());
        Some((Ticks { whole, low }, words))
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
const fn split(ticks: u64) -> (u64, u32) {
    (ticks, ticks as u32)
}

/// Makes `native`, which proves that the counter may be read, and `words` available to all threads.
pub fn install(native: Native, words: &'static ClockWords) {
    let bit = usize::from(native.own_bit());
    let packed = ptr::from_ref(words).cast_mut().map_addr(|address| address | bit);
    INSTALLED.store(packed, Ordering::Release);
}

/// Removes the token and the words. A thread that has already obtained them can continue to use them.
pub fn remove() {
    INSTALLED.store(ptr::null_mut(), Ordering::Release);
}

/// Returns the words of this process, and whether a fork zeroes them in the child. If the kernel supports zeroing, the
/// words are in a page of their own, otherwise in the program's memory.
pub fn words() -> (&'static ClockWords, bool) {
    // SAFETY: zero is a valid value of AtomicU64, and the words contain nothing else. zeroed.
    static IN_THE_PROGRAM: ClockWords = unsafe { mem::zeroed() };
    static PAGE: AtomicPtr<ClockWords> = AtomicPtr::new(ptr::null_mut());
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let made = words_wiped_on_fork().unwrap_or(&IN_THE_PROGRAM);
        let made = ptr::from_ref(made).cast_mut();
        // If two threads create a page at the same time, the second uses the page of the first, and its own page
        // stays unused.
        page = match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(first) => first,
        };
    }
    // SAFETY: `PAGE` only ever holds null, which was excluded, or a reference to words that live forever. pointer,
    // "Pointer to reference conversion".
    let words = unsafe { &*page };
    (words, !ptr::eq(words, &raw const IN_THE_PROGRAM))
}

/// Returns words in a page of their own, which a fork zeroes in the child; `None` if the kernel does not support this
/// (before 4.14).
fn words_wiped_on_fork() -> Option<&'static ClockWords> {
    let length = usize::try_from(process::page_size()).ok()?.max(size_of::<ClockWords>());
    // SAFETY: a new private mapping without a file and at no particular address touches no memory of the program.
    // mmap(2).
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the whole range has just been mapped and is not used elsewhere. The mapping is private and anonymous, as
    // MADV_WIPEONFORK requires. madvise(2).
    let advised = unsafe { libc::madvise(page, length, libc::MADV_WIPEONFORK) };
    if advised != 0 {
        // SAFETY: the range has just been mapped and is not used elsewhere. munmap(2).
        let _ = unsafe { libc::munmap(page, length) };
        return None;
    }
    // SAFETY: the page is large enough, sufficiently aligned, zero (which is a valid value of AtomicU64), never
    // unmapped, and accessed only through this reference. mmap(2); pointer, "Pointer to reference conversion".
    Some(unsafe { &*page.cast::<ClockWords>() })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::words_wiped_on_fork;
    use crate::trial;

    #[test]
    fn a_forked_child_reads_zeros() {
        let Some(words) = words_wiped_on_fork() else {
            return skipped!("this kernel does not support MADV_WIPEONFORK");
        };
        let word = &words.of_owner.marker;
        assert_eq!((word.load(Ordering::Relaxed), words.changer.load(Ordering::Relaxed)), (0, 0));
        word.store(7, Ordering::Relaxed);
        let child_sees_zero = trial::attempt_in_child(|| {
            if word.load(Ordering::Relaxed) != 0 {
                std::process::abort();
            }
        });
        if cfg!(target_arch = "x86_64") {
            assert_eq!(child_sees_zero, trial::Attempt::Lived);
        }
        assert_eq!(word.load(Ordering::Relaxed), 7);
    }
}
