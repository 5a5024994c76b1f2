//! `type_agents`: one agent per entity type and per relation type, each alone (CROSSAGENTIE,
//! section 3.2). Without a debate, contradicting claims stand side by side.

use super::{Claim, conclude, in_text_order, read_claims, readable, relation_agents};
use crate::ie::Document;
use crate::team::floor::{Floor, Question, Team};
use crate::trace::Trace;

/// One call per entity type, and one per relation type whose signature fits a pair.
pub(in crate::team) fn run(team: &Team, documents: &[Document], traces: &mut [Trace]) {
    let mut claims = entity_agents(team, documents, traces);
    for claims in &mut claims {
        let all = claims.clone();
        for claim in claims.iter_mut() {
            claim.support.voters = all.iter().filter(|other| other.span.overlaps(&claim.span)).count() as u32;
        }
    }
    let links = relation_agents(team, documents, &claims, traces);
    for (at, links) in links.into_iter().enumerate() {
        conclude(&mut traces[at], &documents[at], &claims[at], links);
    }
}

/// What each entity-type agent claims of each document, in text order.
pub(super) fn entity_agents(team: &Team, documents: &[Document], traces: &mut [Trace]) -> Vec<Vec<Claim>> {
    let mut claims = vec![Vec::new(); documents.len()];
    for agent in &team.schema().entities {
        let questions = readable(documents).map(|(at, document)| Question {
            document: at,
            conflict: None,
            messages: team.prompts.type_agent(agent, &document.text),
        });
        let floor = Floor { stage: "entities", agent: &agent.label, round: 0 };
        let heard = team.ask(floor, questions.collect(), traces, |question, answer, turn| {
            read_claims(team, Some(&agent.label), &documents[question.document].text, answer, turn)
        });
        for (at, found) in heard {
            claims[at].extend(found.unwrap_or_default());
        }
    }
    claims.iter_mut().for_each(in_text_order);
    claims
}
