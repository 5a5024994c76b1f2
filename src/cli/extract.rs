//! `extract`: documents or plain text into predictions, with the student or any protocol.

use super::servers::{self, Spending};
use super::session::{self, Experiment, Reporter};
use super::verdict::{BASE, STUDENT};
use super::{Common, Outcome, debate, model, usage};
use crate::config::Plan;
use crate::ie::record::PredictionRecord;
use crate::ie::{Document, Prediction, Status};
use crate::store::{read_documents, to_jsonl, write_predictions};
use crate::student::{Reader, Student};
use crate::team::Protocol;
use anyhow::{Context, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Arguments of `extract`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy extract configs/quickstart.toml texts.jsonl --predictions found.jsonl
  echo 'Reagan lives in America.' | understudy extract configs/quickstart.toml -
  understudy extract configs/quickstart.toml notes.txt --system aeio --set team.base_url=http://127.0.0.1:8071/v1

Input ending in .jsonl or .jsonl.zst is read as documents; anything else as plain text, one document a line.")]
pub struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Documents (.jsonl, .jsonl.zst) or plain text; `-` is standard input
    input: PathBuf,
    /// `student`, `base` (the untrained student) or a protocol of the team
    #[arg(long, default_value = STUDENT)]
    system: String,
    /// Adapter of the student; default: OUT/adapter
    #[arg(long)]
    adapter: Option<PathBuf>,
    /// Where the predictions go; default: standard output
    #[arg(long)]
    predictions: Option<PathBuf>,
    /// Failed documents above which the exit code is 3
    #[arg(long, default_value_t = 0)]
    max_failures: usize,
}

/// Documents read together by the student.
const PART: usize = 64;

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    session::catch_interrupts();
    let plan = session::plan(&args.experiment, common)?;
    let (documents, reporter) = (documents(&args.input)?, Reporter::new(common));
    let predictions = match Protocol::named(&args.system) {
        Some(protocol) => {
            let client = servers::client(&plan, common, &Spending::default(), None)?;
            let (traces, _) = debate::traces(&plan, protocol, &client, &documents, &reporter)?;
            traces.iter().zip(&documents).map(|(trace, document)| trace.prediction(document)).collect()
        }
        None if args.system == STUDENT || args.system == BASE => student(args, &plan, &documents, common, &reporter)?,
        None => {
            return Err(usage(format!(
                "--system {}: expected student, base, aeio, type_agents or crossagentie",
                args.system
            )));
        }
    };
    match &args.predictions {
        Some(path) => write_predictions(path, &predictions, &documents)?,
        None => {
            let records: Vec<_> = predictions.iter().zip(&documents).map(|(p, d)| PredictionRecord::of(p, d)).collect();
            print!("{}", String::from_utf8_lossy(&to_jsonl(&records)));
        }
    }
    let failed = predictions.iter().filter(|p| matches!(p.status, Status::Failed | Status::Refused)).count();
    reporter.say(&format!("{} documents, {failed} failed", predictions.len()));
    Ok(if failed > args.max_failures { Outcome::TooManyFailures } else { Outcome::Done })
}

fn student(
    args: &Args,
    plan: &Plan,
    documents: &[Document],
    common: &Common,
    reporter: &Reporter,
) -> Result<Vec<Prediction>> {
    let name = &plan.config().base_model;
    let weights = if model::is_known(name) { model::student_path(name)? } else { PathBuf::from(name) };
    let student = Student::load(&weights, &session::device(common)?)?;
    let mut model = student.model.clone();
    if args.system == STUDENT {
        let adapter = args.adapter.clone().unwrap_or_else(|| plan.output_dir().join("adapter"));
        let (adapted, ignored) =
            model.with_peft(&adapter).context("the student has to be trained first: understudy run CONFIG")?;
        ignored.iter().for_each(|key| {
            reporter.say(&format!("warning: adapter_config.json: \"{key}\" is not known and was ignored"))
        });
        model = adapted;
    }
    let reader =
        Reader::new(&args.system, &model, &student.tokenizer, plan.schema().clone(), session::reading(plan));
    let mut predictions = Vec::with_capacity(documents.len());
    for part in documents.chunks(PART) {
        if session::stopped() {
            return Err(session::interrupted());
        }
        predictions.extend(reader.read(part)?);
        reporter.step("read", predictions.len(), documents.len());
    }
    Ok(predictions)
}

fn documents(input: &Path) -> Result<Vec<Document>> {
    let name = input.to_string_lossy();
    if name.ends_with(".jsonl") || name.ends_with(".jsonl.zst") {
        return Ok(read_documents(input)?);
    }
    let text = if name == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input")?;
        text
    } else {
        std::fs::read_to_string(input).with_context(|| format!("{name}"))?
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let documents: Vec<Document> =
        lines.enumerate().map(|(at, line)| Document::new(format!("{}", at + 1), line)).collect();
    if documents.is_empty() {
        return Err(usage(format!("{name}: no text; one document a line")));
    }
    Ok(documents)
}
