//! The thread that reads the ring buffers and divides the late samples, away from the measured CPUs. Memory is bounded:
//! it keeps recent events, the worst samples, and sums.

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use super::{
    attribute::{Evidence, divide},
    causes::Causes,
    events::Decoder,
    instance::{Instance, Ring},
    part::{Explained, LateSample},
    report::TraceReport,
    request::Request,
    shared::Shared,
    steal::Steal,
    threads::Threads,
    window::Window,
};
use crate::{
    host::Host,
    realtime::{Pinned, allowed_cpus},
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
/// The number of samples above the limit that are kept in addition to the worst.
const ABOVE: usize = 1_000;
/// The number of pages that are read at once, so that a flood of events does not delay the division.
const PAGES: usize = 4_096;

/// The events and the samples so far.
pub(super) struct Reader {
    shared: Arc<Shared>,
    request: Request,
    cpus: Vec<usize>,
    rings: Vec<Ring>,
    windows: Vec<Window>,
    decoder: Decoder,
    threads: Threads,
    steal: Steal,
    causes: Causes,
    worst: Vec<Explained>,
    above: Vec<Explained>,
    report: TraceReport,
    page: Vec<u8>,
    interrupts_off_ns: u64,
}

impl Reader {
    pub(super) fn new(
        shared: Arc<Shared>,
        request: Request,
        (instance, decoder): (&Instance, Decoder),
        cpus: &[usize],
    ) -> Result<Self, super::TraceError> {
        let rings = cpus.iter().map(|&cpu| instance.ring(cpu)).collect::<Result<Vec<_>, _>>()?;
        let is_virtual = Host::live().hypervisor().is_some();
        let most = (ALL_EVENTS / cpus.len().max(1)).clamp(10_000, MOST_EVENTS);
        Ok(Self {
            shared,
            request,
            cpus: cpus.to_vec(),
            windows: rings.iter().map(|_| Window::new(most)).collect(),
            rings,
            interrupts_off_ns: if is_virtual { LONG_INTERRUPTS_OFF_NS } else { INTERRUPTS_OFF_NS },
            page: vec![0; decoder.layout().page_size],
            decoder,
            threads: Threads::new(true),
            steal: Steal::new(cpus.to_vec()),
            causes: Causes::default(),
            worst: Vec::new(),
            above: Vec::new(),
            report: TraceReport { host_unknown: is_virtual && !Steal::was_ever_counted(), ..TraceReport::default() },
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
        let samples = self.shared.take();
        // A thread of this process may have ended when the last samples are divided.
        if !samples.is_empty() {
            self.threads.add_own();
        }
        for (ring, window) in self.rings.iter_mut().zip(&mut self.windows) {
            for _ in 0..PAGES {
                let Some(page) = ring.read(&mut self.page) else { break };
                window.add_page(page, &mut self.decoder);
            }
        }
        self.steal.update();
        // The first steal time shows that the kernel can count it.
        self.report.host_unknown &= !self.steal.rose_anywhere();
        for sample in samples {
            self.explain(sample);
        }
    }

    fn explain(&mut self, sample: LateSample) {
        let (begin, end) = (sample.deadline_ns, sample.end_ns());
        // A thread that is not pinned was last seen on the CPU on which it ran.
        let pinned = sample.cpu.and_then(|cpu| self.cpus.iter().position(|&other| other == cpu));
        let last = |&place: &usize| self.windows[place].last_of(sample.thread, end);
        let Some(place) = pinned.or_else(|| (0..self.windows.len()).max_by_key(last)) else { return };
        let window = &self.windows[place];
        let cpu = self.cpus[place];
        let evidence = Evidence {
            steal_rose: self.steal.rose(cpu),
            interrupts_off_ns: self.interrupts_off_ns,
            is_blocking: !self.request.polls,
            host_unknown: self.report.host_unknown,
            waits_for_timer: !self.request.edges,
        };
        let events = window.around(sample.thread, begin, end);
        let mut explained = divide(sample, events, evidence, (&self.decoder, &mut self.threads));
        explained.cpu = Some(cpu);
        if sample.latency_ns >= self.request.threshold_ns {
            self.report.samples += 1;
            self.report.latency_ns = self.report.latency_ns.saturating_add(sample.latency_ns);
            self.report.incomplete += u64::from(!explained.is_complete);
            self.causes.add(&explained);
        }
        self.keep(explained);
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
        TraceReport {
            explained: self.worst,
            causes: self.causes.sorted(),
            lost_events: self.windows.iter().map(|window| window.lost).sum(),
            skipped: self.shared.skipped.load(Ordering::Relaxed),
            steal_s: self.steal.seconds(),
            ..self.report
        }
    }
}

/// Starts the thread.
pub(super) fn start(reader: Reader) -> std::io::Result<thread::JoinHandle<TraceReport>> {
    thread::Builder::new().name("hpt-trace".to_owned()).spawn(move || reader.run())
}
