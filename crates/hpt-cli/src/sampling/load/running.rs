//! A load that is running: it starts the processes, and ends them. The processes generate the load.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use hpt_core::Host;
use hpt_document::load::{Load, LoadKind};
use hpt_sys::host::CpuList;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{
    space::{folder, free_memory, free_space, per_worker},
    worker::{READY, Task, command, command_of},
};
use crate::exit::Failure;

const STRESS_NG: &str = "stress-ng";
/// The time for which stress-ng starts its processes, after it has blocked for the first time and before the measurement
/// begins.
const SETTLES: Duration = Duration::from_secs(1);
/// The longest time that stress-ng needs to start, and to remove its files at the end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(20);
/// The rate of the timers of stress-ng, in hertz. Its default of 1 MHz leaves no time for other threads.
const TIMER_HZ: u32 = 10_000;

/// A load that is running. Dropping it ends its processes.
#[derive(Debug)]
pub(super) struct RunningLoad {
    host: Host,
    load: Load,
    processes: Vec<Process>,
}

/// A process that leads a process group of its own.
#[derive(Debug)]
struct Process {
    what: String,
    child: Child,
    /// The signal that ends it. stress-ng cleans up after SIGTERM.
    signal: Signal,
}

/// The limits of a load.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    memory: Option<u64>,
    disk: Option<u64>,
}

impl Space {
    /// Returns the limits of a load of these kinds with this number of workers per kind. Fails if too little is free.
    fn of(host: &Host, kinds: &[LoadKind], workers: u64, folder: &Path) -> Result<Self, Failure> {
        let bytes = |kind: LoadKind, free: Option<u64>, what: &str| {
            if !kinds.contains(&kind) {
                return Ok(None);
            }
            let failed = |why| Failure::Load(format!("{why}; omit {}", kind.name()));
            let free = free.ok_or_else(|| failed(format!("hpt cannot read how much {what} is free")))?;
            let least = || failed(format!("less than {workers} × 4 MiB of {what} is free"));
            per_worker(free, workers).map(Some).ok_or_else(least)
        };
        let memory = free_memory(host);
        Ok(Self {
            memory: bytes(LoadKind::Memory, memory, "memory")?,
            disk: bytes(LoadKind::Disk, free_space(folder, memory), "disk space")?,
        })
    }
}

/// Fails if a load of these kinds on these CPUs cannot have the memory or the disk space that it needs.
pub(super) fn check_space(host: &Host, kinds: &[LoadKind], cpus: &[usize]) -> Result<(), Failure> {
    Space::of(host, kinds, cpus.len() as u64, &folder()).map(drop)
}

impl RunningLoad {
    /// Starts a load of these kinds on these CPUs, and returns when it is running.
    pub(super) fn start(host: &Host, kinds: &[LoadKind], cpus: &[usize]) -> Result<Self, Failure> {
        let folder = folder();
        let workers = cpus.len() as u64;
        let space = Space::of(host, kinds, workers, &folder)?;
        let version = version_of_stress_ng();
        let mut running = Self {
            host: host.clone(),
            load: Load {
                kinds: kinds.to_vec(),
                program: if version.is_some() { STRESS_NG } else { "hpt" }.to_owned(),
                version: version.clone().unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
                cpus: cpus.to_vec(),
                processes: workers * kinds.len() as u64,
                memory_bytes: space.memory.map(|bytes| bytes * workers),
                disk_bytes: space.disk.map(|bytes| bytes * workers),
                disk_directory: space.disk.map(|_| folder.display().to_string()),
                loadavg_before: loadavg(host),
                loadavg_after: None,
            },
            processes: Vec::new(),
        };
        if version.is_some() {
            let mut command = command_of(STRESS_NG);
            command.args(arguments_of_stress_ng(kinds, cpus, space, &folder.display().to_string()));
            running.start_process(STRESS_NG.to_owned(), Signal::TERM, command.stdout(Stdio::null()))?;
            running.wait_for_program()?;
            crate::pause::pause(SETTLES);
            running.check()?;
        } else {
            for (&kind, &cpu) in kinds.iter().flat_map(|kind| cpus.iter().map(move |cpu| (kind, cpu))) {
                let bytes = if kind == LoadKind::Memory { space.memory } else { space.disk };
                let task = Task { kind, cpu, bytes: bytes.unwrap_or(0), folder: folder.clone() };
                let what = format!("{} on CPU {cpu}", kind.name());
                running.start_process(what, Signal::KILL, command(&task).stdout(Stdio::piped()))?;
                running.wait_for_last()?;
            }
        }
        Ok(running)
    }

    fn start_process(&mut self, what: String, signal: Signal, command: &mut Command) -> Result<(), Failure> {
        // Ctrl-C on a terminal reaches only hpt, which then ends the load.
        let command = command.process_group(0).stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|cause| Failure::Load(format!("{what}: {cause}")))?;
        self.processes.push(Process { what, child, signal });
        Ok(())
    }

    /// Waits until the newest process runs the program that hpt replaces itself with, and that program blocks: it waits
    /// for the processes that it has started. On a busy machine, this can take seconds.
    fn wait_for_program(&mut self) -> Result<(), Failure> {
        let Some(process) = self.processes.last_mut() else { return Ok(()) };
        let folder = format!("/proc/{}", process.child.id());
        let own = fs::read_link("/proc/self/exe").ok();
        let begun = Instant::now();
        let blocks = || {
            let is_replaced = fs::read_link(format!("{folder}/exe")).is_ok_and(|exe| own.as_ref() != Some(&exe));
            let stat = fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
            is_replaced && stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
        };
        while !blocks() && !process.has_ended() && begun.elapsed() < PATIENCE {
            crate::pause::pause(LOOK);
        }
        self.check()
    }

    /// Waits until the newest process says that its load is running.
    fn wait_for_last(&mut self) -> Result<(), Failure> {
        let Some(Process { what, child, .. }) = self.processes.last_mut() else { return Ok(()) };
        let mut line = String::new();
        let read = child.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut line));
        match (read, line.trim_end()) {
            (Some(Ok(_)), READY) => Ok(()),
            (_, "") => Err(Failure::Load(format!("{what}: the process ended"))),
            (_, why) => Err(Failure::Load(format!("{what}: {why}"))),
        }
    }

    /// Fails if a process has ended.
    fn check(&mut self) -> Result<(), Failure> {
        let mut processes = self.processes.iter_mut();
        let ended = processes.find_map(|process| process.has_ended().then_some(&process.what));
        ended.map_or(Ok(()), |what| Err(Failure::Load(format!("{what} ended at once"))))
    }

    /// Ends the load. Returns its description, and a note if a part of it has ended early.
    pub(super) fn end(mut self) -> (Load, Vec<String>) {
        let ended = self.processes.iter_mut().filter_map(|process| process.has_ended().then(|| process.what.clone()));
        let notes: Vec<String> = ended
            .map(|what| format!("a load ended before the measurement did: {what}; the load was lower than requested"))
            .collect();
        self.load.loadavg_after = loadavg(&self.host);
        (std::mem::take(&mut self.load), notes)
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.processes.iter().for_each(|process| process.send(process.signal));
        let begun = Instant::now();
        for process in &mut self.processes {
            while process.signal != Signal::KILL && begun.elapsed() < PATIENCE && !process.has_ended() {
                crate::pause::pause(LOOK);
            }
            process.send(Signal::KILL);
            let _ = process.child.wait();
        }
    }
}

impl Process {
    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the process and to the processes that it has started.
    fn send(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Returns the version of stress-ng, or `None` if it is not installed.
fn version_of_stress_ng() -> Option<String> {
    let output = Command::new(STRESS_NG).arg("--version").stdin(Stdio::null()).output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout)).filter(|_| output.status.success())
}

/// Returns the version in `stress-ng, version 0.15.06 (gcc …)`.
fn version_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("version ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn arguments_of_stress_ng(kinds: &[LoadKind], cpus: &[usize], space: Space, folder: &str) -> Vec<String> {
    // stress-ng divides the size among its workers.
    let total = |bytes: Option<u64>| (bytes.unwrap_or(0) * cpus.len() as u64).to_string();
    let (memory, disk, workers) = (total(space.memory), total(space.disk), cpus.len().to_string());
    let cpus = cpus.iter().copied().collect::<CpuList>().to_string();
    let mut arguments: Vec<String> =
        ["--quiet", "--oomable", "--timeout", "0", "--taskset", &cpus].map(str::to_owned).to_vec();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
    for kind in kinds {
        match kind {
            LoadKind::Cpu => add(&["--cpu", &workers]),
            LoadKind::Memory => add(&["--vm", &workers, "--vm-bytes", &memory]),
            LoadKind::Fork => add(&["--fork", &workers]),
            LoadKind::Disk => add(&["--hdd", &workers, "--hdd-bytes", &disk, "--temp-path", folder]),
            LoadKind::Timers => add(&["--timer", &workers, "--timer-freq", &TIMER_HZ.to_string()]),
        }
    }
    arguments
}

/// Returns the load average over one minute. proc_loadavg(5).
fn loadavg(host: &Host) -> Option<f64> {
    let text = String::from_utf8(host.read("/proc/loadavg").ok()?).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use hpt_core::Host;
    use hpt_sys::host::{Capture, Entry, Facts};

    use super::{LoadKind, Space, arguments_of_stress_ng, version_in};

    #[test]
    fn stress_ng_gets_the_kinds_the_cpus_and_the_limits() {
        let space = Space { memory: Some(4096), disk: Some(8192) };
        let of = |kinds: &[LoadKind]| arguments_of_stress_ng(kinds, &[0, 2, 3], space, "/var/tmp").join(" ");
        let common = "--quiet --oomable --timeout 0 --taskset 0,2-3";
        assert_eq!(of(&[LoadKind::Cpu, LoadKind::Fork]), format!("{common} --cpu 3 --fork 3"));
        assert_eq!(
            of(&[LoadKind::Memory, LoadKind::Timers]),
            format!("{common} --vm 3 --vm-bytes 12288 --timer 3 --timer-freq 10000")
        );
        assert_eq!(of(&[LoadKind::Disk]), format!("{common} --hdd 3 --hdd-bytes 24576 --temp-path /var/tmp"));
    }

    #[test]
    fn too_little_space_and_unknown_space_are_refused_with_the_reason() {
        let why = |meminfo: &[u8]| {
            let mut capture = Capture::default();
            capture.insert("proc/meminfo", Entry::File(meminfo.to_vec())).expect("a sound path");
            let host = Host::captured(capture, Facts::live());
            Space::of(&host, &[LoadKind::Memory], 2, "/".as_ref()).map(|_| ()).map_err(|failure| failure.text())
        };
        assert!(why(b"MemAvailable: 1048576 kB\n").is_ok());
        let error = why(b"MemAvailable: 1 kB\n").expect_err("1 KiB is free");
        assert_eq!(error, "cannot start the load: less than 2 × 4 MiB of memory is free; omit memory");
        let error = why(b"").expect_err("nothing is known");
        assert_eq!(error, "cannot start the load: hpt cannot read how much memory is free; omit memory");
    }

    #[test]
    fn the_version_is_the_word_after_version() {
        assert_eq!(version_in("stress-ng, version 0.15.06 (gcc 12.2, x86_64)\n").as_deref(), Some("0.15.06"));
        assert_eq!(version_in("sh: not found"), None);
    }
}
