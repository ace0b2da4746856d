//! Pictures of the results, in SVG format.

use std::{error::Error, path::Path};

use plotters::prelude::*;

use crate::{line::Line, load::Step};

/// The name, the color and the filter of each kind of setting.
const KINDS: [(&str, &str, RGBColor); 4] = [
    ("clock_nanosleep", "nanosleep", RGBColor(0x6e, 0x77, 0x81)),
    ("spin_sleep with a fixed margin", "spin_sleep", RGBColor(0xb3, 0x5c, 0x00)),
    ("hpt, target", "hpt ", RGBColor(0x1f, 0x6f, 0xb2)),
    ("hpt, default", "hpt default", RGBColor(0xb4, 0x23, 0x5a)),
];
const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
const GRID: RGBColor = RGBColor(0xdd, 0xe1, 0xe6);
const SIZE: (u32, u32) = (760, 420);
/// The start of the scale of times. There is room for the legend below the shortest overshoots.
const LOWEST_US: f64 = 0.003;

/// Returns the color of a setting.
fn kind(name: &str) -> usize {
    (0..KINDS.len()).rev().find(|&at| name.starts_with(KINDS[at].1)).unwrap_or(0)
}

/// Draws the overshoot of each setting against its CPU time.
pub(crate) fn of_settings(lines: &[Line], length_us: u64, file: &Path) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let points: Vec<(usize, (f64, f64), &str)> = lines
        .iter()
        .map(|line| (kind(&line.name), (line.cpu_share * 100.0, us(line.trimmed_mean_ns)), line.name.as_str()))
        .collect();
    let bounds = |value: fn(&(f64, f64)) -> f64| {
        let values = points.iter().map(|(_, point, _)| value(point).max(1e-3));
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(one), high.max(one)));
        0.8 * low..1.25 * high
    };
    let mut chart = ChartBuilder::on(&root)
        .caption(
            format!("Sleeps of {length_us} µs: overshoot against CPU time"),
            ("sans-serif", 16).into_font().color(&INK),
        )
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(bounds(|point| point.0).log_scale(), bounds(|point| point.1).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc("CPU time, percent of a CPU (log scale)")
        .y_desc("mean overshoot without the largest 1 %, µs (log scale)")
        .label_style(("sans-serif", 12).into_font().color(&INK))
        .draw()?;
    for (at, (label, _, color)) in KINDS.into_iter().enumerate() {
        let own = points.iter().filter(|(kind, ..)| *kind == at).map(|(_, point, _)| *point);
        let size = if label.ends_with("default") { 6 } else { 4 };
        chart
            .draw_series(own.map(|point| Circle::new(point, size, color.filled())))?
            .label(label)
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
    }
    let named = points.iter().filter(|(kind, ..)| *kind == 1 || *kind == 3);
    chart.draw_series(named.map(|(_, point, name)| {
        let label = name.trim_start_matches("spin_sleep ").trim_start_matches("hpt ").to_owned();
        EmptyElement::at(*point) + Text::new(label, (7, -12), ("sans-serif", 12).into_font().color(&INK))
    }))?;
    legend(&mut chart, SeriesLabelPosition::UpperRight)?;
    Ok(root.present()?)
}

/// Draws the margin and the overshoot over time.
pub(crate) fn of_load(steps: &[Step], length_us: u64, file: &Path) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let end = steps.last().map_or(1.0, |step| step.at_s);
    let most = steps.iter().flat_map(|step| [step.margin_ns, step.p90_ns]).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(&root)
        .caption(
            format!("Sleeps of {length_us} µs while a load starts and stops"),
            ("sans-serif", 16).into_font().color(&INK),
        )
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, (LOWEST_US..us(most) * 3.0).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc("time, s")
        .y_desc("µs (log scale)")
        .label_style(("sans-serif", 12).into_font().color(&INK))
        .draw()?;
    for phase in steps.chunk_by(|one, other| one.phase == other.phase) {
        let begin = phase[0].at_s;
        let rule = [(begin, LOWEST_US), (begin, us(most) * 3.0)];
        chart.draw_series([PathElement::new(rule, INK.stroke_width(1))])?;
        let name = EmptyElement::at((begin, us(most) * 2.6))
            + Text::new(phase[0].phase, (4, 0), ("sans-serif", 12).into_font().color(&INK));
        chart.draw_series([name])?;
    }
    let margins = steps.iter().map(|step| step.margin_ns).collect::<Vec<_>>();
    let medians = steps.iter().map(|step| step.p50_ns).collect();
    let high = steps.iter().map(|step| step.p90_ns).collect();
    let curves = [
        ("margin", KINDS[2].2, margins),
        ("p50 of the overshoot", KINDS[0].2, medians),
        ("p90 of the overshoot", KINDS[3].2, high),
    ];
    for (label, color, values) in curves {
        let points = steps.iter().zip(values).map(|(step, ns)| (step.at_s, us(ns).max(LOWEST_US)));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    legend(&mut chart, SeriesLabelPosition::LowerLeft)?;
    Ok(root.present()?)
}

fn legend<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    position: SeriesLabelPosition,
) -> Result<(), Box<dyn Error>>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.8))
        .border_style(GRID)
        .label_font(("sans-serif", 12).into_font().color(&INK))
        .draw()?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "for drawing")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
