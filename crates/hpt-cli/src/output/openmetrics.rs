//! The metrics of a document as text. Scrapers receive OpenMetrics 1.0. The textfile collector of node_exporter
//! receives the older Prometheus text format, which has neither units nor an end marker.

use std::fmt;

use hpt_document::Document;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};

use super::metrics::{self, gauge::Gauge};

/// Returns the metrics as OpenMetrics text, or `None` for a document without metrics.
pub(super) fn render(document: &Document) -> Option<String> {
    Some(render_gauges(metrics::of(document)?))
}

fn render_gauges(gauges: Vec<Gauge>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Gauges(gauges)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("writing to memory does not fail");
    obeyed_by_no_terminal(&text)
}

/// Replaces control characters, because a label may come from a file that another user created and the format has no
/// escapes for these characters.
fn obeyed_by_no_terminal(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && letter != '\n', "\u{fffd}")
}

/// Returns these metrics in the older Prometheus text format.
pub(super) fn textfile(gauges: Vec<Gauge>) -> String {
    let text = render_gauges(gauges);
    let is_of_both = |line: &&str| !line.starts_with("# UNIT ") && *line != "# EOF";
    text.lines()
        .filter(is_of_both)
        .map(|line| {
            format!(
                "{line}
"
            )
        })
        .collect()
}

#[derive(Debug)]
struct Gauges(Vec<Gauge>);

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for gauge in &self.0 {
            let unit = (!gauge.unit.is_empty()).then(|| Unit::Other(gauge.unit.to_owned()));
            let mut family = encoder.encode_descriptor(gauge.name, gauge.help, unit.as_ref(), MetricType::Gauge)?;
            for sample in &gauge.samples {
                if sample.labels.is_empty() {
                    family.encode_gauge(&sample.value)?;
                } else {
                    family.encode_family(&Labels(&sample.labels))?.encode_gauge(&sample.value)?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Labels<'a>(&'a [(&'static str, String)]);

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| (*name, value.as_str()).encode(encoder.encode_label()))
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::Document;

    use super::{render, textfile};
    use crate::{golden, output::metrics};

    #[test]
    fn invalid_characters_in_a_label_are_escaped() {
        let Document::Calibrate(mut document) = golden::empty("calibrate") else { panic!("expected calibrate") };
        document.head.machine.cpu = Some("a \"b\" \\ c\nd".to_owned());
        let document = Document::from(document);
        let text = render(&document).expect("metrics");
        assert!(text.contains(r#"cpu="a \"b\" \\ c\nd""#), "{text}");
        assert!(text.ends_with("# EOF\n"));
        assert_eq!(textfile(metrics::of(&document).expect("metrics")), text.replace("# EOF\n", ""));
        assert_eq!(render(&golden::empty("bench")), None);
    }

    #[test]
    fn a_label_has_no_terminal_escapes() {
        assert_eq!(super::obeyed_by_no_terminal("a{b=\"\u{1b}[2J\u{9b}\"} 1\n"), "a{b=\"\u{fffd}[2J\u{fffd}\"} 1\n");
    }
}
