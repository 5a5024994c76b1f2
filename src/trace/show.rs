//! One debate as a reader follows it: rows are rounds, columns are agents, cells are what each
//! says (CooperKGC, table 4), and every item knows what the round changed about it.
//!
//! Deliberately absent: widths and colours; `cli` lays this out.

use super::facts::{Fact, facts};
use super::{Conflict, Settled, Snapshot, Support, Trace, Turn};
use crate::ie::record::ExtractionRecord;
use crate::ie::{Cost, Status};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a round did to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It stood there the round before, or there was none.
    Same,
    /// It is new.
    New,
    /// It is gone.
    Gone,
    /// It is there under another type.
    Retyped,
}

/// One item of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// As a line.
    pub item: String,
    /// What changed against the round before.
    pub change: Change,
    /// The type it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// Whether the gold has it; absent without gold and for what is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
}

/// One answer of one agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Which agent.
    pub agent: String,
    /// The question.
    pub stage: String,
    /// Its round.
    pub round: u32,
    /// How the turn ended.
    pub status: Status,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it says.
    pub items: Vec<Item>,
    /// The agent's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's own confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Items that were not kept, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<(String, String)>,
    /// What it took to read the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    /// Names that it relates and that are not among the entities it was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// Whether this is the second answer to the question.
    pub asked_again: bool,
    /// Attempts that failed before.
    pub retries: u32,
    /// Tokens and seconds.
    pub cost: Cost,
    /// The hash of the request.
    pub request: String,
    /// The answer as it came.
    pub raw: String,
}

/// A conflict and its debate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Debate {
    /// `entities` or `relations`.
    pub stage: String,
    /// The readings.
    pub options: Vec<String>,
    /// Who claimed one.
    pub claimants: Vec<String>,
    /// Who said what, in the order spoken.
    pub said: Vec<Cell>,
    /// How it ended.
    pub settled: Settled,
    /// What won.
    pub outcome: Option<String>,
    /// Rounds that it took.
    pub rounds: u32,
}

/// How the extraction stood.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stand {
    /// After which stage; `outcome` at the end.
    pub stage: String,
    /// Its round.
    pub round: u32,
    /// Δ(A, B), where the protocol has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<u32>,
    /// What stood.
    pub items: Vec<Item>,
}

/// An item of the outcome and what stands behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backed {
    /// As a line.
    pub item: String,
    /// Votes, log-probability, judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub support: Option<Support>,
    /// Whether the gold has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
}

/// A whole debate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// Document id.
    pub id: String,
    /// The protocol.
    pub protocol: String,
    /// The text, where somebody gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How the reading ended.
    pub status: Status,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Answers outside debates, in the order spoken.
    pub turns: Vec<Cell>,
    /// First answers that were asked for again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<Cell>,
    /// The conflicts.
    pub conflicts: Vec<Debate>,
    /// Claims that were withdrawn because they contradict what another task confirmed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<String>,
    /// How the extraction stood after each stage, the outcome last.
    pub stands: Vec<Stand>,
    /// The outcome.
    pub outcome: Vec<Backed>,
    /// Gold that the outcome lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Vec<String>>,
    /// Tokens and seconds of all turns.
    pub cost: Cost,
}

/// Lays out a trace, against the gold where there is some.
pub fn show(trace: &Trace, text: Option<&str>, gold: Option<&ExtractionRecord>) -> Shown {
    let lines: Option<BTreeSet<String>> = gold.map(|gold| facts(gold).into_values().map(|fact| fact.line).collect());
    let mut shown = Shown {
        id: trace.id.clone(),
        protocol: trace.protocol.clone(),
        text: text.map(str::to_owned),
        status: trace.status,
        error: trace.error.clone(),
        turns: turns(trace, lines.as_ref()),
        superseded: trace.superseded.iter().map(|turn| cell(turn, said(turn))).collect(),
        conflicts: vec![],
        withdrawn: trace.withdrawn.clone(),
        stands: stands(trace, gold),
        outcome: backed(trace, gold),
        missed: None,
        cost: trace.cost(),
    };
    shown.conflicts = trace.conflicts.iter().enumerate().map(|(at, conflict)| debate(trace, at, conflict)).collect();
    if let Some(gold) = gold {
        let found = facts(&trace.extraction);
        let missed = facts(gold).into_iter().filter(|(key, _)| !found.contains_key(key));
        shown.missed = Some(missed.map(|(_, fact)| fact.line).collect());
    }
    shown
}

fn is_debate(turn: &Turn) -> bool {
    turn.conflict.is_some() || matches!(turn.stage.as_str(), "debate" | "summary")
}

fn turns(trace: &Trace, gold: Option<&BTreeSet<String>>) -> Vec<Cell> {
    let mut before: BTreeMap<(&str, bool), &Turn> = BTreeMap::new();
    let mut cells = Vec::new();
    for turn in trace.turns.iter().filter(|turn| !is_debate(turn)) {
        let usable = matches!(turn.status, Status::Ok | Status::Empty);
        let key = (turn.agent.as_str(), turn.stage == "relations");
        let earlier = before.get(&key).filter(|earlier| earlier.round < turn.round || earlier.stage != turn.stage);
        let mut items = match earlier.filter(|_| usable) {
            Some(earlier) => changes(&named(&earlier.found), &named(&turn.found)),
            None => said(turn),
        };
        if let Some(gold) = gold {
            items.iter_mut().filter(|item| item.change != Change::Gone).for_each(|item| {
                item.right = Some(gold.contains(&item.item));
            });
        }
        cells.push(cell(turn, items));
        if usable {
            before.insert(key, turn);
        }
    }
    cells
}

fn said(turn: &Turn) -> Vec<Item> {
    turn.found.iter().map(|item| Item { item: item.clone(), change: Change::Same, was: None, right: None }).collect()
}

/// Lines by themselves; what stands behind the type is what an item is about.
fn named(found: &[String]) -> BTreeMap<String, Fact> {
    let place = |line: &str| line.split_once(" \"").map_or(String::new(), |(_, rest)| rest.to_owned());
    found.iter().map(|line| (line.clone(), Fact { line: line.clone(), place: place(line), span: None })).collect()
}

/// What is there now, and what is gone, in order of place.
fn changes(before: &BTreeMap<String, Fact>, now: &BTreeMap<String, Fact>) -> Vec<Item> {
    let label = |fact: &Fact| fact.line.split_once(" \"").map_or("", |(label, _)| label).to_owned();
    let gone: Vec<&Fact> = before.iter().filter(|(key, _)| !now.contains_key(*key)).map(|(_, fact)| fact).collect();
    let mut replaced = BTreeSet::new();
    let mut items = Vec::new();
    for (key, fact) in now {
        let old = gone.iter().find(|old| !fact.place.is_empty() && old.place == fact.place);
        let (change, was) = match (before.contains_key(key), old) {
            (true, _) => (Change::Same, None),
            (false, Some(old)) => {
                replaced.insert(old.line.clone());
                (Change::Retyped, Some(label(old)))
            }
            (false, None) => (Change::New, None),
        };
        items.push(Item { item: fact.line.clone(), change, was, right: None });
    }
    let left = gone.into_iter().filter(|fact| !replaced.contains(&fact.line));
    items.extend(left.map(|fact| Item { item: fact.line.clone(), change: Change::Gone, was: None, right: None }));
    items
}

fn cell(turn: &Turn, items: Vec<Item>) -> Cell {
    Cell {
        agent: turn.agent.clone(),
        stage: turn.stage.clone(),
        round: turn.round,
        status: turn.status,
        error: turn.error.clone(),
        items,
        reason: turn.reason.clone(),
        confidence: turn.confidence,
        dropped: turn.dropped.clone(),
        repairs: turn.repairs.clone(),
        absent: turn.absent.clone(),
        asked_again: turn.asked_again,
        retries: turn.retries,
        cost: turn.cost,
        request: turn.request.clone(),
        raw: turn.raw.clone(),
    }
}

fn debate(trace: &Trace, at: usize, conflict: &Conflict) -> Debate {
    let mut before: BTreeMap<&str, &[String]> = BTreeMap::new();
    let mut cells = Vec::new();
    for turn in trace.turns.iter().filter(|turn| turn.conflict == Some(at)) {
        let mut items = said(turn);
        if let (Some(earlier), Some(item)) = (before.get(turn.agent.as_str()), items.first_mut())
            && *earlier != turn.found
        {
            (item.change, item.was) = (Change::Retyped, earlier.first().cloned());
        }
        if !turn.found.is_empty() {
            before.insert(&turn.agent, &turn.found);
        }
        cells.push(cell(turn, items));
    }
    Debate {
        stage: conflict.stage.clone(),
        options: conflict.options.clone(),
        claimants: conflict.claimants.clone(),
        said: cells,
        settled: conflict.settled,
        outcome: conflict.outcome.clone(),
        rounds: conflict.rounds,
    }
}

/// The snapshots and the outcome behind them, in order.
pub(super) fn steps(trace: &Trace) -> impl Iterator<Item = (&str, u32, &ExtractionRecord, Option<u32>)> {
    let before = trace
        .snapshots
        .iter()
        .map(|Snapshot { stage, round, extraction, delta }| (stage.as_str(), *round, extraction, *delta));
    let last = trace.snapshots.last().map_or(0, |last| last.round);
    before.chain([("outcome", last, &trace.extraction, None)])
}

fn stands(trace: &Trace, gold: Option<&ExtractionRecord>) -> Vec<Stand> {
    let right: Option<BTreeSet<String>> = gold.map(|gold| facts(gold).into_values().map(|fact| fact.line).collect());
    let mut before: Option<BTreeMap<String, Fact>> = None;
    let mut all = Vec::new();
    for (stage, round, extraction, delta) in steps(trace) {
        let now = facts(extraction);
        let mut items = changes(before.as_ref().unwrap_or(&now), &now);
        if let Some(right) = &right {
            items.iter_mut().filter(|item| item.change != Change::Gone).for_each(|item| {
                item.right = Some(right.contains(&item.item));
            });
        }
        all.push(Stand { stage: stage.into(), round, delta, items });
        before = Some(now);
    }
    all
}

fn backed(trace: &Trace, gold: Option<&ExtractionRecord>) -> Vec<Backed> {
    let gold = gold.map(facts);
    let found = &trace.extraction;
    let of = |part: ExtractionRecord, support: Option<&Support>| {
        // A relation needs its entities: the fact of the part that is no entity stands last.
        let (key, fact) = facts(&part).into_iter().next_back()?;
        let right = gold.as_ref().map(|gold| gold.contains_key(&key));
        Some(Backed { item: fact.line, support: support.copied(), right })
    };
    let entities = found.entities.iter().enumerate().map(|(at, entity)| {
        let part = ExtractionRecord { entities: vec![entity.clone()], ..ExtractionRecord::default() };
        of(part, trace.entity_support.get(at))
    });
    let relations = found.relations.iter().enumerate().map(|(at, relation)| {
        let ends = [found.entities.get(relation.head)?, found.entities.get(relation.tail)?].map(Clone::clone);
        let mut relation = relation.clone();
        (relation.head, relation.tail) = (0, 1);
        let part = ExtractionRecord { entities: ends.to_vec(), relations: vec![relation], events: vec![] };
        of(part, trace.relation_support.get(at))
    });
    let events = found.events.iter().enumerate().map(|(at, event)| {
        let part = ExtractionRecord { events: vec![event.clone()], ..ExtractionRecord::default() };
        of(part, trace.event_support.get(at))
    });
    entities.chain(relations).chain(events).flatten().collect()
}
