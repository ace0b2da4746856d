//! The kernel log: reads and parses the records from /dev/kmsg, and selects the records about clocksources. `Host`
//! locates the device.

use std::{
    error::Error,
    fmt,
    fs::File,
    io::{self, ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

use crate::{os_error::OsError, units::Frequency};

/// The maximum length of a record from /dev/kmsg, in bytes. A read into a buffer that is too short fails with EINVAL.
/// Linux, kernel/printk/internal.h, PRINTK_MESSAGE_MAX.
const LONGEST_RECORD: usize = 8192;
/// The maximum size of a log that is read, in bytes. The log is a ring buffer, usually of at most a few megabytes. A
/// larger log is rejected because its first part would be mistaken for the whole log.
const LARGEST_LOG: usize = 64 << 20;

/// One line of the kernel log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The time when it was written, in microseconds since boot.
    pub at_us: u64,
    /// Its text, without a newline.
    pub text: String,
}

/// The lines of the kernel log that were available.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLog {
    /// The lines, oldest first.
    pub lines: Vec<LogLine>,
    /// Whether the first of these lines is the first line that the kernel wrote after boot. The log is a ring buffer,
    /// in which new lines overwrite old lines.
    pub from_the_beginning: bool,
}

/// The reason why the kernel log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The device /dev/kmsg does not exist, as in many containers.
    Absent,
    /// This user is not permitted to read /dev/kmsg, for example because kernel.dmesg_restrict is 1 and CAP_SYSLOG is
    /// missing.
    NotAllowed,
    /// Another I/O error.
    Failed(OsError),
}

impl LogError {
    pub(super) fn of(cause: io::Error) -> Self {
        match cause.kind() {
            ErrorKind::NotFound => Self::Absent,
            ErrorKind::PermissionDenied => Self::NotAllowed,
            _ => Self::Failed(cause.into()),
        }
    }

    /// Returns the fix, if one is known.
    #[must_use]
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Absent => Some("run outside the container, or check `journalctl -k -b`"),
            Self::NotAllowed => Some("run as root, or set kernel.dmesg_restrict to 0"),
            Self::Failed(_) => None,
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("/dev/kmsg does not exist"),
            Self::NotAllowed => f.write_str("this user is not permitted to read /dev/kmsg"),
            Self::Failed(_) => f.write_str("cannot read /dev/kmsg"),
        }
    }
}

impl Error for LogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Absent | Self::NotAllowed => None,
            Self::Failed(cause) => Some(cause),
        }
    }
}

impl KernelLog {
    /// Parses records from /dev/kmsg, which have the format `priority,sequence,microseconds,flags;text`. Other lines
    /// are skipped, including the lines after a record that start with a space.
    ///
    /// # References
    ///
    /// Linux, Documentation/ABI/testing/dev-kmsg.
    #[must_use]
    pub fn parse(records: &[u8]) -> Self {
        let mut log = Self::default();
        let mut first = None;
        for line in records.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let Some((head, text)) = line.split_once(';').filter(|_| !line.starts_with(' ')) else {
                continue;
            };
            let mut fields = head.split(',').skip(1).map(str::parse::<u64>);
            let (Some(Ok(sequence)), Some(Ok(at_us))) = (fields.next(), fields.next()) else {
                continue;
            };
            first.get_or_insert(sequence);
            log.lines.push(LogLine { at_us, text: unescaped(text) });
        }
        log.from_the_beginning = first == Some(0);
        log
    }

    /// Returns the TSC rate that the kernel uses, as its messages report it. This is the rate that it refined against
    /// another timer or, if the kernel was given the rate, the rate in its last message about a detected rate.
    pub(super) fn tsc_frequency(&self, was_told: bool) -> Option<Frequency> {
        let by =
            |wanted: fn(&str) -> Option<&str>| self.lines.iter().rev().find_map(|line| megahertz(wanted(&line.text)?));
        let refined = by(|text| text.strip_prefix("tsc: Refined TSC clocksource calibration: "));
        // If the processor's rate differs from the TSC's rate, a line with the TSC's rate follows.
        let detected = || by(|text| text.strip_prefix("tsc: Detected "));
        refined.or_else(|| was_told.then(detected).flatten())
    }

    /// Returns the lines that report trapped reads of the ARM generic timer. An erratum without such a line does not
    /// keep 64-bit programs from reading it. Linux, drivers/clocksource/arm_arch_timer.c: `arch_counter_set_user_access`,
    /// `arch_timer_check_ool_workaround`.
    pub fn trapped_counter_reads(&self) -> Vec<String> {
        let traps = |text: &str| text.starts_with("arch_timer: ") && text.contains("Trapping CNTVCT access");
        self.lines.iter().map(|line| &line.text).filter(|text| traps(text)).cloned().collect()
    }

    /// Returns the lines about the kernel's clocksources.
    pub fn on_clock_sources(&self) -> impl Iterator<Item = &LogLine> {
        self.lines.iter().filter(|line| is_on_clock_sources(&line.text))
    }
}

impl LogLine {
    /// Returns the clocksource to which the kernel switched, if this line reports a switch. Linux,
    /// kernel/time/clocksource.c, `__clocksource_select`.
    #[must_use]
    pub fn turned_to_clock_source(&self) -> Option<&str> {
        self.text.strip_prefix("clocksource: Switched to clocksource ").map(str::trim)
    }
}

/// Parses a frequency such as `2596.127 MHz`, and ignores the text after it.
fn megahertz(text: &str) -> Option<Frequency> {
    let (whole, thousandths) = text.split_once(" MHz")?.0.split_once('.')?;
    let is_kilohertz = thousandths.len() == 3 && thousandths.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, thousandths): (u64, u64) = (whole.parse().ok()?, thousandths.parse().ok().filter(|_| is_kilohertz)?);
    Frequency::from_hertz(whole.checked_mul(1_000_000)?.checked_add(thousandths * 1_000)?)
}

/// A reader of new lines of the kernel log, which never blocks.
#[derive(Debug)]
pub struct NewLogLines {
    file: File,
    record: Vec<u8>,
}

impl NewLogLines {
    pub(super) fn from_the_end_of(mut file: File) -> io::Result<Self> {
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, record: vec![0; LONGEST_RECORD] })
    }

    /// Returns the lines that were written since the last call, oldest first. Lines that have already been overwritten
    /// in the ring buffer are missing.
    pub fn take(&mut self) -> Vec<LogLine> {
        let mut records = Vec::new();
        while records.len() < LARGEST_LOG {
            match self.file.read(&mut self.record) {
                Ok(length) if length > 0 => records.extend_from_slice(&self.record[..length]),
                Err(error) if goes_on(&error) => {}
                Ok(_) | Err(_) => break,
            }
        }
        KernelLog::parse(&records).lines
    }
}

/// Returns whether reading can continue after this error. EPIPE means that the next record has been overwritten; a
/// later record follows.
fn goes_on(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted)
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    // With O_NONBLOCK, a read at the end of the log returns EAGAIN instead of waiting for the next record.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_char_device() {
        Ok(file)
    } else {
        Err(io::Error::new(ErrorKind::InvalidInput, "it is neither a device nor a regular file"))
    }
}

/// Returns the records from /dev/kmsg, or from a regular file in its place.
pub(super) fn records(mut file: File) -> io::Result<Vec<u8>> {
    let (mut content, mut record) = (Vec::new(), vec![0; LONGEST_RECORD]);
    loop {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(length) if content.len() + length > LARGEST_LOG => {
                return Err(io::Error::new(ErrorKind::FileTooLarge, "it is larger than 64 MiB"));
            }
            Ok(length) => content.extend_from_slice(&record[..length]),
            Err(error) if goes_on(&error) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(content)
}

/// Returns the kernel's own records about clocksources and the hypervisor, for a capture. Record 0 is also included if it is available,
/// because it shows that the log is complete from its beginning; its text is omitted if it is about something else.
pub(super) fn only_on_clock_sources(records: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    for line in records.split(|&byte| byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let Some((head, said)) = text.split_once(';').filter(|_| !text.starts_with(' ')) else {
            continue;
        };
        if is_of_the_kernel(head) && (is_on_clock_sources(said) || is_on_the_hypervisor(said)) {
            kept.extend_from_slice(line);
        } else if head.split(',').nth(1) == Some("0") {
            kept.extend_from_slice(head.as_bytes());
            kept.push(b';');
        } else {
            continue;
        }
        kept.push(b'\n');
    }
    kept
}

/// Returns whether the kernel itself wrote a record. Programs that write to /dev/kmsg cannot use the kernel's facility,
/// which is in the bits above the three bits of the level. Linux, Documentation/ABI/testing/dev-kmsg.
fn is_of_the_kernel(head: &str) -> bool {
    head.split(',').next().and_then(|prefix| prefix.parse::<u32>().ok()).is_some_and(|prefix| prefix >> 3 == 0)
}

/// The beginnings of lines about clocksources, in lower case. A word elsewhere in a line does not count: it may be part
/// of a serial number, of a device's name, or of a user's. Linux: kernel/time/{clocksource,sched_clock,timekeeping}.c,
/// arch/x86/kernel/{tsc,tsc_sync,hpet,kvmclock,apic/apic}.c, drivers/clocksource/{acpi_pm,arm_arch_timer}.c,
/// drivers/acpi/tables.c.
const BEGINNINGS: [&str; 20] = [
    "clocksource: ",
    "clocksource ",
    "switched to clocksource ",
    "switching to clocksource ",
    "override clocksource ",
    "tsc: ",
    "tsc ",
    "fast tsc calibration ",
    "refined tsc clocksource calibration",
    "marking tsc unstable ",
    "hpet: ",
    "hpet clockevent ",
    "kvm-clock: ",
    "arch_timer: ",
    "sched_clock: ",
    "timekeeping: ",
    "acpi: pm-timer ",
    "acpi: hpet ",
    "acpi: reserving hpet table ",
    "pm-timer ",
];
/// The beginnings of lines about the hypervisor, in lower case. Linux: arch/x86/kernel/cpu/hypervisor.c,
/// arch/x86/kernel/paravirt.c.
const ON_THE_HYPERVISOR: [&str; 2] = ["hypervisor detected: ", "booting paravirtualized kernel on "];

fn is_on_clock_sources(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let text = text.strip_prefix("[firmware bug]: ").unwrap_or(&text);
    let is_of_an_hpet = |text: &str| {
        let number = text.strip_prefix("hpet").and_then(|rest| rest.split_once(": ")).map(|(number, _)| number);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_a_warp = |text: &str| text.starts_with("measured ") && text.contains(" cycles tsc warp between cpus");
    BEGINNINGS.iter().any(|begin| text.starts_with(begin)) || is_of_an_hpet(text) || is_a_warp(text)
}

fn is_on_the_hypervisor(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ON_THE_HYPERVISOR.iter().any(|beginning| text.starts_with(beginning))
}

/// Decodes escape sequences, which consist of `\x` and two hexadecimal digits, and represent unprintable bytes.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hexadecimal = after.get(1..3).filter(|_| byte == b'\\' && after[0] == b'x');
        let escaped = hexadecimal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match escaped {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{any, prop_assert, proptest},
    };

    use std::io::Write;

    use super::{Frequency, KernelLog, LogLine, NewLogLines, only_on_clock_sources};

    const RECORDS: &[u8] =
        b"5,0,0,-;Linux version 6.1.0\n6,7,1234567,-;tsc: Marking TSC unstable due to clocksource watchdog\n \
        SUBSYSTEM=cpu\n6,8,1300000,c;Kernel command line: tsc=reliable secret=1\n4,9,1300001,-;caf\\xc3\\xa9\n";

    #[test]
    fn records_are_read_with_their_time_and_without_continuation_lines() {
        let log = KernelLog::parse(RECORDS);
        let texts: Vec<&str> = log.lines.iter().map(|line| line.text.as_str()).collect();
        let marked = "tsc: Marking TSC unstable due to clocksource watchdog";
        assert_eq!(texts, ["Linux version 6.1.0", marked, "Kernel command line: tsc=reliable secret=1", "café"]);
        assert!(log.from_the_beginning);
        let on_sources: Vec<&LogLine> = log.on_clock_sources().collect();
        assert_eq!(on_sources, [&LogLine { at_us: 1_234_567, text: marked.to_owned() }]);
    }

    #[test]
    fn sequence_numbers_show_that_the_start_of_a_log_is_missing() {
        assert!(!KernelLog::parse(b"6,7,1234567,-;tsc: Detected 2596.154 MHz processor\n").from_the_beginning);
        assert_eq!(KernelLog::parse(b""), KernelLog::default());
    }

    #[test]
    fn a_capture_contains_lines_about_clocksources_but_no_command_line() {
        let kept = String::from_utf8(only_on_clock_sources(RECORDS)).expect("as the records");
        assert_eq!(kept.lines().count(), 2, "{kept}");
        assert!(kept.contains("Marking") && kept.starts_with("5,0,0,-;\n") && !kept.contains("secret"), "{kept}");
        assert!(KernelLog::parse(kept.as_bytes()).from_the_beginning);
    }

    #[test]
    fn a_capture_contains_no_log_lines_from_programs() {
        let records = b"12,0,0,-;hpet of root@a-host\n14,3,4,-;tsc: token\n6,4,5,-;hpet0: at MMIO\nx,5,6,-;tsc\n";
        let kept = String::from_utf8(only_on_clock_sources(records)).expect("as the records");
        assert_eq!(kept, "12,0,0,-;\n6,4,5,-;hpet0: at MMIO\n");
    }

    #[test]
    fn a_capture_contains_no_line_that_only_contains_a_word() {
        const PRIVATE: [&str; 12] = [
            "usb 1-2: SerialNumber: 0042TSC7731",
            "usb 1-3: Product: Deutsche Haus Kamera of Anna",
            "audit: type=1400 audit(1690000000.123:45): avc:  granted  { setsched } for  pid=4242 comm=\"private\"",
            "EXT4-fs (sdb1): mounted filesystem with label Kontscharow",
            "device-mapper: vg-hpetersen-home: resized",
            "input: Anna's tsc: keyboard as /devices/pci0000:00/input5",
            "rtc_cmos 00:00: alarms up to one day, y3k, 114 bytes nvram, hpet irqs",
            "systemd[1]: Hostname set to <clocksource: box>.",
            "TSC7731 camera of Anna",
            "hpetersen: tsc: a name",
            "hpet of Anna: a name",
            "Kernel command line: tsc=reliable secret=1",
        ];
        let records: String = PRIVATE.iter().map(|text| format!("6,8,2234567,-;{text}\n")).collect();
        assert_eq!(String::from_utf8(only_on_clock_sources(records.as_bytes())).expect("text"), "");
        for kept in [
            "clocksource: Switched to clocksource tsc",
            "[Firmware Bug]: TSC doesn't count with P0 frequency!",
            "TSC synchronization [CPU#0 -> CPU#1]:",
            "Measured 74 cycles TSC warp between CPUs, turning off TSC clock.",
            "hpet0: at MMIO 0xfed00000, IRQs 2, 8, 0",
            "hpet: number irqs doesn't agree with number of timers",
            "ACPI: PM-Timer IO Port: 0x608",
            "arch_timer: cp15 timer(s) running at 54.00MHz (phys).",
        ] {
            assert!(!only_on_clock_sources(format!("6,8,9,-;{kept}\n").as_bytes()).is_empty(), "{kept}");
        }
    }

    #[test]
    fn only_records_written_after_opening_are_new() {
        let mut log = tempfile::NamedTempFile::new().expect("a temporary file");
        log.write_all(RECORDS).expect("ours");
        let mut new = NewLogLines::from_the_end_of(super::open(log.path()).expect("it is there")).expect("it is there");
        assert_eq!(new.take(), []);
        log.write_all(b"6,9,7,-;clocksource: Switched to clocksource acpi_pm\n6,10,8,-;other\n").expect("ours");
        let lines = new.take();
        let names: Vec<Option<&str>> = lines.iter().map(LogLine::turned_to_clock_source).collect();
        assert_eq!(names, [Some("acpi_pm"), None]);
        assert_eq!(new.take(), []);
    }

    #[test]
    fn the_kernels_tsc_rate_is_the_refined_or_the_supplied_one() {
        let rate = |text: &str, was_told| {
            let records: Vec<String> = text.lines().map(|line| format!("6,1,2,-;tsc: {line}\n")).collect();
            KernelLog::parse(records.concat().as_bytes()).tsc_frequency(was_told).map(Frequency::hertz)
        };
        let (detected, refined) =
            ("Detected 2596.154 MHz processor", "Refined TSC clocksource calibration: 2600.001 MHz");
        assert_eq!((rate(detected, true), rate(detected, false)), (Some(2_596_154_000), None));
        assert_eq!(rate(&format!("{detected}\n{refined}"), false), Some(2_600_001_000));
        assert_eq!(rate(&format!("{detected}\nDetected 2500.000 MHz TSC"), true), Some(2_500_000_000));
        for wrong in [
            "Detected 2596 MHz processor",
            "Detected 2596.1 MHz",
            "Detected x.000 MHz",
            "Detected 99999999999999.000 MHz",
            "",
        ] {
            assert_eq!(rate(wrong, true), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(records in vec(any::<u8>(), 0..400)) {
            let log = KernelLog::parse(&records);
            prop_assert!(log.lines.iter().all(|line| !line.text.contains('\n')));
            let _ = only_on_clock_sources(&records);
        }

        #[test]
        fn any_text_in_a_record_is_parsed_without_a_panic(text in "\\PC*", escaped in "(\\\\x[0-9a-g]{0,3}){0,5}") {
            let log = KernelLog::parse(format!("6,1,2,-;tsc: Detected {text}{escaped}\n").as_bytes());
            prop_assert!(log.lines.len() <= 1);
            let _ = log.tsc_frequency(true);
        }
    }
}
