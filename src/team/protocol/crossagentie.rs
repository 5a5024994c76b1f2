//! `crossagentie`: type agents, the conflict set, debates, a summarizer; then relation agents over
//! the settled entities, and debates about their conflicts (CROSSAGENTIE, sections 3.2 and 3.3).
//!
//! **What conflicts.** Claims whose spans share a character form one conflict, be the spans equal
//! (`Washington` as person and as location) or not (`England` and `Bank of England`): a character
//! belongs to at most one entity. Conflicts of a document with the same readings (a name that
//! occurs twice) are one debate. Two relations conflict if they link the same two names with
//! different labels or directions.

use super::type_agents::entity_agents;
use super::{Claim, LinkClaim, conclude, entities, relation_agents, shown};
use crate::ie::{Document, Entity, Schema};
use crate::team::debate::{Dispute, Verdict, settle};
use crate::team::floor::Team;
use crate::template::prompt::Topic;
use crate::trace::{Support, Trace};
use std::collections::BTreeMap;

/// As many calls as there are types, plus the debates.
pub(in crate::team) fn run(team: &Team, documents: &[Document], traces: &mut [Trace]) {
    let claims = entity_agents(team, documents, traces);
    let settled = debate_entities(team, documents, traces, claims);
    let links = relation_agents(team, documents, &settled, traces);
    let candidates: Vec<Vec<Entity>> = settled.iter().map(|claims| entities(claims)).collect();
    let links = debate_relations(team, documents, traces, links, &candidates);
    for (at, links) in links.into_iter().enumerate() {
        conclude(&mut traces[at], &documents[at], &settled[at], links);
    }
}

/// Claims of one document that cannot all stand, and how they read.
struct Knot {
    claims: Vec<usize>,
    /// Distinct `(label, surface)` readings, in schema order, longer surfaces first.
    readings: Vec<(String, String)>,
}

fn debate_entities(
    team: &Team,
    documents: &[Document],
    traces: &mut [Trace],
    claims: Vec<Vec<Claim>>,
) -> Vec<Vec<Claim>> {
    let knots: Vec<Vec<Knot>> = claims.iter().map(|claims| knots(claims, team.schema())).collect();
    let mut disputes = Vec::new();
    for (document, knots) in knots.iter().enumerate() {
        for knot in knots {
            let mut readings: Vec<String> = knot.readings.iter().map(|(label, text)| reading(label, text)).collect();
            readings.push("none of these is right".into());
            let mut claimants: Vec<String> = knot.readings.iter().map(|(label, _)| label.clone()).collect();
            claimants.dedup();
            disputes.push(Dispute { document, readings, claimants });
        }
    }
    let mut verdicts = settle(team, Topic::Entities, documents, traces, disputes).into_iter();
    let mut settled = Vec::with_capacity(claims.len());
    for (claims, knots) in claims.into_iter().zip(&knots) {
        let mut keep: Vec<Option<Support>> = claims.iter().map(|claim| Some(claim.support)).collect();
        for knot in knots {
            let verdict = verdicts.next().expect("settle gives one verdict for each dispute");
            decide(knot, &claims, &verdict, &mut keep);
        }
        let kept =
            claims.into_iter().zip(keep).filter_map(|(claim, support)| Some(Claim { support: support?, ..claim }));
        settled.push(kept.collect());
    }
    settled
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
        logprob: claims[at].logprob,
        judged: verdict.judged,
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

fn reading(label: &str, text: &str) -> String {
    let article = if label.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("\"{text}\" is {article} {label}")
}

fn debate_relations(
    team: &Team,
    documents: &[Document],
    traces: &mut [Trace],
    links: Vec<Vec<LinkClaim>>,
    candidates: &[Vec<Entity>],
) -> Vec<Vec<LinkClaim>> {
    let (mut disputes, mut places) = (Vec::new(), Vec::new());
    for (document, links) in links.iter().enumerate() {
        let mut pairs: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for (at, link) in links.iter().enumerate() {
            let name = |end: usize| candidates[document][end].text.as_str();
            let (head, tail) = (name(link.relation.head), name(link.relation.tail));
            pairs.entry((head.min(tail), head.max(tail))).or_default().push(at);
        }
        for members in pairs.into_values() {
            let mut readings: Vec<String> =
                members.iter().map(|&at| shown(&links[at].relation, &candidates[document])).collect();
            readings.sort();
            readings.dedup();
            if readings.len() < 2 {
                continue;
            }
            let mut claimants: Vec<String> = members.iter().map(|&at| links[at].relation.label.clone()).collect();
            claimants.sort();
            claimants.dedup();
            readings.truncate(24);
            readings.push("all of these".into());
            readings.push("none of these is right".into());
            places.push((document, members));
            disputes.push(Dispute { document, readings, claimants });
        }
    }
    let readings: Vec<Vec<String>> = disputes.iter().map(|dispute| dispute.readings.clone()).collect();
    let verdicts = settle(team, Topic::Relations, documents, traces, disputes);
    let mut keep: Vec<Vec<bool>> = links.iter().map(|links| vec![true; links.len()]).collect();
    let mut links = links;
    for (((document, members), verdict), readings) in places.into_iter().zip(verdicts).zip(readings) {
        let all = readings.len() - 2;
        for at in members {
            let said = shown(&links[document][at].relation, &candidates[document]);
            keep[document][at] = verdict.choice.is_some_and(|choice| choice == all || readings[choice] == said);
            let link = &mut links[document][at];
            link.support =
                Support { votes: verdict.votes, voters: verdict.voters, logprob: link.logprob, judged: verdict.judged };
        }
    }
    links
        .into_iter()
        .zip(keep)
        .map(|(links, keep)| links.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(link, _)| link).collect())
        .collect()
}
