//! Errors by kind, one bar for every system and stage of a debate.

use super::{Scale, WIDTH, figure, fitted, label, short, stroke, text_width, tick_text, ticks};
use crate::eval::analysis::{Analysis, SystemErrors};
use crate::report::number::count;
use std::fmt::Write;

/// More systems and stages than this stand in the table only.
const BARS: usize = 16;

const NAMES: f64 = 146.0;
const RIGHT: f64 = WIDTH - 36.0;
const TOP: f64 = 46.0;
const BAR: f64 = 16.0;
const ROW: f64 = 28.0;

/// The classes of the style sheet, in the order of the bar.
const KINDS: [(&str, &str); 4] =
    [("wrong-type", "Wrong type"), ("boundary", "Boundary"), ("missing", "Missing"), ("spurious", "Spurious")];

fn numbers(one: &SystemErrors) -> [u64; 4] {
    [one.errors.wrong_type, one.errors.boundary, one.errors.missing, one.errors.spurious]
}

/// A name that fits; of a stage of a long-named team, the stage.
fn stage(name: &str) -> String {
    match name.split_once(": ") {
        Some((_, stage)) if text_width(name) > NAMES - 12.0 => fitted(&format!("… {stage}"), NAMES - 12.0),
        _ => fitted(name, NAMES - 12.0),
    }
}

/// The bars; `None` without an error anywhere.
pub fn kinds(analysis: &Analysis) -> Option<String> {
    let shown = &analysis.systems[..analysis.systems.len().min(BARS)];
    let most = shown.iter().map(|one| one.errors.total()).max().filter(|&most| most > 0)?;
    let x = Scale::new((0.0, most as f64), (NAMES, RIGHT));
    let bottom = TOP + ROW * shown.len() as f64;
    let mut out = String::new();
    for (at, (class, name)) in KINDS.iter().enumerate() {
        // Two rows of two, so that a phone can read them.
        let (left, top) = (NAMES + 104.0 * (at % 2) as f64, 6.0 + 17.0 * (at / 2) as f64);
        let (left_text, top_text) = (short(left), short(top));
        let _ = write!(
            out,
            "<rect class=\"fill-{class}\" x=\"{left_text}\" y=\"{top_text}\" width=\"10\" height=\"10\" rx=\"2\"/>"
        );
        label(&mut out, left + 16.0, top + 9.5, "start", "name", name);
    }
    let marks = ticks(0.0, most as f64, 4);
    let step = marks.windows(2).map(|pair| pair[1] - pair[0]).next().unwrap_or(1.0);
    for &tick in &marks {
        stroke(&mut out, if tick == 0.0 { "axis" } else { "grid" }, (x.at(tick), TOP - 4.0), (x.at(tick), bottom));
        label(&mut out, x.at(tick), bottom + 16.0, "middle", "tick", &tick_text(tick, step));
    }
    for (at, one) in shown.iter().enumerate() {
        let top = TOP + ROW * at as f64 + 4.0;
        label(&mut out, NAMES - 10.0, top + 12.0, "end", "name", &stage(&one.name));
        let mut left = 0.0;
        for ((class, _), number) in KINDS.iter().zip(numbers(one)) {
            let width = x.at(left + number as f64) - x.at(left);
            if number > 0 {
                let [from, wide, top] = [x.at(left), width, top].map(short);
                let _ = write!(
                    out,
                    "<rect class=\"fill-{class}\" x=\"{from}\" y=\"{top}\" width=\"{wide}\" height=\"{BAR}\"/>"
                );
            }
            left += number as f64;
        }
        label(&mut out, x.at(left) + 6.0, top + 12.0, "start", "value", &count(one.errors.total()));
    }
    let said = shown.iter().map(|one| {
        let kinds =
            KINDS.iter().zip(numbers(one)).map(|((_, name), number)| format!("{} {number}", name.to_lowercase()));
        format!("{}: {}", one.name, kinds.collect::<Vec<_>>().join(", "))
    });
    let description = format!("{}.", said.collect::<Vec<_>>().join("; "));
    Some(figure("plot-errors", bottom + 24.0, "Entity errors by kind", &description, &out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::errors::Errors;

    fn one(name: &str, missing: u64) -> SystemErrors {
        let errors = Errors { missing, wrong_type: missing / 2, ..Errors::default() };
        SystemErrors { name: name.into(), errors, labels: vec![], interval: None, others: vec![] }
    }

    #[test]
    fn a_stage_of_a_long_named_team_keeps_its_own_name() {
        assert_eq!(stage("crossagentie: feedback 1"), "… feedback 1");
        assert_eq!(stage("team: first"), "team: first");
    }

    #[test]
    fn bars_escape_their_names_and_no_error_is_no_picture() {
        let analysis = Analysis { systems: vec![one("<a>", 4), one("b", 0)], ..Analysis::default() };
        let drawn = kinds(&analysis).unwrap();
        assert!(drawn.contains("&lt;a&gt;") && !drawn.contains("<a>") && !drawn.contains("NaN"));
        let faultless = Analysis { systems: vec![one("b", 0)], ..Analysis::default() };
        assert_eq!((kinds(&faultless), kinds(&Analysis::default())), (None, None));
    }
}
