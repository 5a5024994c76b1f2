//! `cooperkgc`: experts in entities, relations and events that read side by side and improve their
//! answers with those of the others (CooperKGC, sections 4.1 to 4.3 and Algorithm 1).
//!
//! **Rounds.** In round 0 every expert reads alone. In round t it is asked again with its own answer
//! and those of round t-1 that the edges bring; an expert whose rounds are over keeps its answer, and
//! still reaches the others. A turn that failed keeps the expert's earlier answer: it stands in the
//! trace as failed, and the document is no training data. If nobody has answered at all, nobody is
//! asked again.
//!
//! **S.** With `simplify`, an answer travels as its items alone, those that fit format, schema and
//! text, in the one answer format; without it as it was given, reasons included, cut to
//! [`MOST_SENT`] characters.
//!
//! **Who answers.** Experts with a schema of their own inform the others; the outcome is made of the
//! last answers of those with the team's schema (`outcome`).

mod answer;
mod outcome;

use crate::config::{Expert, ExpertTask};
use crate::ie::record::ExtractionRecord;
use crate::ie::{Document, Schema};
use crate::team::room::{Question, Room};
use crate::template::prompt::{Briefing, Replica};
use answer::{Answer, hear};
use outcome::{Outcome, outcome};

/// Characters of an answer that reach others where it is not simplified.
const MOST_SENT: usize = 2000;

/// An expert at work on one document.
struct Seat<'a> {
    expert: &'a Expert,
    schema: &'a Schema,
    shown: Vec<Document>,
    /// Whether it can be asked: its demonstrations were found.
    ready: bool,
    /// What it said in each round in which it was asked; `None` where the turn failed.
    history: Vec<Option<Answer>>,
}

impl Seat<'_> {
    /// Whether its answer is the team's.
    fn is_own(&self) -> bool {
        self.expert.schema.is_none()
    }

    /// Its last answer.
    fn standing(&self) -> Option<&Answer> {
        self.history.iter().rev().flatten().next()
    }
}

/// As many calls as all experts have rounds, the first answers included.
pub(super) async fn read(room: &Room<'_>) {
    let team = &room.team().options.cooperation;
    let members: Vec<(&str, ExpertTask)> =
        team.experts.iter().map(|expert| (expert.name.as_str(), expert.task)).collect();
    let mut seats: Vec<Seat> = team.experts.iter().map(|expert| seat(room, expert, &members)).collect();
    let last = team.experts.iter().map(|expert| expert.rounds).max().unwrap_or(0);
    for round in 0..=last {
        let asked: Vec<usize> =
            (0..seats.len()).filter(|&at| seats[at].ready && round <= seats[at].expert.rounds).collect();
        let questions = asked.iter().map(|&at| question(room, &seats, &members, at, round)).collect();
        let heard = room.ask(questions, |question, answer, turn| {
            let seat = seats.iter().find(|seat| seat.expert.name == question.agent)?;
            hear(room.text(), seat.expert.task, seat.schema, answer, turn)
        });
        for (at, heard) in asked.into_iter().zip(heard.await) {
            seats[at].history.push(heard);
        }
        if seats.iter().all(|seat| seat.standing().is_none()) {
            break;
        }
        room.note("collaboration", round, &outcome(room.text(), room.schema(), &seats).extraction, None);
    }
    conclude(room, &seats);
}

/// An expert with what it is shown; one whose demonstrations cannot be had has failed.
fn seat<'a>(room: &Room<'a>, expert: &'a Expert, members: &[(&str, ExpertTask)]) -> Seat<'a> {
    let schema = expert.schema.as_ref().unwrap_or(room.schema());
    let mut seat = Seat { expert, schema, shown: vec![], ready: true, history: vec![] };
    let Some(demonstrator) = &room.team().options.demonstrator else { return seat };
    match demonstrator.nearest(&room.document, expert.task, &expert.task.labels(schema)) {
        Ok(shown) => seat.shown = shown,
        Err(why) => {
            seat.ready = false;
            let messages = room.prompts().expert(&briefing(room, &seat, members), room.text());
            let question = Question::first(expert.task.name(), &expert.name, messages);
            room.unasked(&question, format!("no demonstrations: {why}"));
        }
    }
    seat
}

fn briefing<'a>(room: &Room, seat: &'a Seat, members: &'a [(&'a str, ExpertTask)]) -> Briefing<'a> {
    Briefing {
        name: &seat.expert.name,
        task: seat.expert.task,
        schema: seat.schema,
        team: members,
        background: room.team().options.cooperation.background,
        shown: &seat.shown,
    }
}

fn question(room: &Room, seats: &[Seat], members: &[(&str, ExpertTask)], at: usize, round: u32) -> Question {
    let (seat, cooperation) = (&seats[at], &room.team().options.cooperation);
    let briefing = briefing(room, seat, members);
    if round == 0 {
        let messages = room.prompts().expert(&briefing, room.text());
        return Question::first(seat.expert.task.name(), &seat.expert.name, messages);
    }
    let sent = |answer: &Answer| match cooperation.simplify {
        true => answer.items.clone(),
        false => answer.raw.chars().take(MOST_SENT).collect(),
    };
    // ── replicas, by the edges, in the order of the experts ──
    let reaching = cooperation.edges.iter().filter(|(_, to)| *to == at).map(|(from, _)| &seats[*from]);
    let others: Vec<Replica> = reaching
        .filter_map(|other| {
            let answer = sent(other.standing()?);
            Some(Replica { name: &other.expert.name, task: other.expert.task, answer })
        })
        .collect();
    let last = seat.standing().map(sent);
    let messages = room.prompts().collaboration(&briefing, room.text(), last.as_deref(), &others);
    Question::first(seat.expert.task.name(), &seat.expert.name, messages).in_round(round)
}

/// Writes the outcome, or why there is none: an extra expert's answer is not the team's.
fn conclude(room: &Room, seats: &[Seat]) {
    if seats.iter().filter(|seat| seat.is_own()).all(|seat| seat.standing().is_none()) {
        let own = |agent: &str| seats.iter().any(|seat| seat.is_own() && seat.expert.name == agent);
        room.write(|trace| {
            let error = trace.turns.iter().filter(|turn| own(&turn.agent)).find_map(|turn| turn.error.clone());
            trace.error = Some(error.unwrap_or_else(|| "no expert has answered".into()));
        });
        return;
    }
    let Outcome { extraction, entity_support, relation_support, event_support, dropped } =
        outcome(room.text(), room.schema(), seats);
    room.write(|trace| {
        trace.extraction = ExtractionRecord::of(&extraction, room.text());
        trace.entity_support = entity_support;
        trace.relation_support = relation_support;
        trace.event_support = event_support;
        // ── filter_ans, the part that needs all answers: counted where the expert spoke last ──
        for (task, item, reason) in dropped {
            let first = seats.iter().find(|seat| seat.is_own() && seat.expert.task == task);
            let of_it = |turn: &&mut crate::trace::Turn| first.is_some_and(|seat| seat.expert.name == turn.agent);
            if let Some(turn) = trace.turns.iter_mut().rev().find(of_it) {
                turn.dropped.push((item, reason));
            }
        }
    });
}
