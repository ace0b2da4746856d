//! Shared code of the Criterion benches: their run time and clock, and the timing of a contender.
//! Does not choose the contenders.
#![allow(dead_code, reason = "compiled into every bench; none needs all of it")]

use std::{fmt::Display, time::Duration};

use criterion::{Criterion, measurement::Measurement};
use hpt_benches::{Contender, bare::Fence};
use hpt_core::{Host, PosixClock, PosixId};
use hpt_criterion::Time;

/// The clock of all benches. It is independent of the counters whose cost they measure, and NTP does not adjust it.
pub(crate) type KernelTime = Time<PosixClock>;

/// Returns the clock of the benches, or prints why nothing can be measured.
pub(crate) fn clock() -> Option<KernelTime> {
    let clock = or_say("anything", PosixClock::open(&Host::live(), PosixId::MonotonicRaw))?;
    or_say("anything", Time::new(clock))
}

/// Returns a configuration for short runs: there are many, and the noise is small compared with the
/// figures.
pub(crate) fn criterion(time: &KernelTime) -> Criterion<KernelTime> {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args()
        .with_measurement(time.clone())
}

/// Returns the value, or prints the reason for its absence on standard error.
pub(crate) fn or_say<T, E: Display>(what: &str, result: Result<T, E>) -> Option<T> {
    result.inspect_err(|reason| eprintln!("not measured: {what}: {reason}")).ok()
}

/// Times all contenders, back to back and, if the architecture has a fence, fenced.
pub(crate) fn time_all(question: &str, contenders: &[Contender<'_>]) {
    let Some(time) = clock() else { return };
    let mut criterion = criterion(&time);
    let _pinned = or_say("pinned to one CPU", hpt_benches::pin());
    let read = |contender: &Contender<'_>, reads| contender.read_in_a_row(reads);
    time_each(&mut criterion, &format!("{question}, in a row"), contenders, &time, read);
    match Fence::detect() {
        Some(fence) => {
            let read = |contender: &Contender<'_>, reads| contender.read_fenced(reads, fence);
            time_each(&mut criterion, &format!("{question}, fenced"), contenders, &time, read);
        }
        None => eprintln!("not measured: fenced: no fence is known on this architecture"),
    }
    criterion.final_summary();
}

fn time_each(
    criterion: &mut Criterion<KernelTime>,
    title: &str,
    contenders: &[Contender<'_>],
    time: &KernelTime,
    read: impl Fn(&Contender<'_>, u64),
) {
    let mut group = criterion.benchmark_group(title);
    for contender in contenders {
        group.bench_function(contender.name, |bencher| {
            bencher.iter_custom(|reads| {
                let start = time.start();
                read(contender, reads);
                time.end(start)
            });
        });
    }
    group.finish();
}
