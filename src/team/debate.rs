//! The intra-group debate of CROSSAGENTIE (section 3.3): claimants only, equal weight, seeded
//! random speaking order, a few rounds; consensus ends it, else the summarizer decides.

use super::floor::{Floor, Question, Team, finish};
use crate::ie::{Document, Status};
use crate::store::{StoredAnswer, hash_bytes};
use crate::template::ballot::{Ballot, read_ballot};
use crate::template::prompt::{DebateOption, Statement, Topic};
use crate::trace::{Conflict, Settled, Trace, Turn};
use std::collections::BTreeMap;

/// Readings of which at most one is right, and who claimed them.
pub(super) struct Dispute {
    pub document: usize,
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
pub(super) fn settle(
    team: &Team,
    topic: Topic,
    documents: &[Document],
    traces: &mut [Trace],
    disputes: Vec<Dispute>,
) -> Vec<Verdict> {
    let mut open: Vec<Open> =
        disputes.into_iter().map(|dispute| opened(team, topic, documents, traces, dispute)).collect();
    for round in 1..=team.sampling.max_rounds {
        open.iter_mut().for_each(|debate| debate.ballots.clear());
        let speakers: Vec<Vec<String>> =
            open.iter().map(|debate| speaking_order(team, documents, debate, round)).collect();
        let longest = speakers.iter().map(Vec::len).max().unwrap_or(0);
        for position in 0..longest {
            speak(team, topic, documents, traces, &mut open, &speakers, position, round);
        }
        for debate in open.iter_mut().filter(|debate| debate.verdict.is_none()) {
            debate.rounds = round;
            debate.verdict = consensus(debate);
        }
    }
    summarize(team, topic, documents, traces, &mut open);
    open.iter_mut().map(|debate| closed(debate, traces)).collect()
}

fn opened(team: &Team, topic: Topic, documents: &[Document], traces: &mut [Trace], dispute: Dispute) -> Open {
    let trace = &mut traces[dispute.document];
    let conflict = trace.conflicts.len();
    let lot = format!("{}\n{}\n{conflict}\noptions", team.sampling.seed, documents[dispute.document].id);
    let order = shuffled(dispute.readings.len(), &lot);
    let options: Vec<DebateOption> = ('A'..='Z')
        .zip(&order)
        .map(|(letter, &reading)| DebateOption { letter, reading: dispute.readings[reading].clone() })
        .collect();
    trace.conflicts.push(Conflict {
        stage: if topic == Topic::Entities { "entities".into() } else { "relations".into() },
        options: options.iter().map(|option| format!("{}: {}", option.letter, option.reading)).collect(),
        claimants: dispute.claimants.clone(),
        outcome: None,
        settled: Settled::Failed,
        rounds: 0,
    });
    Open { dispute, conflict, options, order, said: vec![], ballots: BTreeMap::new(), rounds: 0, verdict: None }
}

/// The claimants of a dispute in this round's order; nobody where it is settled.
fn speaking_order(team: &Team, documents: &[Document], debate: &Open, round: u32) -> Vec<String> {
    if debate.verdict.is_some() {
        return Vec::new();
    }
    let lot =
        format!("{}\n{}\n{}\n{round}", team.sampling.seed, documents[debate.dispute.document].id, debate.conflict);
    shuffled(debate.dispute.claimants.len(), &lot).into_iter().map(|at| debate.dispute.claimants[at].clone()).collect()
}

/// Everybody who speaks at this position of this round, agent by agent.
#[allow(clippy::too_many_arguments)] // the debate's whole state, borrowed apart
fn speak(
    team: &Team,
    topic: Topic,
    documents: &[Document],
    traces: &mut [Trace],
    open: &mut [Open],
    speakers: &[Vec<String>],
    position: usize,
    round: u32,
) {
    let mut agents: Vec<String> = speakers.iter().filter_map(|order| order.get(position).cloned()).collect();
    agents.sort();
    agents.dedup();
    for agent in agents {
        let turns: Vec<usize> = (0..open.len()).filter(|&at| speakers[at].get(position) == Some(&agent)).collect();
        let questions = turns.iter().map(|&at| {
            let debate = &open[at];
            let text = &documents[debate.dispute.document].text;
            let messages = team.prompts.debate(topic, &agent, text, &debate.options, &debate.said);
            Question { document: debate.dispute.document, conflict: Some(debate.conflict), messages }
        });
        let floor = Floor { stage: "debate", agent: &agent, round };
        let counts: BTreeMap<(usize, usize), usize> =
            turns.iter().map(|&at| ((open[at].dispute.document, open[at].conflict), open[at].options.len())).collect();
        let heard = team.ask(floor, questions.collect(), traces, |question, answer, turn| {
            hear(counts[&(question.document, question.conflict.unwrap_or_default())], answer, turn)
        });
        for (&at, (_, ballot)) in turns.iter().zip(heard) {
            let Some(ballot) = ballot else { continue };
            let statement = Statement {
                agent: agent.clone(),
                choice: ballot.choice,
                reason: ballot.reason.clone(),
                confidence: ballot.confidence,
            };
            open[at].said.push(statement);
            open[at].ballots.insert(agent.clone(), ballot);
        }
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
    }
}

/// The summarizer sees reasoning, confidence and text of every debate without consensus. Where
/// its answer is unusable, the last round's majority stands, a tie going to the earlier letter.
fn summarize(team: &Team, topic: Topic, documents: &[Document], traces: &mut [Trace], open: &mut [Open]) {
    let left: Vec<usize> = (0..open.len()).filter(|&at| open[at].verdict.is_none()).collect();
    let questions = left.iter().map(|&at| {
        let debate = &open[at];
        let text = &documents[debate.dispute.document].text;
        let messages = team.prompts.summarizer(topic, text, &debate.options, &debate.said);
        Question { document: debate.dispute.document, conflict: Some(debate.conflict), messages }
    });
    let most = open.iter().map(|debate| debate.options.len()).max().unwrap_or(0);
    let floor = Floor { stage: "summary", agent: "summarizer", round: team.sampling.max_rounds + 1 };
    let heard = team.ask(floor, questions.collect(), traces, |_, answer, turn| hear(most, answer, turn));
    for (&at, (_, ballot)) in left.iter().zip(heard) {
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

fn closed(debate: &mut Open, traces: &mut [Trace]) -> Verdict {
    let voters = debate.dispute.claimants.len() as u32;
    let verdict = debate.verdict.take().unwrap_or(Verdict { choice: None, votes: 0, voters, judged: false });
    let conflict = &mut traces[debate.dispute.document].conflicts[debate.conflict];
    conflict.rounds = debate.rounds;
    conflict.outcome = verdict.choice.map(|reading| debate.dispute.readings[reading].clone());
    conflict.settled = match verdict.choice {
        None => Settled::Failed,
        Some(_) if verdict.judged => Settled::Summarizer,
        Some(_) if verdict.votes == verdict.voters => Settled::Consensus,
        Some(_) => Settled::Majority,
    };
    verdict
}

/// `0..count` in an order that `lot` decides: sorted by hash, so it is the same on every machine.
fn shuffled(count: usize, lot: &str) -> Vec<usize> {
    let mut order: Vec<(String, usize)> =
        (0..count).map(|at| (hash_bytes(format!("{lot}\n{at}").as_bytes()), at)).collect();
    order.sort();
    order.into_iter().map(|(_, at)| at).collect()
}
