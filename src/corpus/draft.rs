//! A document in the making: a text or tokens, and mentions located by whatever the format says —
//! token indexes, code points, or only the words.

use super::finding::{Finding, Kind, shown};
use super::join::{Join, joined};
use crate::ie::{Argument, Document, Entity, Event, Extraction, Relation, Span, Trigger};
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

/// How far off an offset may be, in code points, to be moved to the nearest of several places.
const NEAR: u64 = 3;

/// A document in the making.
pub(super) struct Draft {
    /// The format's own id; `None` takes the file's name and the ordinal.
    pub(super) id: Option<String>,
    /// Line of the record, counting from 1.
    pub(super) line: usize,
    /// The source's own fields.
    pub(super) meta: Map<String, Value>,
    /// What is wrong so far.
    pub(super) findings: Vec<Finding>,
    text: String,
    /// Byte range of every token; empty if the format has none.
    tokens: Vec<Range<usize>>,
    /// Byte offset of every code point, and the length.
    points: OnceCell<Vec<usize>>,
    gold: Extraction,
    annotated: bool,
    /// How often a surface was asked for as a listed mention.
    listed: HashMap<(String, String), usize>,
    known: HashMap<(String, Option<Span>, String), usize>,
}

impl Draft {
    /// A document whose text the format gives.
    pub(super) fn of_text(line: usize, text: impl Into<String>) -> Draft {
        Draft {
            id: None,
            line,
            meta: Map::new(),
            findings: Vec::new(),
            text: text.into(),
            tokens: Vec::new(),
            points: OnceCell::new(),
            gold: Extraction::default(),
            annotated: true,
            listed: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// A document whose text is rebuilt from tokens.
    pub(super) fn of_tokens(line: usize, tokens: &[impl AsRef<str>], join: Join) -> Draft {
        Draft::of_sentences(line, &[tokens], join)
    }

    /// A document whose text is rebuilt from the tokens of its sentences, one a line. Token indexes
    /// count through all sentences.
    pub(super) fn of_sentences<T: AsRef<str>>(line: usize, sentences: &[&[T]], join: Join) -> Draft {
        let mut text = String::new();
        let mut tokens: Vec<Range<usize>> = Vec::new();
        for sentence in sentences {
            let (words, ranges) = joined(sentence, join);
            if !text.is_empty() && !words.is_empty() {
                text.push('\n');
            }
            let start = text.len();
            text.push_str(&words);
            tokens.extend(ranges.into_iter().map(|range| start + range.start..start + range.end));
        }
        let empty = tokens.iter().filter(|range| range.is_empty()).count();
        let count = tokens.len();
        let mut draft = Draft::of_text(line, text);
        draft.tokens = tokens;
        if empty > 0 {
            draft.say(Kind::EmptyToken, format!("{empty} of {count} tokens are empty"));
        }
        draft
    }

    /// Says that nobody annotated this document.
    pub(super) fn without_gold(mut self) -> Draft {
        self.annotated = false;
        self
    }

    /// Sets where tokens stand in a text that the format gave.
    pub(super) fn set_tokens(&mut self, tokens: Vec<Range<usize>>) {
        self.tokens = tokens;
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn entities(&self) -> &[Entity] {
        &self.gold.entities
    }

    pub(super) fn say(&mut self, kind: Kind, message: impl Into<String>) {
        self.say_at(self.line, kind, message);
    }

    pub(super) fn say_at(&mut self, line: usize, kind: Kind, message: impl Into<String>) {
        self.findings.push(Finding { kind, line, message: message.into() });
    }

    // ─────────────────────────────── where something stands ───────────────────────────────

    /// The span of tokens `start..end`.
    pub(super) fn token_span(&mut self, what: &str, start: i64, end: i64) -> Option<Span> {
        let count = self.tokens.len();
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let Some((start, end)) = range.filter(|(start, end)| start < end && *end <= count) else {
            self.say(Kind::Outside, format!("{what}: tokens {start}..{end} of {count} (end exclusive)"));
            return None;
        };
        match Span::new(&self.text, self.tokens[start].start..self.tokens[end - 1].end) {
            Ok(span) => Some(span),
            Err(_) => {
                self.say(Kind::Outside, format!("{what}: tokens {start}..{end} are all empty"));
                None
            }
        }
    }

    fn points(&self) -> &[usize] {
        self.points.get_or_init(|| self.text.char_indices().map(|(at, _)| at).chain([self.text.len()]).collect())
    }

    /// The span of code points `start..end`.
    pub(super) fn span(&self, start: i64, end: i64) -> Option<Span> {
        let points = self.points();
        let at = |point: i64| usize::try_from(point).ok().and_then(|point| points.get(point).copied());
        Span::new(&self.text, at(start)?..at(end)?).ok()
    }

    /// The span of code points `start..end`, held against the surface that the format gives. Where
    /// they differ the words win: the span moves to where they stand, if that is near or the only place.
    pub(super) fn point_span(&mut self, what: &str, surface: Option<&str>, start: i64, end: i64) -> Option<Span> {
        let span = self.span(start, end);
        let Some(surface) = surface else {
            if span.is_none() {
                let length = self.points().len() - 1;
                self.say(Kind::Outside, format!("{what}: {start}..{end} in a text of {length} code points"));
            }
            return span;
        };
        if let Some(span) = span.filter(|span| span.slice(&self.text) == surface) {
            return Some(span);
        }
        let wanted = surface.trim();
        let places = self.places(wanted);
        let claimed = usize::try_from(start).ok().and_then(|start| self.points().get(start).copied());
        let near = claimed.and_then(|claimed| places.iter().copied().min_by_key(|place| place.abs_diff(claimed)));
        let shift = |place: usize| (self.point_of(place) as i64).saturating_sub(start);
        let place = match (near, places.as_slice()) {
            (Some(place), _) if shift(place).unsigned_abs() <= NEAR => Some(place),
            (_, [only]) => Some(*only),
            _ => None,
        };
        let found = place.and_then(|place| Span::new(&self.text, place..place + wanted.len()).ok());
        match (found, place) {
            (Some(found), Some(place)) => {
                let shift = shift(place);
                self.say(
                    Kind::Moved,
                    format!("{what}: {} stood at {start}..{end}, moved by {shift:+}", shown(surface)),
                );
                Some(found)
            }
            _ => {
                let there = span.map_or("nothing".to_string(), |span| shown(span.slice(&self.text)));
                let kind = if span.is_none() && places.is_empty() { Kind::Outside } else { Kind::Mismatch };
                let said =
                    format!("{what}: {} should stand at {start}..{end}; the text there is {there}", shown(surface));
                self.say(kind, said);
                None
            }
        }
    }

    /// Which code point begins at this byte.
    fn point_of(&self, byte: usize) -> usize {
        self.points().partition_point(|at| *at < byte)
    }

    /// Bytes at which the words stand; at word borders only, if they stand at any.
    fn places(&self, surface: &str) -> Vec<usize> {
        if surface.is_empty() {
            return Vec::new();
        }
        let all: Vec<usize> = self.text.match_indices(surface).map(|(at, _)| at).collect();
        let whole: Vec<usize> =
            all.iter().copied().filter(|&at| !cuts_word(&self.text, &(at..at + surface.len()))).collect();
        if whole.is_empty() { all } else { whole }
    }

    /// Where words stand that the format gives without offsets: the `nth` place, or one that does
    /// not overlap `beside`; else the first. Says where that was a choice, or where there is none.
    pub(super) fn find(&mut self, what: &str, surface: &str, nth: usize, beside: Option<Span>) -> Option<Span> {
        let wanted = surface.trim();
        let places = self.places(wanted);
        let span = |at: usize| Span::new(&self.text, at..at + wanted.len()).ok();
        let free = || {
            let apart = |span: &Span| beside.is_none_or(|beside| !beside.overlaps(span));
            places.iter().filter_map(|at| span(*at)).find(apart)
        };
        let found = if beside.is_some() { free() } else { places.get(nth).and_then(|at| span(*at)) };
        let found = found.or_else(|| places.first().and_then(|at| span(*at)));
        match found {
            None => self.say(Kind::NotFound, format!("{what}: {} is not in the text", shown(surface))),
            Some(_) if places.len() > 1 => {
                self.say(Kind::Ambiguous, format!("{what}: {} stands {} times", shown(surface), places.len()));
            }
            Some(_) => {}
        }
        found
    }

    // ──────────────────────────────────── what stands there ────────────────────────────────────

    /// Adds a mention and returns its ordinal.
    pub(super) fn entity(&mut self, label: &str, span: Option<Span>, surface: &str) -> usize {
        let text = span.map_or(surface, |span| span.slice(&self.text)).to_string();
        self.known.entry((label.into(), span, text.clone())).or_insert(self.gold.entities.len());
        self.gold.entities.push(Entity { label: label.into(), text, span, confidence: None });
        self.gold.entities.len() - 1
    }

    /// The ordinal of a mention, added if it is not there yet.
    pub(super) fn entity_once(&mut self, label: &str, span: Option<Span>, surface: &str) -> usize {
        let text = span.map_or(surface, |span| span.slice(&self.text));
        match self.known.get(&(label.to_string(), span, text.to_string())) {
            Some(at) => *at,
            None => self.entity(label, span, surface),
        }
    }

    /// Adds a mention that a list names by its words: the first of the list takes the first place
    /// where they stand, the second the second.
    pub(super) fn listed_entity(&mut self, label: &str, surface: &str) -> usize {
        let nth = self.listed.entry((label.into(), surface.into())).or_default();
        *nth += 1;
        let nth = *nth - 1;
        let span = self.find(label, surface, nth, None);
        self.entity(label, span, surface)
    }

    /// Adds both ends of a triple of words, and the relation between them; returns its ordinal.
    pub(super) fn triple(&mut self, head: (&str, &str), label: &str, tail: (&str, &str)) -> usize {
        let first = self.find(head.0, head.1, 0, None);
        let second = self.find(tail.0, tail.1, 0, first);
        // The head that stands inside its tail's only place may stand elsewhere too.
        let first = match (first, second) {
            (Some(a), Some(b)) if a.overlaps(&b) && head.1 != tail.1 => {
                let before = self.findings.len();
                let other = self.find(head.0, head.1, 0, Some(b));
                self.findings.truncate(before);
                other
            }
            _ => first,
        };
        let head = self.entity_once(head.0, first, head.1);
        let tail = self.entity_once(tail.0, second, tail.1);
        self.relation(label, head, tail);
        self.gold.relations.len() - 1
    }

    /// Adds a relation between two mentions that are there.
    pub(super) fn relation(&mut self, label: &str, head: usize, tail: usize) {
        debug_assert!(head < self.gold.entities.len() && tail < self.gold.entities.len());
        self.gold.relations.push(Relation { label: label.into(), head, tail, confidence: None });
    }

    /// The tail of the relation with this ordinal.
    pub(super) fn tail_of(&self, relation: usize) -> Option<usize> {
        self.gold.relations.get(relation).map(|relation| relation.tail)
    }

    /// Adds a relation whose ends the format names; says which of them is not there.
    pub(super) fn relation_between<Name: std::fmt::Display>(
        &mut self,
        label: &str,
        head: (Name, Option<usize>),
        tail: (Name, Option<usize>),
    ) {
        match (head.1, tail.1) {
            (Some(head), Some(tail)) => self.relation(label, head, tail),
            (None, _) => {
                self.say(Kind::MissingEnd, format!("relation {}: its head {} is no mention", shown(label), head.0));
            }
            (_, None) => {
                self.say(Kind::MissingEnd, format!("relation {}: its tail {} is no mention", shown(label), tail.0));
            }
        }
    }

    /// Adds an event and returns its ordinal.
    pub(super) fn event(&mut self, label: &str, span: Option<Span>, surface: &str) -> usize {
        let text = span.map_or(surface, |span| span.slice(&self.text)).to_string();
        let trigger = Trigger { text, span };
        self.gold.events.push(Event { label: label.into(), trigger, arguments: Vec::new(), confidence: None });
        self.gold.events.len() - 1
    }

    /// Adds a participant to the event with this ordinal.
    pub(super) fn argument(&mut self, event: usize, role: &str, span: Option<Span>, surface: &str) {
        let text = span.map_or(surface, |span| span.slice(&self.text)).to_string();
        if let Some(event) = self.gold.events.get_mut(event) {
            event.arguments.push(Argument { role: role.into(), text, span });
        }
    }

    /// The finished document under this id, its tokens, and what was found.
    pub(super) fn finish(self, id: String) -> (Document, Vec<Range<usize>>, Vec<Finding>) {
        let meta = if self.meta.is_empty() { String::new() } else { Value::Object(self.meta).to_string() };
        let gold = self.annotated.then_some(self.gold);
        (Document { id, text: self.text, gold, meta }, self.tokens, self.findings)
    }
}

/// Whether a range begins or ends inside a word, where words have spaces between them.
pub(super) fn cuts_word(text: &str, range: &Range<usize>) -> bool {
    let inner = |a: Option<char>, b: Option<char>| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !super::join::is_unspaced(c));
        letter(a) && letter(b)
    };
    let inside = &text[range.clone()];
    inner(text[..range.start].chars().next_back(), inside.chars().next())
        || inner(inside.chars().next_back(), text[range.end..].chars().next())
}
