//! `score`: predictions against gold, under our rules and under everybody else's.

use super::score_files::{self, read_tags};
pub(super) use super::score_files::{read_gold, read_predictions, read_schema};
use super::{Common, Outcome, usage};
use crate::eval::compat::{self, Figure, Measure, Spread, Tallies, tags::Tokens};
use crate::eval::{Convention, Counts, Mode, Rules, Scores, score, table};
use crate::ie::{Cost, Document, Extraction, Prediction};
use crate::store::to_jsonl;
use anyhow::bail;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Missing documents named in the warning; the rest is a number.
const NAMED: usize = 10;

/// Arguments of `score`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Documents with gold (.jsonl or .jsonl.zst)
    #[arg(long, value_name = "FILE", required_unless_present = "tags")]
    pub gold: Option<PathBuf>,
    /// Predictions of one system (.jsonl or .jsonl.zst)
    #[arg(long, value_name = "FILE", required_unless_present_any = ["self_test", "tags"])]
    pub pred: Option<PathBuf>,
    /// Schema (.toml or .json); says which relations are symmetric
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// How to count: strict, another convention of the list below, or all
    #[arg(long, default_value = "strict", value_name = "NAME", value_parser = parse_mode)]
    pub mode: Chosen,
    /// Leave the other conventions out; less work on millions of documents
    #[arg(long)]
    pub no_spread: bool,
    /// Tokens of conventions that read tags: words (Han and kana alone) or characters
    #[arg(long, default_value = "words", value_name = "KIND", value_parser = parse_tokens)]
    pub tokens: Tokens,
    /// Score tagged columns as conlleval reads them: gold tag and predicted tag stand last
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gold", "pred", "self_test", "schema"])]
    pub tags: Option<PathBuf>,
    /// Write the counts of each document, one a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["self_test", "tags"])]
    pub per_document: Option<PathBuf>,
    /// Gold against itself is 100, against nothing 0; order and repetition change nothing
    #[arg(long)]
    pub self_test: bool,
    /// Say on stderr how long reading and scoring take, one after the other
    #[arg(long)]
    pub timing: bool,
}

/// What `--mode` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// One convention.
    One(Convention),
    /// Every one.
    All,
}

/// The example, the keys, and every convention with its line.
fn after_help() -> String {
    let widest = Convention::ALL.iter().map(|one| one.name().len()).max().unwrap_or(0);
    let mut modes = String::new();
    for convention in Convention::ALL {
        modes += &format!("  {:widest$}  {}\n", convention.name(), convention.about());
    }
    format!("{EXAMPLE}\n\nModes (--mode NAME; all: the main figure and every one of these):\n{modes}{MODES}")
}

const EXAMPLE: &str = "\
Example:
  understudy score --gold data/test.jsonl --pred run/predictions/student.jsonl --schema schema.toml

gold, one document a line (offsets count code points, end exclusive):
  {\"id\":\"d1\",\"text\":\"Ann left.\",\"gold\":{\"entities\":[{\"type\":\"PER\",\"text\":\"Ann\",\"start\":0,\"end\":3}]}}
prediction, one a line, in any order:
  {\"id\":\"d1\",\"status\":\"ok\",\"extraction\":{\"entities\":[{\"type\":\"PER\",\"text\":\"Ann\",\"start\":0,\"end\":3}]}}

An item is right if its key stands in the gold of the same document:
  entities                   span, type
  relations                  label, span and type of head, span and type of tail
  relations, boundaries      label, span of head, span of tail
  triggers, identification   trigger span
  triggers, classification   trigger span, event type
  arguments, identification  event type, argument span
  arguments, classification  event type, trigger span, role, argument span
  events                     triggers and arguments, both classified, counted together

Repeated items count once. White space at the edges of a span does not count. A document that
failed, was refused or is not predicted counts as missed. Fractions are null (a dash in the table)
where there is neither gold nor prediction.";

const MODES: &str = "\
A mode reproduces its original, faults included; where that would print 0 for want of gold and
predictions, there is nothing. Modes of tags lay mentions on tokens (--tokens), earlier and longer
ones first; one that overlaps cannot be tagged, counts as nothing there, and is reported. --tags
goes with seqeval, seqeval-strict, conlleval and all; --self-test takes --pred too.";

/// Reads a mode as clap wants it.
fn parse_mode(name: &str) -> Result<Chosen, String> {
    if name == "all" {
        return Ok(Chosen::All);
    }
    name.parse().map(Chosen::One).map_err(|error: crate::eval::UnknownMode| error.to_string() + ", all")
}

fn parse_tokens(name: &str) -> Result<Tokens, String> {
    match name {
        "words" => Ok(Tokens::Words),
        "characters" | "chars" => Ok(Tokens::Characters),
        _ => Err(format!("tokens \"{name}\" are not known; known: words, characters")),
    }
}

impl Args {
    fn rules(&self) -> anyhow::Result<Rules> {
        let schema = self.schema.as_deref().map(read_schema).transpose()?;
        let bare = self.mode == Chosen::One(Convention::Boundaries);
        Ok(Rules::new(if bare { Mode::Boundaries } else { Mode::Strict }, schema.as_ref()))
    }

    /// What is counted beside the main figure.
    fn conventions(&self) -> Vec<Convention> {
        match self.mode {
            Chosen::One(Convention::Boundaries) => vec![],
            Chosen::One(Convention::Strict) | Chosen::All if !self.no_spread => Convention::ALL.to_vec(),
            Chosen::One(one) => vec![one],
            Chosen::All => vec![Convention::Strict],
        }
    }
}

/// Scores, or tests the scorer on the gold.
///
/// # Errors
/// If a file cannot be read or does not fit the others; each error names file and line.
pub fn run(args: &Args, common: &Common) -> anyhow::Result<Outcome> {
    if let Some(tags) = &args.tags {
        return score_tags(tags, args.mode, common);
    }
    let rules = args.rules()?;
    let gold = args.gold.as_deref().ok_or_else(|| usage("--gold FILE is missing"))?;
    if args.self_test {
        return self_test(gold, args.pred.as_deref(), &rules, args.tokens);
    }
    let pred = args.pred.as_deref().ok_or_else(|| usage("--pred FILE is missing"))?;
    let (tallies, missing) = counted(gold, pred, args, &rules)?;
    warn_of_missing(&missing, pred);
    if common.json {
        print!("{}", as_json(&tallies, args)?);
    } else {
        print!("{}", as_text(&tallies, args));
    }
    Ok(Outcome::Done)
}

/// Counts the two files: the fast way, or one after the other where something is wrong with them
/// or more is asked for than counts.
fn counted(gold: &Path, pred: &Path, args: &Args, rules: &Rules) -> anyhow::Result<score_files::Counted> {
    let conventions = args.conventions();
    if args.per_document.is_none()
        && !args.timing
        && let Some(counted) = score_files::count(gold, pred, &conventions, rules, args.tokens)
    {
        return Ok(counted);
    }
    let start = Instant::now();
    let documents = read_gold(gold)?;
    let predictions = read_predictions(pred, &documents)?;
    let read = start.elapsed();
    let scored = score(&documents, &predictions, rules)?;
    if let Some(path) = &args.per_document {
        let ids = documents.iter().map(|document| &document.id);
        let line = |(id, scores): (&String, &Scores)| -> anyhow::Result<Value> {
            let mut value = serde_json::to_value(scores)?;
            if let Some(fields) = value.as_object_mut() {
                fields.remove("documents");
                fields.shift_insert(0, "id".into(), id.as_str().into());
            }
            Ok(value)
        };
        let lines = ids.zip(&scored.documents).map(line).collect::<anyhow::Result<Vec<_>>>()?;
        crate::store::write_atomic(path, &to_jsonl(&lines))?;
    }
    let start = Instant::now();
    let tallies = compat::tally(&documents, &predictions, &conventions, rules, args.tokens);
    if args.timing {
        eprintln!("reading {:.3} s, scoring {:.3} s", read.as_secs_f64(), start.elapsed().as_secs_f64());
    }
    Ok((tallies, scored.missing))
}

/// The figures of single conventions: how mentions became tags is said where any were lost.
fn untagged(tallies: &Tallies) -> Option<(u64, u64)> {
    let lost = |(_, tally): &(Convention, compat::Tally)| tally.untagged;
    tallies.tallies.iter().map(lost).find(|lost| *lost != (0, 0))
}

fn as_text(tallies: &Tallies, args: &Args) -> String {
    let figures = tallies.figures();
    let scores = &tallies.scores;
    let mut out = match args.mode {
        Chosen::One(Convention::Boundaries) => table::scores(scores, Mode::Boundaries),
        Chosen::One(Convention::Strict) | Chosen::All => table::scores(scores, Mode::Strict),
        Chosen::One(_) => {
            let shown = figures.iter().map(|(convention, figures)| compat::one(*convention, figures));
            format!("documents {}, failed {}\n{}", scores.documents, scores.failed, shown.collect::<String>())
        }
    };
    if args.mode == Chosen::All {
        out += &format!("\n{}", compat::all(&figures));
    }
    if figures.len() > 1 {
        out += &format!("\n{}", compat::spread(&Spread::of(&figures)));
    }
    if let Some((gold, pred)) = untagged(tallies) {
        out += &format!(
            "\nmentions that tags cannot hold ({} as tokens): {gold} gold, {pred} predicted\n",
            args.tokens.name()
        );
    }
    out
}

/// The scores as one line; a mode other than strict says so, that nobody mistakes the numbers.
fn as_json(tallies: &Tallies, args: &Args) -> anyhow::Result<String> {
    let figures = tallies.figures();
    let mut value = serde_json::to_value(&tallies.scores)?;
    let Some(fields) = value.as_object_mut() else { bail!("scores are no object") };
    match args.mode {
        Chosen::One(Convention::Strict) => {}
        Chosen::All => drop(fields.insert("mode".into(), "all".into())),
        Chosen::One(one) => {
            fields.insert("mode".into(), one.name().into());
            if one != Convention::Boundaries {
                // Nothing of the strict counts may pass for this convention's.
                fields.retain(|key, _| matches!(key.as_str(), "documents" | "failed" | "mode"));
                let own = figures.iter().find(|(convention, _)| *convention == one);
                fields.extend(own.map(|(_, figures)| compat::json(figures)).unwrap_or_default());
            }
        }
    }
    if matches!(args.mode, Chosen::One(Convention::Strict | Convention::Boundaries) | Chosen::All)
        && let Some(events) = fields.get_mut("events").and_then(Value::as_object_mut)
    {
        events.insert("together".into(), serde_json::to_value(tallies.scores.events.together())?);
    }
    if args.mode == Chosen::All {
        let all = figures.iter().map(|(one, figures)| (one.name().to_string(), compat::json(figures).into()));
        fields.insert("conventions".into(), Value::Object(all.collect()));
    }
    if figures.len() > 1 {
        fields.insert("spread".into(), spread_json(&figures));
    }
    if let Some((gold, pred)) = untagged(tallies) {
        fields.insert("untagged".into(), json!({"gold": gold, "pred": pred}));
    }
    Ok(format!("{value}\n"))
}

fn spread_json(figures: &[(Convention, Vec<Figure>)]) -> Value {
    let named = |(measure, spread): (Measure, Spread)| (measure.name().to_string(), json!(spread));
    Value::Object(Spread::of(figures).into_iter().map(named).collect())
}

/// Scores a file of tags under the conventions that read tags.
fn score_tags(path: &Path, mode: Chosen, common: &Common) -> anyhow::Result<Outcome> {
    const READ: [Convention; 3] = [Convention::Seqeval, Convention::SeqevalStrict, Convention::Conlleval];
    let chosen = match mode {
        Chosen::All | Chosen::One(Convention::Strict) => READ.to_vec(),
        Chosen::One(one) if READ.contains(&one) => vec![one],
        Chosen::One(one) => {
            return Err(usage(format!(
                "--mode {} does not read tags; --tags goes with seqeval, seqeval-strict, conlleval and all",
                one.name()
            )));
        }
    };
    let sentences = read_tags(path)?;
    let figures: Vec<_> = chosen.iter().map(|&one| (one, compat::tags::of_sentences(one, &sentences))).collect();
    if common.json {
        let all = figures.iter().map(|(one, figures)| (one.name().to_string(), compat::json(figures).into()));
        let all = Value::Object(all.collect());
        println!("{}", json!({"sentences": sentences.len(), "conventions": all, "spread": spread_json(&figures)}));
        return Ok(Outcome::Done);
    }
    println!("sentences {}\n", sentences.len());
    for (one, figures) in &figures {
        println!("{}", compat::one(*one, figures));
    }
    Ok(Outcome::Done)
}

// ------------------------------------------------------------------------------- the self-test

/// A way to write the same facts differently.
type Change = fn(&mut Extraction);

/// Ways that change nothing.
const CHANGES: [(&str, Change); 4] = [
    ("", |_| ()),
    (" reversed", reverse),
    (" doubled", double),
    (" doubled and reversed", |found| {
        double(found);
        reverse(found);
    }),
];

fn self_test(gold: &Path, pred: Option<&Path>, rules: &Rules, tokens: Tokens) -> anyhow::Result<Outcome> {
    let documents = read_gold(gold)?;
    let itself = documents.iter().map(|document| {
        Prediction::read(document.id.clone(), document.gold.clone().unwrap_or_default(), Cost::default())
    });
    let itself: Vec<Prediction> = itself.collect();
    for (name, change) in CHANGES {
        let total = score(&documents, &changed(&itself, change), rules)?.total;
        if let Some((measure, counts)) = measures(&total).into_iter().find(|(_, counts)| counts.fp + counts.fn_ > 0) {
            bail!(
                "self-test: gold against itself{name} gives {measure} {} instead of 100.00 (tp {}, fp {}, fn {}); gold items without start and end never count as right",
                table::percent(counts.f1()),
                counts.tp,
                counts.fp,
                counts.fn_
            );
        }
        println!("gold against itself{name}: 100.00 on every measure");
    }
    let total = score(&documents, &[], rules)?.total;
    if let Some((measure, _)) = measures(&total).into_iter().find(|(_, counts)| counts.tp + counts.fp > 0) {
        bail!("self-test: gold against nothing finds something of {measure}");
    }
    println!("gold against nothing: 0.00 on every measure");
    if let Some(pred) = pred {
        let predictions = read_predictions(pred, &documents)?;
        same_in_any_order(&documents, &predictions, rules)?;
    }
    println!("self-test passed on {} documents", documents.len());
    let figures = compat::tally(&documents, &itself, Convention::ALL, rules, tokens).figures();
    let below = |figure: &&Figure| figure.f1.is_some_and(|f1| f1 < 1.0 - 1e-9);
    for (convention, figures) in &figures {
        for figure in figures.iter().filter(below) {
            println!(
                "note: under {} gold against itself is {} on {}",
                convention.name(),
                table::percent(figure.f1),
                figure.measure.title()
            );
        }
    }
    Ok(Outcome::Done)
}

/// Predictions reversed and repeated must score as they do.
fn same_in_any_order(documents: &[Document], predictions: &[Prediction], rules: &Rules) -> anyhow::Result<()> {
    let plain = score(documents, predictions, rules)?.total;
    for (name, change) in CHANGES {
        let total = score(documents, &changed(predictions, change), rules)?.total;
        let both = measures(&plain).into_iter().zip(measures(&total));
        if let Some(((measure, before), (_, after))) = both.into_iter().find(|(before, after)| before != after) {
            bail!("self-test: predictions{name} give other counts of {measure}: {before:?} and {after:?}");
        }
        println!("predictions{name}: the same on every measure");
    }
    Ok(())
}

fn changed(predictions: &[Prediction], change: Change) -> Vec<Prediction> {
    let mut changed = predictions.to_vec();
    changed.iter_mut().for_each(|prediction| change(&mut prediction.extraction));
    changed
}

fn reverse(found: &mut Extraction) {
    found.entities.reverse();
    let last = found.entities.len().saturating_sub(1);
    for relation in &mut found.relations {
        (relation.head, relation.tail) = (last - relation.head, last - relation.tail);
    }
    found.relations.reverse();
    found.events.reverse();
}

fn double(found: &mut Extraction) {
    found.entities.extend_from_within(..);
    found.relations.extend_from_within(..);
    found.events.extend_from_within(..);
}

fn measures(scores: &Scores) -> [(&'static str, Counts); 7] {
    [
        ("entities", scores.entities),
        ("relations", scores.relations),
        ("relations_boundaries", scores.relations_boundaries),
        ("trigger_identification", scores.events.trigger_identification),
        ("trigger_classification", scores.events.trigger_classification),
        ("argument_identification", scores.events.argument_identification),
        ("argument_classification", scores.events.argument_classification),
    ]
}

/// Says which documents nobody predicted.
pub(super) fn warn_of_missing(missing: &[String], pred: &Path) {
    if missing.is_empty() {
        return;
    }
    let mut names = missing.iter().take(NAMED).map(|id| format!("{id:?}")).collect::<Vec<_>>().join(", ");
    if missing.len() > NAMED {
        names += &format!(" and {} more", missing.len() - NAMED);
    }
    eprintln!("warning: {} has no prediction for {names}; counted as failed", pred.display());
}
