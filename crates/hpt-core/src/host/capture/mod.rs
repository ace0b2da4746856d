//! A system snapshot: the files that hpt reads of a system, in memory, and the text format that stores them. Follows no
//! link, and opens no file except a capture and the captures that it is derived from.

mod entry;
mod files;
mod take;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io,
    ops::Bound,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

pub use self::{
    entry::{Entry, ReadRefused},
    take::Captured,
    text::CaptureFault,
};
use self::{
    entry::{MOST_PATHS, wrong_with_path, wrong_with_target},
    text::Section,
};
use super::{LARGEST_FILE, content_of, read_regular_file, refuse_what_is_not_regular};

/// The longest chain of captures derived from each other.
const MOST_BASES: usize = 8;

/// A system snapshot: the files that hpt reads of a system, the facts that no file contains, and a text about its
/// origin.
///
/// [`Display`](fmt::Display) writes it as the text that [`parse`](Self::parse) and [`open`](Self::open) read.
/// `docs/platform.md` in the project describes the format.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, host::{Capture, Entry, Facts}};
///
/// let mut capture = Capture::new();
/// capture.insert("proc/cpuinfo", Entry::File(b"model name : a processor\n".to_vec()))?;
/// let again = Capture::parse(capture.to_string().as_bytes())?;
/// assert_eq!(again, capture);
///
/// let host = Host::captured(again, Facts::live());
/// assert_eq!(host.cpu().name(), Some("a processor"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    about: String,
    facts: String,
    /// The entries of the machine, by path without a leading slash.
    entries: BTreeMap<String, Entry>,
    /// The paths that do not exist. Separate from the others, because they imply no directory.
    absent: BTreeSet<String>,
}

/// Why a capture cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureRefused {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The capture, or a capture that it is derived from.
        path: PathBuf,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
    /// The file is not a valid capture.
    #[error("{path}")]
    Faulty {
        /// The capture, or a capture that it is derived from.
        path: PathBuf,
        /// The fault.
        #[source]
        fault: CaptureFault,
    },
    /// The bases of the capture form a cycle, or there are too many bases.
    #[error("{path} is derived from itself, or through a chain of more than {MOST_BASES} captures; change its base")]
    EndlessBases {
        /// The capture that names the base.
        path: PathBuf,
    },
    /// The capture and its bases are too large together.
    #[error("{path} and its base captures are together larger than 64 MiB")]
    TooLarge {
        /// The capture.
        path: PathBuf,
    },
}

/// Why a path cannot be in a capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not a valid path in a capture: {why}")]
#[non_exhaustive]
pub struct PathRefused {
    /// The path.
    pub path: String,
    /// The reason.
    pub why: &'static str,
}

impl Capture {
    /// Returns an empty capture.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the capture in a file. A derived capture names another one in the same directory, which is read as well.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureRefused`] with the line and a fix.
    pub fn open(path: &Path) -> Result<Self, CaptureRefused> {
        let unreadable = |path: &Path, cause| CaptureRefused::Unreadable { path: path.to_owned(), cause };
        let content = read_regular_file(path).map_err(|cause| unreadable(path, cause))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut size = content.len() as u64;
        let mut chain = Vec::new();
        let mut next = Some((path.to_owned(), content));
        while let Some((path, content)) = next.take() {
            let document =
                text::read(&content).map_err(|fault| CaptureRefused::Faulty { path: path.clone(), fault })?;
            if let Some(base) = &document.base {
                if chain.len() >= MOST_BASES {
                    return Err(CaptureRefused::EndlessBases { path });
                }
                let base = folder.join(base);
                let content = read_base(&base).map_err(|cause| unreadable(&base, cause))?;
                size += content.len() as u64;
                if size > LARGEST_FILE {
                    return Err(CaptureRefused::TooLarge { path });
                }
                next = Some((base, content));
            }
            chain.push((path, document));
        }
        chain.into_iter().rev().try_fold(Self::new(), |base, (path, document)| {
            document.over(base).map_err(|fault| CaptureRefused::Faulty { path, fault })
        })
    }

    /// Parses the text of a capture that is not derived from another one.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureFault`] with the line and a fix.
    pub fn parse(text: &[u8]) -> Result<Self, CaptureFault> {
        let document = text::read(text)?;
        match &document.base {
            Some(base) => Err(CaptureFault {
                line: 2,
                problem: format!("this capture is derived from {base}, which is another file"),
                fix: "open it as a file, with the other file in the same directory".to_owned(),
            }),
            None => document.over(Self::new()),
        }
    }

    /// Returns the text about its origin.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Sets the text about its origin.
    pub fn set_about(&mut self, about: impl Into<String>) {
        self.about = about.into();
    }

    /// Returns the [`Facts`](super::Facts) of the machine as JSON. The library itself neither reads nor writes JSON;
    /// with the feature `serde` its user can.
    #[must_use]
    pub fn facts(&self) -> &str {
        &self.facts
    }

    /// Sets the facts of the machine, as JSON.
    pub fn set_facts(&mut self, facts: impl Into<String>) {
        self.facts = facts.into();
    }

    /// Returns the entry at a path, for example `proc/cpuinfo`. `None` if the capture has no entry there.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path).or_else(|| self.absent.contains(path).then_some(&Entry::Absent))
    }

    /// Returns all entries with their paths: first those that exist, then those that do not, each sorted by path.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        let absent = self.absent.iter().map(|path| (path.as_str(), &Entry::Absent));
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry)).chain(absent)
    }

    /// Sets the entry at a path, for example `proc/cpuinfo`. Replaces a previous one.
    ///
    /// # Errors
    ///
    /// Returns [`PathRefused`] if the path is absolute, contains `..` or control characters, or would turn a directory
    /// into a file. The same applies to a link with such a target.
    pub fn insert(&mut self, path: &str, entry: Entry) -> Result<(), PathRefused> {
        let refused = |why| PathRefused { path: path.to_owned(), why };
        let wrong = wrong_with_path(path).or_else(|| match &entry {
            Entry::Link(target) => wrong_with_target(target),
            Entry::File(_) | Entry::Unreadable(_) | Entry::Absent => None,
        });
        wrong.map_or(Ok(()), |why| Err(refused(why)))?;
        if self.entries.len() + self.absent.len() >= MOST_PATHS {
            return Err(refused("the capture has too many paths"));
        }
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        if entry != Entry::Absent && folders.into_iter().any(|folder| self.get(folder).is_some()) {
            return Err(refused("its parent is not a directory"));
        }
        if self.first_below(path).is_some() {
            return Err(refused("it is a directory"));
        }
        self.set(path, entry);
        Ok(())
    }

    fn set(&mut self, path: &str, entry: Entry) {
        self.remove(path);
        if entry == Entry::Absent {
            self.absent.insert(path.to_owned());
        } else {
            self.entries.insert(path.to_owned(), entry);
        }
    }

    /// Removes the entry at a path.
    pub fn remove(&mut self, path: &str) -> Option<Entry> {
        self.entries.remove(path).or_else(|| self.absent.remove(path).then_some(Entry::Absent))
    }

    /// Returns the first path below a directory.
    fn first_below(&self, folder: &str) -> Option<&str> {
        let begin = format!("{folder}/");
        let first = self.entries.range::<str, _>((Bound::Included(begin.as_str()), Bound::Unbounded)).next();
        first.map(|(path, _)| path.as_str()).filter(|path| path.starts_with(&begin))
    }

    /// Returns a path that is a directory and something else at the same time, and a path below it.
    fn contradiction(&self) -> Option<(&str, &str)> {
        let all = self.entries.keys().chain(&self.absent);
        all.map(String::as_str).find_map(|path| Some((path, self.first_below(path)?)))
    }
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(f, &self.about, &self.facts, self.entries())
    }
}

/// Reads the content of a capture that another one names as its base. The name may come from another user, so no link
/// is followed, and only a regular file is opened.
fn read_base(path: &Path) -> io::Result<Vec<u8>> {
    refuse_what_is_not_regular(&path.symlink_metadata()?)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    refuse_what_is_not_regular(&file.metadata()?)?;
    content_of(file)
}

impl text::Document {
    /// Applies these sections on top of the base.
    fn over(self, base: Capture) -> Result<Capture, CaptureFault> {
        let mut whole = Capture { about: self.about, facts: self.facts.unwrap_or(base.facts), ..base };
        let mut lines = BTreeMap::new();
        for (path, (line, section)) in self.sections {
            match section {
                Section::Is(entry) => whole.set(&path, entry),
                Section::Removed if whole.remove(&path).is_some() => {}
                Section::Removed => {
                    return Err(CaptureFault {
                        line,
                        problem: format!("{} is not in the base", text::quoted(&path)),
                        fix: "remove the line, or correct the path".to_owned(),
                    });
                }
            }
            lines.insert(path, line);
        }
        if let Some((path, below)) = whole.contradiction() {
            let line = [below, path].into_iter().filter_map(|path| lines.get(path).copied()).max().unwrap_or(1);
            return Err(CaptureFault {
                line,
                problem: format!("{} is not a directory, but contains {}", text::quoted(path), text::quoted(below)),
                fix: "remove one of the two, or correct its path".to_owned(),
            });
        }
        Ok(whole)
    }
}
