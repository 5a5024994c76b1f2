//! What an expert of CooperKGC says, read: the first part of `filter_ans`. What breaks the format,
//! the schema or the text is dropped and counted in the turn; an answer of which nothing could be
//! read is a failed turn.

use super::super::{Claim, events as told, note, read_claims_of, shown};
use crate::config::ExpertTask;
use crate::ie::{Event, Extraction, Schema, Status};
use crate::store::StoredAnswer;
use crate::team::room::{Logprobs, finish, logprobs};
use crate::template::answer::{EventReading, Triple, TripleReading, read_events, read_triples};
use crate::template::prompt::replica;
use crate::trace::Turn;

/// Characters of a reason that are kept.
const LONGEST_REASON: usize = 1000;

/// A usable answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub said: Said,
    /// S(r): its items in the one answer format.
    pub items: String,
    /// As it came.
    pub raw: String,
}

/// The items of an answer.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Entities(Vec<Claim>),
    /// And how they stand in the text as long as nobody else has spoken.
    Relations(Vec<Linked>, Extraction),
    Events(Vec<Happening>),
}

/// A triple that an expert claims.
#[derive(Clone, Debug)]
pub(super) struct Linked {
    pub triple: Triple,
    pub logprobs: Logprobs,
}

/// An event that an expert claims.
#[derive(Clone, Debug)]
pub(super) struct Happening {
    pub event: Event,
    pub logprobs: Logprobs,
}

/// Reads an answer of an expert into `turn`; `None` where the turn failed.
pub(super) fn hear(
    text: &str,
    task: ExpertTask,
    schema: &Schema,
    answer: &StoredAnswer,
    turn: &mut Turn,
) -> Option<Answer> {
    if turn.error.is_some() {
        return None;
    }
    let (said, extraction) = match task {
        ExpertTask::Entities => {
            let claims = read_claims_of(text, schema, None, answer, turn)?;
            let extraction = Extraction { entities: super::super::entities(&claims), ..Extraction::default() };
            (Said::Entities(claims), extraction)
        }
        ExpertTask::Relations => relations(text, schema, answer, turn)?,
        ExpertTask::Events => events(text, schema, answer, turn)?,
    };
    turn.reason = reason(&answer.content);
    turn.status = if turn.found.is_empty() { Status::Empty } else { Status::Ok };
    Some(Answer { said, items: replica(task, &extraction, schema), raw: answer.content.clone() })
}

fn relations(text: &str, schema: &Schema, answer: &StoredAnswer, turn: &mut Turn) -> Option<(Said, Extraction)> {
    let TripleReading { status, triples, extraction, repairs, dropped, error } =
        read_triples(&answer.content, finish(answer), text, schema);
    note(turn, status, repairs, dropped, error);
    if matches!(turn.status, Status::Failed | Status::Refused) {
        return None;
    }
    turn.found.extend(extraction.relations.iter().map(|relation| shown(relation, &extraction.entities)));
    let linked = triples.into_iter().map(|triple| {
        let logprobs = logprobs(answer, Some(&triple.bytes));
        Linked { triple, logprobs }
    });
    Some((Said::Relations(linked.collect(), extraction.clone()), extraction))
}

fn events(text: &str, schema: &Schema, answer: &StoredAnswer, turn: &mut Turn) -> Option<(Said, Extraction)> {
    let EventReading { status, events, provenance, repairs, dropped, error } =
        read_events(&answer.content, finish(answer), text, schema, &[]);
    note(turn, status, repairs, dropped, error);
    if matches!(turn.status, Status::Failed | Status::Refused) {
        return None;
    }
    turn.found.extend(events.iter().map(told::shown));
    let extraction = Extraction { events: events.clone(), ..Extraction::default() };
    let happenings = events.into_iter().zip(provenance).map(|(event, bytes)| {
        let logprobs = logprobs(answer, Some(&bytes));
        Happening { event, logprobs }
    });
    Some((Said::Events(happenings.collect()), extraction))
}

/// The reason in front of the items, where the answer is one JSON object.
fn reason(raw: &str) -> Option<String> {
    let object = raw.get(raw.find('{')?..=raw.rfind('}')?)?;
    let value: serde_json::Value = serde_json::from_str(object).ok()?;
    let said: String = value.get("reason")?.as_str()?.trim().chars().take(LONGEST_REASON).collect();
    (!said.is_empty()).then_some(said)
}
