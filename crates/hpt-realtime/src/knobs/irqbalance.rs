//! The list of interrupts that irqbalance does not move, which it reports and accepts on its socket. This module neither
//! starts nor stops irqbalance, and the list ends with its process.

use std::{
    fs, io,
    io::{Read, Write},
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// The directory of the socket, whose name contains the process ID. irqbalance 1.9, irqbalance.h, SOCKET_TMPFS.
pub const FOLDER: &str = "/run/irqbalance";
/// The value of an empty list.
pub const NONE: &str = "none";
/// The maximum size of an answer. It contains about 50 bytes for each interrupt in the list.
const LONGEST_ANSWER: u64 = 256 << 10;
/// irqbalance does not answer while it waits between two scans after a change of its list, for as long as its interval,
/// usually 10 s: irqbalance.c, scan.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A request that irqbalance does not know. It closes the connection without an answer.
const NO_REQUEST: &str = "?";

/// Returns the socket if the path is that of the socket of an irqbalance process.
pub(super) fn socket(path: &Path) -> Option<PathBuf> {
    let name = path.strip_prefix(FOLDER).ok()?.to_str()?;
    is_socket_name(name).then(|| path.to_owned())
}

/// Returns whether a file in [`FOLDER`] has the name of a socket of irqbalance.
#[must_use]
pub fn is_socket_name(name: &str) -> bool {
    let number = name.strip_prefix("irqbalance").and_then(|rest| rest.strip_suffix(".sock"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the interrupts that irqbalance does not move, separated by spaces, in ascending order.
pub(super) fn banned(socket: &Path) -> io::Result<String> {
    let answer = exchange(socket, "setup")?;
    if !answer.starts_with("SLEEP ") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer of irqbalance has an unexpected format"));
    }
    Ok(listed(&answer))
}

/// Replaces the list.
pub(super) fn ban(socket: &Path, list: &str) -> io::Result<()> {
    let list = if list == NONE { "NONE" } else { list };
    exchange(socket, &format!("settings ban irqs {list}")).map(drop)
}

/// Returns the interrupts in an answer: `SLEEP 10 IRQ 24 LOAD 0 DIFF 0 CLASS 5 BANNED 0`.
fn listed(answer: &str) -> String {
    let words: Vec<&str> = answer.split_whitespace().collect();
    let numbers = words.windows(2).filter(|pair| pair[0] == "IRQ").filter_map(|pair| pair[1].parse().ok());
    list_of(numbers)
}

/// Returns the value for these interrupts. irqbalance accepts no interrupt 0, which marks the end of the list.
pub fn list_of(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut numbers: Vec<u32> = numbers.into_iter().filter(|&number| number > 0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        return NONE.to_owned();
    }
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns whether a value is a list that [`list_of`] can return.
pub(super) fn is_list(value: &str) -> bool {
    let numbers: Option<Vec<u32>> = value.split(' ').map(|number| number.parse().ok()).collect();
    value == NONE || numbers.is_some_and(|numbers| list_of(numbers) == value)
}

/// Sends a request, and returns the answer, which is empty for most requests.
///
/// irqbalance ends (SIGPIPE) if it answers after the other end is closed, for example because this process was killed.
/// Therefore, a request without an answer first waits until irqbalance is ready to answer at once.
fn exchange(socket: &Path, request: &str) -> io::Result<String> {
    send(socket, NO_REQUEST)?;
    send(socket, request)
}

/// Sends a request, and reads until irqbalance closes the connection, which it does when it has carried out the request.
fn send(socket: &Path, request: &str) -> io::Result<String> {
    let folder = fs::symlink_metadata(FOLDER)?;
    let about = fs::symlink_metadata(socket)?;
    if folder.uid() != 0 || !folder.is_dir() || about.uid() != 0 || !about.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a socket of root"));
    }
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LONGEST_WAIT))?;
    stream.set_write_timeout(Some(LONGEST_WAIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_list, list_of, listed, socket};

    #[test]
    fn the_list_follows_from_the_answer() {
        let answer = "SLEEP 10 IRQ 27 LOAD 3 DIFF 0 CLASS 5 IRQ 24 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000";
        assert_eq!(listed(answer), "24 27");
        assert_eq!(listed("SLEEP 10 BANNED 0"), "none");
        assert_eq!(list_of([0, 5, 5]), "5");
    }

    #[test]
    fn only_lists_of_interrupts_are_values() {
        assert!(is_list("none") && is_list("5") && is_list("5 24"));
        for wrong in ["", "NONE", "0", "24 5", "5 5", "5  6", "5,6", "-1", "5 x", "5 6 "] {
            assert!(!is_list(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_socket_of_irqbalance_is_one() {
        assert!(socket(Path::new("/run/irqbalance/irqbalance12.sock")).is_some());
        for other in ["/run/irqbalance/irqbalance.sock", "/run/irqbalance/other12.sock", "/tmp/irqbalance12.sock", ""] {
            assert!(socket(Path::new(other)).is_none(), "{other}");
        }
    }
}
