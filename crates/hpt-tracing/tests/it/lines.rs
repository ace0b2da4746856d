//! Timestamps in the lines of `tracing_subscriber::fmt`.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use hpt_core::{Instant, testing::FrozenClock};
use hpt_tracing::time::{Digits, Uptime, WallClock};
use tracing_subscriber::fmt::{MakeWriter, time::FormatTime};

/// Collects what a subscriber writes.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Returns the lines that `work` logs with timestamps of `timer`.
fn logged(timer: impl FormatTime + Send + Sync + 'static, work: impl FnOnce()) -> String {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_timer(timer).with_ansi(false).with_writer(lines.clone()).finish();
    tracing::subscriber::with_default(subscriber, work);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn uptimes_follow_the_clock() {
    let clock = FrozenClock::new();
    let _entered = clock.enter();
    let lines = logged(Uptime::new().with_digits(Digits::Milli), || {
        tracing::info!("begun");
        clock.advance(Duration::from_millis(123_456));
        tracing::info!("ended");
    });
    assert_eq!(lines, "       0.000s  INFO it::lines: begun\n     123.456s  INFO it::lines: ended\n");
}

#[test]
fn the_time_since_boot_is_the_reading_of_the_clock() {
    let before = Instant::now().as_nanos();
    let line = logged(Uptime::since_boot().with_digits(Digits::Nano), || tracing::info!("now"));
    let after = Instant::now().as_nanos();
    let (seconds, _) = line.trim_start().split_once("s ").unwrap();
    let printed: i64 = seconds.replace('.', "").parse().unwrap();
    assert!((before..=after).contains(&printed), "{before} {line} {after}");
}

#[test]
fn wall_clock_times_are_those_of_the_system() {
    for timer in [WallClock::utc(), WallClock::local()] {
        let line = logged(timer, || tracing::info!("now"));
        let (time, rest) = line.split_once(' ').unwrap();
        assert_eq!(rest, " INFO it::lines: now\n");
        assert!(time.len() == 27 || time.len() == 32, "{time}");
        assert!(time.ends_with('Z') || time.as_bytes()[time.len() - 6] != b'.', "{time}");
    }
}
