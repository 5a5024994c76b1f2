//! The intra-group debate of CROSSAGENTIE (section 3.3): claimants only, equal weight, seeded
//! random speaking order, a few rounds; consensus ends it, else the summarizer decides.

use super::room::{Question, Room, finish};
use crate::ie::Status;
use crate::store::{StoredAnswer, hash_bytes};
use crate::template::ballot::{Ballot, read_ballot};
use crate::template::prompt::{DebateOption, Statement, Topic};
use crate::trace::{Conflict, Course, Settled, Turn};
use std::collections::BTreeMap;

/// Readings of which at most one is right, and who claimed them.
pub(super) struct Dispute {
    pub readings: Vec<String>,
    pub claimants: Vec<String>,
}

/// How a dispute ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// Ordinal in [`Dispute::readings`]; `None` if nobody gave a usable answer.
    pub choice: Option<usize>,
    /// Claimants that chose it in the last round.
    pub votes: u32,
    /// Claimants, those without a usable answer included.
    pub voters: u32,
    /// Whether the summarizer decided.
    pub judged: bool,
    /// How the debate went.
    pub course: Option<Course>,
}

/// A dispute while it is open.
struct Open {
    dispute: Dispute,
    /// Ordinal in the trace's conflicts.
    conflict: usize,
    options: Vec<DebateOption>,
    /// `order[letter]` is the reading's ordinal: readings are lettered in seeded random order.
    order: Vec<usize>,
    said: Vec<Statement>,
    ballots: BTreeMap<String, Ballot>,
    rounds: u32,
    verdict: Option<Verdict>,
}

/// Debates every dispute; one verdict each, in the order given.
pub(super) async fn settle(room: &Room<'_>, topic: Topic, disputes: Vec<Dispute>) -> Vec<Verdict> {
    let mut open: Vec<Open> = disputes.into_iter().map(|dispute| opened(room, topic, dispute)).collect();
    for round in 1..=room.team().sampling.max_rounds {
        open.iter_mut().for_each(|debate| debate.ballots.clear());
        let speakers: Vec<Vec<String>> = open.iter().map(|debate| speaking_order(room, debate, round)).collect();
        let longest = speakers.iter().map(Vec::len).max().unwrap_or(0);
        for position in 0..longest {
            speak(room, topic, &mut open, &speakers, position, round).await;
        }
        for debate in open.iter_mut().filter(|debate| debate.verdict.is_none()) {
            debate.rounds = round;
            debate.verdict = consensus(debate);
        }
    }
    summarize(room, topic, &mut open).await;
    open.iter_mut().map(|debate| closed(room, debate)).collect()
}

fn opened(room: &Room, topic: Topic, dispute: Dispute) -> Open {
    let conflict = room.write(|trace| trace.conflicts.len());
    let lot = format!("{}\n{}\n{conflict}\noptions", room.team().sampling.seed, room.document.id);
    let order = shuffled(dispute.readings.len(), &lot);
    let options: Vec<DebateOption> = ('A'..='Z')
        .zip(&order)
        .map(|(letter, &reading)| DebateOption { letter, reading: dispute.readings[reading].clone() })
        .collect();
    let begun = Conflict {
        stage: topic.name().into(),
        options: options.iter().map(|option| format!("{}: {}", option.letter, option.reading)).collect(),
        claimants: dispute.claimants.clone(),
        outcome: None,
        settled: Settled::Failed,
        rounds: 0,
    };
    room.write(|trace| trace.conflicts.push(begun));
    Open { dispute, conflict, options, order, said: vec![], ballots: BTreeMap::new(), rounds: 0, verdict: None }
}

/// The claimants of a dispute in this round's order; nobody where it is settled.
fn speaking_order(room: &Room, debate: &Open, round: u32) -> Vec<String> {
    if debate.verdict.is_some() {
        return Vec::new();
    }
    let lot = format!("{}\n{}\n{}\n{round}", room.team().sampling.seed, room.document.id, debate.conflict);
    shuffled(debate.dispute.claimants.len(), &lot).into_iter().map(|at| debate.dispute.claimants[at].clone()).collect()
}

/// Everybody who speaks at this position of this round, agent by agent.
async fn speak(
    room: &Room<'_>,
    topic: Topic,
    open: &mut [Open],
    speakers: &[Vec<String>],
    position: usize,
    round: u32,
) {
    let mut turns: Vec<(&str, usize)> = speakers
        .iter()
        .enumerate()
        .filter_map(|(at, order)| order.get(position).map(|agent| (agent.as_str(), at)))
        .collect();
    turns.sort_unstable();
    let questions = turns.iter().map(|&(agent, at)| {
        let debate = &open[at];
        let messages = room.prompts().debate(topic, agent, room.text(), &debate.options, &debate.said);
        Question { stage: "debate", agent: agent.into(), round, conflict: Some(debate.conflict), messages }
    });
    let counts: BTreeMap<usize, usize> =
        turns.iter().map(|&(_, at)| (open[at].conflict, open[at].options.len())).collect();
    let heard = room.ask(questions.collect(), |question, answer, turn| {
        hear(counts[&question.conflict.unwrap_or_default()], answer, turn)
    });
    for ((agent, at), ballot) in turns.into_iter().zip(heard.await) {
        let Some(ballot) = ballot else { continue };
        let statement = Statement {
            agent: agent.into(),
            choice: ballot.choice,
            reason: ballot.reason.clone(),
            confidence: ballot.confidence,
        };
        open[at].said.push(statement);
        open[at].ballots.insert(agent.into(), ballot);
    }
}

fn hear(options: usize, answer: &StoredAnswer, turn: &mut Turn) -> Option<Ballot> {
    if turn.error.is_some() {
        return None;
    }
    match read_ballot(&answer.content, finish(answer), options) {
        Ok(ballot) => {
            turn.status = Status::Ok;
            turn.found = vec![ballot.choice.to_string()];
            turn.reason = Some(ballot.reason.clone()).filter(|reason| !reason.is_empty());
            turn.confidence = ballot.confidence;
            Some(ballot)
        }
        Err(error) => {
            turn.error = Some(error);
            None
        }
    }
}

/// All claimants gave a usable answer, and the same one.
fn consensus(debate: &Open) -> Option<Verdict> {
    let voters = debate.dispute.claimants.len();
    let first = debate.ballots.values().next()?.choice;
    let agreed = debate.ballots.len() == voters && debate.ballots.values().all(|ballot| ballot.choice == first);
    agreed.then(|| verdict(debate, first, false))
}

fn verdict(debate: &Open, choice: char, judged: bool) -> Verdict {
    let letter = (choice as u8 - b'A') as usize;
    Verdict {
        choice: debate.order.get(letter).copied(),
        votes: debate.ballots.values().filter(|ballot| ballot.choice == choice).count() as u32,
        voters: debate.dispute.claimants.len() as u32,
        judged,
        course: None,
    }
}

/// The summarizer sees reasoning, confidence and text of every debate without consensus. Where
/// its answer is unusable, the last round's majority stands, a tie going to the earlier letter.
async fn summarize(room: &Room<'_>, topic: Topic, open: &mut [Open]) {
    let left: Vec<usize> = (0..open.len()).filter(|&at| open[at].verdict.is_none()).collect();
    let round = room.team().sampling.max_rounds + 1;
    let questions = left.iter().map(|&at| {
        let debate = &open[at];
        let messages = room.prompts().summarizer(topic, room.text(), &debate.options, &debate.said);
        Question { stage: "summary", agent: "summarizer".into(), round, conflict: Some(debate.conflict), messages }
    });
    let most = open.iter().map(|debate| debate.options.len()).max().unwrap_or(0);
    let heard = room.ask(questions.collect(), |_, answer, turn| hear(most, answer, turn)).await;
    for (&at, ballot) in left.iter().zip(heard) {
        let debate = &mut open[at];
        let fits = |choice: &char| ((*choice as u8 - b'A') as usize) < debate.options.len();
        let judged = ballot.map(|ballot| ballot.choice).filter(fits);
        debate.verdict = judged.map(|choice| verdict(debate, choice, true)).or_else(|| majority(debate));
    }
}

fn majority(debate: &Open) -> Option<Verdict> {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for ballot in debate.ballots.values() {
        *counts.entry(ballot.choice).or_default() += 1;
    }
    let most = counts.values().max()?;
    let (&choice, _) = counts.iter().find(|(_, count)| *count == most)?;
    Some(verdict(debate, choice, false))
}

fn closed(room: &Room, debate: &mut Open) -> Verdict {
    let voters = debate.dispute.claimants.len() as u32;
    let mut verdict =
        debate.verdict.take().unwrap_or(Verdict { choice: None, votes: 0, voters, judged: false, course: None });
    let settled = match verdict.choice {
        None => Settled::Failed,
        Some(_) if verdict.judged => Settled::Summarizer,
        Some(_) if verdict.votes == verdict.voters => Settled::Consensus,
        Some(_) => Settled::Majority,
    };
    room.write(|trace| {
        let conflict = &mut trace.conflicts[debate.conflict];
        conflict.rounds = debate.rounds;
        conflict.outcome = verdict.choice.map(|reading| debate.dispute.readings[reading].clone());
        conflict.settled = settled;
    });
    verdict.course = Some(Course { rounds: debate.rounds, settled });
    verdict
}

/// `0..count` in an order that `lot` decides: sorted by hash, so it is the same on every machine.
fn shuffled(count: usize, lot: &str) -> Vec<usize> {
    let mut order: Vec<(String, usize)> =
        (0..count).map(|at| (hash_bytes(format!("{lot}\n{at}").as_bytes()), at)).collect();
    order.sort();
    order.into_iter().map(|(_, at)| at).collect()
}
