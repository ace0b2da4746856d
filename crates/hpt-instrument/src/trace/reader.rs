//! The thread that reads the ring buffers and divides the late samples, away from the measured CPUs. Memory is bounded:
//! it keeps recent events, the worst samples, and sums.

use std::{
    fs,
    sync::{Arc, PoisonError, atomic::Ordering},
    thread,
    time::Duration,
};

use hpt_core::clock::Instant;
use hpt_realtime::{FAIR_SERVER_SINCE, Pinned, allowed_cpus};
use hpt_sys::{
    host::{Host, KernelRelease},
    settings::{FAIR_SERVER, RT_RUNTIME},
};

use super::{
    attribute::divide,
    causes::Causes,
    events::Decoder,
    instance::{Instance, Ring, Scope, online_cpus},
    part::{CauseKind, Explained, LateSample, Part},
    quota::Quotas,
    report::TraceReport,
    request::Request,
    rules::{MOST_SCHEDULING_NS, Pauses, Slack, TraceEvidence},
    shared::SharedSamples,
    steal::Steal,
    symbols,
    threads::Threads,
    wanted::{Change, WantedStacks},
    window::EventWindow,
};

/// The time between two readings, with and without a CPU on which nothing is measured.
const INTERVAL: Duration = Duration::from_millis(20);
const LONG_INTERVAL: Duration = Duration::from_millis(200);
/// The shortest delay of a timer interrupt that is attributed to disabled interrupts, in nanoseconds, on a real machine
/// and on a virtual one, whose hypervisor delivers interrupts later.
const INTERRUPTS_OFF_NS: u64 = 20_000;
const LONG_INTERRUPTS_OFF_NS: u64 = 40_000;
/// The maximum number of events in memory, for all CPUs and for one.
const ALL_EVENTS: usize = 2_000_000;
const MOST_EVENTS: usize = 500_000;
/// The number of switches of which the time is kept.
const SWITCHES: usize = 1_000;
/// The maximum number of events in memory for a CPU of which only the effects on others are recorded.
const EFFECTS: usize = 10_000;
/// The number of samples above the limit that are kept in addition to the worst.
const ABOVE: usize = 1_000;
/// The shortest part whose functions or stacks are recorded from then on.
const LARGE_NS: u64 = 50_000;
/// The length of the shortest handler whose functions are recorded, in events, whose time shows how fast the machine is.
const LARGE_EVENTS: u64 = 40;
/// The number of pages that are read at once, so that a flood of events does not delay the division.
const PAGES: usize = 4_096;

/// The events and the samples so far.
pub(super) struct Reader {
    shared: Arc<SharedSamples>,
    request: Request,
    cpus: Vec<usize>,
    rings: Vec<Ring>,
    windows: Vec<EventWindow>,
    /// The other CPUs, of which only the effects on the measured ones are recorded.
    elsewhere: Vec<(Ring, EventWindow)>,
    /// After the rings, which must be closed when the instances are removed.
    instances: Vec<Instance>,
    watched: Vec<i32>,
    decoder: Decoder,
    threads: Threads,
    steal: Steal,
    quotas: Quotas,
    /// The latencies of the idle states of each CPU, in nanoseconds.
    idle_ns: Vec<Vec<u64>>,
    machine: Machine,
    /// The times of the switches in the first samples, in nanoseconds, in ascending order.
    switches: Vec<u64>,
    causes: Causes,
    worst: Vec<Explained>,
    above: Vec<Explained>,
    /// Whether the kernel names its functions, and whether those that handlers call are recorded.
    names_functions: bool,
    with_functions: bool,
    wanted: WantedStacks,
    report: TraceReport,
    page: Vec<u8>,
}

/// The properties of the machine on which the rules depend.
#[derive(Clone, Debug)]
struct Machine {
    host: Host,
    is_virtual: bool,
    has_fair_server: bool,
}

impl Machine {
    fn live() -> Self {
        let host = Host::live();
        let release = KernelRelease::parse(&host.facts().kernel_release);
        Self {
            is_virtual: host.hypervisor().is_some(),
            has_fair_server: release.is_some_and(|release| release >= FAIR_SERVER_SINCE),
            host,
        }
    }

    /// Returns what may pause a real-time thread on this CPU at present. A setting that cannot be read may be on.
    fn pauses(&self, cpu: usize) -> Pauses {
        let is = |path: &str, off: i64| self.host.number_in(path).is() == Some(&off);
        Pauses {
            throttling: !is(RT_RUNTIME.path, -1),
            fair_server: self.has_fair_server && !is(&FAIR_SERVER.path_of(&[cpu]), 0),
        }
    }
}

impl Reader {
    /// Begins to record in private tracefs instances.
    pub(super) fn new(shared: Arc<SharedSamples>, request: Request) -> Result<Self, super::TraceError> {
        let cpus = request.cpus.clone();
        let (instance, decoder) = Instance::create(&cpus, Scope::Causes)?;
        let rings = cpus.iter().map(|&cpu| instance.ring(cpu)).collect::<Result<Vec<_>, _>>()?;
        let mut instances = vec![instance];
        let elsewhere = other_cpus(&cpus, &mut instances);
        let machine = Machine::live();
        let most = (ALL_EVENTS / cpus.len().max(1)).clamp(10_000, MOST_EVENTS);
        Ok(Self {
            shared,
            request,
            elsewhere,
            instances,
            watched: Vec::new(),
            windows: rings.iter().map(|_| EventWindow::new(most)).collect(),
            rings,
            quotas: Quotas::new(&machine.host, now()),
            idle_ns: cpus.iter().map(|&cpu| idle_latencies(cpu)).collect(),
            switches: Vec::new(),
            page: vec![0; decoder.layout().page_size],
            report: TraceReport {
                host_unknown: machine.is_virtual && !Steal::was_ever_counted(),
                ..TraceReport::default()
            },
            machine,
            decoder,
            threads: Threads::new(true),
            steal: Steal::new(cpus.clone()),
            causes: Causes::default(),
            worst: Vec::new(),
            above: Vec::new(),
            names_functions: symbols::are_named(),
            with_functions: false,
            wanted: WantedStacks::default(),
            cpus,
        })
    }

    /// Reads until the run ends.
    pub(super) fn run(mut self) -> TraceReport {
        let allowed = allowed_cpus();
        let spare = allowed.iter().copied().find(|cpu| !self.cpus.contains(cpu));
        let _spared = spare.and_then(|cpu| Pinned::new(cpu).ok());
        let interval = if spare.is_some() { INTERVAL } else { LONG_INTERVAL };
        loop {
            let ends = self.shared.ends.load(Ordering::Acquire);
            self.step();
            if ends {
                break;
            }
            if let Some(ended) = self.shared.wait(interval) {
                debug_assert!(ended, "the wait ends early only at the end");
            }
        }
        self.finish()
    }

    /// Takes the samples, then the events that explain them.
    fn step(&mut self) {
        self.watch();
        let samples = self.shared.take();
        // A thread of this process may have ended when the last samples are divided.
        if !samples.is_empty() {
            self.threads.add_own();
        }
        let rings = self.rings.iter_mut().zip(&mut self.windows);
        for (ring, window) in rings.chain(self.elsewhere.iter_mut().map(|(ring, window)| (ring, window))) {
            for _ in 0..PAGES {
                let Some(page) = ring.read(&mut self.page) else { break };
                window.add_page(page, &mut self.decoder);
            }
            window.keep_effects(&self.watched);
        }
        self.steal.update();
        self.quotas.update(now());
        // The first steal time shows that the kernel can count it.
        self.report.host_unknown &= !self.steal.rose_anywhere();
        for sample in samples {
            self.explain(sample);
        }
    }

    /// Records what concerns only the measured threads, for those that have been added.
    fn watch(&mut self) {
        let threads = self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() != self.watched.len() {
            self.watched.clone_from(&threads);
            self.instances.iter().for_each(|instance| instance.watch(&self.watched));
        }
    }

    fn explain(&mut self, sample: LateSample) {
        let (begin, end) = (sample.deadline_ns, sample.end_ns());
        // A thread that is not pinned was last seen on the CPU on which it ran.
        let pinned = sample.cpu.and_then(|cpu| self.cpus.iter().position(|&other| other == cpu));
        let last = |&place: &usize| self.windows[place].last_of(sample.thread, end);
        let Some(place) = pinned.or_else(|| (0..self.windows.len()).max_by_key(last)) else { return };
        let cpu = self.cpus[place];
        let used_up = self.quotas.used_up(begin);
        let evidence = TraceEvidence {
            steal_ns: self.steal.left_ns(cpu),
            throttled_ns: used_up.throttled_ns,
            sharing: &used_up.threads,
            interrupts_off_ns: if self.machine.is_virtual { LONG_INTERRUPTS_OFF_NS } else { INTERRUPTS_OFF_NS },
            scheduling_ns: self.scheduling_ns(),
            idle_ns: &self.idle_ns[place],
            is_blocking: !self.request.polls,
            is_pinned: pinned.is_some(),
            is_virtual: self.machine.is_virtual,
            host_unknown: self.report.host_unknown,
            waits_for_timer: !self.request.edges,
            slack: Slack { ns: sample.slack_ns, ends_ns: begin.saturating_add(sample.slack_ns) },
            pauses: self.machine.pauses(cpu),
        };
        let (events, next) = self.windows[place].around(sample.thread, begin, end);
        // If the thread ran on another CPU since, the events before the deadline do not show its state.
        let ran = |window: &EventWindow| window.last_of(sample.thread, begin);
        let is_stale = pinned.is_none() && self.windows.iter().any(|window| ran(window) > ran(&self.windows[place]));
        let events = events.skip_while(move |event| is_stale && event.time < begin);
        let inside = events.clone().filter(|event| (begin..end).contains(&event.time)).count() as u64;
        self.report.events = Some(self.report.events.map_or(inside, |least| least.min(inside)));
        let since = events.clone().next().map_or(begin, |event| event.time);
        let others = (0..self.windows.len()).filter(|&other| other != place).map(|other| &self.windows[other]);
        let others = others.chain(self.elsewhere.iter().map(|(_, window)| window));
        let mut effects: Vec<_> = others.flat_map(|window| window.effects(sample.thread, since, end)).collect();
        let of_sample = (&self.decoder, &mut self.threads);
        let mut explained = if effects.is_empty() {
            divide(sample, (events, next), evidence, of_sample)
        } else {
            effects.extend(events);
            effects.sort_by_key(|event| event.time);
            divide(sample, (effects.iter(), next), evidence, of_sample)
        };
        for part in &mut explained.parts {
            if part.kind == CauseKind::CpuQuota {
                part.name = Some(used_up.group.clone());
            }
            self.learn(cpu, part);
        }
        if self.names_functions {
            self.want_functions(&explained);
            self.want_stacks(&explained);
        }
        explained.cpu = Some(cpu);
        if sample.latency_ns >= self.request.threshold_ns {
            self.report.samples += 1;
            self.report.latency_ns = self.report.latency_ns.saturating_add(sample.latency_ns);
            self.report.incomplete += u64::from(!explained.is_complete);
            self.causes.add(&explained);
        }
        self.keep(explained);
    }

    /// Learns from a part what later samples are compared with.
    fn learn(&mut self, cpu: usize, part: &Part) {
        match part.kind {
            CauseKind::Host => self.steal.spend(cpu, part.duration_ns),
            CauseKind::Scheduling | CauseKind::NotPreemptible if self.switches.len() < SWITCHES => {
                let place = self.switches.partition_point(|&other| other < part.duration_ns);
                self.switches.insert(place, part.duration_ns);
            }
            _ => {}
        }
    }

    /// Records the functions of handlers once one was large. On a slow machine, each handler takes long, and the events
    /// of functions would lengthen each sample.
    fn want_functions(&mut self, explained: &Explained) {
        let (latency_ns, event_ns) = (explained.sample.latency_ns, self.event_ns().unwrap_or(0));
        let is_wanted = |part: &Part| is_large_handler(part, latency_ns, event_ns);
        if !self.with_functions && explained.parts.iter().any(is_wanted) {
            self.instances.iter().for_each(Instance::record_functions);
            self.with_functions = true;
        }
    }

    /// Records stacks until each large cause in the kernel has some.
    fn want_stacks(&mut self, explained: &Explained) {
        let is_large = |part: &Part| is_large_in_kernel(part, explained.sample.latency_ns);
        let Some(change) = self.wanted.after(explained, is_large, now()) else { return };
        for instance in &self.instances {
            // A new request replaces the old one, of which nothing may be left.
            instance.end_stacks();
            if change == Change::Begin {
                instance.record_stacks(&self.watched, self.decoder.timer_interrupts());
            }
        }
    }

    /// Returns the time of a usual switch to a thread, in nanoseconds: a low quantile, because culprits are in the others.
    fn scheduling_ns(&self) -> u64 {
        let usual = self.switches.get(self.switches.len() / 10).filter(|_| self.switches.len() >= 10);
        usual.copied().unwrap_or(MOST_SCHEDULING_NS)
    }

    /// Returns the shortest time between two events so far, in nanoseconds.
    fn event_ns(&self) -> Option<u64> {
        self.windows.iter().map(|window| window.shortest_ns).min().filter(|&ns| ns < u64::MAX)
    }

    fn keep(&mut self, explained: Explained) {
        let latency_ns = explained.sample.latency_ns;
        let place = self.worst.partition_point(|other| other.sample.latency_ns >= latency_ns);
        self.worst.insert(place, explained);
        if self.worst.len() > self.request.worst {
            let dropped = self.worst.pop().expect("it is longer than zero");
            if self.request.above_ns.is_some_and(|above| dropped.sample.latency_ns > above) && self.above.len() < ABOVE
            {
                self.above.push(dropped);
            }
        }
        if self.worst.len() == self.request.worst {
            let least = self.worst.last().map_or(u64::MAX, |least| least.sample.latency_ns + 1);
            let above = self.request.above_ns.map_or(u64::MAX, |above| above.saturating_add(1));
            self.shared.least_ns.store(least.min(self.request.threshold_ns).min(above), Ordering::Relaxed);
        }
    }

    fn finish(mut self) -> TraceReport {
        self.above.sort_by_key(|explained| std::cmp::Reverse(explained.sample.latency_ns));
        self.worst.append(&mut self.above);
        self.causes.name_functions(&mut self.worst);
        let event_ns = self.event_ns();
        TraceReport {
            explained: self.worst,
            causes: self.causes.sorted(),
            event_ns,
            lost_events: self.windows.iter().map(|window| window.lost).sum(),
            skipped: self.shared.skipped.load(Ordering::Relaxed),
            steal_s: self.steal.seconds(),
            ..self.report
        }
    }
}

/// Returns whether a part took so long that details are worth the cost of their events.
fn is_large(part: &Part, latency_ns: u64) -> bool {
    part.duration_ns >= LARGE_NS && part.duration_ns >= latency_ns / 4
}

/// Returns whether a part is a handler whose functions are worth recording, on a machine where an event takes that long.
fn is_large_handler(part: &Part, latency_ns: u64, event_ns: u64) -> bool {
    let is_handler = matches!(part.kind, CauseKind::HardInterrupt | CauseKind::SoftInterrupt);
    is_handler && is_large(part, latency_ns) && part.duration_ns >= event_ns.saturating_mul(LARGE_EVENTS)
}

/// Returns whether code of the kernel caused a part, so that its stacks are worth recording.
fn is_large_in_kernel(part: &Part, latency_ns: u64) -> bool {
    let is_in_kernel = match part.kind {
        CauseKind::InterruptsOff | CauseKind::InterruptsOffOrHost | CauseKind::NotPreemptible => true,
        CauseKind::Blocked | CauseKind::PageFault => true,
        CauseKind::Thread => part.is_kernel == Some(true),
        _ => false,
    };
    is_in_kernel && !part.is_own && is_large(part, latency_ns)
}

/// Begins to record the effects of the CPUs other than these. Without them, a wake-up by another CPU is not explained.
fn other_cpus(cpus: &[usize], instances: &mut Vec<Instance>) -> Vec<(Ring, EventWindow)> {
    let others: Vec<usize> = online_cpus().into_iter().filter(|cpu| !cpus.contains(cpu)).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let Ok((instance, _)) = Instance::create(&others, Scope::Elsewhere) else { return Vec::new() };
    let rings = others.iter().filter_map(|&cpu| instance.ring(cpu).ok());
    let rings = rings.map(|ring| (ring, EventWindow::new(EFFECTS))).collect();
    instances.push(instance);
    rings
}

/// Returns the time on `CLOCK_MONOTONIC`, in nanoseconds.
fn now() -> u64 {
    Instant::now().nanos_since(Instant::EPOCH)
}

/// Returns the latencies of the idle states of a CPU, in nanoseconds, in the order of their numbers.
fn idle_latencies(cpu: usize) -> Vec<u64> {
    let latency = |state: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/latency");
        fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    (0..).map_while(latency).map(|us| us.saturating_mul(1_000)).collect()
}

pub(super) fn start(reader: Reader) -> std::io::Result<thread::JoinHandle<TraceReport>> {
    thread::Builder::new().name("hpt-trace".to_owned()).spawn(move || reader.run())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::attribute::part;

    #[test]
    fn the_size_of_a_handler_depends_on_the_machine() {
        let is_large = |kind, duration_ns, event_ns| {
            is_large_handler(&Part { duration_ns, ..part(kind, 0) }, 4 * LARGE_NS, event_ns)
        };
        // A fast machine: the time counts. A slow one: each handler takes that long.
        assert!(is_large(CauseKind::HardInterrupt, LARGE_NS, 300));
        assert!(!is_large(CauseKind::HardInterrupt, LARGE_NS - 1, 300));
        assert!(!is_large(CauseKind::HardInterrupt, LARGE_NS, 5_000));
        assert!(is_large(CauseKind::SoftInterrupt, 4 * LARGE_NS, 5_000));
        // Less than a quarter of the delay, and no handler.
        assert!(!is_large_handler(
            &Part { duration_ns: LARGE_NS, ..part(CauseKind::HardInterrupt, 0) },
            4 * LARGE_NS + 4,
            0
        ));
        assert!(!is_large(CauseKind::Thread, LARGE_NS, 0));
    }
}
