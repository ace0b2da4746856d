//! A page of words that two processes share.
//! Does not define the meaning of the words: `handover` does.
#![expect(unsafe_code, reason = "maps a file, and accesses its bytes as atomic words")]

use std::{fs::File, io, sync::atomic::AtomicU64};

use memmap2::{MmapOptions, MmapRaw};

/// The mapped size, which is at most a page on every machine.
const BYTES: usize = 4096;
/// The number of words that fit.
const WORDS: usize = BYTES / size_of::<AtomicU64>();

/// Words in a file, shared with all processes that map it.
#[derive(Debug)]
pub struct SharedWords {
    map: MmapRaw,
}

impl SharedWords {
    /// Extends `file` to the required length and maps it. New words are zero.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the mapping.
    pub fn of(file: &File) -> io::Result<Self> {
        file.set_len(BYTES as u64)?;
        Ok(Self { map: MmapOptions::new().len(BYTES).map_raw(file)? })
    }

    /// Returns the words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64; WORDS] {
        let words = self.map.as_mut_ptr().cast::<[AtomicU64; WORDS]>();
        // SAFETY: the map is BYTES long, readable, writable, aligned to a page, and lives as long
        // as the borrow of `self`. Any bits are a valid AtomicU64. This process and the other one
        // access the words with atomic operations only, because only this function gives access. No
        // process truncates the file, so that no access is beyond its end. Rust reference,
        // AtomicU64: same layout as u64.
        unsafe { &*words }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::SharedWords;

    #[test]
    fn a_value_written_through_one_map_is_read_through_another() {
        let path = std::env::temp_dir().join(format!("hpt-shared-words-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.expect("the temporary directory is writable");
        let (one, other) = (SharedWords::of(&file).expect("mapped"), SharedWords::of(&file).expect("mapped"));
        std::fs::remove_file(&path).expect("the file was just created");
        assert_eq!(other.words()[511].load(Ordering::Relaxed), 0);
        one.words()[511].store(7, Ordering::Relaxed);
        assert_eq!(other.words()[511].load(Ordering::Relaxed), 7);
    }
}
