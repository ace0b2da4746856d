//! The GPIO character device: chips, lines, and the levels and edges of requested lines. Does not choose or restore
//! lines; `gpio` does.

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
    time::Duration,
};

pub use gpiocdev_uapi::v2::{ChipInfo, LineFlags, LineInfo};
use gpiocdev_uapi::{
    Error,
    v2::{
        LineConfig, LineEdgeEvent, LineEdgeEventKind, LineRequest, LineValues, Offsets, get_chip_info, get_line,
        get_line_info, get_line_values, read_event, set_line_config, set_line_values,
    },
};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

// The flags of the crate have a type whose layout is not guaranteed.
const _: () = assert!(size_of::<LineConfig>() == 0x110, "the layout must match the kernel's");
const _: () = assert!(size_of::<LineRequest>() == 0x250, "the layout must match the kernel's");
const _: () = assert!(size_of::<LineInfo>() == 0x100, "the layout must match the kernel's");
const _: () = assert!(std::mem::offset_of!(LineInfo, flags) == 0x48, "the layout must match the kernel's");

/// The number of 64-bit words in an event.
const WORDS: usize = size_of::<LineEdgeEvent>() / size_of::<u64>();

/// Converts the kernel's error to an error of the standard library.
fn answer(error: Error) -> io::Error {
    match error {
        Error::Os(number) => io::Error::from_raw_os_error(number.0),
        Error::UnderRead(_) => io::ErrorKind::UnexpectedEof.into(),
    }
}

/// The configuration to request for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Unchanged.
    AsItIs,
    /// An output with this level.
    Output(bool),
    /// An input.
    Input,
    /// An input that reports both edges.
    Edges,
}

impl Use {
    fn config(self) -> LineConfig {
        let flags = match self {
            Self::AsItIs => LineFlags::empty(),
            Self::Output(_) => LineFlags::OUTPUT,
            Self::Input => LineFlags::INPUT,
            Self::Edges => LineFlags::INPUT | LineFlags::EDGE_RISING | LineFlags::EDGE_FALLING,
        };
        let mut config = LineConfig { flags, ..LineConfig::default() };
        if let Self::Output(level) = self {
            config.add_values(&LineValues::from_slice(&[level]));
        }
        config
    }
}

/// An edge as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeEvent {
    /// The time at which the edge's interrupt handler ran, in nanoseconds on CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub rising: bool,
    /// The sequence number of the edge on its line. Missing numbers belong to dropped events.
    pub number: u32,
}

/// An open GPIO chip.
#[derive(Debug)]
pub struct Device {
    file: File,
}

impl Device {
    /// Opens the chip without changing any line.
    ///
    /// # Errors
    ///
    /// Returns the error from opening the chip.
    pub fn open(path: &Path) -> io::Result<Self> {
        // O_NONBLOCK: opening must not block if the path is a pipe instead of a chip.
        let file = File::options().read(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(path)?;
        Ok(Self { file })
    }

    /// Returns the names of the chip, and the number of its lines.
    ///
    /// # Errors
    ///
    /// Returns ENOTTY for a file of another kind, or ENODEV for a chip that was removed.
    pub fn info(&self) -> io::Result<ChipInfo> {
        get_chip_info(&self.file).map_err(answer)
    }

    /// Returns the state of a line and its user, without changing it.
    ///
    /// # Errors
    ///
    /// Returns EINVAL for a line that does not exist, and on a kernel without this call.
    pub fn line(&self, offset: u32) -> io::Result<LineInfo> {
        get_line_info(&self.file, offset).map_err(answer)
    }

    /// Requests a line under a name. The line is released when the result is dropped.
    ///
    /// # Errors
    ///
    /// Returns EBUSY for a line that is in use, or ENXIO or ENODEV if edges are not supported.
    pub fn request(&self, offset: u32, consumer: &str, what: Use) -> io::Result<Line> {
        let request = LineRequest {
            offsets: Offsets::from_slice(&[offset]),
            consumer: consumer.into(),
            config: what.config(),
            num_lines: 1,
            ..LineRequest::default()
        };
        let line = Line { file: get_line(&self.file, request).map_err(answer)? };
        line.do_not_wait_in_read()?;
        Ok(line)
    }
}

/// A line that has been requested exclusively.
#[derive(Debug)]
pub struct Line {
    file: File,
}

impl Line {
    fn do_not_wait_in_read(&self) -> io::Result<()> {
        Ok(fcntl_setfl(&self.file, fcntl_getfl(&self.file)? | OFlags::NONBLOCK)?)
    }

    /// Changes the configuration of the line.
    ///
    /// # Errors
    ///
    /// Returns the error from the driver.
    pub fn change(&self, what: Use) -> io::Result<()> {
        set_line_config(&self.file, what.config()).map_err(answer)
    }

    /// Returns the line's level.
    ///
    /// # Errors
    ///
    /// Returns the error from the driver.
    pub fn level(&self) -> io::Result<bool> {
        let mut values = LineValues { bits: 0, mask: 1 };
        get_line_values(&self.file, &mut values).map_err(answer)?;
        Ok(values.bits & 1 == 1)
    }

    /// Drives the line to this level.
    ///
    /// # Errors
    ///
    /// Returns EPERM if the line is not an output, or the error from the driver.
    #[inline]
    pub fn set(&self, level: bool) -> io::Result<()> {
        set_line_values(&self.file, &LineValues { bits: level.into(), mask: 1 }).map_err(answer)
    }

    /// Blocks in the kernel until there is an edge to read, but no longer than `at_most`, rounded down to whole
    /// milliseconds. A signal may end the wait earlier.
    ///
    /// # Errors
    ///
    /// Returns the error from poll(2), or ENODEV for a chip that was removed.
    #[inline]
    pub fn wait(&self, at_most: Duration) -> io::Result<()> {
        let mut one = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let milliseconds = libc::c_int::try_from(at_most.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the call receives one structure, which lives as long as the call. poll(2).
        let answer = unsafe { libc::poll(&raw mut one, 1, milliseconds) };
        if answer < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        if one.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0 {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        Ok(())
    }

    /// Returns the next edge, if there is one.
    ///
    /// # Errors
    ///
    /// Returns the error from read(2), unless the error only means that there is no edge.
    #[inline]
    pub fn event(&self) -> io::Result<Option<EdgeEvent>> {
        let mut words = [0; WORDS];
        match read_event(&self.file, &mut words) {
            Ok(read) => EdgeEvent::from_words(&words[..read]).map(Some),
            Err(Error::Os(number)) if matches!(number.0, libc::EAGAIN | libc::EINTR) => Ok(None),
            Err(error) => Err(answer(error)),
        }
    }
}

impl EdgeEvent {
    #[inline]
    fn from_words(words: &[u64]) -> io::Result<Self> {
        let event = LineEdgeEvent::from_slice(words).map_err(answer)?;
        let rising = event.kind == LineEdgeEventKind::RisingEdge as u32;
        Ok(Self { at_ns: event.timestamp_ns, rising, number: event.line_seqno })
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use gpiocdev_uapi::v2::LineAttributeValue;

    use super::{Device, EdgeEvent, Line, LineFlags, Use, WORDS};

    #[test]
    fn a_file_that_is_not_a_chip_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let no_chip = Device::open(file.path()).expect("a file can be opened");
        let answers = [
            no_chip.info().map(|_| ()),
            no_chip.line(0).map(|_| ()),
            no_chip.request(0, "hpt", Use::AsItIs).map(|_| ()),
        ];
        for answer in answers {
            // An emulator that does not support these calls reports an error.
            let error = answer.expect_err("no chip").raw_os_error();
            assert!(matches!(error, Some(libc::ENOTTY | libc::ENOSYS)), "{error:?}");
        }
        let no_line = Line { file: file.reopen().expect("an existing file") };
        assert!(no_line.level().is_err() && no_line.set(true).is_err() && no_line.change(Use::Input).is_err());
        assert!(no_line.event().is_err(), "an empty file ends at once");
        assert!(Device::open(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_wait_without_events_times_out() {
        let (read, _write) = std::io::pipe().expect("a pipe");
        let line = Line { file: std::fs::File::from(std::os::fd::OwnedFd::from(read)) };
        line.do_not_wait_in_read().expect("a pipe supports this");
        line.wait(Duration::from_millis(1)).expect("a pipe can be waited for");
        assert_eq!(line.event().expect("nothing was written"), None);
    }

    #[test]
    fn an_event_is_read_from_its_words() {
        // Each word has two fields: kind and offset, then the sequence numbers of the request and of the line.
        let two = |first: u32, second: u32| {
            let (first, second) = (first.to_ne_bytes(), second.to_ne_bytes());
            u64::from_ne_bytes(std::array::from_fn(|at| if at < 4 { first[at] } else { second[at - 4] }))
        };
        let mut words = [1_234_567_890_123, two(2, 17), two(5, 7), 0, 0, 0];
        let falling = EdgeEvent { at_ns: 1_234_567_890_123, rising: false, number: 7 };
        assert_eq!(EdgeEvent::from_words(&words).expect("a whole event"), falling);
        words[1] = two(1, 17);
        assert_eq!(EdgeEvent::from_words(&words).expect("a whole event"), EdgeEvent { rising: true, ..falling });
        assert!(EdgeEvent::from_words(&words[..WORDS - 1]).is_err());
    }

    #[test]
    fn an_output_is_given_its_level_with_its_direction() {
        let config = Use::Output(true).config();
        assert_eq!((config.flags, config.num_attrs), (LineFlags::OUTPUT, 1));
        let values = |level| {
            let attribute = *Use::Output(level).config().attr(0);
            (attribute.attr.to_value(), attribute.mask)
        };
        assert_eq!(values(true), (Some(LineAttributeValue::Values(1)), 1));
        assert_eq!(values(false), (Some(LineAttributeValue::Values(0)), 1));
        assert_eq!((Use::AsItIs.config().flags, Use::AsItIs.config().num_attrs), (LineFlags::empty(), 0));
        let edges = LineFlags::EDGE_RISING | LineFlags::EDGE_FALLING;
        assert_eq!(Use::Edges.config().flags, LineFlags::INPUT | edges);
    }
}
