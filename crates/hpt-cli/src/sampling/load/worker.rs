//! The built-in loads, which run in processes of their own: hpt starts itself with a first argument that no user types.
//! A worker ends with the hpt process that started it, even if SIGKILL ends that process.

use hpt_document::load::LoadKind;
use std::{
    env,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    hint::black_box,
    io::{self, Seek, SeekFrom, Write},
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use hpt_realtime::{Pinned, Policy, PolicyGuard};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::output::cause_words::LOAD;

/// The first argument of a worker.
const WORKER: &str = "__load";
/// The argument that makes a worker become another program.
const PROGRAM: &str = "program";
/// The argument of a process that ends at once.
const NOTHING: &str = "nothing";
/// The line that a worker prints when its load begins.
pub(super) const READY: &str = "ready";
/// The number of bytes that are written at once.
const BLOCK: usize = 1 << 20;
/// The number of threads of the load `timers`, and the time between the timers of one thread.
const TIMER_THREADS: usize = 4;
const TIMER_INTERVAL: Duration = Duration::from_micros(100);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) kind: LoadKind,
    pub(super) cpu: usize,
    /// The memory or disk space that the worker may use.
    pub(super) bytes: u64,
    /// The directory for files.
    pub(super) folder: PathBuf,
}

/// Returns the command that starts a worker. It is a child of this process.
pub(super) fn command(task: &Task) -> Command {
    let mut command = own_program();
    command.arg(std::process::id().to_string()).arg(task.kind.name()).arg(task.cpu.to_string());
    command.arg(task.bytes.to_string()).arg(&task.folder);
    command
}

/// Returns the command that starts another program, which ends with this process.
pub(super) fn command_of(program: &str) -> Command {
    let mut command = own_program();
    command.arg(std::process::id().to_string()).arg(PROGRAM).arg(program);
    command
}

/// Returns the command that starts hpt itself, which ends with this process.
pub(crate) fn command_of_own_program() -> Command {
    let link = "/proc/self/exe";
    let path = env::current_exe().ok().filter(|_| !Path::new(link).exists());
    command_of(path.as_deref().and_then(Path::to_str).unwrap_or(link))
}

/// Returns hpt itself as a worker, without arguments. The kernel's link works even if the file was replaced or removed
/// in the meantime.
fn own_program() -> Command {
    let link = PathBuf::from("/proc/self/exe");
    let program = if link.exists() { link } else { env::current_exe().unwrap_or(link) };
    let mut command = Command::new(program);
    command.arg(WORKER);
    command
}

/// Runs as a worker if the command line says so.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != WORKER {
        return None;
    }
    let Err(error) = work(&arguments.collect::<Vec<_>>());
    // hpt reads this line, unless it has ended.
    let _ = writeln!(io::stdout(), "{error}");
    Some(ExitCode::FAILURE)
}

/// Works until this process is killed.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
fn work(arguments: &[OsString]) -> io::Result<std::convert::Infallible> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "wrong arguments of a load");
    let text = |index: usize| arguments.get(index).and_then(|argument| argument.to_str()).ok_or_else(invalid);
    let parent: i32 = text(0)?.parse().map_err(|_| invalid())?;
    // A load with the real-time policy that hpt may have inherited would keep hpt from its CPU. An ordinary policy needs
    // no permission.
    let _ordinary = PolicyGuard::new(Policy::Other).ok();
    if text(1)? == PROGRAM {
        // A program that cleans up after itself gets the chance to do so.
        end_with(parent, Signal::TERM)?;
        return Err(Command::new(text(2)?).args(&arguments[3..]).exec());
    }
    end_with(parent, Signal::KILL)?;
    if text(1)? == NOTHING {
        name_thread(LoadKind::Fork);
        std::process::exit(0);
    }
    let kind = kind_named(text(1)?).ok_or_else(invalid)?;
    name_thread(kind);
    let cpu = text(2)?.parse().map_err(|_| invalid())?;
    let bytes = text(3)?.parse().map_err(|_| invalid())?;
    let folder = PathBuf::from(arguments.get(4).ok_or_else(invalid)?);
    // If memory runs out, a load ends before any other process. Raising the value needs no permission.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let _pinned = Pinned::new(cpu).map_err(io::Error::other)?;
    run(&Task { kind, cpu, bytes, folder })
}

fn kind_named(name: &str) -> Option<LoadKind> {
    LoadKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// Names the main thread after its load. Threads and processes that it starts inherit the name.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
fn name_thread(kind: LoadKind) {
    // The kernel keeps 15 characters.
    let _ = fs::write("/proc/self/comm", format!("{LOAD}{}", kind.name()));
}

/// Makes the kernel send `signal` to this process when its parent ends.
fn end_with(parent: i32, signal: Signal) -> io::Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    // The parent may have ended before the call.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the parent process has ended"))
    }
}

fn say_ready() -> io::Result<()> {
    writeln!(io::stdout(), "{READY}").and_then(|()| io::stdout().flush())
}

fn run(task: &Task) -> io::Result<std::convert::Infallible> {
    match task.kind {
        LoadKind::Cpu => {
            say_ready()?;
            let mut number = 1_u64;
            loop {
                number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
        }
        LoadKind::Memory => write_memory(task.bytes),
        LoadKind::Fork => start_processes(),
        LoadKind::Disk => write_file(&task.folder, task.bytes),
        LoadKind::Timers => expire_timers(),
    }
}

/// Writes to each cache line of a buffer, again and again.
fn write_memory(bytes: u64) -> io::Result<std::convert::Infallible> {
    const LINE: usize = 64;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    // Without enough address space, a message is better than an abort.
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut buffer = vec![0_u8; bytes];
    say_ready()?;
    loop {
        for byte in buffer.iter_mut().step_by(LINE) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&mut buffer);
    }
}

/// Starts processes that end at once.
fn start_processes() -> io::Result<std::convert::Infallible> {
    let start = || {
        let mut command = own_program();
        command.arg(std::process::id().to_string()).arg(NOTHING);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    start()?;
    say_ready()?;
    loop {
        // A limit on processes may be exceeded for a moment.
        if start().is_err() {
            crate::pause::pause(Duration::from_millis(10));
        }
    }
}

/// Writes a file, again and again. The file has no name, so that it does not outlive the process.
fn write_file(folder: &Path, bytes: u64) -> io::Result<std::convert::Infallible> {
    let mut file = unnamed_file(folder)?;
    let block = vec![0xa5; BLOCK];
    file.write_all(&block)?;
    say_ready()?;
    loop {
        file.seek(SeekFrom::Start(0))?;
        let mut written = 0;
        while written < bytes {
            file.write_all(&block)?;
            written += BLOCK as u64;
        }
        file.sync_data()?;
    }
}

fn unnamed_file(folder: &Path) -> io::Result<File> {
    let unnamed = OpenOptions::new().write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(folder);
    unnamed.or_else(|_| {
        // The file system has no unnamed files.
        let path = folder.join(format!("hpt-load-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    })
}

/// Lets many short timers expire.
fn expire_timers() -> io::Result<std::convert::Infallible> {
    for _ in 1..TIMER_THREADS {
        thread::Builder::new().spawn(sleep_repeatedly)?;
    }
    say_ready()?;
    sleep_repeatedly()
}

fn sleep_repeatedly() -> io::Result<std::convert::Infallible> {
    loop {
        crate::pause::pause(TIMER_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, io::Write};

    use super::{unnamed_file, work};

    #[test]
    fn a_worker_whose_parent_has_ended_does_not_work() {
        let work = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            let Err(error) = work(&words);
            error.to_string()
        };
        // This test would end with its own parent, which is no problem.
        assert_eq!(work(&["0", "cpu", "0", "0", "/tmp"]), "the parent process has ended");
        assert_eq!(work(&["0", "program", "true"]), "the parent process has ended");
        for wrong in [&["x"][..], &[], &["1"]] {
            assert_eq!(work(wrong), "wrong arguments of a load", "{wrong:?}");
        }
    }

    #[test]
    fn the_file_of_a_load_has_no_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut file = unnamed_file(folder.path()).expect("a file");
        file.write_all(b"text").expect("space for a few bytes");
        assert_eq!(std::fs::read_dir(folder.path()).expect("our folder").count(), 0);
    }
}
