//! Starts programs for emulated tests from a process that has one thread.
//!
//! QEMU's user-mode emulation copies its own locks into a forked child unchanged. A lock that
//! another thread held remains locked, and the child hangs before it becomes the program. Therefore
//! a child is forked before `main`, when there is no other thread, and starts all programs from
//! then on.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    sync::{Mutex, OnceLock, PoisonError},
};

use super::{ALONE, once_more, runner, unsafe_calls};

static STARTER: OnceLock<Mutex<UnixStream>> = OnceLock::new();

/// The output of a finished program.
pub(crate) struct Said {
    pub(crate) success: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Runs the test with this name in a separate process; `None` if no emulator runs these tests.
pub(crate) fn run(name: &str) -> Option<Said> {
    // One at a time, because the answers have no names.
    let mut stream = STARTER.get()?.lock().unwrap_or_else(PoisonError::into_inner);
    let said = writeln!(stream, "{name}").and_then(|()| {
        let mut success = [0];
        stream.read_exact(&mut success)?;
        Ok(Said { success: success[0] == 1, stdout: received(&mut stream)?, stderr: received(&mut stream)? })
    });
    Some(said.expect("the starter lives as long as this process"))
}

/// Forks the starter if an emulator runs these tests. Called before `main`.
pub(super) fn begin() {
    if runner().is_empty() || std::env::var_os(ALONE).is_some() {
        return;
    }
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    if unsafe_calls::fork_before_main() {
        // Only the parent's end of the pipe keeps the starter alive.
        drop(ours);
        // The end of the parent ends it, even during an answer.
        let _ = serve(&theirs);
        std::process::exit(0);
    }
    let _ = STARTER.set(Mutex::new(ours));
}

fn serve(stream: &UnixStream) -> io::Result<()> {
    for name in BufReader::new(stream).lines() {
        let output = once_more(&name?).output()?;
        let mut stream = stream;
        stream.write_all(&[u8::from(output.status.success())])?;
        for text in [output.stdout, output.stderr] {
            stream.write_all(&(text.len() as u64).to_le_bytes())?;
            stream.write_all(&text)?;
        }
    }
    Ok(())
}

fn received(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let mut text = Vec::new();
    stream.take(u64::from_le_bytes(length)).read_to_end(&mut text)?;
    Ok(text)
}
