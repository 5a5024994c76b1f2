//! What systems get wrong, in tables: errors by kind, labels taken for another, what one system
//! fixes and loses against another, and scores on what training did not show.

use super::number::{count, percent, scored};
use super::tables::Table;
use crate::eval::analysis::{Analysis, Subset, Transition};
use crate::eval::errors::{Errors, Kind};
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
        head: vec![
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
        ],
        rows,
    })
}

/// Which labels are taken for which, by system, the most frequent first.
pub fn confusions(analysis: &Analysis, systems: &[&str]) -> Option<Table> {
    let mut cells: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for (at, name) in systems.iter().enumerate() {
        let Some(system) = analysis.systems.iter().find(|one| one.name == *name) else { continue };
        for one in system.labels.iter().filter(|one| one.gold != one.answered) {
            cells.entry((&one.gold, &one.answered)).or_insert_with(|| vec![0; systems.len()])[at] = one.count;
        }
    }
    let mut cells: Vec<_> = cells.into_iter().collect();
    cells.sort_by_key(|(labels, counts)| (std::cmp::Reverse(counts.iter().sum::<u64>()), *labels));
    let row = |(&(gold, answered), counts): (&(&str, &str), &Vec<u64>)| {
        [format!("{gold} as {answered}")].into_iter().chain(counts.iter().map(|&one| count(one))).collect()
    };
    let rows: Vec<Vec<String>> = cells.iter().take(CONFUSIONS).map(|(labels, counts)| row((labels, counts))).collect();
    let head = match systems.len() {
        2 => vec!["Gold and answer", "Team", "Student"],
        _ => return None,
    };
    (!rows.is_empty()).then(|| Table {
        id: "confusions",
        caption: format!("Mentions whose span was right and whose type was not: {} and {}.", systems[0], systems[1]),
        head,
        rows,
    })
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
        [format!("{} → {}", one.from, one.to)].into_iter().chain(numbers.map(count)).collect()
    };
    let rows: Vec<Vec<String>> = analysis.transitions.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "transitions",
        caption:
            "From one to the other. Gold mentions: found by both, fixed by the second, lost by it, found by neither. \
                  Wrong answers: withdrawn, introduced, given by both."
                .into(),
        head: vec!["From → to", "Both", "Fixed", "Lost", "Neither", "Withdrawn", "Introduced", "Repeated"],
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
                let first = [format!("{} → {}", one.from, one.to), kind.words().to_string()];
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
        head: vec!["From → to", "Kind", "Fixed", "Lost", "Withdrawn", "Introduced"],
        rows,
    })
}

/// Scores on parts of what was measured.
pub fn subsets(analysis: &Analysis) -> Option<Table> {
    let rows_of = |subset: &Subset| {
        let row = |one: &crate::eval::analysis::SubsetScore| {
            vec![
                subset.name.clone(),
                one.name.clone(),
                count(subset.documents),
                count(subset.gold),
                scored(one.entities.f1(), one.interval),
                percent(one.entities.precision()),
                percent(one.entities.recall()),
            ]
        };
        subset.systems.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = analysis.subsets.iter().filter(|subset| subset.gold > 0).flat_map(rows_of).collect();
    (!rows.is_empty()).then(|| Table {
        id: "subsets",
        caption: "Entity F1 on parts of the test documents. A name counts as shown if the student was taught it, in any \
                  case and under any type; documents have a copy in training if half of their word sequences stand there."
            .into(),
        head: vec!["Part", "System", "Documents", "Gold", "NER F1", "P", "R"],
        rows,
    })
}

/// The hardest documents, as a list.
pub fn hardest(analysis: &Analysis) -> Option<Table> {
    let row = |one: &crate::eval::analysis::Hard| {
        let by = one.answers.iter().map(|answer| format!("{} {}", answer.system, answer.errors.total()));
        vec![one.id.clone(), count(one.gold.len() as u64), by.collect::<Vec<_>>().join(", ")]
    };
    let rows: Vec<Vec<String>> = analysis.hardest.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        id: "hardest-list",
        caption: "Documents with most mistakes, by system.".into(),
        head: vec!["Document", "Gold", "Mistakes"],
        rows,
    })
}
