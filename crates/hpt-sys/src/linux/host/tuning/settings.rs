//! Settings and conditions of the machine that affect latency: throttling, preemption, memory, watchdogs, the power
//! supply of a board, and steal time.

use super::{CpuList, Host, Known};
use crate::host::cores::{IDLE_DRIVER, STAT};
use crate::settings::{self, FAIR_SERVER, FAIR_SERVER_PERIOD, Form, SystemSetting};

const SWAPS: &str = "/proc/swaps";
const STATUS: &str = "/proc/thread-self/status";
const LIMITS: &str = "/proc/thread-self/limits";
/// The driver for the firmware of a Raspberry Pi: raspberrypi/linux, drivers/firmware/raspberrypi.c. Without its file,
/// the voltage alarm is read: Linux, drivers/hwmon/raspberrypi-hwmon.c.
const FIRMWARE: &str = "/sys/bus/platform/drivers/raspberrypi-firmware";
const GET_THROTTLED: &str = "get_throttled";
const MONITORS: &str = "/sys/class/hwmon";
const ALARM: &str = "in0_lcrit_alarm";
const ZONES: &str = "/sys/class/thermal";

/// Files with the same path on every machine that contain no setting.
const FILES: [&str; 7] =
    [IDLE_DRIVER, STAT, SWAPS, STATUS, LIMITS, "/sys/devices/system/node/online", "/sys/devices/system/cpu/smt/active"];

/// The report from a Raspberry Pi's firmware about under-voltage and throttling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// All flags, as `vcgencmd get_throttled` prints them.
    Flags(u32),
    /// Only whether the voltage is too low.
    TooLow(bool),
}

/// A temperature and its limits, in thousandths of a degree Celsius.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: String,
    pub millidegrees: i64,
    /// The temperature at which the kernel starts to throttle the processor.
    pub slowed_from: Option<i64>,
    /// The temperature at which the kernel shuts the machine down.
    pub off_from: Option<i64>,
}

impl SystemSetting {
    /// Returns whether rules judge the setting by this one file.
    fn is_read(&self) -> bool {
        self.is_of_the_machine() && !self.rules.is_empty()
    }
}

impl Form {
    /// Returns the value that a line of a file of this form shows. It can be written to the file, and is the same for all
    /// lines with the same meaning. `None` if the line has another form.
    pub fn value_of(self, line: &str) -> Option<String> {
        match self {
            // The kernel pads the mask to the number of possible CPUs.
            Self::Mask => CpuList::parse_mask(line).map(|cpus| cpus.mask()),
            Self::OneOf(words) => {
                let marked = between(line, '[', ']').or_else(|| between(line, '(', ')'));
                marked.or_else(|| words.contains(&line).then(|| line.to_owned()))
            }
            _ => Some(line.to_owned()),
        }
    }
}

impl Host {
    /// Returns the settings of the machine that rules judge, each with its value.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, Known<String>)> {
        let read = settings::ALL.iter().filter(|setting| setting.is_read());
        read.map(|setting| (setting.path, self.told(setting.path).parsed(|text| setting.form.value_of(text.trim()))))
    }

    /// Returns the first word of a file as an integer.
    pub fn number_in(&self, path: &str) -> Known<i64> {
        self.told(path).parsed(|text| text.split_whitespace().next()?.parse().ok())
    }

    /// Returns the number of swap areas.
    pub fn swaps(&self) -> Known<usize> {
        self.told(SWAPS).parsed(|text| Some(text.lines().skip(1).filter(|line| !line.trim().is_empty()).count()))
    }

    /// Returns the firmware's report about the power supply of a Raspberry Pi; `None` on other machines.
    pub fn supply(&self) -> Option<Supply> {
        let flags = |path: String| u32::from_str_radix(self.text(&path)?.trim().trim_start_matches("0x"), 16).ok();
        let alarm = |path: String| Some(self.text(&path)?.trim() == "1");
        self.throttled_files()
            .into_iter()
            .find_map(flags)
            .map(Supply::Flags)
            .or_else(|| self.alarm_files().into_iter().find_map(alarm).map(Supply::TooLow))
    }

    fn throttled_files(&self) -> Vec<String> {
        let devices = self.list(FIRMWARE).into_iter().filter(|name| name.ends_with("firmware"));
        devices.map(|device| format!("{FIRMWARE}/{device}/{GET_THROTTLED}")).collect()
    }

    fn alarm_files(&self) -> Vec<String> {
        let monitors = self.list(MONITORS).into_iter().map(|monitor| format!("{MONITORS}/{monitor}"));
        let of_the_supply =
            monitors.filter(|monitor| self.text(&format!("{monitor}/name")).as_deref() == Some("rpi_volt"));
        of_the_supply.map(|monitor| format!("{monitor}/{ALARM}")).collect()
    }

    /// Returns the temperatures that the kernel monitors.
    pub fn temperatures(&self) -> Vec<Zone> {
        let zones = self
            .list(ZONES)
            .into_iter()
            .filter(|name| name.starts_with("thermal_zone"))
            .map(|name| format!("{ZONES}/{name}"));
        zones
            .filter_map(|zone| {
                let number = |name: &str| self.number_in(&format!("{zone}/{name}")).is().copied();
                let lowest = |wanted: &str| {
                    let trips = (0..16).filter_map(|trip| {
                        let kind = self.text(&format!("{zone}/trip_point_{trip}_type"))?;
                        (kind == wanted).then(|| number(&format!("trip_point_{trip}_temp"))).flatten()
                    });
                    // An unset trip point has a temperature of zero or less.
                    trips.filter(|&millidegrees| millidegrees > 0).min()
                };
                Some(Zone {
                    name: self.text(&format!("{zone}/type"))?,
                    millidegrees: number("temp")?,
                    slowed_from: lowest("passive"),
                    off_from: lowest("critical"),
                })
            })
            .collect()
    }

    pub(super) fn setting_files(&self) -> Vec<String> {
        let mut files = FILES.map(str::to_owned).to_vec();
        files.extend(settings::ALL.iter().filter(|setting| setting.is_read()).map(|setting| setting.path.to_owned()));
        let [own, installed, of_modules] = self.configuration_files();
        let is_there = |file: &String| self.told(file) != Known::Absent;
        files.push([own, of_modules].into_iter().find(is_there).unwrap_or(installed));
        files.extend(self.throttled_files());
        for alarm in self.alarm_files() {
            files.push(alarm.replace(ALARM, "name"));
            files.push(alarm);
        }
        for zone in self.list(ZONES).into_iter().filter(|name| name.starts_with("thermal_zone")) {
            let mut names = vec!["type".to_owned(), "temp".to_owned()];
            names.extend(
                (0..16).flat_map(|trip| [format!("trip_point_{trip}_type"), format!("trip_point_{trip}_temp")]),
            );
            let of_this = names.into_iter().map(|name| format!("{ZONES}/{zone}/{name}"));
            files.extend(of_this.filter(|file| self.told(file) != Known::Absent));
        }
        for cpu in self.cores().each.keys() {
            let server = [FAIR_SERVER, FAIR_SERVER_PERIOD].map(|setting| setting.path_of(&[cpu]));
            files.extend(server.into_iter().filter(|file| self.told(file) != Known::Absent));
        }
        files
    }
}

/// Returns the part of a file that may leave the machine; `None` if this function does not filter the file.
pub(super) fn without_what_is_private(path: &str, content: &str) -> Option<String> {
    let only = |beginnings: &[&str]| {
        let kept = content.lines().filter(|line| beginnings.iter().any(|beginning| line.starts_with(beginning)));
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    match path {
        STAT => Some(only(&["cpu"])),
        STATUS => Some(only(&["CapEff:"])),
        LIMITS => Some(only(&["Max locked memory", "Max realtime priority", "Max realtime timeout"])),
        // The path of a swap area may contain private names.
        SWAPS => {
            let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            Some(lines.map(|(number, _)| if number == 0 { "Filename\tType\n" } else { "swap\n" }).collect())
        }
        _ => None,
    }
}

fn between(text: &str, before: char, after: char) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    let (word, _) = rest.split_once(after)?;
    Some(word.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{SWAPS, between, without_what_is_private};
    use crate::settings::{HUGE_PAGES, PREEMPTION, SAME_PAGES, WORKERS};

    #[test]
    fn a_value_is_the_marked_word_and_a_mask_without_padding() {
        let preemption = |line| PREEMPTION.form.value_of(line);
        assert_eq!(preemption("none voluntary (full) lazy").as_deref(), Some("full"));
        let huge_pages = |line| HUGE_PAGES.form.value_of(line);
        assert_eq!(huge_pages("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!((huge_pages("never").as_deref(), huge_pages("always madvise")), (Some("never"), None));
        let workers = |line| WORKERS.form.value_of(line);
        assert_eq!((workers("00f").as_deref(), workers("f").as_deref()), (Some("f"), Some("f")));
        assert_eq!((workers("00000001,00000002").as_deref(), workers("x")), (Some("1,00000002"), None));
        assert_eq!(SAME_PAGES.form.value_of("[1]").as_deref(), Some("[1]"));
    }

    #[test]
    fn a_capture_shows_that_swap_exists_but_not_its_location() {
        let text = "Filename\tType\n/home/alice/swap file 1 2 3\n/dev/zram0 partition\n";
        assert_eq!(without_what_is_private(SWAPS, text).as_deref(), Some("Filename\tType\nswap\nswap\n"));
        let status = "Name:\tshell of alice\nCapEff:\t00000000a80425fb\nUid:\t1000\n";
        assert_eq!(
            without_what_is_private("/proc/thread-self/status", status).as_deref(),
            Some("CapEff:\t00000000a80425fb\n")
        );
        assert_eq!(without_what_is_private("/proc/cpuinfo", status), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in any::<String>()) {
            let _ = between(&text, '(', ')');
            let _ = without_what_is_private(SWAPS, &text);
        }
    }
}
