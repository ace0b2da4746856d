//! Maps a file into memory, read-only unless a caller asks for a writable mapping. Without the feature `devices`, no file
//! can be mapped.

#[cfg(not(feature = "devices"))]
pub(super) use self::absent::Mapping;
#[cfg(feature = "devices")]
pub(super) use self::present::Mapping;

#[cfg(feature = "devices")]
mod present {
    use std::{fs::File, io};

    use memmap2::{MmapOptions, MmapRaw};

    /// The mapped part of a file. Dropping it unmaps the file.
    #[derive(Debug)]
    pub(crate) struct Mapping(MmapRaw);

    impl Mapping {
        /// Maps `length` bytes of `file`, starting at `offset`.
        pub(crate) fn of(file: &File, offset: u64, length: usize) -> io::Result<Self> {
            Ok(Self(MmapOptions::new().offset(offset).len(length).map_raw_read_only(file)?))
        }

        /// Maps `length` bytes of `file`, starting at `offset`. Writes to them reach the file.
        #[allow(dead_code, reason = "only GPIO lines are driven, which not every build supports")]
        pub(crate) fn writable(file: &File, offset: u64, length: usize) -> io::Result<Self> {
            Ok(Self(MmapOptions::new().offset(offset).len(length).map_raw(file)?))
        }

        /// Returns the address of the first byte.
        #[inline(always)]
        pub(crate) fn as_ptr(&self) -> *const u8 {
            self.0.as_ptr()
        }
    }
}

#[cfg(not(feature = "devices"))]
mod absent {
    use std::{convert::Infallible, fs::File, io};

    /// A mapping that cannot exist.
    #[derive(Debug)]
    pub(crate) struct Mapping(Infallible);

    impl Mapping {
        pub(crate) fn of(_file: &File, _offset: u64, _length: usize) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        #[allow(dead_code, reason = "only GPIO lines are driven, which not every build supports")]
        pub(crate) fn writable(_file: &File, _offset: u64, _length: usize) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn as_ptr(&self) -> *const u8 {
            match self.0 {}
        }
    }
}
