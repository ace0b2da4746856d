//! Shared code of the Criterion benches: their run time, and the timing of a contender.
//! Does not choose the contenders.
#![allow(dead_code, reason = "compiled into every bench; none needs all of it")]

use std::{fmt::Display, time::Duration};

use criterion::Criterion;
use hpt_benches::{Contender, bare::Fence};
use hpt_core::{Host, PosixClock, PosixId, TimeSource};

/// Returns a configuration for short runs: there are many, and the noise is small compared with the
/// figures.
pub(crate) fn criterion() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args()
}

/// Returns the value, or prints the reason for its absence on standard error.
pub(crate) fn or_say<T, E: Display>(what: &str, result: Result<T, E>) -> Option<T> {
    result.inspect_err(|reason| eprintln!("not measured: {what}: {reason}")).ok()
}

/// Times all contenders, back to back and, if the architecture has a fence, fenced.
pub(crate) fn time_all(criterion: &mut Criterion, question: &str, contenders: &[Contender<'_>]) {
    let Some(stopwatch) = or_say("anything", PosixClock::open(&Host::live(), PosixId::MonotonicRaw)) else {
        return;
    };
    let _pinned = or_say("pinned to one CPU", hpt_benches::pin());
    let read = |contender: &Contender<'_>, reads| contender.read_in_a_row(reads);
    time(criterion, &format!("{question}, in a row"), contenders, &stopwatch, read);
    match Fence::detect() {
        Some(fence) => {
            let read = |contender: &Contender<'_>, reads| contender.read_fenced(reads, fence);
            time(criterion, &format!("{question}, fenced"), contenders, &stopwatch, read);
        }
        None => eprintln!("not measured: fenced: no fence is known on this architecture"),
    }
}

fn time(
    criterion: &mut Criterion,
    title: &str,
    contenders: &[Contender<'_>],
    stopwatch: &PosixClock,
    read: impl Fn(&Contender<'_>, u64),
) {
    let mut group = criterion.benchmark_group(title);
    for contender in contenders {
        group.bench_function(contender.name, |bencher| {
            bencher.iter_custom(|reads| {
                let start = stopwatch.ticks_end();
                read(contender, reads);
                Duration::from_nanos(stopwatch.ticks_end().wrapping_sub(start))
            });
        });
    }
    group.finish();
}
