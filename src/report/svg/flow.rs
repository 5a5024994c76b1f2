//! What became of the conflicts of a debate, as a stream: what each round of debate settles leaves it
//! downwards, and what is left at its end goes to the summarizer, to a majority, or nowhere.

use super::{WIDTH, block, escape, figure, label, short};
use crate::report::flow::Flow;
use crate::report::number::count;
use std::fmt::Write;

const LEFT: f64 = 2.0;
/// Room for the labels of what is left in the end.
const RIGHT: f64 = WIDTH - 92.0;
const TOP: f64 = 30.0;
/// Height of all conflicts together.
const STREAM: f64 = 150.0;
const NODE: f64 = 8.0;
/// How far what leaves the stream falls.
const FALL: f64 = 22.0;
/// Two lines of a label, so that labels of what is left do not touch.
const STACK: f64 = 34.0;
/// Later rounds are drawn as one.
const ROUNDS: usize = 5;

/// The rounds that settled anything, the late ones together: number, conflicts, as a label says it.
fn rounds(flow: &Flow) -> Vec<(String, u64)> {
    let each: Vec<(u32, u64)> = flow.consensus.iter().map(|(round, number)| (*round, *number)).collect();
    let named =
        |&(round, number): &(u32, u64)| (if round == 0 { "at once".into() } else { format!("round {round}") }, number);
    match each.get(ROUNDS - 1..) {
        Some(late) if late.len() > 1 => {
            let last = (format!("round {}+", late[0].0), late.iter().map(|one| one.1).sum());
            each[..ROUNDS - 1].iter().map(named).chain([last]).collect()
        }
        _ => each.iter().map(named).collect(),
    }
}

/// The stream; `id` is unique on the page.
pub fn flow(flow: &Flow, id: &str) -> String {
    let all = flow.conflicts();
    let tall = |number: u64| (STREAM * number as f64 / all.max(1) as f64).max(1.5);
    let rounds = rounds(flow);
    let ends = [("summarizer", flow.summarizer), ("majority", flow.majority), ("failed", flow.failed)];
    let ends: Vec<(&str, u64)> = ends.into_iter().filter(|(_, number)| *number > 0).collect();
    let columns = rounds.len() + usize::from(!ends.is_empty());
    let x = |column: usize| LEFT + (RIGHT - LEFT) * column as f64 / columns.max(1) as f64;
    let (mut streams, mut nodes, mut bottom) = (String::new(), String::new(), TOP + STREAM);
    label(&mut nodes, 0.0, 15.0, "start", "name", &format!("{} conflicts", count(all)));
    block(&mut nodes, "flow-open", [x(0), TOP, NODE, tall(all)]);
    let mut open = all;
    for (at, (name, number)) in rounds.iter().enumerate() {
        let (from, to, left) = (x(at) + NODE, x(at + 1), open - number);
        let edge = TOP + if left > 0 { tall(left) } else { 0.0 };
        let fall = edge + if left > 0 { FALL } else { 0.0 };
        if left > 0 {
            ribbon(&mut streams, "flow-open", (from, TOP), (to, TOP), tall(left));
            block(&mut nodes, "flow-open", [to, TOP, NODE, tall(left)]);
        }
        ribbon(&mut streams, "flow-consensus", (from, edge), (to, fall), tall(*number));
        block(&mut nodes, "flow-consensus", [to, fall, NODE, tall(*number)]);
        bottom =
            f64::max(bottom, told(&mut nodes, (to + NODE / 2.0, fall + tall(*number) + 14.0), "middle", *number, name));
        open = left;
    }
    let (mut from, mut to) = (TOP, TOP);
    for (name, number) in &ends {
        ribbon(&mut streams, &format!("flow-{name}"), (x(columns - 1) + NODE, from), (x(columns), to), tall(*number));
        block(&mut nodes, &format!("flow-{name}"), [x(columns), to, NODE, tall(*number)]);
        let middle = to + (tall(*number) / 2.0).max(4.0);
        bottom = f64::max(bottom, told(&mut nodes, (x(columns) + NODE + 6.0, middle), "start", *number, name));
        from += tall(*number);
        to += tall(*number).max(STACK);
    }
    let description = described(flow, &rounds, &ends);
    figure(id, bottom + 6.0, &format!("Conflicts of {}", flow.name), &description, &(streams + &nodes))
}

/// A number with its name beneath; returns where it ends.
fn told(out: &mut String, (x, y): (f64, f64), anchor: &str, number: u64, name: &str) -> f64 {
    label(out, x, y, anchor, "value", &count(number));
    label(out, x, y + 14.0, anchor, "tick", name);
    y + 18.0
}

/// A band of one height from one place to another, bent in the middle.
fn ribbon(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64), tall: f64) {
    let middle = short((from.0 + to.0) / 2.0);
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(short);
    let [y3, y4] = [to.1 + tall, from.1 + tall].map(short);
    let _ = write!(
        out,
        "<path class=\"stream {}\" d=\"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}L{x2} {y3}C{middle} {y3} {middle} {y4} {x1} {y4}Z\"/>",
        escape(class)
    );
}

fn described(flow: &Flow, rounds: &[(String, u64)], ends: &[(&str, u64)]) -> String {
    let settled = rounds.iter().map(|(name, number)| format!("{} settled by consensus, {name}", count(*number)));
    let left = ends.iter().map(|(name, number)| match *name {
        "summarizer" => format!("{} decided by the summarizer", count(*number)),
        "majority" => format!("{} left to a majority", count(*number)),
        _ => format!("{} without an outcome", count(*number)),
    });
    let parts: Vec<String> = settled.chain(left).collect();
    format!("{} conflicts in {} documents: {}.", count(flow.conflicts()), count(flow.documents), parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_conflict_is_told_and_late_rounds_are_drawn_together() {
        let consensus = BTreeMap::from_iter((1..=9).map(|round| (round, 10)));
        let drawn = flow(&Flow { name: "<t>".into(), consensus, summarizer: 3, failed: 1, ..Flow::default() }, "plot");
        assert!(drawn.contains("94 conflicts") && drawn.contains("round 5+") && !drawn.contains("round 6"));
        assert!(drawn.contains("50 settled by consensus, round 5+") && drawn.contains("1 without an outcome"));
        assert!(!drawn.contains("<t>") && !drawn.contains("NaN") && !drawn.contains("majority"));
    }

    #[test]
    fn all_in_one_round_and_none_at_all_are_drawn_without_a_fault() {
        for one in [Flow { consensus: BTreeMap::from([(1, 5)]), ..Flow::default() }, Flow::default()] {
            let drawn = flow(&one, "plot");
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        }
    }
}
