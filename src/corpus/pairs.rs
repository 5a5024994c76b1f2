//! One relation a record, between two marked mentions: TACRED and Re-TACRED (inclusive token
//! indexes, typed), FewRel, KnowPrompt and OpenNRE (exclusive, untyped).
//!
//! Two mentions a record are not all mentions of its sentence, and records that share a sentence
//! stay apart: this is how these sets are scored.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::input::each_record;
use super::join::Joiner;
use crate::ie::Span;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

pub(super) const TACRED: Format = Format {
    name: "tacred",
    about: "TACRED, Re-TACRED: token, subj_start, obj_start, relation",
    fits: |sample| {
        (sample.field("token")?.is_array() && sample.has(&["subj_start", "obj_start"]))
            .then(|| "token with subj_start and obj_start".into())
    },
    read: read_tacred,
};

pub(super) const FEWREL: Format = Format {
    name: "fewrel",
    about: "FewRel, KnowPrompt, OpenNRE: token or text with h, t, relation",
    fits: fits_fewrel,
    read: read_fewrel,
};

/// Names of "no relation".
const NONE: [&str; 5] = ["no_relation", "NA", "Other", "None", "no relation"];

#[derive(Deserialize)]
struct TacredRow {
    id: Option<Value>,
    token: Vec<String>,
    relation: Option<String>,
    subj_start: i64,
    subj_end: i64,
    obj_start: i64,
    obj_end: i64,
    #[serde(default = "untyped")]
    subj_type: String,
    #[serde(default = "untyped")]
    obj_type: String,
}

fn untyped() -> String {
    "entity".into()
}

fn word(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_string)
}

fn link(draft: &mut Draft, label: &str, head: Option<usize>, tail: Option<usize>) {
    if !NONE.contains(&label) {
        draft.relation_between(label, ("(the subject)", head), ("(the object)", tail));
    }
}

fn read_tacred(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: TacredRow| {
        let mut draft = Draft::of_tokens(line, &row.token, joiner.join(&row.token));
        draft.id = row.id.as_ref().map(word);
        let mut mention = |label: &str, first: i64, last: i64| {
            let span = draft.token_span(label, first, last.saturating_add(1));
            span.map(|span| draft.entity(label, Some(span), ""))
        };
        let head = mention(&row.subj_type, row.subj_start, row.subj_end);
        let tail = mention(&row.obj_type, row.obj_start, row.obj_end);
        match &row.relation {
            Some(label) => {
                draft.meta.insert("relation".into(), json!(label));
                link(&mut draft, label, head, tail);
                sink(draft)
            }
            None => sink(draft.without_gold()),
        }
    })
}

#[derive(Deserialize)]
struct FewrelRow {
    #[serde(alias = "tokens")]
    token: Option<Vec<String>>,
    text: Option<String>,
    h: Value,
    t: Value,
    relation: Option<String>,
    id: Option<Value>,
}

fn fits_fewrel(sample: &Sample) -> Option<String> {
    let known = |name: &str| sample.field(name).is_some_and(|end| end.get("name").is_some() || end.is_array());
    let words = sample.has(&["token"]) || sample.has(&["tokens"]) || sample.has(&["text"]);
    (words && known("h") && known("t")).then(|| "two marked mentions h and t".into())
}

fn read_fewrel(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: FewrelRow| {
        let mut draft = match (&row.token, &row.text) {
            (Some(tokens), _) => Draft::of_tokens(line, tokens, joiner.join(tokens)),
            (None, Some(text)) => Draft::of_text(line, text.as_str()),
            (None, None) => return Err(StoreError::line(path, line, "expected token or text, found neither")),
        };
        draft.id = row.id.as_ref().map(word);
        let by_token = row.token.is_some();
        let head = end(&mut draft, &row.h, by_token);
        let tail = end(&mut draft, &row.t, by_token);
        match &row.relation {
            Some(label) => {
                draft.meta.insert("relation".into(), json!(label));
                link(&mut draft, label, head, tail);
                sink(draft)
            }
            None => sink(draft.without_gold()),
        }
    })
}

/// One of the two mentions: `{name, pos: [start, end]}`, or FewRel's own `[name, id, [[token, …]]]`.
fn end(draft: &mut Draft, end: &Value, by_token: bool) -> Option<usize> {
    let name = end.get("name").or_else(|| end.get(0)).and_then(Value::as_str).unwrap_or_default();
    let label = end.get("type").and_then(Value::as_str).unwrap_or("entity");
    let number = |value: Option<&Value>| value.and_then(Value::as_i64);
    let places = match (end.get("pos"), end.get(2).and_then(|places| places.get(0))) {
        (Some(pos), _) => number(pos.get(0)).zip(number(pos.get(1))),
        (None, Some(tokens)) => {
            let tokens: Vec<i64> = tokens.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            tokens.first().copied().zip(tokens.last().map(|last| last.saturating_add(1)))
        }
        (None, None) => None,
    };
    let Some((start, stop)) = places else {
        let span = draft.find(label, name, 0, None);
        return Some(draft.entity(label, span, name));
    };
    let span = if by_token {
        tokens(draft, label, name, start, stop)
    } else {
        draft.point_span(label, Some(name), start, stop)
    };
    span.map(|span| draft.entity(label, Some(span), ""))
}

/// A span of tokens, held against the name: conversions that cut a name to its first token exist.
fn tokens(draft: &mut Draft, label: &str, name: &str, start: i64, stop: i64) -> Option<Span> {
    let span = draft.token_span(label, start, stop)?;
    let bare = |text: &str| text.split_whitespace().collect::<String>().to_lowercase();
    let there = span.slice(draft.text()).to_string();
    if !name.is_empty() && bare(&there) != bare(name) {
        draft.say(
            Kind::Mismatch,
            format!("{label}: {} should stand at tokens {start}..{stop}; there is {}", shown(name), shown(&there)),
        );
        return None;
    }
    Some(span)
}
