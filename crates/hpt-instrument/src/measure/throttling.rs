//! How often the CPU quota of the calling thread's control groups was used up between two reads. Files stay open.

use std::fs::File;

use hpt_sys::{
    host::{Host, Throttled},
    process::Scheduling,
};

use super::open_file::read;

/// The counts of the control groups that have a quota.
#[derive(Debug)]
pub(super) struct Throttling {
    /// The counts, each with its previous value.
    groups: Vec<(File, Throttled)>,
    /// Whether no other group can have a quota.
    are_all: bool,
}

impl Throttling {
    #[allow(clippy::disallowed_methods, reason = "files of the kernel")]
    pub(super) fn open(host: &Host, buffer: &mut Vec<u8>) -> Self {
        let Some(found) = host.quota_counts() else { return Self { groups: Vec::new(), are_all: false } };
        let open = |path| Some((File::open(path).ok()?, Throttled::default()));
        let groups: Vec<_> = found.files.iter().filter_map(open).collect();
        let mut opened = Self { are_all: found.are_all && groups.len() == found.files.len(), groups };
        opened.since(buffer);
        opened
    }

    /// Returns the increase since the last call, in the group that was paused the longest; `None` if a quota that is
    /// not visible may have been used up.
    pub(super) fn since(&mut self, buffer: &mut Vec<u8>) -> Option<Throttled> {
        let (mut longest, mut is_known) = (Throttled::default(), self.are_all);
        for (file, before) in &mut self.groups {
            match read(file, buffer).and_then(Throttled::parse) {
                Some(now) => longest = longest.max(now.since(std::mem::replace(before, now))),
                None => is_known = false,
            }
        }
        // A quota applies only to threads of the fair class, and of the class below it.
        let is_limited = || Scheduling::of_this_thread().map_or(true, |own| FAIR.contains(&own.policy));
        if longest.times > 0 && !is_limited() {
            return Some(Throttled::default());
        }
        (is_known || longest.times > 0).then_some(longest)
    }
}

const FAIR: [libc::c_int; 3] = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
