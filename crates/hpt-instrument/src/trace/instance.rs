//! The private tracefs instance of a run: its events, its clock, its buffers, and its removal.

use std::{
    fs::{self, File},
    io::{self, Read},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use hpt_sys::{host::CpuList, wait::pause};
use rustix::fs::OFlags;

use super::{
    TraceError,
    events::{Decoder, STACK},
    format::{EventFormat, Layout},
    leftover,
    place::{self, Folder},
    track::UNINTERRUPTIBLE,
};

/// The events without which no sample can be explained.
const NEEDED: [&str; 3] = ["sched/sched_switch", "sched/sched_waking", "irq/irq_handler_entry"];
/// Further events, which not every kernel has.
///
/// Without sched_wakeup: sched_waking occurs in the same interrupt, and each event costs time at each wake-up.
const WANTED: [&str; 6] =
    ["irq/irq_handler_exit", "irq/softirq_entry", "irq/softirq_exit", IDLE, INHERITS, "nmi/nmi_handler"];
/// Events that replace those of the timer interrupt, if it has none. Each event costs time at each wake-up.
const TIMERS: [&str; 2] = ["timer/hrtimer_expire_entry", "timer/hrtimer_expire_exit"];
/// The event of priorities that threads inherit. It occurs on the CPU of the thread that waits.
const INHERITS: &str = "sched/sched_pi_setprio";
/// The event of idle states. Leaving one needs no event, because others follow.
const IDLE: &str = "power/cpu_idle";
const ENTERS_IDLE: &str = "state != 4294967295";
/// The events that state which function a handler calls, each with its field: of high-resolution timers, of other timers,
/// and of calls by other CPUs. They are recorded only once such a handler caused a large part of a delay.
const FUNCTIONS: [(&str, &str); 3] =
    [("timer/hrtimer_expire", "function"), ("timer/timer_expire", "function"), ("csd/csd_function", "func")];
/// The interrupt of the timer of a CPU on x86.
const LOCAL_TIMER: &str = "irq_vectors/local_timer_entry";
/// The maximum number of stacks that an event causes until they are requested again.
const STACKS: usize = 1_000;
/// The directories of the interrupts of the CPU itself: on x86 and on ARM.
const VECTORS: [&str; 2] = ["irq_vectors", "ipi"];
/// The event that wakes a thread, and those of page faults on x86. They are limited to the measured threads.
const WAKING: &str = "sched/sched_waking";
const FAULTS: [&str; 2] = ["exceptions/page_fault_user", "exceptions/page_fault_kernel"];
/// The memory for the buffers of all CPUs, and of one CPU, in kilobytes.
const ALL_KB: usize = 64 << 10;
const MOST_KB: usize = 8 << 10;
const LEAST_KB: usize = 512;
/// The memory of a CPU of which only the effects on the measured CPUs are recorded.
const ELSEWHERE_KB: usize = 32;

/// The events that an instance records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All events of the CPUs that explain a sample.
    Causes,
    /// The events by which the CPUs wake the measured threads, and change the priorities of threads on other CPUs.
    Elsewhere,
}

/// A private tracefs instance. Dropping this value removes it.
#[derive(Debug)]
pub(super) struct Instance {
    instances: Folder,
    name: String,
    /// The open directory, until the instance is removed.
    folder: Option<Folder>,
    scope: Scope,
}

impl Instance {
    /// Creates an instance that records these CPUs, and returns the decoder of its events.
    pub(super) fn create(cpus: &[usize], scope: Scope) -> Result<(Self, Decoder), TraceError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        place::check_pid_namespace()?;
        let top = Folder::mounted()?;
        let instances = top.below("instances")?;
        let name = leftover::name_of_own(NEXT.fetch_add(1, Ordering::Relaxed));
        instances.create(&name)?;
        // From here on, an error removes the instance.
        let mut instance = Self { instances, name, folder: None, scope };
        instance.folder = Some(instance.instances.below(&instance.name)?);
        let decoder = instance.set_up(cpus)?;
        Ok((instance, decoder))
    }

    fn folder(&self) -> &Folder {
        self.folder.as_ref().expect("the directory is open until the instance is removed")
    }

    fn set_up(&self, cpus: &[usize]) -> Result<Decoder, TraceError> {
        let folder = self.folder();
        folder.write("tracing_on", "0")?;
        // The clock of hpt's timestamps.
        if !folder.text("trace_clock")?.split_whitespace().any(|clock| clock.trim_matches(['[', ']']) == "mono") {
            return Err(TraceError::Missing { what: "clock `mono`" });
        }
        folder.write("trace_clock", "mono")?;
        folder.write("tracing_cpumask", &cpus.iter().copied().collect::<CpuList>().mask())?;
        // Names of threads are in the events. The list of all names costs time at each switch.
        let _ = folder.write("options/record-cmd", "0");
        let each = match self.scope {
            Scope::Causes => (ALL_KB / cpus.len().max(1)).clamp(LEAST_KB, MOST_KB),
            Scope::Elsewhere => ELSEWHERE_KB,
        };
        for &cpu in cpus {
            folder.write(&format!("per_cpu/cpu{cpu}/buffer_size_kb"), &each.to_string())?;
        }
        let mut decoder = Decoder::new(self.layout()?);
        for path in self.events()? {
            let file = format!("events/{path}/format");
            let format = EventFormat::parse(&folder.text(&file)?).filter(|format| decoder.add(&path, format));
            if path == IDLE {
                let _ = folder.write(&format!("events/{path}/filter"), ENTERS_IDLE);
            }
            // Events that are limited to the measured threads are enabled when these are known.
            let waits = FAULTS.contains(&path.as_str()) || self.scope == Scope::Elsewhere && path == WAKING;
            match format {
                Some(_) if waits => {}
                Some(_) => folder.write(&format!("events/{path}/enable"), "1")?,
                None if NEEDED.contains(&path.as_str()) => return Err(TraceError::UnknownFormat { file }),
                None => {}
            }
        }
        if let Some(format) =
            folder.text(&format!("events/{STACK}/format")).ok().as_deref().and_then(EventFormat::parse)
        {
            decoder.add(STACK, &format);
        }
        if self.scope == Scope::Causes && !self.has_timer_events() {
            for (event, field) in FUNCTIONS {
                let format =
                    |end: &str| EventFormat::parse(&folder.text(&format!("events/{event}_{end}/format")).ok()?);
                if let Some((entry, exit)) = format("entry").zip(format("exit")) {
                    decoder.add_function(field, (&entry, &exit));
                }
            }
        }
        folder.write("tracing_on", "1")?;
        Ok(decoder)
    }

    /// Returns whether the events of timers replace those of the timer interrupt.
    fn has_timer_events(&self) -> bool {
        // On ARM, the timer interrupt is an ordinary interrupt.
        cfg!(target_arch = "x86_64") && !self.folder().has("events/irq_vectors")
    }

    /// Records from now on which functions handlers call.
    pub(super) fn record_functions(&self) {
        if self.scope == Scope::Causes && !self.has_timer_events() {
            for (event, _) in FUNCTIONS {
                // Not every kernel has them all.
                for end in ["entry", "exit"] {
                    let _ = self.folder().write(&format!("events/{event}_{end}/enable"), "1");
                }
            }
        }
    }

    /// Records from now on the stacks with which these threads wait for a disk or a lock of the kernel, and those of other
    /// threads at the interrupts of timers, which have these numbers if they have no event of their own.
    pub(super) fn record_stacks(&self, threads: &[i32], timers: impl Iterator<Item = i32>) {
        let each = |field: &str, comparison: &str, values: &mut dyn Iterator<Item = i32>| {
            values.map(|value| format!("{field} {comparison} {value}")).collect::<Vec<_>>()
        };
        // A stack takes long, so the usual wait for the timer has none, and most interrupts find an idle CPU.
        let own = each("prev_pid", "==", &mut threads.iter().copied()).join(" || ");
        let waits = format!("({own}) && prev_state & {UNINTERRUPTIBLE}");
        let others = each("common_pid", "!=", &mut [0].iter().chain(threads).copied()).join(" && ");
        let timers = each("irq", "==", &mut { timers });
        let of_interrupt = (!timers.is_empty()).then(|| format!("({}) && {others}", timers.join(" || ")));
        let triggers = [
            ("sched/sched_switch", Some(waits)),
            ("irq/irq_handler_entry", of_interrupt),
            (LOCAL_TIMER, Some(others.clone())),
            (TIMERS[0], Some(others).filter(|_| self.has_timer_events())),
        ];
        for (event, filter) in triggers {
            if let Some(filter) = filter {
                self.trigger(event, &format!("stacktrace:{STACKS} if {filter}"));
            }
        }
    }

    /// Records no stacks from now on.
    pub(super) fn end_stacks(&self) {
        for event in ["sched/sched_switch", "irq/irq_handler_entry", LOCAL_TIMER, TIMERS[0]] {
            self.trigger(event, "!stacktrace");
        }
    }

    /// Changes the triggers of an event, if this kernel has it.
    fn trigger(&self, event: &str, text: &str) {
        if self.scope == Scope::Causes {
            let _ = self.folder().write(&format!("events/{event}/trigger"), text);
        }
    }

    /// Returns the events to be recorded.
    fn events(&self) -> Result<Vec<String>, TraceError> {
        let folder = self.folder();
        if let Some(what) = NEEDED.into_iter().find(|path| !folder.has(&format!("events/{path}"))) {
            return Err(TraceError::Missing { what });
        }
        if self.scope == Scope::Elsewhere {
            let events = [WAKING, INHERITS].into_iter().map(str::to_owned);
            return Ok(events.filter(|path| folder.has(&format!("events/{path}"))).collect());
        }
        let vectors = VECTORS.iter().filter(|group| folder.has(&format!("events/{group}")));
        let vectors = vectors.flat_map(|group| {
            let names = folder.below(&format!("events/{group}")).map(|folder| folder.names()).unwrap_or_default();
            let both = |name: &String| name.ends_with("_entry") || name.ends_with("_exit");
            names.into_iter().filter(both).map(move |name| format!("{group}/{name}"))
        });
        let timers: &[&str] = if self.has_timer_events() { &TIMERS } else { &[] };
        let events = NEEDED.iter().chain(&WANTED).chain(&FAULTS).chain(timers).map(|&path| path.to_owned());
        Ok(events.chain(vectors).filter(|path| folder.has(&format!("events/{path}"))).collect())
    }

    /// Limits the events that concern single threads to these, and records them from now on. If the kernel refuses the
    /// limit, they are not recorded.
    pub(super) fn watch(&self, threads: &[i32]) {
        let limit = |field: &str| {
            let one: Vec<_> = threads.iter().map(|thread| format!("{field} == {thread}")).collect();
            one.join(" || ")
        };
        let (events, limit): (&[&str], _) = match self.scope {
            Scope::Causes => (&FAULTS, limit("common_pid")),
            Scope::Elsewhere => (&[WAKING], limit("pid")),
        };
        let folder = self.folder();
        for path in events.iter().filter(|path| folder.has(&format!("events/{path}"))) {
            let limited = folder.write(&format!("events/{path}/filter"), &limit);
            let _ = folder.write(&format!("events/{path}/enable"), if limited.is_ok() { "1" } else { "0" });
        }
    }

    fn layout(&self) -> Result<Layout, TraceError> {
        let file = "events/header_page";
        // Only the top directory describes the pages.
        let text = Folder::mounted()?.text(file)?;
        Layout::parse(&text, cfg!(target_endian = "big"))
            .ok_or_else(|| TraceError::UnknownFormat { file: file.to_owned() })
    }

    /// Opens the ring buffer of a CPU.
    pub(super) fn ring(&self, cpu: usize) -> Result<Ring, TraceError> {
        let file = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        let opened = self.folder().file(&file, OFlags::RDONLY | OFlags::NONBLOCK);
        opened.map(Ring).map_err(|cause| TraceError::Refused { file, cause })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take() {
            let _ = folder.write("tracing_on", "0");
            let _ = folder.write("events/enable", "0");
        }
        // Another process may have one of its files open for a moment.
        for _ in 0..50 {
            match self.instances.remove(&self.name) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => pause(Duration::from_millis(10)),
                _ => return,
            }
        }
    }
}

/// The ring buffer of a CPU.
#[derive(Debug)]
pub(super) struct Ring(File);

impl Ring {
    /// Reads a page; `None` if the buffer is empty.
    pub(super) fn read<'a>(&mut self, page: &'a mut [u8]) -> Option<&'a [u8]> {
        let read = loop {
            match self.0.read(page) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.ok()?,
            }
        };
        page.get(..read).filter(|page| !page.is_empty())
    }
}

pub(super) fn online_cpus() -> Vec<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    CpuList::parse(text.trim()).map(|list| list.iter().collect()).unwrap_or_default()
}
