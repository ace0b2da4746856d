//! The entries of a capture, and the rules for its paths and link targets.

use std::fmt;

/// The maximum length of a path in a capture, in bytes, and the maximum number of its components. The paths that hpt
/// reads are far shorter.
pub(super) const LONGEST_PATH: usize = 512;
pub(super) const DEEPEST_PATH: usize = 64;

/// The maximum number of paths in a capture. Even a capture of a machine with 8192 CPUs has fewer.
pub(super) const MOST_PATHS: usize = 1 << 18;

/// The separator between the path of a link and its target. No path may contain it.
pub(super) const ARROW: &str = " -> ";

/// The entry of a system snapshot at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file, with its content.
    File(Vec<u8>),
    /// A file that could not be read.
    Unreadable(ReadRefused),
    /// A symbolic link, with its target. Links in a capture are not followed.
    Link(String),
    /// No file existed at this path when the capture was made.
    Absent,
}

/// The reason why a file could not be read when the capture was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRefused {
    /// Reading the file requires additional permissions.
    PermissionDenied,
    /// The path is not a regular file but, for example, a directory, a device or a pipe.
    NotRegular,
    /// The file is larger than 64 MiB.
    TooLarge,
    /// The kernel returned this error number. The common numbers are the same on all supported architectures.
    Errno(u16),
}

/// Linux, include/linux/err.h, `MAX_ERRNO`.
pub(super) const LARGEST_ERRNO: u16 = 4095;

impl fmt::Display for ReadRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PermissionDenied => f.write_str("permission-denied"),
            Self::NotRegular => f.write_str("not-a-regular-file"),
            Self::TooLarge => f.write_str("too-large"),
            Self::Errno(errno) => write!(f, "error-{errno}"),
        }
    }
}

impl ReadRefused {
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "permission-denied" => Some(Self::PermissionDenied),
            "not-a-regular-file" => Some(Self::NotRegular),
            "too-large" => Some(Self::TooLarge),
            _ => {
                let number = word.strip_prefix("error-")?;
                let is_number = !number.starts_with(['0', '+']);
                let errno = number.parse().ok().filter(|errno| is_number && (1..=LARGEST_ERRNO).contains(errno));
                errno.map(Self::Errno)
            }
        }
    }
}

/// Returns whether a character can be written to a capture unchanged. This is the case for tabs and visible characters,
/// unless they reverse the direction of text or end a line in some programs.
pub(super) const fn is_plain(letter: char) -> bool {
    let is_control = matches!(letter, '\0'..='\u{8}' | '\u{a}'..='\u{1f}' | '\u{7f}'..='\u{9f}');
    let is_unseen = matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !is_control && !is_unseen
}

/// Returns the reason why a path is invalid; `None` if it is valid.
pub(super) fn wrong_with_path(path: &str) -> Option<&'static str> {
    let is_odd = |name: &str| name.is_empty() || name == "." || name == "..";
    if path.is_empty() {
        Some("it is empty")
    } else if path.starts_with('/') {
        Some("it starts with a slash; paths are relative to the root directory")
    } else if path.len() > LONGEST_PATH {
        Some("it is longer than 512 bytes")
    } else if path.split('/').count() > DEEPEST_PATH {
        Some("it has more than 64 components")
    } else if path.split('/').any(is_odd) {
        Some("one of its components is empty, `.` or `..`")
    } else if !path.chars().all(is_plain) || path.contains('\t') {
        Some("it contains a control character")
    } else if path.starts_with(' ') || path.ends_with(' ') || path.contains(ARROW) {
        Some("it starts or ends with a space, or contains an arrow (` -> `)")
    } else {
        None
    }
}

/// Returns the reason why the target of a link is invalid; `None` if it is valid. A target may be any path because
/// links are not followed.
pub(super) fn wrong_with_target(target: &str) -> Option<&'static str> {
    if target.is_empty() || target.len() > libc::PATH_MAX.unsigned_abs() as usize {
        Some("the target is empty or longer than 4096 bytes")
    } else if !target.chars().all(is_plain) || target.starts_with(' ') || target.ends_with(' ') {
        Some("the target contains a control character, or starts or ends with a space")
    } else {
        None
    }
}
