//! `extract`: documents or plain text into predictions, with the student or any protocol.

use super::session::{self, Experiment, Reporter};
use super::verdict::{BASE, STUDENT};
use super::{Common, Outcome, debate, model, printed, usage};
use crate::config::Plan;
use crate::ie::{Document, Prediction, Status};
use crate::store::{Documents, PredictionWriter, StoreError, predictions_jsonl, read_documents};
use crate::student::{Reader, Student, device};
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
    let (mut input, reporter) = (Input::open(&args.input)?, Reporter::new(common));
    let mut sink = Sink::open(args.predictions.as_deref())?;
    match Protocol::named(&args.system) {
        Some(protocol) => {
            let client = session::client(&plan, common)?;
            let documents = input.part(usize::MAX)?;
            let (traces, _) = debate::traces(&plan, protocol, &client, &documents, &reporter)?;
            let read = traces.iter().zip(&documents).map(|(trace, document)| trace.prediction(document));
            sink.write(&read.collect::<Vec<_>>(), &documents)?;
        }
        None if args.system == STUDENT || args.system == BASE => {
            student(args, &plan, &mut input, &mut sink, common, &reporter)?
        }
        None => {
            return Err(usage(format!(
                "--system {}: expected student, base, aeio, type_agents or crossagentie",
                args.system
            )));
        }
    }
    let (all, failed) = sink.finish()?;
    reporter.say(&format!("{all} documents, {failed} failed"));
    Ok(if failed > args.max_failures { Outcome::TooManyFailures } else { Outcome::Done })
}

/// Part by part, so that memory does not grow with the number of documents.
fn student(
    args: &Args,
    plan: &Plan,
    input: &mut Input,
    sink: &mut Sink,
    common: &Common,
    reporter: &Reporter,
) -> Result<()> {
    let name = &plan.config().base_model;
    let weights = if model::is_known(name) { model::student_path(name)? } else { PathBuf::from(name) };
    let student = Student::load(&weights, &device::open(&common.device)?)?;
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
        Reader::new(&args.system, &model, &student.tokenizer, plan.schema().clone(), plan.config().eval.max_new_tokens);
    loop {
        let documents = input.part(PART)?;
        if documents.is_empty() {
            return Ok(());
        }
        if session::stopped() {
            return Err(session::interrupted());
        }
        sink.write(&reader.read(&documents)?, &documents)?;
        reporter.step("read", sink.all, input.all);
    }
}

/// Documents, read as they are asked for.
struct Input {
    all: usize,
    documents: Box<dyn Iterator<Item = Result<Document, StoreError>>>,
}

impl Input {
    fn open(path: &Path) -> Result<Input> {
        let name = path.to_string_lossy();
        if name.ends_with(".jsonl") || name.ends_with(".jsonl.zst") {
            if !path.is_file() {
                // A pipe is read once.
                let documents = read_documents(path)?;
                return Ok(Input { all: documents.len(), documents: Box::new(documents.into_iter().map(Ok)) });
            }
            // Read twice: a fault in the last document is told before the first is asked about.
            let mut all = 0;
            for document in Documents::open(path)? {
                document?;
                all += 1;
            }
            return Ok(Input { all, documents: Box::new(Documents::open(path)?) });
        }
        let text = if name == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("standard input")?;
            text
        } else {
            std::fs::read_to_string(path).with_context(|| format!("{name}"))?
        };
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let documents: Vec<Document> =
            lines.enumerate().map(|(at, line)| Document::new(format!("{}", at + 1), line)).collect();
        if documents.is_empty() {
            return Err(usage(format!("{name}: no text; one document a line")));
        }
        Ok(Input { all: documents.len(), documents: Box::new(documents.into_iter().map(Ok)) })
    }

    /// The next documents, at most so many.
    fn part(&mut self, most: usize) -> Result<Vec<Document>> {
        Ok(self.documents.by_ref().take(most).collect::<Result<_, _>>()?)
    }
}

/// Where predictions go, and how many there are.
struct Sink {
    file: Option<PredictionWriter>,
    all: usize,
    failed: usize,
}

impl Sink {
    /// A file, or standard output.
    fn open(path: Option<&Path>) -> Result<Sink> {
        Ok(Sink { file: path.map(PredictionWriter::create).transpose()?, all: 0, failed: 0 })
    }

    fn write(&mut self, predictions: &[Prediction], documents: &[Document]) -> Result<()> {
        self.all += predictions.len();
        self.failed += predictions.iter().filter(|p| matches!(p.status, Status::Failed | Status::Refused)).count();
        match &mut self.file {
            Some(file) => Ok(file.write(predictions, documents)?),
            None => printed(&String::from_utf8_lossy(&predictions_jsonl(predictions, documents))),
        }
    }

    /// All, and the failed of them.
    fn finish(self) -> Result<(usize, usize)> {
        if let Some(file) = self.file {
            file.finish()?;
        }
        Ok((self.all, self.failed))
    }
}
