//! A chart with its text and its data table, and the reasons why a document has no chart. This module is independent of
//! the kinds of documents.

use std::fmt::Write;

use maud::{Markup, html};

use super::{
    axis,
    svg::{BY_NIGHT, Chart, INK, Width, name},
};
use crate::output::one_or_many;

/// A chart, with a description and a data table for readers who cannot see the chart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TitledChart {
    /// The file name without the extension.
    pub(crate) name: String,
    pub(crate) title: String,
    /// The description of the chart.
    pub(crate) says: String,
    pub(super) chart: Chart,
    pub(crate) figures: Figures,
    /// A description of how the figures were measured.
    pub(crate) provenance: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The reason why a document has no chart.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("a document of this kind has no chart")]
    Kind,
    #[error("cannot read a document of kind {kind:?}")]
    Shape {
        kind: String,
        #[source]
        cause: serde_json::Error,
    },
    #[error("the document has no measurements to draw")]
    Nothing,
}

/// The text that identifies SVG files drawn by hpt. No other files contain it near their beginning.
pub(crate) const MARK: &str = r#"aria-labelledby="chart-title" aria-describedby="chart-desc""#;

impl TitledChart {
    /// Returns the drawing for a page that contains [`style`]. `id` must be unique in the page.
    pub(crate) fn in_page(&self, width: Width, id: &str) -> Markup {
        let class = match width {
            Width::Broad => "chart broad",
            Width::Wide => "chart wide",
            Width::Narrow => "chart narrow",
        };
        maud::PreEscaped(self.drawn(width, &format!(r#"class="{class}" "#), id, ""))
    }

    /// Returns the drawing as a separate file.
    pub(crate) fn file(&self) -> String {
        let day_and_night = html! { style { (maud::PreEscaped(format!("svg {{ background: #fff }} {}", style()))) } };
        let mut text = self.drawn(Width::Wide, "", "chart", &day_and_night.into_string());
        text.push('\n');
        text
    }

    fn drawn(&self, width: Width, class: &str, id: &str, first: &str) -> String {
        let ((wide, high), drawing) = self.chart.draw(width);
        let words = html! {
            title id={ (id) "-title" } { (self.title) }
            desc id={ (id) "-desc" } { (self.says) " " (self.provenance) }
        };
        format!(
            r#"<svg {class}xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" aria-labelledby="{id}-title" aria-describedby="{id}-desc">{}{first}{drawing}</svg>"#,
            words.into_string()
        )
    }
}

/// Returns the style sheet of drawings, which replaces the colors in dark mode. Text has a margin in the color of the
/// background, so that it is readable where it crosses a line.
pub(crate) fn style() -> String {
    let mut rules = String::from("svg{background:#14171b}svg text{stroke:#14171b}");
    for (day, night) in BY_NIGHT {
        let (day, night) = (name(day), name(night));
        let _ = write!(rules, "svg [fill=\"{day}\"]{{fill:{night}}}svg [stroke=\"{day}\"]{{stroke:{night}}}");
    }
    let ink = name(INK);
    format!(
        "svg text[fill=\"{ink}\"]{{font-weight:500}}svg text{{font-variant-numeric:tabular-nums;stroke:#fff;stroke-width:40px;stroke-linejoin:round;paint-order:stroke}}svg [fill=\"#FFFFFF\"]{{stroke-width:0}}@media screen and (prefers-color-scheme:dark){{{rules}}}"
    )
}

/// Formats a time for people, or as `-` if there is none.
pub(super) fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), axis::time)
}

/// Converts a count to a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "for drawing and printing")]
pub(super) fn whole(count: u64) -> f64 {
    count as f64
}

/// Formats a count, followed by `one` if it is 1, and by `many` otherwise.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), one_or_many(number, one, many))
}

/// Formats a count with a separator between thousands.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let head = digits.len() % 3;
    let mut parts = vec![&digits[..head]];
    parts.extend((head..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    parts.retain(|part| !part.is_empty());
    // The separator is a narrow no-break space.
    parts.join("\u{202f}")
}
