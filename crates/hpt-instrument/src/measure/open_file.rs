//! Reads a file of the kernel again and again: it stays open, and the memory for its content stays allocated.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

/// The size of the largest file that is evaluated, in bytes. A larger file is ignored, because a truncated file could
/// be mistaken for a complete one.
const LONGEST: usize = 64 << 20;

/// Returns the content of a file from its start, as text; `None` if it cannot be read or is not text.
pub(super) fn read<'a>(file: &mut File, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
    file.seek(SeekFrom::Start(0)).ok()?;
    let mut length = 0;
    loop {
        if length == buffer.len() {
            if length >= LONGEST {
                return None;
            }
            buffer.resize(length * 2, 0);
        }
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    std::str::from_utf8(&buffer[..length]).ok()
}
