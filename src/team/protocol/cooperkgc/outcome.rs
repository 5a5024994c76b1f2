//! What a team of experts comes to: the last answers of those with the team's schema, put together.
//!
//! **Several experts of one task.** An item stands that more than half of those who answered hold;
//! one that exactly half hold stands if the first of them is among these. Items are compared by
//! label and place (entities, triggers), by label and the two names (relations); the arguments of an
//! event are put to the same vote among those who hold the event.
//!
//! **Entities** are those of the experts in entities, and the ends of relations that these have not
//! found, typed by the signatures ([`compose`]). A relation whose end they have given a type that the
//! signature does not allow is dropped, and so is an argument whose role does not allow its type:
//! the second part of `filter_ans`, which needs all answers.
//!
//! **Support.** Voters are all answers that the experts of the task were asked for, round by round;
//! votes those that hold the item: an item that was there from the first round on is surer than one
//! that came and went. To an entity, each expert in relations or events whose last answer has that
//! very span adds a voter, and a vote if its signature allows the type; to a relation, each expert in
//! entities that has typed both ends. An entity that only a relation speaks of has the relation's
//! support, and one voter more where experts in entities have answered without it.

use super::super::{Claim, alone, entities};
use super::Seat;
use super::answer::{Happening, Linked, Said};
use crate::config::ExpertTask;
use crate::ie::{Argument, Entity, Event, Extraction, Relation, Schema, Span};
use crate::template::answer::{Composed, Triple, compose};
use crate::trace::Support;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The team's answer, what stands behind it, and what was not kept.
#[derive(Default)]
pub(super) struct Outcome {
    pub extraction: Extraction,
    pub entity_support: Vec<Support>,
    pub relation_support: Vec<Support>,
    pub event_support: Vec<Support>,
    /// Task, item, reason.
    pub dropped: Vec<(ExpertTask, String, String)>,
}

/// Puts the last answers together.
pub(super) fn outcome(text: &str, schema: &Schema, seats: &[Seat]) -> Outcome {
    let team = Own { seats, schema };
    let mut dropped = Vec::new();
    // ── entities, and relations over them ──
    let claims = team.claims();
    let linked = team.linked();
    let triples: Vec<Triple> = linked.iter().map(|linked| linked.triple.clone()).collect();
    let Composed { extraction, from, dropped: lost } = compose(&triples, text, &entities(&claims), schema);
    dropped.extend(lost.into_iter().map(|(_, lost)| (ExpertTask::Relations, lost.item, lost.reason)));
    let (entities, mut relations) = (extraction.entities, extraction.relations);
    let relation_support: Vec<Support> = relations
        .iter()
        .zip(&from)
        .map(|(relation, &at)| team.behind_relation(&linked[at], relation, &entities, &claims))
        .collect();
    let entity_support: Vec<Support> = (0..entities.len())
        .map(|at| match claims.get(at) {
            Some(claim) => team.behind_claim(claim),
            None => team.behind_end(at, &relations, &relation_support),
        })
        .collect();
    // ── text order ──
    let mut order: Vec<usize> = (0..entities.len()).collect();
    order.sort_by(|&a, &b| (entities[a].span, &entities[a].label).cmp(&(entities[b].span, &entities[b].label)));
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| place[from] = to);
    relations.iter_mut().for_each(|link| (link.head, link.tail) = (place[link.head], place[link.tail]));
    let mut links: Vec<(Relation, Support)> = relations.into_iter().zip(relation_support).collect();
    links.sort_by(|(a, _), (b, _)| (a.head, a.tail, &a.label).cmp(&(b.head, b.tail, &b.label)));
    let (relations, relation_support) = links.into_iter().unzip();
    // ── events ──
    let mut happenings = team.happenings();
    happenings.sort_by(|a, b| (a.event.trigger.span, &a.event.label).cmp(&(b.event.trigger.span, &b.event.label)));
    happenings.iter_mut().for_each(|happening| allowed(&mut happening.event, &claims, schema, &mut dropped));
    let event_support = happenings.iter().map(|happening| team.behind_event(happening)).collect();
    let events = happenings.into_iter().map(|happening| happening.event).collect();
    let extraction = Extraction { entities: order.iter().map(|&at| entities[at].clone()).collect(), relations, events };
    let entity_support = order.iter().map(|&at| entity_support[at]).collect();
    Outcome { extraction, entity_support, relation_support, event_support, dropped }
}

/// Drops arguments whose role does not allow the type that the experts in entities have given.
fn allowed(event: &mut Event, claims: &[Claim], schema: &Schema, dropped: &mut Vec<(ExpertTask, String, String)>) {
    let kind = schema.events.iter().find(|kind| kind.label == event.label);
    event.arguments.retain(|argument| {
        let role = kind.and_then(|kind| kind.roles.iter().find(|role| role.label == argument.role));
        let typed = claims.iter().find(|claim| Some(claim.span) == argument.span);
        let (Some(role), Some(claim)) = (role, typed) else { return true };
        let fits = fits(&role.types, &claim.label);
        if !fits {
            let reason = format!(
                "role \"{}\" does not allow {}; it asks for {}",
                role.label,
                claim.label,
                role.types.join(", ")
            );
            dropped.push((ExpertTask::Events, argument.text.clone(), reason));
        }
        fits
    });
}

fn fits(types: &[String], label: &str) -> bool {
    types.is_empty() || types.iter().any(|known| known == label)
}

/// The experts whose answers are the team's.
struct Own<'a> {
    seats: &'a [Seat<'a>],
    schema: &'a Schema,
}

impl Own<'_> {
    fn of(&self, task: ExpertTask) -> impl Iterator<Item = &Seat<'_>> {
        self.seats.iter().filter(move |seat| seat.is_own() && seat.expert.task == task)
    }

    /// The last answers of the experts of a task.
    fn said(&self, task: ExpertTask) -> impl Iterator<Item = &Said> {
        self.of(task).filter_map(|seat| Some(&seat.standing()?.said))
    }

    fn claims(&self) -> Vec<Claim> {
        let answers: Vec<&[Claim]> = self
            .said(ExpertTask::Entities)
            .filter_map(|said| if let Said::Entities(claims) = said { Some(claims.as_slice()) } else { None })
            .collect();
        let mut claims = majority(&answers, |claim| (claim.span, claim.label.clone()));
        super::super::in_text_order(&mut claims);
        claims
    }

    fn linked(&self) -> Vec<Linked> {
        let answers: Vec<&[Linked]> = self
            .said(ExpertTask::Relations)
            .filter_map(|said| if let Said::Relations(linked, _) = said { Some(linked.as_slice()) } else { None })
            .collect();
        majority(&answers, |linked| names(&linked.triple))
    }

    fn happenings(&self) -> Vec<Happening> {
        let answers: Vec<&[Happening]> = self
            .said(ExpertTask::Events)
            .filter_map(|said| if let Said::Events(happenings) = said { Some(happenings.as_slice()) } else { None })
            .collect();
        let mut kept = majority(&answers, |happening| trigger(&happening.event));
        for happening in kept.iter_mut().filter(|_| answers.len() > 1) {
            let same = |other: &&Happening| trigger(&other.event) == trigger(&happening.event);
            let holders: Vec<&[Argument]> = answers
                .iter()
                .filter_map(|answer| Some(answer.iter().find(same)?.event.arguments.as_slice()))
                .collect();
            happening.event.arguments = majority(&holders, |argument| (argument.role.clone(), argument.span));
        }
        kept
    }

    /// How many of the answers of a task hold an item, and how many were asked for.
    fn stable(&self, task: ExpertTask, holds: impl Fn(&Said) -> bool) -> (u32, u32) {
        let asked = self.of(task).flat_map(|seat| &seat.history);
        asked.fold((0, 0), |(votes, voters), answer| {
            (votes + u32::from(answer.as_ref().is_some_and(|answer| holds(&answer.said))), voters + 1)
        })
    }

    fn behind_claim(&self, claim: &Claim) -> Support {
        let same = |other: &Claim| (other.span, &other.label) == (claim.span, &claim.label);
        let holds = |said: &Said| matches!(said, Said::Entities(claims) if claims.iter().any(same));
        let (mut votes, mut voters) = self.stable(ExpertTask::Entities, holds);
        for said in self.said(ExpertTask::Relations).chain(self.said(ExpertTask::Events)) {
            let types = self.types(said, claim.span);
            voters += u32::from(!types.is_empty());
            votes += u32::from(types.iter().any(|types| fits(types, &claim.label)));
        }
        Support { votes, voters, ..claim.support }
    }

    /// The types that an answer about relations or events allows at a span; empty if it does not
    /// speak of it.
    fn types(&self, said: &Said, span: Span) -> Vec<&[String]> {
        match said {
            Said::Entities(_) => Vec::new(),
            Said::Relations(_, alone) => {
                let at = |end: usize| alone.entities[end].span == Some(span);
                let kinds = alone.relations.iter().filter_map(|link| Some((link, self.schema.relation(&link.label)?)));
                kinds
                    .flat_map(|(link, kind)| {
                        let ends = [(at(link.head), &kind.head), (at(link.tail), &kind.tail)];
                        ends.into_iter().filter(|(here, _)| *here).map(|(_, types)| types.as_slice())
                    })
                    .collect()
            }
            Said::Events(happenings) => {
                let arguments = happenings.iter().flat_map(|happening| {
                    happening.event.arguments.iter().map(|argument| (&happening.event, argument))
                });
                let here = arguments.filter(|(_, argument)| argument.span == Some(span));
                here.filter_map(|(event, argument)| {
                    let kind = self.schema.events.iter().find(|kind| kind.label == event.label)?;
                    Some(kind.roles.iter().find(|role| role.label == argument.role)?.types.as_slice())
                })
                .collect()
            }
        }
    }

    fn behind_relation(&self, linked: &Linked, relation: &Relation, entities: &[Entity], claims: &[Claim]) -> Support {
        let same = |other: &Linked| names(&other.triple) == names(&linked.triple);
        let holds = |said: &Said| matches!(said, Said::Relations(linked, _) if linked.iter().any(same));
        let (mut votes, mut voters) = self.stable(ExpertTask::Relations, holds);
        // Claims are the first entities: both ends are, where experts in entities have typed them.
        if relation.head < claims.len() && relation.tail < claims.len() {
            let ends = [relation.head, relation.tail].map(|at| entities[at].span);
            for said in self.said(ExpertTask::Entities) {
                let Said::Entities(claims) = said else { continue };
                let label = |span: Option<Span>| claims.iter().find(|claim| Some(claim.span) == span);
                let (Some(head), Some(tail)) = (label(ends[0]), label(ends[1])) else { continue };
                let kind = self.schema.relation(&relation.label);
                voters += 1;
                votes += u32::from(kind.is_some_and(|kind| kind.allows(&head.label, &tail.label)));
            }
        }
        Support { votes, voters, ..alone(linked.logprobs) }
    }

    /// Of an entity that only relations speak of: the surest of them.
    fn behind_end(&self, at: usize, relations: &[Relation], supports: &[Support]) -> Support {
        let mine = relations.iter().zip(supports).filter(|(link, _)| link.head == at || link.tail == at);
        let share = |support: &Support| f64::from(support.votes) / f64::from(support.voters.max(1));
        let surest = mine.map(|(_, support)| *support).reduce(|a, b| if share(&b) > share(&a) { b } else { a });
        let silent = u32::from(self.said(ExpertTask::Entities).next().is_some());
        let support = surest.unwrap_or_default();
        Support { voters: support.voters + silent, ..support }
    }

    fn behind_event(&self, happening: &Happening) -> Support {
        let same = |other: &Happening| trigger(&other.event) == trigger(&happening.event);
        let holds = |said: &Said| matches!(said, Said::Events(happenings) if happenings.iter().any(same));
        let (votes, voters) = self.stable(ExpertTask::Events, holds);
        Support { votes, voters, ..alone(happening.logprobs) }
    }
}

fn names(triple: &Triple) -> (&str, &str, &str) {
    (&triple.label, &triple.head, &triple.tail)
}

fn trigger(event: &Event) -> (&str, Option<Span>) {
    (&event.label, event.trigger.span)
}

/// The items that most answers hold, in the order in which they first stand; a tie goes to the first
/// answer. The second item of an answer with one key is another item than its first.
fn majority<'a, T: Clone, K: Ord + Clone>(answers: &[&'a [T]], key: impl Fn(&'a T) -> K) -> Vec<T> {
    /// How many hold an item, and who was the first.
    struct Held {
        votes: usize,
        first: usize,
    }
    let mut held: BTreeMap<(K, usize), Held> = BTreeMap::new();
    let mut order: Vec<((K, usize), &T)> = Vec::new();
    for (answer, items) in answers.iter().enumerate() {
        let mut seen: BTreeMap<K, usize> = BTreeMap::new();
        for item in *items {
            let ordinal = seen.entry(key(item)).or_default();
            let full = (key(item), *ordinal);
            *ordinal += 1;
            match held.entry(full.clone()) {
                Entry::Occupied(mut known) => known.get_mut().votes += 1,
                Entry::Vacant(new) => {
                    new.insert(Held { votes: 1, first: answer });
                    order.push((full, item));
                }
            }
        }
    }
    let stands = |held: &Held| 2 * held.votes > answers.len() || (2 * held.votes == answers.len() && held.first == 0);
    order.into_iter().filter(|(full, _)| held.get(full).is_some_and(stands)).map(|(_, item)| item.clone()).collect()
}
