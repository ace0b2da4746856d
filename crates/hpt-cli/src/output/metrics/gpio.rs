//! The metrics of `hpt latency gpio`: how long edges took.

use serde_json::Value;

use super::{
    gauge::{Gauge, of_parts, of_rows, rows, seconds, single, text},
    timer_poll::PARTS,
};

const FIGURE: [(&str, &str); 1] = [("figure", "figure")];

pub(super) fn gauges(document: &Value) -> Vec<Gauge> {
    let figures = rows(document, "results");
    let mut gauges = vec![
        of_parts(
            figures,
            &FIGURE,
            &PARTS,
            (
                "hpt_gpio_latency",
                "How long edges took on this part of their way: what this part of them did not exceed, and of 1 the longest",
            ),
        ),
        of_rows(figures, &FIGURE, ("hpt_gpio_latency_mean", "seconds", "How long edges took on average"), |row| {
            seconds(&row["mean_ns"])
        }),
        of_rows(figures, &FIGURE, ("hpt_gpio_samples", "", "How many edges the other figures are of"), |row| {
            row["samples"].as_f64()
        }),
        single(("hpt_gpio_lost", "", "How many edges did not come"), document["lost"].as_f64()),
    ];
    // Several pairs of lines may be measured one after the other.
    for sample in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples) {
        let line = |key: &str| format!("{}:{}", text(&document[key]["chip"]), document[key]["line"]);
        sample.labels.splice(0..0, [("out", line("out")), ("in", line("in"))]);
    }
    gauges
}
