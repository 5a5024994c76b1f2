//! `debate`: a protocol of the team over documents, into traces. 2. of the arrow.

use super::estimate::Estimate;
use super::servers::{self, Spending};
use super::session::{self, Experiment, Reporter};
use super::{Common, Outcome, shards, usage};
use crate::config::Plan;
use crate::corpus::read_train;
use crate::ie::{Document, Status};
use crate::store::{CassetteHeader, Shard, StoredRequest, read_documents, write_jsonl};
use crate::team::{Client, Progress, Protocol, Team};
use crate::trace::{Settled, Trace};
use anyhow::{Result, anyhow, bail};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// Protocol: aeio, type_agents or crossagentie; default: the config's
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
    let plan = session::plan(&args.experiment, common)?;
    let name = args.protocol.as_deref().unwrap_or(&plan.config().team.protocol);
    let protocol = Protocol::named(name)
        .ok_or_else(|| usage(format!("--protocol {name}: expected aeio, type_agents or crossagentie")))?;
    let mut documents = if args.data.is_empty() { session::corpus(read_train(&plan))? } else { Vec::new() };
    for file in &args.data {
        documents.extend(read_documents(file)?);
    }
    let shard = args.shard.as_deref().map(shard).transpose()?;
    let documents = part(documents, shard, args.limit)?;
    if args.dry_run {
        let estimate = Estimate::of(&plan, protocol, &documents, servers::stored(&plan)?);
        match common.json {
            true => println!("{}", estimate.json(&plan)),
            false => println!("{name} over {} documents: {}", documents.len(), estimate.told(&plan)),
        }
        return Ok(Outcome::Done);
    }
    let (client, reporter) = (servers::client(&plan, common, &args.spending, shard)?, Reporter::new(common));
    let (traces, requests) = traces(&plan, protocol, &client, &documents, &reporter)?;
    let file = shard.map_or("traces".into(), |shard| shard.named("traces")) + ".jsonl";
    let path = args.traces.clone().unwrap_or_else(|| plan.output_dir().join(&file));
    write_jsonl(&path, &traces)?;
    let of_the_config = args.traces.is_none() && args.data.is_empty() && args.limit.is_none();
    match shard {
        // Only what the config asks for can be joined.
        Some(shard) if of_the_config && name == plan.config().team.protocol => {
            let done = session::stage(&shard.named("debate"), &plan, &["team"], &[])?;
            done.seal(plan.output_dir(), &[&file])?;
        }
        None if args.traces.is_none() => {
            let count = shards::discard(plan.output_dir())?;
            if count > 0 {
                reporter.say(&format!("{count} traces of shards, now out of date, were removed"));
            }
        }
        _ => {}
    }
    if let Some(cassette) = &args.cassette_out {
        let count = client.store().write_cassette(cassette, &header(&plan, &client, &args.cassette_date), &requests)?;
        reporter.say(&format!("{count} answers written to {}", cassette.display()));
    }
    let failed = traces.iter().filter(|trace| matches!(trace.status, Status::Failed | Status::Refused)).count();
    if common.json {
        println!("{}", summary(&traces));
    } else {
        println!("{}", told(&traces));
        println!("traces: {}", path.display());
    }
    Ok(if failed > args.max_failures { Outcome::TooManyFailures } else { Outcome::Done })
}

/// Lets the team debate; an interrupted or unrecorded request ends the call, a failed one is a row.
pub fn traces(
    plan: &Plan,
    protocol: Protocol,
    client: &Client,
    documents: &[Document],
    reporter: &Reporter,
) -> Result<(Vec<Trace>, Vec<StoredRequest>)> {
    // Blocks of documents at once, where there is room: while one waits for its slowest answer, others
    // are in flight. Each document is debated by itself, so the traces are the same.
    let block = (client.places() / 4).clamp(16, 256);
    let (traces, requests) = match client.places() >= 8 && documents.len() >= 2 * block {
        true => in_blocks(plan, protocol, client, documents, reporter, block),
        false => {
            let progress = |stage: &str, agent: &str, done: usize, all: usize| {
                reporter.live(&format!("{} {stage} {agent}", protocol.name()), done, all, &|| client.spent());
            };
            debated(plan, protocol, client, documents, &progress)
        }
    };
    if session::stopped() {
        return Err(session::interrupted());
    }
    if let Some(why) = client.halted() {
        return Err(halted(&why, client));
    }
    let unrecorded: Vec<&str> = traces
        .iter()
        .flat_map(|trace| &trace.turns)
        .filter_map(|turn| turn.error.as_deref())
        .filter(|error| error.starts_with("no recorded answer"))
        .collect();
    if let Some(first) = unrecorded.first() {
        bail!(
            "{} of {} requests of {} are not in the cassette: {first}",
            unrecorded.len(),
            requests.len(),
            protocol.name()
        );
    }
    Ok((traces, requests))
}

fn debated(
    plan: &Plan,
    protocol: Protocol,
    client: &Client,
    documents: &[Document],
    progress: Progress,
) -> (Vec<Trace>, Vec<StoredRequest>) {
    let team = Team::new(protocol, plan.schema().clone(), client, session::sampling(plan), progress)
        .constrained(session::constrained(plan));
    let traces = team.debate(documents);
    (traces, team.requests())
}

/// Blocks that are debated at once.
const AT_ONCE: usize = 32;

/// Debates block by block, some of them at once; traces and requests in the documents' order.
fn in_blocks(
    plan: &Plan,
    protocol: Protocol,
    client: &Client,
    documents: &[Document],
    reporter: &Reporter,
    block: usize,
) -> (Vec<Trace>, Vec<StoredRequest>) {
    let blocks: Vec<&[Document]> = documents.chunks(block).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tell = || {
        let what = format!("{} documents", protocol.name());
        reporter.live(&what, done.load(Ordering::Relaxed), documents.len(), &|| client.spent());
    };
    let work = || {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = blocks.get(at) else { return mine };
            mine.push((at, debated(plan, protocol, client, block, &|_: &str, _: &str, _: usize, _: usize| tell())));
            done.fetch_add(block.len(), Ordering::Relaxed);
            tell();
        }
    };
    let mut heard: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE.min(blocks.len())).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    heard.sort_by_key(|(at, _)| *at);
    let (traces, requests): (Vec<_>, Vec<_>) = heard.into_iter().map(|(_, heard)| heard).unzip();
    (traces.into_iter().flatten().collect(), requests.into_iter().flatten().collect())
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

/// What the debates came to, as one JSON object.
pub fn summary(traces: &[Trace]) -> serde_json::Value {
    let conflicts: Vec<_> = traces.iter().flat_map(|trace| &trace.conflicts).collect();
    let settled = |how: Settled| conflicts.iter().filter(|conflict| conflict.settled == how).count();
    let status = |status: Status| traces.iter().filter(|trace| trace.status == status).count();
    let cost = traces.iter().fold(crate::ie::Cost::default(), |sum, trace| sum.plus(trace.cost()));
    serde_json::json!({
        "documents": traces.len(),
        "ok": status(Status::Ok), "empty": status(Status::Empty), "failed": status(Status::Failed), "refused": status(Status::Refused),
        "failed_turns": traces.iter().map(Trace::failed_turns).sum::<usize>(),
        "conflicts": conflicts.len(),
        "consensus_first_round": conflicts.iter().filter(|c| c.settled == Settled::Consensus && c.rounds == 1).count(),
        "consensus": settled(Settled::Consensus),
        "summarizer": settled(Settled::Summarizer),
        "majority": settled(Settled::Majority),
        "unsettled": settled(Settled::Failed),
        "calls": cost.calls, "prompt_tokens": cost.prompt_tokens, "completion_tokens": cost.completion_tokens,
        "seconds": (cost.seconds * 10.0).round() / 10.0,
    })
}

/// What the debates came to, in words.
pub fn told(traces: &[Trace]) -> String {
    let summary = summary(traces);
    format!(
        "{} documents: {} with findings, {} empty, {} failed, {} refused ({} failed turns)\n{} conflicts: {} settled by consensus ({} in one round), {} by the summarizer, {} by a majority, {} unsettled\n{} calls",
        summary["documents"],
        summary["ok"],
        summary["empty"],
        summary["failed"],
        summary["refused"],
        summary["failed_turns"],
        summary["conflicts"],
        summary["consensus"],
        summary["consensus_first_round"],
        summary["summarizer"],
        summary["majority"],
        summary["unsettled"],
        summary["calls"],
    )
}
