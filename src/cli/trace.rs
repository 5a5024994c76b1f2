//! `trace`: one debate, round by round; and what all debates of a file come to.

mod page;
mod sums;

use super::{Common, Outcome, printed, usage};
use crate::config::schema_file::read_schema;
use crate::config::{Config, Plan};
use crate::eval::errors::{Errors, entities};
use crate::eval::{Mode, Rules, Scores, score};
use crate::ie::record::ExtractionRecord;
use crate::ie::{Cost, Document, Prediction, Status};
use crate::store::{each_document, each_line};
use crate::trace::Trace;
use crate::trace::show::show;
use crate::trace::stats::Stats;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashMap};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// What to do with traces.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// One debate: rows are rounds, columns are agents, and what each round changed is marked
    Show(Show),
    /// All debates of a file: conflicts, flips, agreement, tokens and money
    Stats(Sums),
}

/// Arguments of `trace show`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Marks: + new against the agent's answer before, - gone, ~ under another type or with another vote;
with --gold, ✗ is not in the gold. Colour on a terminal only; NO_COLOR turns it off.

Examples:
  understudy trace show runs/a/traces.jsonl --id train-007 --gold data/sample/train.jsonl
  understudy trace show traces.jsonl.zst --raw | less")]
struct Show {
    /// Traces (.jsonl or .jsonl.zst)
    #[arg(value_name = "TRACES")]
    traces: PathBuf,
    /// The document; default: the first that has a conflict, or else the first
    #[arg(long, value_name = "D")]
    id: Option<String>,
    /// Documents: the text is shown, and where they have gold, what is wrong is marked
    #[arg(long, value_name = "FILE", visible_alias = "documents")]
    gold: Option<PathBuf>,
    /// Show the answers as they came, too
    #[arg(long)]
    raw: bool,
    /// Columns; default: the terminal's, or 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(40..))]
    width: Option<u16>,
}

/// Arguments of `trace stats`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
A fact is right if the gold has it: type and place of an entity, and of both ends of a relation.
Prices are for a million tokens, in whichever currency.

Examples:
  understudy trace stats runs/a/traces.jsonl --gold data/sample/train.jsonl
  understudy trace stats traces.jsonl --price 0.15,0.60 --json")]
struct Sums {
    /// Traces (.jsonl or .jsonl.zst)
    #[arg(value_name = "TRACES")]
    traces: PathBuf,
    /// Documents with gold
    #[arg(long, value_name = "FILE")]
    gold: Option<PathBuf>,
    /// Schema (.toml or .json); says which relations are symmetric
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// What a million tokens cost, read and written
    #[arg(long, value_name = "PROMPT,COMPLETION", value_parser = price, conflicts_with = "config")]
    price: Option<(f64, f64)>,
    /// The experiment file; its [team.price] is the price
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn price(written: &str) -> Result<(f64, f64), String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    written
        .split_once(',')
        .and_then(|(prompt, completion)| Some((number(prompt)?, number(completion)?)))
        .ok_or_else(|| format!("\"{written}\": expected two numbers of 0 or more, such as 0.15,0.60"))
}

/// Shows, or counts.
///
/// # Errors
/// If a file cannot be read; each error names file and line.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    match &args.what {
        What::Show(args) => shown(args, common),
        What::Stats(args) => summed(args, common),
    }
}

fn shown(args: &Show, common: &Common) -> Result<Outcome> {
    let trace = found(&args.traces, args.id.as_deref())?;
    let document = args.gold.as_deref().map(|path| document(path, &trace.id)).transpose()?;
    let gold =
        document.as_ref().and_then(|document| Some(ExtractionRecord::of(document.gold.as_ref()?, &document.text)));
    let text = document.as_ref().map(|document| document.text.as_str());
    let view = show(&trace, text, gold.as_ref());
    if common.json {
        printed(&(serde_json::to_string_pretty(&view)? + "\n"))?;
        return Ok(Outcome::Done);
    }
    let terminal = std::io::stdout().is_terminal();
    let quiet = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let columns = terminal.then(terminal_size::terminal_size).flatten().map(|(width, _)| width.0);
    let width = usize::from(args.width.or(columns).unwrap_or(100).max(40));
    printed(&page::page(&view, &page::Look { width, colour: terminal && !quiet, raw: args.raw }))?;
    Ok(Outcome::Done)
}

/// The trace of a document, or the first with a conflict; reads no further than it must.
fn found(path: &Path, id: Option<&str>) -> Result<Trace> {
    let mut first = None;
    let mut near: Vec<(f64, String)> = Vec::new();
    for trace in each_line::<Trace>(path)? {
        let trace = trace?;
        match id {
            Some(id) if trace.id == id => return Ok(trace),
            Some(id) => {
                near.push((strsim::jaro_winkler(id, &trace.id), trace.id));
                near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
                near.truncate(3);
            }
            None if !trace.conflicts.is_empty() => return Ok(trace),
            None => first = first.or(Some(trace)),
        }
    }
    let shown = path.display();
    let Some(id) = id else { return first.ok_or_else(|| usage(format!("{shown}: no traces in it"))) };
    let near: Vec<String> = near.into_iter().map(|(_, id)| format!("\"{id}\"")).collect();
    Err(usage(match near.is_empty() {
        true => format!("{shown}: no trace of document \"{id}\"; the file is empty"),
        false => format!("{shown}: no trace of document \"{id}\"; near it: {}", near.join(", ")),
    }))
}

fn document(path: &Path, id: &str) -> Result<Document> {
    for document in each_document(path)? {
        let document = document?;
        if document.id == id {
            return Ok(document);
        }
    }
    Err(usage(format!("{}: no document \"{id}\"; give the file that the team read", path.display())))
}

/// Documents as traces ask for them: in the same order nothing is held, in another what was skipped.
struct Shelf {
    rest: Box<dyn Iterator<Item = Result<Document, crate::store::StoreError>>>,
    skipped: HashMap<String, Document>,
}

impl Shelf {
    fn take(&mut self, id: &str) -> Result<Option<Document>> {
        if let Some(document) = self.skipped.remove(id) {
            return Ok(Some(document));
        }
        for document in self.rest.by_ref() {
            let document = document?;
            if document.id == id {
                return Ok(Some(document));
            }
            self.skipped.insert(document.id.clone(), document);
        }
        Ok(None)
    }
}

fn summed(args: &Sums, common: &Common) -> Result<Outcome> {
    let schema = args.schema.as_deref().map(read_schema).transpose().map_err(|error| usage(error.to_string()))?;
    let rules = Rules::new(Mode::Strict, schema.as_ref());
    let price = match (&args.price, &args.config) {
        (Some(price), _) => Some(*price),
        (None, Some(path)) => Some(priced(path)?),
        (None, None) => None,
    };
    let mut shelf = match &args.gold {
        Some(path) => Some(Shelf { rest: Box::new(each_document(path)?), skipped: HashMap::new() }),
        None => None,
    };
    let mut stats = Stats::default();
    let mut scores: Stages = BTreeMap::new();
    for trace in each_line::<Trace>(&args.traces)? {
        let trace = trace?;
        let document = match &mut shelf {
            Some(shelf) => shelf.take(&trace.id)?.filter(|document| document.gold.is_some()),
            None => None,
        };
        let gold = document.as_ref().and_then(|it| Some(ExtractionRecord::of(it.gold.as_ref()?, &it.text)));
        stats.add(&trace, gold.as_ref());
        if let Some(document) = &document {
            scored(&trace, document, &rules, &mut scores)?;
        }
    }
    if stats.documents == 0 {
        return Err(usage(format!("{}: no traces in it", args.traces.display())));
    }
    if common.json {
        printed(&(serde_json::to_string_pretty(&sums::json(&stats, &scores, price))? + "\n"))?;
    } else {
        printed(&sums::table(&stats, &scores, price))?;
    }
    Ok(Outcome::Done)
}

/// What every stage got right, and how its entities went wrong.
type Stages = BTreeMap<String, (Scores, Errors)>;

/// Adds every stage of a document.
fn scored(trace: &Trace, document: &Document, rules: &Rules, stages: &mut Stages) -> Result<()> {
    let gold = document.gold.clone().unwrap_or_default();
    let snapshots = trace.snapshots.iter().map(|at| (format!("{} {}", at.stage, at.round), &at.extraction, Status::Ok));
    for (name, extraction, status) in snapshots.chain([("outcome".to_owned(), &trace.extraction, trace.status)]) {
        let read = extraction.clone().read(&document.text);
        let read = read.with_context(|| format!("trace of \"{}\": does not fit the text of the document", trace.id))?;
        let prediction = match status {
            Status::Ok | Status::Empty => Prediction::read(&trace.id, read, Cost::default()),
            failed => Prediction::failed(&trace.id, failed, "", Cost::default()),
        };
        let errors = entities(&document.text, &gold, &prediction.extraction);
        let total = score(std::slice::from_ref(document), &[prediction], rules)?.total;
        if stages.len() < 1000 || stages.contains_key(&name) {
            let stage = stages.entry(name).or_default();
            stage.0 += &total;
            stage.1 += &errors;
        }
    }
    Ok(())
}

fn priced(path: &Path) -> Result<(f64, f64)> {
    let plan = Plan::read(path, &[]).map_err(|error| usage(error.to_string()))?;
    let config: &Config = plan.config();
    let price = config.team.price.map(|price| (price.prompt, price.completion));
    price.ok_or_else(|| usage(format!("{}: no [team.price]; give --price PROMPT,COMPLETION", path.display())))
}
