//! Compares the cost of one tracing span with the layer of hpt-tracing, with tracing-timing, and with neither.
//! All run alternately in one process; figures are medians over the rounds, and ratios are computed within each round.

use std::{env, hint::black_box, process::ExitCode};

use hpt_core::{Host, PosixClock, PosixId, TimeSource};
use hpt_tracing::SpanTimes;
use tracing::{Dispatch, dispatcher, info_span};
use tracing_subscriber::{layer::SubscriberExt, registry};
use tracing_timing::{Builder, Histogram, TimingLayer};

/// The rounds and the spans per round of `cargo bench`: about ten seconds.
const ROUNDS: usize = 1_001;
const SPANS: u32 = 2_000;
/// Of `cargo test`, which only checks that everything runs.
const TRIAL: (usize, u32) = (3, 10);

/// A subscriber, and the name of what it records.
struct Contender {
    name: &'static str,
    subscriber: Dispatch,
}

/// The order of the contenders: `cost` refers to the first one.
fn contenders() -> Vec<Contender> {
    let both = SpanTimes::new();
    let total = SpanTimes::new().without_busy_times();
    // With the precision of hpt-tracing. A close event is tracing-timing's way to record the length of a span.
    let rival: TimingLayer =
        Builder::default().span_close_events().layer(|| Histogram::new(2).expect("two digits are valid"));
    let named = |name, subscriber| Contender { name, subscriber };
    vec![
        named("registry only", Dispatch::new(registry())),
        named("hpt-tracing, total time", Dispatch::new(registry().with(total.layer()))),
        named("hpt-tracing, total and busy time", Dispatch::new(registry().with(both.layer()))),
        named("tracing-timing, total time", Dispatch::new(registry().with(rival))),
    ]
}

/// Creates, enters, leaves and ends `spans` spans, one after the other.
fn run(spans: u32) {
    for number in 0..spans {
        info_span!("work").in_scope(|| black_box(number));
    }
}

/// Returns the nanoseconds per span of each contender, in each round.
fn measure(contenders: &[Contender], clock: &PosixClock, (rounds, spans): (usize, u32)) -> Vec<Vec<f64>> {
    let time = |contender: &Contender| {
        dispatcher::with_default(&contender.subscriber, || {
            // The first span after a change of the subscriber is slower.
            run(1);
            let start = clock.ticks_end();
            run(spans);
            let elapsed_ns = clock.ticks_end().wrapping_sub(start);
            #[expect(clippy::cast_precision_loss, reason = "a round takes milliseconds")]
            let per_span = elapsed_ns as f64 / f64::from(spans);
            per_span
        })
    };
    // Each round begins with another contender.
    let mut rows = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let mut row = vec![0.0; contenders.len()];
        for place in 0..contenders.len() {
            let next = (round + place) % contenders.len();
            row[next] = time(&contenders[next]);
        }
        rows.push(row);
    }
    rows
}

fn quantile(values: &mut [f64], quantile: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = ((values.len() - 1) as f64 * quantile).round() as usize;
    values[at]
}

fn main() -> ExitCode {
    let clock = match PosixClock::open(&Host::live(), PosixId::MonotonicRaw) {
        Ok(clock) => clock,
        Err(reason) => {
            eprintln!("spans: {reason}");
            return ExitCode::from(2);
        }
    };
    let contenders = contenders();
    // `cargo test` passes no `--bench`.
    if !env::args().any(|argument| argument == "--bench") {
        measure(&contenders, &clock, TRIAL);
        println!("{} contenders ran; use `cargo bench` to time them", contenders.len());
        return ExitCode::SUCCESS;
    }
    let filter = env::args().skip(1).find(|argument| !argument.starts_with("--"));
    if filter.is_some_and(|filter| !"spans".contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    let pinned = hpt_benches::pin();
    if let Err(reason) = &pinned {
        eprintln!("not pinned to one CPU: {reason}");
    }
    let rows = measure(&contenders, &clock, (ROUNDS, SPANS));
    let rival = contenders.len() - 1;
    println!("{ROUNDS} rounds of {SPANS} spans; medians (10th to 90th percentile over the rounds)");
    println!("{:<34} {:>22} {:>14} {:>26}", "subscriber", "ns per span", "ns of layer", "layer / tracing-timing's");
    for (at, contender) in contenders.iter().enumerate() {
        let column = |figure: &dyn Fn(&[f64]) -> f64| {
            let mut values: Vec<f64> = rows.iter().map(|row| figure(row)).collect();
            [0.1, 0.5, 0.9].map(|part| quantile(&mut values, part))
        };
        let [low, median, high] = column(&|row| row[at]);
        let [_, layer, _] = column(&|row| row[at] - row[0]);
        let [least, ratio, most] = column(&|row| (row[at] - row[0]) / (row[rival] - row[0]));
        println!(
            "{:<34} {median:>7.1} ({low:.1} to {high:.1}) {layer:>14.1} {:>26}",
            contender.name,
            format!("{ratio:.2} ({least:.2} to {most:.2})")
        );
    }
    ExitCode::SUCCESS
}
