//! Claimed triples whose ends nobody has listed before: the answers of an expert that finds names
//! and relations at once (CooperKGC's RE agent).
//!
//! **Where an end stands.** If the entities that are given hold its surface (exactly, else folded),
//! it is one of them; otherwise any of its whole-word occurrences in the text. Of several mentions
//! the signature chooses, then closeness, then the text's order.
//!
//! **Its type.** A given entity keeps its type, and a relation that the signature does not allow
//! with it is dropped. A new one takes the first type that all relations kept with it allow, in the
//! order of the first one's signature; an end that is open to all allows the schema's types in
//! order. A relation that leaves no type for one of its ends is dropped.

use super::claims::short;
use super::event::Finder;
use super::link::{folded, said};
use super::{Dropped, Finish, Heard, hear, nothing_kept, once, status};
use crate::ie::{Entity, Extraction, Relation, RelationType, Schema, Span, Status};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Most mentions of one surface that are weighed against those of another.
const MOST_MENTIONS: usize = 512;

/// A relation between two surfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Triple {
    /// A label of the schema.
    pub label: String,
    /// The head's surface.
    pub head: String,
    /// The tail's surface.
    pub tail: String,
    /// In `0..=1`, if the answer gave one that can be read.
    pub confidence: Option<f64>,
    /// The bytes of the raw answer that claim it, brackets included.
    pub bytes: Range<usize>,
}

/// What an answer says of relations between names of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct TripleReading {
    /// `Ok` if anything was kept, `Empty` if the answer says that no relation holds.
    pub status: Status,
    /// Surfaces as they stand in the text; of a symmetric pair the earlier mention is the head.
    pub triples: Vec<Triple>,
    /// The same with mentions and their types, as if nobody else had spoken.
    pub extraction: Extraction,
    /// What it took to read the answer, each kind with its count.
    pub repairs: Vec<String>,
    /// What was not kept.
    pub dropped: Vec<Dropped>,
    /// Why there are no triples, if it failed or was refused.
    pub error: Option<String>,
}

/// Triples joined to entities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Composed {
    /// The given entities, then the new ones; relations in the order of their triples.
    pub extraction: Extraction,
    /// For every relation the ordinal of its triple.
    pub from: Vec<usize>,
    /// Ordinals of triples that were not kept, and why.
    pub dropped: Vec<(usize, Dropped)>,
}

/// Reads which relations an answer claims between names of `text`.
pub fn read_triples(raw: &str, finish: Finish, text: &str, schema: &Schema) -> TripleReading {
    let Heard { ended, repairs } = hear(raw, finish, schema);
    let claims = match ended {
        Ok(claims) => claims,
        Err((status, error)) => {
            let extraction = Extraction::default();
            return TripleReading { status, triples: vec![], extraction, repairs, dropped: vec![], error };
        }
    };
    let claimed: Vec<Triple> = claims
        .links
        .into_iter()
        .map(|link| Triple {
            label: link.label,
            head: link.head.text,
            tail: link.tail.text,
            confidence: link.confidence,
            bytes: link.bytes,
        })
        .collect();
    let Composed { extraction, from, dropped: lost } = compose(&claimed, text, &[], schema);
    let name = |at: usize| extraction.entities[at].text.clone();
    let triples = extraction.relations.iter().zip(from).map(|(relation, at)| Triple {
        head: name(relation.head),
        tail: name(relation.tail),
        ..claimed[at].clone()
    });
    let triples: Vec<Triple> = triples.collect();
    let dropped = once(claims.dropped.into_iter().chain(lost.into_iter().map(|(_, dropped)| dropped)).collect());
    let status = status(triples.is_empty(), !dropped.is_empty());
    let error = (status == Status::Failed).then(|| nothing_kept(&dropped));
    TripleReading { status, triples, extraction, repairs, dropped, error }
}

/// Joins triples to the entities that others have found in `text`.
pub fn compose(triples: &[Triple], text: &str, entities: &[Entity], schema: &Schema) -> Composed {
    let mut mentions = Mentions::of(text, entities, schema);
    let (mut pairs, mut from, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for (at, triple) in triples.iter().enumerate() {
        let found = match schema.relation(&triple.label) {
            None => Err("unknown label".to_owned()),
            Some(kind) => mentions.pair(kind, triple),
        };
        match found {
            Ok(pair) if seen.insert((triple.label.as_str(), pair)) => {
                pairs.push(pair);
                from.push(at);
            }
            Ok(_) => {}
            Err(reason) => {
                let item = format!("{}: {} -> {}", triple.label, short(&triple.head), short(&triple.tail));
                dropped.push((at, Dropped::new(&item, reason)));
            }
        }
    }
    let (entities, places) = mentions.entities(entities);
    let relations = pairs.iter().zip(&from).map(|(&(head, tail), &at)| Relation {
        label: triples[at].label.clone(),
        head: places[&head],
        tail: places[&tail],
        confidence: said(triples[at].confidence),
    });
    let relations = relations.collect();
    Composed { extraction: Extraction { entities, relations, events: vec![] }, from, dropped }
}

/// A place in the text that an end may mean.
struct Mention<'a> {
    /// `None` only for a given entity that has no place.
    span: Option<Span>,
    text: &'a str,
    /// What it still may be: one type, if it is given.
    types: Vec<&'a str>,
    given: bool,
    /// Whether a relation that is kept ends here.
    used: bool,
}

struct Mentions<'a> {
    text: &'a str,
    all: Vec<Mention<'a>>,
    exact: HashMap<String, Vec<usize>>,
    folded: HashMap<String, Vec<usize>>,
    finder: Finder<'a>,
    /// Every type of the schema: what an open end allows.
    types: Vec<&'a str>,
}

impl<'a> Mentions<'a> {
    fn of(text: &'a str, entities: &'a [Entity], schema: &'a Schema) -> Mentions<'a> {
        let types = schema.entities.iter().map(|kind| kind.label.as_str()).collect();
        let (exact, folded) = (HashMap::new(), HashMap::new());
        let mut mentions = Mentions { text, all: vec![], exact, folded, finder: Finder::new(text), types };
        for entity in entities {
            mentions.add(entity.span, &entity.text, vec![entity.label.as_str()], true);
        }
        mentions
    }

    fn add(&mut self, span: Option<Span>, text: &'a str, types: Vec<&'a str>, given: bool) {
        let at = self.all.len();
        self.exact.entry(text.trim().to_owned()).or_default().push(at);
        self.folded.entry(folded(text)).or_default().push(at);
        self.all.push(Mention { span, text, types, given, used: false });
    }

    /// The mentions that an end may mean, in text order; those that nobody has listed are noted.
    fn named(&mut self, surface: &str) -> Result<Vec<usize>, String> {
        let known = |mentions: &Self| {
            let found = mentions.exact.get(surface.trim()).or_else(|| mentions.folded.get(&folded(surface)));
            found.cloned()
        };
        if let Some(found) = known(self) {
            return Ok(self.in_text_order(found));
        }
        let spans: Vec<Span> = self.finder.find(surface)?.iter().take(MOST_MENTIONS).copied().collect();
        let from = self.all.len();
        for span in spans {
            self.add(Some(span), span.slice(self.text), self.types.clone(), false);
        }
        Ok((from..self.all.len()).collect())
    }

    fn in_text_order(&self, mut found: Vec<usize>) -> Vec<usize> {
        found.sort_by_key(|&at| (self.all[at].span.is_none(), self.all[at].span, at));
        found.truncate(MOST_MENTIONS);
        found
    }

    /// Head and tail of a triple, or why there is no such pair; narrows the types of new mentions.
    fn pair(&mut self, kind: &'a RelationType, triple: &Triple) -> Result<(usize, usize), String> {
        let heads = self.named(&triple.head).map_err(|why| format!("the head \"{}\": {why}", short(&triple.head)))?;
        let tails = self.named(&triple.tail).map_err(|why| format!("the tail \"{}\": {why}", short(&triple.tail)))?;
        let fits = |types: &[String], at: usize| {
            self.all[at].types.iter().any(|label| types.is_empty() || types.iter().any(|known| known == label))
        };
        let fitting = |ends: &[usize], types: &[String]| -> Vec<usize> {
            ends.iter().copied().filter(|&at| fits(types, at)).collect()
        };
        let (head_fits, tail_fits) = (fitting(&heads, &kind.head), fitting(&tails, &kind.tail));
        if head_fits.is_empty() || tail_fits.is_empty() {
            let (head, tail) = (self.labels(&heads), self.labels(&tails));
            return Err(format!("the signature of \"{}\" does not allow {head} -> {tail}", kind.label));
        }
        let Some((head, tail)) = self.closest(&head_fits, &tail_fits) else {
            return Err("head and tail are the same mention".into());
        };
        let turns = kind.symmetric && self.start(tail) < self.start(head);
        let turns = turns && fits(&kind.head, tail) && fits(&kind.tail, head);
        let (head, tail) = if turns { (tail, head) } else { (head, tail) };
        self.narrow(head, &kind.head);
        self.narrow(tail, &kind.tail);
        Ok((head, tail))
    }

    /// Keeps the types that a signature allows, in the signature's order until the first relation
    /// has chosen one.
    fn narrow(&mut self, at: usize, allowed: &'a [String]) {
        let mention = &mut self.all[at];
        if !allowed.is_empty() {
            let first = !mention.used && !mention.given;
            let in_order = allowed.iter().map(String::as_str).filter(|label| mention.types.contains(label));
            let kept = mention.types.iter().copied().filter(|label| allowed.iter().any(|known| known == label));
            mention.types = if first { in_order.collect() } else { kept.collect() };
        }
        mention.used = true;
    }

    fn start(&self, at: usize) -> usize {
        self.all[at].span.map_or(usize::MAX, |span| span.start())
    }

    fn labels(&self, ends: &[usize]) -> String {
        let mut labels: Vec<&str> = ends.iter().flat_map(|&at| self.all[at].types.iter().copied()).collect();
        labels.sort_unstable();
        labels.dedup();
        if labels.is_empty() { "a name without a type".into() } else { labels.join("|") }
    }

    /// The closest pair of mentions with different places, both lists in text order.
    fn closest(&self, heads: &[usize], tails: &[usize]) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize, usize)> = None;
        for &head in heads {
            let after = tails.partition_point(|&tail| self.start(tail) < self.start(head));
            // Two on each side: one of them may be the head itself.
            for &tail in &tails[after.saturating_sub(2)..(after + 2).min(tails.len())] {
                let distance = self.start(head).abs_diff(self.start(tail));
                let same =
                    head == tail || (self.all[head].span.is_some() && self.all[head].span == self.all[tail].span);
                if !same && best.is_none_or(|best| distance < best.2) {
                    best = Some((head, tail, distance));
                }
            }
        }
        best.map(|(head, tail, _)| (head, tail))
    }

    /// The given entities, then the new ones that are used, and where each mention went.
    fn entities(self, given: &[Entity]) -> (Vec<Entity>, HashMap<usize, usize>) {
        let mut entities = given.to_vec();
        let mut places: HashMap<usize, usize> = (0..given.len()).map(|at| (at, at)).collect();
        for (at, mention) in self.all.iter().enumerate().filter(|(_, mention)| mention.used && !mention.given) {
            let Some(&label) = mention.types.first() else { continue };
            places.insert(at, entities.len());
            let (label, text) = (label.to_owned(), mention.text.to_owned());
            entities.push(Entity { label, text, span: mention.span, confidence: None });
        }
        (entities, places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Ann Lee works for Acme in Bern, and Acme is near Bern.";

    fn schema() -> Schema {
        toml::from_str(
            "entities = [{ label = 'person' }, { label = 'place' }, { label = 'company' }]\n\
             relations = [{ label = 'works_for', head = ['person'], tail = ['company'] },\n\
             { label = 'located_in', head = ['place', 'company'], tail = ['place'] },\n\
             { label = 'near', symmetric = true }]\n",
        )
        .unwrap()
    }

    fn read(raw: &str, text: &str) -> TripleReading {
        read_triples(raw, Finish::Stop, text, &schema())
    }

    fn shown(found: &Extraction) -> Vec<String> {
        let name = |at: usize| {
            let entity = &found.entities[at];
            format!("{}:{}@{}", entity.label, entity.text, entity.span.unwrap().start())
        };
        found.relations.iter().map(|link| format!("{} {} {}", link.label, name(link.head), name(link.tail))).collect()
    }

    fn entity(label: &str, text: &str) -> Entity {
        let at = TEXT.find(text).unwrap();
        Entity {
            label: label.into(),
            text: text.into(),
            span: Span::new(TEXT, at..at + text.len()).ok(),
            confidence: None,
        }
    }

    #[test]
    fn names_that_nobody_listed_are_found_and_typed_by_what_all_their_relations_allow() {
        let found = read(r#"{"relations":{"located_in":[["acme","Bern"]],"works_for":[["Ann Lee","Acme"]]}}"#, TEXT);
        // Alone, located_in would make Acme a place; works_for leaves it to be a company only.
        assert_eq!(
            shown(&found.extraction),
            ["located_in company:Acme@18 place:Bern@26", "works_for person:Ann Lee@0 company:Acme@18"]
        );
        assert_eq!(found.triples[0].head, "Acme", "as it stands in the text");
        assert_eq!(found.status, Status::Ok);
    }

    #[test]
    fn what_is_not_in_the_text_or_against_the_signature_is_dropped_by_name() {
        let raw = r#"{"relations":{"works_for":[["Bob","Acme"],["Ann Lee","Ann Lee"]],"loves":[["Ann Lee","Bern"]]}}"#;
        let found = read(raw, TEXT);
        let reasons: Vec<&str> = found.dropped.iter().map(|dropped| dropped.reason.as_str()).collect();
        assert_eq!(
            reasons,
            ["unknown label \"loves\"", "the head \"Bob\": not in the text", "head and tail are the same mention"]
        );
        assert_eq!((found.status, found.triples.len()), (Status::Failed, 0));
    }

    #[test]
    fn a_given_entity_keeps_its_type_and_drops_what_the_signature_does_not_allow_with_it() {
        let triple = |label: &str, head: &str, tail: &str| Triple {
            label: label.into(),
            head: head.into(),
            tail: tail.into(),
            confidence: None,
            bytes: 0..0,
        };
        let given = [entity("person", "Ann Lee"), entity("person", "Acme")];
        let triples = [triple("works_for", "Ann Lee", "Acme"), triple("near", "Bern", "Ann Lee")];
        let composed = compose(&triples, TEXT, &given, &schema());
        assert_eq!(composed.dropped[0].1.reason, "the signature of \"works_for\" does not allow person -> person");
        // An open end: the schema's first type. A symmetric pair starts with the earlier mention.
        assert_eq!(shown(&composed.extraction), ["near person:Ann Lee@0 person:Bern@26"]);
        assert_eq!((composed.from, composed.extraction.entities.len()), (vec![1], 3));
    }

    #[test]
    fn grounding_counts_characters_of_every_script() {
        let text = "李雷在华为工作，华为在深圳。";
        let found = read(r#"{"relations":{"works_for":[["李雷","华为"]],"located_in":[["华为","深圳"]]}}"#, text);
        let spans: Vec<(usize, usize)> =
            found.extraction.entities.iter().map(|entity| entity.span.unwrap().to_code_points(text)).collect();
        assert_eq!(found.extraction.relations.len(), 2);
        assert_eq!(spans, [(0, 2), (3, 5), (8, 10), (11, 13)], "the closest mention of each pair");
    }
}
