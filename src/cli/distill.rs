//! `distill`: traces into a corpus of templates. 3. of the arrow.

mod explain;
mod hygiene;
mod page;
mod pairs;
mod teach;

use super::session::{self, Experiment, Reporter};
use super::{Common, Outcome, shards, usage};
use crate::config::Plan;
use crate::corpus::read_train;
use crate::filter::{Chosen, Rules};
use crate::ie::Document;
use crate::store::{LineWriter, Scratch, hash_bytes, hash_file, read_documents, to_jsonl, write_atomic, write_jsonl};
use crate::template::corpus::{Line, Task, cap_empty};
use crate::template::prompt::Prompts;
use anyhow::Result;
use pairs::Pairs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use teach::{Teacher, gold_lines};

/// Arguments of `distill`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  understudy distill configs/quickstart.toml --set filter.threshold=0.7
  understudy distill my.toml --dry-run --set filter.calibration=isotonic \\
      --set filter.target_precision=0.95
  understudy distill configs/quickstart.toml --explain DOCUMENT
  understudy distill configs/quickstart.toml --gold --out checkpoints/gold

With --gold the student learns the annotations of data.train, as a team without a fault would teach
them: something to compare with. Give it a run directory of its own, and train with the same --out.")]
pub struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Take the gold of data.train in place of the team's answers; no debate is needed
    #[arg(long)]
    gold: bool,
    /// Print the expected size and precision of the corpus; write nothing
    #[arg(long, conflicts_with = "gold")]
    dry_run: bool,
    /// Say for one document why each fact is kept or dropped; write nothing
    #[arg(long, value_name = "ID", conflicts_with_all = ["gold", "dry_run"])]
    explain: Option<String>,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    let plan = session::plan(&args.experiment, common)?;
    let dev = read_documents(&plan.config().data.dev)?;
    if args.gold {
        return gold(&plan, &session::corpus(read_train(&plan))?, &dev, common);
    }
    if !crate::store::find_shards(plan.output_dir(), "traces")?.is_empty() {
        shards::join(&plan, &session::corpus(read_train(&plan))?)?;
    }
    let reporter = Reporter::new(common);
    if args.dry_run || args.explain.is_some() {
        let (rules, mut pairs) = (Rules::of(&plan), Pairs::of(&plan)?);
        let (chosen, ..) = teach::choose(&plan, &rules, &mut pairs, Scratch::within(None)?, &reporter)?;
        if let Some(id) = &args.explain {
            return explain::run(&plan, &rules, &mut pairs, &chosen, id, common);
        }
        match common.json {
            true => println!("{}", page::as_json(&chosen)),
            false => print!("{}{}", page::expected(&chosen), page::told(&chosen)),
        }
        return Ok(Outcome::Done);
    }
    let chosen = distil(&plan, &dev, &reporter)?;
    if common.json {
        println!("{}", page::as_json(&chosen));
    } else {
        print!("{}", page::told(&chosen));
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
        hygiene::told(plan, &hygiene::People::new(), "their annotations, no model's answers")
    );
    write_jsonl(&plan.output_dir().join(FILES[0]), &lines)?;
    write_rest(plan, dev, &card, "gold", serde_json::Value::Null)?;
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

/// The files of a corpus beside `train.jsonl`, its validation part from the gold of the dev split.
fn write_rest(plan: &Plan, dev: &[Document], card: &str, protocol: &str, calibration: serde_json::Value) -> Result<()> {
    let out = plan.output_dir();
    let prompts = Prompts::new(plan.schema().clone());
    let valid: Vec<Line> = dev.iter().flat_map(|document| gold_lines(&prompts, document)).collect();
    write_jsonl(&out.join(FILES[1]), &valid)?;
    write_atomic(&out.join(FILES[2]), dataset_info().as_bytes())?;
    write_atomic(&out.join(FILES[3]), card.as_bytes())?;
    let hashes: BTreeMap<&str, String> = BTreeMap::from([
        ("train.jsonl", hash_file(&out.join(FILES[0]))?),
        ("valid.jsonl", hash_bytes(&to_jsonl(&valid))),
    ]);
    let data = &plan.config().data;
    let inputs: BTreeMap<&str, String> =
        [("data.schema", &data.schema), ("data.train", &data.train), ("data.dev", &data.dev)]
            .into_iter()
            .map(|(key, path)| Ok((key, hash_file(path)?)))
            .collect::<Result<_>>()?;
    let mut manifest = serde_json::json!({"version": env!("CARGO_PKG_VERSION"), "protocol": protocol, "filter": plan.config().filter, "inputs": inputs, "license": data.license, "sha256": hashes});
    if calibration.as_object().is_some_and(|found| !found.is_empty()) {
        manifest["calibration"] = calibration;
    }
    Ok(write_atomic(&out.join("corpus/manifest.json"), format!("{manifest:#}\n").as_bytes())?)
}

/// The files of a corpus, relative to the run directory.
pub const FILES: [&str; 4] =
    ["corpus/train.jsonl", "corpus/valid.jsonl", "corpus/dataset_info.json", "corpus/README.md"];

/// Filters `OUT/traces.jsonl` and writes `OUT/corpus`: reads every document beside its trace, chooses,
/// and reads those that were chosen once more.
pub fn distil(plan: &Plan, dev: &[Document], reporter: &Reporter) -> Result<Chosen> {
    let out = plan.output_dir();
    let (rules, mut pairs) = (Rules::of(plan), Pairs::of(plan)?);
    let (chosen, cost, people) = teach::choose(plan, &rules, &mut pairs, Scratch::within(Some(out))?, reporter)?;
    if chosen.tally.lines == 0 {
        return Err(session::refused(
            "E304: nothing of what the team said passed the filter; lower filter.threshold, or look at OUT/traces.jsonl",
        ));
    }
    reporter.say(page::expected(&chosen).trim_end());
    let masks = hygiene::masks(plan);
    let teacher = Teacher::new(plan.schema(), &rules, &chosen);
    let mut writer = LineWriter::create(&out.join(FILES[0]))?;
    pairs.each(
        |at| chosen.causes.get(at).is_some_and(Option::is_none),
        |at, mut document, mut trace| {
            if masks {
                hygiene::mask(&mut document, &mut trace);
            }
            Ok(to_jsonl(&teacher.lines(at, &document, &trace)?))
        },
        |at, lines| {
            reporter.count("written", at + 1);
            Ok(writer.write(&lines)?)
        },
    )?;
    writer.finish()?;
    let card = page::card(plan, &chosen, cost, &people);
    write_rest(plan, dev, &card, &plan.config().team.protocol, page::calibration(&chosen))?;
    reporter.say(page::told(&chosen).trim_end());
    Ok(chosen)
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

/// Where the corpus of a run lies.
pub fn corpus_path(out: &Path) -> PathBuf {
    out.join(FILES[0])
}
