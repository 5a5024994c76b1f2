//! `type_agents`: one agent per entity type, relation type and event type, each alone
//! (CROSSAGENTIE, section 3.2). Without a debate, contradicting claims stand side by side.

use super::events::event_agents;
use super::{Claim, Found, entities, in_text_order, read_claims, relation_agents};
use crate::team::room::{Question, Room};

/// One call per entity type, one per relation type whose signature fits a pair, one per event type.
pub(super) async fn read(room: &Room<'_>) {
    let mut claims = entity_agents(room).await;
    for at in 0..claims.len() {
        let overlaps = claims.iter().filter(|other| other.span.overlaps(&claims[at].span)).count();
        claims[at].support.voters = overlaps as u32;
    }
    let links = relation_agents(room, 0, &claims).await;
    let events = event_agents(room, 0, &entities(&claims)).await;
    Found { claims, links, events }.conclude(room);
}

/// What each entity-type agent claims, in text order.
pub(super) async fn entity_agents(room: &Room<'_>) -> Vec<Claim> {
    let agents = &room.schema().entities;
    let ask = |agent| room.prompts().type_agent(agent, room.text());
    let questions = agents.iter().map(|agent| Question::first("entities", &agent.label, ask(agent))).collect();
    let heard =
        room.ask(questions, |question, answer, turn| read_claims(room, Some(&question.agent), answer, turn)).await;
    let mut claims = heard.into_iter().flatten().flatten().collect();
    in_text_order(&mut claims);
    claims
}
