//! Charts: panels of curves, points, bars and ranges on two scales, drawn as SVG. This module is independent of
//! documents; the other modules in this directory create charts from documents.

use std::fmt::Write;

use maud::html;

use super::axis::Axis;

/// The number of drawing units per pixel. Coordinates in the drawing are whole numbers of these units.
const FINE: i32 = 10;
const TEXT: i32 = 12;
/// The width of a line, in drawing units.
const LINE: i32 = 18;
const FONT: &str = "system-ui, sans-serif";

/// A color: red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Color(u8, u8, u8);

/// The colors of a drawing in light mode. In dark mode, the style sheet of the page or of the separate file replaces
/// them with the colors in [`BY_NIGHT`].
pub(crate) const INK: Color = Color(0x1b, 0x1f, 0x24);
const FAINT: Color = Color(0x57, 0x60, 0x6a);
const GRID: Color = Color(0xd8, 0xde, 0xe4);
/// The colors of the cells of a heat map, from one sample to the most samples.
const SHADES: [Color; 6] = [
    Color(0x4c, 0x93, 0xcb),
    Color(0x2f, 0x7a, 0xb8),
    Color(0x1f, 0x61, 0x9d),
    Color(0x16, 0x4a, 0x7f),
    Color(0x0f, 0x35, 0x60),
    Color(0x08, 0x1f, 0x3d),
];
/// The color of text on a bar, which is the color of the background.
const ON_A_BAR: Color = Color(0xff, 0xff, 0xff);
/// The colors of curves. Color-blind readers can distinguish them, and each has its own dash and
/// marker.
const CURVES: [Color; 6] = [
    Color(0x00, 0x67, 0xa5),
    Color(0xc2, 0x41, 0x0c),
    Color(0x00, 0x78, 0x5a),
    Color(0x8f, 0x3f, 0x8f),
    Color(0x6e, 0x62, 0x00),
    Color(0x3b, 0x42, 0x52),
];
/// Each color in light mode, and its replacement in dark mode.
pub(crate) const BY_NIGHT: [(Color, Color); 16] = [
    (INK, Color(0xe8, 0xea, 0xed)),
    (FAINT, Color(0xa3, 0xac, 0xb8)),
    (GRID, Color(0x34, 0x3b, 0x44)),
    (ON_A_BAR, Color(0x14, 0x17, 0x1b)),
    (CURVES[0], Color(0x5c, 0xb3, 0xf0)),
    (CURVES[1], Color(0xf5, 0x95, 0x63)),
    (CURVES[2], Color(0x3c, 0xcb, 0x9e)),
    (CURVES[3], Color(0xd9, 0x8f, 0xd9)),
    (CURVES[4], Color(0xcd, 0xbe, 0x4b)),
    (CURVES[5], Color(0xc4, 0xcb, 0xd6)),
    (SHADES[0], Color(0x3d, 0x7f, 0xb5)),
    (SHADES[1], Color(0x52, 0x99, 0xd1)),
    (SHADES[2], Color(0x74, 0xb3, 0xe3)),
    (SHADES[3], Color(0x9a, 0xcb, 0xf0)),
    (SHADES[4], Color(0xc2, 0xe1, 0xf9)),
    (SHADES[5], Color(0xea, 0xf5, 0xff)),
];
/// The length of each dash and of the gap after it, in pixels. The first look is a solid line; the last
/// dash marks limits.
const DASHES: [(i32, i32); 6] = [(8, 3), (2, 3), (14, 3), (5, 2), (3, 7), (5, 3)];
const LIMIT_DASH: usize = 5;
/// The maximum number of panels in a chart.
pub(super) const MOST_PANELS: usize = 24;
/// The number of rows above which rows overlap.
const MOST_ROWS: usize = 1_000;

/// The width of a chart. On a phone, the text of a wide drawing would be too small to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// For large windows.
    Broad,
    /// For tablets, small windows and paper.
    Wide,
    /// For phones.
    Narrow,
}

impl Width {
    pub(crate) const fn pixels(self) -> i32 {
        match self {
            Self::Broad => 1_120,
            Self::Wide => 720,
            Self::Narrow => 342,
        }
    }
}

/// Panels that share a legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    pub(super) panels: Vec<Panel>,
    /// Whether panels are drawn side by side if the width permits.
    pub(super) side_by_side: bool,
}

/// A plot with its own two axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// The height without the legend and the axes, in pixels.
    pub(super) height: i32,
    pub(super) series: Vec<Series>,
}

/// Marks that belong together and have the same look.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    /// The name in the legend; `None` for a series without an entry.
    pub(super) name: Option<String>,
    /// The look: the index that determines the color, the dash and the marker.
    pub(super) look: usize,
    pub(super) marks: Vec<Mark>,
}

/// A mark, in values of the axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mark {
    /// A curve, with a marker at some of its points.
    Curve(Vec<(f64, f64)>),
    /// A curve without markers, with the dash of its look.
    Stroke(Vec<(f64, f64)>),
    /// A thin solid curve without markers.
    Line(Vec<(f64, f64)>),
    /// Only markers.
    Points(Vec<(f64, f64)>),
    /// The outline of adjacent bars, lightly filled.
    Outline(Vec<(f64, f64)>),
    /// A bar from the left edge, at the position of a name, with a label at its end.
    Bar { name: f64, to: f64, words: String },
    /// A filled area from one x to another and from one y to another. It is at least one pixel wide.
    Piece { x: (f64, f64), y: (f64, f64) },
    /// A line from one x to another.
    Across { from: f64, to: f64, y: f64 },
    /// A thin line from one y to another, for the bounds around a curve.
    Within { x: f64, from: f64, to: f64 },
    /// A limit, drawn as a line from top to bottom.
    Limit(f64),
    /// A label next to a point, in the color of text.
    Words { x: f64, y: f64, words: String },
    /// A label to the left of a point, or below it if there is no room, in the color of text.
    WordsBefore { x: f64, y: f64, words: String },
    /// A label to the right of a point, or below it if there is no room, in the color of text.
    WordsAfter { x: f64, y: f64, words: String },
    /// A line from top to bottom, with a label at its upper end. Labels with different rows do not overlap. A limit is
    /// dashed.
    Rule { x: f64, words: String, row: i32, is_limit: bool },
    /// The cells of a heat map.
    Cells(Vec<GridCell>),
    /// A text that a browser shows while the pointer is in this area.
    Hover { x: (f64, f64), y: (f64, f64), words: String },
}

/// A cell of a heat map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GridCell {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
    /// The shade: the index of a color, from one sample to the most samples.
    pub(super) shade: usize,
}

/// A shaded cell: its shade, and its ends from left to right and from top to bottom, in drawing units.
type ShadedCell = (usize, (i32, i32), (i32, i32));

/// Returns the shade of a cell on a logarithmic scale. Only a single sample has the faintest shade.
pub(super) fn shade(count: u64, most: u64) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "for drawing")]
    let part = (count.max(1) as f64).ln() / (most.max(2) as f64).ln();
    let strongest = SHADES.len() - 1;
    let place = (1..strongest).take_while(|&place| part > place as f64 / strongest as f64).count();
    if count <= 1 { 0 } else { 1 + place }
}

/// A point of the drawing, in drawing units.
type Point = (i32, i32);

/// The elements of a drawing, from bottom to top. Text is above all lines, so that no line strikes it through.
#[derive(Debug, Default)]
struct Drawing {
    cells: String,
    shapes: String,
    texts: String,
    /// The areas with a text that a browser shows.
    areas: String,
}

/// The position of a text relative to its point.
#[derive(Clone, Copy, Debug)]
enum LabelSide {
    /// The text begins there.
    Begins,
    Middle,
    Ends,
}

/// The color of a text, and how it lies at its point.
#[derive(Clone, Copy, Debug)]
struct TextLook {
    ink: Color,
    side: LabelSide,
    /// Whether the point is at the upper edge of the text, instead of halfway up.
    hangs: bool,
}

impl TextLook {
    const fn beside(ink: Color, side: LabelSide) -> Self {
        Self { ink, side, hangs: false }
    }

    const fn below(ink: Color, side: LabelSide) -> Self {
        Self { ink, side, hangs: true }
    }
}

/// The color of a line, its width in drawing units, and its dash.
#[derive(Clone, Copy, Debug)]
struct Stroke {
    color: Color,
    width: i32,
    dash: Option<usize>,
}

impl Stroke {
    const fn solid(color: Color, width: i32) -> Self {
        Self { color, width, dash: None }
    }

    const LIMIT: Self = Self { color: INK, width: LINE, dash: Some(LIMIT_DASH) };

    /// Returns the line of a look, with its dash.
    fn of_look(look: usize) -> Self {
        Self { color: color(look), width: LINE, dash: dash(look) }
    }
}

/// A rectangle of the drawing: its upper left corner and its size, in drawing units.
#[derive(Clone, Copy, Debug)]
struct Area {
    left: i32,
    top: i32,
    width: i32,
    height: i32,
}

impl Area {
    /// Returns the right end of the room for labels.
    const fn right_end(self) -> i32 {
        self.left + self.width - 8 * FINE
    }
}

/// The area of a plot, and the positions at its edges.
#[derive(Clone, Copy, Debug)]
struct Plot<'a> {
    area: Area,
    x: &'a Axis,
    y: &'a Axis,
}

impl Plot<'_> {
    /// Returns the place of two positions.
    fn place(&self, x: f64, y: f64) -> Point {
        #[expect(clippy::cast_possible_truncation, reason = "positions are within their axes")]
        let along = |position: f64, axis: &Axis, length: i32| {
            ((position - axis.low) / (axis.high - axis.low) * f64::from(length)).round() as i32
        };
        let (right, up) = (along(x, self.x, self.area.width), along(y, self.y, self.area.height));
        (self.area.left + right, self.area.top + self.area.height - up)
    }

    /// Returns the place of two values.
    fn at(&self, x: f64, y: f64) -> Point {
        self.place(self.x.at(x), self.y.at(y))
    }

    fn all(&self, points: &[(f64, f64)]) -> Vec<Point> {
        points.iter().map(|&(x, y)| self.at(x, y)).collect()
    }

    /// Returns the ends from left to right and from top to bottom of an area of values.
    fn ends(&self, x: (f64, f64), y: (f64, f64)) -> (Point, Point) {
        let (one, other) = (self.at(x.0, y.0), self.at(x.1, y.1));
        ((one.0.min(other.0), one.0.max(other.0)), (one.1.min(other.1), one.1.max(other.1)))
    }
}

impl Chart {
    /// Returns the size of the drawing, and its content as SVG, without a title.
    pub(super) fn draw(&self, width: Width) -> (Point, String) {
        let legend = Legend::of(self, width);
        let columns = if self.side_by_side && width != Width::Narrow { self.panels.len().clamp(1, 3) } else { 1 };
        let panels = &self.panels[..self.panels.len().min(MOST_PANELS)];
        let rows: Vec<&[Panel]> = panels.chunks(columns).collect();
        let one = width.pixels() / i32::try_from(columns).unwrap_or(1);
        let heights: Vec<i32> =
            rows.iter().map(|row| row.iter().map(|panel| panel.whole_height(one)).max().unwrap_or(0)).collect();
        let height = legend.height() + heights.iter().sum::<i32>();
        let mut drawing = Drawing::default();
        legend.draw(&mut drawing);
        let mut top = legend.height();
        for (row, row_height) in rows.iter().zip(heights) {
            for (place, panel) in (0_i32..).zip(row.iter()) {
                let (left, width) = (place * one * FINE, one * FINE);
                panel.draw(&mut drawing, Area { left, top: top * FINE, width, height: row_height * FINE });
            }
            top += row_height;
        }
        if width == Width::Narrow {
            // A phone has no pointer that could be in an area.
            drawing.areas.clear();
        }
        ((width.pixels() * FINE, height * FINE), drawing.content())
    }
}

impl Drawing {
    fn content(&self) -> String {
        let raw = |part: &String| maud::PreEscaped(part.clone());
        let content = html! {
            (raw(&self.cells))
            (raw(&self.shapes))
            g font-family=(FONT) font-size=(TEXT * FINE) { (raw(&self.texts)) }
            @if !self.areas.is_empty() {
                g fill="none" pointer-events="all" { (raw(&self.areas)) }
            }
        };
        content.into_string()
    }

    fn line(&mut self, points: &[Point], stroke: Stroke) {
        let dashes = stroke.dash.map(|dash| format!("{} {}", DASHES[dash].0 * FINE, DASHES[dash].1 * FINE));
        let line = html! {
            polyline fill="none" stroke=(name(stroke.color)) stroke-width=(stroke.width) stroke-dasharray=[dashes] points=(list(points)) {}
        };
        self.shapes.push_str(&line.into_string());
    }

    /// Adds a filled area. `opacity` is that of the filling.
    fn area(&mut self, corners: &[Point], fill: Color, opacity: Option<f64>) {
        let area = html! { polygon opacity=[opacity] fill=(name(fill)) points=(list(corners)) {} };
        self.shapes.push_str(&area.into_string());
    }

    fn rectangle(&mut self, (left, top): Point, (right, bottom): Point, fill: Color) {
        let area = html! { rect x=(left) y=(top) width=(right - left) height=(bottom - top) fill=(name(fill)) {} };
        self.shapes.push_str(&area.into_string());
    }

    fn text(&mut self, words: &str, (x, y): Point, look: TextLook) {
        let anchor = match look.side {
            LabelSide::Begins => "start",
            LabelSide::Middle => "middle",
            LabelSide::Ends => "end",
        };
        let down = if look.hangs { "0.76em" } else { "0.5ex" };
        let text = html! { text x=(x) y=(y) dy=(down) text-anchor=(anchor) fill=(name(look.ink)) { (words) } };
        self.texts.push_str(&text.into_string());
    }

    /// Adds a label to the right of a point. If there is no room, adds it to the left, in the color `before`.
    fn label(&mut self, words: &str, (x, y): Point, (right_end, before): (i32, Color)) {
        let is_tight = x + (width_of(words) + 8) * FINE > right_end;
        let (x, side, ink) =
            if is_tight { (x - 8 * FINE, LabelSide::Ends, before) } else { (x + 8 * FINE, LabelSide::Begins, INK) };
        self.text(words, (x, y), TextLook::beside(ink, side));
    }

    /// Adds the cells of each shade as one path. Neighboring cells of a row with the same shade become one.
    fn add_cells(&mut self, cells: impl Iterator<Item = ShadedCell>) {
        let mut paths: [String; SHADES.len()] = Default::default();
        let mut rows: Vec<ShadedCell> = cells.map(|(shade, x, y)| (shade.min(SHADES.len() - 1), y, x)).collect();
        rows.sort_unstable();
        for run in rows.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1) && next.2.0 - one.2.1 < FINE / 2) {
            let ((shade, (top, bottom), (left, _)), (_, _, (_, right))) = (run[0], run[run.len() - 1]);
            let (wide, high) = ((right - left).max(FINE), (bottom - top).max(FINE));
            let _ = write!(paths[shade], "M{left} {top}h{wide}v{high}h-{wide}z");
        }
        for (path, color) in paths.iter().zip(SHADES).filter(|(path, _)| !path.is_empty()) {
            let _ = write!(self.cells, r#"<path fill="{}" d="{path}"/>"#, name(color));
        }
    }

    fn add_area(&mut self, (left, right): Point, (top, bottom): Point, words: &str) {
        // A smaller area would be hard to point at.
        let grown = |from: i32, to: i32| {
            let missing = (LEAST_AREA - (to - from)).max(0) / 2;
            (from - missing, to - from + 2 * missing)
        };
        let ((x, wide), (y, high)) = (grown(left, right), grown(top, bottom));
        let area = html! { rect x=(x) y=(y) width=(wide) height=(high) { title { (words) } } };
        self.areas.push_str(&area.into_string());
    }
}

/// Returns points as an attribute.
fn list(points: &[Point]) -> String {
    points.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

/// The minimum size of an area with a text, in drawing units.
const LEAST_AREA: i32 = 4 * FINE;

/// A legend: lines of names, each drawn with its look.
struct Legend {
    lines: Vec<Vec<(i32, usize, String, LegendSample)>>,
}

/// The form in which the legend shows the look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LegendSample {
    Marker,
    /// A line with a marker.
    Line,
    /// A filled square, as the series consists of filled areas.
    Area,
}

impl LegendSample {
    fn of(series: &Series) -> Self {
        let has = |is_such: fn(&Mark) -> bool| series.marks.iter().any(is_such);
        if has(|mark| matches!(mark, Mark::Curve(_) | Mark::Stroke(_) | Mark::Line(_) | Mark::Outline(_))) {
            Self::Line
        } else if has(|mark| matches!(mark, Mark::Piece { .. })) {
            Self::Area
        } else {
            Self::Marker
        }
    }
}

const LEGEND_LINE: i32 = 20;
const BELOW_LEGEND: i32 = 6;
const SAMPLE: i32 = 34;

impl Legend {
    fn of(chart: &Chart, width: Width) -> Self {
        let mut seen: Vec<(&str, usize, LegendSample)> = Vec::new();
        for series in chart.panels.iter().flat_map(|panel| &panel.series) {
            let name = series.name.as_deref().filter(|name| !seen.iter().any(|entry| entry.0 == *name));
            if let Some(name) = name {
                seen.push((name, series.look, LegendSample::of(series)));
            }
        }
        let (mut lines, mut x): (Vec<Vec<_>>, i32) = (Vec::new(), i32::MAX);
        for (name, look, sample) in seen {
            let name = shortened(name, width.pixels() - SAMPLE);
            let wide = SAMPLE + width_of(&name) + 16;
            if x.saturating_add(wide) > width.pixels() {
                lines.push(Vec::new());
                x = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push((x, look, name, sample));
            }
            x += wide;
        }
        Self { lines }
    }

    fn height(&self) -> i32 {
        i32::try_from(self.lines.len()).unwrap_or(0) * LEGEND_LINE
            + if self.lines.is_empty() { 0 } else { BELOW_LEGEND }
    }

    fn draw(&self, drawing: &mut Drawing) {
        for (number, line) in (0_i32..).zip(&self.lines) {
            let y = (number * LEGEND_LINE + LEGEND_LINE / 2) * FINE;
            for (x, look, name, sample) in line {
                let (from, to) = ((x + 2) * FINE, (x + SAMPLE - 8) * FINE);
                let middle = (from + to) / 2;
                match sample {
                    LegendSample::Area => {
                        let half = 6 * FINE;
                        drawing.rectangle((middle - half, y - half), (middle + half, y + half), color(*look));
                    }
                    LegendSample::Line => {
                        drawing.line(&[(from, y), (to, y)], Stroke::of_look(*look));
                        drawing.marker(*look, (middle, y));
                    }
                    LegendSample::Marker => drawing.marker(*look, (middle, y)),
                }
                drawing.text(name, ((x + SAMPLE) * FINE, y), TextLook::beside(INK, LabelSide::Begins));
            }
        }
    }
}

impl Panel {
    const HEAD: i32 = 22;
    const FOOT: i32 = 42;
    const RIGHT: i32 = 24;
    /// The height of a row with its name above it.
    const ROW_WITH_NAME: i32 = 40;

    fn whole_height(&self, width: i32) -> i32 {
        let rows = i32::try_from(self.y.ticks.len().min(MOST_ROWS)).unwrap_or(0);
        let height = if self.has_names_above(width) { rows * Self::ROW_WITH_NAME } else { self.height };
        Self::HEAD + height + Self::FOOT
    }

    fn width_of_names(&self) -> i32 {
        self.y.ticks.iter().map(|tick| width_of(&tick.1)).max().unwrap_or(0) + 14
    }

    /// Returns whether names are drawn above their rows because there is no room next to the rows.
    fn has_names_above(&self, width: i32) -> bool {
        self.y.is_of_names() && self.width_of_names() > width * 45 / 100
    }

    fn draw(&self, drawing: &mut Drawing, area: Area) {
        let (width, height) = (area.width / FINE, area.height / FINE);
        let left = if self.has_names_above(width) { 8 } else { self.width_of_names() };
        let head = [&self.title, &self.y.title].into_iter().filter(|part| !part.is_empty()).cloned();
        let head = shortened(&head.collect::<Vec<_>>().join(": "), width - 4);
        drawing.text(&head, (area.left + 2 * FINE, area.top + 2 * FINE), TextLook::below(FAINT, LabelSide::Begins));
        let right = area.left + (width - Self::RIGHT) * FINE;
        let title = shortened(&self.x.title, width - Self::RIGHT);
        drawing.text(&title, (right, area.top + (height - 17) * FINE), TextLook::below(FAINT, LabelSide::Ends));

        let inner = Area {
            left: area.left + left * FINE,
            top: area.top + Self::HEAD * FINE,
            width: (width - left - Self::RIGHT) * FINE,
            height: (height - Self::HEAD - Self::FOOT) * FINE,
        };
        let plot = Plot { area: inner, x: &self.x, y: &self.y };
        self.grid(drawing, area, plot);
        for series in &self.series {
            for mark in &series.marks {
                self.mark(drawing, (area, plot), series.look, mark);
            }
        }
    }

    /// Draws the grid lines and tick labels of both axes.
    fn grid(&self, drawing: &mut Drawing, area: Area, plot: Plot<'_>) {
        let width = area.width / FINE;
        let thin = Stroke::solid(GRID, FINE);
        let are_above = self.has_names_above(width);
        for (position, name) in &self.y.ticks {
            let (from, to) = (plot.place(self.x.low, *position), plot.place(self.x.high, *position));
            if !self.y.is_of_names() {
                drawing.line(&[from, to], thin);
            }
            if are_above {
                let (place, name) = ((from.0, from.1 - 16 * FINE), shortened(name, width - Self::RIGHT));
                drawing.text(&name, place, TextLook::beside(FAINT, LabelSide::Begins));
            } else {
                drawing.text(name, (from.0 - 7 * FINE, from.1), TextLook::beside(FAINT, LabelSide::Ends));
            }
        }
        let mut free_from = i32::MIN;
        for (position, name) in &self.x.ticks {
            let (bottom, top) = (plot.place(*position, self.y.low), plot.place(*position, self.y.high));
            drawing.line(&[bottom, top], thin);
            let half = width_of(name) * FINE / 2;
            let middle = bottom.0.min(area.left + area.width - half).max(area.left + half);
            // A label that would overlap the previous label is skipped.
            if middle - half >= free_from {
                free_from = middle + half + 8 * FINE;
                drawing.text(name, (middle, bottom.1 + 7 * FINE), TextLook::below(FAINT, LabelSide::Middle));
            }
        }
        if self.y.is_of_names() {
            let [bottom, top] = [self.y.low, self.y.high].map(|end| plot.place(self.x.low, end));
            drawing.line(&[bottom, top], thin);
        }
    }

    fn mark(&self, drawing: &mut Drawing, (area, plot): (Area, Plot<'_>), look: usize, mark: &Mark) {
        let solid = Stroke::solid(color(look), LINE);
        match mark {
            Mark::Curve(points) => {
                let places = plot.all(points);
                let mut last = i32::MIN / 2;
                for &place in &places {
                    if place.0 - last >= 60 * FINE || places.len() <= 12 {
                        last = place.0;
                        drawing.marker(look, place);
                    }
                }
                drawing.line(&places, Stroke::of_look(look));
            }
            Mark::Stroke(points) => drawing.line(&plot.all(points), Stroke::of_look(look)),
            Mark::Line(points) => drawing.line(&plot.all(points), Stroke { width: LINE / 2 + 2, ..solid }),
            Mark::Points(points) => points.iter().for_each(|&(x, y)| drawing.marker(look, plot.at(x, y))),
            Mark::Outline(points) => {
                let places = plot.all(points);
                let bottom = plot.at(0.0, f64::MIN).1;
                let ends = places.first().zip(places.last()).map(|(first, last)| [(last.0, bottom), (first.0, bottom)]);
                let closed = [places.clone(), ends.into_iter().flatten().collect()].concat();
                drawing.area(&closed, color(look), Some(0.12));
                drawing.line(&places, Stroke::of_look(look));
            }
            Mark::Bar { name, to, words } => self.bar(drawing, (area, plot), look, (*name, *to, words)),
            Mark::Piece { x, y } => {
                let ((left, top), (right, bottom)) = (plot.at(x.0, y.0), plot.at(x.1, y.1));
                drawing.rectangle((left, top.min(bottom)), (right.max(left + FINE), top.max(bottom)), color(look));
            }
            Mark::Across { from, to, y } => drawing.line(&[plot.at(*from, *y), plot.at(*to, *y)], solid),
            Mark::Within { x, from, to } => {
                drawing.line(&[plot.at(*x, *from), plot.at(*x, *to)], Stroke { width: LINE / 2, ..solid });
            }
            Mark::Limit(x) => {
                let (top, bottom) = (plot.at(*x, f64::MAX), plot.at(*x, f64::MIN));
                let (top, bottom) = if self.y.is_of_names() { (bottom, top) } else { (top, bottom) };
                drawing.line(&[top, bottom], Stroke::LIMIT);
            }
            Mark::Words { x, y, words } => drawing.label(words, plot.at(*x, *y), (area.right_end(), INK)),
            Mark::WordsBefore { x, y, words } => beside_row(drawing, (area, plot), (*x, *y), (words, true)),
            Mark::WordsAfter { x, y, words } => beside_row(drawing, (area, plot), (*x, *y), (words, false)),
            Mark::Rule { x, words, row, is_limit } => {
                let (mut top, bottom) = (plot.at(*x, f64::MAX), plot.at(*x, f64::MIN));
                // The line begins at its label, so that it does not strike through the labels in the rows above.
                top.1 += 15 * row * FINE;
                drawing.line(&[top, bottom], if *is_limit { Stroke::LIMIT } else { solid });
                drawing.label(words, (top.0, top.1 + 7 * FINE), (area.right_end(), INK));
            }
            Mark::Cells(cells) => drawing.add_cells(cells.iter().map(|cell| {
                let (x, y) = plot.ends(cell.x, cell.y);
                (cell.shade, x, y)
            })),
            Mark::Hover { x, y, words } => {
                let (x, y) = plot.ends(*x, *y);
                drawing.add_area(x, y, words);
            }
        }
    }

    fn bar(
        &self,
        drawing: &mut Drawing,
        (area, plot): (Area, Plot<'_>),
        look: usize,
        (name, to, words): (f64, f64, &str),
    ) {
        let ((x, y), left) = (plot.at(to, name), plot.at(f64::MIN, name).0);
        let half = 7 * FINE;
        drawing.rectangle((left, y - half), (x, y + half), color(look));
        drawing.label(words, (x, y), (area.right_end(), ON_A_BAR));
        let tick = self.y.ticks.iter().find(|tick| (tick.0 - self.y.at(name)).abs() < 1e-9);
        drawing.add_area((left, x), (y - half, y + half), &format!("{}: {words}", tick.map_or("", |tick| &tick.1)));
    }
}

/// Adds a label before or after the markers of a row, or below them if there is no room.
fn beside_row(
    drawing: &mut Drawing,
    (area, plot): (Area, Plot<'_>),
    (x, y): (f64, f64),
    (words, is_before): (&str, bool),
) {
    let (x, y) = plot.at(x, y);
    let wide = (width_of(words) + 8) * FINE;
    let (left, right) = (plot.area.left, area.right_end());
    let (place, side) = if is_before && x - wide >= left {
        ((x - 8 * FINE, y), LabelSide::Ends)
    } else if !is_before && x + wide <= right {
        ((x + 8 * FINE, y), LabelSide::Begins)
    } else {
        // On the other side are the other markers of the row.
        let half = width_of(words) * FINE / 2;
        ((x.min(right - half).max(left + half), y + 11 * FINE), LabelSide::Middle)
    };
    drawing.text(words, place, TextLook::beside(INK, side));
}

fn color(look: usize) -> Color {
    CURVES[look % CURVES.len()]
}

/// Returns the text, truncated to `width` pixels.
fn shortened(words: &str, width: i32) -> String {
    if width_of(words) <= width {
        return words.to_owned();
    }
    let room = usize::try_from(width - TEXT).unwrap_or(0) * 1_000 / TEXT.unsigned_abs() as usize;
    let mut taken = 0;
    let fits = |letter: &char| {
        taken += thousandths(*letter);
        taken <= room
    };
    words.chars().take_while(fits).collect::<String>().trim_end().to_owned() + "…"
}

/// Returns the maximum width of the text in pixels. Of the usual system fonts, DejaVu Sans and Verdana
/// are the widest.
fn width_of(words: &str) -> i32 {
    let thousandths = words.chars().map(thousandths).fold(0_usize, usize::saturating_add);
    i32::try_from(thousandths / 1_000)
        .map_or(i32::MAX / 100, |heights| heights.saturating_mul(TEXT))
        .saturating_add(i32::try_from(thousandths % 1_000).unwrap_or(0) * TEXT / 1_000)
}

/// Returns the width of a character, in thousandths of the font size.
fn thousandths(letter: char) -> usize {
    match letter {
        ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | 'i' | 'j' | 'l' | 'I' | '\u{202f}' => 340,
        '(' | ')' | '[' | ']' | '-' | '/' | '!' | 'f' | 'r' | 't' => 420,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' | '—' | '×' | '−' | '+' | '=' => 1_000,
        'A'..='Z' => 790,
        // These scripts have square characters.
        '\u{2e80}'.. => 1_000,
        _ => 640,
    }
}

/// Returns the dash of a look, or `None` for a solid line. After the last color, the colors repeat, each with the next
/// dash.
fn dash(look: usize) -> Option<usize> {
    (look + look / CURVES.len()).checked_rem(CURVES.len())?.checked_sub(1)
}

/// Returns a color in SVG notation.
pub(crate) fn name(color: Color) -> String {
    format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2)
}

impl Drawing {
    /// Adds the marker of a look. After the last color, the colors repeat with open markers.
    fn marker(&mut self, look: usize, (x, y): Point) {
        let r = 4 * FINE;
        let is_open = (look / CURVES.len()) % 2 == 1;
        let solid = Stroke::solid(color(look), LINE);
        let at = |corners: &[Point]| corners.iter().map(|(right, down)| (x + right, y + down)).collect::<Vec<_>>();
        let mut line = |corners: &[Point]| self.line(&at(corners), solid);
        let lines: &[&[Point]] = match (look % CURVES.len(), is_open) {
            (4, false) => &[&[(-r, -r), (r, r)], &[(-r, r), (r, -r)]],
            (5.., true) => &[&[(0, -r - 6), (0, r + 6)], &[(-r, -r - 6), (r, -r - 6)], &[(-r, r + 6), (r, r + 6)]],
            (5.., false) => &[&[(0, -r - 6), (0, r + 6)], &[(-r - 6, 0), (r + 6, 0)]],
            _ => &[],
        };
        lines.iter().for_each(|corners| line(corners));
        let shape: &[Point] = match look % CURVES.len() {
            0 => &round(r),
            1 => &[(0, -r - 8), (r + 4, r - 6), (-r - 4, r - 6)],
            2 => &[(-r + 6, -r + 6), (r - 6, -r + 6), (r - 6, r - 6), (-r + 6, r - 6)],
            3 => &[(0, -r - 8), (r + 8, 0), (0, r + 8), (-r - 8, 0)],
            4 if is_open => &[(-r, -r), (r, -r), (-r, r), (r, r)],
            _ => return,
        };
        if is_open {
            line(&[shape, &shape[..1]].concat());
        } else {
            self.area(&at(shape), color(look), None);
        }
    }
}

/// Returns the corners of a circle, which is drawn as a polygon, as all other markers are.
fn round(r: i32) -> [Point; 16] {
    let mut corners = [(0, 0); 16];
    for (corner, place) in (0_u32..).zip(&mut corners) {
        let angle = f64::from(corner) * std::f64::consts::TAU / 16.0;
        #[expect(clippy::cast_possible_truncation, reason = "a few pixels")]
        let part = |along: f64| (along * f64::from(r)).round() as i32;
        *place = (part(angle.cos()), part(angle.sin()));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::{
        BY_NIGHT, CURVES, Chart, Color, DASHES, FAINT, FINE, GRID, GridCell, INK, MOST_PANELS, Mark, ON_A_BAR, Panel,
        SHADES, Series, Width, dash, name, shade, shortened, width_of,
    };
    use crate::output::chart::axis::{Axis, time};

    /// The background of drawings in light and in dark mode.
    const GROUNDS: [Color; 2] = [Color(0xff, 0xff, 0xff), Color(0x14, 0x17, 0x1b)];

    /// Relative luminance as in WCAG 2.1.
    fn light(color: Color) -> f64 {
        let part = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.03928 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * part(color.0) + 0.7152 * part(color.1) + 0.0722 * part(color.2)
    }

    fn contrast(one: Color, other: Color) -> f64 {
        let (one, other) = (light(one), light(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn by_night(day: Color) -> Color {
        BY_NIGHT.iter().find(|pair| pair.0 == day).expect("every color has one for dark mode").1
    }

    #[test]
    fn every_color_is_visible_in_light_and_dark_mode() {
        for (color, least) in CURVES
            .map(|color| (color, 3.0))
            .into_iter()
            .chain([(INK, 4.5), (FAINT, 4.5)])
            .chain(SHADES.map(|shade| (shade, 3.0)))
        {
            for (shown, ground) in [(color, GROUNDS[0]), (by_night(color), GROUNDS[1])] {
                let ratio = contrast(shown, ground);
                assert!(ratio >= least, "{} on {}: {ratio:.2}", name(shown), name(ground));
            }
        }
        assert_ne!(by_night(GRID), GRID);
    }

    #[test]
    fn text_on_a_bar_is_readable_in_light_and_dark_mode() {
        let bars = |to: f64| Panel {
            title: String::new(),
            x: Axis::log("cost", [1.0, 1e4], time),
            y: Axis::names(vec!["a source".to_owned()]),
            height: 30,
            series: vec![Series {
                name: None,
                look: 0,
                marks: vec![Mark::Bar { name: 0.0, to, words: "10000 ns".to_owned() }],
            }],
        };
        for (to, ink) in [(10.0, INK), (1e4, ON_A_BAR)] {
            let drawing = Chart { panels: vec![bars(to)], side_by_side: false }.draw(Width::Narrow).1;
            let end = drawing.split("<text").find(|part| part.contains("10000 ns")).expect("it is drawn");
            assert!(end.contains(&format!("fill=\"{}\"", name(ink))), "{end}");
        }
        for (words, bar) in [(ON_A_BAR, CURVES[0]), (by_night(ON_A_BAR), by_night(CURVES[0]))] {
            assert!(contrast(words, bar) >= 4.5, "{} on {}", name(words), name(bar));
        }
    }

    fn chart(curves: usize) -> Chart {
        let points = vec![(1e3, 1.0), (1e4, 0.5), (2e6, 0.01)];
        let series =
            |look| Series { name: Some(format!("curve {look}")), look, marks: vec![Mark::Curve(points.clone())] };
        let panel = Panel {
            title: "a panel".to_owned(),
            x: Axis::log("latency", [1e3, 2e6], time),
            y: Axis::linear("share", [0.0, 1.0], true, |share| share.to_string()),
            height: 100,
            series: (0..curves).map(series).collect(),
        };
        Chart { panels: vec![panel], side_by_side: false }
    }

    #[test]
    fn curves_are_distinguishable_without_color() {
        let all = CURVES.len() * CURVES.len();
        // By color and dash, and by dash and marker.
        for by in [|look: usize| (look % CURVES.len(), dash(look)), |look| (look % (2 * CURVES.len()), dash(look))] {
            let mut looks: Vec<_> = (0..all).map(by).collect();
            looks.sort_unstable();
            looks.dedup();
            assert_eq!(looks.len(), all);
        }
        for width in [Width::Wide, Width::Narrow] {
            let drawing = chart(3 * CURVES.len()).draw(width).1;
            for (length, gap) in &DASHES[..5] {
                let own = format!("stroke-width=\"18\" stroke-dasharray=\"{} {}\"", length * FINE, gap * FINE);
                // In the legend and in the panel.
                assert_eq!(drawing.matches(&own).count(), 2 * 3, "{own}: {drawing}");
            }
        }
    }

    #[test]
    fn the_height_of_a_chart_is_limited() {
        let mut many = chart(1);
        many.panels[0].y = Axis::names(vec!["a name that is too long for its row".repeat(3); 2_000]);
        many.panels = vec![many.panels[0].clone(); 30];
        many.panels.iter_mut().skip(1).for_each(|panel| panel.y.ticks.truncate(1));
        for width in [Width::Wide, Width::Narrow] {
            let drawing = many.draw(width).1;
            assert_eq!(drawing.matches("a panel").count(), MOST_PANELS);
        }
    }

    #[test]
    fn values_that_are_not_finite_are_drawn_at_the_edge_without_a_panic() {
        let mut broken = chart(1);
        let points = vec![(f64::NAN, f64::INFINITY), (-1.0, f64::NEG_INFINITY), (1e300, 1e300)];
        broken.panels[0].series[0].marks = vec![
            Mark::Curve(points.clone()),
            Mark::Outline(points),
            Mark::Outline(Vec::new()),
            Mark::Limit(f64::NAN),
            Mark::Bar { name: 99.0, to: f64::NAN, words: String::new() },
            Mark::Words { x: f64::MAX, y: f64::MIN, words: "<&>".repeat(100) },
            Mark::WordsBefore { x: f64::MAX, y: f64::NAN, words: String::new() },
            Mark::WordsAfter { x: f64::NAN, y: f64::MAX, words: "wide ".repeat(40) },
            Mark::Rule { x: f64::NAN, words: String::new(), row: 2, is_limit: true },
            Mark::Cells(vec![GridCell { x: (f64::NAN, f64::INFINITY), y: (1e300, -1.0), shade: 99 }]),
            Mark::Hover { x: (f64::NAN, 1e300), y: (-1.0, 5.0), words: "<&>".to_owned() },
        ];
        let drawing = broken.draw(Width::Narrow).1;
        assert!(!drawing.contains("NaN") && !drawing.contains("inf") && drawing.contains("&lt;&amp;&gt;"), "{drawing}");
    }

    #[test]
    fn text_is_above_all_lines_and_names_its_font_once() {
        let mut crossed = chart(1);
        let mark = Mark::Rule { x: 1e4, words: "p50 10 µs".to_owned(), row: 0, is_limit: false };
        crossed.panels[0].series[0].marks.insert(0, mark);
        let drawing = crossed.draw(Width::Wide).1;
        let last_line = drawing.rfind("<poly").expect("there are lines");
        assert!(drawing.find("<text").is_some_and(|first| first > last_line), "{drawing}");
        assert_eq!((drawing.matches("font-family").count(), drawing.matches(" opacity=\"1\"").count()), (1, 0));
        assert!(drawing.ends_with("</g>"), "{drawing}");
    }

    #[test]
    fn labels_of_a_row_stand_beside_or_below_their_markers() {
        let row = |before: f64, after: f64| Panel {
            title: String::new(),
            x: Axis::log("cost", [1.0, 1e4], time),
            y: Axis::names(vec!["a row".to_owned()]),
            height: 40,
            series: vec![Series {
                name: None,
                look: 0,
                marks: vec![
                    Mark::WordsBefore { x: before, y: 0.0, words: "least".to_owned() },
                    Mark::WordsAfter { x: after, y: 0.0, words: "largest".to_owned() },
                ],
            }],
        };
        let height = |panel: Panel, words: &str| {
            let drawing = Chart { panels: vec![panel], side_by_side: false }.draw(Width::Narrow).1;
            let text = drawing.split("<text ").find(|text| text.contains(words)).expect("it is drawn");
            let y = text.split_once("y=\"").and_then(|(_, rest)| rest.split_once('"')).expect("it has a place").0;
            y.parse::<i32>().expect("a number")
        };
        let beside = height(row(100.0, 200.0), "least");
        assert_eq!(height(row(100.0, 200.0), "largest"), beside);
        // At the edges there is no room beside the markers, because the other marker of the row may be there.
        assert_eq!(height(row(1.0, 1e4), "least"), beside + 11 * FINE);
        assert_eq!(height(row(1.0, 1e4), "largest"), beside + 11 * FINE);
    }

    #[test]
    fn a_legend_and_the_labels_of_marks_stay_within_the_drawing() {
        let mut long = chart(1);
        long.panels[0].series[0].name = Some("a very long name of a source ".repeat(9));
        let last = "the last mark of all";
        long.panels[0].x.ticks = vec![(long.panels[0].x.high, last.to_owned())];
        for width in [Width::Wide, Width::Narrow] {
            let drawing = long.draw(width).1;
            let legend = drawing.split("<text").find(|part| part.contains("a very long")).expect("there is a legend");
            assert!(legend.contains('…'), "{legend}");
            let mark = drawing.split("<text").find(|part| part.contains(last)).expect("the mark has a name");
            let x = mark.split_once(" x=\"").and_then(|(_, rest)| rest.split_once('"')).expect("it has a place").0;
            let middle: i32 = x.parse().expect("a number");
            assert!(middle + width_of(last) * FINE / 2 <= width.pixels() * FINE, "{mark}");
        }
    }

    #[test]
    fn a_single_sample_has_its_own_shade() {
        assert_eq!((shade(1, 1), shade(1, u64::MAX), shade(2, 100_000_000)), (0, 0, 1));
        assert_eq!(shade(u64::MAX, u64::MAX), SHADES.len() - 1);
        let shades: Vec<_> =
            [1, 10, 1_000, 100_000, 10_000_000, 100_000_000].map(|count| shade(count, 100_000_000)).into();
        assert!(shades.is_sorted() && shades.last() == Some(&5), "{shades:?}");
    }

    #[test]
    fn cells_and_areas_are_in_the_drawing_and_text_is_escaped() {
        let mut map = chart(1);
        map.panels[0].series[0].marks = vec![
            Mark::Cells(vec![
                GridCell { x: (1e3, 1e4), y: (0.0, 0.5), shade: 0 },
                GridCell { x: (1e5, 1e6), y: (0.5, 1.0), shade: 5 },
                GridCell { x: (1e4, 1e5), y: (0.0, 0.5), shade: 0 },
                GridCell { x: (1e6, 2e6), y: (0.0, 0.5), shade: 0 },
            ]),
            Mark::Hover { x: (1e3, 1e4), y: (0.0, 0.5), words: "<1 & 2>".to_owned() },
        ];
        let drawing = map.draw(Width::Wide).1;
        assert_eq!(drawing.matches("<path fill=").count(), 2, "one path for each shade: {drawing}");
        let path = drawing.split_once(" d=\"").and_then(|(_, rest)| rest.split_once('"')).expect("a path").0;
        assert_eq!(path.matches('M').count(), 2, "neighboring cells are one: {path}");
        assert!(drawing.contains("<title>&lt;1 &amp; 2&gt;</title>"), "{drawing}");
        assert!(drawing.ends_with("</g>"), "{drawing}");
        assert!(!map.draw(Width::Narrow).1.contains("<title>"));
    }

    #[test]
    fn text_fits_in_the_widest_font() {
        // In DejaVu Sans, at twelve pixels.
        for (text, pixels) in
            [("10000 ns", 55.8), ("100000 µs", 63.5), ("monotonic-raw", 90.0), ("hpt's Sleeper", 78.9)]
        {
            let room = f64::from(width_of(text));
            assert!((pixels - 1.0..pixels * 1.15).contains(&room), "{text}: {room}");
        }
    }

    #[test]
    fn a_name_that_does_not_fit_is_truncated() {
        let long = "a very long name of an experiment ".repeat(9);
        let cut = shortened(&long, 200);
        assert!(cut.ends_with('…') && width_of(&cut) <= 200 && long.starts_with(cut.trim_end_matches('…')), "{cut}");
        assert_eq!(shortened("short", 200), "short");
    }
}
