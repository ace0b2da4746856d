//! A page of words that two processes share.
//! Says nothing of what the words mean: `handover` does.
#![expect(unsafe_code, reason = "maps a file, and looks at the bytes as atomic words")]

use std::{fs::File, io, sync::atomic::AtomicU64};

use memmap2::{MmapOptions, MmapRaw};

/// What is mapped: less than a page of any machine.
const BYTES: usize = 4096;
/// As many words as fit.
const WORDS: usize = BYTES / size_of::<AtomicU64>();

/// Words in a file, shared with all who map it.
#[derive(Debug)]
pub struct SharedWords {
    map: MmapRaw,
}

impl SharedWords {
    /// Maps `file`, which is made long enough: new words are zero.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn of(file: &File) -> io::Result<Self> {
        file.set_len(BYTES as u64)?;
        Ok(Self { map: MmapOptions::new().len(BYTES).map_raw(file)? })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64; WORDS] {
        let words = self.map.as_mut_ptr().cast::<[AtomicU64; WORDS]>();
        // SAFETY: the map is BYTES long, readable, writable, aligned to a page, and lives as long as the borrow of `self`. Any bits are an
        // AtomicU64, and those who share it, here and in the other process, touch it by atomic operations only: nothing but this function gives
        // access. The file is not made shorter by anybody, so that no access is beyond its end. Rust reference, AtomicU64: same layout as u64.
        unsafe { &*words }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::SharedWords;

    #[test]
    fn what_is_written_by_one_map_is_read_by_another() {
        let path = std::env::temp_dir().join(format!("hpt-shared-words-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.expect("a folder for such files");
        let (one, other) = (SharedWords::of(&file).expect("mapped"), SharedWords::of(&file).expect("mapped"));
        std::fs::remove_file(&path).expect("just made");
        assert_eq!(other.words()[511].load(Ordering::Relaxed), 0);
        one.words()[511].store(7, Ordering::Relaxed);
        assert_eq!(other.words()[511].load(Ordering::Relaxed), 7);
    }
}
