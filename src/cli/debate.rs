//! `debate`: a protocol of the team over documents, into traces. 2. of the arrow.

use super::estimate::Estimate;
use super::servers::{self, Spending};
use super::session::{self, Experiment, Reporter};
use super::{Common, Outcome, demonstrations, shards, usage};
use crate::config::Plan;
use crate::corpus::read_train;
use crate::ie::{Cost, Document, Extractor, Status};
use crate::store::{CassetteHeader, Shard, Spill, StoreError, read_documents};
use crate::team::{Client, Demonstrator, Options, Protocol, Team};
use crate::template::prompt::Language;
use crate::trace::{Conflict, Settled, Trace};
use anyhow::{Result, anyhow, bail};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Arguments of `debate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy debate configs/quickstart.toml
  understudy debate configs/quickstart.toml --data data/sample/test.jsonl --protocol aeio \\
      --traces aeio.jsonl
  understudy debate configs/quickstart.toml --set team.base_url=http://127.0.0.1:8071/v1 \\
      --cassette-out mine.jsonl.zst
  understudy debate my.toml --dry-run
  understudy debate my.toml --shard 2/8 --max-cost 5

A call that reached a limit, was interrupted or killed goes on where it ended: no answer is asked for twice. Each \
shard writes OUT/traces-00I-of-00N.jsonl; run and distill join them.")]
pub struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Protocol: aeio, type_agents, crossagentie or cooperkgc; default: the config's
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
    /// Documents; may be given more than once; default: the config's training split
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// Where the traces go; default: OUT/traces.jsonl, or the shard's own file beside it
    #[arg(long, value_name = "FILE")]
    traces: Option<PathBuf>,
    /// Only part I of N of the documents, I from 1; a document's id decides its part
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    /// Repeat R of team.repeats, from 0: samples with the seed plus R; its own traces from 1 on
    #[arg(long, value_name = "R")]
    repeat: Option<u32>,
    /// Only the first N documents
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print the calls, tokens and money that are needed; ask nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    spending: Spending,
    /// Also write every answer of this call as a cassette
    #[arg(long, value_name = "FILE")]
    cassette_out: Option<PathBuf>,
    /// Day of the recording, for the cassette's header
    #[arg(long, value_name = "DAY", default_value = "", hide_default_value = true)]
    cassette_date: String,
    /// Failed documents above which the exit code is 3
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_failures: usize,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    session::catch_interrupts();
    let plan = session::repeat(session::plan(&args.experiment, common)?, args.repeat)?;
    let repeat = args.repeat.filter(|repeat| *repeat > 0);
    let name = args.protocol.as_deref().unwrap_or(&plan.config().team.protocol);
    let protocol = Protocol::named(name)
        .ok_or_else(|| usage(format!("--protocol {name}: expected aeio, type_agents, crossagentie or cooperkgc")))?;
    let mut documents = if args.data.is_empty() { session::corpus(read_train(&plan))? } else { Vec::new() };
    for file in &args.data {
        documents.extend(read_documents(file)?);
    }
    let shard = args.shard.as_deref().map(shard).transpose()?;
    let documents = part(documents, shard, args.limit)?;
    if args.dry_run {
        let shown = demonstrations::shown(&plan, protocol, &documents, common)?;
        let estimate = Estimate::of(&plan, protocol, &documents, servers::stored(&plan)?, shown);
        match common.json {
            true => println!("{}", estimate.json(&plan)),
            false => println!("{name} over {} documents: {}", documents.len(), estimate.told(&plan)),
        }
        return Ok(Outcome::Done);
    }
    let (client, reporter) = (servers::client(&plan, common, &args.spending, shard)?, Reporter::new(common));
    let repeated = repeat.map_or(String::new(), |repeat| format!(".repeat-{repeat}"));
    let file = shard.map_or("traces".into(), |shard| shard.named("traces")) + &repeated + ".jsonl";
    let path = args.traces.clone().unwrap_or_else(|| plan.output_dir().join(&file));
    let shown = demonstrations::shown(&plan, protocol, &documents, common)?;
    let mut team = team(&plan, protocol, &client, shown);
    if args.cassette_out.is_some() {
        team = team.recording();
    }
    let spill = Spill::beside(&path)?;
    let summary = debated(&team, documents, &reporter, &|ordinal, trace| {
        let line = serde_json::to_vec(&trace).expect("a trace is JSON");
        spill.put(ordinal, &line)
    })?;
    spill.finish()?;
    let of_the_config = args.traces.is_none() && args.data.is_empty() && args.limit.is_none() && repeat.is_none();
    match shard {
        // Only what the config asks for can be joined.
        Some(shard) if of_the_config && name == plan.config().team.protocol => {
            let done = session::stage(&shard.named("debate"), &plan, &["team"], &[])?;
            done.seal(plan.output_dir(), &[&file])?;
        }
        None if args.traces.is_none() && repeat.is_none() => {
            let count = shards::discard(plan.output_dir())?;
            if count > 0 {
                reporter.say(&format!("{count} traces of shards, now out of date, were removed"));
            }
        }
        _ => {}
    }
    if let Some(cassette) = &args.cassette_out {
        let header = header(&plan, &client, &args.cassette_date);
        let count = client.store().write_cassette(cassette, &header, &team.requests())?;
        reporter.say(&format!("{count} answers written to {}", cassette.display()));
    }
    let failed = summary.failed + summary.refused;
    if common.json {
        println!("{}", summary.json());
    } else {
        println!("{}", summary.told());
        println!("traces: {}", path.display());
    }
    Ok(if failed > args.max_failures { Outcome::TooManyFailures } else { Outcome::Done })
}

/// The team of a plan with this protocol, and who shows it solved examples.
pub fn team<'a>(
    plan: &Plan,
    protocol: Protocol,
    client: &'a Client,
    demonstrator: Option<Arc<dyn Demonstrator>>,
) -> Team<'a> {
    let team = Team::new(protocol, plan.team_schema(), client, session::sampling(plan))
        .working(Options { demonstrator, ..session::working(plan) })
        .constrained(session::constrained(plan));
    match Language::named(&plan.config().team.language) {
        Some(language) => team.speaking(language),
        None => team,
    }
}

/// Lets the team debate, and gives the traces in the documents' order.
///
/// # Errors
/// As `debated`.
pub fn traces(
    plan: &Plan,
    protocol: Protocol,
    client: &Client,
    documents: &[Document],
    common: &Common,
    reporter: &Reporter,
) -> Result<(Vec<Trace>, Summary)> {
    let traces = Mutex::new(vec![None; documents.len()]);
    let team = team(plan, protocol, client, demonstrations::shown(plan, protocol, documents, common)?);
    let summary = debated(&team, documents.to_vec(), reporter, &|ordinal, trace| {
        traces.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[ordinal] = Some(trace);
        Ok(())
    })?;
    let traces = traces.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok((traces.into_iter().flatten().collect(), summary))
}

/// Lets the team debate; `keep` hears each document's ordinal and trace, in any order.
///
/// # Errors
/// If the call was interrupted or reached a limit, a request is not in the cassette, or `keep`
/// fails. A failed request is a row of the trace.
fn debated(
    team: &Team,
    documents: Vec<Document>,
    reporter: &Reporter,
    keep: &(dyn Fn(usize, Trace) -> Result<(), StoreError> + Sync),
) -> Result<Summary> {
    let (all, name, client) = (documents.len(), team.name(), team.client());
    let state = Mutex::new((Summary::default(), None::<StoreError>));
    team.debate_each(documents.into_iter(), &|ordinal, trace| {
        let mut counted = Summary::default();
        counted.add(&trace);
        let kept = keep(ordinal, trace);
        let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.0.join(counted);
        if let Err(error) = kept {
            // Nothing is bought that cannot be written down.
            client.halt(&error);
            state.1.get_or_insert(error);
        }
        reporter.live(&format!("{name} documents"), state.0.documents, all, &|| client.spent());
    });
    let (summary, failure) = state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if session::stopped() {
        return Err(session::interrupted());
    }
    if let Some(error) = failure {
        return Err(error.into());
    }
    if let Some(why) = client.halted() {
        return Err(halted(&why, client));
    }
    if let Some(fault) = client.store().fault() {
        return Err(fault.into());
    }
    if let Some(first) = &summary.unrecorded_error {
        bail!("{} of {} requests of {name} are not in the cassette: {first}", summary.unrecorded, summary.turns);
    }
    Ok(summary)
}

fn header(plan: &Plan, client: &Client, date: &str) -> CassetteHeader {
    let known = client.store().header();
    let sampling = session::sampling(plan);
    CassetteHeader {
        cassette: 1,
        model: known.map_or_else(|| sampling.model.clone(), |header| header.model.clone()),
        server: known.map_or_else(|| "OpenAI-compatible chat completions".into(), |header| header.server.clone()),
        sampling: format!(
            "temperature {}, frequency_penalty {}, max_tokens {}, seed {}",
            sampling.temperature, sampling.frequency_penalty, sampling.max_tokens, sampling.seed
        ),
        date: if date.is_empty() { known.map_or_else(String::new, |header| header.date.clone()) } else { date.into() },
    }
}

/// What a call that asks nobody any more leaves, and how it goes on.
fn halted(why: &str, client: &Client) -> anyhow::Error {
    let spent = client.spent();
    let cost = spent.cost.map_or_else(String::new, |cost| format!(", cost {cost:.4}"));
    anyhow!(
        "{why}. This call: {} requests, {} tokens read, {} written{cost}. {} answers are stored; the same command goes on \
         from there",
        spent.calls,
        spent.prompt_tokens,
        spent.completion_tokens,
        client.store().len()
    )
}

fn shard(text: &str) -> Result<Shard> {
    Shard::read(text).ok_or_else(|| usage(format!("--shard {text}: expected I/N with I from 1 to N, such as 1/4")))
}

/// The documents of a part. A part of few documents may have none, and still is a part.
fn part(documents: Vec<Document>, shard: Option<Shard>, limit: Option<usize>) -> Result<Vec<Document>> {
    let mut documents = documents;
    if let Some(shard) = shard {
        documents.retain(|document| shard.takes(&document.id));
    }
    documents.truncate(limit.unwrap_or(usize::MAX));
    if documents.is_empty() && shard.is_none() {
        bail!("no document to read");
    }
    Ok(documents)
}

/// What debates came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    documents: usize,
    ok: usize,
    empty: usize,
    failed: usize,
    refused: usize,
    turns: usize,
    failed_turns: usize,
    asked_again: usize,
    unrecorded: usize,
    unrecorded_error: Option<String>,
    conflicts: usize,
    first_round: usize,
    consensus: usize,
    summarizer: usize,
    majority: usize,
    unsettled: usize,
    cost: Cost,
}

impl Summary {
    /// Of these traces.
    pub fn of(traces: &[Trace]) -> Summary {
        let mut summary = Summary::default();
        traces.iter().for_each(|trace| summary.add(trace));
        summary
    }

    fn add(&mut self, trace: &Trace) {
        let unrecorded = |error: &&str| error.starts_with("no recorded answer");
        let missing = trace.turns.iter().filter_map(|turn| turn.error.as_deref()).filter(unrecorded);
        let settled = |how: Settled| trace.conflicts.iter().filter(|conflict| conflict.settled == how).count();
        let first = |conflict: &&Conflict| conflict.settled == Settled::Consensus && conflict.rounds == 1;
        let is = |status: Status| usize::from(trace.status == status);
        self.join(Summary {
            documents: 1,
            ok: is(Status::Ok),
            empty: is(Status::Empty),
            failed: is(Status::Failed),
            refused: is(Status::Refused),
            turns: trace.turns.len(),
            failed_turns: trace.failed_turns(),
            asked_again: trace.superseded.len(),
            unrecorded: missing.clone().count(),
            unrecorded_error: missing.clone().next().map(str::to_owned),
            conflicts: trace.conflicts.len(),
            first_round: trace.conflicts.iter().filter(first).count(),
            consensus: settled(Settled::Consensus),
            summarizer: settled(Settled::Summarizer),
            majority: settled(Settled::Majority),
            unsettled: settled(Settled::Failed),
            cost: trace.cost(),
        });
    }

    fn join(&mut self, other: Summary) {
        self.documents += other.documents;
        self.ok += other.ok;
        self.empty += other.empty;
        self.failed += other.failed;
        self.refused += other.refused;
        self.turns += other.turns;
        self.failed_turns += other.failed_turns;
        self.asked_again += other.asked_again;
        self.unrecorded += other.unrecorded;
        self.unrecorded_error = self.unrecorded_error.take().or(other.unrecorded_error);
        self.conflicts += other.conflicts;
        self.first_round += other.first_round;
        self.consensus += other.consensus;
        self.summarizer += other.summarizer;
        self.majority += other.majority;
        self.unsettled += other.unsettled;
        self.cost = self.cost.plus(other.cost);
    }

    /// As one JSON object.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "documents": self.documents,
            "ok": self.ok, "empty": self.empty, "failed": self.failed, "refused": self.refused,
            "failed_turns": self.failed_turns,
            "asked_again": self.asked_again,
            "conflicts": self.conflicts,
            "consensus_first_round": self.first_round,
            "consensus": self.consensus,
            "summarizer": self.summarizer,
            "majority": self.majority,
            "unsettled": self.unsettled,
            "calls": self.cost.calls,
            "prompt_tokens": self.cost.prompt_tokens, "completion_tokens": self.cost.completion_tokens,
            "seconds": (self.cost.seconds * 10.0).round() / 10.0,
        })
    }

    /// In words.
    pub fn told(&self) -> String {
        let again = match self.asked_again {
            0 => String::new(),
            count => format!(", {count} asked again"),
        };
        format!(
            "{} documents: {} with findings, {} empty, {} failed, {} refused ({} failed turns{again})\n{} conflicts: {} settled by consensus ({} in one round), {} by the summarizer, {} by a majority, {} unsettled\n{} calls",
            self.documents,
            self.ok,
            self.empty,
            self.failed,
            self.refused,
            self.failed_turns,
            self.conflicts,
            self.consensus,
            self.first_round,
            self.summarizer,
            self.majority,
            self.unsettled,
            self.cost.calls,
        )
    }
}
