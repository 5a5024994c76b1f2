//! Claimed relations and events tied to the mentions they speak of.
//!
//! An end is matched to the mentions by surface, exactly or folded. Of several mentions the
//! signature chooses; of those it allows, the pair that stands closest, the first in the text
//! where two are equally close. A relation is dropped with a reason if an end is not among the
//! entities, if both ends are one mention, or if no pair fits the signature.

use super::Dropped;
use super::claims::{End, Happening, Link, short};
use super::fold::{boundary, fold};
use crate::ie::{Argument, Confidence, ConfidenceSource, Entity, Event, Relation, Schema, Span, Trigger};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Most different strings that the events of one answer are searched for.
const MOST_STRINGS: usize = 2000;

fn said(value: Option<f64>) -> Option<Confidence> {
    value.and_then(|value| Confidence::new(value, ConfidenceSource::SelfReport))
}

fn folded(text: &str) -> String {
    fold(text.trim()).symbols.into_iter().collect()
}

/// Mentions by surface.
struct Mentions<'a> {
    entities: &'a [Entity],
    exact: HashMap<&'a str, Vec<usize>>,
    folded: HashMap<String, Vec<usize>>,
}

impl<'a> Mentions<'a> {
    fn of(entities: &'a [Entity]) -> Mentions<'a> {
        let mut order: Vec<usize> = (0..entities.len()).collect();
        order.sort_by_key(|&at| (entities[at].span.is_none(), entities[at].span, at));
        let mut mentions = Mentions { entities, exact: HashMap::new(), folded: HashMap::new() };
        for at in order {
            let text = entities[at].text.as_str();
            mentions.exact.entry(text.trim()).or_default().push(at);
            mentions.folded.entry(folded(text)).or_default().push(at);
        }
        mentions
    }

    /// Mentions of this surface in text order.
    fn named(&self, end: &End) -> Vec<usize> {
        let found = self.exact.get(end.text.trim()).or_else(|| self.folded.get(&folded(&end.text)));
        let fits = |&at: &usize| end.label.as_ref().is_none_or(|label| *label == self.entities[at].label);
        found.map(|found| found.iter().copied().filter(fits).collect()).unwrap_or_default()
    }

    fn start(&self, at: usize) -> usize {
        self.entities[at].span.map_or(usize::MAX, |span| span.start())
    }

    /// The closest pair of different mentions, both lists in text order.
    fn closest(&self, heads: &[usize], tails: &[usize]) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize, usize)> = None;
        let mut from = 0;
        for &head in heads {
            while from < tails.len() && self.start(tails[from]) < self.start(head) {
                from += 1;
            }
            // The neighbours on both sides, and one more on each for a head that is itself among the tails.
            for &tail in &tails[from.saturating_sub(2)..(from + 2).min(tails.len())] {
                let distance = self.start(head).abs_diff(self.start(tail));
                if head != tail && best.is_none_or(|best| distance < best.2) {
                    best = Some((head, tail, distance));
                }
            }
        }
        best.map(|(head, tail, _)| (head, tail))
    }
}

/// The claimed relations among `entities` and where each was claimed.
pub(super) fn relations(links: &[Link], entities: &[Entity], schema: &Schema, dropped: &mut Vec<Dropped>) -> (Vec<Relation>, Vec<Range<usize>>) {
    let mentions = Mentions::of(entities);
    let mut seen = HashSet::new();
    let (mut relations, mut places) = (Vec::new(), Vec::new());
    for link in links {
        match pair(link, &mentions, schema) {
            Err(reason) => {
                let item = format!("{}: {} -> {}", link.label, short(&link.head.text), short(&link.tail.text));
                dropped.push(Dropped::new(&item, reason));
            }
            Ok((head, tail)) => {
                if seen.insert((link.label.as_str(), head, tail)) {
                    relations.push(Relation { label: link.label.clone(), head, tail, confidence: said(link.confidence) });
                    places.push(link.bytes.clone());
                }
            }
        }
    }
    (relations, places)
}

fn pair(link: &Link, mentions: &Mentions, schema: &Schema) -> Result<(usize, usize), String> {
    let (heads, tails) = (mentions.named(&link.head), mentions.named(&link.tail));
    for (end, name, found) in [(&link.head, "head", &heads), (&link.tail, "tail", &tails)] {
        if found.is_empty() {
            return Err(format!("the {name} \"{}\" is not among the entities", short(&end.text)));
        }
    }
    let Some(kind) = schema.relation(&link.label) else { return Err("unknown label".into()) };
    let label = |at: usize| mentions.entities[at].label.as_str();
    let fits = |types: &[String], at: usize| types.is_empty() || types.iter().any(|known| known == label(at));
    let same = folded(&link.head.text) == folded(&link.tail.text);
    if same && heads.iter().all(|&at| label(at) == label(heads[0])) && link.head.label == link.tail.label {
        return Err("head and tail are the same mention".into());
    }
    let choose = |heads: &[usize], tails: &[usize]| {
        let heads: Vec<usize> = heads.iter().copied().filter(|&at| fits(&kind.head, at)).collect();
        let tails: Vec<usize> = tails.iter().copied().filter(|&at| fits(&kind.tail, at)).collect();
        if heads.is_empty() || tails.is_empty() {
            return Err(format!(
                "the signature of \"{}\" does not allow {} -> {}",
                kind.label,
                labels(mentions, &link.head),
                labels(mentions, &link.tail)
            ));
        }
        let different = |(head, tail): &(usize, usize)| !same || label(*head) != label(*tail);
        mentions.closest(&heads, &tails).filter(different).ok_or_else(|| "head and tail are the same mention".to_owned())
    };
    let (head, tail) = choose(&heads, &tails)?;
    let turned = kind.symmetric && kind.allows(label(tail), label(head)) && mentions.start(tail) < mentions.start(head);
    Ok(if turned { (tail, head) } else { (head, tail) })
}

/// The labels under which an end is known, for messages.
fn labels(mentions: &Mentions, end: &End) -> String {
    let mut labels: Vec<&str> = mentions.named(end).into_iter().map(|at| mentions.entities[at].label.as_str()).collect();
    labels.sort_unstable();
    labels.dedup();
    labels.join("|")
}

/// The claimed events: a trigger takes the occurrence that no earlier event of its type took, an
/// argument the occurrence that stands closest to the trigger.
pub(super) fn events(claimed: &[Happening], text: &str, entities: &[Entity], schema: &Schema, dropped: &mut Vec<Dropped>) -> Vec<Event> {
    let mut finder = Finder { text, folded: None, known: HashMap::new() };
    let mut taken: HashMap<(&str, &str), usize> = HashMap::new();
    let mut events: Vec<Event> = Vec::new();
    for happening in claimed {
        let spans = match finder.find(&happening.trigger) {
            Ok(spans) => spans,
            Err(reason) => {
                dropped.push(Dropped::new(&happening.item, format!("trigger \"{}\": {reason}", short(&happening.trigger))));
                continue;
            }
        };
        let turn = taken.entry((&happening.label, &happening.trigger)).or_default();
        let span = spans[(*turn).min(spans.len() - 1)];
        *turn += 1;
        let mut arguments: Vec<Argument> = Vec::new();
        for (role, surface) in &happening.arguments {
            match argument(&happening.label, role, surface, span, &mut finder, entities, schema) {
                Ok(argument) if arguments.contains(&argument) => {}
                Ok(argument) => arguments.push(argument),
                Err(reason) => dropped.push(Dropped::new(surface, format!("role \"{role}\": {reason}"))),
            }
        }
        let trigger = Trigger { text: span.slice(text).to_owned(), span: Some(span) };
        let event = Event { label: happening.label.clone(), trigger, arguments, confidence: said(happening.confidence) };
        if !events.iter().rev().take(64).any(|other| other == &event) {
            events.push(event);
        }
    }
    events
}

fn argument(
    event: &str,
    role: &str,
    surface: &str,
    trigger: Span,
    finder: &mut Finder,
    entities: &[Entity],
    schema: &Schema,
) -> Result<Argument, String> {
    let spans = finder.find(surface)?;
    let distance = |span: &&Span| span.start().abs_diff(trigger.start());
    let span = *spans.iter().min_by_key(distance).ok_or("not in the text")?;
    let kind = schema.events.iter().find(|kind| kind.label == event);
    let types = kind.and_then(|kind| kind.roles.iter().find(|known| known.label == role)).map(|role| role.types.as_slice());
    let filler = entities.iter().find(|entity| entity.span == Some(span));
    if let (Some(types @ [_, ..]), Some(filler)) = (types, filler)
        && !types.contains(&filler.label)
    {
        return Err(format!("the signature does not allow {}", filler.label));
    }
    Ok(Argument { role: role.to_owned(), text: span.slice(finder.text).to_owned(), span: Some(span) })
}

/// Whole-word occurrences of single strings; each distinct string is searched once.
struct Finder<'a> {
    text: &'a str,
    folded: Option<(String, super::fold::Places, Vec<usize>)>,
    known: HashMap<String, Vec<Span>>,
}

impl Finder<'_> {
    fn find(&mut self, surface: &str) -> Result<&[Span], String> {
        let surface = surface.trim();
        if !self.known.contains_key(surface) {
            if self.known.len() >= MOST_STRINGS {
                return Err(format!("the answer's events name more than {MOST_STRINGS} strings"));
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
        if surface.is_empty() {
            return Vec::new();
        }
        let text = self.text;
        let clean = |range: Range<usize>| boundary(text, range.start, range.end).then(|| Span::new(text, range).ok()).flatten();
        let exact: Vec<Span> = text.match_indices(surface).filter_map(|(at, _)| clean(at..at + surface.len())).collect();
        if !exact.is_empty() {
            return exact;
        }
        let wanted = folded(surface);
        if wanted.is_empty() {
            return Vec::new();
        }
        let (all, places, starts) = self.folded.get_or_insert_with(|| {
            let folded = fold(text);
            let starts = folded.symbols.iter().scan(0, |at, c| {
                let start = *at;
                *at += c.len_utf8();
                Some(start)
            });
            let starts = starts.collect();
            (folded.symbols.into_iter().collect(), folded.places, starts)
        });
        let length = wanted.chars().count();
        let found = all.match_indices(&wanted).filter_map(|(at, _)| {
            let symbol = starts.binary_search(&at).ok()?;
            clean(places.range(symbol, symbol + length)?)
        });
        found.collect()
    }
}
