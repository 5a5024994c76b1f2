//! F1 against cost: what a system finds over the tokens that a document takes it, or over the money
//! where every system has a price; and the frontier of those that no other beats.

use super::{LINE, Scale, WIDTH, dot, figure, fitted, label, path, rows, stroke, text_width, tick_text, ticks};
use crate::eval::Comparison;
use crate::eval::compare::Row;
use crate::eval::economics::{CostModel, Unit, frontier};
use crate::report::number::{amount, interval, percent};

const LEFT: f64 = 30.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 278.0;

/// A system in the plane.
struct Point<'a> {
    row: &'a Row,
    class: &'static str,
    at: (f64, f64),
    whisker: Option<(f64, f64)>,
}

/// A rectangle that a label must not touch: left, top, right, bottom.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Box2 {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Box2 {
    /// The box around a stroke, a unit wide at least.
    fn between(a: (f64, f64), b: (f64, f64)) -> Box2 {
        Box2 {
            left: a.0.min(b.0) - 0.5,
            top: a.1.min(b.1) - 0.5,
            right: a.0.max(b.0) + 0.5,
            bottom: a.1.max(b.1) + 0.5,
        }
    }

    fn shared(&self, other: &Box2) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0.0) * height.max(0.0)
    }
}

/// What a document takes, in the unit of the axis.
type Spent<'a> = &'a dyn Fn(&Row) -> Option<f64>;

/// The scatter; `None` if no system has both a score and a cost.
pub fn scatter(comparison: &Comparison, team: &str, student: &str, cost: Option<&CostModel>) -> Option<String> {
    // What costs nothing has no place on a log scale.
    let nothing = |row: &Row| cost.and_then(|cost| cost.per_document(row)).is_none_or(|money| money <= 0.0);
    let cost = cost.filter(|_| !comparison.systems.iter().any(nothing));
    let (unit, best) = frontier(comparison, cost);
    let thousand = |row: &Row| Some(1000.0 * cost?.per_document(row)?);
    let spent: Spent<'_> = match unit {
        Unit::Money => &thousand,
        Unit::Tokens => &|row: &Row| row.tokens(),
    };
    let drawn = |row: &Row| {
        spent(row).is_some_and(|spent| spent > 0.0 && spent.is_finite()) && row.scores.entities.f1().is_some()
    };
    let shown: Vec<&Row> = comparison.systems.iter().filter(|row| drawn(row)).collect();
    let (x, y) = scales(&shown, spent)?;
    let mut out = String::new();
    label(&mut out, 0.0, 13.0, "start", "name", "NER F1, percent");
    rows(&mut out, &ticks(y.from.0, y.from.1, 5), y, LEFT, RIGHT);
    let (axis, what) = match unit {
        Unit::Money => {
            (format!("{} per 1000 documents (log scale)", cost.map_or("", |cost| &cost.currency)), "of money")
        }
        Unit::Tokens => ("tokens per document, read and written (log scale)".to_string(), "tokens"),
    };
    cost_axis(&mut out, x, &axis);
    let points: Vec<Point> = shown.iter().filter_map(|row| point(row, x, y, team, student, spent)).collect();
    let corners = steps(&points, &best);
    path(&mut out, "frontier", &corners);
    let lines: Vec<Box2> = corners.windows(2).map(|ends| Box2::between(ends[0], ends[1])).collect();
    for one in &points {
        if let Some((top, bottom)) = one.whisker {
            stroke(&mut out, &format!("whisker-{}", one.class), (one.at.0, top), (one.at.0, bottom));
            for end in [top, bottom] {
                stroke(&mut out, &format!("whisker-{}", one.class), (one.at.0 - 4.0, end), (one.at.0 + 4.0, end));
            }
        }
    }
    for one in &points {
        dot(&mut out, &format!("dot-{}", one.class), one.at, if one.class == "other" { 4.5 } else { 6.0 });
    }
    for (one, place) in points.iter().zip(placed(&points, &lines)) {
        if let Some(from) = place.leader {
            stroke(&mut out, "leader", one.at, from);
        }
        label(&mut out, place.x, place.y, place.anchor, &format!("label-{}", one.class), &name(one.row));
    }
    let said: Vec<String> = shown
        .iter()
        .map(|row| {
            format!(
                "{}: F1 {} {} at {} {what}",
                row.name,
                percent(row.scores.entities.f1()),
                interval(row.entities_interval),
                amount(spent(row).unwrap_or_default())
            )
        })
        .collect();
    let left_out: Vec<&str> =
        comparison.systems.iter().filter(|row| !drawn(row)).map(|row| row.name.as_str()).collect();
    let mut description = format!(
        "Whiskers are 95 % intervals. {}. The line joins whom no other beats: {}.",
        said.join("; "),
        best.join(", ")
    );
    if !left_out.is_empty() {
        description += &format!(" Not drawn, since cost or score are unknown: {}.", left_out.join(", "));
    }
    Some(figure("plot-cost", BOTTOM + 42.0, "Entity F1 against cost per document", &description, &out))
}

/// From one system of the frontier to the next: as good for less up to where the next begins.
fn steps(points: &[Point<'_>], best: &[String]) -> Vec<(f64, f64)> {
    let on = best.iter().filter_map(|name| points.iter().find(|point| point.row.name == *name));
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for point in on {
        corners.extend(corners.last().map(|last| (point.at.0, last.1)));
        corners.push(point.at);
    }
    corners.extend(corners.last().map(|last| (RIGHT, last.1)));
    corners
}

fn scales(shown: &[&Row], spent: Spent<'_>) -> Option<(Scale, Scale)> {
    let tokens = shown.iter().filter_map(|row| spent(row)).map(f64::log10);
    let (least, most) = tokens.fold((f64::INFINITY, f64::NEG_INFINITY), |ends, one| (ends.0.min(one), ends.1.max(one)));
    if least > most {
        return None;
    }
    // A third of a decade of air at both ends, for labels.
    let x = Scale::new((least - 0.35, most + 0.35), (LEFT, RIGHT));
    let ends = shown.iter().flat_map(|row| {
        let f1 = row.scores.entities.f1().unwrap_or_default();
        row.entities_interval.map_or([f1, f1], |interval| [interval.low.min(f1), interval.high.max(f1)])
    });
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |ends, one| (ends.0.min(one), ends.1.max(one)));
    let margin = ((high - low) * 0.12).max(0.02);
    let y = Scale::new(((low - margin).max(0.0) * 100.0, (high + margin).min(1.0) * 100.0), (BOTTOM, TOP));
    Some((x, y))
}

fn point<'a>(row: &'a Row, x: Scale, y: Scale, team: &str, student: &str, spent: Spent<'_>) -> Option<Point<'a>> {
    let class = match row.name.as_str() {
        name if name == team => "team",
        name if name == student => "student",
        _ => "other",
    };
    let at = (x.at(spent(row)?.log10()), y.at(row.scores.entities.f1()? * 100.0));
    let whisker = row.entities_interval.map(|interval| (y.at(interval.high * 100.0), y.at(interval.low * 100.0)));
    Some(Point { row, class, at, whisker })
}

/// Decades, with 2 and 5 between them where there is room.
fn cost_axis(out: &mut String, x: Scale, name: &str) {
    stroke(out, "axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    let decades = x.from.1 - x.from.0;
    let factors: &[f64] = if decades < 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    for decade in (x.from.0.floor() as i32..=x.from.1.ceil() as i32).take(40) {
        for factor in factors {
            let tokens = factor * 10f64.powi(decade);
            if (x.from.0..=x.from.1).contains(&tokens.log10()) {
                let at = x.at(tokens.log10());
                stroke(out, "axis", (at, BOTTOM), (at, BOTTOM + 4.0));
                label(out, at, BOTTOM + 17.0, "middle", "tick", &tick_text(tokens, tokens.min(1.0)));
            }
        }
    }
    label(out, (LEFT + RIGHT) / 2.0, BOTTOM + 34.0, "middle", "tick", name);
}

fn name(row: &Row) -> String {
    fitted(&row.name, 150.0)
}

/// Where a label goes.
#[derive(Clone, Copy, Debug)]
struct Placed {
    x: f64,
    y: f64,
    anchor: &'static str,
    leader: Option<(f64, f64)>,
    room: Box2,
}

/// A place for every label that touches no dot, no whisker, no line and no other label; tried beside the
/// point first, then above and below its whisker, then farther away with a leader line that
/// crosses nothing. The least bad place if none is free.
fn placed(points: &[Point<'_>], lines: &[Box2]) -> Vec<Placed> {
    let marks: Vec<[Box2; 2]> = points.iter().map(marks).collect();
    let mut labels: Vec<Box2> = Vec::new();
    let mut places = Vec::new();
    for (at, one) in points.iter().enumerate() {
        let mut best: Option<((f64, f64), Placed)> = None;
        for place in candidates(one) {
            let room = place.room;
            let covered =
                marks.iter().flatten().chain(&labels).chain(lines).map(|other| other.shared(&room)).sum::<f64>();
            let others = marks.iter().enumerate().filter(|(other, _)| *other != at).flat_map(|(_, boxes)| boxes);
            let crossed = place.leader.map_or(0.0, |end| {
                let path = Box2::between(one.at, end);
                others.chain(&labels).map(|other| other.shared(&path)).sum()
            });
            // Legible first, then free of crossings, then near.
            let cost = (covered + outside(&room) * LINE, crossed);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, place));
            }
            if cost == (0.0, 0.0) {
                break;
            }
        }
        if let Some((_, place)) = best {
            labels.push(place.room);
            places.push(place);
        }
    }
    places
}

/// What a point covers: its dot and its whisker, with some air since widths of letters are guessed.
fn marks(one: &Point<'_>) -> [Box2; 2] {
    let (x, y) = one.at;
    let (top, bottom) = one.whisker.unwrap_or((y, y));
    [
        Box2 { left: x - 6.0, top: y - 6.0, right: x + 6.0, bottom: y + 6.0 },
        Box2 { left: x - 8.0, top: top - 2.0, right: x + 8.0, bottom: bottom + 2.0 },
    ]
}

/// By how much a label leaves the plot.
fn outside(room: &Box2) -> f64 {
    [LEFT - room.left, room.right - RIGHT, TOP - 12.0 - room.top, room.bottom - BOTTOM]
        .map(|over| over.max(0.0))
        .iter()
        .sum()
}

fn candidates(one: &Point<'_>) -> Vec<Placed> {
    let (x, y) = one.at;
    let width = text_width(&name(one.row));
    let (top, bottom) = one.whisker.unwrap_or((y - 6.0, y + 6.0));
    let place = |anchor: &'static str, at: f64, middle: f64, leader: Option<(f64, f64)>| {
        let left = match anchor {
            "start" => at,
            "end" => at - width,
            _ => at - width / 2.0,
        };
        let room = Box2 { left, top: middle - LINE / 2.0, right: left + width, bottom: middle + LINE / 2.0 };
        Placed { x: at, y: middle + 4.0, anchor, leader, room }
    };
    let mut all = vec![
        place("start", x + 11.0, y, None),
        place("end", x - 11.0, y, None),
        place("middle", x, top - LINE / 2.0 - 2.0, None),
        place("middle", x, bottom + LINE / 2.0 + 2.0, None),
    ];
    for away in 1..40 {
        // -1, 1, -2, 2, … lines from the point.
        let lines = f64::from((away + 1) / 2) * if away % 2 == 1 { -1.0 } else { 1.0 };
        let middle = y + lines * LINE;
        let leader = |end: f64| (away > 2).then_some((end, middle));
        all.push(place("start", x + 11.0, middle, leader(x + 8.0)));
        all.push(place("end", x - 11.0, middle, leader(x - 8.0)));
    }
    all
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
