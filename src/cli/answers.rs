//! `answers`: what a store of answers holds, and its way to and from cassettes.

use super::{Common, Outcome, printed, usage};
use crate::store::{AnswerStats, CassetteHeader, answer_stats, export_answers, import_answers};
use anyhow::Result;
use clap::Subcommand;
use std::path::{Path, PathBuf};

/// Arguments of `answers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy answers stats out/answers.sqlite
  understudy answers export out/answers.sqlite --out mine.jsonl.zst --date 2026-01-31
  understudy answers import out/answers-*.sqlite mine.jsonl.zst --into all.sqlite

A store is the SQLite file that a run keeps its answers in, one row a request. A cassette is JSON Lines: a header, each \
system message once, requests and answers; a config names one as team.cassette to replay a run without a server. The same \
answers give the same cassette, in whatever order they came. `debate --cassette-out` writes what one debate asked, in its \
order; `answers export` writes all of a store, by key.")]
pub struct AnswersArgs {
    /// What to do
    #[command(subcommand)]
    act: Act,
}

/// What to do with a store.
#[derive(Debug, Subcommand)]
enum Act {
    /// Answers, requests and tokens by model, and the size of the file
    Stats(Stats),
    /// All answers of a store as a cassette
    Export(Export),
    /// Answers of cassettes, logs and other stores into a store
    Import(Import),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  understudy answers stats out/answers.sqlite --json")]
struct Stats {
    /// The answers.sqlite of a run, or a run directory
    #[arg(value_name = "STORE")]
    store: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  understudy answers export out/answers.sqlite --out mine.jsonl.zst --date 2026-01-31

What is not given of the header is that of the imported cassette, or else what the requests say.")]
struct Export {
    /// The answers.sqlite of a run, or a run directory
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// The cassette (.jsonl or .jsonl.zst)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The model, its quantisation and licence, for the header
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
    /// The server, for the header
    #[arg(long, value_name = "TEXT")]
    server: Option<String>,
    /// Temperature, penalties and seed, for the header
    #[arg(long, value_name = "TEXT")]
    sampling: Option<String>,
    /// Day of the recording, for the header
    #[arg(long, value_name = "DAY")]
    date: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  understudy answers import mine.jsonl.zst other/answers.jsonl --into out/answers.sqlite

An answer that the store has stands; importing a file again changes nothing.")]
struct Import {
    /// Cassettes and logs (.jsonl or .jsonl.zst) and stores (.sqlite)
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The store; made if it is not there
    #[arg(long, value_name = "STORE")]
    into: PathBuf,
}

/// Runs the verb.
pub fn run(args: &AnswersArgs, common: &Common) -> Result<Outcome> {
    match &args.act {
        Act::Stats(args) => stats(args, common),
        Act::Export(args) => export(args, common),
        Act::Import(args) => import(args, common),
    }
}

fn stats(args: &Stats, common: &Common) -> Result<Outcome> {
    let store = store(&args.store)?;
    let found = answer_stats(&store)?;
    printed(&match common.json {
        true => format!("{}\n", json(&found)),
        false => told(&store, &found),
    })?;
    Ok(Outcome::Done)
}

fn export(args: &Export, common: &Common) -> Result<Outcome> {
    let store = store(&args.store)?;
    let known = answer_stats(&store)?.suggested_header();
    let given = |given: &Option<String>, known: String| given.clone().unwrap_or(known);
    let header = CassetteHeader {
        cassette: 1,
        model: given(&args.model, known.model),
        server: given(&args.server, known.server),
        sampling: given(&args.sampling, known.sampling),
        date: given(&args.date, known.date),
    };
    let count = export_answers(&store, &args.out, &header)?;
    printed(&match common.json {
        true => format!("{}\n", serde_json::json!({"answers": count, "cassette": args.out})),
        false => format!("{count} answers of {} written to {}\n", store.display(), args.out.display()),
    })?;
    Ok(Outcome::Done)
}

fn import(args: &Import, common: &Common) -> Result<Outcome> {
    let found = import_answers(&args.files, &args.into)?;
    printed(&match common.json {
        true => format!("{}\n", serde_json::json!({"read": found.read, "new": found.new, "store": args.into})),
        false => format!("{} answers read, {} of them new in {}\n", found.read, found.new, args.into.display()),
    })?;
    Ok(Outcome::Done)
}

/// The store that is meant: a file, or the one of a run directory.
fn store(named: &Path) -> Result<PathBuf> {
    let path = if named.is_dir() { named.join("answers.sqlite") } else { named.to_path_buf() };
    match path.is_file() {
        true => Ok(path),
        false => Err(usage(format!(
            "{}: is not there; expected a store of answers, as a run with a server leaves it in its directory \
             (answers.sqlite). An answers.jsonl of version 0.1 becomes one by `understudy answers import FILE --into STORE`",
            path.display()
        ))),
    }
}

fn json(found: &AnswerStats) -> serde_json::Value {
    let models: Vec<_> = found
        .models
        .iter()
        .map(|stats| {
            serde_json::json!({
                "model": stats.model, "class": stats.class, "answers": stats.answers, "attempts": stats.attempts,
                "counted": stats.counted, "prompt_tokens": stats.prompt_tokens,
                "completion_tokens": stats.completion_tokens, "seconds": (stats.seconds * 10.0).round() / 10.0,
            })
        })
        .collect();
    let answers: u64 = found.models.iter().map(|stats| stats.answers).sum();
    serde_json::json!({"answers": answers, "bytes": found.bytes, "models": models, "header": found.header})
}

fn told(store: &Path, found: &AnswerStats) -> String {
    let answers: u64 = found.models.iter().map(|stats| stats.answers).sum();
    let size = found.bytes as f64 / f64::from(1 << 20);
    let mut text = format!("{}: {answers} answers, {size:.1} MiB\n", store.display());
    for stats in &found.models {
        let class = if stats.class == "chat" { String::new() } else { format!(" ({})", stats.class) };
        text += &format!(
            "  {}{class}: {} answers in {} requests; {} tokens read, {} written",
            stats.model, stats.answers, stats.attempts, stats.prompt_tokens, stats.completion_tokens
        );
        if stats.counted < stats.answers {
            text += &format!(" (of {} answers; those of the others are not known)", stats.counted);
        }
        text += &format!("; {:.1} s\n", stats.seconds);
    }
    if let Some(header) = &found.header {
        text +=
            &format!("  from a cassette: {}; {}; {}; {}\n", header.model, header.server, header.sampling, header.date);
    }
    text
}
