//! A file with a line for each pair of `hpt latency pairs`.

use std::{sync::Arc, time::Duration};

use hpt_core::{Frequency, SourceId, TimeSource};

use crate::{
    output::{rounded, saturating_nanos},
    sampling::raw_samples::{RawLines, RawSample},
};

pub(super) struct RawPair {
    series: Arc<RawSeries>,
    /// The number of the pair in its series, from 1.
    number: u64,
    ticks: u64,
}

/// Facts that the pairs of a source after the same pauses share.
struct RawSeries {
    source: SourceId,
    pauses: String,
    rate: Option<Frequency>,
}

impl RawSample for RawPair {
    const HEADER: &'static str = "source,pauses_ns,pair,ticks,ns\n";

    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    fn text(&self) -> String {
        let Self { series, number, ticks } = self;
        let ns = series.rate.map_or_else(String::new, |rate| rounded(*ticks as f64 * rate.tick_ns_f64()).to_string());
        format!("{},{},{number},{ticks},{ns}", series.source, series.pauses)
    }

    fn line(&self, _cpu: &str) -> String {
        self.text() + "\n"
    }
}

/// The lines of a file for the pairs of each source after the same pauses.
pub(super) struct RawPairs<'a> {
    lines: &'a mut RawLines<RawPair>,
    series: Vec<Arc<RawSeries>>,
}

impl<'a> RawPairs<'a> {
    pub(super) fn new(
        lines: &'a mut RawLines<RawPair>,
        pauses: &[Duration],
        sources: &[&dyn TimeSource],
        rates: &[Option<Frequency>],
    ) -> Self {
        let pauses: Vec<_> = pauses.iter().map(|&pause| saturating_nanos(pause).to_string()).collect();
        let series = sources.iter().zip(rates).map(|(source, &rate)| {
            Arc::new(RawSeries { source: source.info().id.clone(), pauses: pauses.join("/"), rate })
        });
        Self { lines, series: series.collect() }
    }

    pub(super) fn add(&mut self, source: usize, number: u64, ticks: u64) {
        self.lines.add(RawPair { series: Arc::clone(&self.series[source]), number, ticks });
    }
}
