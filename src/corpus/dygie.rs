//! DyGIE++ JSON Lines (Wadden et al., 2019): a document of sentences; spans are token indexes of the
//! document with inclusive ends, a trigger is one token. MSRA in the form of CDNER is one such file.

use super::convert::{Options, Sink, Unit};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::input::each_record;
use super::join::Joiner;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

pub(super) const DYGIE: Format = Format {
    name: "dygie",
    about: "DyGIE++: doc_key, sentences, ner, relations, events (SciERC, ACE05, MSRA)",
    fits,
    read,
};

#[derive(Deserialize)]
struct Row {
    doc_key: Value,
    sentences: Vec<Vec<String>>,
    #[serde(default)]
    ner: Option<Vec<Vec<Vec<Value>>>>,
    #[serde(default)]
    relations: Option<Vec<Vec<Vec<Value>>>>,
    #[serde(default)]
    events: Option<Vec<Vec<Vec<Vec<Value>>>>>,
}

fn fits(sample: &Sample) -> Option<String> {
    let sentences = sample.field("sentences")?.as_array()?;
    let tokens = sentences
        .first()
        .is_none_or(|sentence| sentence.as_array().is_some_and(|tokens| tokens.first().is_none_or(Value::is_string)));
    (tokens && sample.has(&["doc_key"]) && !sample.has(&["evt_triggers"])).then(|| "doc_key and sentences".into())
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: Row| {
        let id = row.doc_key.as_str().map_or_else(|| row.doc_key.to_string(), str::to_string);
        let count = row.sentences.len();
        let layers =
            [row.ner.as_ref().map(Vec::len), row.relations.as_ref().map(Vec::len), row.events.as_ref().map(Vec::len)];
        if let Some(odd) = layers.into_iter().flatten().find(|layer| *layer != count) {
            let message =
                format!("document {}: {count} sentences, but a layer of {odd}; expected one list for each", shown(&id));
            return Err(StoreError::line(path, line, message));
        }
        let joins: Vec<_> = row.sentences.iter().map(|sentence| joiner.join(sentence)).collect();
        if options.unit == Unit::Document {
            let sentences: Vec<&[String]> = row.sentences.iter().map(Vec::as_slice).collect();
            let join = joins.last().copied().unwrap_or(super::Join::Space);
            let mut draft = Draft::of_sentences(line, &sentences, join);
            let mut known = HashMap::new();
            (0..count).for_each(|at| fill(&mut draft, &row, at, 0, &mut known));
            draft.id = Some(id);
            return sink(finished(draft, &row));
        }
        let mut start = 0;
        for (at, sentence) in row.sentences.iter().enumerate() {
            let mut draft = Draft::of_tokens(line, sentence, joins[at]);
            draft.id = Some(if count == 1 { id.clone() } else { format!("{id}-{}", at + 1) });
            fill(&mut draft, &row, at, start, &mut HashMap::new());
            start += sentence.len() as i64;
            sink(finished(draft, &row))?;
        }
        Ok(())
    })
}

fn finished(draft: Draft, row: &Row) -> Draft {
    let annotated = row.ner.is_some() || row.relations.is_some() || row.events.is_some();
    if annotated { draft } else { draft.without_gold() }
}

/// Two numbers and a word, as `[3, 5, "PER"]`, with the document's indexes made the draft's.
fn typed(item: &[Value], start: i64) -> Option<(i64, i64, &str)> {
    match item {
        [first, last, label, ..] => {
            Some((first.as_i64()?.saturating_sub(start), last.as_i64()?.saturating_sub(start), label.as_str()?))
        }
        _ => None,
    }
}

/// Adds what is annotated in one sentence.
fn fill(draft: &mut Draft, row: &Row, at: usize, start: i64, known: &mut HashMap<(i64, i64), usize>) {
    let unreadable = |draft: &mut Draft, what: &str, item: &[Value]| {
        draft.say(Kind::MissingEnd, format!("{what} {}: not of the form that DyGIE++ writes", Value::from(item)));
    };
    for item in row.ner.iter().flat_map(|layer| &layer[at]) {
        let Some((first, last, label)) = typed(item, start) else {
            unreadable(draft, "mention", item);
            continue;
        };
        if let Some(span) = draft.token_span(label, first, last.saturating_add(1)) {
            let at = draft.entity(label, Some(span), "");
            known.entry((first, last)).or_insert(at);
        }
    }
    for item in row.relations.iter().flat_map(|layer| &layer[at]) {
        let parsed = match item.as_slice() {
            [a, b, c, d, label, ..] => {
                [a, b, c, d].map(Value::as_i64).into_iter().collect::<Option<Vec<_>>>().zip(label.as_str())
            }
            _ => None,
        };
        let Some((ends, label)) = parsed else {
            unreadable(draft, "relation", item);
            continue;
        };
        let end = |at: usize| {
            let (first, last) = (ends[at].saturating_sub(start), ends[at + 1].saturating_sub(start));
            (format!("at tokens {first}..={last}"), known.get(&(first, last)).copied())
        };
        draft.relation_between(label, end(0), end(2));
    }
    for item in row.events.iter().flat_map(|layer| &layer[at]) {
        let trigger = item.first().and_then(|trigger| match trigger.as_slice() {
            [token, label] => {
                Some((token.as_i64()?.saturating_sub(start), token.as_i64()?.saturating_sub(start), label.as_str()?))
            }
            longer => typed(longer, start),
        });
        let Some((first, last, label)) = trigger else {
            unreadable(draft, "event", item.first().map_or(&[], Vec::as_slice));
            continue;
        };
        let Some(span) = draft.token_span(label, first, last.saturating_add(1)) else { continue };
        let event = draft.event(label, Some(span), "");
        for argument in &item[1..] {
            let Some((first, last, role)) = typed(argument, start) else {
                unreadable(draft, "argument", argument);
                continue;
            };
            if let Some(span) = draft.token_span(role, first, last.saturating_add(1)) {
                draft.argument(event, role, Some(span), "");
            }
        }
    }
}
