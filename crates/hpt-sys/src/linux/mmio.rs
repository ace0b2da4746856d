//! A device's registers, mapped read-only. Independent of the device: `source` and `gpio` specify the location of the
//! registers and interpret their values.

use std::{fs::File, io, os::unix::fs::OpenOptionsExt, path::Path, sync::Arc};

use super::mapping::Mapping;

/// Readable 32-bit registers. This is a trait so that a test can script the registers.
pub trait Registers {
    /// Returns the register that is `offset` bytes after the first register.
    ///
    /// # Panics
    ///
    /// Panics if `offset` is not the offset of a register, which is a bug in the program.
    fn read_u32(&self, offset: usize) -> u32;
}

impl<R: Registers> Registers for Arc<R> {
    #[inline(always)]
    fn read_u32(&self, offset: usize) -> u32 {
        R::read_u32(self, offset)
    }
}

/// Opens a device file for reading.
///
/// # Errors
///
/// Returns the error from opening the file.
pub fn open(path: &Path) -> io::Result<File> {
    // O_SYNC requests that device memory be mapped uncached, for kernels that do not do so by default. Linux,
    // drivers/char/mem.c.
    File::options().read(true).custom_flags(libc::O_SYNC | libc::O_CLOEXEC).open(path)
}

/// A device's registers in this process's memory. The registers cannot be written.
#[derive(Debug)]
pub struct Window {
    pub(super) map: Mapping,
    /// The offset of the registers in the map; `length` is their size. Both are in bytes.
    pub(super) start: usize,
    pub(super) length: usize,
}

impl Window {
    /// Maps `path` from `offset` on, and exposes the `length` bytes that begin `start` bytes after `offset`. `offset`
    /// must be a multiple of the page size.
    ///
    /// # Errors
    ///
    /// Returns the error from opening or mapping the file, or [`io::ErrorKind::InvalidInput`] for a `start` that is not
    /// the offset of a register.
    pub fn map(path: &Path, offset: u64, start: usize, length: usize) -> io::Result<Self> {
        Self::of(&open(path)?, offset, start, length)
    }

    /// Maps registers from an open file, which need not stay open.
    ///
    /// # Errors
    ///
    /// Returns an error in the same cases as [`map`](Self::map).
    pub fn of(file: &File, offset: u64, start: usize, length: usize) -> io::Result<Self> {
        let end = start.checked_add(length).filter(|_| start % 4 == 0).ok_or(io::ErrorKind::InvalidInput)?;
        let map = Mapping::of(file, offset, end)?;
        Ok(Self { map, start, length })
    }
}

impl Registers for Window {
    #[inline(always)]
    fn read_u32(&self, offset: usize) -> u32 {
        assert!(
            offset % 4 == 0 && self.length.checked_sub(4).is_some_and(|last| offset <= last),
            "no 32-bit register starts at offset {offset}"
        );
        let first = self.map.as_ptr();
        // SAFETY: `start + length` bytes are mapped, and the assertion keeps the whole register within them.
        // pointer::add.
        let register = unsafe { first.add(self.start + offset) };
        // SAFETY: the address is readable and stays mapped for as long as `self.map` lives. It is aligned to four
        // bytes, because the map begins at a page boundary and `start` and `offset` are multiples of four. No reference
        // to the address is ever created. The read is volatile because a device changes the register.
        // ptr::read_volatile.
        unsafe { register.cast::<u32>().read_volatile() }
    }
}

#[cfg(all(test, feature = "devices"))]
mod tests {
    use std::io::Write;

    use super::{Registers, Window};

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(content).expect("it can be written");
        file
    }

    #[test]
    fn registers_are_read_at_their_offsets() {
        let content: Vec<u8> = (0..=255).cycle().take(8192).collect();
        let file = file(&content);
        let window = Window::map(file.path(), 0, 8, 12).expect("a file can be mapped");
        assert_eq!(window.read_u32(0), u32::from_ne_bytes([8, 9, 10, 11]));
        assert_eq!(window.read_u32(8), u32::from_ne_bytes([16, 17, 18, 19]));
    }

    #[test]
    #[should_panic(expected = "no 32-bit register starts at offset 12")]
    fn a_register_past_the_end_is_not_read() {
        let file = file(&[0; 8192]);
        let window = Window::map(file.path(), 0, 8, 12).expect("a file can be mapped");
        window.read_u32(12);
    }

    #[test]
    #[should_panic(expected = "no 32-bit register starts at offset")]
    fn a_register_before_the_first_is_not_read() {
        let file = file(&[0; 8192]);
        let window = Window::map(file.path(), 0, 8, 12).expect("a file can be mapped");
        window.read_u32(usize::MAX - 3);
    }

    #[test]
    fn a_file_that_cannot_be_mapped_is_an_error() {
        let file = file(&[0; 8192]);
        assert!(Window::map(file.path(), 0, 2, 4).is_err());
        assert!(Window::map(file.path(), 0, usize::MAX - 3, 8).is_err());
        assert!(Window::map(std::path::Path::new("/nonexistent"), 0, 0, 4).is_err());
    }
}
