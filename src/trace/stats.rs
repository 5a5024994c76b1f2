//! What many debates come to, one trace at a time: conflicts and how they ended, what each round
//! turned right or wrong, agreement, tokens per agent and round. Memory does not grow with traces.
//!
//! CROSSAGENTIE (section 4.3) counts the conflicts that one turn of debate resolves: 77.5 % of 688
//! on 300 documents of CoNLL03; [`Stats::one_turn`] is the same share here.

use super::facts::facts;
use super::show::steps;
use super::{Settled, Trace, Turn};
use crate::ie::record::ExtractionRecord;
use crate::ie::{Cost, Status};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Share of conflicts that one turn resolves, as CROSSAGENTIE reports it (section 4.3).
pub const PAPER_ONE_TURN: f64 = 0.775;
/// Agents, rounds and stages that are listed by name; a file with more is no debate's.
const MOST_NAMES: usize = 1000;

/// How conflicts ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conflicts {
    /// All.
    pub conflicts: u64,
    /// All claimants agreed within one round.
    pub one_turn: u64,
    /// All claimants agreed, in whichever round.
    pub consensus: u64,
    /// The summarizer decided.
    pub summarizer: u64,
    /// The majority stood.
    pub majority: u64,
    /// Nobody gave a usable answer.
    pub failed: u64,
}

/// Turns of one agent, or of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Answers, first answers that were asked again included.
    pub turns: u64,
    /// Of these: without a usable answer.
    pub failed: u64,
    /// Of these: second answers to a question.
    pub asked_again: u64,
    /// Attempts that failed before a server answered.
    pub retries: u64,
    /// Items that were read.
    pub found: u64,
    /// Items that were not kept.
    pub dropped: u64,
    /// Turns whose server did not count tokens; they are missing in the sums.
    pub uncounted: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Seconds of model time.
    pub seconds: f64,
}

/// What one step did to facts, against the gold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flips {
    /// Documents in which this step was taken.
    pub documents: u64,
    /// Facts of the gold that were there before and are not after.
    pub right_to_wrong: u64,
    /// Facts of the gold that were not there before and are after.
    pub wrong_to_right: u64,
    /// Facts that the gold lacks and that this step brought in.
    pub wrong_added: u64,
    /// Facts that the gold lacks and that this step took out.
    pub wrong_removed: u64,
}

/// How the extraction stood after a stage, over all documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// Documents with this stage.
    pub documents: u64,
    /// Items that stood.
    pub items: u64,
    /// Sum of Δ(A, B), where the protocol has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<u64>,
}

/// Ballots of one round of debate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ballots {
    /// Conflicts on which two agents or more voted.
    pub conflicts: u64,
    /// Pairs of voters.
    pub pairs: u64,
    /// Pairs that chose the same.
    pub agreeing: u64,
    /// Voters who chose another option than the round before.
    pub changed: u64,
    /// Sum over conflicts of agreement beyond chance; see [`Ballots::beyond_chance`].
    #[serde(skip)]
    beyond: f64,
}

impl Ballots {
    /// Share of pairs that chose the same.
    pub fn share(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.agreeing as f64 / self.pairs as f64)
    }

    /// Agreement beyond chance, `(share - 1/k) / (1 - 1/k)` with the conflict's own number of
    /// options k, the mean over conflicts (Bennett, Alpert and Goldstein, 1954). The kappas of
    /// Cohen and Fleiss need categories that mean the same for every item; letters do not.
    pub fn beyond_chance(&self) -> Option<f64> {
        (self.conflicts > 0).then(|| self.beyond / self.conflicts as f64)
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Traces.
    pub documents: u64,
    /// By how the reading ended: ok, empty, failed, refused.
    pub status: BTreeMap<&'static str, u64>,
    /// Documents without a conflict.
    pub without_conflict: u64,
    /// Documents with gold.
    pub with_gold: u64,
    /// Items of all outcomes.
    pub accepted: u64,
    /// Of these, in documents with gold: right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_right: Option<u64>,
    /// Everything that was spent.
    pub spent: Spent,
    /// By stage of the conflict.
    pub conflicts: BTreeMap<String, Conflicts>,
    /// Mentions that agents claimed in their first answers.
    pub claimed: u64,
    /// Of these: claimed by two agents or more, of whatever type.
    pub shared: u64,
    /// By round of debate.
    pub ballots: BTreeMap<u32, Ballots>,
    /// By stage and round: `entities 0`.
    pub rounds: BTreeMap<String, Spent>,
    /// By agent; the summarizer is one.
    pub agents: BTreeMap<String, Spent>,
    /// What steps did, in the order in which they are taken.
    pub flips: Vec<(String, Flips)>,
    /// How the extraction stood, in the order of stages.
    pub stages: Vec<(String, Stage)>,
}

impl Stats {
    /// Adds a debate, and the gold of its document where there is some.
    pub fn add(&mut self, trace: &Trace, gold: Option<&ExtractionRecord>) {
        self.documents += 1;
        let ended = match trace.status {
            Status::Ok => "ok",
            Status::Empty => "empty",
            Status::Failed => "failed",
            Status::Refused => "refused",
        };
        *self.status.entry(ended).or_default() += 1;
        self.without_conflict += u64::from(trace.conflicts.is_empty());
        for turn in trace.superseded.iter().chain(&trace.turns) {
            self.spent.add(turn);
            named(&mut self.agents, &turn.agent).add(turn);
            named(&mut self.rounds, &format!("{} {}", turn.stage, turn.round)).add(turn);
        }
        self.conflicts(trace);
        self.claims(trace);
        self.ballots(trace);
        self.stages(trace, gold);
    }

    /// All conflicts together.
    pub fn all_conflicts(&self) -> Conflicts {
        self.conflicts.values().fold(Conflicts::default(), |a, b| Conflicts {
            conflicts: a.conflicts + b.conflicts,
            one_turn: a.one_turn + b.one_turn,
            consensus: a.consensus + b.consensus,
            summarizer: a.summarizer + b.summarizer,
            majority: a.majority + b.majority,
            failed: a.failed + b.failed,
        })
    }

    /// Share of the conflicts that one turn of debate resolved.
    pub fn one_turn(&self) -> Option<f64> {
        let all = self.all_conflicts();
        (all.conflicts > 0).then(|| all.one_turn as f64 / all.conflicts as f64)
    }

    fn conflicts(&mut self, trace: &Trace) {
        for conflict in &trace.conflicts {
            let counts = named(&mut self.conflicts, &conflict.stage);
            counts.conflicts += 1;
            match conflict.settled {
                Settled::Consensus => {
                    counts.consensus += 1;
                    counts.one_turn += u64::from(conflict.rounds <= 1);
                }
                Settled::Summarizer => counts.summarizer += 1,
                Settled::Majority => counts.majority += 1,
                Settled::Failed => counts.failed += 1,
            }
        }
    }

    fn claims(&mut self, trace: &Trace) {
        let mut by: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let first = trace.turns.iter().filter(|turn| turn.round == 0 && turn.conflict.is_none());
        for turn in first.filter(|turn| turn.stage != "relations") {
            for item in &turn.found {
                let surface = item.split_once(" \"").map_or(item.as_str(), |(_, surface)| surface);
                by.entry(surface).or_default().insert(&turn.agent);
            }
        }
        self.claimed += by.len() as u64;
        self.shared += by.values().filter(|agents| agents.len() > 1).count() as u64;
    }

    fn ballots(&mut self, trace: &Trace) {
        let mut cast: BTreeMap<(u32, usize), BTreeMap<&str, &str>> = BTreeMap::new();
        let mut last: BTreeMap<(usize, &str), &str> = BTreeMap::new();
        for turn in trace.turns.iter().filter(|turn| turn.stage == "debate") {
            let (Some(conflict), Some(choice)) = (turn.conflict, turn.found.first()) else { continue };
            cast.entry((turn.round, conflict)).or_default().insert(&turn.agent, choice);
            let before = last.insert((conflict, &turn.agent), choice);
            if before.is_some_and(|before| before != choice) {
                self.ballots.entry(turn.round).or_default().changed += 1;
            }
        }
        for ((round, conflict), votes) in cast {
            let options = trace.conflicts.get(conflict).map_or(0, |conflict| conflict.options.len());
            let voters = votes.len() as u64;
            if voters < 2 || options < 2 {
                continue;
            }
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            votes.values().for_each(|choice| *counts.entry(choice).or_default() += 1);
            let pairs = voters * (voters - 1) / 2;
            let agreeing = counts.values().map(|count| count * (count - 1) / 2).sum::<u64>();
            let chance = 1.0 / options as f64;
            let ballots = self.ballots.entry(round).or_default();
            ballots.conflicts += 1;
            ballots.pairs += pairs;
            ballots.agreeing += agreeing;
            ballots.beyond += (agreeing as f64 / pairs as f64 - chance) / (1.0 - chance);
        }
    }

    fn stages(&mut self, trace: &Trace, gold: Option<&ExtractionRecord>) {
        let gold_facts = gold.map(facts);
        let found = facts(&trace.extraction);
        self.accepted += found.len() as u64;
        if let Some(gold) = &gold_facts {
            self.with_gold += 1;
            let right = found.keys().filter(|key| gold.contains_key(*key)).count() as u64;
            *self.accepted_right.get_or_insert(0) += right;
        }
        let mut before: Option<BTreeMap<String, _>> = None;
        for (stage, round, extraction, delta) in steps(trace) {
            let name = if stage == "outcome" { stage.to_owned() } else { format!("{stage} {round}") };
            let now = facts(extraction);
            if let Some(at) = listed(&mut self.stages, &name) {
                let counts = &mut self.stages[at].1;
                counts.documents += 1;
                counts.items += now.len() as u64;
                if let Some(delta) = delta {
                    *counts.delta.get_or_insert(0) += u64::from(delta);
                }
            }
            if let (Some(gold), Some(before)) = (&gold_facts, &before)
                && let Some(at) = listed(&mut self.flips, &name)
            {
                let flips = &mut self.flips[at].1;
                flips.documents += 1;
                for key in before.keys().filter(|key| !now.contains_key(*key)) {
                    *(if gold.contains_key(key) { &mut flips.right_to_wrong } else { &mut flips.wrong_removed }) += 1;
                }
                for key in now.keys().filter(|key| !before.contains_key(*key)) {
                    *(if gold.contains_key(key) { &mut flips.wrong_to_right } else { &mut flips.wrong_added }) += 1;
                }
            }
            before = Some(now);
        }
        // The outcome is last, whatever stages later documents bring.
        self.stages.sort_by_key(|(name, _)| name == "outcome");
        self.flips.sort_by_key(|(name, _)| name == "outcome");
    }
}

impl Spent {
    fn add(&mut self, turn: &Turn) {
        let Cost { prompt_tokens, completion_tokens, seconds, .. } = turn.cost;
        self.turns += 1;
        self.failed += u64::from(matches!(turn.status, Status::Failed | Status::Refused));
        self.asked_again += u64::from(turn.asked_again);
        self.retries += u64::from(turn.retries);
        self.found += if turn.conflict.is_none() { turn.found.len() as u64 } else { 0 };
        self.dropped += turn.dropped.len() as u64;
        self.uncounted += u64::from(prompt_tokens.is_none() || completion_tokens.is_none());
        self.prompt_tokens = self.prompt_tokens.saturating_add(prompt_tokens.unwrap_or(0));
        self.completion_tokens = self.completion_tokens.saturating_add(completion_tokens.unwrap_or(0));
        self.seconds += seconds;
    }

    /// What the tokens cost, at prices for a million of each.
    pub fn money(&self, prompt: f64, completion: f64) -> f64 {
        (self.prompt_tokens as f64 * prompt + self.completion_tokens as f64 * completion) / 1e6
    }
}

/// The entry of a name, or of all others once there are too many.
fn named<'m, T: Default>(map: &'m mut BTreeMap<String, T>, name: &str) -> &'m mut T {
    let name = if map.len() < MOST_NAMES || map.contains_key(name) { name } else { "(others)" };
    map.entry(name.to_owned()).or_default()
}

/// The place of a name in a list by first appearance; `None` once there are too many.
fn listed<T: Default>(list: &mut Vec<(String, T)>, name: &str) -> Option<usize> {
    if let Some(at) = list.iter().position(|(known, _)| known == name) {
        return Some(at);
    }
    (list.len() < MOST_NAMES).then(|| {
        list.push((name.to_owned(), T::default()));
        list.len() - 1
    })
}
