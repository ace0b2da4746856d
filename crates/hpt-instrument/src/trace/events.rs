//! The events that explain a late sample, decoded from the entries of the ring buffer.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{
    format::{EventFormat, Field, Layout},
    ring::integer,
};

/// The maximum number of interrupts, and of threads, whose names are kept.
const NAMES: usize = 8_192;
/// The number of the last stacks that are kept, and the maximum number of addresses in one.
const STACKS: usize = 4_096;
const ADDRESSES: usize = 48;

/// The event that contains a stack. A trigger of another event causes it.
pub(super) const STACK: &str = "ftrace/kernel_stack";

/// The name of a thread, padded with zeros.
pub(super) type ThreadName = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The time on CLOCK_MONOTONIC, in nanoseconds.
    pub(super) time: u64,
    /// The thread that runs; zero if the CPU is idle. Before a switch, this is the previous thread.
    pub(super) running: i32,
    /// The context in which the event occurred: the bits of [`flags`].
    pub(super) flags: u8,
    pub(super) what: What,
}

/// Bits of the field common_flags; see enum trace_flag_type in the kernel's include/linux/trace_events.h.
pub(super) mod flags {
    /// The running thread is to be preempted.
    pub(in crate::trace) const RESCHEDULE: u8 = 0x04;
    pub(in crate::trace) const HARD_INTERRUPT: u8 = 0x08;
    pub(in crate::trace) const SOFT_INTERRUPT: u8 = 0x10;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The CPU switches to another thread.
    Switch {
        previous: i32,
        /// The state in which the previous thread waits; zero if it is still ready to run.
        state: u8,
        next: i32,
        facts: ThreadFacts,
    },
    /// A thread becomes ready to run. The running thread, or an interrupt, woke it.
    Woken {
        thread: i32,
        priority: i32,
    },
    /// A thread becomes ready to run. The running thread of another CPU, or an interrupt there, woke it.
    WokenElsewhere {
        thread: i32,
        priority: i32,
    },
    /// A thread inherits the priority of a thread that waits for it, the running one, or loses it again.
    Inherits {
        thread: i32,
        priority: i32,
        is_raised: bool,
    },
    /// The running thread accesses a page that is not mapped, at this address.
    Faults(u64),
    HardBegins(i32),
    HardEnds(i32),
    /// An interrupt of the CPU itself begins. The number identifies its name in [`Decoder::vectors`].
    VectorBegins(u16),
    VectorEnds(u16),
    SoftBegins(u32),
    SoftEnds(u32),
    /// The handler of a high-resolution timer begins.
    TimerBegins,
    TimerEnds,
    /// A handler of a non-maskable interrupt at this address began. The kernel records only its end, with its length.
    NmiBegins(u64),
    NmiEnds {
        handler: u64,
        length_ns: u64,
    },
    /// A handler calls the function at this address, or the function has returned.
    Calls(u64),
    Returns,
    /// The CPU enters an idle state, or leaves it.
    Idle(Option<u32>),
    /// The stack of the kernel at the event before this one: a number for [`Decoder::stack`].
    Stack(u32),
    /// Events before this one were lost.
    Lost,
}

/// The most recent name and priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadFacts {
    /// The kernel's priority: 0 to 98 for real-time threads, where 0 is the highest priority.
    pub(super) priority: i32,
    pub(super) name: ThreadName,
}

/// The fields that describe a thread.
#[derive(Clone, Copy, Debug)]
struct ThreadFields {
    pid: Field,
    priority: Field,
    name: Field,
}

/// The meaning of the events with a certain number, and their fields.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Switch { previous: ThreadFields, state: Field, next: ThreadFields },
    Woken(ThreadFields),
    Inherits { thread: Field, old: Field, new: Field },
    Faults(Field),
    HardBegins(Field, Option<Field>),
    HardEnds(Field),
    VectorBegins(u16),
    VectorEnds(u16),
    SoftBegins(Field),
    SoftEnds(Field),
    TimerBegins,
    TimerEnds,
    Nmi { handler: Field, length: Field },
    Calls(Field),
    Returns,
    Idle(Field),
    Stack { size: Field, first: Field },
}

/// The last stacks, each with a number.
#[derive(Debug, Default)]
struct Stacks {
    /// The number of the first one.
    first: u32,
    stacks: VecDeque<Vec<u64>>,
}

impl Stacks {
    /// Adds a stack and returns its number.
    fn add(&mut self, stack: Vec<u64>) -> Option<u32> {
        if self.stacks.len() >= STACKS {
            self.stacks.pop_front();
            self.first = self.first.checked_add(1)?;
        }
        self.stacks.push_back(stack);
        u32::try_from(self.stacks.len() - 1).ok()?.checked_add(self.first)
    }

    /// Returns a stack; empty if it is too old.
    fn get(&self, number: u32) -> &[u64] {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.stacks.get(index)).map_or(&[], Vec::as_slice)
    }
}

/// A decoder for the events of one kernel.
#[derive(Debug)]
pub(super) struct Decoder {
    layout: Layout,
    meanings: HashMap<u16, Meaning>,
    vectors: Vec<Arc<str>>,
    /// The names of the interrupts that have occurred.
    names: HashMap<i32, Arc<str>>,
    threads: HashMap<i32, ThreadFacts>,
    stacks: Stacks,
    /// The fields that contain the running thread and the context, at the same place in each event.
    running: Option<Field>,
    flags: Option<Field>,
}

impl Decoder {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            meanings: HashMap::new(),
            vectors: Vec::new(),
            names: HashMap::new(),
            threads: HashMap::new(),
            stacks: Stacks::default(),
            running: None,
            flags: None,
        }
    }

    pub(super) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Adds an event. `path` is its directory, for example `sched/sched_switch`. Returns `false` if the decoder does not
    /// use this event, or if the event lacks a field.
    pub(super) fn add(&mut self, path: &str, format: &EventFormat) -> bool {
        let meaning = self.meaning(path, format);
        if let Some(meaning) = meaning {
            self.meanings.insert(format.id, meaning);
            self.running = self.running.or_else(|| format.field("common_pid"));
            self.flags = self.flags.or_else(|| format.field("common_flags"));
        }
        meaning.is_some()
    }

    /// Adds the events that state which function a handler calls. `field` contains its address.
    pub(super) fn add_function(&mut self, field: &str, (entry, exit): (&EventFormat, &EventFormat)) {
        if let Some(field) = entry.field(field) {
            self.meanings.insert(entry.id, Meaning::Calls(field));
            self.meanings.insert(exit.id, Meaning::Returns);
        }
    }

    fn meaning(&mut self, path: &str, format: &EventFormat) -> Option<Meaning> {
        let field = |name: &str| format.field(name);
        let thread = |prefix: &str| {
            let field = |name: &str| format.field(&format!("{prefix}{name}"));
            Some(ThreadFields { pid: field("pid")?, priority: field("prio")?, name: field("comm")? })
        };
        Some(match path {
            "sched/sched_switch" => {
                Meaning::Switch { previous: thread("prev_")?, state: field("prev_state")?, next: thread("next_")? }
            }
            "sched/sched_waking" | "sched/sched_wakeup" | "sched/sched_wakeup_new" => Meaning::Woken(thread("")?),
            "sched/sched_pi_setprio" => {
                Meaning::Inherits { thread: field("pid")?, old: field("oldprio")?, new: field("newprio")? }
            }
            "exceptions/page_fault_user" | "exceptions/page_fault_kernel" => Meaning::Faults(field("address")?),
            "irq/irq_handler_entry" => Meaning::HardBegins(field("irq")?, field("name")),
            "irq/irq_handler_exit" => Meaning::HardEnds(field("irq")?),
            "irq/softirq_entry" => Meaning::SoftBegins(field("vec")?),
            "irq/softirq_exit" => Meaning::SoftEnds(field("vec")?),
            "timer/hrtimer_expire_entry" => Meaning::TimerBegins,
            "timer/hrtimer_expire_exit" => Meaning::TimerEnds,
            "nmi/nmi_handler" => Meaning::Nmi { handler: field("handler")?, length: field("delta_ns")? },
            "power/cpu_idle" => Meaning::Idle(field("state")?),
            STACK => Meaning::Stack { size: field("size")?, first: field("caller")? },
            _ => {
                let (group, event) = path.split_once('/')?;
                if !["irq_vectors", "ipi"].contains(&group) {
                    return None;
                }
                if let Some(name) = event.strip_suffix("_entry") {
                    Meaning::VectorBegins(self.vector(name)?)
                } else {
                    Meaning::VectorEnds(self.vector(event.strip_suffix("_exit")?)?)
                }
            }
        })
    }

    fn vector(&mut self, name: &str) -> Option<u16> {
        let index = self.vectors.iter().position(|other| **other == *name).unwrap_or_else(|| {
            self.vectors.push(name.into());
            self.vectors.len() - 1
        });
        u16::try_from(index).ok()
    }

    /// Returns the name of an interrupt of the CPU itself.
    pub(super) fn vector_name(&self, vector: u16) -> Option<Arc<str>> {
        self.vectors.get(usize::from(vector)).cloned()
    }

    /// Returns the name of the handler of an interrupt.
    pub(super) fn handler_name(&self, irq: i32) -> Option<Arc<str>> {
        self.names.get(&irq).cloned()
    }

    /// Decodes an entry. `None` if it is not one of the added events, or too short for its fields.
    #[expect(clippy::too_many_lines, reason = "one arm for each event")]
    pub(super) fn decode(&mut self, time: u64, content: &[u8]) -> Option<Event> {
        let big_endian = self.layout.big_endian;
        // Every event begins with its number; see the field common_type in each format file.
        let id = u16::try_from(integer(content.get(..2)?, big_endian)).ok()?;
        let unsigned = |field: Field| {
            let bytes = content.get(field.offset..field.offset.checked_add(field.size)?)?;
            (field.size <= 8).then(|| integer(bytes, big_endian))
        };
        // All these values have at most 32 significant bits.
        let number = |field: Field| u32::try_from(unsigned(field)? & 0xffff_ffff).ok();
        let signed = |field: Field| number(field).map(|bits: u32| i32::from_ne_bytes(bits.to_ne_bytes()));
        let facts = |fields: ThreadFields| {
            let ThreadFields { pid, priority, name } = fields;
            let name = thread_name(content.get(name.offset..name.offset.checked_add(name.size)?)?);
            Some((signed(pid)?, ThreadFacts { priority: signed(priority)?, name }))
        };
        let what = match *self.meanings.get(&id)? {
            Meaning::Switch { previous, state, next } => {
                let ((previous, of_previous), (next, of_next)) = (facts(previous)?, facts(next)?);
                Self::remember(&mut self.threads, previous, of_previous);
                Self::remember(&mut self.threads, next, of_next);
                // The lower eight bits are the states in which a thread waits; TASK_REPORT in the kernel's
                // include/linux/sched.h.
                let state = u8::try_from(unsigned(state)? & 0xff).ok()?;
                What::Switch { previous, state, next, facts: of_next }
            }
            Meaning::Woken(thread) => {
                let (thread, facts) = facts(thread)?;
                Self::remember(&mut self.threads, thread, facts);
                What::Woken { thread, priority: facts.priority }
            }
            Meaning::Inherits { thread, old, new } => {
                let (thread, priority) = (signed(thread)?, signed(new)?);
                What::Inherits { thread, priority, is_raised: priority < signed(old)? }
            }
            Meaning::Faults(address) => What::Faults(unsigned(address)?),
            Meaning::HardBegins(irq, name) => {
                let irq = signed(irq)?;
                if !self.names.contains_key(&irq) && self.names.len() < NAMES {
                    let name = name.and_then(|name| text_at(content, name, unsigned(name)?));
                    self.names.extend(name.map(|name| (irq, name)));
                }
                What::HardBegins(irq)
            }
            Meaning::HardEnds(irq) => What::HardEnds(signed(irq)?),
            Meaning::VectorBegins(vector) => What::VectorBegins(vector),
            Meaning::VectorEnds(vector) => What::VectorEnds(vector),
            Meaning::SoftBegins(vector) => What::SoftBegins(number(vector)?),
            Meaning::SoftEnds(vector) => What::SoftEnds(number(vector)?),
            Meaning::TimerBegins => What::TimerBegins,
            Meaning::TimerEnds => What::TimerEnds,
            Meaning::Nmi { handler, length } => {
                What::NmiEnds { handler: unsigned(handler)?, length_ns: unsigned(length)? }
            }
            Meaning::Calls(function) => What::Calls(unsigned(function)?),
            Meaning::Returns => What::Returns,
            Meaning::Idle(state) => What::Idle(number(state).filter(|&state| state != u32::MAX)),
            Meaning::Stack { size, first } => {
                let length = usize::try_from(number(size)?).ok()?.min(ADDRESSES);
                let bytes = content.get(first.offset..)?.chunks_exact(self.layout.commit_size).take(length);
                let stack = bytes.map(|bytes| integer(bytes, big_endian)).collect();
                What::Stack(self.stacks.add(stack)?)
            }
        };
        let running = match what {
            What::Switch { previous, .. } => previous,
            _ => signed(self.running?)?,
        };
        let flags = self.flags.and_then(number).and_then(|flags| u8::try_from(flags & 0xff).ok());
        Some(Event { time, running, flags: flags.unwrap_or_default(), what })
    }

    /// Names an interrupt, an interrupt of the CPU itself, and a thread, as their events would.
    #[cfg(test)]
    pub(super) fn name(&mut self, irq: i32, handler: &str, vector: &str, (pid, facts): (i32, ThreadFacts)) {
        self.names.insert(irq, handler.into());
        self.vector(vector);
        self.threads.insert(pid, facts);
    }

    fn remember(threads: &mut HashMap<i32, ThreadFacts>, pid: i32, facts: ThreadFacts) {
        // The table is renewed from the next events.
        if threads.len() >= NAMES && !threads.contains_key(&pid) {
            threads.clear();
        }
        threads.insert(pid, facts);
    }

    /// Returns the addresses in a stack, innermost first.
    pub(super) fn stack(&self, number: u32) -> &[u64] {
        self.stacks.get(number)
    }

    /// Returns the numbers of the interrupts of timers that have occurred.
    pub(super) fn timer_interrupts(&self) -> impl Iterator<Item = i32> {
        self.names.iter().filter(|(_, name)| is_timer_name(name)).map(|(&irq, _)| irq)
    }

    /// Returns the most recent name and priority of a thread.
    pub(super) fn thread(&self, pid: i32) -> Option<ThreadFacts> {
        self.threads.get(&pid).copied()
    }
}

/// Returns whether an interrupt handler with this name serves the timer of a CPU.
pub(super) fn is_timer_name(name: &str) -> bool {
    ["timer", "hpet", "clockevent", "twd", "mct_"].iter().any(|part| name.contains(part))
}

fn thread_name(bytes: &[u8]) -> ThreadName {
    let mut name = [0; 16];
    for (to, &from) in name.iter_mut().zip(bytes).take(15).take_while(|&(_, &byte)| byte != 0) {
        *to = from;
    }
    name
}

/// Returns the text of a field, without control characters.
fn text_at(content: &[u8], field: Field, value: u64) -> Option<Arc<str>> {
    let (at, length) = if field.is_location {
        (usize::try_from(value & 0xffff).ok()?, usize::try_from(value >> 16 & 0xffff).ok()?)
    } else {
        return None;
    };
    let bytes = content.get(at..at.checked_add(length)?)?;
    let text = printable(bytes.split(|&byte| byte == 0).next()?);
    (!text.is_empty()).then(|| text.into())
}

/// Returns bytes as text in which every unprintable character is replaced.
pub(super) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Returns the names of the softirqs; see softirq_to_name in the kernel's kernel/softirq.c.
pub(super) fn softirq_name(vector: u32) -> String {
    const NAMES: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let name = usize::try_from(vector).ok().and_then(|vector| NAMES.get(vector));
    name.map_or_else(|| vector.to_string(), |&name| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Decoder, STACK, What};
    use crate::trace::format::{EventFormat, Layout};

    const COMMON: &str = "ID: 4\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n";

    /// Returns a decoder of stacks of a kernel with words of this size, and an entry with these addresses, of which it
    /// states `length`.
    fn stack(word: usize, length: u32, addresses: &[u64]) -> (Decoder, Vec<u8>) {
        let layout = Layout { big_endian: false, commit_size: word, data_offset: 8 + word, page_size: 4_096 };
        let first = if word == 8 { 16 } else { 12 };
        let caller = format!("\tfield:unsigned long caller[8];\toffset:{first};\tsize:64;\tsigned:0;\n");
        let mut decoder = Decoder::new(layout);
        assert!(decoder.add(STACK, &EventFormat::parse(&format!("{COMMON}{caller}")).expect("a format")));
        let mut entry = vec![0; first];
        (entry[0], entry[4]) = (4, 17);
        entry[8..12].copy_from_slice(&length.to_le_bytes());
        for address in addresses {
            entry.extend(&address.to_le_bytes()[..word]);
        }
        (decoder, entry)
    }

    #[test]
    fn a_stack_has_the_addresses_of_its_entry() {
        for word in [4, 8] {
            let addresses = [0xc010_0000, 0xc020_0004];
            let (mut decoder, entry) = stack(word, 2, &addresses);
            let event = decoder.decode(1, &entry).expect("an event");
            assert_eq!((event.running, event.what), (17, What::Stack(0)));
            assert_eq!(decoder.stack(0), addresses, "{word}");
            // It ends with its entry.
            let (mut decoder, entry) = stack(word, u32::MAX, &addresses);
            assert!(decoder.decode(1, &entry[..11]).is_none() && decoder.decode(1, &entry).is_some());
            assert_eq!(decoder.stack(0), addresses, "{word}");
        }
    }

    #[test]
    fn only_the_last_stacks_are_kept() {
        let (mut decoder, _) = stack(8, 1, &[]);
        let mut add = |address| {
            let event = decoder.decode(1, &stack(8, 1, &[address]).1).expect("an event");
            let What::Stack(number) = event.what else { panic!("{event:?}") };
            number
        };
        let (first, last) = (add(1), (0..5_000).map(&mut add).last().expect("a number"));
        assert_eq!(
            (decoder.stack(first), decoder.stack(last), decoder.stack(last + 1)),
            (&[][..], &[4_999][..], &[][..])
        );
    }
}
