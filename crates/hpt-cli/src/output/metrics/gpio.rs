//! The metrics of `hpt latency gpio`: how long edges took.

use hpt_document::{gpio_latency::GpioLatencyRow, gpio_line::GpioLine, latency::LatencyFigures};

use super::{
    gauge::{Gauge, Labels, of_parts, of_rows, seconds, single, whole},
    timer_poll::parts,
};

fn figure(row: &GpioLatencyRow) -> Labels {
    vec![("figure", row.figure.name().to_owned())]
}

fn figures(row: &GpioLatencyRow) -> &LatencyFigures {
    &row.figures
}

/// `lost` is known at the end.
pub(crate) fn gauges((out, input): (&GpioLine, &GpioLine), rows: &[GpioLatencyRow], lost: Option<u64>) -> Vec<Gauge> {
    let mut gauges = vec![
        of_parts(
            rows,
            figure,
            &parts!(figures),
            (
                "hpt_gpio_latency",
                "How long edges took on this part of their way: what this part of them did not exceed, and of 1 the longest",
            ),
        ),
        of_rows(rows, figure, ("hpt_gpio_latency_mean", "seconds", "How long edges took on average"), |row| {
            Some(seconds(row.figures.mean_ns))
        }),
        of_rows(rows, figure, ("hpt_gpio_samples", "", "How many edges the other figures are of"), |row| {
            Some(whole(row.figures.samples))
        }),
        single(("hpt_gpio_lost", "", "How many edges did not come"), lost.map(whole)),
    ];
    // Several pairs of lines may be measured one after the other.
    for sample in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples) {
        let line = |line: &GpioLine| format!("{}:{}", line.chip, line.line);
        sample.labels.splice(0..0, [("out", line(out)), ("in", line(input))]);
    }
    gauges
}
