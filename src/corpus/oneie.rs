//! OneIE's JSON Lines (Lin et al., 2020), also written by TextEE and, for whole documents, by
//! WikiEvents: token indexes with exclusive ends, arguments by the id of their mention.

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::{Format, Sample};
use super::input::each_record;
use super::join::Joiner;
use crate::ie::Span;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

pub(super) const ONEIE: Format =
    Format { name: "oneie", about: "OneIE, TextEE, WikiEvents: tokens, entity_mentions, event_mentions", fits, read };

#[derive(Deserialize)]
struct Row {
    doc_id: Option<Value>,
    sent_id: Option<Value>,
    wnd_id: Option<Value>,
    tokens: Vec<String>,
    text: Option<String>,
    sentence: Option<String>,
    sentences: Option<Value>,
    entity_mentions: Option<Vec<Mention>>,
    #[serde(default)]
    relation_mentions: Option<Vec<Link>>,
    #[serde(default)]
    event_mentions: Option<Vec<Happening>>,
}

#[derive(Deserialize)]
struct Mention {
    id: Option<String>,
    start: i64,
    end: i64,
    entity_type: String,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Link {
    relation_type: String,
    arguments: Vec<Participant>,
}

#[derive(Deserialize)]
struct Happening {
    event_type: String,
    trigger: Trigger,
    #[serde(default)]
    arguments: Vec<Participant>,
}

#[derive(Deserialize)]
struct Trigger {
    start: i64,
    end: i64,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Participant {
    entity_id: Option<String>,
    #[serde(default)]
    role: String,
    text: Option<String>,
    start: Option<i64>,
    end: Option<i64>,
}

fn fits(sample: &Sample) -> Option<String> {
    let listed = sample.field("entity_mentions").or_else(|| sample.field("event_mentions"))?.is_array();
    (listed && sample.has(&["tokens"])).then(|| "tokens with entity_mentions or event_mentions".into())
}

fn word(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_string)
}

fn read(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: Row| {
        let mut draft = text(&row, line, &mut joiner, options);
        let part = row.sent_id.as_ref().or(row.wnd_id.as_ref());
        draft.id = part.or(row.doc_id.as_ref()).map(word);
        if let (Some(document), Some(_)) = (&row.doc_id, part) {
            draft.meta.insert("document".into(), document.clone());
        }
        let annotated =
            row.entity_mentions.is_some() || row.event_mentions.is_some() || row.relation_mentions.is_some();
        fill(&mut draft, &row);
        sink(if annotated { draft } else { draft.without_gold() })
    })
}

/// The text as the record gives it, if its tokens stand in it; else from the tokens.
fn text(row: &Row, line: usize, joiner: &mut Joiner, options: &Options) -> Draft {
    let join = joiner.join(&row.tokens);
    if options.join.is_none() {
        if let Some((text, tokens)) = row.sentences.as_ref().and_then(|sentences| placed(sentences, &row.tokens)) {
            let mut draft = Draft::of_text(line, text);
            draft.set_tokens(tokens);
            return draft;
        }
        let own = row.text.as_ref().or(row.sentence.as_ref());
        if let Some((text, tokens)) = own.and_then(|text| Some((text, aligned(text, &row.tokens)?))) {
            let mut draft = Draft::of_text(line, text.as_str());
            draft.set_tokens(tokens);
            return draft;
        }
    }
    let mut draft = Draft::of_tokens(line, &row.tokens, join);
    if (row.text.is_some() || row.sentence.is_some()) && options.join.is_none() {
        draft.say(Kind::Mended, "the tokens do not stand in the text; it was rebuilt from them");
    }
    draft
}

/// Where the tokens stand in a text, one behind the other with white space between.
fn aligned(text: &str, tokens: &[String]) -> Option<Vec<Range<usize>>> {
    let mut at = 0;
    let place = |token: &String| {
        at = text.len() - text[at..].trim_start().len();
        let end = at + token.len();
        let stands = text.get(at..end) == Some(token.as_str());
        let range = at..end;
        at = end;
        stands.then_some(range)
    };
    tokens.iter().map(place).collect()
}

/// The text of WikiEvents: sentences as `[[[token, start, end], …], text]` in code points of the
/// document. Its own `text` lacks what stands between sentences; lines go there.
fn placed(sentences: &Value, tokens: &[String]) -> Option<(String, Vec<Range<usize>>)> {
    let mut text = String::new();
    let mut points = 0;
    let mut ranges = Vec::new();
    for sentence in sentences.as_array()? {
        let words = sentence.get(0)?.as_array()?;
        let start = usize::try_from(words.first()?.get(1)?.as_u64()?).ok()?;
        let own = sentence.get(1)?.as_str()?;
        let gap = start.checked_sub(points).filter(|gap| *gap <= own.len() + 1024)?;
        text.extend(std::iter::repeat_n('\n', gap));
        let before = text.len();
        text.push_str(own);
        points = start + own.chars().count();
        let mut at = before;
        for word in words {
            let word = word.get(0)?.as_str()?;
            at += text[at..].len() - text[at..].trim_start().len();
            let end = at + word.len();
            if text.get(at..end) != Some(word) {
                return None;
            }
            ranges.push(at..end);
            at = end;
        }
    }
    let same =
        ranges.len() == tokens.len() && ranges.iter().zip(tokens).all(|(range, token)| text[range.clone()] == **token);
    same.then_some((text, ranges))
}

/// A span of tokens, whose words are held against those that the record gives.
fn span(draft: &mut Draft, what: &str, start: i64, end: i64, words: Option<&str>) -> Option<Span> {
    let span = draft.token_span(what, start, end)?;
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let there = span.slice(draft.text()).to_string();
    match words {
        Some(words) if bare(words) != bare(&there) => {
            let said =
                format!("{what}: {} should stand at tokens {start}..{end}; there is {}", shown(words), shown(&there));
            draft.say(Kind::Mismatch, said);
            None
        }
        _ => Some(span),
    }
}

fn fill(draft: &mut Draft, row: &Row) {
    let mut places: HashMap<&str, (usize, Span)> = HashMap::new();
    for mention in row.entity_mentions.iter().flatten() {
        let label = &mention.entity_type;
        if let Some(span) = span(draft, label, mention.start, mention.end, mention.text.as_deref()) {
            let at = draft.entity(label, Some(span), "");
            if let Some(id) = &mention.id {
                places.insert(id, (at, span));
            }
        }
    }
    let end = |participant: Option<&Participant>| {
        let id = participant.and_then(|participant| participant.entity_id.as_deref()).unwrap_or_default();
        (shown(id), places.get(id).map(|(at, _)| *at))
    };
    for link in row.relation_mentions.iter().flatten() {
        let role = |name: &str| link.arguments.iter().find(|participant| participant.role == name);
        let head = role("Arg-1").or(link.arguments.first());
        let tail = role("Arg-2").or(link.arguments.get(1));
        draft.relation_between(&link.relation_type, end(head), end(tail));
    }
    for event in row.event_mentions.iter().flatten() {
        let Trigger { start, end, text } = &event.trigger;
        let Some(trigger) = span(draft, &event.event_type, *start, *end, text.as_deref()) else { continue };
        let at = draft.event(&event.event_type, Some(trigger), "");
        for participant in &event.arguments {
            let known = participant.entity_id.as_deref().and_then(|id| places.get(id)).map(|(_, span)| *span);
            let found = match (known, participant.start, participant.end) {
                (Some(span), ..) => Some(span),
                (None, Some(start), Some(end)) => {
                    span(draft, &participant.role, start, end, participant.text.as_deref())
                }
                _ => {
                    let id = shown(participant.entity_id.as_deref().unwrap_or_default());
                    draft.say(
                        Kind::MissingEnd,
                        format!("{}: its {} {id} is no mention", event.event_type, participant.role),
                    );
                    None
                }
            };
            if let Some(span) = found {
                draft.argument(at, &participant.role, Some(span), "");
            }
        }
    }
}
