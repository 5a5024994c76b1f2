//! `report`: the pages of a run, from what the run wrote down.

use super::{Common, Outcome};
use crate::report::{MODEL_CARD, RUN_REPORT, RunReport, pages};
use crate::store::write_atomic;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  understudy report runs/conll04

Reads runs/conll04/run_report.json and writes report.md, report.html (one file; no network, no
script needed), once systems were scored report.csv beside it, and where there is an adapter its
model card, adapter/README.md. Equal input gives equal bytes.")]
pub struct Args {
    /// The run directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Rewrites the pages.
///
/// # Errors
/// If the run report is absent or broken, or a page cannot be written.
pub fn run(args: &Args, common: &Common) -> anyhow::Result<Outcome> {
    let from = args.dir.join(RUN_REPORT);
    let shown = from.display();
    let text = std::fs::read_to_string(&from).with_context(|| {
        format!("{shown}: a run directory holds this file once its systems were scored; `understudy run` writes it")
    })?;
    let report: RunReport = serde_json::from_str(&text).with_context(|| format!("{shown}"))?;
    let written = write(&args.dir, &report)?;
    if common.json {
        println!("{}", serde_json::json!({ "headline": report.headline(), "files": written }));
    } else {
        println!("{}\n", report.headline());
        written.iter().for_each(|path| println!("{}", path.display()));
    }
    Ok(Outcome::Done)
}

/// Writes every page of a report into a directory; each file is whole or as it was.
///
/// # Errors
/// If a page cannot be written.
pub fn write(dir: &Path, report: &RunReport) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for page in pages(report)? {
        let path = dir.join(page.name);
        // A model card without its model says nothing.
        if page.name == MODEL_CARD && !path.parent().is_some_and(Path::is_dir) {
            continue;
        }
        write_atomic(&path, page.text.as_bytes())?;
        written.push(path);
    }
    Ok(written)
}
