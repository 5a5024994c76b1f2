//! Claimed events tied to the text.
//!
//! A trigger takes the first whole-word occurrence that no earlier event of its type took; an
//! argument takes the occurrence that starts closest to the trigger. An argument whose mention
//! has a type that the role does not allow is dropped with a reason.

use super::claims::{Happening, short};
use super::fold::{Places, boundary, fold};
use super::link::{folded, said};
use super::{Dropped, Finish, Heard, hear, nothing_kept, once, status};
use crate::ie::{Argument, Entity, Event, Schema, Span, Status, Trigger};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Most different strings that one answer's events, or its triples, are searched for.
const MOST_STRINGS: usize = 2000;

/// What an answer says of events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventReading {
    /// `Ok` if anything was kept, `Empty` if the answer says that nothing happens.
    pub status: Status,
    /// Where they stand in the text.
    pub events: Vec<Event>,
    /// For every event the bytes of the raw answer that claim it, braces included.
    pub provenance: Vec<Range<usize>>,
    /// What it took to read the answer, each kind with its count.
    pub repairs: Vec<String>,
    /// What was not kept.
    pub dropped: Vec<Dropped>,
    /// Why there are no events, if it failed or was refused.
    pub error: Option<String>,
}

/// Reads which events an answer claims; an argument that is one of `entities` must have a type that
/// its role allows.
pub fn read_events(raw: &str, finish: Finish, text: &str, schema: &Schema, entities: &[Entity]) -> EventReading {
    let Heard { ended, repairs } = hear(raw, finish, schema);
    let claims = match ended {
        Ok(claims) => claims,
        Err((status, error)) => {
            return EventReading { status, events: vec![], provenance: vec![], repairs, dropped: vec![], error };
        }
    };
    let mut dropped = claims.dropped;
    let (events, provenance) = events(&claims.happenings, text, entities, schema, &mut dropped);
    let dropped = once(dropped);
    let status = status(events.is_empty(), !dropped.is_empty());
    let error = (status == Status::Failed).then(|| nothing_kept(&dropped));
    EventReading { status, events, provenance, repairs, dropped, error }
}

/// The claimed events where they stand, and where each was claimed.
pub(super) fn events(
    claimed: &[Happening],
    text: &str,
    entities: &[Entity],
    schema: &Schema,
    dropped: &mut Vec<Dropped>,
) -> (Vec<Event>, Vec<Range<usize>>) {
    let mut finder = Finder::new(text);
    let fillers: HashMap<Span, &str> =
        entities.iter().filter_map(|entity| Some((entity.span?, entity.label.as_str()))).collect();
    let mut taken: HashMap<(&str, Span), usize> = HashMap::new();
    let mut seen = HashSet::new();
    let (mut events, mut places) = (Vec::new(), Vec::new());
    for happening in claimed {
        let spans = match finder.find(&happening.trigger) {
            Ok(spans) => spans,
            Err(reason) => {
                dropped.push(Dropped::new(
                    &happening.item,
                    format!("trigger \"{}\": {reason}", short(&happening.trigger)),
                ));
                continue;
            }
        };
        let turn = taken.entry((&happening.label, spans[0])).or_default();
        let span = spans[(*turn).min(spans.len() - 1)];
        *turn += 1;
        let mut filled: Vec<(&str, Span)> = Vec::new();
        let mut unique = HashSet::new();
        for (role, surface) in &happening.arguments {
            match filler(&happening.label, role, surface, span, &mut finder, &fillers, schema) {
                Ok(argument) if unique.insert((role.as_str(), argument)) => filled.push((role, argument)),
                Ok(_) => {}
                Err(reason) => dropped.push(Dropped::new(surface, format!("role \"{role}\": {reason}"))),
            }
        }
        if seen.insert((happening.label.as_str(), span, filled.clone())) {
            let written = |span: Span| span.slice(text).to_owned();
            let arguments = filled.into_iter().map(|(role, span)| Argument {
                role: role.into(),
                text: written(span),
                span: Some(span),
            });
            events.push(Event {
                label: happening.label.clone(),
                trigger: Trigger { text: written(span), span: Some(span) },
                arguments: arguments.collect(),
                confidence: said(happening.confidence),
            });
            places.push(happening.bytes.clone());
        }
    }
    (events, places)
}

fn filler(
    event: &str,
    role: &str,
    surface: &str,
    trigger: Span,
    finder: &mut Finder,
    fillers: &HashMap<Span, &str>,
    schema: &Schema,
) -> Result<Span, String> {
    let spans = finder.find(surface)?;
    let after = spans.partition_point(|span| span.start() < trigger.start());
    let near = &spans[after.saturating_sub(1)..(after + 1).min(spans.len())];
    let span = *near.iter().min_by_key(|span| span.start().abs_diff(trigger.start())).ok_or("not in the text")?;
    let kind = schema.events.iter().find(|kind| kind.label == event);
    let role = kind.and_then(|kind| kind.roles.iter().find(|known| known.label == role));
    match (role, fillers.get(&span)) {
        (Some(role), Some(&label)) if !role.types.is_empty() && !role.types.iter().any(|known| known == label) => {
            Err(format!("the role does not allow {label}; it asks for {}", role.types.join(", ")))
        }
        _ => Ok(span),
    }
}

/// Whole-word occurrences of single strings; each distinct string is searched once.
pub(super) struct Finder<'a> {
    text: &'a str,
    folded: Option<Symbols>,
    known: HashMap<String, Vec<Span>>,
}

/// The folded text as a string, where each symbol came from, and where each starts in the string.
struct Symbols {
    all: String,
    places: Places,
    starts: Vec<usize>,
}

impl Symbols {
    fn of(text: &str) -> Symbols {
        let folded = fold(text);
        let all: String = folded.symbols.into_iter().collect();
        let starts = all.char_indices().map(|(at, _)| at).collect();
        Symbols { all, places: folded.places, starts }
    }
}

impl<'a> Finder<'a> {
    pub fn new(text: &'a str) -> Finder<'a> {
        Finder { text, folded: None, known: HashMap::new() }
    }

    /// In text order and never empty.
    pub fn find(&mut self, surface: &str) -> Result<&[Span], String> {
        let surface = surface.trim();
        if !self.known.contains_key(surface) {
            if self.known.len() >= MOST_STRINGS {
                return Err(format!("the answer names more than {MOST_STRINGS} strings"));
            }
            let spans = self.search(surface);
            self.known.insert(surface.to_owned(), spans);
        }
        match self.known.get(surface) {
            Some(spans) if !spans.is_empty() => Ok(spans),
            _ => Err("not in the text".into()),
        }
    }

    fn search(&mut self, surface: &str) -> Vec<Span> {
        let text = self.text;
        let wanted = folded(surface);
        if surface.is_empty() || wanted.is_empty() {
            return Vec::new();
        }
        let clean =
            |range: Range<usize>| boundary(text, range.start, range.end).then(|| Span::new(text, range).ok()).flatten();
        let exact: Vec<Span> =
            text.match_indices(surface).filter_map(|(at, _)| clean(at..at + surface.len())).collect();
        if !exact.is_empty() {
            return exact;
        }
        let Symbols { all, places, starts } = self.folded.get_or_insert_with(|| Symbols::of(text));
        let length = wanted.chars().count();
        let found = all.match_indices(&wanted).filter_map(|(at, _)| {
            let symbol = starts.binary_search(&at).ok()?;
            clean(places.range(symbol, symbol + length)?)
        });
        found.collect()
    }
}
