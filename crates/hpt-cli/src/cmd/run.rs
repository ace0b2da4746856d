//! `hpt run`: starts a program with real-time settings, forwards signals to it, and restores the system settings
//! afterwards. `hpt run` prints nothing on standard output, which is reserved for the program.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt,
    process::{Command, ExitCode},
    time::Duration,
};

use clap::Args;
use hpt_realtime::{Behavior, Ended, Pinned, Program, ProgramTimes, Signals, StartError};

use crate::{
    arguments::{CpuChoice, SCHEDULING, cpu_choice, without_documents},
    context::Context,
    exit::{Failure, causes},
    output::{Format, OUTPUT, message, short_percent},
    sampling::realtime_options::RealtimeOptions,
};

const AFTER_HELP: &str = "\
Exit codes:
  the exit code of the program
  125    hpt failed: usage error, a setting was refused, or a setting was not
         restored after the program had succeeded
  126    the program exists but cannot be executed
  127    the program was not found
  128+n  signal n ended the program, or ended hpt before the program started

hpt forwards signals from other processes to the program. Signals from the
terminal (Ctrl-C, hang-up) reach the program directly. If the program stops, for
example with Ctrl-Z, hpt stops too, and both continue together. If a process
signals the whole process group, as timeout and systemd do, the program receives
the signal twice: directly and through hpt. `timeout --foreground` and
KillMode=mixed signal only hpt, so the program receives the signal once.

Examples:
  sudo hpt run --cpu 3 -P f:80 -- ./control-loop
  sudo hpt run --cpu 3 -P f:80 --no-throttling --dma-latency 0 -- ./loop --fast
  hpt run --cpu 3 -- make bench
  hpt run --time -- make bench    real, user, sys, and ready but not run";

/// Run a program with temporary real-time settings
///
/// The CPU and the scheduling policy apply to the program from its first instruction, and to the
/// threads and programs that it starts (with --deadline, those run under SCHED_OTHER). With --fifo
/// or --rr, the kernel throttles a program that never blocks: it pauses the program during a part
/// of each second, unless --no-throttling is given. Since Linux 6.12, --no-throttling needs
/// debugfs; hpt prints a warning if debugfs is not available.
///
/// Until the program ends, hpt keeps the system-wide settings active and /dev/cpu_dma_latency
/// open. If hpt itself is killed (SIGKILL), the program keeps its CPU and policy, idle states
/// are enabled again, and `hpt restore` restores the system-wide settings. hpt cannot lock memory
/// for the program, because a memory lock does not survive the start of a program; the program has
/// to call mlockall itself.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP, args(without_documents()), mut_arg("mlockall", |arg| arg.hide(true)), mut_arg("accept_throttling", |arg| arg.hide(true)))]
pub(crate) struct RunArguments {
    /// Run only on this CPU; any: not pinned [default: any]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true, help_heading = SCHEDULING)]
    cpu: Option<CpuChoice>,
    /// Print the elapsed and the CPU time of the program to standard error
    ///
    /// In seconds, as `time -p` prints them: real, user and sys. not-run is the time for which threads of the program
    /// were ready to run but did not run. User and sys include the processes that the program waited for; not-run does
    /// not. The kernel keeps no figure of a thread that has ended, so hpt reads the figures every 0.1 s; a note states
    /// the share of the CPU time that not-run covers if it is not all.
    #[arg(long, help_heading = OUTPUT)]
    time: bool,
    #[command(flatten)]
    realtime: RealtimeOptions,
    /// Program to run, with its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, help_heading = "Arguments")]
    command: Vec<OsString>,
}

/// The exit code of hpt if it did not start the program.
pub(crate) const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
const BY_SIGNAL: i32 = 128;
/// The error codes for too many open files in the system and in this process. They have no `ErrorKind`. See errno(3).
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Runs the program, and returns its exit code, or the exit code of hpt if hpt failed.
pub(crate) fn run(arguments: &RunArguments, context: &Context) -> ExitCode {
    match run_to_its_end(arguments, context) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.report();
            ExitCode::from(FAILED)
        }
    }
}

fn run_to_its_end(arguments: &RunArguments, context: &Context) -> Result<u8, Failure> {
    if context.format != Format::Human {
        return Err(Failure::Usage("hpt run prints no result of its own and has no --format"));
    }
    let options = &arguments.realtime;
    if options.locks_memory() {
        return Err(Failure::Usage(
            "--mlockall has no effect, because a memory lock does not survive the start of a program; the program has to call mlockall itself",
        ));
    }
    // From here until all settings are restored, only SIGKILL ends hpt.
    let signals = Signals::hold().map_err(Failure::Signals)?;
    let cpu = match arguments.cpu {
        Some(CpuChoice::Number(cpu)) => Some(cpu),
        Some(CpuChoice::Any) | None => None,
    };
    let held = options.hold_around(context, &[cpu], Behavior::Blocks, "hpt run")?;
    let refused = held.settings().thread.refused;
    for refused in &refused {
        without(&refused.setting, &refused.reason);
    }
    let is_off = options.turns_throttling_off() && !refused.iter().any(|refused| refused.setting == "throttling");
    if let Some(untold) = held.fair_server_untold().filter(|_| is_off) {
        message::warning(format!("--no-throttling affects only sched_rt_runtime_us: {untold}"));
    }
    let code = start_and_wait(arguments, &signals, cpu);
    let (is_restored, messages) = held.restore();
    messages.into_iter().for_each(message::warning);
    // Another exit code of the program is more useful than the one of hpt.
    if is_restored { code } else { code.map(|code| if code == 0 { FAILED } else { code }) }
}

fn without(setting: &str, reason: &str) {
    message::warning(format!("without {setting}: {reason}"));
}

fn start_and_wait(arguments: &RunArguments, signals: &Signals, cpu: Option<usize>) -> Result<u8, Failure> {
    let options = &arguments.realtime;
    let pinned = match cpu.map(Pinned::new).transpose() {
        Err(refused) if options.is_by_best_effort() => {
            without("cpu", &causes(&refused));
            None
        }
        other => other?,
    };
    let class = match options.class().map(|class| class.is_granted().map(|()| class)).transpose() {
        Err(refused) if options.is_by_best_effort() => {
            without("policy", &causes(&refused));
            None
        }
        other => other?,
    };
    if let Some(signal) = signals.asked_to_end() {
        return Ok(by(signal));
    }
    let (name, rest) = arguments.command.split_first().expect("clap requires one");
    let started = signals.start(Command::new(name).args(rest), class);
    // The program stays pinned to its CPU. hpt only waits, so hpt need not stay pinned.
    drop(pinned);
    match started {
        Ok(program) => match ended(program, arguments.time).map_err(Failure::LostProgram)? {
            Ended::Exited(code) => Ok(code),
            Ended::Killed(signal) => Ok(by(signal)),
        },
        Err(StartError::Program(cause)) => {
            let (code, cause) = match not_started(&cause) {
                // An inaccessible directory in PATH does not mean that the program exists.
                NOT_EXECUTABLE if !is_there(name) => (NOT_FOUND, ErrorKind::NotFound.into()),
                code => (code, cause),
            };
            Failure::NotStarted { name: name.clone(), why: why(code), cause }.report();
            Ok(code)
        }
        Err(StartError::Policy(refused)) => Err(refused.into()),
        Err(other) => Err(Failure::NotStarted { name: name.clone(), why: "", cause: io::Error::other(other) }),
    }
}

/// Waits until the program ends. Prints its times if `with_time` is set.
fn ended(program: Program<'_>, with_time: bool) -> io::Result<Ended> {
    if !with_time {
        return program.wait();
    }
    let (ended, times) = program.wait_timed()?;
    message::write_text(&times_of(&times));
    if let Some(note) = uncovered(&times) {
        message::note(note);
    }
    Ok(ended)
}

/// Returns the times, one on each line, as `time -p` of POSIX prints them.
fn times_of(times: &ProgramTimes) -> String {
    let seconds = |name: &str, time: Option<Duration>| match time {
        Some(time) => format!("{name} {}.{:06}\n", time.as_secs(), time.subsec_micros()),
        None => format!("{name} unknown\n"),
    };
    let not_run = times.not_run.map(|ready| ready.waited);
    let all =
        [("real", Some(times.real)), ("user", Some(times.user)), ("sys", Some(times.system)), ("not-run", not_run)];
    all.map(|(name, time)| seconds(name, time)).concat()
}

/// Returns a note on the CPU time that not-run does not cover, if it is more than a hundredth and a millisecond.
fn uncovered(times: &ProgramTimes) -> Option<String> {
    let used = times.user + times.system;
    let Some(ready) = times.not_run else {
        return Some("not-run is unknown: the kernel does not report how long a thread waits for a CPU (CONFIG_SCHED_INFO, /proc)".to_owned());
    };
    let rest = used.saturating_sub(ready.covered);
    (rest > used / 100 && rest > Duration::from_millis(1)).then(|| {
        let share = ready.covered.as_secs_f64() / used.as_secs_f64();
        format!(
            "not-run covers {} of the CPU time; the rest was used by other processes, or by threads after they were last read",
            short_percent(share)
        )
    })
}

/// Returns 128 plus the signal number, as shells do.
fn by(signal: i32) -> u8 {
    u8::try_from(BY_SIGNAL + signal).unwrap_or(u8::MAX)
}

fn not_started(cause: &io::Error) -> u8 {
    match cause.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        // The system has run out of processes, memory or files. The program is not the cause.
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory => FAILED,
        _ if [Some(ENFILE), Some(EMFILE)].contains(&cause.raw_os_error()) => FAILED,
        _ => NOT_EXECUTABLE,
    }
}

/// Returns whether the name of a program is a path, or names a file in a PATH directory that this user can search.
fn is_there(name: &OsStr) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    name.as_bytes().contains(&b'/')
        || env::split_paths(&folders).any(|folder| folder.join(name).symlink_metadata().is_ok())
}

const fn why(code: u8) -> &'static str {
    match code {
        NOT_FOUND => "there is no such program, or its interpreter (#!) or loader is missing",
        NOT_EXECUTABLE => "it is not a program or a script that this user is permitted to execute",
        _ => "the system has run out of processes or open files",
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use hpt_realtime::{ProgramTimes, ReadyTime};

    use super::{by, not_started, times_of, uncovered};

    /// Returns the times of a program that used a second of CPU time.
    fn times(covered: Option<Duration>) -> ProgramTimes {
        let mut times = ProgramTimes::default();
        (times.real, times.user, times.system) =
            (Duration::from_nanos(1_002_003_999), Duration::from_millis(700), Duration::from_millis(300));
        times.not_run = covered.map(|covered| {
            let mut ready = ReadyTime::default();
            (ready.waited, ready.covered) = (Duration::from_micros(45), covered);
            ready
        });
        times
    }

    #[test]
    fn times_are_printed_as_posix_says() {
        let text = times_of(&times(Some(Duration::from_secs(1))));
        assert_eq!(text, "real 1.002003\nuser 0.700000\nsys 0.300000\nnot-run 0.000045\n");
        assert!(times_of(&times(None)).ends_with("\nnot-run unknown\n"));
    }

    #[test]
    fn a_note_states_the_share_of_the_cpu_time_that_not_run_covers() {
        let note = |covered| uncovered(&times(Some(Duration::from_millis(covered))));
        assert_eq!((note(1_000), note(1_001), note(995)), (None, None, None));
        assert!(note(250).is_some_and(|note| note.starts_with("not-run covers 25 % of the CPU time")));
        assert!(uncovered(&times(None)).is_some_and(|note| note.contains("CONFIG_SCHED_INFO")));
    }

    #[test]
    fn every_error_has_the_exit_code_that_shells_use() {
        let code = |number| not_started(&io::Error::from_raw_os_error(number));
        // ENOENT, EACCES, ENOEXEC, ELOOP, ETXTBSY; EAGAIN, ENOMEM, ENFILE, EMFILE.
        assert_eq!([2, 13, 8, 40, 26].map(code), [127, 126, 126, 126, 126]);
        assert_eq!([11, 12, 23, 24].map(code), [125; 4]);
        assert_eq!((by(2), by(15), by(64), by(127)), (130, 143, 192, 255));
    }
}
