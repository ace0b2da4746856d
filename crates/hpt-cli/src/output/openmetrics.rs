//! A document's metrics as text: OpenMetrics 1.0 for whoever scrapes, and the older text form for node_exporter's textfile collector, which knows no units and no
//! mark at the end.

use std::fmt;

use hpt_document::Document;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};

use super::metrics::{self, gauge::Gauge};

/// OpenMetrics; `None` of a document that has no metrics.
pub(super) fn render(document: &Document) -> Option<String> {
    Some(render_gauges(metrics::of(document)?))
}

fn render_gauges(gauges: Vec<Gauge>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Gauges(gauges)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("memory is written to");
    obeyed_by_no_terminal(&text)
}

/// A label may come from a file that another user made. The format knows no escape for control characters.
fn obeyed_by_no_terminal(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && letter != '\n', "\u{fffd}")
}

/// The text form of before, of these metrics.
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
    fn what_is_not_text_for_a_label_is_escaped() {
        let Document::Calibrate(mut document) = golden::empty("calibrate") else { panic!("it is another one") };
        document.head.machine.cpu = Some("a \"b\" \\ c\nd".to_owned());
        let document = Document::from(document);
        let text = render(&document).expect("metrics");
        assert!(text.contains(r#"cpu="a \"b\" \\ c\nd""#), "{text}");
        assert!(text.ends_with("# EOF\n"));
        assert_eq!(textfile(metrics::of(&document).expect("metrics")), text.replace("# EOF\n", ""));
        assert_eq!(render(&golden::empty("bench")), None);
    }

    #[test]
    fn no_terminal_obeys_a_label() {
        assert_eq!(super::obeyed_by_no_terminal("a{b=\"\u{1b}[2J\u{9b}\"} 1\n"), "a{b=\"\u{fffd}[2J\u{fffd}\"} 1\n");
    }
}
