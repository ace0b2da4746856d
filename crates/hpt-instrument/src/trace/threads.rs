//! The facts about threads that the trace does not contain: their scheduling policies, and whether they belong to this
//! process.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use super::events::printable;

/// The maximum number of threads whose policy is kept, and of threads of this process.
const MOST: usize = 4_096;
/// Linux, include/linux/sched.h, PF_KTHREAD.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The threads that appear in the trace, as read from /proc.
#[derive(Debug)]
pub(super) struct Threads {
    reads: bool,
    stated: HashMap<(i32, String), Option<Stated>>,
    /// The threads of this process, including those that have ended.
    own: HashSet<i32>,
}

impl Threads {
    /// Creates an empty list. Without `reads`, nothing is known, as for a trace of another machine.
    pub(super) fn new(reads: bool) -> Self {
        Self { reads, stated: HashMap::new(), own: HashSet::new() }
    }

    /// Adds the threads that this process has at present. A thread that ends later remains known.
    pub(super) fn add_own(&mut self) {
        if !self.reads {
            return;
        }
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
        let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
        let room = MOST.saturating_sub(self.own.len());
        self.own.extend(threads.take(room));
    }

    /// Returns whether a thread belongs to this process, or did at a call of [`add_own`](Self::add_own).
    pub(super) fn is_own(&self, pid: i32) -> bool {
        self.own.contains(&pid)
    }

    /// Returns the settings of a thread; `None` if it has ended or has another name by now.
    pub(super) fn stated(&mut self, pid: i32, name: &str) -> Option<Stated> {
        if !self.reads || pid <= 0 {
            return None;
        }
        if let Some(&stated) = self.stated.get(&(pid, name.to_owned())) {
            return stated;
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let stated = stat.and_then(|stat| stated_by(&stat, name));
        if self.stated.len() < MOST {
            self.stated.insert((pid, name.to_owned()), stated);
        }
        stated
    }

    /// Returns the present name of a thread of which the trace contains only the number.
    pub(super) fn name(&self, pid: i32) -> Option<String> {
        let name = if self.reads { fs::read(format!("/proc/{pid}/comm")).ok()? } else { return None };
        Some(printable(name.trim_ascii_end()))
    }

    /// Returns the file, or the kernel's name, of the mapping of this process that contains an address.
    pub(super) fn mapping(&self, address: u64) -> Option<String> {
        let maps = if self.reads { fs::read_to_string("/proc/self/maps").ok()? } else { return None };
        maps.lines().find_map(|line| mapping_of(line, address))
    }
}

/// The settings of a thread, as /proc states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stated {
    pub(super) policy: &'static str,
    /// Its real-time priority, without that which it inherits from a waiting thread; zero if it has none.
    pub(super) priority: u8,
    /// Whether it belongs to the kernel.
    pub(super) is_kernel: bool,
}

/// Returns the settings in a line of /proc/PID/stat, if the thread has this name; see proc_pid_stat(5).
fn stated_by(stat: &str, name: &str) -> Option<Stated> {
    let (before, after) = stat.rsplit_once(')')?;
    // The name of a kernel worker in /proc contains its current work.
    let is_same = before.split_once('(')?.1.starts_with(name);
    let fields: Vec<&str> = after.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    is_same.then_some(Stated {
        policy: match field(41)? {
            0 => "other",
            1 => "fifo",
            2 => "rr",
            3 => "batch",
            5 => "idle",
            6 => "deadline",
            7 => "ext",
            _ => "unknown",
        },
        priority: u8::try_from(field(40)?).ok()?,
        is_kernel: field(9)? & KERNEL_THREAD != 0,
    })
}

/// Returns the name of the mapping in a line of /proc/PID/maps, if it contains an address; see proc_pid_maps(5).
fn mapping_of(line: &str, address: u64) -> Option<String> {
    let mut fields = line.split_whitespace();
    let (begin, end) = fields.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let is_inside = (number(begin)?..number(end)?).contains(&address);
    let name = fields.nth(4).unwrap_or("[anonymous]");
    is_inside.then(|| name.chars().filter(|c| !c.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::{Stated, Threads, mapping_of, stated_by};
    use hpt_sys::signals::this_thread;

    #[test]
    fn a_thread_of_this_process_is_known_even_after_its_end() {
        let mut threads = Threads::new(true);
        let (ends, end) = mpsc::channel::<()>();
        let (tells, told) = mpsc::channel();
        let other = std::thread::spawn(move || {
            tells.send(this_thread()).expect("the test waits for it");
            end.recv().expect_err("the test sends nothing");
        });
        let other_thread = told.recv().expect("the thread sends its number");
        assert!(!threads.is_own(other_thread));
        threads.add_own();
        drop(ends);
        other.join().expect("a thread that does not panic");
        threads.add_own();
        assert!(threads.is_own(other_thread) && threads.is_own(this_thread()));
        // The first thread of the system belongs to another process.
        assert!(!threads.is_own(1) && !threads.is_own(0) && !threads.is_own(-1));
        let mut of_another_machine = Threads::new(false);
        of_another_machine.add_own();
        assert!(!of_another_machine.is_own(this_thread()));
    }

    #[test]
    fn the_settings_of_a_thread_are_those_of_its_line() {
        let stat = "17 (a b) c) S 2 0 0 0 -1 69238848 0 0 0 0 0 0 0 0 -100 0 1 0 5 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 99 1 0 0 0";
        assert_eq!(stated_by(stat, "a b) c"), Some(Stated { policy: "fifo", priority: 99, is_kernel: true }));
        let program = stat.replace("69238848", "4194560").replace("99 1 0 0 0", "0 0 0 0 0");
        assert_eq!(stated_by(&program, "a b) c"), Some(Stated { policy: "other", priority: 0, is_kernel: false }));
        assert_eq!((stated_by(stat, "other"), stated_by("17 (a) S 1", "a")), (None, None));
    }

    #[test]
    fn a_mapping_is_named_by_its_file() {
        let line = "7f00a000-7f00c000 r-xp 00000000 08:01 1234 /usr/bin/hpt";
        assert_eq!(mapping_of(line, 0x7f00_a000).as_deref(), Some("/usr/bin/hpt"));
        assert_eq!((mapping_of(line, 0x7f00_c000), mapping_of("x", 0)), (None, None));
        assert_eq!(mapping_of("1000-2000 rw-p 00000000 00:00 0", 0x1fff).as_deref(), Some("[anonymous]"));
    }
}
