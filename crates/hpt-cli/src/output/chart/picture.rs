//! A chart with the words and the table that belong to it, and why a document has none.
//! Knows no kind of document.

use std::fmt::Write;

use maud::{Markup, html};

use super::{
    axis,
    svg::{BY_NIGHT, Chart, INK, Width, name},
};

/// A chart with everything that is to be said of it, for who cannot see it as well.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    /// For the name of a file.
    pub(crate) name: String,
    pub(crate) title: String,
    /// What is to be seen.
    pub(crate) says: String,
    pub(super) chart: Chart,
    /// The figures that are drawn.
    pub(crate) figures: Figures,
    /// By what and how they were measured.
    pub(crate) provenance: String,
}

/// Figures as a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A document whose shape is not the one that its kind has.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("a document of this kind has no picture")]
    Kind,
    #[error("a document of kind {kind:?} cannot be read")]
    Shape {
        kind: String,
        #[source]
        cause: serde_json::Error,
    },
    #[error("nothing was measured that could be drawn")]
    Nothing,
}

/// What only files of pictures that hpt drew begin with.
pub(crate) const MARK: &str = r#"aria-labelledby="chart-title" aria-describedby="chart-desc""#;

impl Picture {
    /// The drawing for a page that has [`style`]. `id` is different for each drawing of a page.
    pub(crate) fn in_page(&self, width: Width, id: &str) -> Markup {
        let class = match width {
            Width::Wide => "chart wide",
            Width::Narrow => "chart narrow",
        };
        maud::PreEscaped(self.drawn(width, &format!(r#"class="{class}" "#), id, ""))
    }

    /// The drawing as a file of its own.
    pub(crate) fn file(&self) -> String {
        let day_and_night = html! { style { (maud::PreEscaped(format!("svg {{ background: #fff }} {}", style()))) } };
        let mut text = self.drawn(Width::Wide, "", "chart", &day_and_night.into_string());
        text.push('\n');
        text
    }

    fn drawn(&self, width: Width, class: &str, id: &str, first: &str) -> String {
        let drawing = self.chart.draw(width);
        // What plotters writes begins with a tag that knows neither titles nor a style sheet.
        let (tag, inside) = drawing.split_once('>').unwrap_or_default();
        let view = tag.split_once("viewBox=\"").and_then(|(_, rest)| rest.split_once('"')).map_or("", |(view, _)| view);
        let words = html! {
            title id={ (id) "-title" } { (self.title) }
            desc id={ (id) "-desc" } { (self.says) " " (self.provenance) }
        };
        format!(
            r#"<svg {class}xmlns="http://www.w3.org/2000/svg" viewBox="{view}" role="img" aria-labelledby="{id}-title" aria-describedby="{id}-desc">{}{first}{inside}"#,
            words.into_string()
        )
    }
}

/// What makes the colours of drawings those of the night where that is wanted.
pub(crate) fn style() -> String {
    let mut rules = String::from("svg{background:#14171b}");
    for (day, night) in BY_NIGHT {
        let (day, night) = (name(day), name(night));
        let _ = write!(rules, "svg [fill=\"{day}\"]{{fill:{night}}}svg [stroke=\"{day}\"]{{stroke:{night}}}");
    }
    let ink = name(INK);
    format!(
        "svg text[fill=\"{ink}\"]{{font-weight:500}}svg text{{font-variant-numeric:tabular-nums}}@media screen and (prefers-color-scheme:dark){{{rules}}}"
    )
}

/// A time for people, and `-` where there is none.
pub(super) fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), axis::time)
}

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "for drawing and printing")]
pub(super) fn whole(count: u64) -> f64 {
    count as f64
}

/// A count with its thousands apart.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let head = digits.len() % 3;
    let mut parts = vec![&digits[..head]];
    parts.extend((head..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    parts.retain(|part| !part.is_empty());
    // A narrow space that does not break.
    parts.join("\u{202f}")
}
