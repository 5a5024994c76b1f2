//! `extract`: documents or plain text into predictions, with the student or any protocol.

mod partial;

use super::servers::{self, Spending};
use super::session::{self, Experiment, Reporter};
use super::verdict::{BASE, STUDENT};
use super::{Common, Outcome, debate, model, printed, usage};
use crate::config::Plan;
use crate::ie::record::PredictionRecord;
use crate::ie::{Document, Prediction, Status};
use crate::store::{each_document, to_jsonl, write_predictions};
use crate::student::{Reader, Student, Tally};
use crate::team::Protocol;
use anyhow::{Context, Result};
use partial::Predictions;
use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Arguments of `extract`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy extract configs/quickstart.toml texts.jsonl --predictions found.jsonl
  echo 'Reagan lives in America.' | understudy extract configs/quickstart.toml -
  understudy extract configs/quickstart.toml notes.txt --system aeio --set team.base_url=http://127.0.0.1:8071/v1

Input ending in .jsonl or .jsonl.zst is read as documents; anything else as plain text, one document a line.
With --predictions, a stopped call of the student goes on where it was. What it writes is held to the schema's labels
and the document's own words (eval.constrained).")]
pub struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Documents (.jsonl, .jsonl.zst) or plain text; `-` is standard input
    input: PathBuf,
    /// `student`, `base` (the untrained student) or a protocol of the team
    #[arg(long, default_value = STUDENT)]
    system: String,
    /// Repeat R of team.repeats, from 0: the team samples with the seed plus R
    #[arg(long, value_name = "R")]
    repeat: Option<u32>,
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

/// Documents as they come.
type Documents = Box<dyn Iterator<Item = Result<Document>>>;

/// What a call came to.
#[derive(Default, serde::Serialize)]
struct Summary {
    documents: usize,
    /// Read by an earlier call that was stopped.
    resumed: usize,
    failed: usize,
    /// Seconds of reading, loading the model not included.
    seconds: f64,
    documents_per_s: Option<f64>,
    /// What the engine did; only for a model in this process.
    tally: Option<Tally>,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    session::catch_interrupts();
    let plan = session::repeat(session::plan(&args.experiment, common)?, args.repeat)?;
    let ((count, documents), reporter) = (documents(&args.input)?, Reporter::new(common));
    let summary = match Protocol::named(&args.system) {
        Some(protocol) => {
            let documents = documents.collect::<Result<Vec<Document>>>()?;
            team(args, &plan, protocol, &documents, common, &reporter)?
        }
        None if args.repeat.is_some() => {
            return Err(usage(format!("--repeat: --system {} samples nothing; only a team has repeats", args.system)));
        }
        None if args.system == STUDENT || args.system == BASE => {
            student(args, &plan, (count, documents), common, &reporter)?
        }
        None => {
            return Err(usage(format!(
                "--system {}: expected student, base, aeio, type_agents, crossagentie or cooperkgc",
                args.system
            )));
        }
    };
    if summary.documents == 0 {
        return Err(usage(format!("{}: no text; one document a line", args.input.display())));
    }
    let closed = summary.tally.map_or(0, |tally| tally.closed);
    let closed = if closed > 0 { format!(", {closed} answers closed at their limit") } else { String::new() };
    let speed = summary.documents_per_s.map_or_else(String::new, |speed| format!("; {speed:.2} documents/s"));
    reporter.say(&format!("{} documents, {} failed{closed}{speed}", summary.documents, summary.failed));
    if common.json && args.predictions.is_some() {
        printed(&format!("{}\n", serde_json::to_string(&summary)?))?;
    }
    Ok(if summary.failed > args.max_failures { Outcome::TooManyFailures } else { Outcome::Done })
}

fn team(
    args: &Args,
    plan: &Plan,
    protocol: Protocol,
    documents: &[Document],
    common: &Common,
    reporter: &Reporter,
) -> Result<Summary> {
    let client = servers::client(plan, common, &Spending::default(), None)?;
    let start = Instant::now();
    let (traces, _) = debate::traces(plan, protocol, &client, documents, common, reporter)?;
    let predictions: Vec<Prediction> =
        traces.iter().zip(documents).map(|(trace, document)| trace.prediction(document)).collect();
    match &args.predictions {
        Some(path) => write_predictions(path, &predictions, documents)?,
        None => {
            let records: Vec<_> = predictions.iter().zip(documents).map(|(p, d)| PredictionRecord::of(p, d)).collect();
            printed(&String::from_utf8_lossy(&to_jsonl(&records)))?;
        }
    }
    let failed = predictions.iter().filter(|prediction| is_failed(prediction)).count();
    let seconds = start.elapsed().as_secs_f64();
    Ok(Summary { documents: predictions.len(), failed, seconds, ..Summary::default() })
}

fn is_failed(prediction: &Prediction) -> bool {
    matches!(prediction.status, Status::Failed | Status::Refused)
}

fn student(
    args: &Args,
    plan: &Plan,
    (count, mut documents): (Option<usize>, Documents),
    common: &Common,
    reporter: &Reporter,
) -> Result<Summary> {
    let name = &plan.config().base_model;
    let weights = if model::is_known(name) { model::student_path(name)? } else { PathBuf::from(name) };
    let student = Student::load(&weights, &session::device(common)?)?;
    let mut model = student.model.clone();
    let mut identity = format!("{} {}", args.system, session::weights_hash(&weights)?);
    if args.system == STUDENT {
        let adapter = args.adapter.clone().unwrap_or_else(|| plan.output_dir().join("adapter"));
        let (adapted, ignored) =
            model.with_peft(&adapter).context("the student has to be trained first: understudy run CONFIG")?;
        ignored.iter().for_each(|key| {
            reporter.say(&format!("warning: adapter_config.json: \"{key}\" is not known and was ignored"))
        });
        model = adapted;
        identity += &format!(" {}", session::weights_hash(&adapter)?);
    }
    identity +=
        &format!(" {} {}\n", serde_json::to_string(&plan.config().eval)?, serde_json::to_string(plan.schema())?);
    let reader = Reader::new(&args.system, &model, &student.tokenizer, plan.schema().clone(), session::reading(plan));

    let (mut out, done) = Predictions::open(args.predictions.as_deref(), &identity)?;
    for (at, id) in done.iter().enumerate() {
        let document = documents.next().transpose()?;
        if document.is_none_or(|document| document.id != *id) {
            return Err(usage(format!(
                "{}.partial: line {} is about \"{id}\", which is not document {} of {}; remove it to start anew",
                args.predictions.as_deref().unwrap_or(Path::new("-")).display(),
                at + 1,
                at + 1,
                args.input.display()
            )));
        }
    }
    if !done.is_empty() {
        reporter.say(&format!("{} documents were read before", done.len()));
    }
    let mut summary = Summary { resumed: done.len(), documents: done.len(), ..Summary::default() };
    let (start, trouble) = (Instant::now(), RefCell::new(None));
    let fail = |error: anyhow::Error| *trouble.borrow_mut() = Some(error);
    // Documents end at the first error and at Ctrl-C; those in progress are finished.
    let mut source = std::iter::from_fn(|| {
        if session::stopped() || trouble.borrow().is_some() {
            return None;
        }
        documents.next()?.map_err(|error| *trouble.borrow_mut() = Some(error)).ok()
    });
    let tally = reader.read_each(&mut source, &mut |document, prediction| {
        let line = to_jsonl(&[PredictionRecord::of(&prediction, &document)]);
        if let Err(error) = out.write(&line) {
            fail(error);
        }
        summary.documents += 1;
        summary.failed += usize::from(is_failed(&prediction));
        match count {
            Some(count) => reporter.step("read", summary.documents, count),
            None => reporter.count("read", summary.documents),
        }
    })?;
    if let Some(error) = trouble.into_inner() {
        return Err(error);
    }
    if session::stopped() {
        out.pause()?;
        return Err(session::interrupted());
    }
    out.finish()?;
    summary.seconds = start.elapsed().as_secs_f64();
    let fresh = summary.documents - summary.resumed;
    summary.documents_per_s = (fresh > 0).then(|| fresh as f64 / summary.seconds);
    summary.tally = Some(tally);
    Ok(summary)
}

/// Documents of a file, or the lines of a text, and their number where it is known. Documents of a
/// file are all checked before the first is handed on.
fn documents(input: &Path) -> Result<(Option<usize>, Documents)> {
    let name = input.to_string_lossy().into_owned();
    if name.ends_with(".jsonl") || name.ends_with(".jsonl.zst") || name.ends_with(".parquet") {
        let mut count = 0;
        for document in each_document(input)? {
            document?;
            count += 1;
        }
        return Ok((Some(count), Box::new(each_document(input)?.map(|document| document.map_err(Into::into)))));
    }
    let text: Box<dyn BufRead> = match name.as_str() {
        "-" => Box::new(BufReader::new(std::io::stdin())),
        _ => Box::new(BufReader::new(std::fs::File::open(input).with_context(|| name.clone())?)),
    };
    let named = move |error: std::io::Error| anyhow::Error::from(error).context(name.clone());
    let lines = text.lines().filter(|line| !line.as_ref().is_ok_and(|line| line.trim().is_empty()));
    let document = move |(at, line): (usize, std::io::Result<String>)| {
        Ok(Document::new(format!("{}", at + 1), line.map_err(&named)?.trim_start_matches('\u{feff}')))
    };
    Ok((None, Box::new(lines.enumerate().map(document))))
}
