//! The facts about threads that the trace does not contain: their scheduling policies, and whether they belong to this
//! process. Changes no thread.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

/// The maximum number of threads whose policy is kept, and of threads of this process.
const MOST: usize = 4_096;

/// The threads that appear in the trace, as read from /proc.
#[derive(Debug)]
pub(super) struct Threads {
    reads: bool,
    policies: HashMap<(i32, String), Option<&'static str>>,
    /// The threads of this process, including those that have ended.
    own: HashSet<i32>,
}

impl Threads {
    /// Creates an empty list. Without `reads`, nothing is known, as for a trace of another machine.
    pub(super) fn new(reads: bool) -> Self {
        Self { reads, policies: HashMap::new(), own: HashSet::new() }
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

    /// Returns the policy of a thread; `None` if the thread has ended or has another name by now.
    pub(super) fn policy(&mut self, pid: i32, name: &str) -> Option<&'static str> {
        if !self.reads || pid <= 0 {
            return None;
        }
        if let Some(&policy) = self.policies.get(&(pid, name.to_owned())) {
            return policy;
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let policy = stat.and_then(|stat| policy_of(&stat, name));
        if self.policies.len() < MOST {
            self.policies.insert((pid, name.to_owned()), policy);
        }
        policy
    }
}

/// Returns the policy in a line of /proc/PID/stat, if the thread has this name; see proc_pid_stat(5).
fn policy_of(stat: &str, name: &str) -> Option<&'static str> {
    let (before, after) = stat.rsplit_once(')')?;
    // The name of a kernel worker in /proc contains its current work.
    let is_same = before.split_once('(')?.1.starts_with(name);
    let number: u32 = after.split_whitespace().nth(38)?.parse().ok()?;
    is_same.then_some(match number {
        0 => "other",
        1 => "fifo",
        2 => "rr",
        3 => "batch",
        5 => "idle",
        6 => "deadline",
        7 => "ext",
        _ => "unknown",
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::{Threads, policy_of};
    use crate::sys::signals::this_thread;

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
    fn the_policy_is_the_forty_first_number() {
        let stat = "17 (a b) c) S 2 0 0 0 -1 69238848 0 0 0 0 0 0 0 0 -100 0 1 0 5 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 99 1 0 0 0";
        assert_eq!(policy_of(stat, "a b) c"), Some("fifo"));
        assert_eq!(policy_of(stat, "other"), None);
        assert_eq!(policy_of("17 (a) S 1", "a"), None);
    }
}
