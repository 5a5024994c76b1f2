//! The knobs of the filter, and what they say of a document and its trace before any threshold is
//! known: which items can be taught at all, and how sure the team is of each.

use super::item::{Cause, Item, Kind, NO_LABEL, Reason, Weighed};
use super::{Bound, Evidence, Method, Score};
use crate::config::{Mode, Plan};
use crate::ie::{Confidence, Document, Event, Extraction, Relation, Schema, Span};
use crate::store::lot;
use crate::trace::Trace;
use std::collections::HashMap;

/// What becomes of an item below the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsure {
    /// The answer is written without it.
    Drop,
    /// It is written and not learned.
    Mask,
    /// The whole document is left out.
    Document,
}

/// What becomes of items that cannot both be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradictory {
    /// Both stay.
    Keep,
    /// The surer one stays.
    Surer,
    /// The whole document is left out.
    Document,
}

/// Which of two entities that overlap stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// Both.
    Keep,
    /// The longer one.
    Outermost,
    /// The shorter one.
    Innermost,
}

/// The knobs, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Least confidence of an entity, a relation, an event.
    pub thresholds: [f64; 3],
    /// What a confidence is.
    pub score: Score,
    /// How it becomes a probability.
    pub calibration: Option<Method>,
    /// Most documents with gold that calibrate.
    pub calibration_documents: usize,
    /// The precision that chooses the threshold.
    pub target_precision: Option<f64>,
    /// How sure it must be that it is reached.
    pub bound: Bound,
    /// The share of items that chooses the threshold.
    pub share_kept: Option<f64>,
    /// What becomes of unsure items.
    pub unsure: Unsure,
    /// A document with a larger share of entities below the threshold is left out.
    pub max_dropped_share: f64,
    /// What becomes of contradictory items.
    pub contradictory: Contradictory,
    /// What becomes of overlapping entities.
    pub nesting: Nesting,
    /// Longest entity, in characters.
    pub max_entity_chars: Option<usize>,
    /// Longest document, in characters.
    pub max_document_chars: Option<usize>,
    /// All documents, or the surest of each type.
    pub mode: Mode,
    /// Fewest documents of every kept type.
    pub min_documents_per_type: usize,
    /// Most documents of a type, as a multiple of the rarest one's.
    pub max_type_ratio: Option<f64>,
    /// Most documents without an entity, as a share of all.
    pub negatives_share: f64,
    /// Share of the conversations that ask for some labels only.
    pub subset_share: f64,
    /// Decides which.
    pub seed: u64,
}

impl Rules {
    /// The rules of a plan, whose words were checked.
    pub fn of(plan: &Plan) -> Rules {
        let filter = &plan.config().filter;
        Rules {
            thresholds: [filter.threshold, filter.relation_threshold, filter.event_threshold],
            score: match filter.score.as_str() {
                "votes" => Score::Votes,
                "least" => Score::Least,
                "margin" => Score::Margin,
                _ => Score::Product,
            },
            calibration: match filter.calibration.as_str() {
                "isotonic" => Some(Method::Isotonic),
                "platt" => Some(Method::Platt),
                _ => None,
            },
            calibration_documents: filter.calibration_documents,
            target_precision: filter.target_precision,
            bound: if filter.precision_bound == "wilson" { Bound::Wilson } else { Bound::Estimate },
            share_kept: filter.share_kept,
            unsure: match filter.unsure_item.as_str() {
                "mask" => Unsure::Mask,
                "document" => Unsure::Document,
                _ => Unsure::Drop,
            },
            max_dropped_share: filter.max_dropped_share,
            contradictory: match filter.contradictory.as_str() {
                "keep" => Contradictory::Keep,
                "document" => Contradictory::Document,
                _ => Contradictory::Surer,
            },
            nesting: match filter.nesting.as_str() {
                "outermost" => Nesting::Outermost,
                "innermost" => Nesting::Innermost,
                _ => Nesting::Keep,
            },
            max_entity_chars: filter.max_entity_chars,
            max_document_chars: filter.max_document_chars,
            mode: plan.mode(),
            min_documents_per_type: filter.min_documents_per_type,
            max_type_ratio: filter.max_type_ratio,
            negatives_share: filter.negatives_share,
            subset_share: filter.subset_share,
            seed: plan.config().seed,
        }
    }
}

/// A trace read against its document: the outcome and the evidence behind each item of it, in the
/// order of [`Weighed::items`].
pub struct Heard {
    /// The outcome, every item with the team's confidence.
    pub extraction: Extraction,
    /// Of entities, relations and events.
    pub evidence: Vec<Evidence>,
}

impl Heard {
    /// Reads a trace.
    ///
    /// # Errors
    /// If it is another document's, or does not fit it.
    pub fn of(document: &Document, trace: &Trace, rules: &Rules) -> Result<Heard, String> {
        if document.id != trace.id {
            return Err(format!("trace \"{}\" stands where document \"{}\" is expected", trace.id, document.id));
        }
        let read = trace.extraction.clone().read(&document.text);
        let mut extraction = read.map_err(|error| format!("trace \"{}\": {error}", trace.id))?;
        // Traces of before 0.2 have no support of events.
        let silent = trace.event_support.is_empty();
        if extraction.entities.len() != trace.entity_support.len()
            || extraction.relations.len() != trace.relation_support.len()
            || (extraction.events.len() != trace.event_support.len() && !silent)
        {
            return Err(format!("trace \"{}\": items and their support differ in number", trace.id));
        }
        let mut needed = vec![0; extraction.entities.len()];
        extraction.relations.iter().for_each(|link| [link.head, link.tail].iter().for_each(|&end| needed[end] += 1));
        let unheard = vec![crate::trace::Support::default(); if silent { extraction.events.len() } else { 0 }];
        let evidence: Vec<Evidence> = (trace.entity_support.iter().zip(needed))
            .chain(
                trace.relation_support.iter().chain(&trace.event_support).chain(&unheard).map(|support| (support, 0)),
            )
            .map(|(support, needed)| Evidence::of(support, needed))
            .collect();
        let mut sure = evidence.iter().map(|evidence| evidence.confidence(rules.score));
        extraction.entities.iter_mut().for_each(|entity| entity.confidence = sure.next().flatten());
        extraction.relations.iter_mut().for_each(|relation| relation.confidence = sure.next().flatten());
        extraction.events.iter_mut().for_each(|event| event.confidence = sure.next().flatten());
        Ok(Heard { extraction, evidence })
    }

    /// What is remembered of it.
    pub fn weighed(&self, document: &Document, trace: &Trace, schema: &Schema, rules: &Rules) -> Weighed {
        let long = |most: usize| document.text.chars().count() > most;
        let cause = if document.is_blank() {
            Some(Cause::Blank)
        } else if !trace.is_whole() {
            Some(Cause::NotWhole)
        } else {
            rules.max_document_chars.is_some_and(long).then_some(Cause::TooLong)
        };
        let gold = document.gold.as_ref();
        let distinct = gold.map(|gold| {
            let mut places: Vec<_> = gold.entities.iter().map(|entity| (entity.span, &entity.label)).collect();
            places.sort();
            places.dedup();
            places.len() as u32
        });
        let mut weighed = Weighed { lot: lot(&document.id), cause, gold: distinct, items: self.items(schema, gold) };
        self.rule_out(&mut weighed.items, schema, rules);
        if contradict(&mut weighed.items, self, schema, rules) && rules.contradictory == Contradictory::Document {
            weighed.cause = weighed.cause.or(Some(Cause::Contradictory));
        }
        weighed
    }

    fn items(&self, schema: &Schema, gold: Option<&Extraction>) -> Vec<Item> {
        let found = &self.extraction;
        let score = |confidence: Option<Confidence>| confidence.map(|confidence| confidence.value());
        let mut first: HashMap<&str, u32> = HashMap::new();
        let entities = found.entities.iter().enumerate().map(|(at, entity)| {
            let same = *first.entry(entity.text.as_str()).or_insert(at as u32);
            let right = |gold: &Extraction| {
                entity.span.is_some()
                    && gold.entities.iter().any(|other| (other.span, &other.label) == (entity.span, &entity.label))
            };
            let label = place(schema.entities.iter().map(|kind| &kind.label), &entity.label);
            let (score, right) = (score(entity.confidence), gold.map(right));
            Item { kind: Kind::Entity, label, score, ruled_out: None, right, ends: [same; 2] }
        });
        let entities: Vec<Item> = entities.collect();
        let relations = found.relations.iter().map(|relation| {
            let label = place(schema.relations.iter().map(|kind| &kind.label), &relation.label);
            let right = gold.map(|gold| is_linked(found, relation, gold, schema));
            let ends = [relation.head as u32, relation.tail as u32];
            Item { kind: Kind::Relation, label, score: score(relation.confidence), ruled_out: None, right, ends }
        });
        let events = found.events.iter().map(|event| {
            let label = place(schema.events.iter().map(|kind| &kind.label), &event.label);
            let right = gold.map(|gold| gold.events.iter().any(|other| is_same(event, other)));
            Item { kind: Kind::Event, label, score: score(event.confidence), ruled_out: None, right, ends: [0; 2] }
        });
        entities.into_iter().chain(relations).chain(events).collect()
    }

    /// What a place, a label or a signature forbids, whatever the score.
    fn rule_out(&self, items: &mut [Item], schema: &Schema, rules: &Rules) {
        let found = &self.extraction;
        let entities = found.entities.iter().map(|entity| {
            let long = |most: usize| entity.text.chars().count() > most;
            match entity.span {
                None => Some(Reason::NotFound),
                _ if schema.entity(&entity.label).is_none() => Some(Reason::NoLabel),
                _ => rules.max_entity_chars.is_some_and(long).then_some(Reason::TooLong),
            }
        });
        let relations = found.relations.iter().map(|relation| {
            let [head, tail] = [relation.head, relation.tail].map(|end| &found.entities[end]);
            match schema.relation(&relation.label) {
                None => Some(Reason::NoLabel),
                _ if relation.head == relation.tail || (head.span.is_some() && head.span == tail.span) => {
                    Some(Reason::Itself)
                }
                Some(kind) if !kind.allows(&head.label, &tail.label) => Some(Reason::Signature),
                Some(_) => None,
            }
        });
        let events = found.events.iter().map(|event| match event.trigger.span {
            None => Some(Reason::NotFound),
            Some(_) => schema.events.iter().all(|kind| kind.label != event.label).then_some(Reason::NoLabel),
        });
        let reasons: Vec<Option<Reason>> = entities.chain(relations).chain(events).collect();
        items.iter_mut().zip(reasons).for_each(|(item, reason)| item.ruled_out = reason);
    }
}

/// The ordinal of a label among those of its kind.
fn place<'a>(mut labels: impl Iterator<Item = &'a String>, label: &str) -> u16 {
    labels.position(|known| known == label).map_or(NO_LABEL, |at| at as u16)
}

/// Whether the gold has the relation: its label, and both ends with their types; of a symmetric one
/// in either direction.
fn is_linked(found: &Extraction, relation: &Relation, gold: &Extraction, schema: &Schema) -> bool {
    let symmetric = schema.relation(&relation.label).is_some_and(|kind| kind.symmetric);
    let same = |ours: usize, theirs: usize| {
        let (ours, theirs) = (&found.entities[ours], &gold.entities[theirs]);
        ours.span.is_some() && (ours.span, &ours.label) == (theirs.span, &theirs.label)
    };
    gold.relations.iter().filter(|other| other.label == relation.label).any(|other| {
        (same(relation.head, other.head) && same(relation.tail, other.tail))
            || (symmetric && same(relation.head, other.tail) && same(relation.tail, other.head))
    })
}

/// Whether everything that the event says stands in the other one.
fn is_same(event: &Event, other: &Event) -> bool {
    let fills = |argument: &crate::ie::Argument| {
        other.arguments.iter().any(|known| known.role == argument.role && known.span == argument.span)
    };
    event.trigger.span.is_some()
        && event.trigger.span == other.trigger.span
        && event.label == other.label
        && event.arguments.iter().all(fills)
}

/// Rules out what stands twice, what overlaps, and what something surer contradicts; says whether
/// anything contradicts anything.
fn contradict(items: &mut [Item], heard: &Heard, schema: &Schema, rules: &Rules) -> bool {
    let entities = &heard.extraction.entities;
    let mut found = false;
    let open = |items: &[Item], at: usize| items[at].ruled_out.is_none();
    for one in 0..entities.len() {
        for two in one + 1..entities.len() {
            let (Some(a), Some(b)) = (entities[one].span, entities[two].span) else { continue };
            if !open(items, one) || !open(items, two) || !a.overlaps(&b) {
                continue;
            }
            match (a == b, entities[one].label == entities[two].label, rules.nesting) {
                (true, true, _) => lose(items, one, two, Reason::Repeated, Reason::Repeated),
                (true, false, _) => {
                    found = true;
                    if rules.contradictory == Contradictory::Surer {
                        lose(items, one, two, Reason::Contradicted, Reason::Undecided);
                    }
                }
                (false, _, Nesting::Keep) => {}
                (false, _, nesting) => {
                    let loser = nested(one, two, (a, b), nesting, items);
                    items[loser].ruled_out = Some(Reason::Nested);
                }
            }
        }
    }
    let first = entities.len();
    let relations = &heard.extraction.relations;
    for one in 0..relations.len() {
        for two in one + 1..relations.len() {
            let (a, b) = (&relations[one], &relations[two]);
            let back = (a.head, a.tail) == (b.tail, b.head);
            if a.label != b.label || !open(items, first + one) || !open(items, first + two) {
                continue;
            }
            if (a.head, a.tail) == (b.head, b.tail) {
                lose(items, first + one, first + two, Reason::Repeated, Reason::Repeated);
            } else if back && schema.relation(&a.label).is_some_and(|kind| kind.symmetric) {
                lose(items, first + one, first + two, Reason::Mirrored, Reason::Mirrored);
            } else if back {
                found = true;
                if rules.contradictory == Contradictory::Surer {
                    lose(items, first + one, first + two, Reason::Contradicted, Reason::Undecided);
                }
            }
        }
    }
    found
}

/// The less sure of two is ruled out. Where both are as sure, and `tie` is that neither is known to
/// be right, both are; of the same item said twice the second.
fn lose(items: &mut [Item], one: usize, two: usize, reason: Reason, tie: Reason) {
    let score = |at: usize| items[at].score.unwrap_or(-1.0);
    match score(one).total_cmp(&score(two)) {
        std::cmp::Ordering::Less => items[one].ruled_out = Some(reason),
        std::cmp::Ordering::Greater => items[two].ruled_out = Some(reason),
        std::cmp::Ordering::Equal if tie == Reason::Undecided => {
            (items[one].ruled_out, items[two].ruled_out) = (Some(tie), Some(tie));
        }
        std::cmp::Ordering::Equal => items[two].ruled_out = Some(tie),
    }
}

/// Which of two overlapping entities goes: by length, then the less sure, then the second.
fn nested(one: usize, two: usize, (a, b): (Span, Span), nesting: Nesting, items: &[Item]) -> usize {
    let length = |span: Span| span.range().len();
    let by_length = match nesting {
        Nesting::Innermost => length(b).cmp(&length(a)),
        _ => length(a).cmp(&length(b)),
    };
    let sure = |at: usize| items[at].score.unwrap_or(-1.0);
    if by_length.then(sure(one).total_cmp(&sure(two))).is_lt() { one } else { two }
}
