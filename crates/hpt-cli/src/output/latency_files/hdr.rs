//! An interval log for the tools of HdrHistogram. Its values are in nanoseconds, and it has one line per thread, tagged
//! with the CPU of the thread.

use std::time::{Duration, SystemTime};

use hdrhistogram::{
    Histogram,
    serialization::{
        V2DeflateSerializer,
        interval_log::{IntervalLogWriterBuilder, Tag},
    },
};

use super::counts::{RunDescription, ThreadLatencies};

/// The maximum value that HdrHistogram's tools accept by default, in nanoseconds: one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

pub(super) fn log(threads: &[ThreadLatencies], about: RunDescription<'_>) -> String {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let duration = about.ended.duration_since(about.began).unwrap_or(Duration::ZERO);
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(&format!("{}, nanoseconds", about.command));
    builder.with_start_time(about.began);
    builder.with_base_time(SystemTime::UNIX_EPOCH);
    builder.with_max_value_divisor(1.0);
    let mut writer = builder.begin_log_with(&mut log, &mut serializer).expect("writing to memory does not fail");
    for thread in threads {
        let mut counts = Histogram::<u64>::new(3).expect("three digits");
        for class in thread.latencies.histogram().classes() {
            counts.record_n(class.largest_ticks.min(LONGEST_NS), class.samples).expect("the table grows");
        }
        let name = thread.cpu.map_or_else(|| "any".to_owned(), |cpu| format!("cpu{cpu}"));
        let began = about.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writer.write_histogram(&counts, began, duration, Tag::new(&name)).expect("writing to memory does not fail");
    }
    String::from_utf8(log).expect("the log is text")
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{
        Deserializer,
        interval_log::{IntervalLogIterator, LogEntry},
    };

    use super::log;
    use crate::output::latency_files::counts::tests;

    #[test]
    fn the_log_round_trips() {
        let text = log(&tests::threads(), tests::about());
        let mut seen = Vec::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            if let LogEntry::Interval(interval) = entry.expect("it is a log") {
                let bytes = data_encoding_of(interval.encoded_histogram());
                let counts: hdrhistogram::Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
                seen.push((interval.tag().expect("a tag").as_str().to_owned(), counts.len(), counts.min()));
            }
        }
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[0].0.as_str(), seen[0].1, seen[0].2), ("cpu0", 4, 500));
        assert_eq!((seen[1].0.as_str(), seen[1].1), ("cpu1", 3));
    }

    /// Decodes Base64, as it is used in the log.
    fn data_encoding_of(text: &str) -> Vec<u8> {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = text.bytes().filter_map(|byte| ALPHABET.iter().position(|&other| other == byte));
        let digits: Vec<_> = digits.map(|digit| u8::try_from(digit).expect("below 64")).collect();
        let mut bytes = Vec::new();
        for four in digits.chunks(4) {
            let bits = four.iter().fold(0_u32, |bits, &digit| bits << 6 | u32::from(digit)) << (6 * (4 - four.len()));
            bytes.extend(&bits.to_be_bytes()[1..four.len()]);
        }
        bytes
    }
}
