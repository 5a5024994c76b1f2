//! SpERT's JSON (Eberts & Ulges, 2020): tokens, mentions by token index with exclusive end,
//! relations by ordinal of their mentions. A variant has BILOU tags in place of mentions, whose
//! ordinals then count in reading order.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::Kind;
use super::format::{Format, Sample};
use super::input::each_record;
use super::join::Joiner;
use super::tags::{Scheme, decode};
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

pub(super) const SPERT: Format = Format {
    name: "spert",
    about: "SpERT JSON: tokens, entities or tags, relations by ordinal (CoNLL04, SciERC)",
    fits,
    read,
};

#[derive(Deserialize)]
struct Row {
    tokens: Vec<String>,
    entities: Option<Vec<Mention>>,
    tags: Option<Vec<String>>,
    #[serde(default)]
    relations: Vec<Link>,
    orig_id: Option<Value>,
}

#[derive(Deserialize)]
struct Mention {
    #[serde(rename = "type")]
    label: String,
    start: i64,
    end: i64,
}

#[derive(Deserialize)]
struct Link {
    #[serde(rename = "type")]
    label: String,
    head: i64,
    tail: i64,
}

fn fits(sample: &Sample) -> Option<String> {
    let first = |name: &str| sample.field(name).and_then(Value::as_array).map(|list| list.first());
    let tokens = matches!(first("tokens"), Some(None | Some(Value::String(_))));
    let mentions = match first("entities") {
        Some(None) => true,
        Some(Some(mention)) => ["type", "start", "end"].iter().all(|name| mention.get(name).is_some()),
        None => sample.has(&["tags", "relations"]) && matches!(first("tags"), Some(None | Some(Value::String(_)))),
    };
    let links = match first("relations") {
        Some(Some(link)) => link.get("head").is_some_and(Value::is_number),
        _ => true,
    };
    (tokens && mentions && links).then(|| "tokens with mentions by token index".into())
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: Row| {
        let mut draft = Draft::of_tokens(line, &row.tokens, joiner.join(&row.tokens));
        let mut places = Vec::new();
        match (&row.entities, &row.tags) {
            (Some(mentions), _) => {
                for mention in mentions {
                    let span = draft.token_span(&mention.label, mention.start, mention.end);
                    places.push(span.map(|span| draft.entity(&mention.label, Some(span), "")));
                }
            }
            (None, Some(tags)) => {
                if tags.len() != row.tokens.len() {
                    let message =
                        format!("{} tokens, but {} tags; expected one for each", row.tokens.len(), tags.len());
                    return Err(StoreError::line(path, line, message));
                }
                let read = decode(tags, options.scheme.unwrap_or(Scheme::Bioes));
                for (at, said) in read.irregular {
                    draft.say(Kind::Tags, format!("token {at}: {said}"));
                }
                for chunk in read.chunks {
                    let span = draft.token_span(&chunk.label, chunk.start as i64, chunk.end as i64);
                    places.push(span.map(|span| draft.entity(&chunk.label, Some(span), "")));
                }
            }
            (None, None) => draft = draft.without_gold(),
        }
        let place = |at: i64| usize::try_from(at).ok().and_then(|at| places.get(at).copied().flatten());
        for link in &row.relations {
            draft.relation_between(&link.label, (link.head, place(link.head)), (link.tail, place(link.tail)));
        }
        draft.id = row.orig_id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        sink(draft)
    })
}
