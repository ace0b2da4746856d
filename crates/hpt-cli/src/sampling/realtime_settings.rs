//! The scheduling and system settings that are active during a run, and the settings that were refused. This module
//! changes no settings, but its guard restores the previous settings on drop.

use std::{path::PathBuf, time::Duration};

use hpt_document::thread::{FairServer, RealtimeBandwidth, RefusedSetting, Thread};
use hpt_realtime::{self, Behavior, FAIR_SERVER_SINCE, knobs::KnobError};
use hpt_sys::host::KernelRelease;

use crate::{
    exit::{causes, restore_command},
    output::exact_time,
};

/// A guard that keeps the settings active until it is dropped.
#[derive(Debug)]
pub(crate) struct SettingsGuard {
    pub(super) held: hpt_realtime::RealtimeGuard,
    pub(super) conduct: Behavior,
    /// Whether the kernel has fair servers, which reserve time for ordinary threads.
    pub(super) has_fair_server: bool,
    /// The requested CPUs that were refused before the settings were applied.
    pub(super) refused_cpus: Vec<RefusedSetting>,
    /// The directory of the journal that records the system settings.
    pub(super) journal: PathBuf,
}

/// The active settings.
#[derive(Clone, Debug)]
pub(crate) struct EffectiveSettings {
    pub(crate) thread: Thread,
    /// An additional note.
    remark: Option<&'static str>,
}

/// Returns whether the kernel with this release has fair servers. Returns `false` if the format
/// of the release is unknown.
pub(super) fn has_fair_server(release: &str) -> bool {
    KernelRelease::parse(release).is_some_and(|release| release >= FAIR_SERVER_SINCE)
}

impl SettingsGuard {
    /// Returns the CPU to which the thread is pinned.
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.held.cpu()
    }

    /// Adds CPUs that were refused before the settings were applied.
    pub(crate) fn without_cpus(self, refused: Vec<RefusedSetting>) -> Self {
        Self { refused_cpus: refused, ..self }
    }

    /// Returns the active settings, as the kernel reports them.
    pub(crate) fn settings(&self) -> EffectiveSettings {
        let refused = self.held.refused().iter();
        let refused = refused
            .map(|refused| RefusedSetting { setting: refused.setting.to_owned(), reason: causes(&refused.error) })
            .chain(self.refused_cpus.iter().cloned());
        let mut settings = EffectiveSettings { thread: thread(self.held.effective(), refused.collect()), remark: None };
        let may_be_kept_from = self.conduct == Behavior::Spins && is_throttleable(&settings.thread);
        if self.has_fair_server && may_be_kept_from && settings.thread.fair_server.is_none() {
            settings.remark = Some(UNTOLD);
        }
        settings
    }

    /// Returns the reason why disabling throttling may not be enough: the kernel has fair servers whose
    /// settings cannot be read.
    pub(crate) fn fair_server_untold(&self) -> Option<&'static str> {
        (self.has_fair_server && self.held.effective().fair_server.is_none()).then_some(UNTOLD)
    }

    /// Restores all settings. Returns a message for each system setting that does not have its original value.
    pub(crate) fn end(self) -> Vec<String> {
        self.restore().1
    }

    /// Restores all settings. Returns whether none is left changed by hpt, and the messages.
    pub(crate) fn restore(self) -> (bool, Vec<String>) {
        let Self { held, journal, .. } = self;
        let failed = held.undo();
        let is_done = failed.iter().all(|error| matches!(error, KnobError::ChangedSince { .. }));
        let told = failed.iter().map(|error| match error {
            KnobError::ChangedSince { .. } => causes(error),
            _ => format!("cannot restore a setting: {}; run `{}`", causes(error), restore_command(&journal)),
        });
        (is_done, told.collect())
    }
}

const UNTOLD: &str = "since Linux 6.12, a fair server reserves part of each second for waiting ordinary threads, regardless of sched_rt_runtime_us; hpt cannot read or \
                      change the amount, because that requires root, a mounted debugfs (mount -t debugfs none /sys/kernel/debug), and a kernel that is not locked down";

impl EffectiveSettings {
    /// Returns whether the thread takes precedence over threaded interrupt handlers, which run under SCHED_FIFO 50 by
    /// default.
    pub(crate) fn is_before_interrupts(&self) -> bool {
        match self.thread.policy.as_deref() {
            Some("fifo" | "rr") => self.thread.priority.is_some_and(|priority| priority >= 50),
            policy => policy == Some("deadline"),
        }
    }

    /// Combines the settings of several threads: the settings of the first thread, the CPUs of all threads,
    /// and all settings that were refused for a thread or for the run.
    pub(crate) fn of_several(whole: &Self, threads: impl IntoIterator<Item = Self>) -> Self {
        let mut threads = threads.into_iter();
        let mut all = threads.next().unwrap_or_else(|| whole.clone());
        for thread in threads {
            all.thread.cpus.extend(thread.thread.cpus);
            all.thread.governors.extend(thread.thread.governors);
            all.thread.refused.extend(thread.thread.refused);
        }
        all.thread.refused.extend(whole.thread.refused.iter().cloned());
        all.thread.cpus.sort_unstable();
        all.thread.cpus.dedup();
        all.thread.governors.sort_unstable();
        all.thread.governors.dedup();
        all.thread.refused.sort();
        all.thread.refused.dedup();
        all
    }

    /// Returns notes on refused settings, and the additional note, if any.
    pub(crate) fn notes(&self) -> Vec<String> {
        let refused =
            self.thread.refused.iter().map(|RefusedSetting { setting, reason }| format!("without {setting}: {reason}"));
        refused.chain(self.remark.map(str::to_owned)).collect()
    }

    /// Returns the CPU of the thread and the settings, as text.
    pub(crate) fn words(&self, cpu: Option<usize>) -> String {
        words(&self.thread, cpu)
    }
}

/// Converts the settings that the kernel reports into document fields.
fn thread(told: hpt_realtime::EffectiveSettings, refused: Vec<RefusedSetting>) -> Thread {
    Thread {
        cpus: told.cpus,
        policy: told.policy,
        priority: told.priority,
        nice: told.nice,
        deadline_runtime_ns: told.deadline_runtime_ns,
        deadline_ns: told.deadline_ns,
        deadline_period_ns: told.deadline_period_ns,
        locked_bytes: told.locked_bytes,
        timer_slack_ns: told.timer_slack_ns,
        wake_latency_us: told.wake_latency_us,
        bandwidth: told
            .bandwidth
            .map(|bandwidth| RealtimeBandwidth { runtime_us: bandwidth.runtime_us, period_us: bandwidth.period_us }),
        fair_server: told.fair_server.map(|server| FairServer {
            cpu: server.cpu,
            runtime_ns: server.runtime_ns,
            period_ns: server.period_ns,
        }),
        governors: told.governors,
        turbo: told.turbo,
        refused,
    }
}

fn is_throttleable(thread: &Thread) -> bool {
    matches!(thread.policy.as_deref(), Some("fifo" | "rr"))
}

/// Returns the CPU of the thread and the settings, as text.
pub(crate) fn words(thread: &Thread, cpu: Option<usize>) -> String {
    words_behind(pinned_to(cpu), thread)
}

/// Returns the settings as text, for threads that are pinned to these CPUs.
pub(crate) fn words_of_threads(thread: &Thread, cpus: &[usize]) -> String {
    match cpus {
        [] => words(thread, None),
        [cpu] => words(thread, Some(*cpu)),
        _ => words_behind("A thread on each CPU".to_owned(), thread),
    }
}

/// Returns the scheduling policy and the priority: `SCHED_FIFO 80`.
pub(crate) fn policy_of(thread: &Thread) -> Option<String> {
    let policy = format!("SCHED_{}", thread.policy.as_ref()?.to_uppercase());
    Some(thread.priority.map_or_else(|| policy.clone(), |priority| format!("{policy} {priority}")))
}

fn words_behind(mut words: String, told: &Thread) -> String {
    let ns = Duration::from_nanos;
    if let Some(policy) = policy_of(told).filter(|_| told.policy.as_deref() != Some("other")) {
        words.push_str(&format!(", {policy}"));
        if let Some((runtime, period)) = told.deadline_runtime_ns.zip(told.deadline_period_ns) {
            words.push_str(&format!(" {:?}/{:?}", ns(runtime), ns(period)));
        }
    }
    if is_throttleable(told) {
        let kept = told.bandwidth.as_ref().filter(|bandwidth| (0..bandwidth.period_us).contains(&bandwidth.runtime_us));
        let us = |us: i64| exact_time(Duration::from_micros(us.unsigned_abs()));
        if let Some(kept) = kept {
            words.push_str(&format!(", throttled to {} of each {}", us(kept.runtime_us), us(kept.period_us)));
        } else if told.bandwidth.is_some() {
            words.push_str(", sched_rt_runtime_us off");
        }
        match told.fair_server.as_ref().map(|server| (ns(server.runtime_ns), ns(server.period_ns))) {
            Some((runtime, _)) if runtime.is_zero() => words.push_str(", fair server off"),
            Some((runtime, period)) => {
                let [runtime, period] = [runtime, period].map(exact_time);
                words.push_str(&format!(", {runtime} of each {period} reserved for ordinary threads"));
            }
            None => {}
        }
    }
    if told.locked_bytes.is_some_and(|bytes| bytes > 0) {
        words.push_str(", memory locked");
    }
    match told.wake_latency_us {
        Some(0) => words.push_str(", idle states disabled"),
        // Larger values, such as the kernel's default, mean that there is no limit.
        Some(us) if us < 1_000_000 => words.push_str(&format!(", idle exit latency ≤ {us} µs")),
        Some(_) | None => {}
    }
    if !told.governors.is_empty() {
        words.push_str(&format!(", governor {}", told.governors.join(" and ")));
    }
    match told.turbo {
        Some(true) => words.push_str(", turbo on"),
        Some(false) => words.push_str(", turbo off"),
        None => {}
    }
    words
}

pub(crate) fn pinned_to(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| "Not pinned".to_owned(), |cpu| format!("Pinned to CPU {cpu}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use hpt_document::thread::{FairServer, RealtimeBandwidth, RefusedSetting, Thread};

    use super::{EffectiveSettings, has_fair_server};

    /// Returns example settings, for tests of the output.
    pub(crate) fn example() -> EffectiveSettings {
        let thread = Thread {
            cpus: vec![1],
            policy: Some("fifo".to_owned()),
            priority: Some(50),
            nice: None,
            deadline_runtime_ns: None,
            deadline_ns: None,
            deadline_period_ns: None,
            locked_bytes: Some(5_242_880),
            timer_slack_ns: Some(0),
            wake_latency_us: Some(0),
            bandwidth: Some(RealtimeBandwidth { runtime_us: -1, period_us: 1_000_000 }),
            fair_server: Some(FairServer { cpu: 1, runtime_ns: 50_000_000, period_ns: 1_000_000_000 }),
            governors: vec!["performance".to_owned()],
            turbo: None,
            refused: vec![RefusedSetting { setting: "turbo".to_owned(), reason: "there is no such switch".to_owned() }],
        };
        EffectiveSettings { thread, remark: None }
    }

    #[test]
    fn effective_settings_are_described() {
        let mut settings = example();
        assert_eq!(
            settings.words(Some(1)),
            "Pinned to CPU 1, SCHED_FIFO 50, sched_rt_runtime_us off, 50 ms of each 1 s reserved for ordinary threads, memory locked, idle states disabled, governor performance"
        );
        assert_eq!(settings.notes(), ["without turbo: there is no such switch"]);
        let told = &mut settings.thread;
        (told.policy, told.priority) = (Some("deadline".to_owned()), None);
        (told.deadline_runtime_ns, told.deadline_period_ns) = (Some(2_000_000), Some(10_000_000));
        (told.locked_bytes, told.wake_latency_us, told.turbo) = (Some(0), Some(20), Some(false));
        told.governors.clear();
        assert_eq!(settings.words(None), "Not pinned, SCHED_DEADLINE 2ms/10ms, idle exit latency ≤ 20 µs, turbo off");
        let told = &mut settings.thread;
        (told.policy, told.deadline_runtime_ns) = (Some("rr".to_owned()), None);
        (told.wake_latency_us, told.turbo, told.fair_server) = (Some(2_000_000_000), None, None);
        told.bandwidth = Some(RealtimeBandwidth { runtime_us: 950_000, period_us: 1_000_000 });
        assert_eq!(settings.words(None), "Not pinned, SCHED_RR, throttled to 950 ms of each 1 s");
    }

    #[test]
    fn settings_of_several_threads_are_reported_once() {
        let (mut one, mut other) = (example(), example());
        other.thread.cpus = vec![0];
        other.thread.governors = vec!["powersave".to_owned()];
        one.remark = Some("a remark");
        let all = EffectiveSettings::of_several(&example(), [one, other]);
        assert_eq!((all.thread.cpus.as_slice(), all.thread.refused.len()), (&[0, 1][..], 1));
        assert_eq!(all.thread.governors, ["performance", "powersave"]);
        assert_eq!(all.notes(), ["without turbo: there is no such switch", "a remark"]);
    }

    #[test]
    fn kernels_from_6_12_on_have_a_fair_server() {
        assert!(["6.12.0", "6.18.44-fc-v595", "7.0-rc1"].into_iter().all(has_fair_server));
        assert!(!["6.11.9", "6.1.0-12-arm64", "", "unknown", "6"].into_iter().any(has_fair_server));
    }
}
