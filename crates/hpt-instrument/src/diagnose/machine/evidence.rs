//! The evidence of each rule: the files that it examines, with their values.

use std::collections::BTreeMap;

use hpt_sys::{
    host::{Cores, CpuList, Host, IDLE_DRIVER, Known, LogLine},
    settings::{self, NO_TURBO, SystemSetting},
};

/// A value that a rule examined.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// The file, or the system call with the section of its manual page.
    pub file: String,
    /// The CPUs whose files have this value; `file` is that of the first one. `None` if the file is not that of a CPU.
    pub cpus: Option<CpuList>,
    /// The value on one line, at most 200 characters, or the reason why the file is not readable.
    pub value: String,
}

/// The value of a file that this user may not read.
const NOT_READABLE: &str = "not readable by this user";

impl Evidence {
    pub(super) fn is_seen(&self) -> bool {
        self.value != NOT_READABLE
    }
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The settings of which the rule judges the values.
    Settings,
    /// A file, of which only the lines that start with this text count.
    Lines(&'static str, &'static str),
    /// A file of each CPU, below its directory.
    OfEachCpu(&'static str),
    /// A file of each idle state of each CPU.
    OfEachIdleState(&'static str),
    /// A file of each device in a directory.
    OfEach(&'static str, &'static str),
}

use Place::{Lines, OfEach, OfEachCpu, OfEachIdleState, Settings};

const fn file(path: &'static str) -> Place {
    Lines(path, "")
}

const AVAILABLE: Place = file("/sys/devices/system/clocksource/clocksource0/available_clocksource");
const CURRENT_CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const ONLINE: Place = file("/sys/devices/system/cpu/online");
const COMMAND_LINE: Place = file("/proc/cmdline");
const LIMITS: &str = "/proc/thread-self/limits";
const CAPABILITIES: Place = Lines("/proc/thread-self/status", "CapEff:");
const ZONES: &str = "/sys/class/thermal";

/// The files that each rule examines, if they are not only its settings.
const PLACES: [(&str, &[Place]); 23] = [
    ("clock-source", &[Settings, AVAILABLE, Lines("/dev/kmsg", "TSC")]),
    ("coarse-clock", &[file(CURRENT_CLOCKSOURCE)]),
    ("right-to-realtime", &[CAPABILITIES, Lines(LIMITS, "Max realtime priority")]),
    ("right-to-lock-memory", &[CAPABILITIES, Lines(LIMITS, "Max locked memory")]),
    ("realtime-timeout", &[Lines(LIMITS, "Max realtime timeout")]),
    ("isolated-cpus", &[ONLINE, Settings, file("/sys/devices/system/cpu/offline")]),
    ("parameters-ignored", &[COMMAND_LINE, Settings]),
    ("tick", &[Settings, COMMAND_LINE]),
    ("rcu-callbacks", &[COMMAND_LINE]),
    ("smt-sibling", &[OfEachCpu("topology/thread_siblings_list")]),
    ("governor", &[Settings, OfEachCpu("cpufreq/scaling_driver")]),
    (
        "frequency-limit",
        &[Settings, OfEachCpu("cpufreq/cpuinfo_max_freq"), OfEachCpu("cpufreq/base_frequency"), file(NO_TURBO.path)],
    ),
    ("idle-states", &[OfEachIdleState("latency"), file(IDLE_DRIVER), COMMAND_LINE]),
    ("slowed-down", &[OfEachCpu("thermal_throttle/core_throttle_count")]),
    ("swap", &[file("/proc/swaps")]),
    ("moved-pages", &[Settings, file("/sys/devices/system/node/online")]),
    ("stolen-time", &[Lines("/proc/stat", "cpu ")]),
    (
        "virtual-machine",
        &[
            file("/sys/hypervisor/type"),
            Lines("/proc/sysinfo", "VM00 Control Program"),
            file("/proc/device-tree/hypervisor/compatible"),
            file("/sys/class/dmi/id/sys_vendor"),
            file("/sys/class/dmi/id/product_name"),
            AVAILABLE,
            Lines("/proc/stat", "cpu "),
        ],
    ),
    ("under-voltage", &[OfEach("/sys/bus/platform/drivers/raspberrypi-firmware", "get_throttled")]),
    ("held-back", &[OfEach("/sys/bus/platform/drivers/raspberrypi-firmware", "get_throttled")]),
    ("temperature", &[OfEach(ZONES, "temp"), OfEach(ZONES, "trip_point_0_type"), OfEach(ZONES, "trip_point_0_temp")]),
    ("perf-paranoid", &[Settings, CAPABILITIES]),
    ("timer-erratum", &[Lines("/dev/kmsg", "arch_timer: ")]),
];

/// Words of the lines of the kernel log with which it gives a counter up.
const DOUBTS: [&str; 4] = ["unstable", "warp", "skew", "Trapping"];

/// Reads the evidence of each rule.
pub(super) fn collect(host: &Host, cores: &Cores) -> BTreeMap<&'static str, Vec<Evidence>> {
    let with_settings = settings::ALL.iter().flat_map(|setting| setting.rules).map(|&rule| (rule, &[Settings][..]));
    let places: BTreeMap<&str, &[Place]> = with_settings.chain(PLACES).collect();
    let of = |rule, places: &[Place]| places.iter().flat_map(|place| place.read(rule, host, cores)).collect();
    places.into_iter().map(|(rule, places)| (rule, of(rule, places))).collect()
}

/// Reads the values of a setting.
fn values_of(setting: &SystemSetting, host: &Host, cores: &Cores) -> Vec<Evidence> {
    if let Some((folder, name)) = setting.path.split_once("/*/") {
        OfEach(folder, name).read("", host, cores)
    } else if setting.is_of_the_machine() {
        file(setting.path).read("", host, cores)
    } else {
        grouped(host, cores.each.keys().map(|&cpu| (cpu, setting.path_of(&[cpu]))))
    }
}

impl Place {
    fn read(self, rule: &str, host: &Host, cores: &Cores) -> Vec<Evidence> {
        let cpus = || cores.each.keys().copied();
        match self {
            Settings => {
                let of_rule = settings::ALL.iter().filter(|setting| setting.rules.contains(&rule));
                of_rule.flat_map(|setting| values_of(setting, host, cores)).collect()
            }
            Lines("/dev/kmsg", words) => {
                let lines = host.kernel_log().map(|log| log.lines).unwrap_or_default().into_iter();
                let stated = lines
                    .filter(|line| line.text.contains(words) && DOUBTS.iter().any(|doubt| line.text.contains(doubt)));
                let evidence = |line: LogLine| Evidence {
                    file: "/dev/kmsg".to_owned(),
                    cpus: None,
                    value: on_one_line(&line.text),
                };
                stated.map(evidence).collect()
            }
            Lines(path, beginning) => value(host, path, beginning)
                .map(|value| Evidence { file: path.to_owned(), cpus: None, value })
                .into_iter()
                .collect(),
            OfEachCpu(name) => {
                grouped(host, cpus().map(|cpu| (cpu, format!("/sys/devices/system/cpu/cpu{cpu}/{name}"))))
            }
            OfEachIdleState(name) => {
                let folder = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
                let states = cpus().flat_map(|cpu| host.list(&folder(cpu)).into_iter().map(move |state| (cpu, state)));
                grouped(host, states.map(|(cpu, state)| (cpu, format!("{}/{state}/{name}", folder(cpu)))))
            }
            OfEach(folder, name) => {
                let paths = host.list(folder).into_iter().map(|device| format!("{folder}/{device}/{name}"));
                paths.filter_map(|file| Some(Evidence { value: value(host, &file, "")?, cpus: None, file })).collect()
            }
        }
    }
}

/// Returns the files of CPUs, those with the same value together.
fn grouped(host: &Host, files: impl Iterator<Item = (usize, String)>) -> Vec<Evidence> {
    let mut groups: Vec<(String, String, Vec<usize>)> = Vec::new();
    for (cpu, file) in files {
        let Some(value) = value(host, &file, "") else { continue };
        match groups.iter_mut().find(|(_, known, _)| *known == value) {
            Some((.., cpus)) => cpus.push(cpu),
            None => groups.push((file, value, vec![cpu])),
        }
    }
    let evidence = |(file, value, cpus): (String, String, Vec<usize>)| Evidence {
        file,
        cpus: Some(cpus.into_iter().collect()),
        value,
    };
    groups.into_iter().map(evidence).collect()
}

/// Returns the value in a file; `None` if the file does not exist, or has no such line.
fn value(host: &Host, path: &str, beginning: &str) -> Option<String> {
    match host.told(path) {
        Known::Is(text) if text.trim().is_empty() => beginning.is_empty().then(|| "empty".to_owned()),
        Known::Is(text) => {
            let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(beginning)).collect();
            (!lines.is_empty()).then(|| on_one_line(&lines.join("; ")))
        }
        Known::NotAllowed => Some(NOT_READABLE.to_owned()),
        Known::Absent | Known::Garbled => None,
    }
}

pub(super) fn on_one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|letter: char| letter.is_control() || letter == ' ').filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(200).collect()
}
