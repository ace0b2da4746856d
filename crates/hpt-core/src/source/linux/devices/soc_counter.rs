//! The counters of ARM systems on a chip that have no generic timer. The kinds and their registers are rows of one table,
//! `hpt_sys::host::SOC_COUNTERS`; this module opens whatever the table and the device tree describe.

use std::{path::PathBuf, time::Duration};

use hpt_sys::{
    arch::Barrier,
    host::{Architecture, Gate, Host, Layout, Region, SOC_COUNTERS, SocCounter, SocCounterNode, Words},
    mmio::{Registers, Window},
    process,
    trial::{Attempt, attempt_in_child},
    units::{Frequency, Width},
};

use super::{page, split_counter::read_split_counter, tested};
use crate::source::{
    Backend, KernelVerdict, Nominal, Opened, PosixClock, PosixId, ProbeReport, RateKind, ReadPath, SelfTestError,
    SourceError, SourceId, SourceInfo, StatedBy, TimeSource,
};

/// The time within which a counter must move to be chosen from several. The slowest counter has 32 768 Hz.
const MOVES_WITHIN_NS: u64 = 2_000_000;
/// The driver of frequency scaling, if there is one. Linux, Documentation/admin-guide/pm/cpufreq.rst.
const SCALING_DRIVER: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver";
/// The node of the snoop control unit of a Cortex-A9 or A5, which has the global timer 0x200 bytes behind its start.
const SNOOP_CONTROL: [&str; 2] = ["arm,cortex-a9-scu", "arm,cortex-a5-scu"];

/// A counter. Tests can replace its registers with a script.
///
/// # Ordering
///
/// [`ticks`](TimeSource::ticks) reads the registers in program order of the loads, but the processor may execute the
/// loads earlier or later. [`ticks_start`](TimeSource::ticks_start) first waits until all preceding instructions have
/// completed. [`ticks_end`](TimeSource::ticks_end) also waits until the read itself has completed.
#[derive(Debug)]
struct Counter<R> {
    registers: R,
    words: Words,
    barrier: Barrier,
    info: SourceInfo,
}

impl<R: Registers + std::fmt::Debug> TimeSource for Counter<R> {
    #[inline]
    fn ticks(&self) -> u64 {
        match self.words {
            Words::Up(offset) => self.registers.read_u32(offset).into(),
            // The highest value becomes zero, so that the counter counts up and wraps at the same moment.
            Words::Down(offset) => (!self.registers.read_u32(offset)).into(),
            Words::Split { low, high } => read_split_counter(&self.registers, low, high),
        }
    }

    #[inline]
    fn ticks_start(&self) -> u64 {
        self.barrier.wait();
        self.ticks()
    }

    #[inline]
    fn ticks_end(&self) -> u64 {
        let ticks = self.ticks_start();
        self.barrier.wait();
        ticks
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

impl<R: Registers + std::fmt::Debug> Counter<R> {
    /// Returns the counter in the first layout whose conditions the registers meet.
    fn of(registers: R, layouts: &[Layout], info: SourceInfo) -> Result<Self, SourceError> {
        let holds = |layout: &&Layout| {
            layout.when.iter().all(|word| (registers.read_u32(word.offset) & word.mask == word.value) == word.equal)
        };
        match layouts.iter().find(holds) {
            Some(&Layout { words, .. }) => {
                Ok(Self { registers, words, barrier: Barrier::detect(process::platform().as_deref()), info })
            }
            None => Err(SourceError::NotOffered {
                evidence: "according to its registers, the timer does not count through all of its bits; it is off, or it makes ticks".to_owned(),
                remedy: None,
            }),
        }
    }

    /// Returns an error if the counter stands still for `MOVES_WITHIN_NS` of `clock`.
    fn moves(&self, clock: &dyn TimeSource) -> Result<(), SourceError> {
        let (at_ticks, start_ns) = (self.ticks(), clock.ticks());
        while clock.ticks().wrapping_sub(start_ns) < MOVES_WITHIN_NS {
            if self.ticks() != at_ticks {
                return Ok(());
            }
        }
        let watched = Duration::from_nanos(MOVES_WITHIN_NS);
        Err(SourceError::SelfTest(SelfTestError::StandsStill { at_ticks, watched }))
    }
}

/// Returns the nodes of this kind, or the reason why there are none. Uses only the files and facts of the host.
fn nodes(host: &Host, kind: &SocCounter) -> Result<Vec<SocCounterNode>, SourceError> {
    let have = host.facts().architecture;
    if have != Architecture::Arm {
        return Err(SourceError::OtherArchitecture { have });
    }
    let nodes: Vec<_> = host.soc_counters().into_iter().filter(|found| found.kind.id == kind.id).collect();
    if nodes.is_empty() { Err(SourceError::NoDevice { evidence: without_node(host, kind) }) } else { Ok(nodes) }
}

fn without_node(host: &Host, kind: &SocCounter) -> String {
    let missing = format!("the device tree has no enabled {}", kind.compatible.join(" or "));
    let scu = SNOOP_CONTROL.iter().find_map(|name| host.device_node(name)).and_then(|node| node.registers);
    match scu {
        Some(Region { address, .. }) if kind.gate == Gate::FollowsCpu => format!(
            "{missing}; the snoop control unit at {address:#x} shows that the processor has one at {:#x}, which a node would describe",
            address.saturating_add(0x200)
        ),
        _ => missing,
    }
}

/// Returns the registers of a node, or the reason why they cannot be those of this kind of counter.
fn registers(found: &SocCounterNode) -> Result<Region, SourceError> {
    let no_device = |evidence| SourceError::NoDevice { evidence };
    let path = &found.node.path;
    let Some(registers) = found.node.registers else {
        return Err(no_device(format!("device tree: the address of the registers of {path} is unknown")));
    };
    if registers.address % 4 != 0 || layouts(found.kind, registers).next().is_none() {
        return Err(no_device(format!(
            "device tree: {} bytes at {:#x} cannot be the registers of {path}",
            registers.length, registers.address
        )));
    }
    Ok(registers)
}

/// Returns the layouts that fit into a block of registers.
fn layouts(kind: &SocCounter, registers: Region) -> impl Iterator<Item = Layout> {
    let fits = move |layout: &&Layout| u64::try_from(layout.length()).is_ok_and(|length| length <= registers.length);
    kind.layouts.iter().filter(fits).copied()
}

fn info(host: &Host, found: &SocCounterNode) -> SourceInfo {
    let SocCounter { id, defined_hz, counts_in_suspend, gate, .. } = *found.kind;
    let mut info = SourceInfo::new(SourceId::new(id)).with_read_path(ReadPath::Mmio);
    let nominal = |hz: Option<u32>, stated_by| {
        let frequency = hz.and_then(|hz| Frequency::from_hertz(hz.into()));
        frequency.map(|frequency| Nominal { frequency, stated_by })
    };
    info.nominal = nominal(defined_hz, StatedBy::Definition).or(nominal(found.stated_hz, StatedBy::DeviceTree));
    if !found.kind.layouts.iter().any(|layout| matches!(layout.words, Words::Split { .. })) {
        info.width = Width::BITS_32;
    }
    let follows = gate == Gate::FollowsCpu && host.text(SCALING_DRIVER).is_some();
    info.rate = if follows { RateKind::Variable } else { RateKind::Constant };
    // The AM43xx turns this counter off in suspend. Linux, drivers/clocksource/timer-ti-32k.c.
    let is_am43 = || host.text("/proc/device-tree/compatible").is_some_and(|names| names.contains("ti,am43"));
    info.counts_in_suspend = counts_in_suspend.filter(|_| !is_am43());
    info.revocable =
        gate == Gate::PowerManaged && host.clock_sources().current.as_deref() != Some(found.kind.clock_source);
    info
}

/// Opens the counter of one node. Also returns the path of the mapped file.
fn open_node(host: &Host, found: &SocCounterNode) -> Result<(Counter<Window>, PathBuf), SourceError> {
    let whole = registers(found)?;
    let layouts: Vec<Layout> = layouts(found.kind, whole).collect();
    let length = layouts.iter().map(Layout::length).max().unwrap_or(0);
    let region = Region { length: u64::try_from(length).expect("a few bytes"), ..whole };
    let map = if found.kind.other_registers.is_some() { page::map_as_root } else { page::map };
    let (window, path) = map(host, region)?;
    let words = |layout: &Layout| match layout.words {
        Words::Up(word) | Words::Down(word) => [word; 2],
        Words::Split { low, high } => [low, high],
    };
    let offsets: Vec<usize> =
        layouts.iter().flat_map(|layout| layout.when.iter().map(|word| word.offset).chain(words(layout))).collect();
    // A load from a device whose clock is off is a bus error, which no file announces.
    let attempt = attempt_in_child(|| {
        for &offset in &offsets {
            window.read_u32(offset);
        }
    });
    match attempt {
        Attempt::Lived => Counter::of(window, &layouts, info(host, found)).map(|counter| (counter, path)),
        Attempt::NotTried => Err(SourceError::not_tried()),
        Attempt::Died => Err(SourceError::NotOffered {
            evidence: format!(
                "a child process that read the registers of {} was killed by a signal, as happens if their clock is off",
                found.node.path
            ),
            remedy: None,
        }),
    }
}

/// An opened counter, and where it is.
struct Found {
    counter: Counter<Window>,
    node: String,
    path: PathBuf,
}

/// Opens the only counter of this kind, or of several the first that moves.
fn open(host: &Host, kind: &SocCounter) -> Result<Found, SourceError> {
    let nodes = nodes(host, kind)?;
    if !host.is_live() {
        return Err(registers(&nodes[0]).err().unwrap_or(SourceError::Captured));
    }
    let clock = PosixClock::open(host, PosixId::REFERENCE)?;
    let mut first = None;
    for found in &nodes {
        let opened = open_node(host, found).and_then(|(counter, path)| {
            if nodes.len() > 1 {
                counter.moves(&clock)?;
            }
            Ok(Found { counter, node: found.node.path.clone(), path })
        });
        match opened {
            Ok(opened) => return Ok(opened),
            Err(reason) => first = first.or(Some(reason)),
        }
    }
    Err(first.expect("there is at least one node"))
}

fn evidence(host: &Host, kind: &SocCounter, opened: Option<&Found>) -> Vec<String> {
    let nodes = match nodes(host, kind) {
        Ok(nodes) => nodes,
        Err(why) => return vec![why.to_string()],
    };
    let mut lines: Vec<String> = Vec::new();
    for found in &nodes {
        let path = &found.node.path;
        let at =
            found.node.registers.map_or("an unknown address".to_owned(), |region| format!("{:#x}", region.address));
        lines.push(format!("device tree: {path} describes {}; registers at {at}", kind.id));
    }
    let uio = nodes.iter().find_map(|found| found.node.registers.and_then(|region| host.uio_window(region)));
    lines.push(match (uio, kind.other_registers) {
        (_, Some(others)) => format!("UIO: never used, because the page also has {others}"),
        (None, None) => "UIO: no device maps these registers".to_owned(),
        (Some(uio), None) => {
            format!("UIO: map {} of /dev/{} ({}) covers these registers", uio.map, uio.device, uio.name)
        }
    });
    if let Some(Found { counter, node, path }) = opened {
        let words = match counter.words {
            Words::Up(offset) => format!("32 bits at {offset:#x} count up"),
            Words::Down(offset) => format!("32 bits at {offset:#x} count down, and are inverted"),
            Words::Split { low, high } => format!("64 bits at {low:#x} and {high:#x} count up"),
        };
        lines.push(format!("{node}: {words}; mapped read-only from {}", path.display()));
    }
    let info = info(host, &nodes[0]);
    lines.push(match info.nominal {
        Some(Nominal { frequency, stated_by: StatedBy::Definition }) => format!("rate: {frequency} by definition"),
        Some(Nominal { frequency, .. }) => format!("rate: {frequency} according to the device tree"),
        None => "rate: the device tree states none; calibration determines it".to_owned(),
    });
    if !info.rate.is_steady() {
        lines.push("rate: follows the frequency of the processor, which cpufreq changes".to_owned());
    }
    if info.revocable {
        lines.push(
            "the kernel may turn off the clock of these registers; the next read then ends the process".to_owned(),
        );
    }
    lines
}

/// Returns the kernel's verdict. A kernel that does not offer the counter as a clocksource has no driver for it, or has a
/// better counter. Neither is evidence against it.
fn verdict(host: &Host, kind: &SocCounter) -> KernelVerdict {
    match KernelVerdict::of_clock_source(&host.clock_sources(), kind.clock_source) {
        KernelVerdict::Distrusted(_) => KernelVerdict::Unknown(format!(
            "the kernel does not offer this counter as a clocksource ({}), which is not evidence against it",
            kind.clock_source
        )),
        verdict @ (KernelVerdict::Trusted(_) | KernelVerdict::Unknown(_)) => verdict,
    }
}

fn report(host: &Host, kind: &'static SocCounter) -> ProbeReport {
    let opened = host.is_live().then(|| open(host, kind));
    ProbeReport {
        id: SourceId::new(kind.id),
        description: kind.description,
        kernel: verdict(host, kind),
        evidence: evidence(host, kind, opened.as_ref().and_then(|opened| opened.as_ref().ok())),
        availability: match opened {
            Some(opened) => opened.map(|found| found.counter.info),
            None => nodes(host, kind).and_then(|nodes| registers(&nodes[0]).map(|_| info(host, &nodes[0]))),
        },
    }
}

#[derive(Debug)]
pub(super) struct SocCounterBackend;

/// Returns the kinds of counters that the device tree of this host has.
fn kinds_on(host: &Host) -> Vec<&'static SocCounter> {
    let found = host.soc_counters();
    SOC_COUNTERS.iter().filter(|kind| found.iter().any(|one| one.kind.id == kind.id)).collect()
}

impl Backend for SocCounterBackend {
    /// None: these counters are listed only on machines whose device tree has them.
    fn ids(&self) -> Vec<SourceId> {
        Vec::new()
    }

    fn ids_on(&self, host: &Host) -> Vec<SourceId> {
        kinds_on(host).into_iter().map(|kind| SourceId::new(kind.id)).collect()
    }

    fn knows(&self, id: &SourceId) -> bool {
        SocCounter::named(id.as_str()).is_some()
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        kinds_on(host).into_iter().map(|kind| report(host, kind)).collect()
    }

    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, SourceError> {
        let Some(kind) = SocCounter::named(id.as_str()) else {
            return Err(SourceError::Unknown { name: id.to_string(), nearest: Vec::new() });
        };
        tested(open(host, kind)?.counter).map(|counter| Opened::Shared(Box::new(counter)))
    }
}

#[cfg(test)]
mod tests;
