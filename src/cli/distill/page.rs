//! What a corpus came to, in words and numbers: before it is written, and beside it.

use super::hygiene::{self, People};
use crate::config::Plan;
use crate::filter::{Bin, Calibration, Chosen, Curve, Gauge, Kind, Reliability, wilson};
use crate::ie::Cost;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is to be expected, before anything is written.
pub fn expected(chosen: &Chosen) -> String {
    let tally = &chosen.tally;
    let mut text = format!("expected: {} conversations from {} documents\n", tally.lines, tally.documents);
    for (kind, gauge) in Kind::ALL.into_iter().zip(&chosen.gauges) {
        let (count, sum) = tally.expected[kind as usize];
        let one = chosen.calibrations.iter().find(|one| one.kind == kind);
        if count == 0 && one.is_none() {
            continue;
        }
        let _ = write!(text, "  {count} {} at {:.3} and above", kind.plural(), gauge.threshold());
        if let Some(count) = std::num::NonZero::new(count).filter(|_| gauge.curve.is_some()) {
            let _ = write!(text, ", of which {:.1} % should be right", 100.0 * sum / count.get() as f64);
        }
        if let Some(one) = one {
            let _ = write!(text, " ({})", judged(one));
        }
        text.push('\n');
    }
    text
}

fn judged(one: &Calibration) -> String {
    let Some(after) = &one.after else { return format!("{} judged items are too few to calibrate", one.items) };
    let mut text =
        format!("{} judged items; calibration error {:.3} before, {:.3} after", one.items, one.before.ece, after.ece);
    if one.out_of_reach {
        text.push_str("; no set of them is as precise as asked, so none is kept");
    }
    if let Some((right, kept)) = one.held_out {
        let (low, high) = wilson(right, kept);
        let _ =
            write!(text, "; {right} of {kept} right on left-out fifths, {:.1} to {:.1} %", 100.0 * low, 100.0 * high);
    }
    text
}

/// The gauges, for the manifest and for whoever draws them.
pub fn calibration(chosen: &Chosen) -> Value {
    let bins = |table: &Reliability| -> Vec<Value> {
        let bin = |bin: &Bin| {
            json!({
                "lower": six(bin.low), "upper": six(bin.high), "mean_confidence": six(bin.promised),
                "precision": six(bin.right), "count": bin.items,
            })
        };
        table.bins.iter().map(bin).collect()
    };
    let table = |table: &Reliability| json!({"ece": six(table.ece), "ece_by_chance": six(table.by_chance), "bins": bins(table)});
    let one = |one: &Calibration| {
        let gauge: &Gauge = &chosen.gauges[one.kind as usize];
        let method = match gauge.curve {
            Some(Curve::Isotonic(_)) => "isotonic",
            Some(Curve::Platt { .. }) => "platt",
            None => "none",
        };
        let held = one.held_out.map(|(right, kept)| json!({"right": right, "kept": kept}));
        // The flat keys are what the report draws; the two tables hold the rest.
        let value = json!({
            "method": method, "ece_before": six(one.before.ece), "ece_after": one.after.as_ref().map(|after| six(after.ece)),
            "bins": bins(one.after.as_ref().unwrap_or(&one.before)), "judged": one.items, "before": table(&one.before),
            "after": one.after.as_ref().map(table), "threshold": six(gauge.threshold()), "held_out": held,
            "expected": promise(chosen, one.kind),
        });
        (one.kind.plural().to_string(), value)
    };
    Value::Object(chosen.calibrations.iter().map(one).collect())
}

/// Items of a kind that are kept, and the share of them that should be right; null where nothing was
/// calibrated.
fn promise(chosen: &Chosen, kind: Kind) -> Value {
    let (count, sum) = chosen.tally.expected[kind as usize];
    let known = chosen.gauges[kind as usize].curve.is_some() && count > 0;
    json!({"items": count, "precision": known.then(|| six(sum / count as f64))})
}

/// The result as one JSON object.
pub fn as_json(chosen: &Chosen) -> Value {
    let tally = &chosen.tally;
    let expected: serde_json::Map<String, Value> =
        Kind::ALL.into_iter().map(|kind| (kind.plural().to_string(), promise(chosen, kind))).collect();
    json!({
        "lines": tally.lines, "documents": tally.documents, "per_type": tally.per_type,
        "documents_dropped": tally.documents_dropped, "items_dropped": tally.items_dropped,
        "items_masked": tally.items_masked, "expected": expected, "calibration": calibration(chosen),
    })
}

fn six(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// What the filter did, in words.
pub fn told(chosen: &Chosen) -> String {
    let tally = &chosen.tally;
    let mut text = format!("{} conversations from {} documents\n", tally.lines, tally.documents);
    let counted = |counts: &BTreeMap<String, usize>| {
        counts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
    };
    let _ = writeln!(text, "  kept: {}", counted(&tally.per_type));
    for (what, counts) in [("documents left out", &tally.documents_dropped), ("items left out", &tally.items_dropped)] {
        if !counts.is_empty() {
            let _ = writeln!(text, "  {what}: {}", counted(counts));
        }
    }
    if tally.items_masked > 0 {
        let _ = writeln!(text, "  items written and not learned: {}", tally.items_masked);
    }
    if tally.capped > 0 {
        let _ = writeln!(text, "  relation questions without an answer left out: {}", tally.capped);
    }
    if let Some(audit) = &tally.audit {
        let percent = |part: usize, all: usize| match all {
            0 => "–".into(),
            all => format!("{:.1} %", 100.0 * part as f64 / all as f64),
        };
        let _ = writeln!(
            text,
            "  audit on {} documents with gold{}: precision of kept entities {} (recall {}); before the filter {}",
            audit.documents,
            if audit.fitted { ", the same that calibrated" } else { "" },
            percent(audit.right, audit.kept),
            percent(audit.right, audit.gold),
            percent(audit.said_right, audit.said)
        );
    }
    text
}

/// The README of a corpus.
pub fn card(plan: &Plan, chosen: &Chosen, cost: Cost, people: &People) -> String {
    let filter = &plan.config().filter;
    let tokens = |count: Option<u64>| count.map_or_else(|| "unknown".into(), |count| count.to_string());
    let mut text = format!(
        "# {}: corpus of templates\n\nWhat the team `{}` ({}) can stand behind, as `messages` conversations. `train.jsonl` holds its answers, \
         `valid.jsonl` the gold of the dev split in the same format (it chooses the checkpoint and is never trained on).\n\n",
        plan.config().title,
        plan.config().team.protocol,
        plan.config().team.model
    );
    text.push_str("| type | kept items |\n|---|---|\n");
    for (label, count) in &chosen.tally.per_type {
        let _ = writeln!(text, "| {label} | {count} |");
    }
    if chosen.tally.expected[Kind::Event as usize].0 > 0 {
        text.push_str("\nEvents are filtered and counted; no conversation asks for them.\n");
    }
    let [entities, relations, _] = chosen.gauges.each_ref().map(|gauge| (gauge.threshold() * 1e6).round() / 1e6);
    let _ = write!(
        text,
        "\nThresholds: entities {entities}, relations {relations}, largest dropped share {}; mode {}.\n\n{}{}\nCost of the debate: {} calls, \
         {} tokens read, {} written.\n\n",
        filter.max_dropped_share,
        filter.mode,
        told(chosen),
        reliability(chosen),
        cost.calls,
        tokens(cost.prompt_tokens),
        tokens(cost.completion_tokens)
    );
    let team = &plan.config().team;
    text + &hygiene::told(plan, people, &format!("answers of the team `{}` of {}", team.protocol, team.model))
}

/// The reliability of the probabilities, as a table.
fn reliability(chosen: &Chosen) -> String {
    let mut text = String::new();
    for one in &chosen.calibrations {
        let Some(after) = &one.after else { continue };
        let _ = write!(
            text,
            "\n## Calibration of {}\n\n{}. By chance alone it would be {:.3}.\n\n| promised | right | items |\n|---|---|---|\n",
            one.kind.plural(),
            judged(one),
            after.by_chance
        );
        for bin in &after.bins {
            let _ = writeln!(text, "| {:.3} | {:.3} | {} |", bin.promised, bin.right, bin.items);
        }
    }
    text
}
