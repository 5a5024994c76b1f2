//! Which documents and items become training data, and why the others do not: every drop has a
//! reason and is counted.

use super::confidence;
use crate::config::{Mode, Plan};
use crate::ie::{Document, Entity, Extraction, Relation, Schema};
use crate::trace::{Support, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// The knobs, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Least confidence of an entity.
    pub threshold: f64,
    /// Least confidence of a relation.
    pub relation_threshold: f64,
    /// A document with a larger share of items below the threshold is left out.
    pub max_dropped_share: f64,
    /// All documents, or the surest of each type.
    pub mode: Mode,
    /// Most documents without an entity, as a share of all.
    pub negatives_share: f64,
}

impl Rules {
    /// The rules of a plan.
    pub fn of(plan: &Plan) -> Rules {
        let filter = &plan.config().filter;
        Rules {
            threshold: filter.threshold,
            relation_threshold: filter.relation_threshold,
            max_dropped_share: filter.max_dropped_share,
            mode: plan.mode(),
            negatives_share: filter.negatives_share,
        }
    }
}

/// A document that is kept, with what is kept of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Ordinal among the documents.
    pub document: usize,
    /// Items with their confidence.
    pub extraction: Extraction,
    /// Mean over its items; 1 for a document of which every agent says that nothing is there.
    pub confidence: f64,
}

/// What the filter did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sieved {
    /// In document order.
    pub kept: Vec<Kept>,
    /// Documents left out, by reason.
    pub documents_dropped: BTreeMap<String, usize>,
    /// Items left out of documents that were looked at, by reason.
    pub items_dropped: BTreeMap<String, usize>,
    /// Kept items by label.
    pub per_type: BTreeMap<String, usize>,
}

/// Applies the rules to the traces of `documents`.
///
/// # Errors
/// If a trace does not fit its document.
pub fn sieve(documents: &[Document], traces: &[Trace], schema: &Schema, rules: &Rules) -> Result<Sieved, String> {
    let mut sieved = Sieved::default();
    for (at, (document, trace)) in documents.iter().zip(traces).enumerate() {
        if document.id != trace.id {
            return Err(format!("trace \"{}\" stands where document \"{}\" is expected", trace.id, document.id));
        }
        match weigh(at, document, trace, rules, &mut sieved.items_dropped)? {
            Ok(kept) => sieved.kept.push(kept),
            Err(reason) => *sieved.documents_dropped.entry(reason).or_default() += 1,
        }
    }
    if let Mode::CasesPerType(cases) = rules.mode {
        surest(&mut sieved, schema, cases);
    }
    cap_negatives(&mut sieved, documents, rules.negatives_share);
    for kept in &sieved.kept {
        let labels =
            kept.extraction.entities.iter().map(|e| &e.label).chain(kept.extraction.relations.iter().map(|r| &r.label));
        for label in labels {
            *sieved.per_type.entry(label.clone()).or_default() += 1;
        }
    }
    Ok(sieved)
}

/// What is kept of one document, or the reason why it is left out.
fn weigh(
    at: usize,
    document: &Document,
    trace: &Trace,
    rules: &Rules,
    items: &mut BTreeMap<String, usize>,
) -> Result<Result<Kept, String>, String> {
    if document.is_blank() {
        return Ok(Err("blank".into()));
    }
    if !trace.is_whole() {
        return Ok(Err("an agent gave no usable answer".into()));
    }
    let mut extraction =
        trace.extraction.clone().read(&document.text).map_err(|error| format!("trace \"{}\": {error}", trace.id))?;
    if extraction.entities.len() != trace.entity_support.len()
        || extraction.relations.len() != trace.relation_support.len()
    {
        return Err(format!("trace \"{}\": items and their support differ in number", trace.id));
    }
    rate(&mut extraction.entities, &trace.entity_support, &mut extraction.relations, &trace.relation_support);
    let all = extraction.entities.len();
    let sure = |entity: &Entity| entity.confidence.is_some_and(|c| c.value() >= rules.threshold);
    let unsure = extraction.entities.iter().filter(|entity| !sure(entity)).count();
    if all > 0 && unsure as f64 / all as f64 > rules.max_dropped_share {
        return Ok(Err("too many items below the threshold".into()));
    }
    let links = extraction.relations.len();
    extraction.retain_entities(|entity| entity.span.is_some() && sure(entity));
    let orphans = links - extraction.relations.len();
    let before = extraction.relations.len();
    extraction.relations.retain(|relation| relation.confidence.is_some_and(|c| c.value() >= rules.relation_threshold));
    for (reason, count) in [
        ("entity below the threshold", unsure),
        ("relation of a dropped entity", orphans),
        ("relation below the threshold", before - extraction.relations.len()),
    ] {
        if count > 0 {
            *items.entry(reason.into()).or_default() += count;
        }
    }
    let values: Vec<f64> =
        extraction.entities.iter().filter_map(|entity| entity.confidence).map(|c| c.value()).collect();
    let confidence = if values.is_empty() { 1.0 } else { values.iter().sum::<f64>() / values.len() as f64 };
    Ok(Ok(Kept { document: at, extraction, confidence }))
}

fn rate(entities: &mut [Entity], entity_support: &[Support], relations: &mut [Relation], relation_support: &[Support]) {
    for (entity, support) in entities.iter_mut().zip(entity_support) {
        entity.confidence = confidence(support);
    }
    for (relation, support) in relations.iter_mut().zip(relation_support) {
        relation.confidence = confidence(support);
    }
}

/// The paper's template fine-tuning (CROSSAGENTIE, section 3.5): the surest documents of each
/// type; a document counts for every type that it holds. Documents with nothing in them stay.
fn surest(sieved: &mut Sieved, schema: &Schema, cases: usize) {
    let labels = schema.entities.iter().map(|t| &t.label).chain(schema.relations.iter().map(|t| &t.label));
    let mut chosen = BTreeSet::new();
    for label in labels {
        let holds = |kept: &&Kept| {
            kept.extraction.entities.iter().any(|e| e.label == *label)
                || kept.extraction.relations.iter().any(|r| r.label == *label)
        };
        let mut holders: Vec<&Kept> = sieved.kept.iter().filter(holds).collect();
        holders.sort_by(|a, b| b.confidence.total_cmp(&a.confidence).then(a.document.cmp(&b.document)));
        chosen.extend(holders.iter().take(cases).map(|kept| kept.document));
    }
    let before = sieved.kept.len();
    sieved.kept.retain(|kept| kept.extraction.is_empty() || chosen.contains(&kept.document));
    let dropped = before - sieved.kept.len();
    if dropped > 0 {
        sieved.documents_dropped.insert("not among the surest of a type".into(), dropped);
    }
}

/// Keeps at most `share` documents without an entity; which ones is decided by their ids.
fn cap_negatives(sieved: &mut Sieved, documents: &[Document], share: f64) {
    let full = sieved.kept.iter().filter(|kept| !kept.extraction.entities.is_empty()).count() as f64;
    let room = if share >= 1.0 { usize::MAX } else { (full * share / (1.0 - share)).floor() as usize };
    let mut empty: Vec<usize> =
        sieved.kept.iter().filter(|kept| kept.extraction.entities.is_empty()).map(|kept| kept.document).collect();
    empty.sort_by_key(|&at| crate::store::hash_bytes(documents[at].id.as_bytes()));
    let spare: BTreeSet<usize> = empty.into_iter().skip(room).collect();
    sieved.kept.retain(|kept| !spare.contains(&kept.document));
    if !spare.is_empty() {
        sieved.documents_dropped.insert("more empty documents than the share allows".into(), spare.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::Status;
    use crate::ie::record::{EntityRecord, ExtractionRecord, RelationRecord};

    const TEXT: &str = "Ann joined Acme in Bern";

    fn trace(id: &str, items: &[(&str, &str, f64)], link: bool) -> Trace {
        let entities = items.iter().map(|(label, text, _)| {
            let start = TEXT.find(text).unwrap();
            EntityRecord {
                label: (*label).into(),
                text: (*text).into(),
                start: Some(start),
                end: Some(start + text.len()),
                confidence: None,
                confidence_source: None,
            }
        });
        let relations = link.then(|| RelationRecord {
            label: "works_for".into(),
            head: 0,
            tail: 1,
            confidence: None,
            confidence_source: None,
        });
        let support = |p: f64| Support { votes: 1, voters: 1, logprob: Some(p.ln()), judged: false };
        Trace {
            extraction: ExtractionRecord {
                entities: entities.collect(),
                relations: relations.clone().into_iter().collect(),
                events: vec![],
            },
            entity_support: items.iter().map(|(_, _, p)| support(*p)).collect(),
            relation_support: relations.iter().map(|_| support(0.9)).collect(),
            status: if items.is_empty() { Status::Empty } else { Status::Ok },
            ..Trace::opened(id, "crossagentie")
        }
    }

    fn rules(mode: Mode) -> Rules {
        Rules { threshold: 0.6, relation_threshold: 0.5, max_dropped_share: 0.5, mode, negatives_share: 0.5 }
    }

    fn documents(count: usize) -> Vec<Document> {
        (0..count).map(|at| Document::new(format!("d{at}"), TEXT)).collect()
    }

    #[test]
    fn a_dropped_entity_takes_its_relation_and_both_are_counted() {
        let traces =
            [trace("d0", &[("person", "Ann", 0.9), ("organization", "Acme", 0.5), ("location", "Bern", 0.6)], true)];
        let sieved = sieve(&documents(1), &traces, &Schema::default(), &rules(Mode::All)).unwrap();
        let kept: Vec<&str> = sieved.kept[0].extraction.entities.iter().map(|e| e.text.as_str()).collect();
        assert_eq!(kept, ["Ann", "Bern"], "the boundary value 0.6 is kept");
        assert!(sieved.kept[0].extraction.relations.is_empty());
        assert_eq!(sieved.items_dropped["entity below the threshold"], 1);
        assert_eq!(sieved.items_dropped["relation of a dropped entity"], 1);
    }

    #[test]
    fn a_document_with_a_failed_agent_is_never_training_data() {
        let mut failed = trace("d0", &[], false);
        failed.status = Status::Failed;
        let sieved = sieve(&documents(1), &[failed], &Schema::default(), &rules(Mode::All)).unwrap();
        assert!(sieved.kept.is_empty());
        assert_eq!(sieved.documents_dropped["an agent gave no usable answer"], 1);
    }

    #[test]
    fn cases_per_type_keeps_the_surest_document_of_each_type() {
        let label = |label: &str| crate::ie::EntityType {
            label: label.into(),
            definition: String::new(),
            aliases: vec![],
            examples: vec![],
        };
        let schema = Schema { entities: vec![label("person"), label("location")], ..Schema::default() };
        let traces = [
            trace("d0", &[("person", "Ann", 0.7)], false),
            trace("d1", &[("person", "Ann", 0.9)], false),
            trace("d2", &[("location", "Bern", 0.8)], false),
        ];
        let sieved = sieve(&documents(3), &traces, &schema, &rules(Mode::CasesPerType(1))).unwrap();
        assert_eq!(sieved.kept.iter().map(|kept| kept.document).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn empty_documents_are_capped_at_their_share() {
        let traces: Vec<Trace> = (0..5)
            .map(|at| trace(&format!("d{at}"), if at == 0 { &[("person", "Ann", 0.9)] } else { &[] }, false))
            .collect();
        let sieved = sieve(&documents(5), &traces, &Schema::default(), &rules(Mode::All)).unwrap();
        assert_eq!(sieved.kept.len(), 2, "one with an entity, one without: a share of one half");
    }
}
