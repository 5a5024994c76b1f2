//! What of a document a target can hold: the rest is counted before anything is written.
//!
//! UniversalNER and IEPile name mentions by their words: a name is listed once, and read at the place
//! where it stands first. IEPile tells answers apart by their label alone, and `NAN` is its word for
//! nothing.

use super::{Target, WayBack};
use crate::corpus::draft::Draft;
use crate::ie::{Document, Entity, Extraction, Relation};
use std::collections::{HashMap, HashSet};

/// IEPile's word for nothing.
const NOTHING: &str = "NAN";

impl WayBack {
    /// The document with what the target can hold. Tokens are looked at later.
    pub(super) fn holdable(&mut self, document: &Document) -> Document {
        let mut document = document.clone();
        let Some(mut gold) = document.gold.take() else { return document };
        if self.target == Target::InstructUie {
            self.keep(&document, &mut gold, |_, entity| entity.span.is_none().then_some("mentions without offsets"));
        }
        if self.target.needs_schema() {
            self.keep(&document, &mut gold, WayBack::unnameable);
            self.keep_links(&document, &mut gold);
            self.say_what_words_lose(&document, &mut gold);
        }
        if self.target == Target::UniversalNer {
            for event in std::mem::take(&mut gold.events) {
                self.leave_out("events", &document, &event.label);
            }
        }
        document.gold = Some(gold);
        document
    }

    /// Keeps the mentions for which there is no reason against it, and the relations between them.
    fn keep(
        &mut self,
        document: &Document,
        gold: &mut Extraction,
        reason: impl Fn(&WayBack, &Entity) -> Option<&'static str>,
    ) {
        let reasons: Vec<Option<&str>> = gold.entities.iter().map(|entity| reason(self, entity)).collect();
        for (entity, reason) in gold.entities.iter().zip(&reasons) {
            if let Some(reason) = reason {
                self.leave_out(reason, document, &entity.text);
            }
        }
        let loose = |relation: &&Relation| reasons[relation.head].is_some() || reasons[relation.tail].is_some();
        for relation in gold.relations.iter().filter(loose) {
            self.leave_out("relations whose ends were left out", document, &relation.label);
        }
        only(gold, |at| reasons[at].is_none());
    }

    /// Why a mention has no place among answers by label.
    fn unnameable(&self, entity: &Entity) -> Option<&'static str> {
        if self.schema.entity(&entity.label).is_none() {
            return Some("mentions whose label the schema does not have");
        }
        (self.target == Target::IePile && entity.text == NOTHING)
            .then_some("mentions of the word that stands for nothing")
    }

    /// Keeps the relations that have a place among answers by label.
    fn keep_links(&mut self, document: &Document, gold: &mut Extraction) {
        gold.relations.retain(|relation| {
            let reason = match () {
                // The target leaves out all of them, and says so.
                () if self.target == Target::UniversalNer => None,
                () if self.schema.relation(&relation.label).is_none() => {
                    Some("relations whose label the schema does not have")
                }
                () if self.schema.entity(&relation.label).is_some() => Some("relations named as an entity type is"),
                () => None,
            };
            if let Some(reason) = reason {
                self.leave_out(reason, document, &relation.label);
            }
            reason.is_none()
        });
    }

    /// Leaves out mentions whose words are listed already, and counts those that are read elsewhere.
    /// Relations move to the mention that stays: they are written by words as well.
    fn say_what_words_lose(&mut self, document: &Document, gold: &mut Extraction) {
        let mut order: Vec<usize> = (0..gold.entities.len()).collect();
        order.sort_by_key(|&at| (gold.entities[at].span.is_none(), gold.entities[at].span));
        let mut reader = Draft::of_text(0, document.text.as_str());
        let mut listed: HashMap<(String, String), usize> = HashMap::new();
        let mut stays: Vec<usize> = (0..gold.entities.len()).collect();
        for at in order {
            let entity = &gold.entities[at];
            let first = *listed.entry((entity.label.clone(), entity.text.clone())).or_insert(at);
            stays[at] = first;
            if first != at {
                self.leave_out("mentions whose words are listed already", document, &entity.text);
                continue;
            }
            let read = reader.listed_entity(&entity.label, &entity.text);
            self.moved += usize::from(reader.entities()[read].span != entity.span);
        }
        for relation in &mut gold.relations {
            (relation.head, relation.tail) = (stays[relation.head], stays[relation.tail]);
        }
        let names = |relation: &Relation| (relation.label.clone(), relation.head, relation.tail);
        let mut seen = HashSet::new();
        gold.relations.retain(|relation| {
            let fresh = seen.insert(names(relation));
            if !fresh {
                self.leave_out("relations whose words are listed already", document, &relation.label);
            }
            fresh
        });
        only(gold, |at| stays[at] == at);
    }
}

/// Keeps these mentions and the relations between them; what takes part in an event does so by its
/// words, and stays.
fn only(gold: &mut Extraction, keeps: impl Fn(usize) -> bool) {
    let mut place = Vec::with_capacity(gold.entities.len());
    let mut kept = Vec::with_capacity(gold.entities.len());
    for (at, entity) in std::mem::take(&mut gold.entities).into_iter().enumerate() {
        place.push(keeps(at).then_some(kept.len()));
        kept.extend(keeps(at).then_some(entity));
    }
    gold.entities = kept;
    gold.relations.retain_mut(|relation| match (place[relation.head], place[relation.tail]) {
        (Some(head), Some(tail)) => {
            (relation.head, relation.tail) = (head, tail);
            true
        }
        _ => false,
    });
}
