//! The scatter's promises: labels apart, hostile names harmless, nothing that is not a number.

use super::*;
use crate::eval::bootstrap::Resampling;
use crate::eval::{Counts, Interval, Scores};

fn row(name: &str, f1: (u64, u64), tokens: Option<f64>) -> Row {
    let entities = Counts { tp: f1.0, fp: f1.1, fn_: f1.1 };
    let middle = entities.f1().unwrap_or_default();
    Row {
        name: name.into(),
        scores: Scores { documents: 10, entities, ..Scores::default() },
        entities_interval: Some(Interval { low: middle - 0.05, high: (middle + 0.05).min(1.0) }),
        calls: 10,
        prompt_tokens: tokens,
        completion_tokens: tokens,
        ..Row::default()
    }
}

fn comparison(systems: Vec<Row>) -> Comparison {
    Comparison {
        documents: 10,
        reference: "team".into(),
        resampling: Resampling::default(),
        delta: 0.02,
        systems,
        seeds: vec![],
    }
}

fn labels_apart(systems: &[Row]) {
    let rows: Vec<&Row> = systems.iter().collect();
    let (x, y) = scales(&rows, &|row| row.tokens()).unwrap();
    let points: Vec<Point> =
        rows.iter().filter_map(|row| point(row, x, y, "team", "student", &|row| row.tokens())).collect();
    let rooms: Vec<Box2> = placed(&points, &[]).into_iter().map(|place| place.room).collect();
    assert_eq!(rooms.len(), systems.len());
    for (at, one) in rooms.iter().enumerate() {
        for other in &rooms[..at] {
            assert_eq!(one.shared(other), 0.0, "{one:?} {other:?}");
        }
        assert!(one.right <= RIGHT + 0.01 && one.left >= LEFT - 0.01, "{one:?}");
    }
}

#[test]
fn labels_do_not_overlap_even_where_twelve_systems_share_one_point() {
    let names = [
        "team",
        "student",
        "self_consistency",
        "type_agents",
        "single_prompt",
        "spp",
        "prd",
        "mad",
        "chatie",
        "cot_er",
        "one_step",
        "direct",
    ];
    labels_apart(&names.map(|name| row(name, (60, 40), Some(900.0))));
    let spread: Vec<Row> = names
        .iter()
        .enumerate()
        .map(|(at, name)| row(name, (50 + at as u64, 50), Some(300.0 + 40.0 * at as f64)))
        .collect();
    labels_apart(&spread);
}

#[test]
fn a_system_without_tokens_is_named_in_the_description_only() {
    let drawn = scatter(
        &comparison(vec![row("team", (6, 4), Some(4000.0)), row("<x>", (5, 5), None)]),
        "team",
        "student",
        None,
    )
    .unwrap();
    assert!(drawn.contains("Not drawn, since cost or score are unknown: &lt;x&gt;."));
    assert_eq!(drawn.matches("<circle").count(), 1);
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
}

#[test]
fn nothing_to_draw_is_no_picture() {
    assert_eq!(
        scatter(
            &comparison(vec![row("team", (6, 4), None), row("student", (0, 0), Some(9.0))]),
            "team",
            "student",
            None
        ),
        None
    );
}

#[test]
fn the_frontier_is_drawn_over_money_once_every_system_has_a_price() {
    use crate::eval::economics::Price;
    let systems = vec![row("team", (80, 20), Some(4000.0)), row("student", (70, 30), Some(300.0))];
    let price = |system: &str| Price { system: system.into(), prompt: 1.0, completion: 1.0, hour: 0.0 };
    let mut cost = CostModel { currency: "$".into(), prices: vec![price("team")], once: vec![] };
    let drawn = |cost: &CostModel| scatter(&comparison(systems.clone()), "team", "student", Some(cost)).unwrap();
    assert!(drawn(&cost).contains("tokens per document") && drawn(&cost).contains("class=\"frontier\""));
    cost.prices.push(price("student"));
    assert!(drawn(&cost).contains("$ per 1000 documents"));
    // What costs nothing would stand infinitely far to the left.
    cost.prices[1] = Price { system: "student".into(), ..Price::default() };
    assert!(drawn(&cost).contains("tokens per document"));
}

#[test]
fn the_frontier_strikes_through_no_label() {
    let systems = [
        row("student", (55, 45), Some(300.0)),
        row("crossagentie", (66, 34), Some(9000.0)),
        row("aeio", (50, 50), Some(900.0)),
    ];
    let rows: Vec<&Row> = systems.iter().collect();
    let (x, y) = scales(&rows, &|row| row.tokens()).unwrap();
    let points: Vec<Point> =
        rows.iter().filter_map(|row| point(row, x, y, "crossagentie", "student", &|row| row.tokens())).collect();
    let corners = steps(&points, &["student".into(), "crossagentie".into()]);
    // Up from the student's height to the team's, and on to the right edge.
    assert_eq!(corners.len(), 4);
    let lines: Vec<Box2> = corners.windows(2).map(|ends| Box2::between(ends[0], ends[1])).collect();
    for place in placed(&points, &lines) {
        assert!(lines.iter().all(|line| line.shared(&place.room) == 0.0), "{place:?}");
    }
}
