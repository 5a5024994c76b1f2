//! The verdict of a run: every system reads the test split, one scorer for all. 6. of the arrow.

use super::learn::Trained;
use super::session::{self, Reporter, stage, weights_hash};
use super::{Common, debate};
use crate::config::Plan;
use crate::corpus::Splits;
use crate::eval::analysis::{Analysis, Asked, Seen, analyse};
use crate::eval::bootstrap::Resampling;
use crate::eval::compare::{System, compare};
use crate::eval::economics::{CostModel, OneOff, Price};
use crate::eval::{Comparison, Mode, Rules};
use crate::filter::leaks;
use crate::ie::record::ExtractionRecord;
use crate::ie::{Document, Prediction, Status};
use crate::report::{Fact, RunReport, Split, Stage, TrainingPoint, readings, stages};
use crate::store::{is_done, read_jsonl, read_predictions, write_atomic, write_jsonl, write_predictions};
use crate::student::{Reader, Student};
use crate::team::{Client, Protocol};
use crate::trace::{Settled, Trace};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// What was measured.
pub struct Measured {
    /// All systems on the test split.
    pub comparison: Comparison,
    /// Failed or refused documents by system; the untrained base is not in it.
    pub failed: BTreeMap<String, usize>,
    /// Traces of the protocols on the test split.
    pub traces: BTreeMap<String, Vec<Trace>>,
    /// What every system found.
    pub systems: Vec<System>,
}

/// Name of the untrained student in tables and files.
pub const BASE: &str = "base";
/// Name of the student in tables and files.
pub const STUDENT: &str = "student";

/// Lets every system read the test split, or takes what an earlier call left.
pub fn measure(
    plan: &Plan,
    weights: &Path,
    client: &Client,
    test: &[Document],
    common: &Common,
    reporter: &Reporter,
) -> Result<Measured> {
    let out = plan.output_dir();
    let (mut systems, mut failed, mut traces) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let mut names = plan.config().eval.systems.clone();
    names.push(STUDENT.into());
    for name in &names {
        let file = format!("predictions/{name}.jsonl");
        let path = out.join(&file);
        let predictions = match Protocol::named(name) {
            Some(protocol) => {
                let traces_file = format!("predictions/{name}.traces.jsonl");
                let wanted = stage(&format!("predict-{name}"), plan, &["team"], &[])?;
                if is_done(out, &wanted) {
                    traces.insert(name.clone(), read_jsonl(&out.join(&traces_file))?);
                    read_predictions(&path, test)?
                } else {
                    reporter.say(&format!("verdict: {name} reads {} test documents", test.len()));
                    let (heard, _) = debate::traces(plan, protocol, client, test, common, reporter)?;
                    let predictions: Vec<Prediction> =
                        heard.iter().zip(test).map(|(trace, document)| trace.prediction(document)).collect();
                    write_jsonl(&out.join(&traces_file), &heard)?;
                    traces.insert(name.clone(), heard);
                    write_predictions(&path, &predictions, test)?;
                    wanted.seal(out, &[&file, &traces_file])?;
                    predictions
                }
            }
            None => student_predictions(plan, weights, name, test, common, reporter)?,
        };
        if name != BASE {
            let lost = predictions.iter().filter(|p| matches!(p.status, Status::Failed | Status::Refused)).count();
            failed.insert(name.clone(), lost);
        }
        systems.push(System { name: name.clone(), predictions });
    }
    let reference = reference(plan, &names);
    let how = Resampling { replicates: plan.config().eval.replicates, seed: plan.config().seed };
    let rules = Rules::new(Mode::Strict, Some(plan.schema()));
    let comparison = compare(test, &systems, &reference, &rules, how).context("scoring the test split")?;
    Ok(Measured { comparison, failed, traces, systems })
}

/// The team if it is measured, else the first system.
fn reference(plan: &Plan, names: &[String]) -> String {
    let team = &plan.config().team.protocol;
    if names.contains(team) { team.clone() } else { names[0].clone() }
}

/// The untrained base or the student, in this process.
fn student_predictions(
    plan: &Plan,
    weights: &Path,
    name: &str,
    test: &[Document],
    common: &Common,
    reporter: &Reporter,
) -> Result<Vec<Prediction>> {
    let out = plan.output_dir();
    let file = format!("predictions/{name}.jsonl");
    let adapter = ["adapter/adapter_model.safetensors"];
    let mut wanted =
        stage(&format!("predict-{name}"), plan, &["eval", "base_model"], if name == STUDENT { &adapter } else { &[] })?;
    wanted.parts.insert("weights".into(), weights_hash(weights)?);
    let wanted = crate::store::Manifest::new(&wanted.stage, wanted.parts);
    if is_done(out, &wanted) {
        return Ok(read_predictions(&out.join(&file), test)?);
    }
    reporter.say(&format!("verdict: {name} reads {} test documents", test.len()));
    let device = session::device(common)?;
    let student = Student::load(weights, &device)?;
    let model = if name == STUDENT {
        let (model, ignored) = student.model.clone().with_peft(&out.join("adapter"))?;
        ignored.iter().for_each(|key| {
            reporter.say(&format!("warning: adapter_config.json: \"{key}\" is not known and was ignored"))
        });
        model
    } else {
        student.model.clone()
    };
    let reader = Reader::new(name, &model, &student.tokenizer, plan.schema().clone(), session::reading(plan));
    let mut predictions = Vec::new();
    // In parts, so that there is progress to see and Ctrl-C is heard.
    for part in test.chunks(32) {
        predictions.extend(reader.read(part)?);
        reporter.step(&format!("{name} reads"), predictions.len(), test.len());
        if session::stopped() {
            return Err(session::interrupted());
        }
    }
    write_predictions(&out.join(&file), &predictions, test)?;
    wanted.seal(out, &[&file])?;
    Ok(predictions)
}

/// The run as its report tells it; also writes `results_<time>.json` and the samples.
pub fn page(
    plan: &Plan,
    splits: &Splits,
    traces: &[Trace],
    measured: &Measured,
    trained: &Trained,
) -> Result<RunReport> {
    let config = plan.config();
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    let split = |name: &str, documents: &[Document]| {
        let gold = || documents.iter().filter_map(|document| document.gold.as_ref());
        Split {
            name: name.into(),
            documents: documents.len() as u64,
            entities: gold().map(|gold| gold.entities.len() as u64).sum(),
            relations: gold().map(|gold| gold.relations.len() as u64).sum(),
            events: gold().map(|gold| gold.events.len() as u64).sum(),
        }
    };
    let test_name = |(name, traces): (&String, &Vec<Trace>)| debated(&format!("{name} on test"), traces);
    let mut stages = vec![debated(&format!("{} on train", config.team.protocol), traces), trained.filtered.clone()];
    stages.extend(measured.traces.iter().map(test_name));
    let training: Vec<TrainingPoint> = trained.log.clone();
    let report = RunReport {
        title: config.title.clone(),
        config: vec![
            fact("Team", format!("{} of {}", config.team.protocol, config.team.model)),
            fact("Student", config.base_model.clone()),
            fact("LoRA", format!("r {}, alpha {}, {}", config.lora.r, config.lora.alpha, config.lora.target_modules)),
            fact("Training", format!("{} epochs, peak learning rate {}, {} examples a step", config.train.num_epochs, config.train.learning_rate, config.train.micro_batch_size * config.train.gradient_accumulation_steps)),
            fact("Filter", format!("entities from {}, relations from {}, mode {}", config.filter.threshold, config.filter.relation_threshold, config.filter.mode)),
            fact("Seed", config.seed.to_string()),
        ],
        corpus: vec![split("train", &splits.train), split("dev", &splits.dev), split("test", &splits.test)],
        stages,
        comparison: Some(measured.comparison.clone()),
        team: config.team.protocol.clone(),
        student: STUDENT.into(),
        training,
        hardware: format!("{} threads, {}", rayon::current_num_threads(), std::env::consts::ARCH),
        notes: vec![
            "Strict micro F1: an entity counts only with its exact span and type, a relation only with both typed ends and its direction. A failed document counts as missed.".into(),
            "The best checkpoint was chosen on the dev split; nothing was chosen on the test split. Gold of the training split audits the filter and is never trained on.".into(),
            "Seconds of the team are those of its recorded calls, one after the other; seconds of the student are its share of a batch on this machine. They compare orders of magnitude, not machines.".into(),
        ],
        cost: cost(plan, measured, traces),
        analysis: Some(analysis(plan, splits, traces, measured)),
    };
    let text = serde_json::to_string_pretty(&report)?;
    write_atomic(&plan.output_dir().join(crate::report::RUN_REPORT), text.as_bytes())?;
    results(plan, &splits.test, measured)?;
    Ok(report)
}

/// Hard documents that the report shows.
const HARDEST: usize = 10;

/// Where the systems, and the team stage by stage, go wrong.
fn analysis(plan: &Plan, splits: &Splits, traces: &[Trace], measured: &Measured) -> Analysis {
    let team = &plan.config().team.protocol;
    let test = &splits.test;
    let debate = measured.traces.get(team).map(|traces| stages(team, traces, test)).unwrap_or_default();
    let steps = debate.iter().map(|(name, _)| name.as_str()).chain([team.as_str()]).collect::<Vec<_>>();
    let pairs = steps.windows(2).map(|pair| (pair[0], pair[1])).chain([(team.as_str(), STUDENT)]).collect();
    // What the student could learn a name from is what the team found.
    let texts: BTreeMap<&str, &str> = splits.train.iter().map(|one| (one.id.as_str(), one.text.as_str())).collect();
    let taught = traces.iter().filter_map(|trace| trace.extraction.clone().read(texts.get(trace.id.as_str())?).ok());
    let leaked = leaks(&splits.train, test).into_iter().map(|leak| leak.measured).collect();
    let seen = Seen::of(&taught.collect::<Vec<_>>(), leaked);
    let asked = Asked {
        pairs,
        seen: Some(&seen),
        shown: vec![team, STUDENT],
        hardest: HARDEST,
        resampling: measured.comparison.resampling,
    };
    let mut all = debate.clone();
    all.extend(readings(test, &measured.systems));
    let mut found = analyse(test, &all, &asked);
    // Stages are no systems to be scored on parts.
    let is_stage = |name: &str| debate.iter().any(|(stage, _)| stage == name);
    found.subsets.iter_mut().for_each(|subset| subset.systems.retain(|one| !is_stage(&one.name)));
    found
}

/// Prices of the config: the team's by the token, the student's own machine for nothing; once, what
/// the team took to label the training split. `None` where nobody named a price.
fn cost(plan: &Plan, measured: &Measured, traces: &[Trace]) -> Option<CostModel> {
    let price = plan.config().team.price?;
    let of = |row: &crate::eval::compare::Row| {
        let asks = Protocol::named(&row.name).is_some();
        let [prompt, completion] = [price.prompt, price.completion].map(|one| if asks { one } else { 0.0 });
        Price { system: row.name.clone(), prompt, completion, hour: 0.0 }
    };
    let spent = traces.iter().fold(crate::ie::Cost::default(), |sum, trace| sum.plus(trace.cost()));
    let tokens = spent.prompt_tokens.zip(spent.completion_tokens);
    let amount = |(read, written): (u64, u64)| (read as f64 * price.prompt + written as f64 * price.completion) / 1e6;
    let what = "the team's answers about the training split; no machine is priced".to_string();
    Some(CostModel {
        currency: String::new(),
        prices: measured.comparison.systems.iter().map(of).collect(),
        once: tokens.map(|tokens| OneOff { what, amount: amount(tokens) }).into_iter().collect(),
    })
}

fn debated(name: &str, traces: &[Trace]) -> Stage {
    let cost = traces.iter().fold(crate::ie::Cost::default(), |sum, trace| sum.plus(trace.cost()));
    let mut kept = BTreeMap::new();
    for trace in traces {
        for label in trace
            .extraction
            .entities
            .iter()
            .map(|e| &e.label)
            .chain(trace.extraction.relations.iter().map(|r| &r.label))
        {
            *kept.entry(label.clone()).or_default() += 1;
        }
    }
    let conflicts: Vec<_> = traces.iter().flat_map(|trace| &trace.conflicts).collect();
    let settled = |how: Settled| conflicts.iter().filter(|conflict| conflict.settled == how).count() as u64;
    let mut dropped = BTreeMap::new();
    for (what, count) in [
        ("turns without a usable answer", traces.iter().map(Trace::failed_turns).sum::<usize>() as u64),
        ("conflicts left to the summarizer", settled(Settled::Summarizer)),
        ("conflicts left to a majority", settled(Settled::Majority)),
        ("conflicts unsettled", settled(Settled::Failed)),
    ] {
        if count > 0 {
            dropped.insert(what.into(), count);
        }
    }
    let tokens = cost.prompt_tokens.zip(cost.completion_tokens).map(|(read, written)| read + written);
    let conflicts = (!conflicts.is_empty()).then_some(conflicts.len() as u64);
    Stage { name: name.into(), documents: traces.len() as u64, calls: cost.calls, tokens, conflicts, kept, dropped }
}

/// `results_<time>.json` and `samples_<system>_<time>.jsonl`, once per verdict: a second call with
/// the same outcome adds none.
fn results(plan: &Plan, test: &[Document], measured: &Measured) -> Result<()> {
    let out = plan.output_dir();
    let text = format!("{:#}\n", serde_json::to_value(&measured.comparison)?);
    let earlier = std::fs::read_dir(out)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut earlier =
        earlier.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("results_")));
    if earlier.any(|path| std::fs::read_to_string(path).is_ok_and(|found| found == text)) {
        return Ok(());
    }
    let stamp = session::stamp();
    for row in &measured.comparison.systems {
        let predictions = read_predictions(&out.join(format!("predictions/{}.jsonl", row.name)), test)?;
        let sample = |(document, prediction): (&Document, &Prediction)| {
            serde_json::json!({
                "id": document.id, "text": document.text, "status": prediction.status, "error": prediction.error,
                "gold": document.gold.as_ref().map(|gold| ExtractionRecord::of(gold, &document.text)),
                "extraction": ExtractionRecord::of(&prediction.extraction, &document.text),
            })
        };
        let samples: Vec<serde_json::Value> = test.iter().zip(&predictions).map(sample).collect();
        write_jsonl(&out.join(format!("samples_{}_{stamp}.jsonl", row.name)), &samples)?;
    }
    Ok(write_atomic(&out.join(format!("results_{stamp}.json")), text.as_bytes())?)
}
