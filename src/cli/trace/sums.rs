//! What all debates of a file come to, as tables and as JSON.

use super::Stages;
use crate::trace::stats::{PAPER_ONE_TURN, Spent, Stats};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Prices of a million tokens, read and written.
type Price = Option<(f64, f64)>;

/// Everything that was counted, with what is derived from it; null where nothing can be said.
pub(super) fn json(stats: &Stats, scores: &Stages, price: Price) -> Value {
    let money = |spent: &Spent| price.map(|(prompt, completion)| spent.money(prompt, completion));
    let spent = |spent: &Spent| {
        let mut value = json!(spent);
        value["money"] = json!(money(spent));
        value
    };
    let each = |map: &BTreeMap<String, Spent>| map.iter().map(|(name, of)| (name.clone(), spent(of))).collect();
    let agents: serde_json::Map<String, Value> = each(&stats.agents);
    let rounds: serde_json::Map<String, Value> = each(&stats.rounds);
    let mut value = json!(stats);
    value["agents"] = agents.into();
    value["rounds"] = rounds.into();
    value["spent"] = spent(&stats.spent);
    value["one_turn"] = json!({"share": stats.one_turn(), "crossagentie": PAPER_ONE_TURN});
    value["shared_claims"] = json!(share(stats.shared, stats.claimed));
    let tokens = (stats.spent.prompt_tokens + stats.spent.completion_tokens) as f64;
    value["per_accepted_fact"] = json!({
        "tokens": per(tokens, stats.accepted),
        "money": money(&stats.spent).and_then(|money| per(money, stats.accepted)),
        // Money is that of all documents: without gold for each of them there is no such quotient.
        "money_per_right_fact": money(&stats.spent)
            .filter(|_| stats.with_gold == stats.documents)
            .and_then(|money| per(money, stats.accepted_right?)),
    });
    for (round, ballots) in &stats.ballots {
        let place = &mut value["ballots"][round.to_string()];
        place["agreement"] = json!(ballots.share());
        place["beyond_chance"] = json!(ballots.beyond_chance());
    }
    let pairs = |list: &Value, kinds: bool| -> Value {
        let named = list.as_array().into_iter().flatten().map(|pair| {
            let mut counts = pair[1].clone();
            counts["stage"] = pair[0].clone();
            if let Some((scores, errors)) = pair[0].as_str().and_then(|name| scores.get(name)) {
                if kinds {
                    counts["kinds"] = json!(errors);
                }
                counts["entities"] = json!(scores.entities);
                counts["relations"] = json!(scores.relations);
                counts["events"] = json!(scores.events);
            }
            counts
        });
        Value::Array(named.collect())
    };
    value["stages"] = pairs(&value["stages"], true);
    value["flips"] = pairs(&value["flips"], false);
    value
}

/// The same for people.
pub(super) fn table(stats: &Stats, scores: &Stages, price: Price) -> String {
    let mut text = String::new();
    let ended: Vec<String> = stats.status.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let _ = writeln!(
        text,
        "{} documents ({}), {} without a conflict",
        stats.documents,
        ended.join(", "),
        stats.without_conflict
    );
    conflicts(&mut text, stats);
    agreement(&mut text, stats);
    stages(&mut text, stats, scores);
    flips(&mut text, stats);
    spent(&mut text, "agent", &stats.agents, price);
    spent(&mut text, "stage, round", &stats.rounds, price);
    let all = &stats.spent;
    let tokens = (all.prompt_tokens + all.completion_tokens) as f64;
    let _ = writeln!(text, "\naccepted facts: {}", stats.accepted);
    let _ = writeln!(text, "tokens per accepted fact: {}", number(per(tokens, stats.accepted), 1));
    if let Some((prompt, completion)) = price {
        let money = all.money(prompt, completion);
        let each = number(per(money, stats.accepted), 6);
        let _ = writeln!(text, "money: {money:.4}; per accepted fact: {each}");
        if let Some(right) = stats.accepted_right.filter(|_| stats.with_gold == stats.documents) {
            let _ = writeln!(text, "money per right fact: {}", number(per(money, right), 6));
        }
    }
    if all.uncounted > 0 {
        let _ = writeln!(text, "{} turns without a count of tokens are missing in these sums", all.uncounted);
    }
    text
}

fn conflicts(text: &mut String, stats: &Stats) {
    let head = ["conflicts", "all", "one turn", "consensus", "summarizer", "majority", "unsettled"];
    let mut rows = vec![head.map(String::from).to_vec()];
    let all = stats.all_conflicts();
    for (name, of) in stats.conflicts.iter().map(|(name, of)| (name.as_str(), of)).chain([("together", &all)]) {
        let counts = [of.conflicts, of.one_turn, of.consensus, of.summarizer, of.majority, of.failed];
        rows.push([name.to_owned()].into_iter().chain(counts.map(|count| count.to_string())).collect());
    }
    grid(text, &rows);
    let _ = writeln!(
        text,
        "settled in one turn: {} % (CROSSAGENTIE, section 4.3, CoNLL03: {} %)",
        percent(stats.one_turn()),
        percent(Some(PAPER_ONE_TURN))
    );
}

fn agreement(text: &mut String, stats: &Stats) {
    let _ = writeln!(
        text,
        "\nmentions claimed by more than one agent: {} of {} ({} %)",
        stats.shared,
        stats.claimed,
        percent(share(stats.shared, stats.claimed))
    );
    if stats.ballots.is_empty() {
        return;
    }
    let head = ["ballots of round", "conflicts", "agreeing pairs %", "beyond chance", "changed votes"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (round, of) in &stats.ballots {
        rows.push(vec![
            round.to_string(),
            of.conflicts.to_string(),
            percent(of.share()),
            number(of.beyond_chance(), 2),
            of.changed.to_string(),
        ]);
    }
    grid(text, &rows);
    let _ = writeln!(
        text,
        "beyond chance: (share - 1/k) / (1 - 1/k) with each conflict's k options; letters mean another\n\
         reading in each conflict, so that no kappa is defined"
    );
}

fn stages(text: &mut String, stats: &Stats, scores: &Stages) {
    let gold = stats.with_gold > 0;
    if stats.stages.len() < 2 && !gold {
        return;
    }
    let mut head = vec!["after", "documents", "items", "Δ"];
    if gold {
        head.extend(["entity F1", "relation F1", "right", "wrong type", "boundary", "missing", "spurious"]);
    }
    let mut rows = vec![head.into_iter().map(String::from).collect::<Vec<_>>()];
    for (name, of) in &stats.stages {
        let delta = of.delta.map_or("-".to_owned(), |delta| delta.to_string());
        let mut row = vec![name.clone(), of.documents.to_string(), of.items.to_string(), delta];
        if gold {
            let (scores, kinds) = scores.get(name).cloned().unwrap_or_default();
            row.push(percent(scores.entities.f1()));
            row.push(percent(scores.relations.f1()));
            let counts = [kinds.right, kinds.wrong_type, kinds.boundary, kinds.missing, kinds.spurious];
            row.extend(counts.map(|count| count.to_string()));
        }
        rows.push(row);
    }
    grid(text, &rows);
    if gold {
        let _ = writeln!(text, "F1 and kinds of error are of the {} documents with gold", stats.with_gold);
    }
}

fn flips(text: &mut String, stats: &Stats) {
    if stats.flips.is_empty() {
        return;
    }
    let head = ["step to", "documents", "wrong -> right", "right -> wrong", "wrong added", "wrong removed"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (name, of) in &stats.flips {
        let counts = [of.documents, of.wrong_to_right, of.right_to_wrong, of.wrong_added, of.wrong_removed];
        rows.push([name.clone()].into_iter().chain(counts.map(|count| count.to_string())).collect());
    }
    grid(text, &rows);
}

fn spent(text: &mut String, by: &str, all: &BTreeMap<String, Spent>, price: Price) {
    let mut head = vec![by, "turns", "failed", "asked again", "retries", "found", "dropped", "read", "written", "s"];
    head.extend(price.map(|_| "money"));
    let mut rows = vec![head.into_iter().map(String::from).collect::<Vec<_>>()];
    for (name, of) in all {
        let counts = [
            of.turns,
            of.failed,
            of.asked_again,
            of.retries,
            of.found,
            of.dropped,
            of.prompt_tokens,
            of.completion_tokens,
        ];
        let mut row: Vec<String> = [name.clone()].into_iter().chain(counts.map(|count| count.to_string())).collect();
        row.push(format!("{:.1}", of.seconds));
        row.extend(price.map(|(prompt, completion)| format!("{:.4}", of.money(prompt, completion))));
        rows.push(row);
    }
    grid(text, &rows);
}

/// Columns as wide as they must be: names to the left, numbers to the right.
fn grid(text: &mut String, rows: &[Vec<String>]) {
    let tame = |cell: &str| cell.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| tame(cell)).collect()).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|at| rows.iter().map(|row| row[at].width()).max().unwrap_or(0)).collect();
    text.push('\n');
    for row in &rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let space = " ".repeat(width - cell.width());
            let gap = if at > 0 { "  " } else { "" };
            let cell = if at == 0 { format!("{cell}{space}") } else { format!("{space}{cell}") };
            line.push_str(&format!("{gap}{cell}"));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

fn per(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

fn percent(share: Option<f64>) -> String {
    number(share.map(|share| share * 100.0), 1)
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
