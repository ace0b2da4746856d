//! Charts: panels of curves, points, bars and ranges on two scales, drawn as SVG. This module is independent of
//! documents; the other modules in this directory create charts from documents.

use std::fmt::Write;

use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::{
        Cartesian2d, ChartBuilder, ChartContext, Color, DrawingArea, IntoDrawingArea, IntoFont, PathElement, Polygon,
        RGBColor, Rectangle, SVGBackend, Text, TextStyle,
    },
    style::text_anchor::{HPos, Pos, VPos},
};

use super::axis::Axis;

/// The number of drawing units per pixel. Coordinates in the drawing are whole numbers of these units.
const FINE: i32 = 10;
const TEXT: i32 = 12;
/// The width of a line, in drawing units.
const LINE: u32 = 18;
/// The first of the line widths that mark dashed lines in the drawing. Each dash has its own line width, because
/// plotters does not support dashes.
const DASHED_LINE: u32 = LINE + 1;
const FONT: &str = "system-ui, sans-serif";
/// The factor by which plotters reduces the size of text.
const FONT_FACTOR: f64 = 1.24;

/// The colors of a drawing in light mode. In dark mode, the style sheet of the page or of the separate file replaces
/// them with the colors in [`BY_NIGHT`].
pub(crate) const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
const FAINT: RGBColor = RGBColor(0x57, 0x60, 0x6a);
const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);
/// The colors of the cells of a heat map, from one sample to the most samples.
const SHADES: [RGBColor; 6] = [
    RGBColor(0x4c, 0x93, 0xcb),
    RGBColor(0x2f, 0x7a, 0xb8),
    RGBColor(0x1f, 0x61, 0x9d),
    RGBColor(0x16, 0x4a, 0x7f),
    RGBColor(0x0f, 0x35, 0x60),
    RGBColor(0x08, 0x1f, 0x3d),
];
/// The color of text on a bar, which is the color of the background.
const ON_A_BAR: RGBColor = RGBColor(0xff, 0xff, 0xff);
/// The colors of curves. Color-blind readers can distinguish them, and each has its own dash and
/// marker.
const CURVES: [RGBColor; 6] = [
    RGBColor(0x00, 0x67, 0xa5),
    RGBColor(0xc2, 0x41, 0x0c),
    RGBColor(0x00, 0x78, 0x5a),
    RGBColor(0x8f, 0x3f, 0x8f),
    RGBColor(0x6e, 0x62, 0x00),
    RGBColor(0x3b, 0x42, 0x52),
];
/// Each color in light mode, and its replacement in dark mode.
pub(crate) const BY_NIGHT: [(RGBColor, RGBColor); 16] = [
    (INK, RGBColor(0xe8, 0xea, 0xed)),
    (FAINT, RGBColor(0xa3, 0xac, 0xb8)),
    (GRID, RGBColor(0x34, 0x3b, 0x44)),
    (ON_A_BAR, RGBColor(0x14, 0x17, 0x1b)),
    (CURVES[0], RGBColor(0x5c, 0xb3, 0xf0)),
    (CURVES[1], RGBColor(0xf5, 0x95, 0x63)),
    (CURVES[2], RGBColor(0x3c, 0xcb, 0x9e)),
    (CURVES[3], RGBColor(0xd9, 0x8f, 0xd9)),
    (CURVES[4], RGBColor(0xcd, 0xbe, 0x4b)),
    (CURVES[5], RGBColor(0xc4, 0xcb, 0xd6)),
    (SHADES[0], RGBColor(0x3d, 0x7f, 0xb5)),
    (SHADES[1], RGBColor(0x52, 0x99, 0xd1)),
    (SHADES[2], RGBColor(0x74, 0xb3, 0xe3)),
    (SHADES[3], RGBColor(0x9a, 0xcb, 0xf0)),
    (SHADES[4], RGBColor(0xc2, 0xe1, 0xf9)),
    (SHADES[5], RGBColor(0xea, 0xf5, 0xff)),
];
/// The length of each dash and of the gap after it, in pixels. The first look is a solid line; the last
/// dash marks limits.
const DASHES: [(i32, i32); 6] = [(8, 3), (2, 3), (14, 3), (5, 2), (3, 7), (5, 3)];
const LIMIT_DASH: u32 = 5;
/// The maximum number of panels in a chart.
pub(super) const MOST_PANELS: usize = 24;
/// The number of rows above which rows overlap.
const MOST_ROWS: usize = 1_000;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<RangedCoordf64, RangedCoordf64>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;

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

/// The parts of a drawing that plotters cannot draw, as SVG.
#[derive(Debug, Default)]
struct Layers {
    /// The cells, below everything else.
    below: String,
    /// The areas with a text.
    above: String,
}

impl Chart {
    /// Returns the drawing as SVG, without a title.
    pub(super) fn draw(&self, width: Width) -> String {
        let legend = Legend::of(self, width);
        let columns = if self.side_by_side && width != Width::Narrow { self.panels.len().clamp(1, 3) } else { 1 };
        let panels = &self.panels[..self.panels.len().min(MOST_PANELS)];
        let rows: Vec<&[Panel]> = panels.chunks(columns).collect();
        let one = width.pixels() / i32::try_from(columns).unwrap_or(1);
        let heights: Vec<i32> =
            rows.iter().map(|row| row.iter().map(|panel| panel.whole_height(one)).max().unwrap_or(0)).collect();
        let height = legend.height() + heights.iter().sum::<i32>();
        let (mut drawing, mut layers) = (String::new(), Layers::default());
        {
            let size = |pixels: i32| u32::try_from(pixels * FINE).unwrap_or(1);
            let root = SVGBackend::with_string(&mut drawing, (size(width.pixels()), size(height))).into_drawing_area();
            legend.draw(&root);
            let mut top = legend.height();
            for (row, row_height) in rows.iter().zip(heights) {
                for (place, panel) in (0_i32..).zip(row.iter()) {
                    let area = root.clone().shrink((place * one * FINE, top * FINE), (one * FINE, row_height * FINE));
                    panel.draw(&area, one, row_height, &mut layers);
                }
                top += row_height;
            }
            root.present().expect(NEVER_FULL);
        }
        if width == Width::Narrow {
            // A phone has no pointer that could be in an area.
            layers.above.clear();
        }
        layers.around(&text_on_top(&with_dashes(&drawing)))
    }
}

impl Layers {
    /// Returns the drawing with the cells below it and the areas above it.
    fn around(&self, drawing: &str) -> String {
        let (tag, inside) = drawing.split_once('>').unwrap_or_default();
        let inside = inside.trim_end().strip_suffix("</svg>").unwrap_or(inside);
        let areas = if self.above.is_empty() {
            String::new()
        } else {
            format!(r#"<g fill="none" pointer-events="all">{}</g>"#, self.above)
        };
        format!("{tag}>{}{inside}{areas}</svg>", self.below)
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
            let _ = write!(self.below, r#"<path fill="{}" d="{path}"/>"#, name(color));
        }
    }

    fn add_area(&mut self, (left, right): (i32, i32), (top, bottom): (i32, i32), words: &str) {
        // A smaller area would be hard to point at.
        let grown = |from: i32, to: i32| {
            let missing = (LEAST_AREA - (to - from)).max(0) / 2;
            (from - missing, to - from + 2 * missing)
        };
        let ((x, wide), (y, high)) = (grown(left, right), grown(top, bottom));
        let words = maud::html! { (words) }.into_string();
        let _ =
            write!(self.above, r#"<rect x="{x}" y="{y}" width="{wide}" height="{high}"><title>{words}</title></rect>"#);
    }
}

/// The minimum size of an area with a text, in drawing units.
const LEAST_AREA: i32 = 4 * FINE;

const NEVER_FULL: &str = "drawing to a string does not fail";

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
            if let Some(name) = series.name.as_deref()
                && !seen.iter().any(|entry| entry.0 == name)
            {
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

    fn draw(&self, root: &Area<'_>) {
        for (number, line) in (0_i32..).zip(&self.lines) {
            let y = (number * LEGEND_LINE + LEGEND_LINE / 2) * FINE;
            for (x, look, name, sample) in line {
                let (from, to) = ((x + 2) * FINE, (x + SAMPLE - 8) * FINE);
                let middle = (from + to) / 2;
                match sample {
                    LegendSample::Area => {
                        let half = 6 * FINE;
                        let corners = [(middle - half, y - half), (middle + half, y + half)];
                        root.draw(&Rectangle::new(corners, color(*look).filled())).expect(NEVER_FULL);
                    }
                    LegendSample::Line => {
                        stroke(root, vec![(from, y), (to, y)], *look);
                        marker(root, *look, (middle, y));
                    }
                    LegendSample::Marker => marker(root, *look, (middle, y)),
                }
                let style = text(&INK, HPos::Left, VPos::Center);
                root.draw(&Text::new(name.clone(), ((x + SAMPLE) * FINE, y), style)).expect(NEVER_FULL);
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

    fn draw(&self, area: &Area<'_>, width: i32, height: i32, layers: &mut Layers) {
        let left = if self.has_names_above(width) { 8 } else { self.width_of_names() };
        let head = [&self.title, &self.y.title].into_iter().filter(|part| !part.is_empty()).cloned();
        let head = shortened(&head.collect::<Vec<_>>().join(": "), width - 4);
        let style = text(&FAINT, HPos::Left, VPos::Top);
        area.draw(&Text::new(head, (2 * FINE, 2 * FINE), style)).expect(NEVER_FULL);
        let style = text(&FAINT, HPos::Right, VPos::Top);
        let right = (width - Self::RIGHT) * FINE;
        let title = shortened(&self.x.title, width - Self::RIGHT);
        area.draw(&Text::new(title, (right, (height - 17) * FINE), style)).expect(NEVER_FULL);

        let plot = ChartBuilder::on(area)
            .margin_top(Self::HEAD * FINE)
            .margin_right(Self::RIGHT * FINE)
            .margin_bottom(Self::FOOT * FINE)
            .margin_left(left * FINE)
            .build_cartesian_2d(self.x.low..self.x.high, self.y.low..self.y.high)
            .expect(NEVER_FULL);
        self.grid(area, &plot, width);
        for series in &self.series {
            for mark in &series.marks {
                self.mark(area, &plot, series.look, mark, layers);
            }
        }
    }

    /// Draws the grid lines and tick labels of both axes.
    fn grid(&self, area: &Area<'_>, plot: &Plot<'_, '_>, width: i32) {
        let base = area.get_base_pixel();
        let at = |x: f64, y: f64| {
            let (x, y) = plot.backend_coord(&(x, y));
            (x - base.0, y - base.1)
        };
        let line = |from, to| area.draw(&PathElement::new(vec![from, to], GRID.stroke_width(FINE.unsigned_abs())));
        let are_above = self.has_names_above(width);
        for (position, name) in &self.y.ticks {
            let (from, to) = (at(self.x.low, *position), at(self.x.high, *position));
            if !self.y.is_of_names() {
                line(from, to).expect(NEVER_FULL);
            }
            let (place, side, name) = if are_above {
                ((from.0, from.1 - 16 * FINE), HPos::Left, shortened(name, width - Self::RIGHT))
            } else {
                ((from.0 - 7 * FINE, from.1), HPos::Right, name.clone())
            };
            area.draw(&Text::new(name, place, text(&FAINT, side, VPos::Center))).expect(NEVER_FULL);
        }
        let mut free_from = i32::MIN;
        for (position, name) in &self.x.ticks {
            let (bottom, top) = (at(*position, self.y.low), at(*position, self.y.high));
            line(bottom, top).expect(NEVER_FULL);
            let half = width_of(name) * FINE / 2;
            let middle = bottom.0.min(width * FINE - half).max(half);
            // A label that would overlap the previous label is skipped.
            if middle - half >= free_from {
                free_from = middle + half + 8 * FINE;
                let place = (middle, bottom.1 + 7 * FINE);
                area.draw(&Text::new(name.clone(), place, text(&FAINT, HPos::Center, VPos::Top))).expect(NEVER_FULL);
            }
        }
        if self.y.is_of_names() {
            line(at(self.x.low, self.y.low), at(self.x.low, self.y.high)).expect(NEVER_FULL);
        }
    }

    fn mark(&self, area: &Area<'_>, plot: &Plot<'_, '_>, look: usize, mark: &Mark, layers: &mut Layers) {
        // Marks are drawn in drawing units, so that dashes and markers have the same size on every axis. They are drawn
        // on the whole panel, so that a marker at the edge of the plot is not clipped.
        let base = area.get_base_pixel();
        let at = |x, y| {
            let (x, y) = plot.backend_coord(&(self.x.at(x), self.y.at(y)));
            (x - base.0, y - base.1)
        };
        let solid = |points: Vec<(i32, i32)>| {
            area.draw(&PathElement::new(points, color(look).stroke_width(LINE))).expect(NEVER_FULL);
        };
        let dot = |place| marker(area, look, place);
        match mark {
            Mark::Curve(points) => {
                let places: Vec<_> = points.iter().map(|&(x, y)| at(x, y)).collect();
                let mut last = i32::MIN / 2;
                for &place in &places {
                    if place.0 - last >= 60 * FINE || places.len() <= 12 {
                        last = place.0;
                        dot(place);
                    }
                }
                stroke(area, places, look);
            }
            Mark::Stroke(points) => stroke(area, points.iter().map(|&(x, y)| at(x, y)).collect(), look),
            Mark::Line(points) => {
                let places: Vec<_> = points.iter().map(|&(x, y)| at(x, y)).collect();
                let style = color(look).stroke_width(LINE / 2 + 2);
                area.draw(&PathElement::new(places, style)).expect(NEVER_FULL);
            }
            Mark::Points(points) => points.iter().for_each(|&(x, y)| dot(at(x, y))),
            Mark::Outline(points) => {
                let places: Vec<_> = points.iter().map(|&(x, y)| at(x, y)).collect();
                let bottom = at(0.0, f64::MIN).1;
                let ends = places.first().zip(places.last()).map(|(first, last)| [(last.0, bottom), (first.0, bottom)]);
                let closed = [places.clone(), ends.into_iter().flatten().collect()].concat();
                area.draw(&Polygon::new(closed, color(look).mix(0.12).filled())).expect(NEVER_FULL);
                stroke(area, places, look);
            }
            Mark::Bar { name, to, words } => {
                let ((x, y), left) = (at(*to, *name), at(f64::MIN, *name).0);
                let half = 7 * FINE;
                area.draw(&Rectangle::new([(left, y - half), (x, y + half)], color(look).filled())).expect(NEVER_FULL);
                label(area, words, (x, y), &ON_A_BAR);
                let tick = self.y.ticks.iter().find(|tick| (tick.0 - self.y.at(*name)).abs() < 1e-9);
                layers.add_area(
                    (left + base.0, x + base.0),
                    (y - half + base.1, y + half + base.1),
                    &format!("{}: {words}", tick.map_or("", |tick| &tick.1)),
                );
            }
            Mark::Piece { x, y } => {
                let ((left, top), (right, bottom)) = (at(x.0, y.0), at(x.1, y.1));
                let (left, right) = (left, right.max(left + FINE));
                let corners = [(left, top.min(bottom)), (right, top.max(bottom))];
                area.draw(&Rectangle::new(corners, color(look).filled())).expect(NEVER_FULL);
            }
            Mark::Across { from, to, y } => solid(vec![at(*from, *y), at(*to, *y)]),
            Mark::Within { x, from, to } => {
                let style = color(look).stroke_width(LINE / 2);
                area.draw(&PathElement::new(vec![at(*x, *from), at(*x, *to)], style)).expect(NEVER_FULL);
            }
            Mark::Limit(x) => {
                let (top, bottom) = (at(*x, f64::MAX), at(*x, f64::MIN));
                let (top, bottom) = if self.y.is_of_names() { (bottom, top) } else { (top, bottom) };
                area.draw(&PathElement::new(vec![top, bottom], INK.stroke_width(DASHED_LINE + LIMIT_DASH)))
                    .expect(NEVER_FULL);
            }
            Mark::Words { x, y, words } => label(area, words, at(*x, *y), &INK),
            Mark::WordsBefore { x, y, words } | Mark::WordsAfter { x, y, words } => {
                let (x, y) = at(*x, *y);
                let wide = (width_of(words) + 8) * FINE;
                let (left, right) = (plot.backend_coord(&(self.x.low, self.y.low)).0 - base.0, right_end(area));
                let is_before = matches!(mark, Mark::WordsBefore { .. });
                let (place, side) = if is_before && x - wide >= left {
                    ((x - 8 * FINE, y), HPos::Right)
                } else if !is_before && x + wide <= right {
                    ((x + 8 * FINE, y), HPos::Left)
                } else {
                    // On the other side are the other markers of the row.
                    let half = width_of(words) * FINE / 2;
                    ((x.min(right - half).max(left + half), y + 11 * FINE), HPos::Center)
                };
                area.draw(&Text::new(words.clone(), place, text(&INK, side, VPos::Center))).expect(NEVER_FULL);
            }
            Mark::Rule { x, words, row, is_limit } => {
                let (mut top, bottom) = (at(*x, f64::MAX), at(*x, f64::MIN));
                // The line begins at its label, so that it does not strike through the labels in the rows above.
                top.1 += 15 * row * FINE;
                if *is_limit {
                    area.draw(&PathElement::new(vec![top, bottom], INK.stroke_width(DASHED_LINE + LIMIT_DASH)))
                        .expect(NEVER_FULL);
                } else {
                    solid(vec![top, bottom]);
                }
                label(area, words, (top.0, top.1 + 7 * FINE), &INK);
            }
            Mark::Cells(cells) => {
                let place = |x, y| plot.backend_coord(&(self.x.at(x), self.y.at(y)));
                layers.add_cells(cells.iter().map(|cell| {
                    let (one, other) = (place(cell.x.0, cell.y.0), place(cell.x.1, cell.y.1));
                    (cell.shade, (one.0.min(other.0), one.0.max(other.0)), (one.1.min(other.1), one.1.max(other.1)))
                }));
            }
            Mark::Hover { x, y, words } => {
                let place = |x, y| plot.backend_coord(&(self.x.at(x), self.y.at(y)));
                let (one, other) = (place(x.0, y.0), place(x.1, y.1));
                layers.add_area(
                    (one.0.min(other.0), one.0.max(other.0)),
                    (one.1.min(other.1), one.1.max(other.1)),
                    words,
                );
            }
        }
    }
}

/// Returns the right end of the room for labels.
fn right_end(area: &Area<'_>) -> i32 {
    let room = area.dim_in_pixel().0.saturating_sub(8 * FINE.unsigned_abs());
    i32::try_from(room).unwrap_or(i32::MAX)
}

/// Draws a label to the right of a point. If there is no room, draws it to the left, in the color `before`.
fn label(area: &Area<'_>, words: &str, (x, y): (i32, i32), before: &RGBColor) {
    let is_tight = x + (width_of(words) + 8) * FINE > right_end(area);
    let (x, side, ink) = if is_tight { (x - 8 * FINE, HPos::Right, before) } else { (x + 8 * FINE, HPos::Left, &INK) };
    area.draw(&Text::new(words.to_owned(), (x, y), text(ink, side, VPos::Center))).expect(NEVER_FULL);
}

fn color(look: usize) -> RGBColor {
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

fn text(ink: &RGBColor, side: HPos, height: VPos) -> TextStyle<'_> {
    let font = (FONT, f64::from(TEXT * FINE) * FONT_FACTOR).into_font();
    TextStyle::from(font).color(ink).pos(Pos::new(side, height))
}

/// Returns the dash of a look, or `None` for a solid line. After the last color, the colors repeat, each with the next
/// dash.
fn dash(look: usize) -> Option<usize> {
    (look + look / CURVES.len()).checked_rem(CURVES.len())?.checked_sub(1)
}

/// Draws a path with the dash of its look.
fn stroke(area: &Area<'_>, points: Vec<(i32, i32)>, look: usize) {
    let dash = dash(look).and_then(|dash| u32::try_from(dash).ok());
    let thick = dash.map_or(LINE, |dash| DASHED_LINE + dash);
    area.draw(&PathElement::new(points, color(look).stroke_width(thick))).expect(NEVER_FULL);
}

/// Adds the dashes to dashed lines, as one attribute per line. If each dash were a separate stroke, the dashes of a
/// page would take up a megabyte.
fn with_dashes(drawing: &str) -> String {
    (DASHED_LINE..).zip(DASHES).fold(drawing.to_owned(), |drawing, (thick, (dash, gap))| {
        let dashed = format!("stroke-width=\"{LINE}\" stroke-dasharray=\"{} {}\"", dash * FINE, gap * FINE);
        drawing.replace(&format!("stroke-width=\"{thick}\""), &dashed)
    })
}

/// Moves the text above all lines, so that no line strikes it through. States once what all texts have in common, because
/// the text is a large part of a page.
fn text_on_top(drawing: &str) -> String {
    let drawing = drawing.replace(" opacity=\"1\"", "").replace(" \"/>", "\"/>");
    let (mut shapes, mut texts, mut rest) = (String::new(), String::new(), drawing.as_str());
    while let Some((before, text)) = rest.split_once("<text ") {
        let (text, after) = text.split_once("</text>").unwrap_or((text, ""));
        let (attributes, words) = text.split_once('>').unwrap_or((text, ""));
        let (place, font) = attributes.split_once(" font-family=").unwrap_or((attributes, ""));
        let ink = font.split_once(" fill=").map_or("\"\"", |(_, ink)| ink);
        shapes.push_str(before);
        let _ = writeln!(texts, "<text {place} fill={ink}>{}</text>", words.trim());
        rest = after.trim_start();
    }
    shapes.push_str(rest);
    let whole = shapes.trim_end().strip_suffix("</svg>").unwrap_or(&shapes);
    format!("{whole}<g font-family=\"{FONT}\" font-size=\"{}\">\n{texts}</g>\n</svg>\n", TEXT * FINE)
}

/// Returns a color in SVG notation.
pub(crate) fn name(color: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2)
}

/// Draws the marker of a look. After the last color, the colors repeat with open markers.
fn marker(area: &Area<'_>, look: usize, (x, y): (i32, i32)) {
    let r = 4 * FINE;
    let is_open = (look / CURVES.len()) % 2 == 1;
    let at = |corners: &[(i32, i32)]| corners.iter().map(|(right, down)| (x + right, y + down)).collect::<Vec<_>>();
    let line = |corners: &[(i32, i32)]| {
        area.draw(&PathElement::new(at(corners), color(look).stroke_width(LINE))).expect(NEVER_FULL);
    };
    let shape = |corners: &[(i32, i32)]| {
        if is_open {
            line(&[corners, &corners[..1]].concat());
        } else {
            area.draw(&Polygon::new(at(corners), color(look).filled())).expect(NEVER_FULL);
        }
    };
    match (look % CURVES.len(), is_open) {
        // The circle is drawn as a polygon, as all other markers are.
        (0, _) => {
            let round: Vec<_> = (0_u32..16)
                .map(|corner| {
                    let angle = f64::from(corner) * std::f64::consts::TAU / 16.0;
                    #[expect(clippy::cast_possible_truncation, reason = "a few pixels")]
                    let part = |along: f64| (along * f64::from(r)).round() as i32;
                    (part(angle.cos()), part(angle.sin()))
                })
                .collect();
            shape(&round);
        }
        (1, _) => shape(&[(0, -r - 8), (r + 4, r - 6), (-r - 4, r - 6)]),
        (2, _) => shape(&[(-r + 6, -r + 6), (r - 6, -r + 6), (r - 6, r - 6), (-r + 6, r - 6)]),
        (3, _) => shape(&[(0, -r - 8), (r + 8, 0), (0, r + 8), (-r - 8, 0)]),
        (4, false) => {
            line(&[(-r, -r), (r, r)]);
            line(&[(-r, r), (r, -r)]);
        }
        (4, true) => shape(&[(-r, -r), (r, -r), (-r, r), (r, r)]),
        (_, is_open) => {
            line(&[(0, -r - 6), (0, r + 6)]);
            if is_open {
                line(&[(-r, -r - 6), (r, -r - 6)]);
                line(&[(-r, r + 6), (r, r + 6)]);
            } else {
                line(&[(-r - 6, 0), (r + 6, 0)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plotters::style::RGBColor;

    use super::{
        BY_NIGHT, CURVES, Chart, DASHED_LINE, DASHES, FAINT, FINE, GRID, GridCell, INK, MOST_PANELS, Mark, ON_A_BAR,
        Panel, SHADES, Series, Width, dash, name, shade, shortened, width_of,
    };
    use crate::output::chart::axis::{Axis, time};

    /// The background of drawings in light and in dark mode.
    const GROUNDS: [RGBColor; 2] = [RGBColor(0xff, 0xff, 0xff), RGBColor(0x14, 0x17, 0x1b)];

    /// Relative luminance as in WCAG 2.1.
    fn light(color: RGBColor) -> f64 {
        let part = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.03928 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * part(color.0) + 0.7152 * part(color.1) + 0.0722 * part(color.2)
    }

    fn contrast(one: RGBColor, other: RGBColor) -> f64 {
        let (one, other) = (light(one), light(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn by_night(day: RGBColor) -> RGBColor {
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
            let drawing = Chart { panels: vec![bars(to)], side_by_side: false }.draw(Width::Narrow);
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
            let drawing = chart(3 * CURVES.len()).draw(width);
            for (length, gap) in &DASHES[..5] {
                let own = format!("stroke-width=\"18\" stroke-dasharray=\"{} {}\"", length * FINE, gap * FINE);
                // In the legend and in the panel.
                assert_eq!(drawing.matches(&own).count(), 2 * 3, "{own}: {drawing}");
            }
            assert!((DASHED_LINE..).take(9).all(|thick| !drawing.contains(&format!("width=\"{thick}\""))), "{drawing}");
        }
    }

    #[test]
    fn the_height_of_a_chart_is_limited() {
        let mut many = chart(1);
        many.panels[0].y = Axis::names(vec!["a name that is too long for its row".repeat(3); 2_000]);
        many.panels = vec![many.panels[0].clone(); 30];
        many.panels.iter_mut().skip(1).for_each(|panel| panel.y.ticks.truncate(1));
        for width in [Width::Wide, Width::Narrow] {
            let drawing = many.draw(width);
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
        let drawing = broken.draw(Width::Narrow);
        assert!(!drawing.contains("NaN") && !drawing.contains("inf") && drawing.contains("&lt;&amp;&gt;"), "{drawing}");
    }

    #[test]
    fn text_is_above_all_lines_and_names_its_font_once() {
        let mut crossed = chart(1);
        let mark = Mark::Rule { x: 1e4, words: "p50 10 µs".to_owned(), row: 0, is_limit: false };
        crossed.panels[0].series[0].marks.insert(0, mark);
        let drawing = crossed.draw(Width::Wide);
        let last_line = drawing.rfind("<poly").expect("there are lines");
        assert!(drawing.find("<text").is_some_and(|first| first > last_line), "{drawing}");
        assert_eq!((drawing.matches("font-family").count(), drawing.matches(" opacity=\"1\"").count()), (1, 0));
        assert!(drawing.ends_with("</g>\n</svg>") || drawing.ends_with("</g></svg>"), "{drawing}");
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
            let drawing = Chart { panels: vec![panel], side_by_side: false }.draw(Width::Narrow);
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
            let drawing = long.draw(width);
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
        let drawing = map.draw(Width::Wide);
        assert_eq!(drawing.matches("<path fill=").count(), 2, "one path for each shade: {drawing}");
        let path = drawing.split_once(" d=\"").and_then(|(_, rest)| rest.split_once('"')).expect("a path").0;
        assert_eq!(path.matches('M').count(), 2, "neighboring cells are one: {path}");
        assert!(drawing.contains("<title>&lt;1 &amp; 2&gt;</title>"), "{drawing}");
        assert!(drawing.ends_with("</g></svg>"), "{drawing}");
        assert!(!map.draw(Width::Narrow).contains("<title>"));
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
