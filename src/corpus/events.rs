//! Event sets in their own forms: RAMS (inclusive document tokens, roles inside identifiers), MAVEN
//! (tokens by sentence), CASIE (document code points, off by one or two in some files).

use super::convert::{Options, Sink};
use super::draft::Draft;
use super::finding::{Kind, shown};
use super::format::Format;
use super::input::each_record;
use super::join::Joiner;
use crate::store::StoreError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

pub(super) const RAMS: Format = Format {
    name: "rams",
    about: "RAMS: doc_key, sentences, evt_triggers, gold_evt_links",
    fits: |sample| sample.has(&["doc_key", "sentences", "evt_triggers"]).then(|| "evt_triggers".into()),
    read: read_rams,
};

pub(super) const MAVEN: Format = Format {
    name: "maven",
    about: "MAVEN: id, content with tokens, events with mentions",
    fits: |sample| {
        let tokens = sample.field("content")?.get(0)?.get("tokens")?.is_array();
        tokens.then(|| "content with tokens".into())
    },
    read: read_maven,
};

pub(super) const CASIE: Format = Format {
    name: "casie",
    about: "CASIE: content, cyberevent; one file a document",
    fits: |sample| sample.has(&["content", "cyberevent"]).then(|| "content and cyberevent".into()),
    read: read_casie,
};

// ───────────────────────────────────────── RAMS ─────────────────────────────────────────

/// First and last word of a trigger, and its types with their confidence.
type Trigger = (i64, i64, Vec<(String, f64)>);
/// First and last words of a trigger and of an argument, and the role.
type Link = ((i64, i64), (i64, i64), String);

#[derive(Deserialize)]
struct RamsRow {
    doc_key: String,
    sentences: Vec<Vec<String>>,
    evt_triggers: Vec<Trigger>,
    gold_evt_links: Option<Vec<Link>>,
}

/// The role in `evt089arg01victim`.
fn role(identifier: &str) -> &str {
    let behind = identifier.split_once("arg").map_or(identifier, |(_, rest)| rest);
    behind.trim_start_matches(|c: char| c.is_ascii_digit())
}

fn read_rams(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: RamsRow| {
        let join = row.sentences.iter().map(|sentence| joiner.join(sentence)).next_back().unwrap_or(super::Join::Space);
        let sentences: Vec<&[String]> = row.sentences.iter().map(Vec::as_slice).collect();
        let mut draft = Draft::of_sentences(line, &sentences, join);
        draft.id = Some(row.doc_key.clone());
        let mut events = Vec::new();
        for (first, last, types) in &row.evt_triggers {
            let label = types.first().map_or("event", |(label, _)| label.as_str());
            if let Some(span) = draft.token_span(label, *first, last.saturating_add(1)) {
                events.push(((*first, *last), draft.event(label, Some(span), "")));
            }
        }
        for (trigger, (first, last), identifier) in row.gold_evt_links.iter().flatten() {
            let role = role(identifier);
            let Some((_, event)) = events.iter().find(|(place, _)| place == trigger) else {
                draft.say(
                    Kind::MissingEnd,
                    format!("{role}: no event has its trigger at {}..={}", trigger.0, trigger.1),
                );
                continue;
            };
            if let Some(span) = draft.token_span(role, *first, last.saturating_add(1)) {
                draft.argument(*event, role, Some(span), "");
            }
        }
        sink(draft)
    })
}

// ───────────────────────────────────────── MAVEN ─────────────────────────────────────────

#[derive(Deserialize)]
struct MavenRow {
    id: String,
    content: Vec<MavenSentence>,
    events: Option<Vec<MavenEvent>>,
}

#[derive(Deserialize)]
struct MavenSentence {
    tokens: Vec<String>,
}

#[derive(Deserialize)]
struct MavenEvent {
    #[serde(rename = "type")]
    label: String,
    mention: Vec<MavenMention>,
}

#[derive(Deserialize)]
struct MavenMention {
    trigger_word: String,
    sent_id: i64,
    offset: (i64, i64),
}

fn read_maven(path: &Path, options: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    let mut joiner = Joiner::new(options.join);
    each_record(path, |line, row: MavenRow| {
        let join = row.content.iter().map(|s| joiner.join(&s.tokens)).next_back().unwrap_or(super::Join::Space);
        let sentences: Vec<&[String]> = row.content.iter().map(|sentence| sentence.tokens.as_slice()).collect();
        let mut draft = Draft::of_sentences(line, &sentences, join);
        draft.id = Some(row.id);
        for event in row.events.iter().flatten() {
            for mention in &event.mention {
                let before = usize::try_from(mention.sent_id).ok().filter(|at| *at < row.content.len());
                let Some(before) = before else {
                    let said = format!("{}: sentence {} of {}", event.label, mention.sent_id, row.content.len());
                    draft.say(Kind::Outside, said);
                    continue;
                };
                let start: usize = row.content[..before].iter().map(|sentence| sentence.tokens.len()).sum();
                let (from, to) = mention.offset;
                let (from, to) = (from.saturating_add(start as i64), to.saturating_add(start as i64));
                let Some(span) = draft.token_span(&event.label, from, to) else { continue };
                let there = span.slice(draft.text()).to_string();
                let bare = |text: &str| text.split_whitespace().collect::<String>();
                if bare(&there) == bare(&mention.trigger_word) {
                    draft.event(&event.label, Some(span), "");
                } else {
                    let (word, there) = (shown(&mention.trigger_word), shown(&there));
                    draft.say(Kind::Mismatch, format!("{}: {word} should stand where {there} is", event.label));
                }
            }
        }
        sink(if row.events.is_some() { draft } else { draft.without_gold() })
    })
}

// ───────────────────────────────────────── CASIE ─────────────────────────────────────────

#[derive(Deserialize)]
struct CasieRow {
    content: String,
    cyberevent: Hoppers,
    sourcefile: Option<String>,
}

#[derive(Deserialize)]
struct Hoppers {
    #[serde(default)]
    hopper: Vec<Hopper>,
}

#[derive(Deserialize)]
struct Hopper {
    #[serde(default)]
    events: Vec<CasieEvent>,
}

#[derive(Deserialize)]
struct CasieEvent {
    #[serde(rename = "type")]
    kind: String,
    subtype: String,
    nugget: CasieSpan,
    #[serde(default)]
    argument: Vec<CasieArgument>,
}

#[derive(Deserialize)]
struct CasieSpan {
    #[serde(rename = "startOffset")]
    start: i64,
    #[serde(rename = "endOffset")]
    end: i64,
    text: String,
}

#[derive(Deserialize)]
struct CasieArgument {
    #[serde(flatten)]
    span: CasieSpan,
    #[serde(rename = "type")]
    kind: String,
    role: Value,
}

fn read_casie(path: &Path, _: &Options, sink: &mut Sink) -> Result<(), StoreError> {
    each_record(path, |line, row: CasieRow| {
        let mut draft = Draft::of_text(line, row.content);
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        draft.id = row.sourcefile.or(stem);
        let mut hoppers: Vec<Vec<usize>> = Vec::new();
        for hopper in &row.cyberevent.hopper {
            let mut coreferent = Vec::new();
            for event in &hopper.events {
                let label = format!("{}:{}", event.kind, event.subtype);
                let nugget = &event.nugget;
                let span = draft.point_span(&label, Some(&nugget.text), nugget.start, nugget.end);
                let Some(span) = span else { continue };
                let at = draft.event(&label, Some(span), "");
                coreferent.push(at);
                for argument in &event.argument {
                    let role = argument.role.get("type").and_then(Value::as_str).unwrap_or("role");
                    let CasieSpan { start, end, text } = &argument.span;
                    if let Some(span) = draft.point_span(role, Some(text), *start, *end) {
                        draft.entity_once(&argument.kind, Some(span), "");
                        draft.argument(at, role, Some(span), "");
                    }
                }
            }
            hoppers.push(coreferent);
        }
        draft.meta.insert("coreferent_events".into(), json!(hoppers));
        sink(draft)
    })
}
