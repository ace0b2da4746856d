//! The process that makes one measurement of an experiment. It runs hpt itself, and is ended at its deadline, so that
//! no measurement can exceed the time of the whole run.

use hpt_document::Document;
use std::{
    io::{self, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::plan::Ended;
use crate::measurements::{self, Request};

/// The time between two checks whether the run was interrupted.
const LOOK: Duration = Duration::from_millis(50);
/// The time that a measurement has to restore what it changed after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);
/// The time that the kernel has to end a process after SIGKILL. The threads of a process on a CPU that interrupts occupy
/// completely cannot end. Such a process is abandoned.
const LAST: Duration = Duration::from_millis(500);
/// The time that hpt waits for the messages of a process that has ended. Only a process that inherited the pipe and
/// keeps it open takes this long. On a busy machine, the thread that reads the messages may have to wait for a CPU.
const HANG: Duration = Duration::from_secs(30);

/// The value of a figure, and the number of its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) ns: Option<f64>,
    pub(super) samples: u64,
}

/// Measures once. The value is that of the last limit.
pub(super) fn value_of(
    request: &Request,
    deadline: Instant,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Value, Ended> {
    let begin = |child: &mut Child| measurements::send(child, request.measurement());
    measured_by(&mut measurements::command(), begin, deadline, is_interrupted)
}

/// Runs a program that prints a document, and ends it at the deadline. `begin` sends the request to it.
fn measured_by(
    command: &mut Command,
    begin: impl FnOnce(&mut Child) -> io::Result<()>,
    deadline: Instant,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Value, Ended> {
    if is_interrupted() {
        return Err(Ended::Interrupted);
    }
    let begun = Instant::now();
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = |cause| Ended::Failed(format!("the measurement cannot be started: {cause}"));
    let mut child = command.spawn().map_err(started)?;
    // A process that has ended already tells why on standard error.
    let _ = begin(&mut child);
    let output = child.stdout.take().map(read);
    let errors = child.stderr.take().map(read);
    let (Some(output), Some(errors)) = (output, errors) else {
        end(&mut child);
        return Err(Ended::Failed("the output of the measurement cannot be read".to_owned()));
    };
    let text = loop {
        match output.recv_timeout(LOOK) {
            Ok(text) => break text,
            Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if is_interrupted() {
            end(&mut child);
            return Err(Ended::Interrupted);
        }
        if Instant::now() >= deadline {
            end(&mut child);
            return Err(Ended::Hung(begun.elapsed()));
        }
    };
    // The process has closed its output, and only has to end.
    if !has_ended_within(&mut child, GRACE) {
        end(&mut child);
    }
    if is_interrupted() {
        return Err(Ended::Interrupted);
    }
    value_in(&text).ok_or_else(|| {
        let patience = HANG.min(deadline.saturating_duration_since(Instant::now())).max(GRACE);
        let said = errors.recv_timeout(patience).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        // Warnings may come before the error, and a hint after it.
        let is_error = |line: &&str| !line.is_empty() && !line.contains("warning: ");
        let error = said.lines().map(str::trim).find(is_error).unwrap_or("it printed no result");
        Ended::Failed(format!(
            "the measurement failed: {}",
            error.trim_start_matches("hpt: ").trim_start_matches("error: ")
        ))
    })
}

/// Reads everything from a pipe in a thread of its own. A process that inherited the pipe may keep it open, so nothing
/// waits for that thread.
fn read(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        let _ = pipe.read_to_end(&mut all);
        let _ = sender.send(all);
    });
    receiver
}

/// Returns the last limit of a document.
fn value_in(text: &[u8]) -> Option<Value> {
    let document = Document::read(&serde_json::from_slice(text).ok()?).ok()?;
    let limit = document.limits().last()?;
    Some(Value { ns: limit.seen_ns, samples: limit.samples })
}

/// Ends a process: first with SIGTERM, then with SIGKILL. Waits for a limited time.
fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if !has_ended_within(child, GRACE) {
        let _ = child.kill();
        has_ended_within(child, LAST);
    }
}

fn has_ended_within(child: &mut Child, time: Duration) -> bool {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(None) if begun.elapsed() < time => crate::pause::pause(Duration::from_millis(5)),
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::limit::LimitRow;
    use std::{
        cell::Cell,
        fs,
        path::Path,
        process::{Command, Stdio},
        time::{Duration, Instant},
    };

    use super::{Ended, Value, measured_by};

    use crate::{golden, sampling::limits::table::tests::examples};

    fn run(script: &str, limit: Duration, is_interrupted: bool) -> Result<Value, Ended> {
        measured(Command::new("sh").args(["-c", script]), limit, &|| is_interrupted)
    }

    fn measured(command: &mut Command, limit: Duration, is_interrupted: &dyn Fn() -> bool) -> Result<Value, Ended> {
        measured_by(command.stdin(Stdio::null()), |_| Ok(()), Instant::now() + limit, is_interrupted)
    }

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn the_figure_is_that_of_the_last_limit() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("document");
        let printed = |seen: &[(Option<f64>, u64)]| {
            let limits = seen.iter().map(|&(seen_ns, samples)| LimitRow { seen_ns, samples, ..examples()[0].clone() });
            let mut document = serde_json::to_value(golden::empty("latency-pairs")).expect("a document");
            document["limits"] = serde_json::to_value(limits.collect::<Vec<_>>()).expect("limits");
            fs::write(&file, document.to_string()).expect("a temporary file");
            run(&format!("cat '{}'; exit 3", file.display()), LONG, false)
        };
        assert_eq!(printed(&[(Some(1.0), 1), (Some(2.5), 7)]), Ok(Value { ns: Some(2.5), samples: 7 }));
        assert_eq!(printed(&[(None, 3)]), Ok(Value { ns: None, samples: 3 }));
    }

    #[test]
    fn a_measurement_that_fails_is_reported_with_its_reason() {
        let failed = run("echo 'hpt: error: no such CPU' >&2; exit 2", LONG, false);
        assert_eq!(failed, Err(Ended::Failed("the measurement failed: no such CPU".to_owned())));
    }

    #[test]
    fn a_measurement_that_hangs_is_ended_at_its_deadline_and_reported() {
        // The last one has ended, but a process that it started keeps its output open.
        for script in ["exec sleep 3600", "trap '' TERM; while :; do sleep 0.05; done", "sleep 30 & exit 0"] {
            let ended = run(script, SHORT, false);
            assert!(matches!(ended, Err(Ended::Hung(_))), "{script}: {ended:?}");
        }
    }

    #[test]
    fn a_measurement_that_ignores_sigterm_or_is_stopped_is_killed() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("pid");
        for script in ["trap '' TERM; while :; do sleep 0.05; done", "kill -STOP $$; exec sleep 3600"] {
            let script = format!("echo $$ >'{}'; {script}", file.display());
            // The shell may not have started yet, so its file decides when the run is interrupted.
            let has_begun = || fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'));
            let ended = measured(Command::new("sh").args(["-c", &script]), LONG, &has_begun);
            assert_eq!(ended, Err(Ended::Interrupted), "{script}");
            let process = fs::read_to_string(&file).expect("written");
            // The process has been waited for.
            assert!(!Path::new("/proc").join(process.trim()).exists(), "{script}");
            fs::remove_file(&file).expect("ours");
        }
    }

    #[test]
    fn an_interrupted_run_does_not_wait_for_its_measurement() {
        assert_eq!(run("exec sleep 3600", LONG, true), Err(Ended::Interrupted));
        // The run is interrupted during the measurement.
        let calls = Cell::new(0);
        let is_interrupted = || calls.replace(calls.get() + 1) > 0;
        assert_eq!(measured(Command::new("sleep").arg("3600"), LONG, &is_interrupted), Err(Ended::Interrupted));
    }
}
