//! One file per published method.

pub mod aeio;
mod cooperkgc;
pub mod crossagentie;
mod events;
mod feedback;
pub mod type_agents;

use super::room::{Logprobs, Question, Room, finish, logprobs};
use crate::ie::record::ExtractionRecord;
use crate::ie::{Entity, Event, Extraction, Relation, Schema, Span, Status};
use crate::store::StoredAnswer;
use crate::template::answer::{Dropped, Reading, RelationReading, read_answer, read_relations};
use crate::trace::{Support, Turn};

/// The methods that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// All entity types in one prompt, then all relation types in one prompt.
    Aeio,
    /// One agent per type, no debate.
    TypeAgents,
    /// Type agents, debates about conflicts, a summarizer.
    Crossagentie,
    /// Experts in entities, relations and events that improve their answers with each other's.
    Cooperkgc,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 4] = [Protocol::Aeio, Protocol::TypeAgents, Protocol::Crossagentie, Protocol::Cooperkgc];

    /// As in configs, files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Aeio => "aeio",
            Protocol::TypeAgents => "type_agents",
            Protocol::Crossagentie => "crossagentie",
            Protocol::Cooperkgc => "cooperkgc",
        }
    }

    /// The protocol of this name.
    pub fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

/// Reads the document of a room; a blank one is answered without a call.
pub(super) async fn read(room: &Room<'_>) {
    if room.document.is_blank() {
        return;
    }
    match room.team().protocol {
        Protocol::Aeio => aeio::read(room).await,
        Protocol::TypeAgents => type_agents::read(room).await,
        Protocol::Crossagentie => crossagentie::read(room).await,
        Protocol::Cooperkgc => cooperkgc::read(room).await,
    }
}

/// A mention that an agent claims for a label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    pub label: String,
    pub text: String,
    pub span: Span,
    pub support: Support,
}

/// A relation that an agent claims between two entities.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LinkClaim {
    pub relation: Relation,
    pub support: Support,
}

/// An event that an agent claims.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventClaim {
    pub event: Event,
    pub support: Support,
}

/// What a team stands behind, or would.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub claims: Vec<Claim>,
    pub links: Vec<LinkClaim>,
    pub events: Vec<EventClaim>,
}

/// Undisputed until somebody disputes it.
pub(super) fn alone(logprobs: Logprobs) -> Support {
    let Logprobs { mean, least, first } = logprobs;
    Support { votes: 1, voters: 1, logprob: mean, least, first, ..Support::default() }
}

/// Reads an answer about entities into claims; what the agent says of labels that are not `own` is
/// dropped: other experts speak for those.
pub(super) fn read_claims(
    room: &Room,
    own: Option<&str>,
    answer: &StoredAnswer,
    turn: &mut Turn,
) -> Option<Vec<Claim>> {
    read_claims_of(room.text(), room.schema(), own, answer, turn)
}

/// The same for labels of any schema.
pub(super) fn read_claims_of(
    text: &str,
    schema: &Schema,
    own: Option<&str>,
    answer: &StoredAnswer,
    turn: &mut Turn,
) -> Option<Vec<Claim>> {
    if turn.error.is_some() {
        return None;
    }
    let Reading { status, extraction, provenance, repairs, dropped, error } =
        read_answer(&answer.content, finish(answer), text, schema);
    note(turn, status, repairs, dropped, error);
    if matches!(turn.status, Status::Failed | Status::Refused) {
        return None;
    }
    let mut claims = Vec::new();
    for (entity, bytes) in extraction.entities.into_iter().zip(provenance) {
        let Some(span) = entity.span else { continue };
        if own.is_some_and(|own| own != entity.label) {
            turn.dropped.push((entity.text, format!("{} is another agent's type", entity.label)));
            continue;
        }
        let support = alone(logprobs(answer, bytes.as_ref()));
        turn.found.push(format!("{} \"{}\"", entity.label, entity.text));
        claims.push(Claim { label: entity.label, text: entity.text, span, support });
    }
    turn.status = if claims.is_empty() { Status::Empty } else { Status::Ok };
    Some(claims)
}

/// Reads an answer about relations among `entities` into claims.
pub(super) fn read_links(
    room: &Room,
    own: Option<&str>,
    entities: &[Entity],
    answer: &StoredAnswer,
    turn: &mut Turn,
) -> Option<Vec<LinkClaim>> {
    if turn.error.is_some() {
        return None;
    }
    let RelationReading { status, relations, provenance, absent, repairs, dropped, error } =
        read_relations(&answer.content, finish(answer), room.schema(), entities);
    note(turn, status, repairs, dropped, error);
    if matches!(turn.status, Status::Failed | Status::Refused) {
        return None;
    }
    turn.absent = absent;
    let mut claims = Vec::new();
    for (relation, bytes) in relations.into_iter().zip(provenance) {
        if own.is_some_and(|own| own != relation.label) {
            continue;
        }
        let support = alone(logprobs(answer, bytes.as_ref()));
        turn.found.push(shown(&relation, entities));
        claims.push(LinkClaim { relation, support });
    }
    turn.status = if claims.is_empty() { Status::Empty } else { Status::Ok };
    Some(claims)
}

/// `works_for "Ann" → "Acme"`.
pub(super) fn shown(relation: &Relation, entities: &[Entity]) -> String {
    let name = |at: usize| entities.get(at).map_or("?", |entity| entity.text.as_str());
    format!("{} \"{}\" → \"{}\"", relation.label, name(relation.head), name(relation.tail))
}

/// An answer whose every item was invented (not in the text, or no asked type) says of the text
/// that nothing is there: heard, with its drops counted. An answer that could not be read is failed.
pub(super) fn note(
    turn: &mut Turn,
    status: Status,
    repairs: Vec<String>,
    dropped: Vec<Dropped>,
    error: Option<String>,
) {
    let invented =
        !dropped.is_empty() && error.as_deref().is_some_and(|error| error.starts_with("nothing could be kept"));
    turn.status = if status == Status::Failed && invented { Status::Empty } else { status };
    turn.error = if turn.status == Status::Empty { None } else { error };
    turn.repairs = repairs;
    turn.dropped = dropped.into_iter().map(|dropped| (dropped.item, dropped.reason)).collect();
}

/// The claims as entities, in text order.
pub(super) fn entities(claims: &[Claim]) -> Vec<Entity> {
    claims
        .iter()
        .map(|claim| Entity {
            label: claim.label.clone(),
            text: claim.text.clone(),
            span: Some(claim.span),
            confidence: None,
        })
        .collect()
}

/// Text order, one claim per span and label.
pub(super) fn in_text_order(claims: &mut Vec<Claim>) {
    claims.sort_by(|a, b| (a.span, &a.label).cmp(&(b.span, &b.label)));
    claims.dedup_by(|a, b| (a.span, &a.label) == (b.span, &b.label));
}

/// Text order, one claim per relation.
pub(super) fn in_pair_order(links: &mut Vec<LinkClaim>) {
    links.sort_by(|a, b| {
        let key = |link: &LinkClaim| (link.relation.head, link.relation.tail, link.relation.label.clone());
        key(a).cmp(&key(b))
    });
    links.dedup_by(|a, b| a.relation == b.relation);
}

impl Found {
    /// As an extraction.
    pub fn extraction(&self) -> Extraction {
        let relations = self.links.iter().map(|link| link.relation.clone()).collect();
        let events = self.events.iter().map(|claim| claim.event.clone()).collect();
        Extraction { entities: entities(&self.claims), relations, events }
    }

    /// Writes the outcome and what stands behind it.
    pub fn conclude(mut self, room: &Room) {
        in_pair_order(&mut self.links);
        let extraction = self.extraction();
        room.write(|trace| {
            trace.extraction = ExtractionRecord::of(&extraction, room.text());
            trace.entity_support = self.claims.iter().map(|claim| claim.support).collect();
            trace.relation_support = self.links.iter().map(|link| link.support).collect();
            trace.event_support = self.events.iter().map(|claim| claim.support).collect();
        });
    }
}

/// One agent per relation type over the entities found, asked only for pairs that its signature
/// allows.
pub(super) async fn relation_agents(room: &Room<'_>, round: u32, found: &[Claim]) -> Vec<LinkClaim> {
    let candidates = entities(found);
    let questions = room.schema().relations.iter().filter_map(|agent| {
        let messages = room.prompts().relation_agent(agent, room.text(), &candidates)?;
        Some(Question::first("relations", &agent.label, messages).in_round(round))
    });
    let heard = room.ask(questions.collect(), |question, answer, turn| {
        read_links(room, Some(&question.agent), &candidates, answer, turn)
    });
    heard.await.into_iter().flatten().flatten().collect()
}
