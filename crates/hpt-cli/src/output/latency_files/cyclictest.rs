//! The file formats of cyclictest (rt-tests 2.x, src/cyclictest/cyclictest.c, print_hist and write_stats;
//! src/lib/rt-utils.c, rt_write_json).

use std::fmt::Write;

use hpt_instrument::measure::Latencies;
use serde_json::{Map, Value, json};

use super::counts::{RunDescription, ThreadLatencies};

/// Returns the histogram as text, with one line per microsecond up to the maximum and one column per thread.
pub(super) fn text(threads: &[ThreadLatencies]) -> String {
    let latest = threads.iter().filter_map(|thread| last_us(&thread.latencies)).max().map_or(0, |last| last + 1);
    let mut text = "# Histogram\n".to_owned();
    for us in 0..latest {
        let counts = threads.iter().map(|thread| format!("{:06}", thread.latencies.microseconds()[us]));
        let _ = writeln!(text, "{us:06} {}", counts.collect::<Vec<_>>().join("\t"));
    }
    let mut line = |name: &str, width: usize, figure: &dyn Fn(&Latencies) -> u64| {
        let figures = threads.iter().map(|thread| format!("{:0width$}", figure(&thread.latencies)));
        let _ = writeln!(text, "# {name}: {}", figures.collect::<Vec<_>>().join(" "));
    };
    line("Total", 9, &|latencies| latencies.microseconds().iter().sum());
    line("Min Latencies", 5, &|latencies| ends_us(latencies).0);
    line("Avg Latencies", 5, &|latencies| format!("{:.0}", average_us(latencies).floor()).parse().unwrap_or(0));
    line("Max Latencies", 5, &|latencies| ends_us(latencies).1);
    line("Histogram Overflows", 5, &Latencies::overflows);
    // hpt does not record the cycle numbers of overflows, because its memory use would then depend on the run time.
    text.push_str("# Histogram Overflow at cycle number:\n");
    for number in 0..threads.len() {
        let _ = writeln!(text, "# Thread {number}:");
    }
    text
}

/// Returns the results as JSON. Two of the keys end in a colon, as they do in cyclictest.
pub(super) fn json(threads: &[ThreadLatencies], about: RunDescription<'_>) -> String {
    let of_thread = |thread: &ThreadLatencies| {
        let (min, max) = ends_us(&thread.latencies);
        let counts = thread.latencies.microseconds().iter().enumerate().filter(|&(_, &count)| count > 0);
        let histogram: Map<_, _> = counts.map(|(us, &count)| (us.to_string(), Value::from(count))).collect();
        json!({
            "histogram": histogram,
            "cycles": thread.latencies.histogram().samples(),
            "min": min,
            "max": max,
            "avg": (average_us(&thread.latencies) * 100.0).round() / 100.0,
            "cpu": thread.cpu.map_or(-1, |cpu| i64::try_from(cpu).unwrap_or(-1)),
            "node": -1,
        })
    };
    let realtime = about.kernel_version.contains("PREEMPT_RT") || about.kernel_version.contains("PREEMPT RT");
    let time = |moment| humantime::format_rfc3339_seconds(moment).to_string();
    let document = json!({
        "file_version": 1,
        "cmdline:": about.command,
        "rt_test_version:": concat!("hpt ", env!("CARGO_PKG_VERSION")),
        "start_time": time(about.began),
        "end_time": time(about.ended),
        "return_code": 0,
        "sysinfo": {
            "sysname": "Linux",
            // The host name is private and therefore omitted.
            "nodename": "",
            "release": about.kernel_release,
            "version": about.kernel_version,
            "machine": std::env::consts::ARCH,
            "realtime": u8::from(realtime),
        },
        "num_threads": threads.len(),
        "resolution_in_ns": 0,
        "thread": threads.iter().enumerate().map(|(number, thread)| (number.to_string(), of_thread(thread))).collect::<Map<_, _>>(),
    });
    format!("{document:#}\n")
}

fn last_us(latencies: &Latencies) -> Option<usize> {
    latencies.microseconds().iter().rposition(|&count| count > 0)
}

fn ends_us(latencies: &Latencies) -> (u64, u64) {
    let end = |part| latencies.histogram().quantile(part).unwrap_or(0) / 1_000;
    (end(0.0), latencies.worst().map_or(0, |wake| wake.latency_ns / 1_000))
}

fn average_us(latencies: &Latencies) -> f64 {
    latencies.mean_ns().map_or(0.0, |mean_ns| mean_ns / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::{json, text};
    use crate::output::latency_files::counts::tests;

    #[test]
    fn the_text_has_the_format_of_cyclictest() {
        let expected = "\
# Histogram
000000 000001\t000000
000001 000002\t000000
000002 000000\t000000
000003 000000\t000001
000004 000000\t000001
000005 000000\t000000
000006 000000\t000000
000007 000000\t000000
000008 000000\t000000
000009 000000\t000000
000010 000000\t000000
000011 000000\t000000
000012 000001\t000000
# Total: 000000004 000000002
# Min Latencies: 00000 00003
# Avg Latencies: 00003 08335
# Max Latencies: 00012 25000
# Histogram Overflows: 00000 00001
# Histogram Overflow at cycle number:
# Thread 0:
# Thread 1:
";
        assert_eq!(text(&tests::threads()), expected);
        assert_eq!(
            text(&[]),
            "# Histogram\n# Total: \n# Min Latencies: \n# Avg Latencies: \n# Max Latencies: \n# Histogram Overflows: \n# Histogram Overflow at cycle number:\n"
        );
    }

    #[test]
    fn the_json_has_the_keys_of_cyclictest() {
        let document: serde_json::Value = serde_json::from_str(&json(&tests::threads(), tests::about())).expect("JSON");
        let keys =
            |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            keys(&document),
            [
                "file_version",
                "cmdline:",
                "rt_test_version:",
                "start_time",
                "end_time",
                "return_code",
                "sysinfo",
                "num_threads",
                "resolution_in_ns",
                "thread"
            ]
        );
        assert_eq!(keys(&document["sysinfo"]), ["sysname", "nodename", "release", "version", "machine", "realtime"]);
        assert_eq!(keys(&document["thread"]["1"]), ["histogram", "cycles", "min", "max", "avg", "cpu", "node"]);
        assert_eq!(document["thread"]["0"]["histogram"], serde_json::json!({"0": 1, "1": 2, "12": 1}));
        assert_eq!((&document["file_version"], &document["sysinfo"]["realtime"]), (&1.into(), &1.into()));
        assert_eq!(document["thread"]["1"]["cycles"], 3);
    }
}
