//! `export`: what the student would be taught, in the formats that other tools read. 4. of the arrow.

mod parts;
mod source;

use super::{Common, Outcome, convert, printed, usage};
use crate::config::Plan;
use crate::config::schema_file::read_schema;
use crate::corpus::WayBack;
use crate::ie::Schema;
use crate::store::{DocumentWriter, LineWriter, open, to_jsonl, write_atomic};
use crate::template::export::{Form, dataset_info, preference, written};
use anyhow::{Context, Result, anyhow};
use parts::Parts;
use serde_json::{Value, json};
use source::{Source, Taught, pairs};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  understudy export configs/quickstart.toml --to sharegpt --out exports/train.jsonl
  understudy export configs/quickstart.toml --to dpo --out exports/pairs.jsonl
  understudy export docs.jsonl --schema schema.toml --to alpaca --out alpaca.jsonl

Conversations: messages (TRL, LLaMA-Factory), prompt_completion (TRL), alpaca, sharegpt (UniversalNER's
questions, one a type), iepile (IEPile and OneKE: six types or four relations a question).
Annotations: gliner, instructuie, conll (IOB2), conll-bioes, spert, documents.
Tables: parquet: parts of a folder (part-00000.parquet, …) with the columns document, task, system, prompt,
completion, confidence and meta, which Spark, Ray, DuckDB and polars read as one data set.
Preferences: dpo (TRL), dpo-alpaca (LLaMA-Factory): where a debate changed the answer, what was kept of it
is chosen and the answer before it rejected.

A run is read from its config: the documents of data.train and what distill kept of them. Beside the
file, dataset_info.json gets an entry for LLaMA-Factory where it can read the format.")]
pub struct Args {
    /// The experiment file of a run, or documents with gold (.jsonl, .jsonl.zst, .parquet)
    #[arg(value_name = "CONFIG|DOCUMENTS")]
    input: PathBuf,
    /// Format
    #[arg(long, value_name = "FORMAT", value_parser = FORMATS)]
    to: String,
    /// The file to write, compressed as .jsonl.zst; documents also as .parquet; of parquet the folder
    #[arg(long, value_name = "FILE|DIR")]
    out: PathBuf,
    /// Rows of a part, with --to parquet; the last part has fewer
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    rows: usize,
    /// How the names of parts begin, with --to parquet: parts of several runs may be moved together
    #[arg(long, value_name = "NAME", default_value = "part")]
    prefix: String,
    /// Directory of the run; default: the config's
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Schema of the documents (.toml or .json); a config names its own
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Override a key of the config; may be given more than once
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

const FORMATS: [&str; 14] = [
    "messages",
    "prompt_completion",
    "alpaca",
    "sharegpt",
    "iepile",
    "gliner",
    "instructuie",
    "conll",
    "conll-bioes",
    "spert",
    "documents",
    "parquet",
    "dpo",
    "dpo-alpaca",
];

/// What is written for each document.
enum Writing {
    Conversations(Form),
    Preferences(Form),
    Documents(DocumentWriter),
    Annotations(WayBack),
    Parts(Box<Parts>),
}

/// Runs the verb.
///
/// # Errors
/// Exit code 2 for a format that the input cannot give; 1 for files that cannot be read or written.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    if args.out.canonicalize().is_ok_and(|out| args.input.canonicalize().is_ok_and(|input| input == out)) {
        return Err(usage(format!("export: --out {} is the input; it would be overwritten", args.out.display())));
    }
    let is_config = args.input.extension().is_some_and(|extension| extension == "toml");
    let (schema, plan) = match is_config {
        true if args.schema.is_some() => {
            return Err(usage("export: --schema is for documents; a config names its own"));
        }
        true => {
            let plan = Plan::read(&args.input, &args.set).map_err(|error| usage(error.to_string()))?;
            let plan = args.run.iter().fold(plan, |plan, run| plan.into(run.clone()));
            (Some(plan.schema().clone()), Some(plan))
        }
        false if args.run.is_some() || !args.set.is_empty() => {
            return Err(usage("export: --run and --set are for a config (.toml)"));
        }
        false => {
            let read = args.schema.as_deref().map(read_schema).transpose();
            (read.map_err(|error| usage(error.to_string()))?, None)
        }
    };
    let writing = writing(args, schema.as_ref(), plan.is_some())?;
    let source = match &plan {
        Some(plan) => Source::of_run(plan)?,
        None => Source::of_documents(&args.input, schema)?,
    };
    let told = write(args, writing, source, plan.as_ref())?;
    let listed = list(&args.out, &args.to)?;
    if common.json {
        let (documents, records) = told;
        printed(&format!(
            "{}\n",
            json!({"documents": documents, "records": records, "out": args.out, "dataset_info": listed})
        ))?;
    } else {
        let (documents, records) = told;
        printed(&format!("{records} records from {documents} documents\nwritten: {}\n", args.out.display()))?;
    }
    Ok(Outcome::Done)
}

fn writing(args: &Args, schema: Option<&Schema>, of_run: bool) -> Result<Writing> {
    let to = args.to.as_str();
    let writing = match to {
        "messages" => Writing::Conversations(Form::Messages),
        "prompt_completion" => Writing::Conversations(Form::PromptCompletion),
        "alpaca" => Writing::Conversations(Form::Alpaca),
        "dpo" => Writing::Preferences(Form::Messages),
        "dpo-alpaca" => Writing::Preferences(Form::Alpaca),
        "documents" => Writing::Documents(DocumentWriter::create(&args.out)?),
        "parquet" if args.rows == 0 => return Err(usage("export: --rows is 0; expected 1 or more")),
        "parquet" => Writing::Parts(Box::new(Parts::within(&args.out, &args.prefix, args.rows)?)),
        other => {
            let native = if other == "sharegpt" { "universalner" } else { other };
            let target = convert::target(native).context("the list of formats is the parser's")?;
            Writing::Annotations(WayBack::new(target, false).asking(schema.cloned().unwrap_or_default()))
        }
    };
    if matches!(writing, Writing::Preferences(_)) && !of_run {
        return Err(usage(format!("export: --to {to} needs the debates of a run; give its config (.toml)")));
    }
    let asks = matches!(writing, Writing::Conversations(_) | Writing::Parts(_)) || ["sharegpt", "iepile"].contains(&to);
    if asks && schema.is_none() {
        return Err(usage(format!("export: --to {to} asks for every label; give the schema with --schema FILE")));
    }
    Ok(writing)
}

/// Writes everything; gives the documents read and the records written.
fn write(args: &Args, mut writing: Writing, source: Source, plan: Option<&Plan>) -> Result<(usize, usize)> {
    let mut lines = match &writing {
        Writing::Documents(_) | Writing::Parts(_) => None,
        _ => Some(LineWriter::create(&args.out)?),
    };
    let (mut documents, mut records) = (0, 0);
    let mut traces = match (&writing, plan) {
        (Writing::Preferences(_), Some(plan)) => Some(source::Traces::of_run(plan)?),
        _ => None,
    };
    for taught in source {
        let taught: Taught = taught?;
        documents += 1;
        let named = |said: String| anyhow!("document \"{}\": {said}", taught.document.id);
        let written: Vec<Vec<u8>> = match &mut writing {
            Writing::Conversations(form) => {
                let each =
                    taught.lines.iter().map(|line| Ok(to_jsonl(&[written(&line.messages, *form).map_err(named)?])));
                each.collect::<Result<_>>()?
            }
            Writing::Preferences(form) => {
                let trace = traces.as_mut().context("a run has traces")?.of(&taught.document.id)?;
                let pair = |(asked, chosen, rejected): (&[_], &str, String)| {
                    Ok(to_jsonl(&[preference(asked, chosen, &rejected, *form).map_err(named)?]))
                };
                pairs(&taught, &trace).into_iter().map(pair).collect::<Result<_>>()?
            }
            Writing::Annotations(back) => vec![back.document(&taught.document, &[])],
            Writing::Documents(writer) => {
                writer.write(&taught.document)?;
                records += 1;
                continue;
            }
            Writing::Parts(parts) => {
                taught.lines.iter().try_for_each(|line| parts.write(line))?;
                records += taught.lines.len();
                continue;
            }
        };
        // A document is several records of IEPile, one line each.
        let lines_of = |bytes: &Vec<u8>| bytes.iter().filter(|byte| **byte == b'\n').count();
        records += if args.to == "iepile" { written.iter().map(lines_of).sum() } else { written.len() };
        if let Some(lines) = &mut lines {
            written.iter().try_for_each(|bytes| lines.write(bytes))?;
        }
    }
    if let (Writing::Annotations(back), Some(lines)) = (&writing, &mut lines) {
        lines.write(back.end())?;
        for (what, (count, example)) in &back.left_out {
            eprintln!("warning: left out: {count} {what}, as in {example}");
        }
        if back.moved > 0 {
            eprintln!("note: {} names are read where they stand first, which is not their place", back.moved);
        }
    }
    match writing {
        Writing::Documents(writer) => writer.finish()?,
        Writing::Parts(mut parts) => parts.finish()?,
        _ => {}
    }
    lines.map_or(Ok(()), LineWriter::finish)?;
    Ok((documents, records))
}

/// Adds the file to the `dataset_info.json` beside it; whether LLaMA-Factory can read it.
fn list(out: &Path, format: &str) -> Result<bool> {
    let name = out.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(entry) = dataset_info(&name, format).filter(|_| !name.ends_with(".zst")) else { return Ok(false) };
    let path = out.with_file_name("dataset_info.json");
    let mut info: serde_json::Map<String, Value> = serde_json::Map::new();
    if path.exists() {
        let mut text = String::new();
        open(&path)?.read_to_string(&mut text).with_context(|| path.display().to_string())?;
        info = serde_json::from_str(&text).with_context(|| format!("{}: expected one JSON object", path.display()))?;
    }
    let stem = name.split('.').next().unwrap_or(&name).to_string();
    info.insert(stem, entry);
    info.sort_keys();
    write_atomic(&path, format!("{:#}\n", Value::Object(info)).as_bytes())?;
    Ok(true)
}
