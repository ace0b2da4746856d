//! The GPIO character device: what its chips and lines are, lines that are requested, their levels and edges.
//! Decides nothing: which lines are touched, and what is put back, is for `gpio`.

use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    time::Duration,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// GPIO_MAX_NAME_SIZE, GPIO_V2_LINES_MAX and GPIO_V2_LINE_NUM_ATTRS_MAX. Linux, include/uapi/linux/gpio.h.
const NAME: usize = 32;
const LINES: usize = 64;
const ATTRIBUTES: usize = 10;

/// GPIO_V2_LINE_FLAG_…, of what a line is and of what it is to be. Linux, include/uapi/linux/gpio.h, `enum gpio_v2_line_flag`.
pub(crate) mod flag {
    pub(crate) const USED: u64 = 1 << 0;
    pub(crate) const ACTIVE_LOW: u64 = 1 << 1;
    pub(crate) const INPUT: u64 = 1 << 2;
    pub(crate) const OUTPUT: u64 = 1 << 3;
    pub(crate) const EDGE_RISING: u64 = 1 << 4;
    pub(crate) const EDGE_FALLING: u64 = 1 << 5;
}

/// GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES. Linux, include/uapi/linux/gpio.h, `enum gpio_v2_line_attr_id`.
const OUTPUT_VALUES: u32 = 2;
/// GPIO_V2_LINE_EVENT_RISING_EDGE. Linux, include/uapi/linux/gpio.h, `enum gpio_v2_line_event_id`.
const RISING_EDGE: u32 = 1;

/// `struct gpiochip_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChipInfo {
    name: [u8; NAME],
    label: [u8; NAME],
    pub(crate) lines: u32,
}

/// `struct gpio_v2_line_attribute`: a number, and one of three things that 64 bits hold.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attribute {
    id: u32,
    padding: u32,
    values: u64,
}

/// `struct gpio_v2_line_config_attribute`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct ConfigAttribute {
    attribute: Attribute,
    mask: u64,
}

/// `struct gpio_v2_line_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Config {
    flags: u64,
    attributes_used: u32,
    padding: [u32; 5],
    attributes: [ConfigAttribute; ATTRIBUTES],
}

/// `struct gpio_v2_line_request`.
#[repr(C)]
struct Request {
    offsets: [u32; LINES],
    consumer: [u8; NAME],
    config: Config,
    lines: u32,
    event_buffer_size: u32,
    padding: [u32; 5],
    descriptor: i32,
}

/// `struct gpio_v2_line_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineInfo {
    name: [u8; NAME],
    consumer: [u8; NAME],
    offset: u32,
    attributes_used: u32,
    pub(crate) flags: u64,
    attributes: [Attribute; ATTRIBUTES],
    padding: [u32; 4],
}

/// `struct gpio_v2_line_values`: levels, and of which of the requested lines.
#[repr(C)]
struct Values {
    bits: u64,
    mask: u64,
}

/// The size of `struct gpio_v2_line_event`, which is read(2), and where in it the time, the kind and the line's own number stand.
const EVENT: usize = 48;
const EVENT_TIME: usize = 0;
const EVENT_KIND: usize = 8;
const EVENT_NUMBER: usize = 20;

/// Numbers that have the size of the structure in them. Linux, include/uapi/linux/gpio.h.
const MAGIC: u32 = 0xb4;
const GPIO_GET_CHIPINFO: libc::Ioctl = libc::_IOR::<ChipInfo>(MAGIC, 0x01);
const GPIO_V2_GET_LINEINFO: libc::Ioctl = libc::_IOWR::<LineInfo>(MAGIC, 0x05);
const GPIO_V2_GET_LINE: libc::Ioctl = libc::_IOWR::<Request>(MAGIC, 0x07);
const GPIO_V2_LINE_SET_CONFIG: libc::Ioctl = libc::_IOWR::<Config>(MAGIC, 0x0d);
const GPIO_V2_LINE_GET_VALUES: libc::Ioctl = libc::_IOWR::<Values>(MAGIC, 0x0e);
const GPIO_V2_LINE_SET_VALUES: libc::Ioctl = libc::_IOWR::<Values>(MAGIC, 0x0f);
const _: () = assert!(size_of::<ChipInfo>() == 0x44, "as the kernel lays it out");
const _: () = assert!(size_of::<Config>() == 0x110, "as the kernel lays it out");
const _: () = assert!(size_of::<Request>() == 0x250, "as the kernel lays it out");
const _: () = assert!(size_of::<LineInfo>() == 0x100, "as the kernel lays it out");
const _: () = assert!(size_of::<Values>() == 0x10, "as the kernel lays it out");
// With 64 bits aligned to as many on every machine, as the kernel's __aligned_u64 is.
const _: () = assert!(std::mem::offset_of!(Request, config) == 0x120, "as the kernel lays it out");
const _: () = assert!(std::mem::offset_of!(Request, descriptor) == 0x24c, "as the kernel lays it out");
const _: () = assert!(std::mem::offset_of!(LineInfo, flags) == 0x48, "as the kernel lays it out");

/// The text before the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl ChipInfo {
    pub(crate) fn name(&self) -> String {
        text(&self.name)
    }

    pub(crate) fn label(&self) -> String {
        text(&self.label)
    }
}

impl LineInfo {
    pub(crate) fn name(&self) -> String {
        text(&self.name)
    }

    pub(crate) fn consumer(&self) -> String {
        text(&self.consumer)
    }
}

/// What a line is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// What it is already.
    AsItIs,
    /// An output of this level.
    Output(bool),
    /// An input.
    Input,
    /// An input both of whose edges are told.
    Edges,
}

impl Use {
    fn config(self) -> Config {
        let flags = match self {
            Self::AsItIs => 0,
            Self::Output(_) => flag::OUTPUT,
            Self::Input => flag::INPUT,
            Self::Edges => flag::INPUT | flag::EDGE_RISING | flag::EDGE_FALLING,
        };
        let mut config = Config { flags, ..Config::default() };
        if let Self::Output(level) = self {
            config.attributes_used = 1;
            let attribute = Attribute { id: OUTPUT_VALUES, padding: 0, values: level.into() };
            config.attributes[0] = ConfigAttribute { attribute, mask: 1 };
        }
        config
    }
}

/// An edge as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// When its interrupt's handler ran, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    pub(crate) rising: bool,
    /// Events of this line are counted; what is missing between two was dropped.
    pub(crate) number: u32,
}

/// An open file of a chip.
#[derive(Debug)]
pub(crate) struct Device {
    file: File,
}

impl Device {
    /// Opens it. That touches no line.
    ///
    /// # Errors
    ///
    /// What opening it answers.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Not to wait for whoever writes to what is a pipe and no chip.
        let file = File::options().read(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(path)?;
        Ok(Self { file })
    }

    /// What the chip calls itself, and how many lines it has.
    ///
    /// # Errors
    ///
    /// ENOTTY of a file of another kind, ENODEV of a chip that was taken away.
    pub(crate) fn info(&self) -> io::Result<ChipInfo> {
        let mut info = ChipInfo::default();
        // SAFETY: the number has the size of `info`, which the kernel fills; a file of another kind answers ENOTTY. Linux, drivers/gpio/gpiolib-cdev.c,
        // `chipinfo_get`.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), GPIO_GET_CHIPINFO, &raw mut info) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(info) }
    }

    /// What a line is and who has it. That does not touch it.
    ///
    /// # Errors
    ///
    /// EINVAL of a line that is not there, and of a kernel without this call.
    pub(crate) fn line(&self, offset: u32) -> io::Result<LineInfo> {
        let mut info = LineInfo { offset, ..LineInfo::default() };
        // SAFETY: the number has the size of `info`, of which the kernel reads the offset and fills all. Linux, drivers/gpio/gpiolib-cdev.c, `lineinfo_get`.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), GPIO_V2_GET_LINEINFO, &raw mut info) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(info) }
    }

    /// Requests a line under a name, for as long as the answer lives.
    ///
    /// # Errors
    ///
    /// EBUSY of a line that somebody has, ENXIO or ENODEV of edges that nobody tells.
    pub(crate) fn request(&self, offset: u32, consumer: &str, what: Use) -> io::Result<Line> {
        let mut request = Request {
            offsets: [0; LINES],
            consumer: [0; NAME],
            config: what.config(),
            lines: 1,
            event_buffer_size: 0,
            padding: [0; 5],
            descriptor: -1,
        };
        request.offsets[0] = offset;
        // The last byte stays zero.
        for (to, from) in request.consumer[..NAME - 1].iter_mut().zip(consumer.bytes()) {
            *to = from;
        }
        // SAFETY: the number has the size of `request`, which the kernel reads, and fills in the descriptor of. Linux, drivers/gpio/gpiolib-cdev.c,
        // `linereq_create`.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), GPIO_V2_GET_LINE, &raw mut request) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        if request.descriptor < 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: the kernel made this descriptor for this call, and nobody else knows it. OwnedFd::from_raw_fd.
        let descriptor = unsafe { OwnedFd::from_raw_fd(request.descriptor) };
        let line = Line { file: descriptor.into() };
        line.do_not_wait_in_read()?;
        Ok(line)
    }
}

/// A line that is requested: nobody else has it.
#[derive(Debug)]
pub(crate) struct Line {
    file: File,
}

impl Line {
    fn do_not_wait_in_read(&self) -> io::Result<()> {
        Ok(fcntl_setfl(&self.file, fcntl_getfl(&self.file)? | OFlags::NONBLOCK)?)
    }

    /// Makes something else of the line.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    pub(crate) fn change(&self, what: Use) -> io::Result<()> {
        let mut config = what.config();
        // SAFETY: the number has the size of `config`, which the kernel reads. Linux, drivers/gpio/gpiolib-cdev.c, `linereq_set_config`.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), GPIO_V2_LINE_SET_CONFIG, &raw mut config) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The line's level.
    ///
    /// # Errors
    ///
    /// What the driver answers.
    pub(crate) fn level(&self) -> io::Result<bool> {
        let mut values = Values { bits: 0, mask: 1 };
        // SAFETY: the number has the size of `values`, of which the kernel reads the mask and fills the bits. Linux, drivers/gpio/gpiolib-cdev.c,
        // `linereq_get_values`.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), GPIO_V2_LINE_GET_VALUES, &raw mut values) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(values.bits & 1 == 1) }
    }

    /// Drives the line to this level.
    ///
    /// # Errors
    ///
    /// EPERM where it is no output; what the driver answers.
    #[inline]
    pub(crate) fn set(&self, level: bool) -> io::Result<()> {
        let mut values = Values { bits: level.into(), mask: 1 };
        // SAFETY: the number has the size of `values`, which the kernel reads. Linux, drivers/gpio/gpiolib-cdev.c, `linereq_set_values`.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), GPIO_V2_LINE_SET_VALUES, &raw mut values) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits in the kernel until an edge is there to be read, for whole milliseconds at most. A signal may end it earlier.
    ///
    /// # Errors
    ///
    /// What poll(2) answers; ENODEV of a chip that was taken away.
    #[inline]
    pub(crate) fn wait(&self, at_most: Duration) -> io::Result<()> {
        let mut one = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let milliseconds = libc::c_int::try_from(at_most.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one structure, which lives as long as the call. poll(2).
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

    /// The next edge, if one is there.
    ///
    /// # Errors
    ///
    /// What read(2) answers, but that there is none.
    #[inline]
    pub(crate) fn event(&self) -> io::Result<Option<Event>> {
        let mut bytes = [0; EVENT];
        match (&self.file).read(&mut bytes) {
            Ok(EVENT) => Ok(Some(Event::from_bytes(&bytes))),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Event {
    fn from_bytes(bytes: &[u8; EVENT]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let time = bytes[EVENT_TIME..EVENT_KIND].try_into().expect("eight bytes");
        Self { at_ns: u64::from_ne_bytes(time), rising: word(EVENT_KIND) == RISING_EDGE, number: word(EVENT_NUMBER) }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::{Device, EVENT, Event, Line, Use, flag, text};

    #[test]
    fn a_file_that_is_no_chip_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let no_chip = Device::open(file.path()).expect("a file can be opened");
        let answers = [
            no_chip.info().map(|_| ()),
            no_chip.line(0).map(|_| ()),
            no_chip.request(0, "hpt", Use::AsItIs).map(|_| ()),
        ];
        for answer in answers {
            // An emulator does not know these calls, and says that.
            let error = answer.expect_err("no chip").raw_os_error();
            assert!(matches!(error, Some(libc::ENOTTY | libc::ENOSYS)), "{error:?}");
        }
        let no_line = Line { file: file.reopen().expect("it is there") };
        assert!(no_line.level().is_err() && no_line.set(true).is_err() && no_line.change(Use::Input).is_err());
        assert!(no_line.event().is_err(), "an empty file ends at once");
        assert!(Device::open(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn waiting_for_nothing_ends() {
        let (read, _write) = std::io::pipe().expect("a pipe");
        let line = Line { file: std::fs::File::from(std::os::fd::OwnedFd::from(read)) };
        line.do_not_wait_in_read().expect("a pipe can");
        line.wait(Duration::from_millis(1)).expect("a pipe can be waited for");
        assert_eq!(line.event().expect("nothing was written"), None);
    }

    #[test]
    fn an_event_is_read_from_its_bytes() {
        let mut bytes = [0_u8; EVENT];
        bytes[..8].copy_from_slice(&1_234_567_890_123_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&2_u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&17_u32.to_ne_bytes());
        bytes[16..20].copy_from_slice(&5_u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&7_u32.to_ne_bytes());
        let event = Event::from_bytes(&bytes);
        assert_eq!(event, Event { at_ns: 1_234_567_890_123, rising: false, number: 7 });
        bytes[8] = 1;
        assert!(cfg!(target_endian = "big") || Event::from_bytes(&bytes).rising);
    }

    #[test]
    fn an_output_is_given_its_level_with_its_direction() {
        let config = Use::Output(true).config();
        assert_eq!((config.flags, config.attributes_used), (flag::OUTPUT, 1));
        assert_eq!((config.attributes[0].attribute.id, config.attributes[0].attribute.values), (2, 1));
        assert_eq!(config.attributes[0].mask, 1);
        assert_eq!(Use::Output(false).config().attributes[0].attribute.values, 0);
        assert_eq!((Use::AsItIs.config().flags, Use::AsItIs.config().attributes_used), (0, 0));
        assert_eq!(Use::Edges.config().flags, flag::INPUT | flag::EDGE_RISING | flag::EDGE_FALLING);
    }

    #[test]
    fn a_name_ends_at_the_first_zero() {
        assert_eq!(
            (text(b"GPIO17\0\0xx"), text(b"full"), text(b"\0")),
            ("GPIO17".to_owned(), "full".to_owned(), String::new())
        );
    }
}
