//! What systems get wrong, in tables: errors by kind, labels taken for another, what one system
//! fixes and loses against another, and scores on what training did not show.

use super::number::{count, percent, scored};
use super::tables::{Table, names};
use crate::eval::analysis::{Analysis, Subset, Transition};
use crate::eval::errors::{Errors, Kind};
use crate::eval::verdict::Measure;
use std::collections::BTreeMap;

/// Confusions that are shown.
const CONFUSIONS: usize = 20;

/// Entity answers of every system and stage, by what became of them.
pub fn errors(analysis: &Analysis) -> Option<Table> {
    let row = |one: &crate::eval::analysis::SystemErrors| {
        let errors: &Errors = &one.errors;
        let numbers = [
            errors.right,
            errors.total(),
            errors.wrong_type,
            errors.boundary,
            errors.contains,
            errors.contained,
            errors.overlaps,
            errors.missing,
            errors.spurious,
        ];
        [one.name.clone()].into_iter().chain(numbers.map(count)).collect()
    };
    let rows: Vec<Vec<String>> = analysis.systems.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "errors",
        caption:
            "Entities by what became of them. A boundary error touches a gold mention that nothing else was paired \
                  with: it contains it, is contained in it, or overlaps it. A failed document is all missing."
                .into(),
        head: names(&[
            "System or stage",
            "Right",
            "Errors",
            "Wrong type",
            "Boundary",
            "Contains",
            "Contained",
            "Overlaps",
            "Missing",
            "Spurious",
        ]),
        rows,
    })
}

/// Relations, triggers or arguments of every system and stage, by what became of them.
pub fn measured(analysis: &Analysis, measure: Measure) -> Option<Table> {
    let (id, caption) = match measure {
        Measure::Relations => (
            "relation-errors",
            "Relations by what became of them. Wrong label: the right pair under another label, in either direction. \
             Reversed: head and tail exchanged. Wrong type: label and pair right, the type of an end wrong. Boundary: \
             both ends touch those of the gold.",
        ),
        Measure::Triggers => (
            "trigger-errors",
            "Event triggers by what became of them; the kinds are those of entities, the type is the event’s.",
        ),
        Measure::Arguments => (
            "argument-errors",
            "Event arguments by what became of them. Wrong role: the right argument of the right event in another role. \
             Wrong event: the right argument in an event of another type or with another trigger. Boundary: the right \
             event, and a span that touches the gold’s.",
        ),
        Measure::Entities => return None,
    };
    let kinds = Kind::of(measure);
    let row = |one: &crate::eval::analysis::SystemErrors| {
        let tally = &one.other(measure)?.tally;
        let numbers = [tally.right, tally.total()].into_iter().chain(kinds.iter().map(|kind| tally.of(*kind)));
        Some([one.name.clone()].into_iter().chain(numbers.map(count)).collect())
    };
    let rows: Vec<Vec<String>> = analysis.systems.iter().filter_map(row).collect();
    let mut head = names(&["System or stage", "Right", "Errors"]);
    head.extend(kinds.iter().map(|kind| capital(kind.words())));
    (!rows.is_empty()).then(|| Table { id, caption: caption.into(), head, rows })
}

/// The first letter large.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Which labels are taken for which, by system, the most frequent first.
pub fn confusions(analysis: &Analysis, systems: &[&str]) -> Option<Table> {
    let mut systems: Vec<&str> = systems.to_vec();
    systems.retain(|name| analysis.systems.iter().any(|one| one.name == *name));
    systems.dedup();
    let mut cells: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for (at, name) in systems.iter().enumerate() {
        let Some(system) = analysis.systems.iter().find(|one| one.name == *name) else { continue };
        let others = system.others.iter().flat_map(|one| &one.labels);
        for one in system.labels.iter().chain(others).filter(|one| one.gold != one.answered) {
            cells.entry((&one.gold, &one.answered)).or_insert_with(|| vec![0; systems.len()])[at] += one.count;
        }
    }
    let mut cells: Vec<_> = cells.into_iter().collect();
    cells.sort_by_key(|(labels, counts)| (std::cmp::Reverse(counts.iter().sum::<u64>()), *labels));
    let row = |(&(gold, answered), counts): (&(&str, &str), &Vec<u64>)| {
        [format!("{gold} as {answered}")].into_iter().chain(counts.iter().map(|&one| count(one))).collect()
    };
    let rows: Vec<Vec<String>> = cells.iter().take(CONFUSIONS).map(|(labels, counts)| row((labels, counts))).collect();
    let mut head = names(&["Gold and answer"]);
    head.extend(systems.iter().map(|name| name.to_string()));
    (!rows.is_empty()).then(|| Table {
        id: "confusions",
        caption:
            "Labels taken for another, where the place was right: of entities, of relations, and roles of arguments."
                .into(),
        head,
        rows,
    })
}

fn plural(measure: Measure) -> &'static str {
    match measure {
        Measure::Entities => "entities",
        Measure::Relations => "relations",
        Measure::Triggers => "triggers",
        Measure::Arguments => "arguments",
    }
}

/// What changes from one system or stage to another.
pub fn transitions(analysis: &Analysis) -> Option<Table> {
    let row = |one: &Transition| {
        let numbers = [
            one.both,
            one.fixed(),
            one.lost(),
            one.neither,
            one.withdrawn.values().sum(),
            one.introduced.values().sum(),
            one.repeated,
        ];
        let first = [format!("{} → {}", one.from, one.to), plural(one.measure).to_string()];
        first.into_iter().chain(numbers.map(count)).collect()
    };
    let rows: Vec<Vec<String>> = analysis.transitions.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "transitions",
        caption:
            "From one to the other. Gold items: found by both, fixed by the second, lost by it, found by neither. \
                  Wrong answers: withdrawn, introduced, given by both."
                .into(),
        head: names(&["From → to", "Of", "Both", "Fixed", "Lost", "Neither", "Withdrawn", "Introduced", "Repeated"]),
        rows,
    })
}

/// The same by kind of error.
pub fn transition_kinds(analysis: &Analysis) -> Option<Table> {
    let mut rows = Vec::new();
    for one in &analysis.transitions {
        for kind in Kind::ALL {
            let of = |counts: &BTreeMap<Kind, u64>| counts.get(&kind).copied().unwrap_or(0);
            let numbers = [of(&one.fixed), of(&one.lost), of(&one.withdrawn), of(&one.introduced)];
            if numbers.iter().any(|&number| number > 0) {
                let first =
                    [format!("{} → {}", one.from, one.to), plural(one.measure).to_string(), kind.words().to_string()];
                rows.push(first.into_iter().chain(numbers.map(count)).collect());
            }
        }
    }
    (!rows.is_empty()).then(|| Table {
        id: "transition-kinds",
        caption:
            "By kind: how the first missed what was fixed, how the second misses what was lost, and what was wrong \
                  with the answers that were withdrawn and introduced."
                .into(),
        head: names(&["From → to", "Of", "Kind", "Fixed", "Lost", "Withdrawn", "Introduced"]),
        rows,
    })
}

/// Scores on parts of what was measured.
pub fn subsets(analysis: &Analysis) -> Option<Table> {
    let held: Vec<&Subset> = analysis.subsets.iter().filter(|subset| subset.gold > 0).collect();
    let related = held.iter().any(|subset| subset.gold_relations > 0);
    let rows_of = |subset: &&Subset| {
        let row = |one: &crate::eval::analysis::SubsetScore| {
            let mut cells = vec![
                subset.name.clone(),
                one.name.clone(),
                count(subset.documents),
                count(subset.gold),
                scored(one.entities.f1(), one.interval),
                percent(one.entities.precision()),
                percent(one.entities.recall()),
            ];
            if related {
                cells.extend([count(subset.gold_relations), scored(one.relations.f1(), one.relations_interval)]);
            }
            cells
        };
        subset.systems.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = held.iter().flat_map(rows_of).collect();
    let mut head = names(&["Part", "System", "Documents", "Gold", "NER F1", "P", "R"]);
    let mut caption = "F1 on parts of the test documents. A name counts as shown if the student was taught it, in any \
                       case and under any type; documents have a copy in training if half of their word sequences \
                       stand there."
        .to_string();
    if related {
        head.extend(names(&["Gold, RE", "RE F1"]));
        caption += " A relation belongs to what was not shown if one of its ends does.";
    }
    caption += &leakage(analysis);
    (!rows.is_empty()).then_some(Table { id: "subsets", caption, head, rows })
}

/// Whether the test documents stood in training.
fn leakage(analysis: &Analysis) -> String {
    match analysis.leaked {
        Some(0) => " No test document has a copy in training, so all scores are free of leakage.".into(),
        Some(1) => " One test document has a copy in training.".into(),
        Some(leaked) => format!(" {} test documents have a copy in training.", count(leaked)),
        None => String::new(),
    }
}

/// The hardest documents, as a list.
pub fn hardest(analysis: &Analysis) -> Option<Table> {
    let row = |one: &crate::eval::analysis::Hard| {
        let by = one.answers.iter().map(|answer| format!("{} {}", answer.system, answer.mistakes()));
        vec![one.id.clone(), count(one.gold.len() as u64), by.collect::<Vec<_>>().join(", ")]
    };
    let rows: Vec<Vec<String>> = analysis.hardest.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "hardest-list",
        caption: "Documents with most mistakes, by system.".into(),
        head: names(&["Document", "Gold", "Mistakes"]),
        rows,
    })
}
