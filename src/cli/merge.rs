//! `merge`: an adapter added into the weights of its model, verified before it gets its name; without
//! an adapter, the model alone in another form.

use super::session::{self, Reporter};
use super::{Coded, Common, Outcome, model, usage};
use crate::student::{self, Student};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Arguments of `merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy merge --model smollm2-135m-instruct --adapter checkpoints/quickstart/adapter --out merged
  understudy extract configs/quickstart.toml texts.jsonl --system base --set base_model=merged
  understudy merge --model smollm2-135m-instruct --out hf   # the weights alone, for Python

The result is a Hugging Face directory in f32. Its scores on a fixed probe, in memory and read back
from disk, and its greedy answer are compared with those of model and adapter; if they differ,
nothing is written.")]
pub struct Args {
    /// The base model: a name that `model fetch` knows, a Hugging Face directory or a GGUF file
    #[arg(long)]
    model: String,
    /// The adapter, as PEFT or `train` wrote it; without one the model is written as it is
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// Where the merged model goes
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Largest difference of a score that is borne
    #[arg(long, value_name = "X", default_value_t = 1e-3)]
    max_deviation: f64,
    /// Replace the model that stands at --out
    #[arg(long)]
    force: bool,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    session::catch_interrupts();
    if !(args.max_deviation >= 0.0 && args.max_deviation.is_finite()) {
        return Err(usage(format!("--max-deviation {}: expected 0 or a number above", args.max_deviation)));
    }
    if let Some(threads) = common.threads {
        // Fails only if a pool is already running, and then its size stands.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    }
    let weights =
        if model::is_known(&args.model) { model::student_path(&args.model)? } else { PathBuf::from(&args.model) };
    free(args, &weights)?;
    let reporter = Reporter::new(common);
    let mut student = Student::load(&weights, &session::device(common)?)?;
    if let Some(adapter) = &args.adapter {
        let (adapted, ignored) = student.model.clone().with_peft(adapter)?;
        ignored.iter().for_each(|key| {
            reporter.say(&format!("warning: adapter_config.json: \"{key}\" is not known and was ignored"))
        });
        student.model = adapted;
    }
    let mut news = |part: &str| {
        reporter.say(&format!("merge: {part}"));
        !session::stopped()
    };
    let merged = match student::merge(student, &args.out, args.max_deviation, &mut news) {
        Err(_) if session::stopped() => {
            return Err(Coded { code: 130, message: "interrupted; nothing was written".into() }.into());
        }
        merged => merged?,
    };
    if common.json {
        let told = serde_json::json!({
            "out": args.out, "layers": merged.layers, "positions": merged.positions,
            "max_deviation": merged.deviation(), "max_deviation_in_memory": merged.in_memory,
            "max_deviation_reloaded": merged.reloaded, "bound": args.max_deviation, "greedy_tokens": merged.answer,
        });
        println!("{told}");
    } else {
        println!("merged {} layers into {}", merged.layers, args.out.display());
        println!(
            "largest difference of a score over {} positions: {:e} in memory, {:e} read back (bound {:e})",
            merged.positions, merged.in_memory, merged.reloaded, args.max_deviation
        );
        println!("greedy answer: the same {} tokens", merged.answer.len());
    }
    Ok(Outcome::Done)
}

/// Whether the place is free, or may be made so.
fn free(args: &Args, weights: &Path) -> Result<()> {
    let out = &args.out;
    if !out.exists() {
        return Ok(());
    }
    if !args.force {
        return Err(usage(format!("--out {}: it is there already; --force replaces a model", out.display())));
    }
    let real = |path: &Path| path.canonicalize().with_context(|| format!("{}", path.display()));
    let place = real(out)?;
    for read in [Some(weights), args.adapter.as_deref()].into_iter().flatten() {
        if real(read)?.starts_with(&place) {
            return Err(usage(format!(
                "--out {}: that would replace {}, which is read",
                out.display(),
                read.display()
            )));
        }
    }
    let empty = out.is_dir() && out.read_dir().with_context(|| format!("{}", out.display()))?.next().is_none();
    if !empty && !out.join("config.json").is_file() {
        return Err(usage(format!(
            "--out {}: it holds no model (no config.json), so --force leaves it",
            out.display()
        )));
    }
    Ok(())
}
