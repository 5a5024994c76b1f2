//! Formats of the UIE family: UIE's own records (Lu et al., 2022; offsets are lists of token
//! indexes), OmniEvent's unified events, and PaddleNLP's rows of a prompt and its results.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::Format;
use super::input::each_record;
use super::join::Joiner;
use crate::ie::Span;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

pub(super) const UIE: Format = Format {
    name: "uie",
    about: "UIE (text2spotasoc): tokens, entity, relation, event",
    fits: |sample| {
        let listed = ["entity", "relation", "event"].iter().any(|name| sample.field(name).is_some_and(Value::is_array));
        (listed && sample.field("tokens")?.is_array()).then(|| "tokens with entity, relation or event".into())
    },
    read: read_uie,
};

pub(super) const OMNIEVENT: Format = Format {
    name: "omnievent",
    about: "OmniEvent unified: text, events with triggers",
    fits: |sample| {
        let first = sample.field("events")?.as_array()?.first();
        let known = first.is_none_or(|event| event.get("triggers").is_some());
        (known && sample.field("text")?.is_string() && !sample.has(&["gold"])).then(|| "events with triggers".into())
    },
    read: read_omnievent,
};

pub(super) const PADDLE: Format = Format {
    name: "paddlenlp",
    about: "PaddleNLP UIE: content, result_list, prompt",
    fits: |sample| {
        (sample.field("content")?.is_string() && sample.has(&["result_list", "prompt"]))
            .then(|| "content with prompt and result_list".into())
    },
    read: read_paddle,
};

// ────────────────────────────────────────── UIE ──────────────────────────────────────────

#[derive(Deserialize)]
struct UieRow {
    tokens: Vec<String>,
    entity: Option<Vec<UieSpan>>,
    relation: Option<Vec<UieLink>>,
    event: Option<Vec<UieEvent>>,
    #[serde(alias = "doc_id")]
    id: Option<Value>,
}

#[derive(Deserialize)]
struct UieSpan {
    #[serde(rename = "type")]
    label: String,
    #[serde(default)]
    offset: Vec<i64>,
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct UieLink {
    #[serde(rename = "type")]
    label: String,
    args: Vec<UieSpan>,
}

#[derive(Deserialize)]
struct UieEvent {
    #[serde(flatten)]
    trigger: UieSpan,
    #[serde(default)]
    args: Vec<UieSpan>,
}

/// The span of a list of token indexes, held against its words. Collapsed conversions write words
/// that are not those of their tokens.
fn listed(draft: &mut Draft, item: &UieSpan) -> Option<Span> {
    let (first, last) = (item.offset.first().copied(), item.offset.last().copied());
    let (Some(first), Some(last)) = (first, last) else {
        return draft.find(&item.label, &item.text, 0, None);
    };
    let span = draft.token_span(&item.label, first, last.saturating_add(1))?;
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let there = span.slice(draft.text()).to_string();
    if !item.text.is_empty() && bare(&there) != bare(&item.text) {
        let said = format!(
            "{}: {} should stand at tokens {first}..={last}; there is {}",
            item.label,
            shown(&item.text),
            shown(&there)
        );
        draft.say(Kind::Mismatch, said);
        return None;
    }
    Some(span)
}

fn read_uie(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: UieRow| {
        let mut draft = Draft::of_tokens(line, &row.tokens, joiner.join(&row.tokens));
        draft.id = row.id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        for entity in row.entity.iter().flatten() {
            if let Some(span) = listed(&mut draft, entity) {
                draft.entity(&entity.label, Some(span), "");
            }
        }
        for link in row.relation.iter().flatten() {
            let mut end = |at: usize| {
                let item = link.args.get(at)?;
                let span = listed(&mut draft, item)?;
                Some(draft.entity_once(&item.label, Some(span), ""))
            };
            let (head, tail) = (end(0), end(1));
            let name = |at: usize| shown(link.args.get(at).map_or("", |item| item.text.as_str()));
            draft.relation_between(&link.label, (name(0), head), (name(1), tail));
        }
        for event in row.event.iter().flatten() {
            let Some(span) = listed(&mut draft, &event.trigger) else { continue };
            let at = draft.event(&event.trigger.label, Some(span), "");
            for argument in &event.args {
                if let Some(span) = listed(&mut draft, argument) {
                    draft.argument(at, &argument.label, Some(span), "");
                }
            }
        }
        sink(draft)
    })
}

// ─────────────────────────────────────── OmniEvent ───────────────────────────────────────

#[derive(Deserialize)]
struct OmniRow {
    id: Option<Value>,
    text: String,
    #[serde(default)]
    events: Vec<OmniEvent>,
    #[serde(default)]
    entities: Vec<OmniEntity>,
}

#[derive(Deserialize)]
struct OmniEvent {
    #[serde(rename = "type")]
    label: String,
    triggers: Vec<OmniTrigger>,
}

#[derive(Deserialize)]
struct OmniTrigger {
    trigger_word: String,
    position: (i64, i64),
    #[serde(default)]
    arguments: Vec<OmniArgument>,
}

#[derive(Deserialize)]
struct OmniArgument {
    role: String,
    mentions: Vec<OmniMention>,
}

#[derive(Deserialize)]
struct OmniEntity {
    #[serde(rename = "type")]
    label: String,
    mentions: Vec<OmniMention>,
}

#[derive(Deserialize)]
struct OmniMention {
    mention: String,
    position: (i64, i64),
}

fn read_omnievent(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: OmniRow| {
        let mut draft = Draft::of_text(line, row.text);
        draft.id = row.id.as_ref().map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_string));
        for entity in &row.entities {
            for OmniMention { mention, position } in &entity.mentions {
                if let Some(span) = draft.point_span(&entity.label, Some(mention), position.0, position.1) {
                    draft.entity(&entity.label, Some(span), "");
                }
            }
        }
        for event in &row.events {
            for trigger in &event.triggers {
                let (start, end) = trigger.position;
                let span = draft.point_span(&event.label, Some(&trigger.trigger_word), start, end);
                let Some(span) = span else { continue };
                let at = draft.event(&event.label, Some(span), "");
                for argument in &trigger.arguments {
                    for OmniMention { mention, position } in &argument.mentions {
                        if let Some(span) = draft.point_span(&argument.role, Some(mention), position.0, position.1) {
                            draft.argument(at, &argument.role, Some(span), "");
                        }
                    }
                }
            }
        }
        sink(draft)
    })
}

// ─────────────────────────────────────── PaddleNLP ───────────────────────────────────────

#[derive(Deserialize)]
struct PaddleRow {
    content: String,
    result_list: Vec<PaddleSpan>,
    prompt: String,
}

#[derive(Deserialize)]
struct PaddleSpan {
    text: String,
    start: i64,
    end: i64,
}

/// A relation whose head stands in the prompt: place of the head's words, label, tails.
type Waiting = (String, String, Vec<Span>);

/// Rows of one text stand one behind the other and become one document.
fn read_paddle(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut open: Option<(Draft, Vec<Waiting>)> = None;
    each_record(path, |line, row: PaddleRow| {
        if open.as_ref().is_some_and(|(draft, _)| draft.text() != row.content)
            && let Some(done) = open.take()
        {
            sink(linked(done))?;
        }
        let (draft, waiting) = open.get_or_insert_with(|| (Draft::of_text(line, row.content.as_str()), Vec::new()));
        draft.line = line;
        let spans: Vec<Span> = row
            .result_list
            .iter()
            .filter_map(|item| draft.point_span(&row.prompt, Some(&item.text), item.start, item.end))
            .collect();
        // The head of `X的Y` stands in the text; a type that has 的 in it does not.
        match row.prompt.rsplit_once('的').filter(|(head, _)| !head.is_empty() && row.content.contains(*head)) {
            Some((head, label)) => waiting.push((head.to_string(), label.to_string(), spans)),
            None => spans.into_iter().for_each(|span| {
                draft.entity(&row.prompt, Some(span), "");
            }),
        }
        Ok(())
    })?;
    open.map_or(Ok(()), |done| sink(linked(done)))
}

/// Puts in the relations, once all mentions of the text are known.
fn linked((mut draft, waiting): (Draft, Vec<Waiting>)) -> Draft {
    for (head, label, tails) in waiting {
        let mut by_text: HashMap<&str, usize> = HashMap::new();
        let mut by_span: HashMap<Span, usize> = HashMap::new();
        for (at, entity) in draft.entities().iter().enumerate() {
            by_text.entry(&entity.text).or_insert(at);
            by_span.extend(entity.span.map(|span| (span, at)));
        }
        let from = by_text.get(head.as_str()).copied();
        let to: Vec<(Span, Option<usize>)> = tails.iter().map(|span| (*span, by_span.get(span).copied())).collect();
        let from = from.unwrap_or_else(|| {
            let span = draft.find("entity", &head, 0, None);
            draft.entity("entity", span, &head)
        });
        for (span, at) in to {
            let at = at.unwrap_or_else(|| draft.entity_once("entity", Some(span), ""));
            draft.relation(&label, from, at);
        }
    }
    draft.line = draft.line.max(1);
    draft
}
