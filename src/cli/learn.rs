//! `train`: LoRA fine-tuning of the student on the run's corpus. 5. of the arrow.

mod keys;
mod settings;

pub use settings::{train_config, unlearned};

use super::session::{self, Experiment, Reporter, stage, weights_hash};
use super::{Common, Outcome, distill, leakage, model, refusals, run::splits};
use crate::config::Plan;
use crate::corpus::Splits;
use crate::eval::{Mode, Rules, score};
use crate::ie::Document;
use crate::report::{Stage, TrainingPoint};
use crate::store::{Manifest, is_done, read_jsonl, write_atomic};
use crate::student::{Model, Reader, Student};
use crate::template::corpus::Line;
use crate::trace::Trace;
use crate::train::{Fitted, Foreseen, Hooks, LogLine, Resume, TrainConfig, TrainError, fit, foresee};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Arguments of `train`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy train configs/quickstart.toml
  understudy train configs/quickstart.toml --set train.learning_rate=1e-3 --resume none

Ctrl-C saves and exits with 130; the same command goes on from there, to the same bytes.", after_long_help = keys::HELP)]
pub struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Where to go on from: `auto` is the latest whole checkpoint, refused if it is of another config or
    /// corpus; `none` starts anew and sets earlier checkpoints aside; a path names one checkpoint
    #[arg(long, default_value = "auto", value_name = "auto|none|PATH")]
    resume: String,
    /// Check the corpus and print what would be learned, training nothing; with --json also the
    /// conversations of every step, by name
    #[arg(long)]
    dry_run: bool,
}

/// A trained student, as the report needs it.
pub struct Trained {
    /// The training log.
    pub log: Vec<TrainingPoint>,
    /// What the filter kept and dropped.
    pub filtered: Stage,
    /// Seconds of training, measurements on the dev split included, and all parts of a resumed run.
    pub seconds: f64,
    /// Conversations that were trained on.
    pub conversations: usize,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    session::catch_interrupts();
    let plan = session::plan(&args.experiment, common)?;
    let splits = splits(&plan)?;
    let name = &plan.config().base_model;
    let weights = if model::is_known(name) { model::student_path(name)? } else { PathBuf::from(name) };
    if args.dry_run {
        return dry_run(&plan, &weights, common);
    }
    let resume = match args.resume.as_str() {
        "auto" => Resume::Auto,
        "none" => Resume::Anew,
        path => Resume::From(PathBuf::from(path)),
    };
    learn(&plan, &weights, &splits, &resume, common, &Reporter::new(common))?;
    let adapter = plan.output_dir().join("adapter");
    if common.json {
        println!("{}", serde_json::json!({ "adapter": adapter }));
    } else {
        println!("adapter: {}", adapter.display());
    }
    Ok(Outcome::Done)
}

/// What a run would learn.
fn dry_run(plan: &Plan, weights: &Path, common: &Common) -> Result<Outcome> {
    let lines = corpus(plan)?;
    let config = settings::train_config(plan)?;
    let student = refusals::student(weights, &config.lora.targets, common)?;
    let items = settings::items(&lines, plan.config().train.weight_by_confidence);
    let foreseen = foresee(&student, &items, &config).map_err(coded)?;
    if common.json {
        println!("{}", serde_json::to_string(&foreseen)?);
        return Ok(Outcome::Done);
    }
    let Foreseen { items, left_out, tokens, supervised_tokens, longest, steps_per_epoch, steps } = foreseen;
    println!("{items} conversations, {} left out; the longest has {longest} tokens", left_out.len());
    println!("{tokens} tokens, {supervised_tokens} of them learned, in {steps_per_epoch} steps an epoch");
    println!("{} steps", steps.len());
    Ok(Outcome::Done)
}

/// The conversations that `distill` left.
fn corpus(plan: &Plan) -> Result<Vec<Line>> {
    let corpus = distill::corpus_path(plan.output_dir());
    read_jsonl(&corpus).context("the corpus has to be there first: understudy distill CONFIG")
}

/// An error of training with its exit code.
fn coded(error: TrainError) -> anyhow::Error {
    match error {
        TrainError::Stopped { .. } => session::interrupted(),
        TrainError::Refused(refusal) => session::refused(refusal.to_string()),
        error => error.into(),
    }
}

const ADAPTER: [&str; 3] = ["adapter/adapter_model.safetensors", "adapter/adapter_config.json", "adapter/README.md"];

const LOG: &str = "trainer_log.jsonl";

/// What a finished training is known by; its README becomes the model card.
fn sealed() -> [&'static str; 3] {
    [ADAPTER[0], ADAPTER[1], LOG]
}

/// Trains on `OUT/corpus/train.jsonl` into `OUT/adapter`, or finds that it was done before, unless
/// something else than that is asked for.
pub fn learn(
    plan: &Plan,
    weights: &Path,
    splits: &Splits,
    resume: &Resume,
    common: &Common,
    reporter: &Reporter,
) -> Result<Trained> {
    let out = plan.output_dir();
    let lines = corpus(plan)?;
    leakage::check(plan, splits, &lines)?;
    let mut wanted = stage("train", plan, &["train", "lora", "base_model", "eval"], &[distill::FILES[0]])?;
    let base_sha256 = weights_hash(weights)?;
    wanted.parts.insert("weights".into(), base_sha256.clone());
    let config = TrainConfig { base_sha256: Some(base_sha256), ..settings::train_config(plan)? };
    if let Some(init) = &config.init_adapter {
        wanted.parts.insert("train.init_adapter".into(), init.sha256.clone());
    }
    let wanted = Manifest::new(&wanted.stage, wanted.parts);
    if matches!(resume, Resume::Auto | Resume::Renew) && is_done(out, &wanted) {
        reporter.say("train: done before");
        // A run of version 0.1 sealed the README too.
        wanted.seal(out, &sealed())?;
    } else {
        let fitted = teach(plan, weights, &lines, &splits.dev, &config, resume, common, reporter)?;
        publish(&fitted, plan.config().train.load_best_model_at_end, out)?;
        wanted.seal(out, &sealed())?;
        reporter.say(&told(&fitted));
    }
    let log: Vec<LogLine> = read_jsonl(&out.join(LOG))?;
    Ok(Trained {
        log: points(&log),
        filtered: filtered(&lines, plan)?,
        seconds: log.last().map_or(0.0, |line| seconds(&line.elapsed_time)),
        conversations: lines.len(),
    })
}

#[allow(clippy::too_many_arguments, reason = "what a run is made of, each once")]
fn teach(
    plan: &Plan,
    weights: &Path,
    lines: &[Line],
    dev: &[Document],
    config: &TrainConfig,
    resume: &Resume,
    common: &Common,
    reporter: &Reporter,
) -> Result<Fitted> {
    reporter.say(&format!("train: {} conversations", lines.len()));
    let student = refusals::student(weights, &config.lora.targets, common)?;
    let items = settings::items(lines, plan.config().train.weight_by_confidence);
    let mut hooks = Watch { plan, student: &student, dev, reporter };
    fit(&student, &items, config, plan.output_dir(), &plan.config().base_model, resume, &mut hooks).map_err(coded)
}

fn told(fitted: &Fitted) -> String {
    let metric = fitted.best_metric.map_or_else(|| "not measured".into(), |f1| format!("{:.2}", 100.0 * f1));
    let mut text = format!("train: {} steps, {} skipped", fitted.steps, fitted.skipped);
    if fitted.rollbacks > 0 {
        text += &format!(", {} rollback", fitted.rollbacks);
    }
    if fitted.stopped_early {
        text += ", stopped early";
    }
    text + &format!(", best at step {} (dev F1 {metric})", fitted.best_step)
}

/// An adapter becomes the run's, file by file, each whole: that of the best checkpoint, or of the last.
fn publish(fitted: &Fitted, best: bool, out: &Path) -> Result<()> {
    let checkpoint = if best { &fitted.best_checkpoint } else { &fitted.last_checkpoint };
    for file in ADAPTER {
        let name = Path::new(file).file_name().context("the list above has file names")?;
        let from = checkpoint.join(name);
        let bytes = std::fs::read(&from).with_context(|| format!("{}", from.display()))?;
        write_atomic(&out.join(file), &bytes)?;
    }
    Ok(())
}

/// Documents of the dev split between two looks for Ctrl-C; as many as are decoded together.
const HEARD: usize = 32;

/// What a training run hears and says: dev F1, progress, Ctrl-C.
struct Watch<'a> {
    plan: &'a Plan,
    student: &'a Student,
    dev: &'a [Document],
    reporter: &'a Reporter,
}

impl Hooks for Watch<'_> {
    fn evaluate(&mut self, model: &Model, step: usize) -> Result<f64, String> {
        let schema = self.plan.schema().clone();
        let reader = Reader::new("dev", model, &self.student.tokenizer, schema, session::reading(self.plan));
        let mut predictions = Vec::with_capacity(self.dev.len());
        for part in self.dev.chunks(HEARD) {
            if session::stopped() {
                return Err("interrupted".into());
            }
            predictions.extend(reader.read(part).map_err(|error| error.to_string())?);
        }
        let rules = Rules::new(Mode::Strict, Some(self.plan.schema()));
        let scores = score(self.dev, &predictions, &rules).map_err(|error| error.to_string())?.total;
        let shown = |f1: Option<f64>| f1.map_or_else(|| "–".into(), |f1| format!("{:.2}", 100.0 * f1));
        self.reporter.say(&format!(
            "  step {step}: dev F1 {} (relations {})",
            shown(scores.entities.f1()),
            shown(scores.relations.f1())
        ));
        Ok(scores.entities.f1().unwrap_or(0.0))
    }

    fn log(&mut self, line: &LogLine) {
        if let Some(loss) = line.loss {
            let norm = line.grad_norm.map_or_else(|| "–".into(), |norm| format!("{norm:.2}"));
            self.reporter.say(&format!(
                "  step {}/{}: loss {loss:.4}, lr {:.2e}, grad norm {norm}, {:.0} tokens/s, {} left",
                line.current_steps, line.total_steps, line.lr, line.throughput, line.remaining_time
            ));
        } else if let Some(reason) = &line.skipped {
            self.reporter.say(&format!("  step {}/{}: skipped, {reason}", line.current_steps, line.total_steps));
        }
    }

    fn stopped(&self) -> bool {
        session::stopped()
    }

    fn note(&mut self, text: &str) {
        self.reporter.say(text);
    }
}

/// `h:mm:ss` in seconds; 0 of anything else.
fn seconds(clock: &str) -> f64 {
    clock.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.trim().parse::<f64>().ok()?)).unwrap_or(0.0)
}

fn points(log: &[LogLine]) -> Vec<TrainingPoint> {
    let mut points: Vec<TrainingPoint> = Vec::new();
    for line in log {
        if let Some(f1) = line.eval_f1 {
            if let Some(last) = points.last_mut().filter(|last| last.step == line.current_steps as u64) {
                last.dev_f1 = Some(f1);
            }
        } else {
            points.push(TrainingPoint {
                step: line.current_steps as u64,
                loss: line.loss.unwrap_or(f64::NAN),
                lr: line.lr,
                grad_norm: line.grad_norm.unwrap_or(f64::NAN),
                dev_f1: None,
            });
        }
    }
    points
}

/// What the corpus holds, counted from its lines, and what of the team's answers is not in it.
fn filtered(lines: &[Line], plan: &Plan) -> Result<Stage> {
    let path = plan.output_dir().join("traces.jsonl");
    // A corpus of gold has no debate behind it.
    let traces: Vec<Trace> = if path.exists() { read_jsonl(&path)? } else { Vec::new() };
    let mut kept: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines {
        let answer = line.messages.last().map_or("", |message| message.content.as_str());
        let groups: BTreeMap<String, Vec<serde_json::Value>> = serde_json::from_str(answer).unwrap_or_default();
        for (label, items) in groups {
            *kept.entry(label).or_default() += items.len() as u64;
        }
    }
    let documents: std::collections::BTreeSet<&str> =
        lines.iter().flat_map(|line| &line.meta.documents).map(String::as_str).collect();
    let left = traces.len().saturating_sub(documents.len()) as u64;
    let dropped = BTreeMap::from([("documents left out".to_string(), left)]);
    Ok(Stage { name: "filter".into(), documents: traces.len() as u64, kept, dropped, ..Stage::default() })
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn a_clock_is_read_in_seconds() {
        assert_eq!(["0:00:07", "1:02:03", "", "soon"].map(seconds), [7.0, 3723.0, 0.0, 0.0]);
    }
}
