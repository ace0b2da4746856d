//! A system snapshot: the files that this crate reads from a system, in memory, and the text format that stores them.
//! The only files that this module opens are a capture and the captures from which it is derived. It does not follow
//! links in a capture.

mod entry;
mod files;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io,
    ops::Bound,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::{
    entry::{Entry, ReadRefused},
    text::CaptureTextError,
};
use self::{
    entry::{MOST_PATHS, wrong_with_path, wrong_with_target},
    text::Section,
};
use crate::host::{Facts, Host, LARGEST_FILE, Root, content_of, read_regular_file, refuse_what_is_not_regular};

impl Host {
    /// Creates a host from a capture and the facts about the captured machine.
    #[must_use]
    pub fn captured(capture: Capture, facts: Facts) -> Self {
        Self { root: Root::Recorded(Arc::new(capture)), facts, live: false }
    }
}

/// The maximum number of captures from which a capture can be derived, directly and indirectly.
const MOST_BASES: usize = 8;

/// A system snapshot: the files that this crate reads from a system, the facts that no file contains, and a description
/// of its origin.
///
/// [`Display`](fmt::Display) writes a capture as the text that [`parse`](Self::parse) and [`open`](Self::open) read.
/// `docs/platform.md` in the repository describes the format.
///
/// # Examples
///
/// ```
/// use hpt_sys::host::{Capture, Entry, Facts, Host};
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
    /// The entries of existing paths. The keys are the paths, without a leading slash.
    entries: BTreeMap<String, Entry>,
    /// The paths that do not exist. They are stored separately because they do not imply that their directory exists.
    absent: BTreeSet<String>,
}

/// The reason why a capture cannot be opened.
#[derive(Debug)]
pub enum CaptureError {
    /// The file cannot be read.
    Unreadable {
        /// The capture, or a capture that it is derived from.
        path: PathBuf,
        /// The error that the operating system returned.
        cause: io::Error,
    },
    /// The file is not a valid capture.
    Faulty {
        /// The capture, or a capture that it is derived from.
        path: PathBuf,
        /// The fault.
        fault: CaptureTextError,
    },
    /// The bases of the capture form a cycle, or there are too many bases.
    EndlessBases {
        /// The capture that names the base.
        path: PathBuf,
    },
    /// The total size of the capture and its bases is too large.
    TooLarge {
        /// The capture.
        path: PathBuf,
    },
}

impl std::fmt::Display for CaptureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable { path, .. } => write!(f, "cannot read {}", path.display()),
            Self::Faulty { path, .. } => write!(f, "{}", path.display()),
            Self::EndlessBases { path } => write!(
                f,
                "{} is derived from itself, or through a chain of more than {MOST_BASES} captures; change its base",
                path.display()
            ),
            Self::TooLarge { path } => {
                write!(f, "the total size of {} and its base captures exceeds 64 MiB", path.display())
            }
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { cause, .. } => Some(cause),
            Self::Faulty { fault: cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// The reason why an entry cannot be added to a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The path.
    pub path: String,
    /// The reason.
    pub why: &'static str,
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, why } = self;
        write!(f, "{path:?} is not a valid path in a capture: {why}")
    }
}

impl std::error::Error for PathError {}

impl Capture {
    /// Creates an empty capture.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a capture from a file. If the capture is derived from another capture in the same directory, that capture
    /// is also read.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError`] if a file cannot be read or is not a valid capture. For an invalid capture, the error
    /// contains the line and a fix.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let unreadable = |path: &Path, cause| CaptureError::Unreadable { path: path.to_owned(), cause };
        let content = read_regular_file(path).map_err(|cause| unreadable(path, cause))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut size = content.len() as u64;
        let mut chain = Vec::new();
        let mut next = Some((path.to_owned(), content));
        while let Some((path, content)) = next.take() {
            let document = text::read(&content).map_err(|fault| CaptureError::Faulty { path: path.clone(), fault })?;
            if let Some(base) = &document.base {
                if chain.len() >= MOST_BASES {
                    return Err(CaptureError::EndlessBases { path });
                }
                let base = folder.join(base);
                let content = read_base(&base).map_err(|cause| unreadable(&base, cause))?;
                size += content.len() as u64;
                if size > LARGEST_FILE {
                    return Err(CaptureError::TooLarge { path });
                }
                next = Some((base, content));
            }
            chain.push((path, document));
        }
        chain.into_iter().rev().try_fold(Self::new(), |base, (path, document)| {
            document.over(base).map_err(|fault| CaptureError::Faulty { path, fault })
        })
    }

    /// Parses the text of a capture that is not derived from another capture.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureTextError`], which contains the line and a fix, if the text is not a valid capture or is derived
    /// from another capture.
    pub fn parse(text: &[u8]) -> Result<Self, CaptureTextError> {
        let document = text::read(text)?;
        match &document.base {
            Some(base) => Err(CaptureTextError {
                line: 2,
                problem: format!("this capture is derived from {base}, which is in another file"),
                fix: "open the capture as a file, with the other file in the same directory".to_owned(),
                is_capture: true,
            }),
            None => document.over(Self::new()),
        }
    }

    /// Returns the description of the capture's origin.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Sets the description of the capture's origin.
    pub fn set_about(&mut self, about: impl Into<String>) {
        self.about = about.into();
    }

    /// Returns the [`Facts`] of the machine as JSON. The library itself neither reads nor writes JSON.
    /// With the `serde` feature, its users can convert facts from and to JSON.
    #[must_use]
    pub fn facts(&self) -> &str {
        &self.facts
    }

    /// Sets the facts of the machine, as JSON.
    pub fn set_facts(&mut self, facts: impl Into<String>) {
        self.facts = facts.into();
    }

    /// Returns the entry at a path, for example `proc/cpuinfo`; `None` if the capture has no entry for this path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path).or_else(|| self.absent.contains(path).then_some(&Entry::Absent))
    }

    /// Returns all entries with their paths. The paths that exist come first, followed by the paths that do not exist.
    /// Both groups are sorted.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        let absent = self.absent.iter().map(|path| (path.as_str(), &Entry::Absent));
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry)).chain(absent)
    }

    /// Sets the entry at a path, for example `proc/cpuinfo`, and replaces any previous entry.
    ///
    /// # Errors
    ///
    /// Returns [`PathError`] in these cases:
    ///
    /// - The path is invalid: for example, it is absolute, or contains `..` or a control character.
    /// - The target of a link is empty or too long, contains a control character, or starts or ends with a space.
    /// - The entry would turn a directory into a file, or a file into a directory.
    /// - The capture has too many paths.
    pub fn insert(&mut self, path: &str, entry: Entry) -> Result<(), PathError> {
        let refused = |why| PathError { path: path.to_owned(), why };
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

    /// Removes the entry at a path and returns it.
    pub fn remove(&mut self, path: &str) -> Option<Entry> {
        self.entries.remove(path).or_else(|| self.absent.remove(path).then_some(Entry::Absent))
    }

    /// Returns the first path below a directory.
    fn first_below(&self, folder: &str) -> Option<&str> {
        let begin = format!("{folder}/");
        let first = self.entries.range::<str, _>((Bound::Included(begin.as_str()), Bound::Unbounded)).next();
        first.map(|(path, _)| path.as_str()).filter(|path| path.starts_with(&begin))
    }

    /// Returns a path that has an entry although it must be a directory, and a path below it; `None` if there is none.
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

/// Reads the file that a capture names as its base. The name may come from an untrusted user, so links are not
/// followed, and only a regular file is opened.
fn read_base(path: &Path) -> io::Result<Vec<u8>> {
    refuse_what_is_not_regular(&path.symlink_metadata()?)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    refuse_what_is_not_regular(&file.metadata()?)?;
    content_of(file)
}

impl text::Document {
    /// Applies the sections of this document to the base.
    fn over(self, base: Capture) -> Result<Capture, CaptureTextError> {
        let mut whole = Capture { about: self.about, facts: self.facts.unwrap_or(base.facts), ..base };
        let mut lines = BTreeMap::new();
        for (path, (line, section)) in self.sections {
            match section {
                Section::Is(entry) => whole.set(&path, entry),
                Section::Removed if whole.remove(&path).is_some() => {}
                Section::Removed => {
                    return Err(CaptureTextError {
                        line,
                        problem: format!("{} is not in the base", text::quoted(&path)),
                        fix: "remove the line, or correct the path".to_owned(),
                        is_capture: true,
                    });
                }
            }
            lines.insert(path, line);
        }
        if let Some((path, below)) = whole.contradiction() {
            let line = [below, path].into_iter().filter_map(|path| lines.get(path).copied()).max().unwrap_or(1);
            return Err(CaptureTextError {
                line,
                problem: format!(
                    "{} is not a directory, but the capture contains {}",
                    text::quoted(path),
                    text::quoted(below)
                ),
                fix: "remove one of the two, or correct its path".to_owned(),
                is_capture: true,
            });
        }
        Ok(whole)
    }
}
