//! A line in two axes, as SVG that a page can hold.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// What lies between two ends, with labels at some places.
pub struct ChartAxis {
    pub title: String,
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<(f64, String)>,
}

impl ChartAxis {
    /// From 0 to `high` or a little more, with about so many even steps.
    pub fn even(title: &str, high: f64, steps: f64) -> ChartAxis {
        let step = even_step(high / steps);
        let count = (high / step - 1e-9).ceil().max(1.0) as u32;
        let ticks: Vec<(f64, String)> =
            (0..=count).map(|tick| f64::from(tick) * step).map(|value| (value, short(value))).collect();
        ChartAxis { title: title.to_owned(), low: 0.0, high: f64::from(count) * step, ticks }
    }

    /// Where `value` is between `from` and `to`.
    fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        from + (value - self.low) / (self.high - self.low).max(f64::MIN_POSITIVE) * (to - from)
    }
}

/// The least of 1, 2, 5, 10 ... times a power of ten that is not below `least`.
fn even_step(least: f64) -> f64 {
    let least = least.max(1e-9);
    let power = 10f64.powf(least.log10().floor());
    let fits =
        [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0 * power)
}

/// `value` with a unit of thousands.
pub fn short(value: f64) -> String {
    let (divided, unit) = match value {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{divided:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The line through `points`, called `title` for those who do not see it.
pub fn line(title: &str, x: &ChartAxis, y: &ChartAxis, points: &[(f64, f64)]) -> String {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{title}</title>");
    let mut add = |text: String| svg.write_str(&text).expect("memory takes all");
    for (value, label) in &y.ticks {
        let at = y.place(*value, bottom, TOP);
        add(format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"));
        add(format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 6.0, at + 4.0));
    }
    for (value, label) in &x.ticks {
        let at = x.place(*value, LEFT, right);
        add(format!("<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"));
        add(format!("<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", bottom + 18.0));
    }
    let (middle, below) = ((LEFT + right) / 2.0, bottom + 36.0);
    add(format!("<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{}</text>", x.title));
    let place = |(across, up): &(f64, f64)| {
        format!("{:.1},{:.1}", x.place(*across, LEFT, right), y.place(*up, bottom, TOP))
    };
    let places: Vec<String> = points.iter().map(place).collect();
    add(format!("<polyline points=\"{}\"/></svg>", places.join(" ")));
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_even_steps_that_hold_the_highest() {
        let labels = |high, steps| {
            let axis = ChartAxis::even("", high, steps);
            assert!(axis.high >= high && axis.high <= 2.0 * high, "{high}");
            axis.ticks.into_iter().map(|(_, label)| label).collect::<Vec<String>>()
        };
        assert_eq!(labels(123_456.0, 4.0), ["0", "50k", "100k", "150k"]);
        assert_eq!(labels(5.0, 5.0), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(0.3, 3.0), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(2_500_000.0, 4.0), ["0", "1M", "2M", "3M"]);
        assert_eq!(ChartAxis::even("", 0.0, 4.0).ticks[0].1, "0");
    }

    #[test]
    fn points_lie_between_the_axes() {
        let axis = |high| ChartAxis::even("", high, 2.0);
        let svg = line("t", &axis(10.0), &axis(100.0), &[(0.0, 0.0), (10.0, 100.0)]);
        assert!(svg.contains("<polyline points=\"64.0,216.0 696.0,12.0\"/>"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.contains("<title>t</title>") && svg.ends_with("</svg>"));
    }
}
