//! The inter-group cross-task debate of CROSSAGENTIE (section 3.4): confirmed relations and events
//! become statements in the prompts of the entity agents, labels that contradict them are withdrawn,
//! and what the tasks need of each other is measured by Δ(A, B).
//!
//! **Δ(A, B) = (A ∖ B) ∪ (B ∖ A).** A holds the entities that the entity agents give and that a
//! relation or a role could use by its signature; B holds those that relations and events do use, and
//! the names that a relation agent wanted and nobody gave. What only one task has is to vanish.

use super::{Claim, Found, entities};
use crate::ie::{Entity, EntityType, Schema, Span};
use crate::team::room::{Question, Room};
use std::collections::BTreeSet;

/// What the other tasks tell the entity agents.
pub(super) struct Feedback {
    /// Confirmed relations and events, and names that are wanted, as sentences.
    pub statements: Vec<String>,
    demands: Vec<Demand>,
}

/// The types that a confirmed fact asks of a mention. Agents speak of names, not of places: it holds
/// wherever the name stands.
struct Demand {
    span: Option<Span>,
    text: String,
    types: Vec<String>,
    /// The fact, as a sentence.
    statement: String,
}

impl Demand {
    fn is_about(&self, claim: &Claim) -> bool {
        claim.text == self.text || self.span.is_some_and(|span| span.overlaps(&claim.span))
    }
}

impl Feedback {
    /// What `found` says, and the relation agents of the last round wanted.
    pub fn of(room: &Room, found: &Found, round: u32) -> Feedback {
        let (prompts, schema) = (room.prompts(), room.schema());
        let (mut statements, mut demands) = (Vec::new(), Vec::new());
        for link in &found.links {
            let (head, tail) = (&found.claims[link.relation.head], &found.claims[link.relation.tail]);
            let statement = prompts.relation_statement(&link.relation.label, &head.text, &tail.text);
            let Some(kind) = schema.relation(&link.relation.label) else { continue };
            for (end, types) in [(head, &kind.head), (tail, &kind.tail)] {
                if !types.is_empty() {
                    let (text, types, statement) = (end.text.clone(), types.clone(), statement.clone());
                    demands.push(Demand { span: Some(end.span), text, types, statement });
                }
            }
            statements.push(statement);
        }
        for claim in &found.events {
            let event = &claim.event;
            let arguments: Vec<(String, String)> =
                event.arguments.iter().map(|argument| (argument.role.clone(), argument.text.clone())).collect();
            let statement = prompts.event_statement(&event.label, &event.trigger.text, &arguments);
            let kind = schema.events.iter().find(|kind| kind.label == event.label);
            for argument in &event.arguments {
                let role = kind.and_then(|kind| kind.roles.iter().find(|role| role.label == argument.role));
                if let Some(role) = role.filter(|role| !role.types.is_empty()) {
                    let (text, types, statement) = (argument.text.clone(), role.types.clone(), statement.clone());
                    demands.push(Demand { span: argument.span, text, types, statement });
                }
            }
            statements.push(statement);
        }
        statements.extend(wanted(room, round).iter().map(|name| prompts.wanted(name)));
        let mut seen = BTreeSet::new();
        statements.retain(|statement| seen.insert(statement.clone()));
        Feedback { statements, demands }
    }

    /// Takes out the claims that contradict a confirmed fact, where another claim of the mention
    /// does not; what was withdrawn stands in the trace.
    pub fn withdraw(&self, room: &Room, claims: &mut Vec<Claim>) {
        let all = claims.clone();
        let mut withdrawn = Vec::new();
        claims.retain(|claim| {
            let against = self.demands.iter().find(|demand| {
                let fits = |claim: &Claim| demand.types.contains(&claim.label);
                let rival = |other: &Claim| fits(other) && demand.is_about(other) && other.span.overlaps(&claim.span);
                demand.is_about(claim) && !fits(claim) && all.iter().any(rival)
            });
            if let Some(demand) = against {
                withdrawn.push(format!("{} \"{}\": contradicts {}", claim.label, claim.text, demand.statement));
            }
            against.is_none()
        });
        withdrawn.dedup();
        room.write(|trace| trace.withdrawn.extend(withdrawn));
    }
}

/// The entity agents once more; an agent without a usable answer keeps its claims.
pub(super) async fn ask_again(room: &Room<'_>, round: u32, feedback: &Feedback, before: &[Claim]) -> Vec<Claim> {
    let agents = &room.schema().entities;
    let ask = |agent: &EntityType| {
        let mut names: Vec<&str> = Vec::new();
        for claim in own(before, agent) {
            if !names.contains(&claim.text.as_str()) {
                names.push(&claim.text);
            }
        }
        let messages = room.prompts().type_agent_again(agent, room.text(), &feedback.statements, &names);
        Question::first("entities", &agent.label, messages).in_round(round)
    };
    let heard = room.ask(agents.iter().map(ask).collect(), |question, answer, turn| {
        super::read_claims(room, Some(&question.agent), answer, turn)
    });
    let mut claims = Vec::new();
    for (agent, found) in agents.iter().zip(heard.await) {
        claims.extend(found.unwrap_or_else(|| own(before, agent).cloned().collect()));
    }
    super::in_text_order(&mut claims);
    claims
}

fn own<'c>(claims: &'c [Claim], agent: &'c EntityType) -> impl Iterator<Item = &'c Claim> {
    claims.iter().filter(|claim| claim.label == agent.label)
}

/// Names of the text that the relation agents of this round relate and nobody gave.
fn wanted(room: &Room, round: u32) -> BTreeSet<String> {
    room.write(|trace| {
        let turns = trace.turns.iter().filter(|turn| turn.round == round && turn.stage == "relations");
        turns
            .flat_map(|turn| turn.absent.iter())
            .filter(|name| room.document.text.contains(name.as_str()))
            .cloned()
            .collect()
    })
}

/// The size of Δ(A, B) after a round.
pub(super) fn delta(room: &Room, found: &Found, round: u32) -> u32 {
    let given = entities(&found.claims);
    let usable = |entity: &&Entity| can_be_used(room.schema(), &entity.label);
    let a: BTreeSet<(Option<Span>, String)> =
        given.iter().filter(usable).map(|entity| (entity.span, entity.text.clone())).collect();
    let of = |at: usize| (given[at].span, given[at].text.clone());
    let ends = found.links.iter().flat_map(|link| [of(link.relation.head), of(link.relation.tail)]);
    let arguments = found.events.iter().flat_map(|claim| &claim.event.arguments);
    let mut b: BTreeSet<(Option<Span>, String)> = ends.collect();
    b.extend(arguments.map(|argument| (argument.span, argument.text.clone())).filter(|argument| a.contains(argument)));
    b.extend(wanted(room, round).into_iter().map(|name| (None, name)));
    a.symmetric_difference(&b).count() as u32
}

/// Whether a relation or a role may take an entity of this type.
fn can_be_used(schema: &Schema, label: &str) -> bool {
    let takes = |types: &[String]| types.is_empty() || types.iter().any(|kind| kind == label);
    schema.relations.iter().any(|kind| takes(&kind.head) || takes(&kind.tail))
        || schema.events.iter().flat_map(|kind| &kind.roles).any(|role| !role.types.is_empty() && takes(&role.types))
}
