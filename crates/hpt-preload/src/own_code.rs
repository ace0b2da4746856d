//! Where this library's own code lies.
//! Does not decide what follows from that: `answer` does.

unsafe extern "C" {
    /// Where the library begins in memory. The linker defines it (GNU ld and lld do); it has an address and no content.
    static __ehdr_start: u8;
    /// Behind the library's code. The linker's as well, end(3); not the program's of that name, because rustc exports from a library only what Rust marks so.
    static etext: u8;
}

/// Whether the instruction at `address` is one of this library, with hpt-core and the standard library that are linked into it.
#[inline(always)]
pub(crate) fn contains(address: usize) -> bool {
    let begin = (&raw const __ehdr_start).addr();
    let end = (&raw const etext).addr();
    (begin..end).contains(&address)
}
