//! `tokens`: the examples of a corpus as the model sees them, token by token, as trained and as
//! prompted. What stands here is what `train` learns: both call the same function.

use super::learn::unlearned;
use super::{Common, Outcome, model, printed, refusals, session, usage};
use crate::store::read_jsonl;
use crate::student::{ChatTokenizer, Weights};
use crate::template::Message;
use crate::train::{Inspection, Item, Part, Refusal, inspect};
use anyhow::Result;
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Arguments of `tokens`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy tokens --model smollm2-135m-instruct checkpoints/quickstart/corpus/train.jsonl
  understudy tokens --model ./Qwen2.5-0.5B-Instruct corpus.jsonl --line 12
  understudy tokens --model tiny.gguf corpus.jsonl --all --summary
  understudy tokens --model tiny.gguf corpus.jsonl --json | jq '.tokens[].text'

A line of the file is one conversation; its last message is the answer to learn:
  {\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}, {\"role\": \"assistant\", \"content\": \"Ann\"}]}
It comes out as (ids and template are those of the default model; its first 24 tokens are left out):
  position      id  as prompted  part    text
        24   10576            =  prompt  \"Who\"
        25      47            =  prompt  \"?\"
        26       2            =  prompt  <|im_end|>
        27     198            =  prompt  \"\\n\"
        28       1            =  prompt  <|im_start|>
        29     520            =  prompt  \"ass\"
        30    9531            =  prompt  \"istant\"
        31     198            =  prompt  \"\\n\"
        32   22940               label   \"Ann\"
        33       2               label   <|im_end|>
`label` is learned, `prompt` is only read, `masked` would be neither. \
Text in quotes is text, whatever it spells; a control token stands without. \
`=` means that the student is asked with the same id at that place.

Exit code 4 if `train` would refuse an example that is shown; `understudy train --help` lists the codes.")]
pub struct Args {
    /// A corpus: JSON Lines with `messages`, such as OUT/corpus/train.jsonl
    file: PathBuf,
    /// A model known by name, a GGUF file or a Hugging Face directory; only its tokenizer is read
    #[arg(long)]
    model: String,
    /// Show the N-th example, from 1
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "limit"])]
    line: Option<usize>,
    /// Show every example; default: the first
    #[arg(long)]
    all: bool,
    /// Show the first N examples
    #[arg(long, value_name = "N", conflicts_with = "all")]
    limit: Option<usize>,
    /// Most tokens of an example, as train.sequence_len says; never more than the model's context
    #[arg(long, value_name = "N", default_value_t = 1024)]
    sequence_len: usize,
    /// Leave the tokens out and print the sums alone
    #[arg(long)]
    summary: bool,
}

/// A line of a corpus; whatever else stands in it is not looked at.
#[derive(Deserialize)]
struct Asked {
    messages: Vec<Message>,
    #[serde(default)]
    unlearned: Vec<[usize; 2]>,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    let weights = weights(&args.model)?;
    let tokenizer = refusals::loaded(ChatTokenizer::open(&weights))?;
    // A tokenizer alone, without the model, has no context to keep to.
    let most = Weights::open(&weights).map_or(usize::MAX, |weights| weights.config().context).min(args.sequence_len);
    let lines: Vec<Asked> = read_jsonl(&args.file)?;
    let shown = shown(args, lines.len())?;
    let mut refused = Vec::new();
    for (at, line) in lines.into_iter().enumerate().skip(shown.start).take(shown.len()) {
        let item = Item {
            name: format!("{}:{}", args.file.display(), at + 1),
            unlearned: unlearned(&line.messages, &line.unlearned),
            messages: line.messages,
            weight: 1.0,
        };
        let seen = inspect(&tokenizer, &item, most);
        printed(&match (&seen, common.json) {
            (Ok(seen), true) => as_json(&tokenizer, seen, args.summary),
            (Ok(seen), false) => as_table(&tokenizer, seen, args.summary),
            (Err(refusal), true) => format!("{}\n", json!({"example": item.name, "refusal": refusal})),
            (Err(refusal), false) => format!("{}\n  pre-flight refuses it: {refusal}\n\n", item.name),
        })?;
        refused.extend(seen.map_or_else(Some, |seen| seen.refusal));
    }
    concluded(&refused, shown.len())
}

/// Exit code 4 where something was refused.
fn concluded(refused: &[Refusal], shown: usize) -> Result<Outcome> {
    match refused.first() {
        Some(first) => Err(session::refused(format!("{} of {shown} examples are refused: {first}", refused.len()))),
        None => Ok(Outcome::Done),
    }
}

/// Where the model's files stand.
fn weights(name: &str) -> Result<PathBuf> {
    if !model::is_known(name) && Path::new(name).exists() {
        return Ok(PathBuf::from(name));
    }
    model::student_path(name)
}

/// Which examples are shown.
fn shown(args: &Args, all: usize) -> Result<std::ops::Range<usize>> {
    let file = args.file.display();
    if all == 0 {
        return Err(session::refused(format!("E201: there is no example to learn from: {file} is empty")));
    }
    match args.line {
        Some(line) if (1..=all).contains(&line) => Ok(line - 1..line),
        Some(line) => Err(usage(format!("--line {line}: {file} has {all} examples; expected 1 to {all}"))),
        None if args.all => Ok(0..all),
        None => Ok(0..args.limit.unwrap_or(1).min(all)),
    }
}

/// One JSON object on one line.
fn as_json(tokenizer: &ChatTokenizer, seen: &Inspection, summary: bool) -> String {
    let mut said = json!(seen);
    if let Some(fields) = said.as_object_mut() {
        if summary {
            fields.remove("tokens");
        }
        let end = tokenizer.end_of_turn();
        fields.insert("end_of_turn".into(), json!({"id": end, "text": tokenizer.shown(end)}));
        fields.insert("stops".into(), json!(tokenizer.stops()));
        fields.insert("prompt_is_prefix".into(), json!(seen.parts_at.is_none()));
    }
    format!("{said}\n")
}

/// A table and what it comes to.
fn as_table(tokenizer: &ChatTokenizer, seen: &Inspection, summary: bool) -> String {
    let mut text = format!("{}\n", seen.example);
    if !summary {
        text += "  position      id  as prompted  part    text\n";
        for token in &seen.tokens {
            let part = match token.part {
                Part::Prompt => "prompt",
                Part::Label => "label",
                Part::Masked => "masked",
            };
            let id = token.id.map_or_else(String::new, |id| id.to_string());
            let prompted = match token.prompted {
                Some(prompted) if token.id == Some(prompted) => "=".to_string(),
                Some(prompted) => prompted.to_string(),
                None => String::new(),
            };
            let _ = writeln!(text, "  {:>8}  {id:>6}  {prompted:>11}  {part:<6}  {}", token.position, token.text);
        }
    }
    let _ = writeln!(
        text,
        "  {} tokens of {}: {} prompt, {} supervised",
        seen.length, seen.sequence_len, seen.prompt_tokens, seen.supervised_tokens
    );
    let _ = match seen.parts_at {
        None => writeln!(text, "  the {} prompted ids are a prefix of the trained ones", seen.prompt_tokens),
        Some(at) => writeln!(text, "  the prompted ids part from the trained ones at position {at}"),
    };
    let named = |id: &u32| format!("{id} {}", tokenizer.shown(*id));
    let trained = if seen.end_trained { "yes" } else { "NO" };
    let stops: Vec<String> = tokenizer.stops().iter().map(named).collect();
    let _ = writeln!(
        text,
        "  end of turn trained: {trained}, {}; an answer ends at {}",
        named(&tokenizer.end_of_turn()),
        stops.join(" or ")
    );
    let _ = match &seen.refusal {
        None => writeln!(text, "  pre-flight lets it pass\n"),
        Some(refusal) => writeln!(text, "  pre-flight refuses it: {refusal}\n"),
    };
    text
}
