//! The scheduling policies of the threads that appear in the trace, which contains only priorities. Changes no thread.

use std::{collections::HashMap, fs};

/// The maximum number of threads whose policy is kept.
const MOST: usize = 4_096;

/// The policies of threads, as read from /proc when they first appear.
#[derive(Debug)]
pub(super) struct Policies {
    reads: bool,
    known: HashMap<(i32, String), Option<&'static str>>,
}

impl Policies {
    /// Creates an empty list. Without `reads`, no policy is known, as for a trace of another machine.
    pub(super) fn new(reads: bool) -> Self {
        Self { reads, known: HashMap::new() }
    }

    /// Returns the policy of a thread; `None` if the thread has ended or has another name by now.
    pub(super) fn of(&mut self, pid: i32, name: &str) -> Option<&'static str> {
        if !self.reads || pid <= 0 {
            return None;
        }
        if let Some(&policy) = self.known.get(&(pid, name.to_owned())) {
            return policy;
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let policy = stat.and_then(|stat| policy_of(&stat, name));
        if self.known.len() < MOST {
            self.known.insert((pid, name.to_owned()), policy);
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
    use super::policy_of;

    #[test]
    fn the_policy_is_the_forty_first_number() {
        let stat = "17 (a b) c) S 2 0 0 0 -1 69238848 0 0 0 0 0 0 0 0 -100 0 1 0 5 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 1 99 1 0 0 0";
        assert_eq!(policy_of(stat, "a b) c"), Some("fifo"));
        assert_eq!(policy_of(stat, "other"), None);
        assert_eq!(policy_of("17 (a) S 1", "a"), None);
    }
}
