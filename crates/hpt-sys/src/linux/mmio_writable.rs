//! A device's registers, mapped so that they can also be written. Independent of the device: `gpio` specifies the location
//! of the registers, and decides what is written.

use std::{fs::File, io, os::unix::fs::OpenOptionsExt, path::Path};

use super::{
    mapping::Mapping,
    mmio::{Registers, Window},
};

/// Registers that can also be written. This is a trait so that a test can record what is written.
pub trait WritableRegisters: Registers {
    /// Writes the register that is `offset` bytes after the first register.
    ///
    /// # Panics
    ///
    /// Panics if `offset` is not the offset of a register, which is a bug in the program.
    fn write_u32(&self, offset: usize, value: u32);
}

/// A device's registers in this process's memory, for reading and writing.
#[derive(Debug)]
pub struct WritableWindow(Window);

impl WritableWindow {
    /// Maps `path` from `offset` on, and exposes the `length` bytes that begin `start` bytes after `offset`.
    /// `offset` must be a multiple of the page size.
    ///
    /// # Errors
    ///
    /// Returns the error from opening or mapping the file, or [`io::ErrorKind::InvalidInput`] for a `start` that is
    /// not the offset of a register.
    pub fn map(path: &Path, offset: u64, start: usize, length: usize) -> io::Result<Self> {
        let end = start.checked_add(length).filter(|_| start % 4 == 0).ok_or(io::ErrorKind::InvalidInput)?;
        let file = File::options().read(true).write(true).custom_flags(libc::O_SYNC | libc::O_CLOEXEC).open(path)?;
        let map = Mapping::writable(&file, offset, end)?;
        Ok(Self(Window { map, start, length }))
    }
}

impl Registers for WritableWindow {
    #[inline(always)]
    fn read_u32(&self, offset: usize) -> u32 {
        self.0.read_u32(offset)
    }
}

impl WritableRegisters for WritableWindow {
    #[inline]
    fn write_u32(&self, offset: usize, value: u32) {
        let Self(Window { map, start, length }) = self;
        assert!(
            offset % 4 == 0 && length.checked_sub(4).is_some_and(|last| offset <= last),
            "no 32-bit register starts at offset {offset}"
        );
        // SAFETY: `start + length` bytes are mapped, and the assertion keeps the whole register within them.
        // pointer::add.
        let register = unsafe { map.as_ptr().add(start + offset) };
        // SAFETY: `map` is a writable mapping of a file, because only `WritableWindow::map` creates this type, and
        // it stays mapped for as long as `self` lives. The address is aligned to four bytes, because the map begins
        // at a page boundary and `start` and `offset` are multiples of four. No reference to the address is ever
        // created. The write is volatile because a device acts on it. ptr::write_volatile.
        unsafe { register.cast_mut().cast::<u32>().write_volatile(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Registers as _, WritableRegisters as _, WritableWindow};

    #[test]
    fn registers_are_written_at_their_offsets_and_nowhere_else() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(8192).expect("it can be extended");
        let window = WritableWindow::map(file.path(), 0, 8, 12).expect("a file can be mapped");
        window.write_u32(4, u32::from_ne_bytes(*b"abcd"));
        assert_eq!(window.read_u32(4), u32::from_ne_bytes(*b"abcd"));
        let mut expected = vec![0; 8192];
        expected[12..16].copy_from_slice(b"abcd");
        assert_eq!(std::fs::read(file.path()).expect("it is there"), expected);
    }

    #[test]
    #[should_panic(expected = "no 32-bit register starts at offset 12")]
    fn a_register_past_the_end_is_not_written() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(8192).expect("it can be extended");
        WritableWindow::map(file.path(), 0, 8, 12).expect("a file can be mapped").write_u32(12, 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error() {
        assert!(WritableWindow::map(std::path::Path::new("/nonexistent"), 0, 0, 4).is_err());
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        assert!(WritableWindow::map(file.path(), 0, 2, 4).is_err());
    }
}
