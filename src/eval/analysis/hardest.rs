//! The documents that are read worst, with their text and what annotators and systems found.

use super::{Asked, Reading, under};
use crate::eval::align::Rules;
use crate::eval::errors::{Errors, Tally};
use crate::eval::verdict::Measure;
use crate::ie::record::{EntityRecord, ExtractionRecord};
use crate::ie::{Document, Entity, Extraction, Relation};
use serde::{Deserialize, Serialize};

/// Characters of a hard document that are shown.
pub(super) const SHOWN: usize = 1200;

/// A document that is read badly, and by whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hard {
    /// Its id.
    pub id: String,
    /// Its text, or the beginning of a long one.
    pub text: String,
    /// Characters of the text that are not shown, mentions in them included.
    pub cut: u64,
    /// What annotators found.
    pub gold: Vec<EntityRecord>,
    /// The relations that they found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gold_relations: Vec<Link>,
    /// What the systems found.
    pub answers: Vec<Answer>,
}

/// What a system found in a hard document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The system.
    pub system: String,
    /// Mistakes in this document.
    pub errors: Errors,
    /// Its entities.
    pub entities: Vec<EntityRecord>,
    /// Mistakes in its relations.
    #[serde(default)]
    pub wrong_relations: u64,
    /// Its relations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<Link>,
}

impl Answer {
    /// Mistakes of either kind.
    pub fn mistakes(&self) -> u64 {
        self.errors.total() + self.wrong_relations
    }
}

/// A relation by the words of its ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its label.
    pub label: String,
    /// The words of its head.
    pub head: String,
    /// The words of its tail.
    pub tail: String,
    /// Whether the gold has it.
    pub right: bool,
}

pub(super) fn hardest(
    documents: &[Document],
    golds: &[Extraction],
    readings: &[(String, Vec<Extraction>)],
    aligned: &[Reading<'_>],
    shown: &[usize],
    asked: &Asked<'_>,
) -> Vec<Hard> {
    let tally = |system: usize, at: usize, measure: Measure| under(&aligned[system][at], measure).map(|one| &one.tally);
    let wrong = |system: usize, at: usize, measure: Measure| tally(system, at, measure).map_or(0, Tally::total);
    let both = [Measure::Entities, Measure::Relations];
    let mistakes =
        |at: usize| -> u64 { shown.iter().flat_map(|&system| both.map(|measure| wrong(system, at, measure))).sum() };
    let mut order: Vec<(u64, usize)> =
        (0..documents.len()).map(|at| (mistakes(at), at)).filter(|(mistakes, _)| *mistakes > 0).collect();
    order.sort_by_key(|&(mistakes, at)| (std::cmp::Reverse(mistakes), at));
    let hard = |(_, at): (u64, usize)| {
        let document = &documents[at];
        let letters = document.text.chars().count();
        let shown_letters = letters.min(SHOWN);
        let entities = |extraction: &Extraction| {
            let mut entities = ExtractionRecord::of(extraction, &document.text).entities;
            entities.retain(|entity| entity.end.is_none_or(|end| end <= shown_letters));
            entities
        };
        let links = |of: &Extraction| links(of, &golds[at], &asked.rules);
        let answer = |&system: &usize| {
            let found = readings[system].1.get(at);
            Answer {
                system: readings[system].0.clone(),
                errors: tally(system, at, Measure::Entities).map(Errors::from).unwrap_or_default(),
                entities: found.map(&entities).unwrap_or_default(),
                wrong_relations: wrong(system, at, Measure::Relations),
                relations: found.map(links).unwrap_or_default(),
            }
        };
        Hard {
            id: document.id.clone(),
            text: document.text.chars().take(shown_letters).collect(),
            cut: (letters - shown_letters) as u64,
            gold: entities(&golds[at]),
            answers: shown.iter().map(answer).collect(),
            gold_relations: links(&golds[at]),
        }
    };
    order.into_iter().take(asked.hardest).map(hard).collect()
}

/// The relations of an extraction, each once, and whether the truth has them: label, and place and
/// type of both ends, in either order where the relation has no direction.
fn links(of: &Extraction, truth: &Extraction, rules: &Rules) -> Vec<Link> {
    let ends = |of: &'_ Extraction, relation: &Relation| {
        let [head, tail] = [relation.head, relation.tail].map(|at| of.entities.get(at).cloned());
        Some((head?, tail?))
    };
    let same = |a: &Entity, b: &Entity| a.span.is_some() && (a.span, &a.label) == (b.span, &b.label);
    let is_right = |label: &str, (head, tail): &(Entity, Entity)| {
        let both_ways = rules.symmetric.contains(label);
        let alike = truth.relations.iter().filter(|one| one.label == label).filter_map(|one| ends(truth, one));
        alike
            .into_iter()
            .any(|(a, b)| same(&a, head) && same(&b, tail) || both_ways && same(&a, tail) && same(&b, head))
    };
    let mut links: Vec<Link> = Vec::new();
    for relation in &of.relations {
        let Some(found) = ends(of, relation) else { continue };
        let right = is_right(&relation.label, &found);
        let link = Link { label: relation.label.clone(), head: found.0.text, tail: found.1.text, right };
        if !links.contains(&link) {
            links.push(link);
        }
    }
    links
}
