//! The way back: documents as CoNLL columns or as SpERT's JSON, for tools that read those.
//!
//! Tokens are those of the source where it has some. Else a text is cut at white space, around every
//! sign that is neither letter nor digit, and around every character of a script without spaces:
//! never by where mentions stand, for that would tell a tagger where they are.

mod holdable;
mod records;
#[cfg(test)]
mod tests;

use super::finding::shown;
use super::join::is_unspaced;
use crate::ie::{Document, Entity, Schema, Span};
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;

/// What documents are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Token and tag between tabs, IOB2; a line of the text is a sentence.
    Conll,
    /// As [`Target::Conll`], with BIOES tags.
    ConllBioes,
    /// One JSON array of SpERT's records, a record a document.
    Spert,
    /// One JSON array of GLiNER's records: words, and mentions by word, the last one included.
    Gliner,
    /// A JSON line a document: a sentence with its items by name and code points.
    InstructUie,
    /// A JSON line a document: a conversation that asks for each entity type of the schema.
    UniversalNer,
    /// JSON lines, some a document: an instruction of a few labels of the schema, and its answer.
    IePile,
}

impl Target {
    /// Whether it asks for labels, which only a schema knows.
    pub fn needs_schema(self) -> bool {
        matches!(self, Target::UniversalNer | Target::IePile)
    }

    /// Whether the file is one JSON array.
    fn is_array(self) -> bool {
        matches!(self, Target::Spert | Target::Gliner)
    }
}

/// Writes documents one by one, and remembers what the target cannot hold.
#[derive(Debug)]
pub struct WayBack {
    target: Target,
    /// What is asked.
    schema: Schema,
    /// Whether white space alone ends a token.
    by_space: bool,
    written: usize,
    /// Whether somebody looked for relations in the documents to come.
    related: bool,
    /// Lines or records written.
    pub records: usize,
    /// Mentions, relations and events written.
    pub items: usize,
    /// Mentions that are written by their words, and read where these stand first.
    pub moved: usize,
    /// What was left out, and an example of each.
    pub left_out: BTreeMap<&'static str, (usize, String)>,
}

impl WayBack {
    /// Begins a file. With `by_space`, only white space ends a token of a text whose source has none.
    pub fn new(target: Target, by_space: bool) -> WayBack {
        WayBack {
            target,
            schema: Schema::default(),
            by_space,
            written: 0,
            related: true,
            records: 0,
            items: 0,
            moved: 0,
            left_out: BTreeMap::new(),
        }
    }

    /// The same, with the schema whose labels are asked for.
    pub fn asking(self, schema: Schema) -> WayBack {
        WayBack { schema, ..self }
    }

    /// Says whether somebody looked for relations in the documents to come; where nobody did, a
    /// format that can tell silence from "none" says nothing of them.
    pub fn looked_for_relations(&mut self, related: bool) {
        self.related = related;
    }

    /// The bytes of one document.
    pub fn document(&mut self, document: &Document, tokens: &[Range<usize>]) -> Vec<u8> {
        let document = &self.holdable(document);
        let lost = self.lost();
        let cut;
        let tokens: Vec<&Range<usize>> = if tokens.is_empty() {
            cut = tokenised(&document.text, self.by_space);
            cut.iter().collect()
        } else {
            tokens.iter().filter(|token| !token.is_empty()).collect()
        };
        let bytes = match self.target {
            Target::Conll | Target::ConllBioes => self.columns(document, &tokens),
            Target::Spert => self.record(document, &tokens),
            Target::Gliner => self.words(document, &tokens),
            Target::InstructUie => line(&records::instructuie(document, self.related)),
            Target::UniversalNer => line(&records::universalner(document, &self.schema)),
            Target::IePile => records::iepile(document, &self.schema, self.related).iter().flat_map(line).collect(),
        };
        let lines = if self.target == Target::IePile { bytes.iter().filter(|&&byte| byte == b'\n').count() } else { 1 };
        self.records += lines;
        if self.target == Target::UniversalNer {
            let gold = document.gold.iter();
            gold.flat_map(|gold| &gold.relations).for_each(|one| self.leave_out("relations", document, &one.label));
        }
        let gold = document.gold.iter();
        let all: usize = gold.map(|gold| gold.entities.len() + gold.relations.len() + gold.events.len()).sum();
        // Every reason from here on is that of one item.
        self.items += all - (self.lost() - lost);
        self.written += 1;
        bytes
    }

    /// How much was left out so far.
    fn lost(&self) -> usize {
        self.left_out.values().map(|(count, _)| count).sum()
    }

    /// What closes the file.
    pub fn end(&self) -> &'static [u8] {
        match (self.target.is_array(), self.written) {
            (false, _) => b"",
            (true, 0) => b"[]\n",
            (true, _) => b"\n]\n",
        }
    }

    fn leave_out(&mut self, what: &'static str, document: &Document, example: &str) {
        let told = || format!("{}: {}", document.id, shown(example));
        self.left_out.entry(what).or_insert_with(|| (0, told())).0 += 1;
    }

    /// The tokens of a mention; `None`, and counted, if it has none of its own.
    fn place(&mut self, document: &Document, entity: &Entity, tokens: &[&Range<usize>]) -> Option<Range<usize>> {
        let Some(span) = entity.span else {
            self.leave_out("mentions without offsets", document, &entity.text);
            return None;
        };
        let found = aligned(span, tokens);
        if found.is_none() {
            self.leave_out("mentions that cross tokens", document, &entity.text);
        }
        found
    }

    fn columns(&mut self, document: &Document, tokens: &[&Range<usize>]) -> Vec<u8> {
        let mut tags: Vec<String> = vec!["O".into(); tokens.len()];
        let gold = document.gold.clone().unwrap_or_default();
        let mut mentions: Vec<(Range<usize>, &Entity)> = Vec::new();
        for entity in &gold.entities {
            mentions.extend(self.place(document, entity, tokens).map(|place| (place, entity)));
        }
        // The longest of overlapping mentions, the first of equal ones.
        mentions.sort_by_key(|(place, _)| (std::cmp::Reverse(place.len()), place.start));
        for (place, entity) in mentions {
            let text = &document.text;
            let breaks = tokens[place.clone()].windows(2).any(|pair| text[pair[0].end..pair[1].start].contains('\n'));
            if tags[place.clone()].iter().any(|tag| tag != "O") {
                self.leave_out("mentions that overlap a longer one", document, &entity.text);
            } else if breaks {
                self.leave_out("mentions over two sentences", document, &entity.text);
            } else {
                let (first, last) = (place.start, place.end - 1);
                for at in place {
                    let mark = match self.target {
                        Target::ConllBioes if first == last => "S",
                        _ if at == first => "B",
                        Target::ConllBioes if at == last => "E",
                        _ => "I",
                    };
                    tags[at] = format!("{mark}-{}", entity.label);
                }
            }
        }
        for relation in &gold.relations {
            self.leave_out("relations", document, &relation.label);
        }
        for event in &gold.events {
            self.leave_out("events", document, &event.label);
        }
        let mut page = String::new();
        let mut before = 0;
        for (token, tag) in tokens.iter().zip(&tags) {
            if before > 0 && document.text[before..token.start].contains('\n') {
                page.push('\n');
            }
            let word = document.text[(*token).clone()].replace(['\t', '\n'], " ");
            page.push_str(&format!("{word}\t{tag}\n"));
            before = token.end;
        }
        if !tokens.is_empty() {
            page.push('\n');
        }
        page.into_bytes()
    }

    fn record(&mut self, document: &Document, tokens: &[&Range<usize>]) -> Vec<u8> {
        let gold = document.gold.clone().unwrap_or_default();
        let mut places = Vec::new();
        let mut entities = Vec::new();
        for entity in &gold.entities {
            places.push(self.place(document, entity, tokens).map(|place| {
                entities.push(json!({"type": entity.label, "start": place.start, "end": place.end}));
                entities.len() - 1
            }));
        }
        let mut relations = Vec::new();
        for relation in &gold.relations {
            match (places[relation.head], places[relation.tail]) {
                (Some(head), Some(tail)) => {
                    relations.push(json!({"type": relation.label, "head": head, "tail": tail}));
                }
                _ => self.leave_out("relations whose ends were left out", document, &relation.label),
            }
        }
        for event in &gold.events {
            self.leave_out("events", document, &event.label);
        }
        let words: Vec<&str> = tokens.iter().map(|token| &document.text[(*token).clone()]).collect();
        let record = json!({"tokens": words, "entities": entities, "relations": relations, "orig_id": document.id});
        self.item(&record)
    }

    fn words(&mut self, document: &Document, tokens: &[&Range<usize>]) -> Vec<u8> {
        let gold = document.gold.clone().unwrap_or_default();
        let mut mentions = Vec::new();
        for entity in &gold.entities {
            let place = self.place(document, entity, tokens);
            mentions.extend(place.map(|place| json!([place.start, place.end - 1, entity.label])));
        }
        gold.relations.iter().for_each(|relation| self.leave_out("relations", document, &relation.label));
        gold.events.iter().for_each(|event| self.leave_out("events", document, &event.label));
        let words: Vec<&str> = tokens.iter().map(|token| &document.text[(*token).clone()]).collect();
        self.item(&json!({"id": document.id, "tokenized_text": words, "ner": mentions}))
    }

    /// A record of an array.
    fn item(&self, record: &serde_json::Value) -> Vec<u8> {
        let opening = if self.written == 0 { "[\n" } else { ",\n" };
        format!("{opening}{record}").into_bytes()
    }
}

fn line(record: &serde_json::Value) -> Vec<u8> {
    format!("{record}\n").into_bytes()
}

/// The tokens that a span covers exactly.
fn aligned(span: Span, tokens: &[&Range<usize>]) -> Option<Range<usize>> {
    let start = tokens.partition_point(|token| token.start < span.start());
    let end = tokens.partition_point(|token| token.end <= span.end());
    let fits = start < end && tokens[start].start == span.start() && tokens[end - 1].end == span.end();
    fits.then_some(start..end)
}

/// Where the tokens of a text stand.
fn tokenised(text: &str, by_space: bool) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut last: Option<char> = None;
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            last = None;
            continue;
        }
        let alone = |c: char| !by_space && (is_unspaced(c) || !c.is_alphanumeric());
        match (last, found.last_mut()) {
            (Some(before), Some(token)) if !alone(before) && !alone(c) => token.end = at + c.len_utf8(),
            _ => found.push(at..at + c.len_utf8()),
        }
        last = Some(c);
    }
    found
}
