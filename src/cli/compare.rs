//! `compare`: several systems on the same documents, with intervals, cost and verdicts.

use super::score::{read_gold, read_predictions, read_schema, warn_of_missing};
use super::{Common, Outcome, usage};
use crate::eval::bootstrap::{REPLICATES, Resampling};
use crate::eval::{Mode, Rules, System, compare, table};
use std::path::{Path, PathBuf};

/// Arguments of `compare`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  understudy compare --gold data/test.jsonl run/predictions/team.jsonl run/predictions/student.jsonl

A system is named after its file. Differences are taken to --reference, by default to the system
named \"team\", else to the first. Intervals are 95 % percentile intervals over resampled documents;
both systems see the same draws, so the difference is paired. \"The sample cannot tell\" means that
zero lies inside the interval, not that the systems are equal.")]
pub struct Args {
    /// Documents with gold (.jsonl or .jsonl.zst)
    #[arg(long, value_name = "FILE")]
    pub gold: PathBuf,
    /// Predictions, one file a system (.jsonl or .jsonl.zst)
    #[arg(value_name = "PRED", required = true)]
    pub systems: Vec<PathBuf>,
    /// Schema (.toml or .json); says which relations are symmetric
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// The system that the others are compared with
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// Resampled sets behind every interval; time grows linearly
    #[arg(long, value_name = "N", default_value_t = REPLICATES as u32, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub replicates: u32,
}

/// Compares.
///
/// # Errors
/// If a file cannot be read or does not fit the gold, or the reference is none of the systems.
pub fn run(args: &Args, common: &Common) -> anyhow::Result<Outcome> {
    let schema = args.schema.as_deref().map(read_schema).transpose()?;
    let names: Vec<String> = args.systems.iter().map(|path| name_of(path)).collect();
    if let Some((_, twice)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(usage(format!(
            "two prediction files are named \"{twice}\"; a system is named after its file, so rename one"
        )));
    }
    let reference = match &args.reference {
        Some(name) if names.contains(name) => name.clone(),
        Some(name) => {
            return Err(usage(format!("--reference \"{name}\" is none of the systems; known: {}", names.join(", "))));
        }
        None => names.iter().find(|name| *name == "team").unwrap_or(&names[0]).clone(),
    };
    let documents = read_gold(&args.gold)?;
    let mut systems = Vec::new();
    for (name, path) in names.into_iter().zip(&args.systems) {
        let predictions = read_predictions(path, &documents)?;
        let predicted: std::collections::BTreeSet<&str> = predictions.iter().map(|one| one.id.as_str()).collect();
        let missing = documents.iter().filter(|one| !predicted.contains(one.id.as_str())).map(|one| one.id.clone());
        warn_of_missing(&missing.collect::<Vec<_>>(), path);
        systems.push(System { name, predictions });
    }
    let how = Resampling { replicates: args.replicates as usize, seed: common.seed.unwrap_or(0) };
    let found = compare(&documents, &systems, &reference, &Rules::new(Mode::Strict, schema.as_ref()), how)?;
    if common.json {
        println!("{}", serde_json::to_string(&found)?);
    } else {
        print!("{}", table::comparison(&found));
    }
    Ok(Outcome::Done)
}

/// `predictions/student.jsonl.zst` is `student`.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    name.strip_suffix(".jsonl").unwrap_or(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_named_after_its_file() {
        for path in ["a/student.jsonl", "student.jsonl.zst"] {
            assert_eq!(name_of(Path::new(path)), "student");
        }
        assert_eq!(name_of(Path::new("b/v1.2.jsonl")), "v1.2");
    }
}
