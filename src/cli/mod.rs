//! One file per verb, its arguments beside its `run`; nothing else knows clap.

pub mod answer;
pub mod answers;
pub mod compare;
pub mod convert;
pub mod debate;
pub mod demonstrations;
pub mod distill;
pub mod doctor;
pub mod estimate;
pub mod export;
pub mod extract;
pub mod leakage;
pub mod learn;
pub mod local;
pub mod merge;
pub mod model;
pub mod refusals;
pub mod report;
pub mod run;
pub mod score;
mod score_files;
pub mod servers;
pub mod session;
pub mod shape;
pub mod shards;
pub mod tokens;
pub mod trace;
pub mod verdict;

use clap::{Parser, Subcommand, ValueEnum};
use std::io::Write;
use std::process::ExitCode;

/// Distils a debating team of LLM extraction agents into one small model.
#[derive(Debug, Parser)]
#[command(name = "understudy", version, about, propagate_version = true)]
pub struct Cli {
    /// Flags that every verb takes.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags that every verb takes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Common flags")]
pub struct Common {
    /// Print a machine-readable result on stdout and everything else on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// How progress is shown on stderr
    #[arg(long, global = true, value_enum, default_value_t = Progress::Auto)]
    pub progress: Progress,
    /// Seed of every random choice; overrides the config
    #[arg(long, global = true, value_name = "N")]
    pub seed: Option<u64>,
    /// Worker threads; default: all cores
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<usize>,
    /// Where the student runs
    #[arg(long, global = true, default_value = "auto", help = "Where the student runs: auto, cpu or cuda[:n]")]
    pub device: String,
    /// Open no network connection but to loopback
    #[arg(long, global = true)]
    pub offline: bool,
    /// Say more on stderr
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// Plain lines, one in a while
    Auto,
    /// Plain lines
    Plain,
    /// One JSON object a line
    Json,
    /// Nothing
    None,
}

/// The verbs, in the order of the arrow; what serves every stage stands last.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The whole arrow: team, filter, templates, student, verdict
    Run(run::Args),
    /// Native data sets into documents, checked
    Convert(convert::Args),
    /// Let the team debate about documents, into traces
    Debate(debate::Args),
    /// One debate round by round, or what all of them come to
    Trace(trace::Args),
    /// Filter what the team said into a corpus of templates
    Distill(distill::Args),
    /// What the student is taught, in the formats of other tools
    Export(export::Args),
    /// Fine-tune the student on the corpus
    #[command(long_about = refusals::train())]
    Train(learn::Args),
    /// Read documents or plain text with the student or a protocol
    Extract(extract::Args),
    /// Read one raw model answer on stdin as the pipeline would
    Answer(answer::Args),
    /// Stored answers: what a store holds; export and import as a cassette
    Answers(answers::AnswersArgs),
    /// Training examples token by token: id, label or prompt
    Tokens(tokens::Args),
    /// Predictions against gold: strict micro precision, recall and F1
    Score(score::Args),
    /// Several systems on the same documents, with intervals, cost and verdicts
    Compare(compare::Args),
    /// The pages of a run: report.html, report.md and report.csv
    Report(report::Args),
    /// Add an adapter into the weights of its model, verified
    Merge(merge::Args),
    /// Put model weights into the cache
    Model(model::ModelArgs),
    /// What a run needs: device, model, disk, server; what is missing and the way out
    Doctor(doctor::Args),
    /// The JSON Schema of the config
    Schema(shape::SchemaArgs),
    /// A completion script for a shell
    Completions(shape::CompletionsArgs),
}

/// How a verb ended, as the exit code says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 0: done.
    Done,
    /// 3: done, with failed documents above `--max-failures`.
    TooManyFailures,
}

/// An error that carries its exit code: 2 usage or config, 4 a pre-flight refusal, 130 interrupted.
#[derive(Debug)]
pub struct Coded {
    /// The exit code.
    pub code: u8,
    /// What, where, expected, found and the way out.
    pub message: String,
}

impl std::fmt::Display for Coded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Coded {}

/// An error of the command line or config: exit code 2.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Coded { code: 2, message: message.into() }.into()
}

/// Writes a text to stdout; a reader that went away, such as `head`, is no error.
///
/// # Errors
/// Anything else that stdout says.
fn printed(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Runs the verb.
///
/// # Errors
/// Whatever the verb says; [`exit_code`] turns it into the process's exit code.
pub fn run(cli: Cli) -> anyhow::Result<Outcome> {
    match &cli.verb {
        Verb::Run(args) => run::run(args, &cli.common),
        Verb::Convert(args) => convert::run(args, &cli.common),
        Verb::Debate(args) => debate::run(args, &cli.common),
        Verb::Trace(args) => trace::run(args, &cli.common),
        Verb::Distill(args) => distill::run(args, &cli.common),
        Verb::Export(args) => export::run(args, &cli.common),
        Verb::Train(args) => learn::run(args, &cli.common),
        Verb::Extract(args) => extract::run(args, &cli.common),
        Verb::Answer(args) => answer::run(args, &cli.common),
        Verb::Answers(args) => answers::run(args, &cli.common),
        Verb::Tokens(args) => tokens::run(args, &cli.common),
        Verb::Score(args) => score::run(args, &cli.common),
        Verb::Compare(args) => compare::run(args, &cli.common),
        Verb::Report(args) => report::run(args, &cli.common),
        Verb::Merge(args) => merge::run(args, &cli.common),
        Verb::Model(args) => model::run(args, &cli.common),
        Verb::Doctor(args) => doctor::run(args, &cli.common),
        Verb::Schema(args) => shape::schema(args, &cli.common),
        Verb::Completions(args) => shape::completions(args, &cli.common),
    }
}

/// The exit code of a finished run.
pub fn exit_code(ended: &anyhow::Result<Outcome>) -> ExitCode {
    ExitCode::from(match ended {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::TooManyFailures) => 3,
        Err(error) => error.chain().find_map(|cause| cause.downcast_ref::<Coded>()).map_or(1, |coded| coded.code),
    })
}
