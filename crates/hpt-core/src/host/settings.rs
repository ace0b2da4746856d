//! Settings and conditions of the machine that affect latency: throttling, preemption, memory, watchdogs, the power
//! supply of a board, and steal time. This module does not change settings.

use super::{Host, Told};

/// The time that all real-time threads together may use in each period. Linux,
/// Documentation/scheduler/sched-rt-group.rst.
pub(crate) const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
pub(crate) const RT_PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";
/// The time that each CPU reserves for ordinary threads, since Linux 6.12. Linux 6.12, kernel/sched/debug.c.
pub(crate) const FAIR_SERVER: &str = "/sys/kernel/debug/sched/fair_server";
/// Files about CPU frequencies. Linux, Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst.
pub(crate) const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
pub(crate) const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
pub(super) const STAT: &str = "/proc/stat";
const REALTIME: &str = "/sys/kernel/realtime";
const PREEMPT: &str = "/sys/kernel/debug/sched/preempt";
const CONFIGURATION: &str = "/boot/config-";
const SWAPS: &str = "/proc/swaps";
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SAME_PAGES: &str = "/sys/kernel/mm/ksm/run";
const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const NMI_WATCHDOG: &str = "/proc/sys/kernel/nmi_watchdog";
/// The driver of idle states. Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
pub(crate) const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
const TIMER_MIGRATION: &str = "/proc/sys/kernel/timer_migration";
const STATUS: &str = "/proc/thread-self/status";
const LIMITS: &str = "/proc/thread-self/limits";
/// The driver for the firmware of a Raspberry Pi: raspberrypi/linux, drivers/firmware/raspberrypi.c. Without its file,
/// the voltage alarm is read: Linux, drivers/hwmon/raspberrypi-hwmon.c.
const FIRMWARE: &str = "/sys/bus/platform/drivers/raspberrypi-firmware";
const GET_THROTTLED: &str = "get_throttled";
const MONITORS: &str = "/sys/class/hwmon";
const ALARM: &str = "in0_lcrit_alarm";
const ZONES: &str = "/sys/class/thermal";

/// Files with the same path on every machine.
const FILES: [&str; 18] = [
    IDLE_DRIVER,
    RT_RUNTIME,
    RT_PERIOD,
    NO_TURBO,
    BOOST,
    STAT,
    REALTIME,
    PREEMPT,
    SWAPS,
    HUGE_PAGES,
    SAME_PAGES,
    NUMA_BALANCING,
    NMI_WATCHDOG,
    TIMER_MIGRATION,
    STATUS,
    LIMITS,
    "/sys/devices/system/node/online",
    "/sys/devices/system/cpu/smt/active",
];

/// CPU time since boot, in kernel ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stolen {
    /// The time during which the hypervisor ran other guests although this machine had work.
    pub(crate) stolen: u64,
    /// The total CPU time.
    pub(crate) all: u64,
}

/// The report from a Raspberry Pi's firmware about under-voltage and throttling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// All flags, as `vcgencmd get_throttled` prints them.
    Flags(u32),
    /// Only whether the voltage is too low.
    TooLow(bool),
}

/// A temperature and its limits, in thousandths of a degree Celsius.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) name: String,
    pub(crate) millidegrees: i64,
    /// The temperature at which the kernel starts to throttle the processor.
    pub(crate) slowed_from: Option<i64>,
    /// The temperature at which the kernel shuts the machine down.
    pub(crate) off_from: Option<i64>,
}

impl Host {
    /// Returns the first word of a file as an integer.
    pub(crate) fn number_in(&self, path: &str) -> Told<i64> {
        self.told(path).parsed(|text| text.split_whitespace().next()?.parse().ok())
    }

    /// Returns whether `/sys/kernel/realtime` states that this is a real-time kernel. The file exists only in kernels
    /// with the PREEMPT_RT patches.
    pub(crate) fn says_realtime(&self) -> Told<bool> {
        self.number_in(REALTIME).parsed(|value| Some(value == 1))
    }

    /// Returns the active preemption model, which is the word in parentheses. Only kernels that can change the model at
    /// run time report it.
    pub(crate) fn preemption_in_force(&self) -> Told<String> {
        self.told(PREEMPT).parsed(|text| between(&text, '(', ')'))
    }

    /// Returns the preemption model for which the kernel was built, as `preempt=` names it; `None` if the file with the
    /// kernel's configuration does not exist or is not readable.
    pub(crate) fn preemption_built_with(&self) -> Option<String> {
        let configuration = self.text(&self.kernel_configuration())?;
        let is_set = |name: &str| configuration.lines().any(|line| line == format!("CONFIG_{name}=y"));
        let models = [
            ("PREEMPT_NONE", "none"),
            ("PREEMPT_VOLUNTARY", "voluntary"),
            ("PREEMPT", "full"),
            ("PREEMPT_LAZY", "lazy"),
        ];
        models.into_iter().find(|(name, _)| is_set(name)).map(|(_, model)| model.to_owned())
    }

    /// Returns the path of the configuration of the running kernel.
    fn kernel_configuration(&self) -> String {
        format!("{CONFIGURATION}{}", self.facts().kernel_release)
    }

    /// Returns the setting for transparent huge pages: `always`, `madvise` or `never`.
    pub(crate) fn huge_pages(&self) -> Told<String> {
        self.told(HUGE_PAGES).parsed(|text| between(&text, '[', ']'))
    }

    /// Returns whether a kernel thread merges identical pages.
    pub(crate) fn merges_pages(&self) -> Told<bool> {
        self.number_in(SAME_PAGES).parsed(|value| Some(value == 1))
    }

    /// Returns whether the kernel moves pages to the NUMA node that uses them.
    pub(crate) fn moves_pages(&self) -> Told<bool> {
        self.number_in(NUMA_BALANCING).parsed(|value| Some(value > 0))
    }

    pub(crate) fn nmi_watchdog(&self) -> Told<bool> {
        self.number_in(NMI_WATCHDOG).parsed(|value| Some(value > 0))
    }

    /// Returns whether timers of idle CPUs may expire on other CPUs.
    pub(crate) fn timer_migration(&self) -> Told<bool> {
        self.number_in(TIMER_MIGRATION).parsed(|value| Some(value > 0))
    }

    /// Returns the number of swap areas.
    pub(crate) fn swaps(&self) -> Told<usize> {
        self.told(SWAPS).parsed(|text| Some(text.lines().skip(1).filter(|line| !line.trim().is_empty()).count()))
    }

    /// Returns the total steal time and the total CPU time of all CPUs. proc_stat(5).
    pub(crate) fn stolen(&self) -> Told<Stolen> {
        self.told(STAT).parsed(|text| stolen(&text))
    }

    /// Returns the firmware's report about the power supply of a Raspberry Pi; `None` on other machines.
    pub(crate) fn supply(&self) -> Option<Supply> {
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
    pub(crate) fn temperatures(&self) -> Vec<Zone> {
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
        files.push(self.kernel_configuration());
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
            files.extend(of_this.filter(|file| self.told(file) != Told::Absent));
        }
        for cpu in self.cores().each.keys() {
            let server = ["runtime", "period"].map(|name| format!("{FAIR_SERVER}/cpu{cpu}/{name}"));
            files.extend(server.into_iter().filter(|file| self.told(file) != Told::Absent));
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
        _ if path.starts_with(CONFIGURATION) => Some(only(&["CONFIG_PREEMPT"])),
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

/// Parses `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Guest time is included in user time.
fn stolen(stat: &str) -> Option<Stolen> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).take(8).collect();
    let all = ticks.iter().fold(0_u64, |sum, &ticks| sum.saturating_add(ticks));
    Some(Stolen { stolen: *ticks.get(7)?, all })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{SWAPS, Stolen, between, stolen, without_what_is_private};

    #[test]
    fn steal_time_is_the_eighth_number() {
        let told = stolen("cpu  10 20 30 40 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8\n");
        assert_eq!(told, Some(Stolen { stolen: 8, all: 126 }));
        assert_eq!((stolen(""), stolen("cpu  1 2 3\n")), (None, None));
    }

    #[test]
    fn the_active_word_is_in_brackets() {
        assert_eq!(between("none voluntary (full) lazy", '(', ')').as_deref(), Some("full"));
        assert_eq!(between("always [madvise] never", '[', ']').as_deref(), Some("madvise"));
        assert_eq!(between("always", '[', ']'), None);
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
            let _ = (stolen(&format!("cpu {text}")), between(&text, '(', ')'));
            let _ = without_what_is_private(SWAPS, &text);
        }
    }
}
