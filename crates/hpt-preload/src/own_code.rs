//! The address range of this library's own code. Draws no conclusion from it; `answer` does.

unsafe extern "C" {
    /// The start of the library in memory. The linker defines it (GNU ld and lld do); it has an address but no content.
    static __ehdr_start: u8;
    /// The end of the library's code, also defined by the linker, end(3). It is not the program's symbol of that name,
    /// because rustc exports from a library only what Rust marks for export.
    static etext: u8;
}

/// Returns whether the instruction at `address` belongs to this library, including hpt-core and the standard library
/// that are linked into it.
#[inline(always)]
pub(crate) fn contains(address: usize) -> bool {
    let begin = (&raw const __ehdr_start).addr();
    let end = (&raw const etext).addr();
    (begin..end).contains(&address)
}
