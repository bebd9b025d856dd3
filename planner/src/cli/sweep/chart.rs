//! The curve as a drawing: latency over the budget, a line for each strategy with its name at the end. `joint` and the bound are in
//! front, the others muted. It follows the page's width and the reader's choice of light or dark.

use super::{Point, Sweep};
use crate::cli::output::plural;
use eyelet_planner::size;
use plotters::coord::Shift;
use plotters::coord::combinators::{LogCoord, WithKeyPoints};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// Pixels.
const SIZE: (u32, u32) = (960, 560);

/// The strategy in front, as blue as Okabe and Ito have it, which people who see fewer colours can tell from grey.
const FRONT: RGBColor = RGBColor(0, 114, 178);
const MUTED: RGBColor = RGBColor(165, 165, 165);
const INK: RGBColor = RGBColor(38, 38, 38);
const GREY: RGBColor = RGBColor(90, 90, 90);
const GRID: RGBColor = RGBColor(225, 225, 225);
/// What the colours become on a dark page.
const DARK: [(&str, &str); 6] = [
    ("#FFFFFF", "#16181C"),
    ("#262626", "#E6E6E6"),
    ("#5A5A5A", "#A8A8A8"),
    ("#E1E1E1", "#33373D"),
    ("#A5A5A5", "#6E7278"),
    ("#0072B2", "#56B4E9"),
];
/// Pixels between two lines of text.
const LINE: i32 = 15;
/// Pixels of width for the names of lines.
const LABELS: i32 = 190;
const FONT: &str = "Helvetica, Arial, sans-serif";

/// The strategy that is drawn in front, and what the bound is called.
const JOINT: &str = "joint";
const BOUND: &str = "bound by costs";

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
        // Each strategy that lacks some plans has a row of its own.
        let lacking = sweep.points.chunks(sweep.budgets.len());
        let lacking = lacking.filter(|points| points.iter().any(|point| !point.feasible)).count();
        let size = (SIZE.0, SIZE.1 + LINE as u32 * lacking as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        draw_on(sweep, &root)?;
        root.present()?;
    }
    Ok(adaptive(&svg))
}

/// A drawing that shrinks with its page and has colours for a dark one.
fn adaptive(svg: &str) -> String {
    let colours = DARK.map(|(light, dark)| {
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    });
    let style =
        format!("<style>@media (prefers-color-scheme: dark){{{}}}</style>", colours.concat());
    let shrinking = svg.replacen("<svg ", "<svg style=\"max-width:100%;height:auto\" ", 1);
    match shrinking.find('>') {
        Some(end) => format!("{}{style}{}", &shrinking[..=end], &shrinking[end + 1..]),
        None => shrinking,
    }
}

/// The sheet that is drawn on.
type Sheet<DB> = DrawingArea<DB, Shift>;
/// The part of it that has axes.
type Chart<'a, DB> =
    ChartContext<'a, DB, Cartesian2d<WithKeyPoints<LogCoord<f64>>, RangedCoordf64>>;
/// A strategy and its points.
type Series<'a> = (&'a str, &'a [Point]);
/// Where a line ends, in pixels, its name and its colour.
type End<'a> = ((i32, i32), &'a str, RGBColor);

/// What is drawn, and where.
struct Picture<'a> {
    sweep: &'a Sweep,
    /// A line for each strategy.
    series: Vec<Series<'a>>,
    /// The strategy that is drawn in front.
    front: Option<&'a str>,
    /// Width and height in pixels.
    size: (i32, i32),
}

fn draw_on<DB: DrawingBackend>(sweep: &Sweep, root: &Sheet<DB>) -> Drawn<()>
where
    DB::ErrorType: 'static,
{
    let points = sweep.points.chunks(sweep.budgets.len());
    let front = sweep.strategies.iter().find(|name| **name == JOINT).or(sweep.strategies.first());
    let picture = Picture {
        sweep,
        series: sweep.strategies.iter().copied().zip(points).collect(),
        front: front.copied(),
        size: (SIZE.0 as i32, root.dim_in_pixel().1 as i32),
    };
    picture.titles(root)?;
    let mut chart = picture.axes(root)?;
    let ends = picture.lines(&mut chart)?;
    picture.names(root, ends)?;
    picture.missing(root, &chart)
}

fn latency(point: &Point) -> Option<f64> {
    point.planned.as_ref().map(|plan| plan.predicted_ms)
}

fn small() -> TextStyle<'static> {
    TextStyle::from((FONT, 13).into_font()).color(&GREY)
}

impl<'a> Picture<'a> {
    fn is_front(&self, name: &str) -> bool {
        self.front == Some(name)
    }

    /// The strategies that lack plans.
    fn lacking(&self) -> impl Iterator<Item = &Series<'a>> {
        self.series.iter().filter(|(_, points)| points.iter().any(|point| !point.feasible))
    }

    /// Pixels of height of the strip under the axis. It shows the budgets without a plan, a row for each strategy.
    fn strip(&self) -> i32 {
        match self.lacking().count() as i32 {
            0 => 0,
            rows => LINE * rows + LINE + 10,
        }
    }

    /// Where names of lines begin.
    fn left(&self) -> i32 {
        self.size.0 - LABELS + 24
    }

    fn titles<DB: DrawingBackend>(&self, root: &Sheet<DB>) -> Drawn<()>
    where
        DB::ErrorType: 'static,
    {
        let sweep = self.sweep;
        let title = format!("{}: predicted latency of an inference", sweep.network);
        let style = TextStyle::from((FONT, 18).into_font()).color(&INK);
        root.draw(&Text::new(title, (24, 18), style))?;
        let of = if sweep.estimated { "estimated costs" } else { "measured costs" };
        let plural = plural(sweep.threads);
        let weights = size::human(sweep.weights_bytes);
        let subtitle = format!(
            "{weights} of weights; {}, {} thread{plural}, {of}",
            sweep.board, sweep.threads
        );
        root.draw(&Text::new(subtitle, (24, 42), small()))?;
        Ok(())
    }

    fn axes<'r, DB: DrawingBackend>(&self, root: &'r Sheet<DB>) -> Drawn<Chart<'r, DB>>
    where
        DB::ErrorType: 'static,
    {
        let sweep = self.sweep;
        let bounds = sweep.budgets.iter().map(|budget| budget.lower_bound_ms);
        let most = sweep.points.iter().filter_map(latency).chain(bounds).fold(1e-3, f64::max);
        let step = nice_step(most);
        let top = (most / step).ceil() * step;
        let budget = |index: usize| sweep.budgets[index].budget_bytes as f64;
        let (low, high) = (budget(0), budget(sweep.budgets.len() - 1));
        let across = (low..high).log_scale().with_key_points(ticks(low, high));
        let mut chart = ChartBuilder::on(root)
            .margin_top(72)
            .margin_left(12)
            .margin_right(LABELS)
            .margin_bottom(12 + self.strip())
            .x_label_area_size(46)
            .y_label_area_size(58)
            .build_cartesian_2d(across, 0f64..top)?;
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
        Ok(chart)
    }

    /// The lines, and where each ends. What is drawn last is in front.
    fn lines<DB: DrawingBackend>(&self, chart: &mut Chart<'_, DB>) -> Drawn<Vec<End<'a>>>
    where
        DB::ErrorType: 'static,
    {
        let mut ends = Vec::new();
        let (front, muted): (Vec<&Series<'a>>, Vec<&Series<'a>>) =
            self.series.iter().partition(|(name, _)| self.is_front(name));
        for (name, points) in muted.into_iter().chain(front) {
            let (colour, width) = if self.is_front(name) { (FRONT, 3) } else { (MUTED, 1) };
            let points = points.iter().filter_map(|p| Some((p.budget_bytes as f64, latency(p)?)));
            let points: Vec<(f64, f64)> = points.collect();
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(width)))?;
            let dots = points.iter().map(|at| Circle::new(*at, width + 1, colour.filled()));
            chart.draw_series(dots)?;
            if let Some(last) = points.last() {
                ends.push((chart.backend_coord(last), *name, colour));
            }
        }
        let bounds = self.sweep.budgets.iter().map(|b| (b.budget_bytes as f64, b.lower_bound_ms));
        let bounds: Vec<(f64, f64)> = bounds.collect();
        chart.draw_series(DashedLineSeries::new(bounds.clone(), 6, 4, INK.stroke_width(2)))?;
        if let Some(last) = bounds.last() {
            ends.push((chart.backend_coord(last), BOUND, INK));
        }
        Ok(ends)
    }

    /// Names stand at the ends of the lines, one under the other where lines meet.
    fn names<DB: DrawingBackend>(&self, root: &Sheet<DB>, mut ends: Vec<End<'_>>) -> Drawn<()>
    where
        DB::ErrorType: 'static,
    {
        let left = self.left();
        ends.sort_by_key(|((_, y), ..)| *y);
        let wanted: Vec<i32> = ends.iter().map(|((_, y), ..)| *y).collect();
        let bottom = self.size.1 - self.strip() - 62;
        for (((x, y), name, colour), at) in ends.iter().zip(apart(&wanted, bottom)) {
            root.draw(&PathElement::new([(*x + 5, *y), (left - 4, at)], colour.stroke_width(1)))?;
            let ink = if *colour == MUTED { GREY } else { *colour };
            root.draw(&Text::new(*name, (left, at - 6), small().color(&ink)))?;
        }
        Ok(())
    }

    /// The strip of budgets without a plan.
    fn missing<DB: DrawingBackend>(&self, root: &Sheet<DB>, chart: &Chart<'_, DB>) -> Drawn<()>
    where
        DB::ErrorType: 'static,
    {
        let (left, top) = (self.left(), self.size.1 - self.strip());
        for (row, (name, points)) in (0..).zip(self.lacking()) {
            let y = top + LINE * row + 8;
            let colour = if self.is_front(name) { FRONT } else { GREY };
            for point in points.iter().filter(|point| !point.feasible) {
                let (x, _) = chart.backend_coord(&(point.budget_bytes as f64, 0.0));
                root.draw(&Cross::new((x, y), 4, colour.stroke_width(2)))?;
            }
            root.draw(&Text::new(*name, (left, y - 6), small().color(&colour)))?;
        }
        let rows = self.lacking().count() as i32;
        if rows > 0 {
            let text = "× no plan: too little memory for the strategy";
            root.draw(&Text::new(text, (70, top + LINE * rows + 4), small()))?;
        }
        Ok(())
    }
}

/// Heights near the wanted ones, which rise, with room for a line of text between them and above the bottom.
fn apart(wanted: &[i32], bottom: i32) -> Vec<i32> {
    let mut at: Vec<i32> = Vec::new();
    for y in wanted {
        let after = at.last().map_or(*y, |last| last + LINE);
        at.push((*y).max(after));
    }
    let mut most = bottom;
    for y in at.iter_mut().rev() {
        *y = (*y).min(most);
        most = *y - LINE;
    }
    at
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
    fn names_stand_apart_and_above_the_bottom() {
        assert_eq!(apart(&[10, 100, 200], 500), [10, 100, 200]);
        assert_eq!(apart(&[10, 10, 12, 200], 500), [10, 10 + LINE, 10 + 2 * LINE, 200]);
        assert_eq!(apart(&[480, 490, 499], 500), [500 - 2 * LINE, 500 - LINE, 500]);
    }

    #[test]
    fn a_drawing_adapts_to_its_page() {
        let svg = adaptive("<svg width=\"960\" height=\"560\"><rect fill=\"#FFFFFF\"/></svg>");
        assert!(
            svg.starts_with("<svg style=\"max-width:100%;height:auto\" width=\"960\""),
            "{svg}"
        );
        assert!(svg.contains("><style>@media (prefers-color-scheme: dark)"), "{svg}");
        assert!(svg.ends_with("</style><rect fill=\"#FFFFFF\"/></svg>"), "{svg}");
    }

    #[test]
    fn ticks_are_powers_of_two_inside() {
        assert_eq!(ticks(3.0, 70.0), [4.0, 8.0, 16.0, 32.0, 64.0]);
        assert!(ticks(4096.0, f64::from(1 << 30)).len() <= 10);
    }
}
