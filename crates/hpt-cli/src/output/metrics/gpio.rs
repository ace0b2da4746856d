//! The metrics of `hpt latency gpio`: edge latency and lost edges.

use hpt_document::{gpio_latency::GpioLatencyRow, gpio_line::GpioLine, not_run::NotRun};

use super::gauge::{Gauge, Labels, of_quantiles, of_rows, quantile_levels, seconds, single, whole};

fn figure(row: &GpioLatencyRow) -> Labels {
    vec![("figure", row.figure.name().to_owned())]
}

/// Returns the gauges of a measurement. `lost` and `not_run` are `None` until the run ends.
pub(crate) fn gauges(
    (output, input): (&GpioLine, &GpioLine),
    rows: &[GpioLatencyRow],
    lost: Option<u64>,
    not_run: Option<&NotRun>,
) -> Vec<Gauge> {
    let mut gauges = vec![
        of_quantiles(
            rows,
            figure,
            |row| quantile_levels(&row.figures.quantiles, Some(row.figures.max_ns)),
            ("hpt_gpio_latency", "Edge latency of a segment by quantile; quantile 1 is the maximum"),
        ),
        of_rows(rows, figure, ("hpt_gpio_latency_mean", "seconds", "Mean edge latency of a segment"), |row| {
            Some(seconds(row.figures.mean_ns))
        }),
        of_rows(rows, figure, ("hpt_gpio_samples", "", "Number of edges measured for a segment"), |row| {
            Some(whole(row.figures.samples))
        }),
        single(("hpt_gpio_edges_lost", "", "Number of edges that did not arrive before the timeout"), lost.map(whole)),
        single(
            ("hpt_gpio_not_run", "ratio", "Fraction of the run time in which the thread was ready but did not run"),
            not_run.and_then(|not_run| not_run.share),
        ),
    ];
    // Several pairs of lines may be measured, one after the other.
    for sample in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples) {
        let line = |line: &GpioLine| format!("{}:{}", line.chip, line.line);
        sample.labels.splice(0..0, [("output_line", line(output)), ("input_line", line(input))]);
    }
    gauges
}
