//! The one answer format of team and student, written and read back.
//!
//! **Written** ([`render_entities`], [`render_relations`]): compact JSON grouped by type, keys in
//! schema order, types without a mention left out, `{}` for nothing; every surface once per type,
//! in text order: `{"person":["Ada Lovelace"],"location":["Paris"]}` and
//! `{"works_for":[["Ada Lovelace","Acme"]]}`. [`Grammar`] is this language, byte by byte.
//!
//! **Read** ([`read_answer`], [`read_relations`]), the same for every agent and for the student:
//! - grouped by type as above, also with objects in the lists;
//! - `{"entities":[{"text","type"}],"relations":[{"type","head","tail"}],"events":[{"type",
//!   "trigger","arguments":[{"role","text"}]}]}`; `label` and `entity_type` stand for `type`,
//!   `name`, `mention` and `entity` for `text`, `subject` and `object` for the two ends;
//! - bare lists of such objects, one such object, JSON Lines, all of these under one wrapper key;
//! - the same with single, typographic, full-width or corner quotes, full-width brackets, commas and
//!   colons, Python's tuples and sets, comments and ellipses; keys in Chinese and Korean; one more
//!   time inside a JSON string; pairs and triples in which one part is a label of the schema:
//!   `("person","Ann")`, `(Ann, works_for, Acme)`;
//! - "nothing" as `{}`, `[]`, null lists, `None`, `NO`, `No entities found.`, `没有实体`, `없음`, or an item whose
//!   text is such a word and whose label is none.
//!
//! An unknown label, a missing type, a text that is not in the document (see `ground`): the item
//! is dropped and counted. An answer of which nothing could be kept is failed, not empty: nobody
//! said that nothing is there. An answer that was cut off is failed before it is parsed.
//!
//! **Confidence** that an answer gives for an item:
//!
//! | written | read as |
//! |---|---|
//! | a number or a numeric string in `0..=1` | itself |
//! | `"90%"` | 0.9 |
//! | words, `90`, `1.2`, `-1`, `NaN`, `true` | unknown; the item is kept and the repair noted |
//! | `null`, absent | unknown |

mod claims;
mod event;
mod find;
mod fold;
mod forms;
mod grammar;
mod ground;
mod item;
mod json;
mod link;
mod render;
mod search;
#[cfg(test)]
mod tests;
mod text;
mod triple;
mod words;

pub use claims::Claim;
pub use event::{EventReading, read_events};
pub use grammar::{Closing, Grammar, State};
pub use render::{Written, render_entities, render_events, render_relations, write_entities, write_relations};
pub use triple::{Composed, Triple, TripleReading, compose, read_triples};

use crate::ie::{Entity, Extraction, Relation, Schema, Status};
use claims::{Claims, collect, short};
use find::{Found, find};
use ground::{Listed, ground};
use json::Notes;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ops::Range;

/// Longest answer that is read, in bytes; a longer one is a loop, not an answer.
pub const MAX_ANSWER: usize = 1 << 20;

/// Why the model stopped, as the server says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It ended by itself, or the server did not say.
    #[default]
    Stop,
    /// It ran into the token limit.
    Length,
    /// The server's filter stopped it.
    ContentFilter,
}

/// An item of an answer that is not in the extraction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dropped {
    /// The item, shortened to 80 characters.
    pub item: String,
    /// Why.
    pub reason: String,
}

impl Dropped {
    fn new(item: &str, reason: impl Into<String>) -> Dropped {
        Dropped { item: short(item), reason: reason.into() }
    }
}

/// What an answer says of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// `Ok` if anything was kept, `Empty` if the answer says that nothing is there.
    pub status: Status,
    /// What was kept, entities in text order.
    pub extraction: Extraction,
    /// For every entity the bytes of the raw answer that claim it, without quotes; `None` where
    /// the claim has no place in the raw answer.
    pub provenance: Vec<Option<Range<usize>>>,
    /// What it took to read the answer, each kind with its count.
    pub repairs: Vec<String>,
    /// What was not kept.
    pub dropped: Vec<Dropped>,
    /// Why there is no extraction, if it failed or was refused.
    pub error: Option<String>,
}

/// What an answer says of relations among given entities.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationReading {
    /// `Ok` if anything was kept, `Empty` if no relation of the schema holds between the entities.
    pub status: Status,
    /// Ordinals are those of the given entities.
    pub relations: Vec<Relation>,
    /// For every relation the bytes of the raw answer that claim it, brackets included.
    pub provenance: Vec<Option<Range<usize>>>,
    /// Names that the answer relates and that are not among the given entities, each once.
    pub absent: Vec<String>,
    /// What it took to read the answer, each kind with its count.
    pub repairs: Vec<String>,
    /// What was not kept.
    pub dropped: Vec<Dropped>,
    /// Why there are no relations, if it failed or was refused.
    pub error: Option<String>,
}

/// An answer that is not one, with the reason where there is something to say, or its claims.
struct Heard {
    ended: Result<Claims, (Status, Option<String>)>,
    /// Each kind with its count.
    repairs: Vec<String>,
}

/// Reads what an answer says of `text`.
pub fn read_answer(raw: &str, finish: Finish, text: &str, schema: &Schema) -> Reading {
    let Heard { ended, repairs } = hear(raw, finish, schema);
    let claims = match ended {
        Ok(claims) => claims,
        Err((status, error)) => {
            return Reading {
                status,
                extraction: Extraction::default(),
                provenance: vec![],
                repairs,
                dropped: vec![],
                error,
            };
        }
    };
    let Claims { entities, links, happenings, mut dropped, .. } = claims;
    let (entities, provenance) = placed(&entities, text, &mut dropped);
    let (relations, _) = link::relations(&links, &entities, schema, &mut dropped);
    let (events, _) = event::events(&happenings, text, &entities, schema, &mut dropped);
    let extraction = Extraction { entities, relations, events };
    let dropped = once(dropped);
    let status = status(extraction.is_empty(), !dropped.is_empty());
    let error = (status == Status::Failed).then(|| nothing_kept(&dropped));
    Reading { status, extraction, provenance, repairs, dropped, error }
}

/// Reads which relations an answer claims among `entities`; their surfaces are compared exactly,
/// then folded, and the signature chooses between mentions of one surface.
pub fn read_relations(raw: &str, finish: Finish, schema: &Schema, entities: &[Entity]) -> RelationReading {
    let Heard { ended, repairs } = hear(raw, finish, schema);
    let claims = match ended {
        Ok(claims) => claims,
        Err((status, error)) => {
            return RelationReading {
                status,
                relations: vec![],
                provenance: vec![],
                absent: vec![],
                repairs,
                dropped: vec![],
                error,
            };
        }
    };
    let unreadable = !claims.dropped.is_empty();
    let mut dropped = claims.dropped;
    let (relations, provenance) = link::relations(&claims.links, entities, schema, &mut dropped);
    let absent = link::absent(&claims.links, entities);
    let dropped = once(dropped);
    // A pair outside the question, such as one that no signature allows, is no failure.
    let status = status(relations.is_empty(), unreadable);
    let error = (status == Status::Failed).then(|| nothing_kept(&dropped));
    RelationReading {
        status,
        relations,
        provenance: provenance.into_iter().map(|bytes| Some(bytes).filter(|bytes| !bytes.is_empty())).collect(),
        absent,
        repairs,
        dropped,
        error,
    }
}

/// Every mention that an answer claims, before the document is looked at; `None` if the answer
/// was cut off, refused, or holds no JSON that can be read.
pub fn claims(raw: &str, finish: Finish, schema: &Schema) -> Option<Vec<Claim>> {
    match hear(raw, finish, schema).ended {
        Ok(claims) => Some(claims.entities),
        Err((Status::Empty, _)) => Some(Vec::new()),
        Err(_) => None,
    }
}

fn status(nothing: bool, failed: bool) -> Status {
    match (nothing, failed) {
        (false, _) => Status::Ok,
        (true, true) => Status::Failed,
        (true, false) => Status::Empty,
    }
}

fn nothing_kept(dropped: &[Dropped]) -> String {
    match dropped {
        [one] => format!("nothing could be kept: \"{}\" was dropped: {}", one.item, one.reason),
        _ => format!("nothing could be kept: all {} items were dropped", dropped.len()),
    }
}

fn hear(raw: &str, finish: Finish, schema: &Schema) -> Heard {
    let mut notes = Notes::new();
    let ended = hear_noting(raw, finish, schema, &mut notes);
    let ended = ended.map_err(|(status, error)| (status, (status != Status::Empty).then_some(error)));
    Heard { ended, repairs: counted(&notes) }
}

fn hear_noting(raw: &str, finish: Finish, schema: &Schema, notes: &mut Notes) -> Result<Claims, (Status, String)> {
    match finish {
        Finish::Stop => {}
        Finish::Length => return Err((Status::Failed, "cut off: the model ran into its token limit".into())),
        Finish::ContentFilter => return Err((Status::Refused, "stopped by the server's content filter".into())),
    }
    if raw.len() > MAX_ANSWER {
        let error = format!("an answer of {} bytes; at most {MAX_ANSWER} are read", raw.len());
        return Err((Status::Failed, error));
    }
    if raw.trim().is_empty() {
        return Err((Status::Failed, "the answer is blank".into()));
    }
    let (values, around) = match find(raw, notes) {
        Found::Broken(error) => return Err((Status::Failed, error)),
        Found::Words(words, range) => {
            let said = spoken(&words);
            let values = match said.0 {
                Status::Failed => forms::forms(raw, range, &mut |word| is_label(schema, word), notes),
                _ => vec![],
            };
            if values.is_empty() {
                return Err(said);
            }
            (values, String::new())
        }
        Found::Json { values, around } => (values, around),
    };
    if let [json::Node { value: json::Value::Text(text), .. }] = values.as_slice() {
        return quoted(&text.content, schema, notes);
    }
    let claims = collect(raw, &values, schema, notes);
    let nothing = claims.entities.is_empty() && claims.links.is_empty() && claims.happenings.is_empty();
    if nothing && words::refuses(&around) && !words::says_nothing(&around) {
        return Err((Status::Refused, short(around.trim())));
    }
    if claims.placeholders > 0 {
        *notes.entry("placeholder for nothing removed").or_default() += claims.placeholders;
    }
    Ok(claims)
}

fn is_label(schema: &Schema, word: &str) -> bool {
    schema.entity_label(word).or(schema.relation_label(word)).is_some()
}

/// A whole answer inside a JSON string: words, or JSON that was encoded twice. Its claims have no
/// place in the raw answer.
fn quoted(content: &str, schema: &Schema, notes: &mut Notes) -> Result<Claims, (Status, String)> {
    let mut inner = Notes::new();
    let values = match find(content, &mut inner) {
        Found::Json { values, .. } if !matches!(values[..], [json::Node { value: json::Value::Text(_), .. }]) => values,
        _ => return Err(spoken(content)),
    };
    inner.into_iter().for_each(|(kind, count)| *notes.entry(kind).or_default() += count);
    *notes.entry("JSON inside a string").or_default() += 1;
    let mut claims = collect(content, &values, schema, notes);
    claims.entities.iter_mut().for_each(|claim| claim.bytes = 0..0);
    claims.links.iter_mut().for_each(|link| link.bytes = 0..0);
    Ok(claims)
}

/// What an answer without JSON comes to.
fn spoken(words: &str) -> (Status, String) {
    if words::says_nothing(words) {
        (Status::Empty, String::new())
    } else if words::refuses(words) {
        (Status::Refused, short(words.trim()))
    } else {
        (Status::Failed, format!("no JSON in the answer: \"{}\"", short(words.trim())))
    }
}

/// The claimed entities where they stand, in text order, and where each was claimed.
fn placed(claims: &[Claim], text: &str, dropped: &mut Vec<Dropped>) -> (Vec<Entity>, Vec<Option<Range<usize>>>) {
    let listed: Vec<Listed> = claims
        .iter()
        .map(|claim| Listed { text: &claim.text, label: &claim.label, exact_only: words::is_placeholder(&claim.text) })
        .collect();
    let grounded = ground(text, &listed);
    for (at, reason) in grounded.dropped {
        if !(listed[at].exact_only && reason == "not in the text") {
            dropped.push(Dropped::new(&claims[at].text, reason));
        }
    }
    grounded
        .marks
        .into_iter()
        .map(|mark| {
            let claim = &claims[mark.listed];
            let confidence = link::said(claim.confidence);
            let surface = mark.span.slice(text).to_owned();
            let entity = Entity { label: claim.label.clone(), text: surface, span: Some(mark.span), confidence };
            (entity, Some(claim.bytes.clone()).filter(|bytes| !bytes.is_empty()))
        })
        .unzip()
}

/// A looping model repeats itself; what it repeats is dropped once.
fn once(dropped: Vec<Dropped>) -> Vec<Dropped> {
    let mut seen = HashSet::new();
    dropped.into_iter().filter(|item| seen.insert(item.clone())).collect()
}

fn counted(notes: &Notes) -> Vec<String> {
    notes
        .iter()
        .map(|(kind, &count)| if count == 1 { (*kind).to_owned() } else { format!("{kind} ({count} times)") })
        .collect()
}
