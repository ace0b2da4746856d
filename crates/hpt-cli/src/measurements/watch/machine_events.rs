//! System events during a watch: suspend, migration, clocksource changes, and CPUs that go offline or come online.

use std::{
    fs::File,
    time::{Duration, SystemTime},
};

use hpt_core::{Host, Opened, clock};
use hpt_document::watch::{CpuOffline, MachineEvent, MachineEventKind};
use hpt_instrument::diagnose::{Suspends, counter_of_clock_source, suspended_between};
use hpt_realtime::knobs::Knob;
use hpt_sys::host::{CpuList, NewLogLines};

use crate::{context::Context, exit::Failure, output::rounded};

/// The online CPUs, and the times when other CPUs were offline.
#[derive(Debug, Default)]
pub(super) struct CpuStates {
    /// `None` if neither sysfs nor /proc lists the online CPUs.
    pub(super) running: Option<CpuList>,
    pub(super) offline: Vec<CpuOffline>,
}

impl CpuStates {
    pub(super) fn is_running(&self, cpu: usize) -> bool {
        self.running.as_ref().is_none_or(|running| running.contains(cpu))
    }

    /// Updates the online CPUs, and returns what changed. An unknown state counts as unchanged.
    pub(super) fn follow(&mut self, now: Option<CpuList>, at_s: f64) -> Vec<MachineEvent> {
        let (Some(was), Some(now)) = (self.running.as_ref(), now.as_ref()) else {
            self.running = now.or(self.running.take());
            return Vec::new();
        };
        if was == now {
            return Vec::new();
        }
        let event = |kind, message| MachineEvent { kind, at_s, suspended_ns: None, message };
        let mut events = Vec::new();
        for cpu in was.iter().filter(|&cpu| !now.contains(cpu)) {
            events.push(event(MachineEventKind::CpuOffline, format!("CPU {cpu} went offline")));
            self.offline.push(CpuOffline { cpu, from_s: at_s, to_s: None });
        }
        for cpu in now.iter().filter(|&cpu| !was.contains(cpu)) {
            events.push(event(MachineEventKind::CpuOnline, format!("CPU {cpu} came online")));
            let open = self.offline.iter_mut().find(|offline| offline.cpu == cpu && offline.to_s.is_none());
            if let Some(offline) = open {
                offline.to_s = Some(at_s);
            }
        }
        self.running = Some(now.clone());
        events
    }
}

/// The clocks and files that reveal the events that invalidate a comparison.
pub(super) struct MachineWatch {
    pub(super) monotonic: Opened,
    pub(super) boottime: Opened,
    pub(super) timed_by: ClocksourceNotices,
    pub(super) begun_s: f64,
    pub(super) last: MachineSnapshot,
    pub(super) tick_ppm: f64,
    pub(super) cpus: CpuStates,
}

/// The files that reveal a change of the clocksource.
pub(super) struct ClocksourceNotices {
    log: Option<NewLogLines>,
    /// The file that sets the clocksource. It stays open, because the kernel may forget the modification time of a file
    /// that no process has open.
    setting: Option<File>,
}

/// The state of the clocks and files at one time.
#[derive(Clone, Debug)]
pub(super) struct MachineSnapshot {
    suspends: Suspends,
    disruption: Option<u64>,
    clock_source: Option<String>,
    /// The clocksources to which the kernel has switched since the last check, according to its log.
    turned_to: Vec<String>,
    log_is_read: bool,
    /// The time at which the file that sets the clocksource was last truncated. A shell truncates the file before it
    /// writes to the file; the kernel never truncates it.
    set_at: Option<SystemTime>,
    /// The maximum error of the wall clock, according to the kernel.
    maximum_error: Option<Duration>,
}

impl MachineWatch {
    #[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
    pub(super) fn of(context: &Context) -> Result<Self, Failure> {
        let (monotonic, boottime) = (context.open("monotonic")?, context.open("boottime")?);
        let setting = File::open(Knob::clock_source().path()).ok();
        let mut timed_by = ClocksourceNotices { log: context.host.new_log_lines().ok(), setting };
        let last = snapshot(&monotonic, &boottime, &mut timed_by, &context.host);
        Ok(Self { monotonic, boottime, timed_by, begun_s: 0.0, last, tick_ppm: 0.0, cpus: CpuStates::default() })
    }

    /// Starts watching.
    pub(super) fn begin(&mut self, context: &Context) {
        self.last = snapshot(&self.monotonic, &self.boottime, &mut self.timed_by, &context.host);
        self.cpus = CpuStates { running: context.host.online_cpus(), offline: Vec::new() };
        self.begun_s = self.now_s();
    }

    /// Returns CLOCK_BOOTTIME, which includes suspend, in seconds.
    pub(super) fn now_s(&self) -> f64 {
        Duration::from_nanos(self.boottime.as_dyn().ticks_end()).as_secs_f64()
    }

    pub(super) fn at_s(&self) -> f64 {
        rounded(self.now_s() - self.begun_s)
    }

    pub(super) fn at(&self) -> Duration {
        Duration::try_from_secs_f64(self.now_s() - self.begun_s).unwrap_or_default()
    }

    /// Returns the CPUs that have gone offline or come online since the last check.
    pub(super) fn cpus_that_went_or_came(&mut self, context: &Context) -> Vec<MachineEvent> {
        let now = context.host.online_cpus();
        let at_s = self.at_s();
        self.cpus.follow(now, at_s)
    }

    /// Returns the source that the kernel uses now, if hpt supports it.
    pub(super) fn counter(&self, context: &Context) -> Option<&'static str> {
        self.last.clock_source.as_deref().and_then(|name| counter_of_clock_source(&context.host, name))
    }

    /// Returns the absolute deviation of the kernel's tick from the default, in ppm: the current deviation or the
    /// deviation at the last check, whichever is larger.
    pub(super) fn tick_off_by_ppm(&mut self) -> f64 {
        let now_ppm = clock::discipline().map_or(0.0, |is| is.tick_ppm.abs());
        now_ppm.max(std::mem::replace(&mut self.tick_ppm, now_ppm))
    }

    /// Returns the events since the last check.
    pub(super) fn happened(&mut self, context: &Context) -> Vec<MachineEvent> {
        let mut now = snapshot(&self.monotonic, &self.boottime, &mut self.timed_by, &context.host);
        let events = between(&self.last, &mut now, self.at_s());
        self.last = now;
        events
    }

    /// Returns a note if brief changes of the clocksource cannot be detected.
    pub(super) fn blind_spot(&self) -> Option<String> {
        self.timed_by.log.is_none().then(|| {
            "this user is not permitted to read the kernel log, so a clocksource change that lasted less than 10 ms may be reported as a step; run hpt as root to \
             rule that out"
                .to_owned()
        })
    }
}

pub(super) fn snapshot(
    monotonic: &Opened,
    boottime: &Opened,
    timed_by: &mut ClocksourceNotices,
    host: &Host,
) -> MachineSnapshot {
    let suspends = Suspends {
        before_ns: monotonic.as_dyn().ticks_end(),
        boottime_ns: boottime.as_dyn().ticks_end(),
        after_ns: monotonic.as_dyn().ticks_end(),
    };
    let disruption = clock::disruption_marker();
    // Read this file before the log. The kernel writes to its log first, so this value is never newer than the log.
    let clock_source = host.clock_sources().current;
    let log_is_read = timed_by.log.is_some();
    let set_at = timed_by.setting.as_ref().and_then(|file| file.metadata().ok()?.modified().ok());
    let lines = timed_by.log.as_mut().map(NewLogLines::take).unwrap_or_default();
    let turned_to = lines.iter().filter_map(|line| line.turned_to_clock_source().map(str::to_owned)).collect();
    let maximum_error = clock::discipline().ok().map(|is| is.maximum_error);
    MachineSnapshot { suspends, disruption, clock_source, turned_to, log_is_read, set_at, maximum_error }
}

/// The maximum error that the kernel reports if its clock was never synchronized, was set, or switched to another
/// clocksource. See `ntp_clear` in kernel/time/ntp.c of Linux.
const NOTHING_KNOWN: Duration = Duration::from_secs(16);

/// Returns the events between two states. The later state takes missing values from the earlier one.
pub(super) fn between(earlier: &MachineSnapshot, later: &mut MachineSnapshot, at_s: f64) -> Vec<MachineEvent> {
    let mut events = Vec::new();
    let mut report = |kind, suspended_ns, message| events.push(MachineEvent { kind, at_s, suspended_ns, message });
    if let Some(suspended_ns) = suspended_between(earlier.suspends, later.suspends) {
        let message =
            format!("the machine was suspended for {:.3} s", Duration::from_nanos(suspended_ns).as_secs_f64());
        report(MachineEventKind::Suspend, Some(suspended_ns), message);
    }
    if later.disruption.is_some() && earlier.disruption.is_some() && later.disruption != earlier.disruption {
        report(
            MachineEventKind::Migration,
            None,
            "the virtual machine was migrated to another host, or stopped and restarted (vmclock)".to_owned(),
        );
    }
    later.disruption = later.disruption.or(earlier.disruption);
    let turned_to = std::mem::take(&mut later.turned_to);
    if let Some(last) = turned_to.last() {
        later.clock_source = Some(last.clone());
    }
    later.clock_source = later.clock_source.take().or_else(|| earlier.clock_source.clone());
    let was_set = later.set_at.zip(earlier.set_at).is_some_and(|(is, was)| is != was);
    let name = |source: &Option<String>| source.clone().unwrap_or_else(|| "none".to_owned());
    if later.clock_source != earlier.clock_source {
        let (was, is) = (name(&earlier.clock_source), name(&later.clock_source));
        report(MachineEventKind::Clocksource, None, format!("the clocksource changed from {was} to {is}"));
    } else if !turned_to.is_empty() {
        let turns = turned_to.join(", then to ");
        let message = format!("the clocksource changed from {} to {turns} (kernel log)", name(&earlier.clock_source));
        report(MachineEventKind::Clocksource, None, message);
    } else if was_set && !later.log_is_read {
        let message = format!(
            "the clocksource {0} was set again; another clocksource may have been active in the meantime",
            name(&earlier.clock_source)
        );
        report(MachineEventKind::Clocksource, None, message);
    }
    let all_is_forgotten =
        |is: Duration, was: Duration| is >= NOTHING_KNOWN && was < NOTHING_KNOWN.saturating_sub(Duration::from_secs(1));
    // A readable log would report a clocksource change, and setting the wall clock does not invalidate the comparison.
    let forgot = later.maximum_error.zip(earlier.maximum_error).is_some_and(|(is, was)| all_is_forgotten(is, was));
    if forgot && !later.log_is_read && events.is_empty() {
        let message = "the kernel clock is no longer synchronized: the wall clock was set, or the clocksource was changed temporarily";
        events.push(MachineEvent {
            kind: MachineEventKind::Desynchronized,
            at_s,
            suspended_ns: None,
            message: message.to_owned(),
        });
    }
    events
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use hpt_instrument::diagnose::Suspends;
    use hpt_sys::host::CpuList;

    use super::{CpuStates, MachineSnapshot, between};
    use hpt_document::watch::{CpuOffline, MachineEvent, MachineEventKind};

    fn list(text: &str) -> CpuList {
        CpuList::parse(text).expect("a list")
    }

    #[test]
    fn cpus_that_go_offline_and_online_are_reported_with_their_times() {
        let mut cpus = CpuStates { running: Some(list("0-3")), offline: Vec::new() };
        let kinds =
            |events: Vec<MachineEvent>| events.into_iter().map(|event| (event.kind, event.message)).collect::<Vec<_>>();
        assert!(cpus.follow(Some(list("0-3")), 1.0).is_empty() && cpus.follow(None, 1.5).is_empty());
        let went = (MachineEventKind::CpuOffline, "CPU 1 went offline".to_owned());
        assert_eq!(kinds(cpus.follow(Some(list("0,2-3")), 2.0)), [went]);
        assert!(!cpus.is_running(1) && cpus.is_running(0));
        let came = (MachineEventKind::CpuOnline, "CPU 1 came online".to_owned());
        assert_eq!(kinds(cpus.follow(Some(list("0-3")), 4.5)), [came]);
        cpus.follow(Some(list("1-3")), 5.0);
        let off = |cpu, from_s, to_s| CpuOffline { cpu, from_s, to_s };
        assert_eq!(cpus.offline, [off(1, 2.0, Some(4.5)), off(0, 5.0, None)]);
    }

    /// The state of a machine without events, this many seconds after boot.
    fn snapshot(at_s: u64) -> MachineSnapshot {
        let ns = at_s * 1_000_000_000;
        MachineSnapshot {
            suspends: Suspends { before_ns: ns, boottime_ns: ns + 20, after_ns: ns + 40 },
            disruption: Some(1),
            clock_source: Some("tsc".to_owned()),
            turned_to: Vec::new(),
            log_is_read: true,
            set_at: Some(SystemTime::UNIX_EPOCH),
            maximum_error: Some(Duration::from_millis(30)),
        }
    }

    fn told(earlier: &MachineSnapshot, mut later: MachineSnapshot) -> (Vec<MachineEventKind>, Option<String>) {
        let events = between(earlier, &mut later, 1.0);
        (events.into_iter().map(|event| event.kind).collect(), later.clock_source)
    }

    #[test]
    fn without_a_change_no_event_is_reported() {
        assert!(told(&snapshot(1), snapshot(2)).0.is_empty());
        let nothing = |at_s| MachineSnapshot {
            disruption: None,
            clock_source: None,
            maximum_error: None,
            log_is_read: false,
            ..snapshot(at_s)
        };
        assert!(told(&snapshot(1), nothing(2)).0.is_empty() && told(&nothing(1), nothing(2)).0.is_empty());
        assert_eq!(told(&snapshot(1), nothing(2)).1.as_deref(), Some("tsc"), "what is not told has not changed");
    }

    #[test]
    fn a_suspend_and_a_migration_are_reported() {
        let mut slept = snapshot(2);
        slept.suspends.boottime_ns += 6_000_000_000;
        assert_eq!(told(&snapshot(1), slept).0, [MachineEventKind::Suspend]);
        let moved = MachineSnapshot { disruption: Some(2), ..snapshot(2) };
        assert_eq!(told(&snapshot(1), moved.clone()).0, [MachineEventKind::Migration]);
        // A marker that is being changed does not count, and is compared with the last valid one.
        let mut changing = MachineSnapshot { disruption: None, ..snapshot(2) };
        assert!(between(&snapshot(1), &mut changing, 1.0).is_empty());
        assert_eq!(told(&changing, moved).0, [MachineEventKind::Migration]);
    }

    #[test]
    fn a_clocksource_change_is_reported_once_by_the_log_or_by_sysfs() {
        let hpet = || Some("hpet".to_owned());
        let by_sysfs = MachineSnapshot { clock_source: hpet(), log_is_read: false, ..snapshot(2) };
        assert_eq!(told(&snapshot(1), by_sysfs), (vec![MachineEventKind::Clocksource], hpet()));
        // The file was read before the change, and the log after it.
        let mut by_log = MachineSnapshot { turned_to: vec!["hpet".to_owned()], ..snapshot(2) };
        let events = between(&snapshot(1), &mut by_log, 1.0);
        assert_eq!((events.len(), &by_log.clock_source), (1, &hpet()));
        assert!(told(&by_log, MachineSnapshot { clock_source: hpet(), ..snapshot(3) }).0.is_empty());
    }

    #[test]
    fn a_temporary_clocksource_change_is_found_in_the_log() {
        let turned = MachineSnapshot { turned_to: vec!["hpet".to_owned(), "tsc".to_owned()], ..snapshot(2) };
        assert_eq!(told(&snapshot(1), turned), (vec![MachineEventKind::Clocksource], Some("tsc".to_owned())));
    }

    #[test]
    fn without_the_log_setting_the_same_clocksource_is_reported() {
        let set = |log_is_read| MachineSnapshot {
            set_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(9)),
            log_is_read,
            ..snapshot(2)
        };
        assert_eq!(told(&snapshot(1), set(false)), (vec![MachineEventKind::Clocksource], Some("tsc".to_owned())));
        // The log would show that the kernel switched to another one.
        assert!(told(&snapshot(1), set(true)).0.is_empty());
        // The change is reported once, even if it made the kernel lose its synchronization.
        let forgot = MachineSnapshot { maximum_error: Some(Duration::from_secs(16)), ..set(false) };
        assert_eq!(told(&snapshot(1), forgot).0, [MachineEventKind::Clocksource]);
        let other = MachineSnapshot { clock_source: Some("hpet".to_owned()), ..set(false) };
        assert_eq!(told(&snapshot(1), other).0, [MachineEventKind::Clocksource]);
    }

    #[test]
    fn without_the_log_a_lost_synchronization_is_reported() {
        let forgot =
            |log_is_read| MachineSnapshot { maximum_error: Some(Duration::from_secs(16)), log_is_read, ..snapshot(2) };
        assert_eq!(told(&snapshot(1), forgot(false)).0, [MachineEventKind::Desynchronized]);
        // The log would have shown another clocksource: the wall clock was set, which is not a reason to restart.
        assert!(told(&snapshot(1), forgot(true)).0.is_empty());
        // The error had this value before, and without a time daemon it grows until it reaches this value.
        assert!(told(&forgot(false), forgot(false)).0.is_empty());
        let grown = MachineSnapshot { maximum_error: Some(Duration::from_micros(15_999_500)), ..snapshot(1) };
        assert!(told(&grown, forgot(false)).0.is_empty());
    }
}
