//! Plots as inline SVG, written by hand: pure functions from numbers to text, coloured by the
//! page's style sheet, each with a title and a description for who cannot see it.

mod bars;
mod cases;
mod cost;
mod flow;
mod kinds;
mod loss;
mod reliability;
mod rounds;

pub use bars::bars;
pub use cases::cases;
pub use cost::scatter;
pub use flow::flow;
pub use kinds::kinds;
pub use loss::{loss, loss_summary};
pub use reliability::reliability;
pub use rounds::rounds;

use std::fmt::Write;

/// Width of every plot, in units that are pixels on a wide screen; a phone shows 0.9 of it.
const WIDTH: f64 = 400.0;

/// Height of a label's line.
const LINE: f64 = 14.0;

/// Text that HTML and SVG take literally, in content and in attributes.
pub fn escape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // Not allowed in HTML at all, escaped or not.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Wraps a drawing; `id` must be unique on the page.
fn figure(id: &str, height: f64, title: &str, description: &str, drawing: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\"><title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>{drawing}</svg>",
        short(height),
        escape(title),
        escape(description)
    )
}

/// A coordinate with one decimal: finer is not seen.
fn short(value: f64) -> String {
    let written = format!("{value:.1}");
    written.strip_suffix(".0").map_or(written.clone(), str::to_string)
}

/// A line of text; `anchor` is `start`, `middle` or `end`.
fn label(out: &mut String, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
    let (x, y, text) = (short(x), short(y), escape(text));
    let _ = write!(out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// A straight stroke.
fn stroke(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(short);
    let _ = write!(out, "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>");
}

/// A path through points.
fn path(out: &mut String, class: &str, points: &[(f64, f64)]) {
    let steps: Vec<String> = points.iter().map(|point| format!("{} {}", short(point.0), short(point.1))).collect();
    if !steps.is_empty() {
        let _ = write!(out, "<path class=\"{class}\" d=\"M{}\"/>", steps.join("L"));
    }
}

/// A rectangle: left, top, width, height.
fn block(out: &mut String, class: &str, [left, top, width, height]: [f64; 4]) {
    let [x, y, wide, high] = [left, top, width, height].map(short);
    let _ = write!(out, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\"/>");
}

/// A dot.
fn dot(out: &mut String, class: &str, at: (f64, f64), radius: f64) {
    let (x, y, r) = (short(at.0), short(at.1), short(radius));
    let _ = write!(out, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{r}\"/>");
}

/// How wide a text is at the plots' size of 12, roughly: 6.4 a letter, twice that for wide ones.
fn text_width(text: &str) -> f64 {
    text.chars().map(|c| if c < '\u{2e80}' { 6.4 } else { 12.4 }).sum()
}

/// The text, cut with an ellipsis to fit.
fn fitted(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_string();
    }
    let mut out = String::new();
    for c in text.chars() {
        if text_width(&out) + text_width(&c.to_string()) + 6.4 > width {
            break;
        }
        out.push(c);
    }
    out + "…"
}

/// Maps numbers to places: linear from `from` to `to`.
#[derive(Clone, Copy)]
struct Scale {
    from: (f64, f64),
    to: (f64, f64),
}

impl Scale {
    /// A domain without extent is widened, so that the place stays finite.
    fn new(from: (f64, f64), to: (f64, f64)) -> Scale {
        let from = if from.1 > from.0 { from } else { (from.0 - 0.5, from.0 + 0.5) };
        Scale { from, to }
    }

    fn at(&self, value: f64) -> f64 {
        self.to.0 + (value - self.from.0) / (self.from.1 - self.from.0) * (self.to.1 - self.to.0)
    }
}

/// Round numbers inside a range, about `wanted` of them: steps of 1, 2 or 5 times a power of ten.
fn ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = (high - low) / wanted.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return vec![low];
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|one| one * power)
        .into_iter()
        .find(|&step| step >= rough * 0.999)
        .unwrap_or(power * 10.0);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).take(50).map(|at| at as f64 * step).collect()
}

/// A tick's number, with the decimals that its step needs.
fn tick_text(value: f64, step: f64) -> String {
    let decimals = if step >= 1.0 { 0 } else { (-step.log10()).ceil().clamp(0.0, 6.0) as usize };
    if value.abs() >= 1000.0 { super::number::amount(value) } else { crate::eval::table::plain(value, decimals) }
}

/// Horizontal grid lines with their numbers.
fn rows(out: &mut String, ticks: &[f64], scale: Scale, left: f64, right: f64) {
    let step = ticks.windows(2).map(|pair| pair[1] - pair[0]).next().unwrap_or(1.0);
    for &tick in ticks {
        let y = scale.at(tick);
        stroke(out, "grid", (left, y), (right, y));
        label(out, left - 7.0, y + 4.0, "end", "tick", &tick_text(tick, step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(61.2, 74.9, 4), [65.0, 70.0]);
        assert_eq!(ticks(3.0, 3.0, 4), [3.0]);
    }

    #[test]
    fn tick_numbers_carry_the_decimals_of_their_step() {
        assert_eq!(
            [tick_text(0.2, 0.2), tick_text(0.25, 0.05), tick_text(12_000.0, 2000.0)],
            ["0.2", "0.25", "12\u{202f}000"]
        );
    }

    #[test]
    fn markup_in_a_name_stays_text() {
        assert_eq!(escape("<b>\"&'\u{0}"), "&lt;b&gt;&quot;&amp;&#39;\u{fffd}");
    }

    #[test]
    fn long_names_are_cut_to_fit() {
        let cut = fitted("an_organisation_of_some_kind", 80.0);
        assert!(cut.ends_with('…') && text_width(&cut) <= 80.0, "{cut}");
        assert_eq!(fitted("PER", 80.0), "PER");
    }
}
