//! Entity F1 by type, team above student.

use super::{LINE, Scale, WIDTH, figure, fitted, label, short, stroke};
use crate::eval::{Counts, Interval};
use crate::report::number::{count, percent, scored};
use crate::report::tables::TypeScore;
use std::fmt::Write;

/// More types than this stand in the table only.
const TYPES: usize = 16;

const NAMES: f64 = 104.0;
const RIGHT: f64 = WIDTH - 40.0;
const TOP: f64 = 34.0;
const BAR: f64 = 10.0;
const ROW: f64 = 38.0;

/// The bars, for the types that have most gold items; `None` without any.
pub fn bars(types: &[TypeScore]) -> Option<String> {
    let shown = &types[..types.len().min(TYPES)];
    if shown.is_empty() {
        return None;
    }
    let x = Scale::new((0.0, 1.0), (NAMES, RIGHT));
    let bottom = TOP + ROW * shown.len() as f64;
    let mut out = String::new();
    key(&mut out);
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        stroke(&mut out, if tick == 0.0 { "axis" } else { "grid" }, (x.at(tick), TOP - 4.0), (x.at(tick), bottom));
        label(&mut out, x.at(tick), bottom + 16.0, "middle", "tick", &format!("{:.0}", tick * 100.0));
    }
    for (at, one) in shown.iter().enumerate() {
        let y = TOP + ROW * at as f64 + 4.0;
        label(&mut out, NAMES - 10.0, y + 11.0, "end", "name", &fitted(&one.label, NAMES - 12.0));
        label(&mut out, NAMES - 10.0, y + 11.0 + LINE, "end", "tick", &format!("{} gold", count(one.gold)));
        bar(&mut out, "team", x, y, &one.team, one.intervals[0]);
        bar(&mut out, "student", x, y + BAR + 3.0, &one.student, one.intervals[1]);
    }
    let said: Vec<String> = shown
        .iter()
        .map(|one| {
            let [team, student] =
                [(&one.team, 0), (&one.student, 1)].map(|(counts, at)| scored(counts.f1(), one.intervals[at]));
            format!("{}: team {team}, student {student}", one.label)
        })
        .collect();
    let description = format!("Entity F1 in percent. {}.", said.join("; "));
    Some(figure("plot-types", bottom + 26.0, "F1 by entity type, team and student", &description, &out))
}

/// Which colour is whom.
fn key(out: &mut String) {
    for (class, name, at) in [("team", "Team", NAMES), ("student", "Student", NAMES + 74.0)] {
        let at_text = at + 16.0;
        let _ = write!(
            out,
            "<rect class=\"fill-{class}\" x=\"{}\" y=\"6\" width=\"10\" height=\"10\" rx=\"2\"/>",
            short(at)
        );
        label(out, at_text, 15.5, "start", "name", name);
    }
}

fn bar(out: &mut String, class: &str, x: Scale, y: f64, counts: &Counts, within: Option<Interval>) {
    let Some(f1) = counts.f1() else {
        label(out, NAMES + 5.0, y + 9.0, "start", "tick", "nothing to find");
        return;
    };
    let [left, width, top] = [NAMES, x.at(f1) - NAMES, y].map(short);
    let _ = write!(
        out,
        "<rect class=\"fill-{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{BAR}\" rx=\"1.5\"/>"
    );
    let middle = y + BAR / 2.0;
    if let Some(Interval { low, high }) = within {
        // Ink on a light bar is hard to see in the dark.
        stroke(out, "halo", (x.at(low), middle), (x.at(high), middle));
        stroke(out, "whisker-ink", (x.at(low), middle), (x.at(high), middle));
        for end in [low, high] {
            stroke(out, "whisker-ink", (x.at(end), middle - 3.0), (x.at(end), middle + 3.0));
        }
    }
    let end = within.map_or(f1, |within| within.high.max(f1));
    label(out, x.at(end) + 6.0, y + 9.0, "start", "value", &percent(Some(f1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(label: &str, tp: u64) -> TypeScore {
        let counts = Counts { tp, fp: 1, fn_: 1 };
        TypeScore {
            label: label.into(),
            gold: tp + 1,
            team: counts,
            student: Counts::default(),
            intervals: [None, None],
        }
    }

    #[test]
    fn bars_escape_their_labels_and_say_where_nothing_was_there() {
        let drawn = bars(&[one("<PER>", 3)]).unwrap();
        assert!(drawn.contains("&lt;PER&gt;") && !drawn.contains("<PER>"));
        assert!(drawn.contains("nothing to find") && !drawn.contains("NaN"));
    }

    #[test]
    fn the_rare_types_stand_in_the_table_only() {
        let many: Vec<_> = (0..40).map(|at| one(&format!("T{at:02}"), 50 - at)).collect();
        let drawn = bars(&many).unwrap();
        assert!(drawn.contains("T15") && !drawn.contains("T16"));
        assert_eq!(bars(&[]), None);
    }
}
