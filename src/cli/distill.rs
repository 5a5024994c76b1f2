//! `distill`: traces into a corpus of templates. 3. of the arrow.

mod hygiene;

use super::session::{self, Experiment, Reporter};
use super::{Common, Outcome, shards, usage};
use crate::config::Plan;
use crate::corpus::read_train;
use crate::eval::{Mode as Match, Rules as Scoring, score};
use crate::filter::{Rules, Sieved, sieve};
use crate::ie::{Cost, Document, Prediction, Schema};
use crate::store::{hash_bytes, hash_file, read_documents, read_jsonl, to_jsonl, write_atomic, write_jsonl};
use crate::template::corpus::{Line, Provenance, Task, cap_empty, conversations};
use crate::template::prompt::Prompts;
use crate::trace::{Support, Trace};
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Arguments of `distill`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  understudy distill configs/quickstart.toml --set filter.threshold=0.7
  understudy distill configs/quickstart.toml --gold --out checkpoints/gold

With --gold the student learns the annotations of data.train, as a team without a fault would teach
them: something to compare with. Give it a run directory of its own, and train with the same --out.")]
pub struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Take the gold of data.train in place of the team's answers; no debate is needed
    #[arg(long)]
    gold: bool,
}

/// What a corpus came to.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// Training conversations.
    pub lines: usize,
    /// Relation questions with an empty answer that were left out, beyond their share.
    pub capped: usize,
    /// What the filter did.
    pub sieved: Sieved,
    /// Precision and recall of the kept entities against the gold of the audited documents.
    pub audit: Option<Audit>,
}

/// The filter, checked on training documents that carry gold; the gold is never trained on.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Kept documents with gold.
    pub documents: usize,
    /// Of the kept entities, and before the filter on the same documents.
    pub precision: Option<f64>,
    /// As above.
    pub recall: Option<f64>,
    /// Precision of the team on all documents with gold, before the filter.
    pub before: Option<f64>,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    let plan = session::plan(&args.experiment, common)?;
    let documents = session::corpus(read_train(&plan))?;
    let dev = read_documents(&plan.config().data.dev)?;
    if args.gold {
        return gold(&plan, &documents, &dev, common);
    }
    shards::join(&plan, &documents)?;
    let corpus = distil(&plan, &documents, &dev, &Reporter::new(common))?;
    if common.json {
        println!(
            "{}",
            serde_json::json!({
                "lines": corpus.lines, "documents": corpus.sieved.kept.len(), "per_type": corpus.sieved.per_type,
                "documents_dropped": corpus.sieved.documents_dropped, "items_dropped": corpus.sieved.items_dropped,
            })
        );
    } else {
        print!("{}", told(&corpus));
        println!("corpus: {}", plan.output_dir().join("corpus").display());
    }
    Ok(Outcome::Done)
}

/// Writes a corpus of annotations.
fn gold(plan: &Plan, documents: &[Document], dev: &[Document], common: &Common) -> Result<Outcome> {
    let prompts = Prompts::new(plan.schema().clone());
    let mut lines: Vec<Line> = documents.iter().flat_map(|document| gold_lines(&prompts, document)).collect();
    if lines.is_empty() {
        return Err(usage("data.train: no document carries gold, which --gold learns from"));
    }
    let capped = cap(&mut lines, plan);
    let with_gold = documents.iter().filter(|document| document.gold.is_some()).count();
    let told = format!("{} conversations from the gold of {with_gold} documents\n", lines.len());
    let card = format!(
        "# {}: corpus of gold\n\nThe annotations of the training split as `messages` conversations. {told}\n{}",
        plan.config().title,
        hygiene::told(plan, &BTreeMap::new(), "their annotations, no model's answers")
    );
    write_corpus(plan, &lines, dev, &card, "gold")?;
    if common.json {
        println!("{}", serde_json::json!({ "lines": lines.len(), "documents": with_gold, "capped": capped }));
    } else {
        print!("{told}");
        println!("corpus: {}", plan.output_dir().join("corpus").display());
    }
    Ok(Outcome::Done)
}

/// Leaves out relation questions with an empty answer, beyond their share.
fn cap(lines: &mut Vec<Line>, plan: &Plan) -> usize {
    let share = plan.config().filter.negatives_share;
    cap_empty(lines, Task::Relations, share, |line| hash_bytes(line.meta.documents.concat().as_bytes()))
}

/// The files of a corpus, its validation part from the gold of the dev split.
fn write_corpus(plan: &Plan, lines: &[Line], dev: &[Document], card: &str, protocol: &str) -> Result<()> {
    let out = plan.output_dir();
    let prompts = Prompts::new(plan.schema().clone());
    let valid: Vec<Line> = dev.iter().flat_map(|document| gold_lines(&prompts, document)).collect();
    write_jsonl(&out.join(FILES[0]), lines)?;
    write_jsonl(&out.join(FILES[1]), &valid)?;
    write_atomic(&out.join(FILES[2]), dataset_info().as_bytes())?;
    write_atomic(&out.join(FILES[3]), card.as_bytes())?;
    let hashes: BTreeMap<&str, String> =
        BTreeMap::from([("train.jsonl", hash_bytes(&to_jsonl(lines))), ("valid.jsonl", hash_bytes(&to_jsonl(&valid)))]);
    let data = &plan.config().data;
    let inputs: BTreeMap<&str, String> =
        [("data.schema", &data.schema), ("data.train", &data.train), ("data.dev", &data.dev)]
            .into_iter()
            .map(|(key, path)| Ok((key, hash_file(path)?)))
            .collect::<Result<_>>()?;
    let manifest = serde_json::json!({"version": env!("CARGO_PKG_VERSION"), "protocol": protocol, "filter": plan.config().filter, "inputs": inputs, "license": data.license, "sha256": hashes});
    Ok(write_atomic(&out.join("corpus/manifest.json"), format!("{manifest:#}\n").as_bytes())?)
}

/// The files of a corpus, relative to the run directory.
pub const FILES: [&str; 4] =
    ["corpus/train.jsonl", "corpus/valid.jsonl", "corpus/dataset_info.json", "corpus/README.md"];

/// Filters `OUT/traces.jsonl` and writes `OUT/corpus`.
pub fn distil(plan: &Plan, documents: &[Document], dev: &[Document], reporter: &Reporter) -> Result<Corpus> {
    let out = plan.output_dir();
    let traces: Vec<Trace> =
        read_jsonl(&out.join("traces.jsonl")).context("the debate has to run first: understudy debate CONFIG")?;
    let traces = aligned(traces, documents)?;
    let cost = traces.iter().fold(Cost::default(), |sum, trace| sum.plus(trace.cost()));
    let hygiene::Cleaned { documents, traces, dropped, pii } = hygiene::clean(plan, documents, traces)?;
    let mut sieved = sieve(&documents, &traces, plan.schema(), &Rules::of(plan)).map_err(|error| anyhow!(error))?;
    sieved.documents_dropped.extend(dropped);
    let prompts = Prompts::new(plan.schema().clone());
    let mut lines = Vec::new();
    for kept in &sieved.kept {
        let (document, trace) = (&documents[kept.document], &traces[kept.document]);
        for (task, messages) in conversations(&prompts, &document.text, &kept.extraction) {
            let meta = provenance(document, trace, task, kept.confidence, &messages[0].content);
            lines.push(Line { messages, meta });
        }
    }
    let capped = cap(&mut lines, plan);
    if lines.is_empty() {
        return Err(session::refused(
            "E304: nothing of what the team said passed the filter; lower filter.threshold, or look at OUT/traces.jsonl",
        ));
    }
    let audit = audit(&documents, &traces, &sieved);
    let corpus = Corpus { lines: lines.len(), capped, sieved, audit };
    write_corpus(plan, &lines, dev, &card(plan, &corpus, cost, &pii), &plan.config().team.protocol)?;
    reporter.say(told(&corpus).trim_end());
    Ok(corpus)
}

/// The traces in the order of the documents.
fn aligned(traces: Vec<Trace>, documents: &[Document]) -> Result<Vec<Trace>> {
    let mut by_id: BTreeMap<String, Trace> = traces.into_iter().map(|trace| (trace.id.clone(), trace)).collect();
    let find = |document: &Document| {
        by_id
            .remove(&document.id)
            .ok_or_else(|| anyhow!("traces.jsonl has no trace of \"{}\"; run the debate again", document.id))
    };
    documents.iter().map(find).collect()
}

fn provenance(document: &Document, trace: &Trace, task: Task, confidence: f64, system: &str) -> Provenance {
    let support: &[Support] = if task == Task::Entities { &trace.entity_support } else { &trace.relation_support };
    let cost: Cost = trace.cost();
    Provenance {
        documents: vec![document.id.clone()],
        task,
        protocol: trace.protocol.clone(),
        rounds: trace.conflicts.iter().map(|conflict| conflict.rounds).max().unwrap_or(0),
        votes: support.iter().map(|support| (support.votes, support.voters)).collect(),
        confidence: (confidence * 1e6).round() / 1e6,
        prompt: hash_bytes(system.as_bytes()),
        tokens: cost.prompt_tokens.zip(cost.completion_tokens).map(|(read, written)| read + written),
    }
}

fn gold_lines(prompts: &Prompts, document: &Document) -> Vec<Line> {
    let Some(gold) = &document.gold else { return Vec::new() };
    let line = |(task, messages): (Task, Vec<crate::ie::Message>)| {
        let prompt = hash_bytes(messages[0].content.as_bytes());
        let meta = Provenance {
            documents: vec![document.id.clone()],
            task,
            protocol: "gold".into(),
            rounds: 0,
            votes: vec![],
            confidence: 1.0,
            prompt,
            tokens: None,
        };
        Line { messages, meta }
    };
    conversations(prompts, &document.text, gold).into_iter().map(line).collect()
}

fn dataset_info() -> String {
    let entry = |file: &str| {
        serde_json::json!({"file_name": file, "formatting": "sharegpt", "columns": {"messages": "messages"},
            "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}})
    };
    format!(
        "{:#}\n",
        serde_json::json!({"understudy_train": entry("train.jsonl"), "understudy_valid": entry("valid.jsonl")})
    )
}

fn audit(documents: &[Document], traces: &[Trace], sieved: &Sieved) -> Option<Audit> {
    let audited: Vec<_> = sieved.kept.iter().filter(|kept| documents[kept.document].gold.is_some()).collect();
    let rules = Scoring::new(Match::Strict, Option::<&Schema>::None);
    let gold: Vec<Document> = audited.iter().map(|kept| documents[kept.document].clone()).collect();
    let kept: Vec<Prediction> = audited
        .iter()
        .map(|kept| Prediction::read(&documents[kept.document].id, kept.extraction.clone(), Cost::default()))
        .collect();
    let counts = score(&gold, &kept, &rules).ok()?.total.entities;
    let with_gold: Vec<usize> = (0..documents.len()).filter(|&at| documents[at].gold.is_some()).collect();
    let all: Vec<Document> = with_gold.iter().map(|&at| documents[at].clone()).collect();
    let said: Vec<Prediction> = with_gold.iter().map(|&at| traces[at].prediction(&documents[at])).collect();
    let before = score(&all, &said, &rules).ok()?.total.entities.precision();
    Some(Audit { documents: audited.len(), precision: counts.precision(), recall: counts.recall(), before })
}

/// What the filter did, in words.
pub fn told(corpus: &Corpus) -> String {
    let mut text = format!("{} conversations from {} documents\n", corpus.lines, corpus.sieved.kept.len());
    let counted = |counts: &BTreeMap<String, usize>| {
        counts.iter().map(|(what, count)| format!("{what} {count}")).collect::<Vec<_>>().join(", ")
    };
    let _ = writeln!(text, "  kept: {}", counted(&corpus.sieved.per_type));
    for (what, counts) in
        [("documents left out", &corpus.sieved.documents_dropped), ("items left out", &corpus.sieved.items_dropped)]
    {
        if !counts.is_empty() {
            let _ = writeln!(text, "  {what}: {}", counted(counts));
        }
    }
    if corpus.capped > 0 {
        let _ = writeln!(text, "  relation questions without an answer left out: {}", corpus.capped);
    }
    if let Some(audit) = &corpus.audit {
        let percent = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{:.1} %", 100.0 * value));
        let _ = writeln!(
            text,
            "  audit on {} documents with gold: precision of kept entities {} (recall {}); before the filter {}",
            audit.documents,
            percent(audit.precision),
            percent(audit.recall),
            percent(audit.before)
        );
    }
    text
}

fn card(plan: &Plan, corpus: &Corpus, cost: Cost, pii: &BTreeMap<&'static str, usize>) -> String {
    let filter = &plan.config().filter;
    let tokens = |count: Option<u64>| count.map_or_else(|| "unknown".into(), |count| count.to_string());
    let mut text = format!(
        "# {}: corpus of templates\n\nWhat the team `{}` ({}) can stand behind, as `messages` conversations. `train.jsonl` holds its answers, \
         `valid.jsonl` the gold of the dev split in the same format (it chooses the checkpoint and is never trained on).\n\n",
        plan.config().title,
        plan.config().team.protocol,
        plan.config().team.model
    );
    text.push_str("| type | kept items |\n|---|---|\n");
    for (label, count) in &corpus.sieved.per_type {
        let _ = writeln!(text, "| {label} | {count} |");
    }
    let _ = write!(
        text,
        "\nThresholds: entities {}, relations {}, largest dropped share {}; mode {}.\n\n{}\nCost of the debate: {} calls, {} tokens read, {} written.\n\n",
        filter.threshold,
        filter.relation_threshold,
        filter.max_dropped_share,
        filter.mode,
        told(corpus),
        cost.calls,
        tokens(cost.prompt_tokens),
        tokens(cost.completion_tokens)
    );
    let team = &plan.config().team;
    text + &hygiene::told(plan, pii, &format!("answers of the team `{}` of {}", team.protocol, team.model))
}

/// Where the corpus of a run lies.
pub fn corpus_path(out: &Path) -> PathBuf {
    out.join(FILES[0])
}
