//! A run of hpt whose standard error is a terminal. Its progress bar shows when hpt has begun to
//! measure, so that a test can wait for it. Standard output is a pipe, for the document, or the same
//! terminal.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use super::{is_stopped, unsafe_calls, wait_until, wait_while_running};

/// A run that ends with the test.
pub(crate) struct AtATerminal {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<Vec<u8>>>,
    printed: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

/// Reads all output. The end of a terminal is an error (EIO), when no process has it open.
fn read_all(mut from: impl Read + Send + 'static, into: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut piece = [0; 4096];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return,
                Ok(length) => into.lock().unwrap_or_else(PoisonError::into_inner).extend(&piece[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })
}

fn text(of: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&of.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// Whether a progress bar was above zero, according to the figure before ` %`.
fn shows_progress(shown: &str) -> bool {
    progress(shown) > 0.0
}

/// Returns the highest figure that a progress bar has shown, in percent.
fn progress(shown: &str) -> f64 {
    let mut before: Vec<_> = shown.split(" %").collect();
    before.pop();
    let figures = before.iter().filter_map(|before| before.split_whitespace().next_back()?.parse::<f64>().ok());
    figures.fold(0.0, f64::max)
}

impl AtATerminal {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_on(80, command.stdout(Stdio::piped()))
    }

    /// Starts a run whose standard output is the terminal, too. The terminal has this number of columns.
    pub(crate) fn start_with_output(columns: u16, command: &mut Command) -> Self {
        let (screen, written): (File, File) = unsafe_calls::terminal().expect("Linux has terminals");
        command.stdout(written.try_clone().expect("it is open"));
        Self::start_in((screen, written), columns, command)
    }

    fn start_on(columns: u16, command: &mut Command) -> Self {
        Self::start_in(unsafe_calls::terminal().expect("Linux has terminals"), columns, command)
    }

    fn start_in((screen, written): (File, File), columns: u16, command: &mut Command) -> Self {
        unsafe_calls::set_columns(&screen, columns);
        command.env("TERM", "xterm").stderr(written);
        let mut child = command.spawn().expect("the binary was built");
        // The command also has the other end open, and the terminal ends only after that is closed.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (shown, printed) = (Arc::default(), Arc::default());
        let keyboard = screen.try_clone().expect("it is open");
        let mut readers = vec![read_all(screen, Arc::clone(&shown))];
        readers.extend(child.stdout.take().map(|out| read_all(out, Arc::clone(&printed))));
        Self { child, keyboard, shown, printed, readers }
    }

    /// Presses Ctrl-C: the terminal echoes `^C`, and the run receives the signal. The terminal is not
    /// its controlling terminal, so the test sends the signal.
    pub(crate) fn press_ctrl_c(&mut self) {
        self.keyboard.write_all(b"\x03").expect("a terminal");
        self.wait_until_shown("the terminal echoes ^C", |shown| shown.contains("^C"));
        self.interrupt();
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the terminal shows this text. The run must not end before.
    #[track_caller]
    pub(crate) fn wait_until_shown(&mut self, what: &str, mut is_so: impl FnMut(&str) -> bool) {
        let shown = Arc::clone(&self.shown);
        wait_while_running(&mut self.child, what, || is_so(&text(&shown)));
    }

    /// Waits until the progress bar is above zero: the measurement has begun.
    #[track_caller]
    pub(crate) fn wait_until_it_measures(&mut self) {
        self.wait_until_shown("the bar shows progress", shows_progress);
    }

    /// Waits until the progress bar has reached this figure, in percent.
    #[track_caller]
    pub(crate) fn wait_until_done(&mut self, percent: f64) {
        self.wait_until_shown("the bar advances", |shown| progress(shown) >= percent);
    }

    /// Whether it has ended, shows progress, or has printed something.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_some()
    }

    pub(crate) fn has_something_to_say(&self) -> bool {
        shows_progress(&text(&self.shown)) || !text(&self.printed).is_empty()
    }

    /// Stops the run unless it has ended. Returns the lines that the terminal shows then; `None` if
    /// the run has ended. A stopped run cannot end before [`go_on`](Self::go_on), however long this
    /// thread waits for a CPU.
    pub(crate) fn stop(&mut self) -> Option<Vec<String>> {
        if self.has_ended() {
            return None;
        }
        unsafe_calls::stop(self.id());
        wait_until("it is stopped, or has ended", || is_stopped(self.id()) || self.has_ended());
        if self.has_ended() {
            return None;
        }
        // The terminal echoes the key after everything that the run has written.
        self.keyboard.write_all(b"\x03").expect("a terminal");
        self.wait_until_shown("the terminal echoes ^C", |shown| shown.contains("^C"));
        let shown = text(&self.shown);
        Some(screen(shown.rsplit_once("^C").map_or("", |(before, _)| before), 80))
    }

    /// Continues a stopped run.
    pub(crate) fn go_on(&self) {
        unsafe_calls::go_on(self.id());
    }

    /// Interrupts the run unless it has ended.
    pub(crate) fn interrupt(&mut self) {
        if !self.has_ended() {
            unsafe_calls::interrupt(self.id());
        }
    }

    /// Waits for its end, and returns its status with all its output.
    pub(crate) fn output(mut self) -> Output {
        let status = self.child.wait().expect("started");
        for reader in self.readers.drain(..) {
            reader.join().expect("it does not panic");
        }
        let bytes = |of: &Mutex<Vec<u8>>| of.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Output { status, stdout: bytes(&self.printed), stderr: bytes(&self.shown) }
    }
}

/// Returns the lines that a terminal of this width displays after it received `shown`. Interprets the
/// characters and escape sequences that hpt uses, and ignores colors.
pub(crate) fn screen(shown: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut letters = shown.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                let mut sequence: String = letters.by_ref().skip_while(|&letter| letter == '[').take(1).collect();
                while !sequence.ends_with(|letter: char| letter.is_ascii_alphabetic()) {
                    sequence.extend(letters.next());
                }
                let (number, command) = sequence.split_at(sequence.len() - 1);
                let count = number.parse::<usize>().unwrap_or(1);
                match (command, number) {
                    ("A", _) => row = row.saturating_sub(count),
                    ("B", _) => row += count,
                    ("C", _) => column += count,
                    ("D", _) => column = column.saturating_sub(count),
                    ("J", _) => {
                        lines.truncate(row + 1);
                        lines[row].truncate(column);
                    }
                    ("K", "2") => lines[row].clear(),
                    ("K", _) => lines[row].truncate(column),
                    _ => {}
                }
            }
            _ => {
                // A letter after the last column is written on the next line.
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                lines.resize(lines.len().max(row + 1), Vec::new());
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = letter;
                column += 1;
            }
        }
        lines.resize(lines.len().max(row + 1), Vec::new());
    }
    lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_owned()).collect()
}

#[test]
fn a_screen_shows_what_was_not_erased() {
    assert_eq!(screen("one\r\ntwo\r\u{1b}[2Kthree", 80), ["one", "three"]);
    assert_eq!(screen("abcd", 3), ["abc", "d"]);
    assert_eq!(screen("abc\r\nd\r\ne\r\u{1b}[2Ax\u{1b}[J", 80), ["x"]);
    assert_eq!(screen("abc\u{1b}[31m\u{1b}[2D\u{1b}[Kd\r\nx\u{1b}[1A\u{1b}[2K", 80), ["", "x"]);
}

impl Drop for AtATerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_bar_at_zero_differs_from_one_that_moved() {
    for nothing in ["", "bench   ", "wake-ups  \u{2591}\u{2591} 0.00 % 9m", " %", "100 x % 0 % a"] {
        assert!(!shows_progress(nothing), "{nothing:?}");
    }
    for moved in ["wake-ups \u{2588}\u{2591} 0.0 % 9m\r\u{1b}[2Kwake-ups \u{2588}\u{2591} 0.1 % 9m", "100 %"] {
        assert!(shows_progress(moved), "{moved:?}");
    }
}
