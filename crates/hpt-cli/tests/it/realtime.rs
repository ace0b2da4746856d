//! The scheduling settings of measuring threads and of the system: active during the run, and
//! restored however hpt ends.

use std::{
    fs,
    io::{Read, Write},
    process::{Child, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use crate::support::{
    at_a_terminal::AtATerminal,
    code, hpt, is_root, json, run, stderr, stdout,
    unsafe_calls::{ask_to_end, lock},
    wait_until, wait_while_running,
};

pub(crate) const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";
const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

pub(crate) fn value(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|value| value.trim().to_owned())
}

fn is_throttled() -> bool {
    let number = |path| value(path).and_then(|value| value.parse::<i64>().ok());
    number(RUNTIME).zip(number(PERIOD)).is_some_and(|(runtime, period)| (0..period).contains(&runtime))
}

/// Exclusive use of the system's RT throttling for one test, even across processes of these tests.
/// Restores it at the end.
pub(crate) struct Throttling {
    pub(crate) before: Option<String>,
    _alone: MutexGuard<'static, ()>,
    _machine: Option<fs::File>,
}

impl Throttling {
    pub(crate) fn alone() -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::env::temp_dir().join("hpt-tests-change-the-machine");
        // A user who cannot open the file cannot change system settings either.
        let machine = fs::File::options().write(true).create(true).truncate(false).open(path).ok();
        machine.iter().for_each(lock);
        Self { before: value(RUNTIME), _alone: alone, _machine: machine }
    }

    /// Returns the reason why a test cannot turn throttling off.
    pub(crate) fn obstacle() -> Option<&'static str> {
        if !is_root() {
            Some("throttling is changed by root")
        } else if fs::File::options().write(true).open(RUNTIME).is_err() {
            Some("sched_rt_runtime_us may not be written here")
        } else if !is_throttled() {
            Some("throttling is off on this machine")
        } else {
            None
        }
    }
}

/// Constant conditions for measurements: no test changes system settings, and deep idle states stay
/// disabled even if other tests release them.
pub(crate) struct SameConditions {
    _alone: Throttling,
    _awake: Option<fs::File>,
}

impl SameConditions {
    pub(crate) fn for_a_while() -> Self {
        let alone = Throttling::alone();
        // A user who cannot open the file does not see requests of others either.
        let awake = fs::File::options().write(true).open("/dev/cpu_dma_latency");
        let awake = awake.and_then(|mut file| file.write_all(&0_i32.to_ne_bytes()).map(|()| file)).ok();
        Self { _alone: alone, _awake: awake }
    }
}

impl Drop for Throttling {
    fn drop(&mut self) {
        if let Some(before) = self.before.take().filter(|before| value(RUNTIME).as_ref() != Some(before)) {
            let _ = fs::write(RUNTIME, before);
        }
    }
}

/// A run of hpt that ends with the test.
struct LongRun(Option<Child>);

impl LongRun {
    fn process(&self) -> u32 {
        self.0.as_ref().expect("it was not awaited").id()
    }

    /// Ends the run with SIGKILL.
    fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn output(mut self) -> Output {
        self.0.take().expect("it was not awaited").wait_with_output().expect("started")
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a sleep of hours with throttling off, and returns once it is off.
fn long_sleep_without_throttling(store: &str) -> LongRun {
    let mut command = hpt();
    command.args(["sleep", "--count", "1000000", "--length", "10ms", "--strategy", "nanosleep"]);
    command.args(["--fifo", "1", "--no-throttling", "--journal", store, "--format", "json"]);
    if value(GOVERNOR).is_some() {
        command.args(["--governor", "performance"]);
    } else {
        skipped!("the CPUs of this machine have no governors");
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built");
    let mut run = LongRun(Some(child));
    wait_while_running(run.0.as_mut().expect("it was not awaited"), "throttling is turned off", || {
        value(RUNTIME).as_deref() == Some("-1")
    });
    run
}

#[test]
fn requested_settings_are_applied_or_reported() {
    let _alone = Throttling::alone();
    let arguments = ["sleep", "--count", "2", "--length", "100us", "--strategy", "hpt", "--best-effort"];
    let wanted =
        ["--rr", "7", "--mlockall", "--dma-latency", "0", "--governor", "no-such-governor", "--format", "json"];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = ["--journal", folder.path().to_str().expect("UTF-8")];
    let output = run(&[&arguments[..], &wanted, &store].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    let told = &document["thread"];
    let refused = |setting: &str| {
        let mut refused = told["refused"].as_array().expect("a list").iter();
        let reason = refused.find(|refused| refused["setting"] == setting)?["reason"].as_str().expect("a reason");
        assert!(document["notes"].to_string().contains(&format!("without {setting}: ")), "{document}");
        Some(reason.to_owned())
    };
    assert_eq!(told["cpus"].as_array().map(Vec::len), Some(1), "pinned unless told otherwise");
    assert!(refused("governor").is_some(), "{told}");
    match refused("policy") {
        None => assert_eq!((&told["policy"], &told["priority"]), (&Value::from("rr"), &Value::from(7))),
        Some(reason) => {
            assert_eq!((&told["policy"], &told["priority"]), (&Value::from("other"), &Value::Null));
            assert!(reason.contains("CAP_SYS_NICE"), "{reason}");
        }
    }
    match refused("memory") {
        None => assert!(told["locked_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{told}"),
        Some(reason) => assert!(reason.contains("ulimit -l") || reason.contains("CAP_IPC_LOCK"), "{reason}"),
    }
    match refused("wake-latency") {
        None => assert_eq!(told["wake_latency_us"], 0),
        Some(reason) => assert!(reason.contains("/dev/cpu_dma_latency"), "{reason}"),
    }
    // Without --best-effort, the first rejected setting is the error.
    let strict = run(&[&arguments[..7], &["--governor", "no-such-governor"], &store].concat());
    assert_eq!(code(&strict), 3);
    assert!(stderr(&strict).contains("governor"), "{}", stderr(&strict));
}

#[test]
fn a_deadline_policy_is_granted_or_refused_with_a_fix() {
    let arguments = ["sleep", "--count", "2", "--length", "100us", "--strategy", "hpt", "--deadline", "5ms/100ms"];
    let output = run(&[&arguments[..], &["--format", "json"]].concat());
    if code(&output) == 0 {
        let told = &json(&output)["thread"];
        assert_eq!(
            (&told["policy"], &told["deadline_runtime_ns"]),
            (&Value::from("deadline"), &Value::from(5_000_000))
        );
    } else {
        let text = stderr(&output);
        assert!(text.contains("SCHED_DEADLINE with 5 ms per 100 ms"), "{text}");
        skipped!("{text}");
    }
    let pinned = run(&[&arguments[..], &["--cpu", "0"]].concat());
    // A single CPU may be the whole CPU set.
    if code(&pinned) != 0 {
        assert!(stderr(&pinned).contains("pin") || stderr(&pinned).contains("CAP_SYS_NICE"), "{}", stderr(&pinned));
    }
}

#[test]
fn a_thread_that_never_blocks_is_refused_unless_throttling_is_accepted() {
    let _alone = Throttling::alone();
    if !is_throttled() {
        return skipped!("throttling is off on this machine");
    }
    let spins = ["sleep", "--count", "2", "--length", "100us", "--strategy", "busy", "--fifo", "1"];
    let refused = run(&spins);
    assert_eq!(code(&refused), 3);
    let text = stderr(&refused);
    assert!(text.contains("--no-throttling") && text.contains("--accept-throttling"), "{text}");
    let accepted = run(&[&spins[..], &["--accept-throttling", "--format", "json"]].concat());
    if code(&accepted) == 0 {
        assert_eq!(json(&accepted)["thread"]["policy"], "fifo");
    } else {
        assert!(stderr(&accepted).contains("CAP_SYS_NICE"), "{}", stderr(&accepted));
    }
    // A method that blocks between spins is accepted.
    let waits = run(&["sleep", "--count", "2", "--length", "100us", "--strategy", "busy,hpt", "--fifo", "1"]);
    assert!(!stderr(&waits).contains("--accept-throttling"), "{}", stderr(&waits));
}

#[test]
fn the_system_is_restored_after_a_normal_end_and_after_a_termination_signal() {
    let alone = Throttling::alone();
    if let Some(obstacle) = Throttling::obstacle() {
        return skipped!("{obstacle}");
    }
    let governor = value(GOVERNOR);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let arguments = ["sleep", "--count", "2", "--length", "100us", "--no-throttling", "--journal", store];
    let output = run(&[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["thread"]["bandwidth"]["runtime_us"], -1, "in force meanwhile");
    assert_eq!(value(RUNTIME), alone.before);

    let asked = long_sleep_without_throttling(store);
    // A second process cannot change system settings during the run, but one that changes none can
    // run.
    let busy = run(&["restore", "--journal", store]);
    assert_eq!(code(&busy), 3);
    assert!(stderr(&busy).contains("another process is changing settings"), "{}", stderr(&busy));
    assert_eq!(code(&run(&["sleep", "--count", "1", "--length", "100us", "--strategy", "std"])), 0);
    // Another change log does not help, because the settings are system-wide.
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let other = ["--journal", elsewhere.path().to_str().expect("UTF-8")];
    let busy = run(&[&arguments[..arguments.len() - 2], &other].concat());
    assert_eq!(code(&busy), 3);
    assert!(stderr(&busy).contains("another process is changing settings"), "{}", stderr(&busy));
    ask_to_end(asked.process());
    let output = asked.output();
    assert_eq!(code(&output), 143, "{}", stderr(&output));
    assert_eq!(json(&output)["interrupted"], true);
    assert_eq!((value(RUNTIME), value(GOVERNOR)), (alone.before.clone(), governor));
    assert!(stdout(&run(&["restore", "--journal", store])).contains("Nothing to restore"));
}

/// Returns properties of the SCHED_FIFO threads of a process, as other processes see them:
/// priority, CPUs, and the timer slack if the kernel reports it.
fn real_time_threads(process: u32) -> Vec<(String, String, Option<String>)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let seen = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        // After the name, which may contain spaces, from the third field on. proc_pid_stat(5):
        // rt_priority, policy.
        let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let is_fifo = fields.get(38) == Some(&"1");
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().to_owned();
        let slack = value(&format!("/proc/{}/timerslack_ns", task.file_name().to_str()?));
        is_fifo.then(|| (fields[37].to_owned(), cpus, slack))
    });
    seen.collect()
}

/// Returns the limit on the exit latency of idle states in microseconds, considering all requests.
fn wake_latency_us() -> Option<i32> {
    let mut number = [0; 4];
    fs::File::open("/dev/cpu_dma_latency").and_then(|mut file| file.read_exact(&mut number)).ok()?;
    Some(i32::from_ne_bytes(number))
}

#[test]
fn settings_of_a_thread_are_visible_from_outside_and_restored_after_a_termination_signal() {
    let _alone = Throttling::alone();
    if let Some(obstacle) = Some("class and wake-up latency are root's").filter(|_| !is_root()) {
        return skipped!("{obstacle}");
    }
    // The first of two wake-ups is immediate, the second an hour later.
    let arguments = ["latency", "timer", "--interval", "1h", "--count", "2", "--fifo", "3", "--format", "json"];
    let holds_latency = wake_latency_us().is_some();
    let awake: &[&str] = if holds_latency { &["--dma-latency", "0"] } else { &[] };
    let mut running = AtATerminal::start(hpt().args(arguments).args(awake));
    let process = running.id();
    wait_until("it counts a wake-up, or is refused", || running.has_something_to_say() || running.has_ended());
    if running.has_ended() {
        let refused = running.output();
        assert!(stderr(&refused).contains("CAP_SYS_NICE"), "{}", stderr(&refused));
        return skipped!("nothing runs by SCHED_FIFO here: {}", stderr(&refused));
    }
    let threads = real_time_threads(process);
    let [(priority, cpus, slack)] = threads.as_slice() else { panic!("{threads:?}") };
    assert_eq!(priority, "3");
    assert!(cpus.parse::<usize>().is_ok(), "pinned to one: {cpus}");
    assert!(slack.as_ref().is_none_or(|ns| ns == "0" || ns == "1"), "{slack:?}");
    if holds_latency {
        assert_eq!(wake_latency_us(), Some(0));
    } else {
        skipped!("/dev/cpu_dma_latency cannot be read here");
    }
    // During a sleep of an hour.
    ask_to_end(process);
    let output = running.output();
    // Other processes may hold the limit during their own measurements.
    wait_until("the limit is released", || !holds_latency || wake_latency_us() != Some(0));
    assert_eq!(code(&output), 143, "{}", stderr(&output));
    let document = json(&output);
    assert_eq!((&document["interrupted"], &document["results"][0]["samples"]), (&true.into(), &1.into()));
}

#[test]
fn leftovers_of_a_killed_run_are_reported_and_restored() {
    let alone = Throttling::alone();
    if let Some(obstacle) = Throttling::obstacle() {
        return skipped!("{obstacle}");
    }
    let governor = value(GOVERNOR);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let mut killed = long_sleep_without_throttling(store);
    killed.kill();
    assert_eq!(value(RUNTIME).as_deref(), Some("-1"), "no process could restore it");
    let listed = json(&run(&["restore", "--list", "--journal", store, "--format", "json"]));
    let setting = &listed["settings"][0];
    assert_eq!((&setting["setting"], &setting["changed_by"]), (&"sched-rt-runtime-us".into(), &"hpt sleep".into()));
    assert_eq!(setting["original_value"].as_str(), alone.before.as_deref());
    let restored = run(&["restore", "--journal", store, "--format", "json"]);
    assert_eq!((code(&restored), &json(&restored)["settings"][0]["outcome"]), (0, &"restored".into()));
    assert_eq!((value(RUNTIME), value(GOVERNOR)), (alone.before.clone(), governor));
}

#[test]
fn a_run_of_several_threads_changes_the_system_once() {
    let alone = Throttling::alone();
    if let Some(obstacle) = Throttling::obstacle() {
        return skipped!("{obstacle}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().to_str().expect("UTF-8");
    let timer =
        ["latency", "timer", "--cpu", "all", "--count", "5", "--fifo", "2", "--no-throttling", "--journal", store];
    let output = run(&[&timer[..], &["--mlockall", "--format", "json"]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let document = json(&output);
    let (told, rows) = (&document["thread"], document["results"].as_array().expect("rows"));
    assert_eq!(told["cpus"].as_array().map(Vec::len), Some(rows.len()));
    assert_eq!((&told["policy"], &told["priority"]), (&"fifo".into(), &2.into()));
    assert_eq!((&told["bandwidth"]["runtime_us"], &told["refused"]), (&(-1).into(), &Value::Array(Vec::new())));
    assert_eq!(value(RUNTIME), alone.before);
    // Throttling affects a polling thread.
    let poll = run(&["latency", "poll", "--count", "2", "--fifo", "2"]);
    assert_eq!(code(&poll), 3);
    assert!(stderr(&poll).contains("--accept-throttling"), "{}", stderr(&poll));
}
