//! `crossagentie`: type agents, the conflict set, debates, a summarizer; then relation and event
//! agents over the settled entities, debates about their conflicts, and feedback between the tasks
//! (CROSSAGENTIE, sections 3.2 to 3.4; events are our extension by the same rules).
//!
//! **What conflicts.** Claims whose spans share a character form one conflict, be the spans equal
//! (`Washington` as person and as location) or not (`England` and `Bank of England`): a character
//! belongs to at most one entity. Conflicts of a document with the same readings (a name that
//! occurs twice) are one debate. Two relations conflict if they link the same two names with
//! different labels or directions, two events if their triggers share a character.
//!
//! **Feedback.** A round tells the entity agents what the other tasks confirmed, withdraws labels
//! that contradict it, debates anew, and asks relations and events again where entities changed. Its
//! result stands, and another round follows only if Δ shrank. Where nothing was confirmed and
//! nothing is wanted, there is nothing to feed back.

use super::events::{debate_events, event_agents};
use super::feedback::{Feedback, ask_again, delta};
use super::type_agents::entity_agents;
use super::{Claim, EventClaim, Found, LinkClaim, entities, relation_agents, shown};
use crate::ie::{Entity, Schema};
use crate::team::debate::{Dispute, Verdict, settle};
use crate::team::room::Room;
use crate::template::prompt::Topic;
use crate::trace::Support;
use std::collections::BTreeMap;

/// As many calls as there are types, plus the debates, for each round of feedback again.
pub(super) async fn read(room: &Room<'_>) {
    let claims = entity_agents(room).await;
    room.note("first", 0, &Found { claims: claims.clone(), ..Found::default() }.extraction(), None);
    let claims = debate_entities(room, claims).await;
    let mut found = related(room, 0, claims).await;
    let mut apart = delta(room, &found, 0);
    room.note("debate", 0, &found.extraction(), Some(apart));
    for round in 1..=room.team().options.feedback_rounds {
        let feedback = Feedback::of(room, &found, round - 1);
        if feedback.statements.is_empty() {
            break;
        }
        let Some((next, now)) = fed_back(room, round, &feedback, &found).await else { break };
        room.note("feedback", round, &next.extraction(), Some(now));
        let closer = now < apart;
        (found, apart) = (next, now);
        if !closer {
            break;
        }
    }
    found.conclude(room);
}

/// One round of feedback, and Δ after it; `None` if no entity changed.
async fn fed_back(room: &Room<'_>, round: u32, feedback: &Feedback, found: &Found) -> Option<(Found, u32)> {
    let mut claims = ask_again(room, round, feedback, &found.claims).await;
    feedback.withdraw(room, &mut claims);
    let claims = debate_entities(room, claims).await;
    let place = |claim: &Claim| (claim.span, claim.label.clone());
    if claims.iter().map(place).eq(found.claims.iter().map(place)) {
        return None;
    }
    let next = related(room, round, claims).await;
    let apart = delta(room, &next, round);
    Some((next, apart))
}

/// Relations and events over settled entities, debated.
async fn related(room: &Room<'_>, round: u32, claims: Vec<Claim>) -> Found {
    let candidates = entities(&claims);
    let links = relation_agents(room, round, &claims).await;
    let links = debate_relations(room, links, &candidates).await;
    let events: Vec<EventClaim> = event_agents(room, round, &candidates).await;
    let debated = room.team().options.debated.events;
    let events = if debated { debate_events(room, events).await } else { events };
    Found { claims, links, events }
}

/// Claims that cannot all stand, and how they read.
struct Knot {
    claims: Vec<usize>,
    /// Distinct `(label, surface)` readings, in schema order, longer surfaces first.
    readings: Vec<(String, String)>,
}

async fn debate_entities(room: &Room<'_>, claims: Vec<Claim>) -> Vec<Claim> {
    if !room.team().options.debated.entities {
        return claims;
    }
    let knots = knots(&claims, room.schema());
    let mut disputes = Vec::new();
    for knot in &knots {
        let mut readings: Vec<String> =
            knot.readings.iter().map(|(label, text)| room.prompts().mention_reading(label, text)).collect();
        readings.push(room.prompts().none_is_right().into());
        let mut claimants: Vec<String> = knot.readings.iter().map(|(label, _)| label.clone()).collect();
        claimants.dedup();
        disputes.push(Dispute { readings, claimants });
    }
    let verdicts = settle(room, Topic::Entities, disputes).await;
    let mut keep: Vec<Option<Support>> = claims.iter().map(|claim| Some(claim.support)).collect();
    for (knot, verdict) in knots.iter().zip(&verdicts) {
        decide(knot, &claims, verdict, &mut keep);
    }
    let kept = claims.into_iter().zip(keep).filter_map(|(claim, support)| Some(Claim { support: support?, ..claim }));
    kept.collect()
}

/// Connected components of overlapping claims with more than one reading; components with the
/// same readings are joined.
fn knots(claims: &[Claim], schema: &Schema) -> Vec<Knot> {
    let mut components: Vec<Vec<usize>> = Vec::new();
    let mut end = 0;
    for (at, claim) in claims.iter().enumerate() {
        match components.last_mut() {
            Some(component) if claim.span.start() < end => component.push(at),
            _ => components.push(vec![at]),
        }
        end = end.max(claim.span.end());
    }
    let rank = |label: &str| schema.entities.iter().position(|t| t.label == label);
    let mut joined: Vec<Knot> = Vec::new();
    for component in components {
        let mut readings: Vec<(String, String)> =
            component.iter().map(|&at| (claims[at].label.clone(), claims[at].text.clone())).collect();
        readings.sort_by(|a, b| (rank(&a.0), b.1.len(), &a.1).cmp(&(rank(&b.0), a.1.len(), &b.1)));
        readings.dedup();
        // Letters end at Z, and one is "none of these".
        readings.truncate(25);
        if readings.len() < 2 {
            continue;
        }
        match joined.iter_mut().find(|knot| knot.readings == readings) {
            Some(knot) => knot.claims.extend(component),
            None => joined.push(Knot { claims: component, readings }),
        }
    }
    joined
}

/// The chosen reading stays; so does a claim of the knot that overlaps neither it nor another.
fn decide(knot: &Knot, claims: &[Claim], verdict: &Verdict, keep: &mut [Option<Support>]) {
    let chosen = verdict.choice.and_then(|reading| knot.readings.get(reading));
    let is_chosen =
        |at: usize| chosen.is_some_and(|(label, text)| claims[at].label == *label && claims[at].text == *text);
    let support = |at: usize| Support {
        votes: verdict.votes,
        voters: verdict.voters,
        judged: verdict.judged,
        debate: verdict.course,
        ..claims[at].support
    };
    for &at in &knot.claims {
        let free = chosen.is_some()
            && !knot.claims.iter().any(|&other| other != at && claims[other].span.overlaps(&claims[at].span));
        keep[at] = if is_chosen(at) {
            Some(support(at))
        } else if free {
            keep[at]
        } else {
            None
        };
    }
}

async fn debate_relations(room: &Room<'_>, mut links: Vec<LinkClaim>, candidates: &[Entity]) -> Vec<LinkClaim> {
    if !room.team().options.debated.relations {
        return links;
    }
    let mut pairs: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (at, link) in links.iter().enumerate() {
        let name = |end: usize| candidates[end].text.as_str();
        let (head, tail) = (name(link.relation.head), name(link.relation.tail));
        pairs.entry((head.min(tail), head.max(tail))).or_default().push(at);
    }
    let (mut disputes, mut places) = (Vec::new(), Vec::new());
    for members in pairs.into_values() {
        let mut readings: Vec<String> = members.iter().map(|&at| shown(&links[at].relation, candidates)).collect();
        readings.sort();
        readings.dedup();
        if readings.len() < 2 {
            continue;
        }
        let mut claimants: Vec<String> = members.iter().map(|&at| links[at].relation.label.clone()).collect();
        claimants.sort();
        claimants.dedup();
        readings.truncate(24);
        readings.push(room.prompts().all_are_right().into());
        readings.push(room.prompts().none_is_right().into());
        places.push((members, readings.clone()));
        disputes.push(Dispute { readings, claimants });
    }
    let verdicts = settle(room, Topic::Relations, disputes).await;
    let mut keep = vec![true; links.len()];
    for ((members, readings), verdict) in places.into_iter().zip(verdicts) {
        let all = readings.len() - 2;
        for at in members {
            let said = shown(&links[at].relation, candidates);
            keep[at] = verdict.choice.is_some_and(|choice| choice == all || readings[choice] == said);
            let Verdict { votes, voters, judged, course: debate, .. } = verdict;
            links[at].support = Support { votes, voters, judged, debate, ..links[at].support };
        }
    }
    links.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(link, _)| link).collect()
}
