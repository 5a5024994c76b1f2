//! Reliability: how often items are right over how sure somebody is of them; on the diagonal both
//! agree. A larger dot stands for more items.

use super::{LINE, Scale, WIDTH, dot, figure, fitted, label, path, rows, stroke};
use crate::eval::reliability::Bin;
use crate::eval::table::plain;
use crate::eval::verdict::Measure;
use crate::report::RunReport;
use crate::report::number::{count, percent};

const LEFT: f64 = 34.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 300.0;
/// More curves than this cannot be told apart.
const CURVES: usize = 4;

/// One curve, and what is said of it.
struct Curve<'a> {
    told: String,
    bins: &'a [Bin],
}

fn curves(report: &RunReport) -> Vec<Curve<'_>> {
    let measured = report.reliability.iter().filter(|one| one.system == report.team || one.system == report.student);
    let measured = measured.map(|one| {
        let what = if one.measure == Measure::Relations { "relations" } else { "entities" };
        let told = format!("{}, {what}: error {}, {} items", one.system, percent(Some(one.ece)), count(one.items));
        Curve { told, bins: &one.bins }
    });
    let fitted = report.calibration.iter().map(|one| {
        let error = |value: Option<f64>| percent(value);
        let told =
            format!("filter, {}, {}: error {} → {}", one.name, one.method, error(one.ece_before), error(one.ece_after));
        Curve { told, bins: &one.bins }
    });
    measured.chain(fitted).take(CURVES).collect()
}

/// The curves; `None` where nobody is sure of anything.
pub fn reliability(report: &RunReport) -> Option<String> {
    let curves = curves(report);
    let most = curves.iter().flat_map(|one| one.bins).map(|bin| bin.count).max().filter(|&most| most > 0)?;
    let (x, y) = (Scale::new((0.0, 100.0), (LEFT, RIGHT)), Scale::new((0.0, 100.0), (BOTTOM, TOP)));
    let marks = [0.0, 20.0, 40.0, 60.0, 80.0, 100.0];
    let mut out = String::new();
    label(&mut out, 0.0, 13.0, "start", "name", "Right, percent");
    rows(&mut out, &marks, y, LEFT, RIGHT);
    for mark in marks {
        stroke(&mut out, "axis", (x.at(mark), BOTTOM), (x.at(mark), BOTTOM + 4.0));
        label(&mut out, x.at(mark), BOTTOM + 17.0, "middle", "tick", &plain(mark, 0));
    }
    label(&mut out, (LEFT + RIGHT) / 2.0, BOTTOM + 34.0, "middle", "tick", "confidence, percent");
    path(&mut out, "frontier", &[(LEFT, BOTTOM), (RIGHT, TOP)]);
    for one in &report.calibration {
        if let Some(kept) = one.threshold.filter(|kept| (0.0..=1.0).contains(kept)) {
            stroke(&mut out, "axis", (x.at(kept * 100.0), TOP), (x.at(kept * 100.0), BOTTOM));
            let anchor = if kept > 0.5 { "end" } else { "start" };
            let beside = if kept > 0.5 { -4.0 } else { 4.0 };
            let told = format!("kept from {}", plain(kept, 2));
            label(&mut out, x.at(kept * 100.0) + beside, TOP + 14.0, anchor, "tick", &told);
        }
    }
    let mut below = BOTTOM + 54.0;
    for (at, curve) in curves.iter().enumerate() {
        let place = |bin: &Bin| (x.at(bin.mean_confidence * 100.0), y.at(bin.precision * 100.0));
        path(&mut out, &format!("line-s{at}"), &curve.bins.iter().map(place).collect::<Vec<_>>());
        for bin in curve.bins {
            let radius = 2.5 + 5.5 * (bin.count as f64 / most as f64).sqrt();
            dot(&mut out, &format!("dot-s{at}"), place(bin), radius);
        }
        stroke(&mut out, &format!("line-s{at}"), (LEFT, below - 4.0), (LEFT + 18.0, below - 4.0));
        label(&mut out, LEFT + 24.0, below, "start", "name", &fitted(&curve.told, RIGHT - LEFT - 24.0));
        below += LINE + 4.0;
    }
    let description = curves.iter().map(described).collect::<Vec<_>>().join(" ");
    Some(figure("plot-reliability", below, "Precision over confidence", &description, &out))
}

fn described(curve: &Curve<'_>) -> String {
    let bins = curve.bins.iter().map(|bin| {
        format!(
            "{} right at {} sure ({})",
            percent(Some(bin.precision)),
            percent(Some(bin.mean_confidence)),
            count(bin.count)
        )
    });
    format!("{}: {}.", curve.told, bins.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::reliability::Reliability;
    use crate::report::Calibration;

    #[test]
    fn team_student_and_filter_are_drawn_and_others_are_not() {
        let bins = vec![Bin { lower: 0.8, upper: 0.9, mean_confidence: 0.85, precision: 0.5, count: 4 }];
        let of = |system: &str| Reliability {
            system: system.into(),
            measure: Measure::Entities,
            items: 4,
            without: 0,
            ece: 0.35,
            brier: 0.3,
            bins: bins.clone(),
        };
        let fit = Calibration {
            name: "<x>".into(),
            method: "isotonic".into(),
            threshold: Some(0.7),
            bins: bins.clone(),
            ..Calibration::default()
        };
        let report = RunReport {
            team: "t".into(),
            reliability: vec![of("t"), of("unrelated")],
            calibration: vec![fit],
            ..RunReport::default()
        };
        let drawn = reliability(&report).unwrap();
        assert!(drawn.contains("t, entities: error 35.0, 4 items: 50.0 right at 85.0 sure (4)."), "{drawn}");
        assert!(drawn.contains("kept from 0.70") && !drawn.contains("unrelated") && !drawn.contains("<x>"));
        assert_eq!(reliability(&RunReport::default()), None);
    }
}
