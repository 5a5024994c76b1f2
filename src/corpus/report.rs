//! Every document of a conversion on its way out: its id, the checks that no format can make for
//! itself, and the tally of what was found.

use super::census::Census;
use super::draft::{Draft, cuts_word};
use super::finding::{Finding, KINDS, Kind, LONGEST, Weight, short, shown};
use crate::ie::{Document, Extraction, Schema};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::Path;

/// Examples kept of one kind of fault.
const EXAMPLES: usize = 5;

/// Relations from a mention to itself, as a share, above which a set was broken on its way.
const COLLAPSED: f64 = 0.05;

/// How often a kind of fault occurred, and where first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// All of them.
    pub count: usize,
    /// The first ones: `file:line: what`.
    pub examples: Vec<String>,
}

/// What a conversion found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What the documents hold.
    pub census: Census,
    /// Faults by kind.
    pub faults: BTreeMap<Kind, Tally>,
    ids: HashMap<String, usize>,
    /// Hashes of texts: enough to say how many stand twice.
    texts: HashSet<u64>,
    self_relations: usize,
}

impl Report {
    /// Names, checks and counts one document of a file. With `keep_known`, what the schema does not
    /// have is left out.
    pub(super) fn take(
        &mut self,
        draft: Draft,
        file: &Path,
        schema: Option<&Schema>,
        keep_known: bool,
    ) -> (Document, Vec<Range<usize>>) {
        let line = draft.line;
        let stem = file.file_name().unwrap_or_default().to_string_lossy();
        let stem = stem.split('.').next().unwrap_or_default();
        let wanted = draft.id.clone().unwrap_or_else(|| format!("{stem}-{}", self.census.documents + 1));
        // Where a whole set stands on one line, only the id says which document it is.
        let crowded = line == 1 && self.census.documents > 0;
        let (id, taken) = self.free_id(wanted);
        let (mut document, tokens, mut found) = draft.finish(id);
        let mut say = |kind: Kind, message: String| found.push(Finding { kind, line, message });
        if let Some(wanted) = taken {
            say(Kind::DuplicateId, format!("id {} is taken; this one is {}", shown(&wanted), shown(&document.id)));
        }
        let mut hasher = DefaultHasher::new();
        document.text.hash(&mut hasher);
        if document.is_blank() {
            say(Kind::EmptyText, format!("document {} has no text", shown(&document.id)));
        } else if !self.texts.insert(hasher.finish()) {
            say(Kind::DuplicateText, format!("document {}: {}", shown(&document.id), shown(&document.text)));
        }
        if let Some(gold) = &document.gold {
            self.self_relations += inspect(gold, &document.text, &mut say);
            if let Some(schema) = schema {
                against(gold, schema, &mut say);
            }
        }
        if let (Some(gold), Some(schema), true) = (&mut document.gold, schema, keep_known) {
            restrict(gold, schema);
        }
        if let (Some(gold), true) = (&mut document.gold, keep_known) {
            gold.retain_entities(|entity| !entity.label.trim().is_empty());
            gold.relations.retain(|relation| !relation.label.trim().is_empty());
            gold.events.retain(|event| !event.label.trim().is_empty());
        }
        self.census.take(&document);
        for mut finding in found {
            if crowded {
                finding.message = format!("document {}: {}", shown(&document.id), finding.message);
            }
            self.add(file, &finding);
        }
        (document, tokens)
    }

    /// Adds a fault to the tally.
    fn add(&mut self, file: &Path, finding: &Finding) {
        let tally = self.faults.entry(finding.kind).or_default();
        tally.count += 1;
        if tally.examples.len() < EXAMPLES {
            let message = short(&finding.message, LONGEST);
            tally.examples.push(format!("{}:{}: {message}", file.display(), finding.line));
        }
    }

    /// An id that no document has, and the wanted one if it was taken.
    fn free_id(&mut self, wanted: String) -> (String, Option<String>) {
        let Some(times) = self.ids.get(&wanted).copied() else {
            self.ids.insert(wanted.clone(), 1);
            return (wanted, None);
        };
        let mut number = times + 1;
        while self.ids.contains_key(&format!("{wanted}#{number}")) {
            number += 1;
        }
        self.ids.insert(wanted.clone(), number);
        let free = format!("{wanted}#{number}");
        self.ids.insert(free.clone(), 1);
        (free, Some(wanted))
    }

    /// What only the whole set can show.
    pub(super) fn close(&mut self, file: &Path) {
        let relations = self.census.total_relations();
        if relations > 0 && self.self_relations as f64 > COLLAPSED * relations as f64 {
            let message = format!("{} of {relations} relations lead from a mention to itself", self.self_relations);
            self.add(file, &Finding { kind: Kind::Collapsed, line: 1, message });
        }
    }

    /// Faults of this weight.
    pub fn count(&self, weight: Weight) -> usize {
        self.faults.iter().filter(|(kind, _)| kind.weight() == weight).map(|(_, tally)| tally.count).sum()
    }

    /// The first example of the first heaviest fault.
    pub fn first_broken(&self) -> Option<&str> {
        let broken = self.faults.iter().filter(|(kind, _)| kind.weight() == Weight::Broken);
        broken.filter_map(|(_, tally)| tally.examples.first()).map(String::as_str).next()
    }

    /// The tally as one JSON object.
    pub fn to_json(&self) -> Value {
        let faults = KINDS.iter().filter_map(|kind| {
            let tally = self.faults.get(kind)?;
            let told = json!({"weight": kind.weight().name(), "count": tally.count, "examples": tally.examples});
            Some((kind.name().to_string(), told))
        });
        json!({
            "documents": self.census.documents,
            "without_gold": self.census.without_gold,
            "empty": self.census.empty,
            "entities": self.census.total_entities(),
            "relations": self.census.total_relations(),
            "events": self.census.total_events(),
            "arguments": self.census.total_arguments(),
            "per_type": {
                "entities": self.census.entities,
                "relations": self.census.relations,
                "events": self.census.events,
                "roles": self.census.roles,
            },
            "findings": Value::Object(faults.collect()),
        })
    }

    /// The tally as a table: totals, counts per type, faults with their first places; those of notes
    /// only with `notes`.
    pub fn table(&self, notes: bool) -> String {
        let census = &self.census;
        let mut page = format!("{} documents", census.documents);
        if census.without_gold > 0 {
            let _ = write!(page, ", {} without gold", census.without_gold);
        }
        let _ = writeln!(page, ", {} with nothing annotated", census.empty);
        let parts = [
            ("entities", census.total_entities(), &census.entities),
            ("relations", census.total_relations(), &census.relations),
            ("events", census.total_events(), &census.events),
            ("arguments", census.total_arguments(), &census.roles),
        ];
        for (name, total, types) in parts.into_iter().filter(|(_, total, _)| *total > 0) {
            let mut types: Vec<(&String, &usize)> = types.iter().collect();
            types.sort_by_key(|(label, count)| (std::cmp::Reverse(**count), label.as_str()));
            let listed: Vec<String> = types.iter().map(|(label, count)| format!("{label} {count}")).collect();
            let _ = writeln!(page, "{name:<10} {total:>7}  {}", listed.join(", "));
        }
        page + &self.faults_table(notes)
    }

    /// The faults alone; empty if there are none.
    pub fn faults_table(&self, notes: bool) -> String {
        let mut page = String::new();
        for (kind, tally) in &self.faults {
            let _ = writeln!(page, "{:<10} {:>7}  {}", kind.weight().name(), tally.count, kind.meaning());
            let shown = notes || kind.weight() != Weight::Note;
            for example in tally.examples.iter().filter(|_| shown) {
                let _ = writeln!(page, "{:>20}{example}", "");
            }
        }
        page
    }
}

/// What is odd in one document, whatever its format; returns relations from a mention to itself.
fn inspect(gold: &Extraction, text: &str, say: &mut impl FnMut(Kind, String)) -> usize {
    let mut seen = HashMap::new();
    let labels = gold.entities.iter().map(|entity| &entity.label).chain(gold.relations.iter().map(|r| &r.label));
    let nameless = labels.chain(gold.events.iter().map(|event| &event.label)).filter(|label| label.trim().is_empty());
    nameless.for_each(|_| say(Kind::UnknownLabel, "an item has an empty label".into()));
    for entity in &gold.entities {
        let Some(span) = entity.span else { continue };
        if cuts_word(text, &span.range()) {
            say(Kind::CutsWord, format!("{} {}", entity.label, shown(&entity.text)));
        }
        match seen.insert(span, entity.label.as_str()) {
            Some(label) if label == entity.label => {
                say(Kind::DuplicateItem, format!("{} {}", entity.label, shown(&entity.text)));
            }
            Some(label) => {
                say(Kind::TwoTypes, format!("{} is {label} and {}", shown(&entity.text), entity.label));
            }
            None => {}
        }
    }
    let place = |at: usize| (gold.entities[at].span, gold.entities[at].label.as_str(), gold.entities[at].text.as_str());
    let mut links = HashSet::new();
    let mut loops = 0;
    for relation in &gold.relations {
        let (head, tail) = (&gold.entities[relation.head], &gold.entities[relation.tail]);
        let told = || format!("{} ({}, {})", relation.label, shown(&head.text), shown(&tail.text));
        if relation.head == relation.tail || head.span.is_some() && head.span == tail.span {
            loops += 1;
            say(Kind::SelfRelation, told());
        }
        if !links.insert((relation.label.as_str(), place(relation.head), place(relation.tail))) {
            say(Kind::DuplicateItem, told());
        }
    }
    let mut events = HashSet::new();
    for event in &gold.events {
        let arguments: Vec<_> = event.arguments.iter().map(|a| (a.role.as_str(), a.span, a.text.as_str())).collect();
        if !events.insert((event.label.as_str(), event.trigger.span, event.trigger.text.as_str(), arguments)) {
            say(Kind::DuplicateItem, format!("event {} {}", event.label, shown(&event.trigger.text)));
        }
    }
    loops
}

/// Labels and signatures that the schema does not have.
fn against(gold: &Extraction, schema: &Schema, say: &mut impl FnMut(Kind, String)) {
    for entity in gold.entities.iter().filter(|entity| schema.entity(&entity.label).is_none()) {
        say(Kind::UnknownLabel, format!("entity type {}", shown(&entity.label)));
    }
    for relation in &gold.relations {
        let (head, tail) = (&gold.entities[relation.head], &gold.entities[relation.tail]);
        match schema.relation(&relation.label) {
            None => say(Kind::UnknownLabel, format!("relation type {}", shown(&relation.label))),
            Some(known) if !known.allows(&head.label, &tail.label) => {
                let (head, tail) = (&head.label, &tail.label);
                say(Kind::Signature, format!("{}({head}, {tail})", relation.label));
            }
            Some(_) => {}
        }
    }
    for event in &gold.events {
        match schema.events.iter().find(|known| known.label == event.label) {
            None => say(Kind::UnknownLabel, format!("event type {}", shown(&event.label))),
            Some(known) => {
                let unknown = |role: &&str| !known.roles.iter().any(|known| known.label == *role);
                for role in event.arguments.iter().map(|argument| argument.role.as_str()).filter(unknown) {
                    say(Kind::UnknownLabel, format!("role {} of {}", shown(role), event.label));
                }
            }
        }
    }
}

/// Leaves out what the schema does not have.
fn restrict(gold: &mut Extraction, schema: &Schema) {
    gold.retain_entities(|entity| schema.entity(&entity.label).is_some());
    let labels: Vec<String> = gold.entities.iter().map(|entity| entity.label.clone()).collect();
    gold.relations.retain(|relation| {
        let known = schema.relation(&relation.label);
        known.is_some_and(|known| known.allows(&labels[relation.head], &labels[relation.tail]))
    });
    gold.events.retain(|event| schema.events.iter().any(|known| known.label == event.label));
    for event in &mut gold.events {
        let roles = schema.events.iter().find(|known| known.label == event.label).map(|known| &known.roles);
        event.arguments.retain(|argument| roles.is_some_and(|roles| roles.iter().any(|r| r.label == argument.role)));
    }
}
