//! Reads the CSV format of sigrok: comments with the sample rate and the channels, a row of labels, and one row for each
//! sample. Does not interpret the levels.
//!
//! # References
//!
//! libsigrok 0.5.2, src/output/csv.c.

use std::io::{self, BufRead, Read};

/// The longest line, in bytes. sigrok writes at most some hundred.
const LONGEST: u64 = 1 << 16;
/// The time units that sigrok uses as the label of the time column, each with the number of digits after the second.
const UNITS: [(&str, u32); 6] =
    [("samples", 0), ("seconds", 0), ("milliseconds", 3), ("microseconds", 6), ("nanoseconds", 9), ("picoseconds", 12)];
/// The label of the time column if the other labels are the names of the channels.
const TIME: &str = "Time";
const TRIGGER: &str = "Trigger";
/// The label of the column of a digital channel if the labels are units.
const LOGIC: &str = "logic";

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error("line {line}: {why}")]
    Line { line: u64, why: String },
    #[error("{0}")]
    Whole(String),
    #[error("{0}")]
    Read(#[from] io::Error),
}

/// The comments at the start of a file.
#[derive(Debug, Default)]
struct Comments {
    rate_hz: Option<u64>,
    channels: Vec<String>,
}

impl Comments {
    fn note(&mut self, comment: &str) {
        let comment = comment.trim_start_matches(';').trim();
        if let Some(rate) = comment.strip_prefix("Samplerate: ") {
            self.rate_hz = rate_hz(rate).or(self.rate_hz);
        } else if let Some((_, names)) = comment.strip_prefix("Channels (").and_then(|rest| rest.split_once("): ")) {
            self.channels = names.split(", ").map(str::to_owned).collect();
        }
    }
}

/// Parses a sample rate, for example `12.5 kHz`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the limits are checked")]
fn rate_hz(text: &str) -> Option<u64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let factor = match unit {
        "Hz" => 1.0,
        "kHz" => 1e3,
        "MHz" => 1e6,
        "GHz" => 1e9,
        _ => return None,
    };
    let hertz = (number.parse::<f64>().ok()? * factor).round();
    (1.0..=1e12).contains(&hertz).then_some(hertz as u64)
}

/// Where a row contains what, and what a tick is.
#[derive(Debug, PartialEq)]
pub(super) struct Layout {
    /// The sample rate, if the file states it. A tick is then the time between two samples.
    pub(super) rate_hz: Option<u64>,
    /// The length of a tick, in nanoseconds.
    pub(super) tick_ns: f64,
    pub(super) channels: Vec<String>,
    /// The column of each channel.
    columns: Vec<usize>,
    /// Whether the first column is the time, and by how much it increases from one tick to the next.
    time_step: Option<u64>,
    /// The number of columns.
    width: usize,
}

impl Layout {
    fn of(comments: &Comments, labels: Option<&[String]>, width: usize) -> Result<Self, String> {
        let label = |column: usize| labels.and_then(|labels| labels.get(column)).map(String::as_str);
        let unit = label(0).and_then(|first| UNITS.iter().find(|(name, _)| *name == first));
        let unlabeled = labels.is_none() && !comments.channels.is_empty() && width == comments.channels.len() + 1;
        let has_time = unit.is_some() || label(0) == Some(TIME) || unlabeled;
        let (tick_ns, step) = match (comments.rate_hz, unit) {
            (Some(hertz), _) => (1e9 / hertz_f64(hertz), step_of(hertz)),
            (None, Some((name, digits))) if *name != "samples" => {
                (1e9 / 10_f64.powi(i32::try_from(*digits).unwrap_or(i32::MAX)), 1)
            }
            (None, _) => {
                return Err(
                    "it states neither the sample rate (`; Samplerate: 50 MHz`) nor the unit of a time column; \
                            write it with `sigrok-cli -O csv`"
                        .to_owned(),
                );
            }
        };
        let are_units = labels.is_some_and(|labels| labels.iter().any(|label| label == LOGIC));
        let first = usize::from(has_time);
        let is_channel = |column: &usize| match label(*column) {
            Some(label) if are_units => label == LOGIC,
            Some(label) => label != TRIGGER,
            None => true,
        };
        let columns: Vec<usize> = (first..width).filter(is_channel).collect();
        let name = |&column: &usize| {
            let of_label = label(column).filter(|_| !are_units).map(str::to_owned);
            let of_comment = || comments.channels.get(column - first).cloned();
            of_label.or_else(of_comment).unwrap_or_else(|| format!("column {}", column + 1))
        };
        let channels: Vec<String> = columns.iter().map(name).collect();
        if channels.is_empty() {
            return Err("it has no column of a digital channel".to_owned());
        }
        Ok(Self { rate_hz: comments.rate_hz, tick_ns, channels, columns, time_step: has_time.then_some(step), width })
    }

    /// Leaves only these channels, unless the list is empty.
    fn select(&mut self, wanted: &[String]) -> Result<(), String> {
        if let Some(absent) = wanted.iter().find(|name| !self.channels.contains(name)) {
            return Err(format!("it has no channel {absent:?} (channels: {})", self.channels.join(", ")));
        }
        if !wanted.is_empty() {
            let kept = |name: &String| wanted.contains(name);
            let (channels, columns) =
                self.channels.iter().cloned().zip(self.columns.iter().copied()).filter(|(name, _)| kept(name)).unzip();
            (self.channels, self.columns) = (channels, columns);
        }
        Ok(())
    }

    /// Parses a row. Returns its time in ticks; `number` is the number of rows before it. Fills in `levels`.
    fn row(&self, line: &[u8], number: u64, levels: &mut Vec<bool>) -> Result<u64, String> {
        let text = |cell: &[u8]| String::from_utf8_lossy(&cell[..cell.len().min(40)]).into_owned();
        levels.clear();
        let mut at = number;
        let (mut channel, mut width) = (0, 0);
        for (column, cell) in line.split(|&byte| byte == b',').enumerate() {
            width += 1;
            if let Some(step) = self.time_step.filter(|_| column == 0) {
                let time = std::str::from_utf8(cell).ok().and_then(|time| time.parse::<u64>().ok());
                let time = time.ok_or_else(|| format!("{:?} is not a time in whole units", text(cell)))?;
                if time % step != 0 {
                    return Err(format!("the time {time} is not a multiple of the time between two samples, {step}"));
                }
                at = time / step;
            } else if self.columns.get(channel) == Some(&column) {
                levels.push(match cell {
                    b"0" => false,
                    b"1" => true,
                    other => {
                        let name = &self.channels[channel];
                        return Err(format!(
                            "{name} is {:?}, and not 0 or 1; select digital channels with --channel",
                            text(other)
                        ));
                    }
                });
                channel += 1;
            }
        }
        if width != self.width {
            return Err(format!("{width} columns instead of {}", self.width));
        }
        Ok(at)
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most 1e12")]
const fn hertz_f64(hertz: u64) -> f64 {
    hertz as f64
}

/// Returns by how much sigrok's time column increases with each sample. sigrok uses the largest unit of which a sample
/// takes at least one, and cuts off the rest of the division: 333 ns at 3 MHz.
fn step_of(hertz: u64) -> u64 {
    let units = [0, 3, 6, 9, 12].map(|digits| 10_u64.pow(digits));
    units.into_iter().find(|unit| *unit >= hertz).map_or(1, |unit| unit / hertz)
}

/// Receives the samples.
pub(super) trait Samples {
    /// A sample: its time in ticks, and the levels of the channels.
    fn sample(&mut self, at: u64, levels: &[bool]);

    /// A gap of unknown length.
    fn gap(&mut self);
}

/// The facts about a file that was read.
#[derive(Debug, PartialEq)]
pub(super) struct Whole {
    pub(super) layout: Layout,
    pub(super) samples: u64,
    /// Whether two successive rows without a time are equal. If none are, rows may be missing.
    pub(super) may_lack_rows: bool,
}

/// The number of rows between two calls of `goes_on`.
const ASKED_EVERY: u64 = 4_096;

/// Reads a file. `receiver` is called once, with the layout, before the first sample. Ends early, without an error, if
/// `goes_on` returns false.
pub(super) fn read<S: Samples>(
    input: impl BufRead,
    (wanted, goes_on): (&[String], &dyn Fn() -> bool),
    receiver: impl FnOnce(&Layout) -> S,
) -> Result<(Whole, S), Malformed> {
    let mut lines = Lines { input, buffer: Vec::new(), number: 0 };
    let Some(mut layout) = begin(&mut lines)? else {
        return Err(Malformed::Whole("it contains no sample".to_owned()));
    };
    layout.select(wanted).map_err(Malformed::Whole)?;
    let mut receiver = receiver(&layout);
    let (mut levels, mut before) = (Vec::new(), Vec::new());
    let (mut samples, mut last, mut has_equal) = (0, None, layout.time_step.is_some());
    loop {
        let line = lines.current();
        if line.is_empty() {
            receiver.gap();
            last = None;
        } else if line[0] != b';' {
            let at = layout.row(line, samples, &mut levels);
            let at = at.and_then(|at| match last.filter(|&last| at <= last) {
                Some(_) => Err("the time does not increase".to_owned()),
                None => Ok(at),
            });
            let at = at.map_err(|why| Malformed::Line { line: lines.number, why })?;
            receiver.sample(at, &levels);
            has_equal |= levels == before;
            std::mem::swap(&mut levels, &mut before);
            last = Some(at);
            samples += 1;
        }
        if samples % ASKED_EVERY == 0 && !goes_on() || !lines.advance()? {
            break;
        }
    }
    Ok((Whole { layout, samples, may_lack_rows: !has_equal && samples > 2 }, receiver))
}

/// Reads up to the first row of a sample. Returns `None` if there is none.
fn begin(lines: &mut Lines<impl BufRead>) -> Result<Option<Layout>, Malformed> {
    let mut comments = Comments::default();
    let mut labels: Option<Vec<String>> = None;
    while lines.advance()? {
        let line = lines.current();
        if line.is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(line);
        if line[0] == b';' {
            comments.note(&text);
            continue;
        }
        let cells: Vec<&str> = text.split(',').collect();
        if labels.is_none() && cells.iter().any(|cell| cell.parse::<f64>().is_err()) {
            labels = Some(cells.iter().map(|&cell| cell.to_owned()).collect());
            continue;
        }
        let layout = Layout::of(&comments, labels.as_deref(), cells.len());
        return layout.map(Some).map_err(Malformed::Whole);
    }
    Ok(None)
}

/// The lines of a file, of which one is in memory.
struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line. Returns whether there is one.
    fn advance(&mut self) -> Result<bool, Malformed> {
        self.buffer.clear();
        self.number += 1;
        let length = self.input.by_ref().take(LONGEST).read_until(b'\n', &mut self.buffer)?;
        if length as u64 == LONGEST && self.buffer.last() != Some(&b'\n') {
            let why = format!("it is longer than {LONGEST} bytes");
            return Err(Malformed::Line { line: self.number, why });
        }
        Ok(length > 0)
    }

    /// Returns the line without its end.
    fn current(&self) -> &[u8] {
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        line.strip_suffix(b"\r").unwrap_or(line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{any, prop_assert_eq, proptest},
    };

    use super::{Layout, Samples, Whole, rate_hz, read, step_of};

    #[derive(Debug, Default, PartialEq)]
    struct Kept(Vec<(u64, Vec<bool>)>);

    impl Samples for Kept {
        fn sample(&mut self, at: u64, levels: &[bool]) {
            self.0.push((at, levels.to_vec()));
        }

        fn gap(&mut self) {
            self.0.push((u64::MAX, Vec::new()));
        }
    }

    fn kept(text: impl AsRef<[u8]>, wanted: &[&str]) -> Result<(Whole, Kept), String> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        read(text.as_ref(), (&wanted, &|| true), |_| Kept::default()).map_err(|why| why.to_string())
    }

    fn layout(text: &str) -> Layout {
        kept(text, &[]).expect(text).0.layout
    }

    const HEAD: &str = "; CSV generated by libsigrok 0.5.2\n; Channels (2/13): D0, D1\n; Samplerate: 3 MHz\n";

    #[test]
    fn every_form_that_sigrok_writes_has_the_same_samples() {
        let expected = Kept(vec![(1, vec![true, false]), (2, vec![false, true]), (4, vec![false, true])]);
        for (form, offset) in [
            ("nanoseconds,logic,logic\n333,1,0\n666,0,1\n1332,0,1\n", 0),
            ("Time,D0,D1\n333,1,0\n666,0,1\n1332,0,1\n", 0),
            ("Time,D0,D1,Trigger\n333,1,0,0\n666,0,1,0\n1332,0,1,1\n", 0),
            ("333,1,0\n666,0,1\n1332,0,1\n", 0),
            ("nanoseconds,logic,logic,Trigger\r\n333,1,0,0\r\n666,0,1,0\r\n1332,0,1,0\r\n", 0),
            ("logic,logic\n0,0\n1,0\n0,1\n1,1\n0,1\n", 1),
        ] {
            let (whole, found) = kept(format!("{HEAD}{form}"), &[]).expect(form);
            assert_eq!(whole.layout.channels, ["D0", "D1"], "{form}");
            assert_eq!((whole.layout.rate_hz, whole.layout.tick_ns.round()), (Some(3_000_000), 333.0));
            if offset == 0 {
                assert_eq!(found, expected, "{form}");
            } else {
                assert_eq!(found.0.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            }
        }
    }

    #[test]
    fn analog_columns_are_left_out_and_channels_can_be_selected() {
        let text = "; Channels (3/13): D0, A0, D1\n; Samplerate: 1 MHz\nmicroseconds,logic,V DC,logic\n1,1,-10,0\n";
        assert_eq!(layout(text).channels, ["D0", "D1"]);
        let (whole, found) = kept(text, &["D1"]).expect("it has this channel");
        assert_eq!((whole.layout.channels, found.0), (vec!["D1".to_owned()], vec![(1, vec![false])]));
        assert_eq!(kept(text, &["A0"]).err().as_deref(), Some("it has no channel \"A0\" (channels: D0, D1)"));
    }

    #[test]
    fn without_a_rate_the_unit_of_the_time_is_the_tick() {
        let found = layout("nanoseconds,logic\n20,1\n60,0\n");
        assert_eq!((found.rate_hz, found.tick_ns), (None, 1.0));
        assert_eq!(found.channels, ["column 2"]);
        for unknown in ["logic\n1\n0\n", "Time,D0\n1,0\n", "samples,logic\n1,0\n", "1\n0\n"] {
            assert!(kept(unknown, &[]).is_err_and(|why| why.contains("sample rate")), "{unknown}");
        }
    }

    #[test]
    fn rows_that_may_be_missing_are_noticed() {
        let may = |rows: &str| kept(format!("; Samplerate: 1 MHz\nlogic\n{rows}"), &[]).expect(rows).0.may_lack_rows;
        assert!(may("0\n1\n0\n1\n") && !may("0\n0\n1\n0\n"));
        let timed = kept("; Samplerate: 1 MHz\nmicroseconds,logic\n1,0\n5,1\n9,0\n", &[]).expect("timed");
        assert!(!timed.0.may_lack_rows);
    }

    #[test]
    fn an_empty_line_is_a_gap() {
        let (_, found) = kept("; Samplerate: 1 MHz\nmicroseconds,logic\n5,0\n\n1,1\n", &[]).expect("two frames");
        assert_eq!(found.0.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [5, u64::MAX, 1]);
    }

    #[test]
    fn a_malformed_file_is_refused_with_the_line() {
        for (rows, why) in [
            ("333,1,0\n666,0\n", "line 6: 2 columns instead of 3"),
            ("333,1,0\n666,0,1,1\n", "line 6: 4 columns instead of 3"),
            ("333,1,0\n666,0,2\n", "line 6: D1 is \"2\", and not 0 or 1; select digital channels with --channel"),
            ("333,1,0\n666,,1\n", "line 6: D0 is \"\", and not 0 or 1; select digital channels with --channel"),
            ("333,1,0\n333,1,1\n", "line 6: the time does not increase"),
            ("666,1,0\n333,1,1\n", "line 6: the time does not increase"),
            ("333,1,0\n667,1,1\n", "line 6: the time 667 is not a multiple of the time between two samples, 333"),
            ("333,1,0\n-1,1,1\n", "line 6: \"-1\" is not a time in whole units"),
            ("333,1,0\n\u{1b}[2J,1,1\n", "line 6: \"\\u{1b}[2J\" is not a time in whole units"),
        ] {
            let refused = kept(format!("{HEAD}nanoseconds,logic,logic\n{rows}"), &[]);
            assert_eq!(refused.err().as_deref(), Some(why), "{rows}");
        }
        for empty in ["", "\n\n", HEAD, "; Samplerate: 1 MHz\nlogic\n"] {
            assert_eq!(kept(empty, &[]).err().as_deref(), Some("it contains no sample"), "{empty}");
        }
        let long = format!("{HEAD}nanoseconds,logic,logic\n{}", "1".repeat(70_000));
        assert_eq!(kept(long, &[]).err().as_deref(), Some("line 5: it is longer than 65536 bytes"));
        assert!(kept("; Samplerate: 1 MHz\nV DC\n1.5\n", &[]).is_err());
    }

    #[test]
    fn sigrok_divides_the_unit_by_the_rate() {
        let of = [1, 7, 12_500, 1_000_000, 3_000_000, 50_000_000, 1_000_000_000].map(step_of);
        assert_eq!(of, [1, 142, 80, 1, 333, 20, 1]);
        assert_eq!(rate_hz("12.5 kHz"), Some(12_500));
        assert_eq!(
            (rate_hz("50 MHz"), rate_hz("7 Hz"), rate_hz("1 GHz")),
            (Some(50_000_000), Some(7), Some(1_000_000_000))
        );
        for wrong in ["", "50", "50 mHz", "-1 Hz", "0 Hz", "NaN Hz", "1e99 GHz"] {
            assert_eq!(rate_hz(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused_without_a_panic(bytes in vec(any::<u8>(), 0..400), with_head in any::<bool>()) {
            let head = if with_head { HEAD } else { "" };
            let _ = kept([head.as_bytes(), &bytes].concat(), &[]);
        }

        #[test]
        fn every_row_of_digits_is_read(levels in vec(any::<(bool, bool)>(), 1..50)) {
            let row = |&(a, b): &(bool, bool)| format!("{},{}\n", u8::from(a), u8::from(b));
            let (whole, found) = kept(format!("{HEAD}{}", levels.iter().map(row).collect::<String>()), &[]).expect("rows");
            prop_assert_eq!(whole.samples, levels.len() as u64);
            let expected: Vec<_> = (0..).zip(levels.iter().map(|&(a, b)| vec![a, b])).collect();
            prop_assert_eq!(found.0, expected);
        }
    }
}
