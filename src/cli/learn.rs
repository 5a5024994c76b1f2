//! `train`: LoRA fine-tuning of the student on the run's corpus. 5. of the arrow.

use super::session::{self, Experiment, Reporter, stage, weights_hash};
use super::{Common, Outcome, distill, model, refusals, run::splits};
use crate::config::{ConfigError, Plan};
use crate::eval::{Mode, Rules, score};
use crate::ie::Document;
use crate::report::{Stage, TrainingPoint};
use crate::store::{Manifest, is_done, read_jsonl, write_atomic};
use crate::student::{LoraConfig, Model, Reader, Student};
use crate::template::corpus::Line;
use crate::trace::Trace;
use crate::train::{ExcessLength, Fitted, Hooks, Item, LogLine, Schedule, TrainConfig, TrainError, fit};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Arguments of `train`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy train configs/quickstart.toml
  understudy train configs/quickstart.toml --set train.learning_rate=1e-3 --set train.num_epochs=2

Training goes on from the latest whole checkpoint of the same config and corpus.")]
pub struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Where to go on from: `auto` is the latest whole checkpoint
    #[arg(long, default_value = "auto", value_parser = ["auto"])]
    resume: String,
}

/// A trained student, as the report needs it.
pub struct Trained {
    /// The training log.
    pub log: Vec<TrainingPoint>,
    /// What the filter kept and dropped.
    pub filtered: Stage,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    session::catch_interrupts();
    let plan = session::plan(&args.experiment, common)?;
    let dev = splits(&plan)?.dev;
    let name = &plan.config().base_model;
    let weights = if model::is_known(name) { model::student_path(name)? } else { PathBuf::from(name) };
    learn(&plan, &weights, &dev, common, &Reporter::new(common))?;
    let adapter = plan.output_dir().join("adapter");
    if common.json {
        println!("{}", serde_json::json!({ "adapter": adapter }));
    } else {
        println!("adapter: {}", adapter.display());
    }
    Ok(Outcome::Done)
}

const ADAPTER: [&str; 3] = ["adapter/adapter_model.safetensors", "adapter/adapter_config.json", "adapter/README.md"];

const LOG: &str = "trainer_log.jsonl";

/// Trains on `OUT/corpus/train.jsonl` into `OUT/adapter`, or finds that it was done before.
pub fn learn(plan: &Plan, weights: &Path, dev: &[Document], common: &Common, reporter: &Reporter) -> Result<Trained> {
    let out = plan.output_dir();
    let corpus = distill::corpus_path(out);
    let lines: Vec<Line> =
        read_jsonl(&corpus).context("the corpus has to be there first: understudy distill CONFIG")?;
    let mut wanted = stage("train", plan, &["train", "lora", "base_model", "eval"], &[distill::FILES[0]])?;
    wanted.parts.insert("weights".into(), weights_hash(weights)?);
    let wanted = Manifest::new(&wanted.stage, wanted.parts);
    if is_done(out, &wanted) {
        reporter.say("train: done before");
    } else {
        let fitted = teach(plan, weights, &lines, dev, common, reporter)?;
        publish(&fitted, out)?;
        wanted.seal(out, &[&ADAPTER[..], &[LOG]].concat())?;
        let metric = fitted.best_metric.map_or_else(|| "not measured".into(), |f1| format!("{:.2}", 100.0 * f1));
        reporter.say(&format!(
            "train: {} steps, {} skipped, best at step {} (dev F1 {metric})",
            fitted.steps, fitted.skipped, fitted.best_step
        ));
    }
    let log: Vec<LogLine> = read_jsonl(&out.join(LOG))?;
    Ok(Trained { log: points(&log), filtered: filtered(&lines, plan)? })
}

fn teach(
    plan: &Plan,
    weights: &Path,
    lines: &[Line],
    dev: &[Document],
    common: &Common,
    reporter: &Reporter,
) -> Result<Fitted> {
    reporter.say(&format!("train: {} conversations", lines.len()));
    let student = refusals::student(weights, &train_config(plan)?.lora.targets, common)?;
    let config = train_config(plan)?;
    let item = |(at, line): (usize, &Line)| Item {
        name: format!("train.jsonl:{}", at + 1),
        messages: line.messages.clone(),
        weight: 1.0,
    };
    let items: Vec<Item> = lines.iter().enumerate().map(item).collect();
    let mut hooks = Watch { plan, student: &student, dev, reporter };
    match fit(&student, &items, &config, plan.output_dir(), &plan.config().base_model, &mut hooks) {
        Ok(fitted) => Ok(fitted),
        Err(TrainError::Stopped { .. }) => Err(session::interrupted()),
        Err(TrainError::Refused(refusal)) => Err(session::refused(refusal.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// The best checkpoint's adapter becomes the run's, file by file, each whole.
fn publish(fitted: &Fitted, out: &Path) -> Result<()> {
    for file in ADAPTER {
        let name = Path::new(file).file_name().context("the list above has file names")?;
        let from = fitted.best_checkpoint.join(name);
        let bytes = std::fs::read(&from).with_context(|| format!("{}", from.display()))?;
        write_atomic(&out.join(file), &bytes)?;
    }
    Ok(())
}

/// The settings of a plan as training takes them.
pub fn train_config(plan: &Plan) -> Result<TrainConfig> {
    let (train, lora) = (&plan.config().train, &plan.config().lora);
    let targets = lora.target_modules.names();
    let schedule = match train.lr_scheduler.as_str() {
        "constant" => Schedule::Constant,
        "linear" => Schedule::Linear,
        "cosine" => Schedule::Cosine,
        other => return Err(ConfigError(format!("train.lr_scheduler is \"{other}\"")).into()),
    };
    Ok(TrainConfig {
        num_epochs: train.num_epochs,
        max_steps: train.max_steps,
        learning_rate: train.learning_rate,
        schedule,
        warmup_ratio: train.warmup_ratio,
        loraplus_lr_ratio: train.loraplus_lr_ratio,
        weight_decay: train.weight_decay,
        adam_beta1: train.adam_beta1,
        adam_beta2: train.adam_beta2,
        adam_epsilon: train.adam_epsilon,
        max_grad_norm: train.max_grad_norm,
        micro_batch_size: train.micro_batch_size,
        gradient_accumulation_steps: train.gradient_accumulation_steps,
        sequence_len: train.sequence_len,
        excess_length: if train.excess_length_strategy == "drop" { ExcessLength::Drop } else { ExcessLength::Raise },
        evals_per_epoch: train.evals_per_epoch,
        save_steps: train.save_steps,
        seed: plan.config().seed,
        lora: LoraConfig { r: lora.r, alpha: lora.alpha, rslora: lora.use_rslora, dropout: lora.dropout, targets },
        max_skipped: train.max_skipped,
    })
}

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
        let reader = Reader::new("dev", model, &self.student.tokenizer, schema, self.plan.config().eval.max_new_tokens);
        let predictions = reader.read(self.dev).map_err(|error| error.to_string())?;
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
    let traces: Vec<Trace> = read_jsonl(&plan.output_dir().join("traces.jsonl"))?;
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
