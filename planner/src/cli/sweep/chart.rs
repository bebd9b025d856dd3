//! The curve as a drawing: latency over the budget, a line for each strategy, the bound beneath them.

use super::Sweep;
use eyelet_planner::size;
use plotters::prelude::*;

/// Pixels.
const SIZE: (u32, u32) = (960, 560);

/// Okabe and Ito's colours, which people who see fewer can tell apart, without the yellow that paper
/// swallows.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(120, 94, 240),
];
const INK: RGBColor = RGBColor(38, 38, 38);
const GREY: RGBColor = RGBColor(90, 90, 90);
const GRID: RGBColor = RGBColor(225, 225, 225);
const FONT: &str = "Helvetica, Arial, sans-serif";

type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// A step of 1, 2 or 5 times a power of ten that divides `most` into few parts.
fn nice_step(most: f64) -> f64 {
    let rough = most / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

pub fn draw(sweep: &Sweep) -> Drawn<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        draw_on(sweep, &root)?;
        root.present()?;
    }
    Ok(svg)
}

fn draw_on<DB: DrawingBackend>(
    sweep: &Sweep,
    root: &DrawingArea<DB, plotters::coord::Shift>,
) -> Drawn<()>
where
    DB::ErrorType: 'static,
{
    let latency = |point: &super::Point| point.planned.as_ref().map(|plan| plan.predicted_ms);
    let bounds = sweep.budgets.iter().map(|budget| budget.lower_bound_ms);
    let most = sweep.points.iter().filter_map(latency).chain(bounds).fold(1e-3, f64::max);
    let step = nice_step(most);
    let top = (most / step).ceil() * step;
    let budget = |index: usize| sweep.budgets[index].budget_bytes as f64;
    let (low, high) = (budget(0), budget(sweep.budgets.len() - 1));

    // A strip under the axis shows, a row for each strategy, the budgets that have no plan.
    let rows = sweep.strategies.len();
    let lacking = sweep.points.iter().any(|point| !point.feasible);
    let strip = if lacking { 14 * rows as i32 + 10 } else { 0 };
    let legend = 190;
    let title = format!("{}: predicted latency of an inference", sweep.network);
    let style = TextStyle::from((FONT, 18).into_font()).color(&INK);
    root.draw(&Text::new(title, (24, 18), style))?;
    let of = if sweep.estimated { "estimated costs" } else { "measured costs" };
    let plural = if sweep.threads == 1 { "" } else { "s" };
    let weights = size::human(sweep.weights_bytes);
    let subtitle =
        format!("{weights} of weights; {}, {} thread{plural}, {of}", sweep.board, sweep.threads);
    let small = TextStyle::from((FONT, 13).into_font()).color(&GREY);
    root.draw(&Text::new(subtitle, (24, 42), small.clone()))?;

    let mut chart = ChartBuilder::on(root)
        .margin_top(72)
        .margin_left(12)
        .margin_right(legend)
        .margin_bottom(12 + strip)
        .x_label_area_size(46)
        .y_label_area_size(58)
        .build_cartesian_2d((low..high).log_scale().with_key_points(ticks(low, high)), 0f64..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK.mix(0.5))
        .y_labels((top / step) as usize + 1)
        .x_desc("budget")
        .y_desc("latency (ms)")
        .label_style(TextStyle::from((FONT, 13).into_font()).color(&INK))
        .x_label_formatter(&|bytes| size::human(*bytes as u64))
        .y_label_formatter(&|ms| format!("{}", (ms * 1e6).round() / 1e6))
        .draw()?;

    let line = sweep.budgets.iter().map(|b| (b.budget_bytes as f64, b.lower_bound_ms));
    chart.draw_series(DashedLineSeries::new(line, 6, 4, INK.stroke_width(2)))?;
    for (number, points) in sweep.points.chunks(sweep.budgets.len()).enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let there = points.iter().filter_map(|p| Some((p.budget_bytes as f64, latency(p)?)));
        chart.draw_series(LineSeries::new(there.clone(), colour.stroke_width(2)))?;
        chart.draw_series(there.map(|at| Circle::new(at, 3, colour.filled())))?;
    }

    // Beside the lines there is no room that is always free: the legend stands to the right of the plot.
    let left = SIZE.0 as i32 - legend + 14;
    let entry = |row: i32| 84 + 22 * row;
    for (number, name) in sweep.strategies.iter().enumerate() {
        let (colour, y) = (COLOURS[number % COLOURS.len()], entry(number as i32));
        let ends = vec![(left, y), (left + 22, y)];
        root.draw(&PathElement::new(ends, colour.stroke_width(2)))?;
        root.draw(&Circle::new((left + 11, y), 3, colour.filled()))?;
        root.draw(&Text::new(*name, (left + 30, y - 4), small.clone().color(&INK)))?;
    }
    let y = entry(rows as i32);
    for dash in 0..3 {
        let ends = vec![(left + 8 * dash, y), (left + 8 * dash + 5, y)];
        root.draw(&PathElement::new(ends, INK.stroke_width(2)))?;
    }
    root.draw(&Text::new("lower bound", (left + 30, y - 4), small.clone().color(&INK)))?;

    if lacking {
        let height = SIZE.1 as i32 - strip - 4;
        for (number, points) in sweep.points.chunks(sweep.budgets.len()).enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            for point in points.iter().filter(|point| !point.feasible) {
                let (x, _) = chart.backend_coord(&(point.budget_bytes as f64, 0.0));
                let at = (x, height + 14 * number as i32 + 8);
                root.draw(&Cross::new(at, 4, colour.stroke_width(2)))?;
            }
        }
        let at = (left, height + 7 * rows as i32);
        root.draw(&Text::new("× no plan: too little", at, small))?;
    }
    Ok(())
}

/// Powers of two from `low` to `high`, few enough to be read.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
    let every = ((last - first) / 9 + 1).max(1);
    (first..=last).step_by(every as usize).map(|power| f64::from(power).exp2()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (most, step) in [(1.0, 0.2), (90.0, 20.0), (7.0, 2.0), (612.0, 200.0), (0.03, 0.005)] {
            assert!((nice_step(most) / step - 1.0).abs() < 1e-9, "{most}: {}", nice_step(most));
        }
    }

    #[test]
    fn ticks_are_powers_of_two_inside() {
        assert_eq!(ticks(3.0, 70.0), [4.0, 8.0, 16.0, 32.0, 64.0]);
        assert!(ticks(4096.0, f64::from(1 << 30)).len() <= 10);
    }
}
