//! The verdict of a run: every system reads the test split, one scorer for all. 6. of the arrow.

mod cost;
mod files;

use super::learn::Trained;
use super::session::{self, Reporter, stage, weights_hash};
use super::{Common, debate, distill};
use crate::config::Plan;
use crate::corpus::Splits;
use crate::eval::analysis::{Analysis, Asked, Seen, analyse};
use crate::eval::bootstrap::Resampling;
use crate::eval::compare::{System, compare};
use crate::eval::compat::spreads;
use crate::eval::reliability::reliability;
use crate::eval::{Comparison, Mode, Rules};
use crate::filter::{Evidence, Score, leaks};
use crate::ie::{Document, Prediction, Status};
use crate::report::{Calibration, Card, Fact, Flow, RunReport, Split, Stage, TrainingPoint, readings, stages};
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
                    let heard: Vec<Trace> = read_jsonl(&out.join(&traces_file))?;
                    let predictions = heard.iter().zip(test).map(|(trace, document)| sure(trace, document)).collect();
                    traces.insert(name.clone(), heard);
                    predictions
                } else {
                    reporter.say(&format!("verdict: {name} reads {} test documents", test.len()));
                    let (heard, _) = debate::traces(plan, protocol, client, test, common, reporter)?;
                    let predictions: Vec<Prediction> =
                        heard.iter().zip(test).map(|(trace, document)| sure(trace, document)).collect();
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

/// The outcome of a debate, each item with how sure the team is of it.
fn sure(trace: &Trace, document: &Document) -> Prediction {
    let mut prediction = trace.prediction(document);
    let found = &mut prediction.extraction;
    let entities = found.entities.iter_mut().zip(&trace.entity_support);
    entities.for_each(|(one, support)| one.confidence = Evidence::of(support, 0).confidence(Score::Product));
    let relations = found.relations.iter_mut().zip(&trace.relation_support);
    relations.for_each(|(one, support)| one.confidence = Evidence::of(support, 0).confidence(Score::Product));
    let events = found.events.iter_mut().zip(&trace.event_support);
    events.for_each(|(one, support)| one.confidence = Evidence::of(support, 0).confidence(Score::Product));
    prediction
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
    weights: &Path,
    splits: &Splits,
    traces: &[Trace],
    measured: &Measured,
    trained: &Trained,
) -> Result<RunReport> {
    let config = plan.config();
    let rules = Rules::new(Mode::Strict, Some(plan.schema()));
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
            fact("Machine time", cost::machine_time(measured, trained)),
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
        cost: cost::cost(plan, measured, traces, trained),
        analysis: Some(analysis(plan, splits, traces, measured)),
        spread: spreads(&splits.test, &measured.systems, &rules),
        reliability: reliability(&splits.test, &measured.systems, &rules),
        calibration: calibration(plan.output_dir()),
        flows: flows(&config.team.protocol, traces, measured),
        card: Some(card(plan, weights, trained)?),
    };
    let text = serde_json::to_string_pretty(&report)?;
    write_atomic(&plan.output_dir().join(crate::report::RUN_REPORT), text.as_bytes())?;
    files::write(plan, &splits.test, measured, &report)?;
    Ok(report)
}

/// What became of the team's conflicts, on the training split and on the test split.
fn flows(team: &str, traces: &[Trace], measured: &Measured) -> Vec<Flow> {
    let test = measured.traces.get(team).and_then(|traces| Flow::of(&format!("{team} on test"), traces));
    Flow::of(&format!("{team} on train"), traces).into_iter().chain(test).collect()
}

/// What the filter learned, where it was fitted.
fn calibration(out: &Path) -> Vec<Calibration> {
    let manifest = std::fs::read_to_string(out.join("corpus/manifest.json")).ok();
    manifest
        .and_then(|text| serde_json::from_str(&text).ok())
        .map(|value| Calibration::read(&value))
        .unwrap_or_default()
}

/// What the model card says beside figures.
fn card(plan: &Plan, weights: &Path, trained: &Trained) -> Result<Card> {
    let (out, schema) = (plan.output_dir(), plan.schema());
    // The student is taught what its team reads.
    let taught = |task: &str, labels: Vec<String>| {
        let tasks = &plan.config().team.tasks;
        if tasks.iter().any(|one| one == task) { labels } else { vec![] }
    };
    Ok(Card {
        base_model: plan.config().base_model.clone(),
        base_sha256: weights_hash(weights)?,
        adapter_sha256: session::hash_of(&out.join("adapter/adapter_model.safetensors"))?,
        corpus_sha256: session::hash_of(&distill::corpus_path(out))?,
        conversations: trained.conversations as u64,
        entities: taught("entities", schema.entities.iter().map(|one| one.label.clone()).collect()),
        relations: taught("relations", schema.relations.iter().map(|one| one.label.clone()).collect()),
        events: taught("events", schema.events.iter().map(|one| one.label.clone()).collect()),
    })
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
        rules: Rules::new(Mode::Strict, Some(plan.schema())),
    };
    let mut all = debate.clone();
    all.extend(readings(test, &measured.systems));
    let mut found = analyse(test, &all, &asked);
    // Stages are no systems to be scored on parts.
    let is_stage = |name: &str| debate.iter().any(|(stage, _)| stage == name);
    found.subsets.iter_mut().for_each(|subset| subset.systems.retain(|one| !is_stage(&one.name)));
    found
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ie::record::{EntityRecord, ExtractionRecord};
    use crate::trace::Support;

    #[test]
    fn a_team_is_as_sure_as_its_votes_and_a_failed_reading_of_nothing() {
        let document = Document::new("d", "Ann left");
        let entity = EntityRecord {
            label: "PER".into(),
            text: "Ann".into(),
            start: Some(0),
            end: Some(3),
            confidence: None,
            confidence_source: None,
        };
        let extraction = ExtractionRecord { entities: vec![entity], ..ExtractionRecord::default() };
        let support = serde_json::json!({"votes": 1, "voters": 2, "logprob": null, "judged": false});
        let support: Vec<Support> = vec![serde_json::from_value(support).unwrap()];
        let trace = Trace { extraction, entity_support: support, status: Status::Ok, ..Trace::opened("d", "aeio") };
        let found = sure(&trace, &document);
        assert_eq!(found.extraction.entities[0].confidence.map(|one| one.value()), Some(0.5));
        let failed = sure(&Trace { status: Status::Failed, ..trace }, &document);
        assert!(failed.extraction.is_empty() && failed.status == Status::Failed);
    }
}
