//! The files of a report. All files are written under temporary names before any of them is renamed, so that a full
//! disk leaves no incomplete file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    exit::Failure,
    output::{
        chart,
        files::{self, Unfinished, WriteError},
    },
};

/// The size of the largest chart, with room to spare.
const LARGEST_CHART: u64 = 16 << 20;

/// The paths of the files.
#[derive(Debug)]
pub(super) struct ReportFiles<'a> {
    pub(super) page: Option<PathBuf>,
    pub(super) data: Option<PathBuf>,
    /// The directory for the charts.
    pub(super) charts: Option<&'a Path>,
    pub(super) force: bool,
}

/// The files that were written.
#[derive(Debug)]
pub(super) struct WrittenFiles<'a> {
    pub(super) page: Option<&'a Path>,
    pub(super) data: Option<&'a Path>,
    pub(super) charts: Option<(&'a Path, usize)>,
}

impl ReportFiles<'_> {
    /// Rejects, before the measurement, paths that cannot be written to, and existing files that must not be replaced.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.page.as_ref().is_some_and(|page| page.as_os_str() == "-") {
            return Err(Failure::Usage("hpt report writes a page and its data to files; --output needs a name, not -"));
        }
        for path in self.page.iter().chain(&self.data) {
            match fs::symlink_metadata(path) {
                Ok(what) if what.is_dir() => return Err(nothing(path)(io::ErrorKind::IsADirectory.into())),
                Ok(_) if !self.force => return Err(Failure::ThereAlready(path.clone())),
                Ok(_) | Err(_) => {}
            }
            // The path names a directory that does not exist.
            if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(nothing(path)(io::ErrorKind::IsADirectory.into()));
            }
            Unfinished::next_to(path).map_err(nothing(path))?;
        }
        if let Some(folder) = self.charts {
            let there = fs::read_dir(folder).ok().and_then(|mut entries| entries.next());
            if let Some(there) = there.filter(|_| !self.force) {
                let first = there.map_or_else(|_| folder.to_owned(), |entry| entry.path());
                return Err(Failure::ThereAlready(first));
            }
            if let Some(path) = drawings(folder).into_iter().find(|path| path.is_dir()) {
                return Err(nothing(&path)(io::ErrorKind::IsADirectory.into()));
            }
            let _gone_again = MadeFolders::down_to(folder).map_err(nothing(folder))?;
            Unfinished::next_to(&folder.join("any")).map_err(nothing(folder))?;
        }
        Ok(())
    }

    /// Rejects a page or data file that would replace an input file, which may be the only copy of its data.
    pub(super) fn spare(&self, read: &[&Path]) -> Result<(), Failure> {
        let is_read = |path: &&PathBuf| {
            let place = fs::canonicalize(path).ok();
            place.is_some() && read.iter().any(|read| fs::canonicalize(read).ok() == place)
        };
        match self.page.iter().chain(&self.data).find(is_read) {
            Some(path) => Err(Failure::OverItsData(path.clone())),
            None => Ok(()),
        }
    }

    /// Writes all files under temporary names, then renames them.
    pub(super) fn keep(
        &self,
        page: &str,
        data: &str,
        charts: &[(String, String)],
    ) -> Result<WrittenFiles<'_>, Failure> {
        self.check()?;
        let made = self.charts.map(|folder| MadeFolders::down_to(folder).map_err(nothing(folder))).transpose()?;
        let mut files: Vec<(PathBuf, &str)> = Vec::new();
        files.extend(self.page.iter().map(|path| (path.clone(), page)));
        files.extend(self.data.iter().map(|path| (path.clone(), data)));
        if let Some(folder) = self.charts {
            files.extend(charts.iter().map(|(name, svg)| (folder.join(format!("{name}.svg")), svg.as_str())));
        }
        let written: Result<Vec<_>, Failure> =
            files.iter().map(|(path, content)| next_to(path, content).map_err(nothing(path))).collect();
        let written = written?;
        if let Some((path, _)) = files.iter().find(|(path, _)| path.is_dir()) {
            return Err(nothing(path)(io::ErrorKind::IsADirectory.into()));
        }
        for ((path, _), file) in files.iter().zip(written) {
            file.put(self.force).map_err(|cause| Failure::Write(WriteError { path: path.clone(), cause }))?;
        }
        made.into_iter().for_each(MadeFolders::stay);
        // Charts that remain from an earlier report would look like charts of this report.
        let earlier = self.charts.map(drawings).unwrap_or_default();
        for path in earlier.iter().filter(|path| is_ours(path) && !files.iter().any(|(file, _)| file == *path)) {
            fs::remove_file(path).map_err(|cause| Failure::Write(WriteError { path: path.clone(), cause }))?;
        }
        Ok(WrittenFiles {
            page: self.page.as_deref(),
            data: self.data.as_deref(),
            charts: self.charts.map(|folder| (folder, charts.len())),
        })
    }
}

/// Newly created directories, the outermost first. Empty directories are removed on drop, unless [`stay`](Self::stay)
/// was called.
#[derive(Debug)]
struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    /// Creates `folder` and its missing parents.
    fn down_to(folder: &Path) -> io::Result<Self> {
        files::create_folders(folder).map(Self)
    }

    fn stay(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // This fails if another process has created a file in the directory.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Returns the files in a directory that are named like the charts of a report, such as `01-cost.svg`.
fn drawings(folder: &Path) -> Vec<PathBuf> {
    let is_called_so = |name: &str| {
        let numbered = name.strip_suffix(".svg").and_then(|name| name.split_once('-'));
        numbered.is_some_and(|(number, _)| number.len() >= 2 && number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_called_so));
    named.map(|entry| entry.path()).collect()
}

/// Returns whether a report wrote this chart, judging by the start of the file.
fn is_ours(path: &Path) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|what| what.is_file());
    let content = if is_file { files::read(path, LARGEST_CHART).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&content[..content.len().min(1_000)]).contains(chart::MARK)
}

fn nothing(path: &Path) -> impl Fn(io::Error) -> Failure {
    let path = path.to_owned();
    move |cause| Failure::NothingWritten { path: path.clone(), cause }
}

/// Writes the content to a new file next to `path`, and flushes it to disk. The new file can replace `path`.
fn next_to(path: &Path, content: &str) -> io::Result<Unfinished> {
    let mut file = Unfinished::next_to(path)?;
    file.fill(content.as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::ReportFiles;
    use crate::output::chart;

    #[test]
    fn only_the_charts_of_an_earlier_report_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let own = format!("<svg {}/>", chart::MARK);
        for (name, content) in [
            ("01-cost.svg", own.as_str()),
            ("02-old.svg", &own),
            ("03-mine.svg", "<svg/>"),
            ("old.svg", &own),
            ("04-notes.txt", &own),
        ] {
            fs::write(path(name), content).expect("ours");
        }
        let keeping = ReportFiles { page: Some(path("a.html")), data: None, charts: Some(folder.path()), force: true };
        let drawn = |name: &str| vec![(name.to_owned(), own.clone())];
        keeping.keep("page", "", &drawn("01-cost")).expect("it may be replaced");
        let there = || {
            let mut names: Vec<_> = fs::read_dir(folder.path())
                .expect("ours")
                .map(|entry| entry.expect("ours").file_name().into_string().expect("UTF-8"))
                .collect();
            names.sort();
            names
        };
        assert_eq!(there(), ["01-cost.svg", "03-mine.svg", "04-notes.txt", "a.html", "old.svg"]);

        // A directory instead of a chart: nothing is changed, and that is detected before anything is measured.
        fs::create_dir(path("02-latency.svg")).expect("ours");
        let before = there();
        for refused in [keeping.check().err(), keeping.keep("other", "", &drawn("02-latency")).err()] {
            assert!(refused.is_some_and(|why| why.to_string().contains("02-latency.svg")));
        }
        assert_eq!((there(), fs::read_to_string(path("a.html")).expect("there").as_str()), (before, "page"));
    }

    #[test]
    fn files_are_replaced_only_on_request_and_never_left_incomplete() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let charts = path("pictures");
        let keeping = |force| ReportFiles {
            page: Some(path("a.html")),
            data: Some(path("a.json")),
            charts: Some(&charts),
            force,
        };
        let drawn = [("one".to_owned(), "<svg/>".to_owned())];
        keeping(false).keep("page", "{}", &drawn).expect("everything is new");
        assert_eq!(fs::read_to_string(path("a.html")).expect("there"), "page");
        assert_eq!(fs::read_to_string(path("pictures/one.svg")).expect("there"), "<svg/>");
        let refused = keeping(false).keep("other", "{}", &drawn).expect_err("it is there");
        assert!(refused.to_string().contains("--force"), "{refused}");
        assert_eq!(fs::read_to_string(path("a.html")).expect("there"), "page");
        keeping(true).keep("other", "{}", &drawn).expect("it may be replaced");
        assert_eq!(fs::read_to_string(path("a.html")).expect("there"), "other");

        // If nothing can be written, no created directory remains, not even an outer one.
        let (outer, inner) = (path("outer"), path("outer/inner"));
        let nowhere =
            ReportFiles { page: Some(path("not there/b.html")), data: None, charts: Some(&inner), force: false };
        nowhere.keep("page", "", &drawn).expect_err("the folder is not there");
        let only_charts = ReportFiles { page: None, data: None, charts: Some(&inner), force: false };
        only_charts.check().expect("it can be made");
        assert!(!outer.exists());
        let too_long = "x".repeat(300);
        only_charts.keep("", "", &[(too_long, "<svg/>".to_owned())]).expect_err("no file is called so");
        assert!(!outer.exists());
        only_charts.keep("", "", &drawn).expect("everything is new");
        assert!(inner.join("one.svg").is_file());

        // The last of three cannot be written: none of the others is changed.
        let blocked =
            ReportFiles { page: Some(path("a.html")), data: Some(path("not there/a.json")), charts: None, force: true };
        blocked.keep("third", "{}", &[]).expect_err("the folder is not there");
        assert_eq!(fs::read_to_string(path("a.html")).expect("there"), "other");
        let left: Vec<_> =
            fs::read_dir(folder.path()).expect("ours").map(|entry| entry.expect("ours").file_name()).collect();
        assert_eq!(left.len(), 4, "{left:?}");
    }
}
