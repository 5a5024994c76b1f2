//! One agent per event type, and the debates of those that read one trigger differently: the type
//! agents of CROSSAGENTIE (sections 3.2 and 3.3) extended to events.

use super::{EventClaim, alone, note};
use crate::ie::{Entity, Event, Status};
use crate::store::StoredAnswer;
use crate::team::debate::{Dispute, Verdict, settle};
use crate::team::room::{Question, Room, finish, logprobs};
use crate::template::answer::{EventReading, read_events};
use crate::template::prompt::Topic;
use crate::trace::{Support, Turn};
use std::ops::Range;

/// What the event-type agents claim over typed entities, in text order. An argument that is an
/// entity of a type that its role does not allow is dropped.
pub(super) async fn event_agents(room: &Room<'_>, round: u32, entities: &[Entity]) -> Vec<EventClaim> {
    let questions = room.schema().events.iter().map(|agent| {
        let messages = room.prompts().event_agent(agent, room.text(), entities);
        Question::first("events", &agent.label, messages).in_round(round)
    });
    let heard = room.ask(questions.collect(), |question, answer, turn| {
        if turn.error.is_some() {
            return None;
        }
        let EventReading { status, events, provenance, repairs, dropped, error } =
            read_events(&answer.content, finish(answer), room.text(), room.schema(), entities);
        note(turn, status, repairs, dropped, error);
        (!matches!(turn.status, Status::Failed | Status::Refused))
            .then(|| own(&question.agent, events.into_iter().zip(provenance), answer, turn))
    });
    let mut claims: Vec<EventClaim> = heard.await.into_iter().flatten().flatten().collect();
    in_trigger_order(&mut claims);
    claims
}

/// The events of the agent's own type.
fn own(
    agent: &str,
    events: impl Iterator<Item = (Event, Range<usize>)>,
    answer: &StoredAnswer,
    turn: &mut Turn,
) -> Vec<EventClaim> {
    let mut claims = Vec::new();
    for (event, bytes) in events {
        if event.label != agent {
            turn.dropped.push((event.trigger.text, format!("{} is another agent's type", event.label)));
            continue;
        }
        turn.found.push(shown(&event));
        claims.push(EventClaim { event, support: alone(logprobs(answer, Some(&bytes))) });
    }
    turn.status = if claims.is_empty() { Status::Empty } else { Status::Ok };
    claims
}

/// `Attack "fired"; Attacker "Bo"`.
pub(super) fn shown(event: &Event) -> String {
    let arguments = event.arguments.iter().map(|argument| format!("; {} \"{}\"", argument.role, argument.text));
    format!("{} \"{}\"{}", event.label, event.trigger.text, arguments.collect::<String>())
}

fn in_trigger_order(claims: &mut Vec<EventClaim>) {
    claims.sort_by(|a, b| (a.event.trigger.span, &a.event.label).cmp(&(b.event.trigger.span, &b.event.label)));
    claims.dedup_by(|a, b| a.event == b.event);
}

/// Debates the triggers that agents read as different types; triggers conflict if they share a
/// character. Several types of one trigger may be right together.
pub(super) async fn debate_events(room: &Room<'_>, mut claims: Vec<EventClaim>) -> Vec<EventClaim> {
    let (mut disputes, mut places) = (Vec::new(), Vec::new());
    for members in components(&claims) {
        let mut labels: Vec<String> = members.iter().map(|&at| claims[at].event.label.clone()).collect();
        labels.sort();
        labels.dedup();
        if labels.len() < 2 {
            continue;
        }
        let prompts = room.prompts();
        let mut readings: Vec<String> = members.iter().map(|&at| reading(room, &claims[at].event)).collect();
        readings.sort();
        readings.dedup();
        readings.truncate(24);
        readings.extend([prompts.all_are_right().to_string(), prompts.none_is_right().to_string()]);
        places.push((members, readings.clone()));
        disputes.push(Dispute { readings, claimants: labels });
    }
    let verdicts = settle(room, Topic::Events, disputes).await;
    let mut keep = vec![true; claims.len()];
    for ((members, readings), verdict) in places.into_iter().zip(verdicts) {
        let all = readings.len() - 2;
        for at in members {
            let said = reading(room, &claims[at].event);
            keep[at] = verdict.choice.is_some_and(|choice| choice == all || readings[choice] == said);
            let Verdict { votes, voters, judged, course: debate, .. } = verdict;
            claims[at].support = Support { votes, voters, judged, debate, ..claims[at].support };
        }
    }
    claims.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(claim, _)| claim).collect()
}

fn reading(room: &Room, event: &Event) -> String {
    room.prompts().trigger_reading(&event.label, &event.trigger.text)
}

/// Connected components of overlapping triggers; claims are in trigger order.
fn components(claims: &[EventClaim]) -> Vec<Vec<usize>> {
    let mut components: Vec<Vec<usize>> = Vec::new();
    let mut end = 0;
    for (at, claim) in claims.iter().enumerate() {
        let Some(span) = claim.event.trigger.span else { continue };
        match components.last_mut() {
            Some(component) if span.start() < end => component.push(at),
            _ => components.push(vec![at]),
        }
        end = end.max(span.end());
    }
    components
}
