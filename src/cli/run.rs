//! `run`: the whole arrow in one command. Each stage is skipped if its inputs are those of its
//! manifest and its outputs still stand, so a second call, or a call after a kill, goes on where
//! the first one ended.

use super::estimate::Estimate;
use super::servers::{self, Spending};
use super::session::{self, Experiment, Reporter};
use super::verdict::{self, Measured};
use super::{Common, Outcome, debate, demonstrations, distill, learn, model, refusals, report, shards};
use crate::config::Plan;
use crate::corpus::{Splits, read_splits};
use crate::eval::table;
use crate::filter::Leakage;
use crate::ie::Document;
use crate::store::{hash_bytes, is_done, read_jsonl, write_atomic, write_jsonl};
use crate::team::Protocol;
use crate::trace::Trace;
use crate::train::Resume;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  understudy run configs/quickstart.toml
  understudy run configs/quickstart.toml --dry-run
  understudy run configs/quickstart.toml --set train.num_epochs=2 --out checkpoints/two-epochs
  understudy run configs/quickstart.toml --set team.base_url=http://127.0.0.1:8071/v1
  understudy run my.toml --max-cost 5")]
pub struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Print the plan, the calls and the estimated cost; run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    spending: Spending,
}

/// Runs the verb.
pub fn run(args: &Args, common: &Common) -> Result<Outcome> {
    session::catch_interrupts();
    let plan = session::plan(&args.experiment, common)?;
    let reporter = Reporter::new(common);
    let splits = splits(&plan)?;
    if args.dry_run {
        print!("{}", dry_run(&plan, &splits, common)?);
        return Ok(Outcome::Done);
    }
    let weights = if model::is_known(&plan.config().base_model) {
        model::student_path(&plan.config().base_model)?
    } else {
        PathBuf::from(&plan.config().base_model)
    };
    refusals::early(&weights, &plan, &splits.train[0])?;
    // A GPU that cannot be had is known before the team is asked.
    session::device(common)?;

    // ── 2. team ──
    let client = servers::client(&plan, common, &args.spending, None)?;
    let traces = debated(&plan, &client, &splits, common, &reporter)?;

    // ── 3. filter, 4. templates ──
    let wanted = session::stage("distill", &plan, &["filter"], &["traces.jsonl"])?;
    if is_done(plan.output_dir(), &wanted) {
        reporter.say("distill: done before");
    } else {
        reporter.say("distill: what the team can stand behind");
        distill::distil(&plan, &splits.dev, &reporter)?;
        wanted.seal(plan.output_dir(), &distill::FILES)?;
    }

    // ── 5. student ──
    let trained = learn::learn(&plan, &weights, &splits, &Resume::Renew, common, &reporter)?;

    // ── 6. verdict, 7. report ──
    let measured = verdict::measure(&plan, &weights, &client, &splits.test, common, &reporter)?;
    let page = verdict::page(&plan, &weights, &splits, &traces, &measured, &trained)?;
    report::write(plan.output_dir(), &page)?;
    close(&plan, &measured, &page, common)
}

/// The traces of the training split.
fn debated(
    plan: &Plan,
    client: &crate::team::Client,
    splits: &Splits,
    common: &Common,
    reporter: &Reporter,
) -> Result<Vec<Trace>> {
    let path = plan.output_dir().join("traces.jsonl");
    let wanted = session::stage("debate", plan, &["team"], &[])?;
    if is_done(plan.output_dir(), &wanted) {
        reporter.say("debate: done before");
        return Ok(read_jsonl(&path)?);
    }
    if let Some(traces) = shards::join(plan, &splits.train)? {
        wanted.seal(plan.output_dir(), &["traces.jsonl"])?;
        reporter.say(&format!("debate: the traces of all shards are joined\n{}", debate::Summary::of(&traces).told()));
        return Ok(traces);
    }
    reporter.say(&format!("debate: {} over {} documents", plan.config().team.protocol, splits.train.len()));
    let protocol = Protocol::named(&plan.config().team.protocol).context("the plan checked the protocol's name")?;
    let (traces, summary) = debate::traces(plan, protocol, client, &splits.train, common, reporter)?;
    write_jsonl(&path, &traces)?;
    wanted.seal(plan.output_dir(), &["traces.jsonl"])?;
    reporter.say(&summary.told());
    Ok(traces)
}

/// Reads the splits and refuses what would make the verdict void.
pub fn splits(plan: &Plan) -> Result<Splits> {
    let splits = session::corpus(read_splits(plan))?;
    let most = plan.config().data.max_leaked_share;
    for (name, measured) in [("dev", &splits.dev), ("test", &splits.test)] {
        let leakage = Leakage::of(name, &splits.train, measured);
        if leakage.share() > most {
            return Err(session::refused(format!(
                "E301: {leakage}: the student is taught what it is measured on, and the verdict would be void — take \
                 them out of one of the two, or allow a share of them with data.max_leaked_share (now {most})"
            )));
        }
    }
    Ok(splits)
}

fn dry_run(plan: &Plan, splits: &Splits, common: &Common) -> Result<String> {
    let (config, schema) = (plan.config(), plan.schema());
    let calls = |documents: usize, protocol: &str| match protocol {
        "aeio" => format!("{documents} to {} calls", 2 * documents),
        "type_agents" => format!(
            "{} to {} calls",
            documents * schema.entities.len(),
            documents * (schema.entities.len() + schema.relations.len())
        ),
        "cooperkgc" => format!("{} calls", documents * plan.cooperation().calls()),
        _ => format!("{} calls or more, by the number of conflicts", documents * schema.entities.len()),
    };
    // Where there is a server, what it would be asked is counted.
    let counted = |name: &str, documents: &[Document]| -> Result<String> {
        let protocol = Protocol::named(name).filter(|_| !config.team.servers().is_empty());
        let Some(protocol) = protocol else { return Ok(String::new()) };
        let shown = demonstrations::shown(plan, protocol, documents, common)?;
        let estimate = Estimate::of(plan, protocol, documents, servers::stored(plan)?, shown);
        Ok(format!("     {}\n", estimate.told(plan)))
    };
    let mut text = format!("{}\n  run directory: {}\n", config.title, plan.output_dir().display());
    text += &format!(
        "  2. team {} ({}), {} training documents: {}\n",
        config.team.protocol,
        config.team.model,
        splits.train.len(),
        calls(splits.train.len(), &config.team.protocol)
    );
    text += &counted(&config.team.protocol, &splits.train)?;
    text += &format!(
        "  3. filter at {} (entities), {} (relations), mode {}\n",
        config.filter.threshold, config.filter.relation_threshold, config.filter.mode
    );
    text += &format!(
        "  5. {}: LoRA r {}, {} epochs, learning rate {}\n",
        config.base_model, config.lora.r, config.train.num_epochs, config.train.learning_rate
    );
    for system in &config.eval.systems {
        let asked = match system.as_str() {
            "base" => "no calls, in this process".to_string(),
            protocol => calls(splits.test.len(), protocol),
        };
        text += &format!("  6. {system} over {} test documents: {asked}\n", splits.test.len());
        text += &counted(system, &splits.test)?;
    }
    if let Some(local) = &config.team.local {
        text += &format!("  answers of {local} in this process: no cost\n");
    }
    match (config.team.servers().join(", "), &config.team.cassette) {
        (urls, _) if !urls.is_empty() => text += &format!("  live answers from {urls}\n"),
        (_, Some(cassette)) => text += &format!("  replay of {}: no cost\n", cassette.display()),
        _ => {}
    }
    Ok(text)
}

/// Writes what closes a run, prints the table, and says whether too much failed.
fn close(plan: &Plan, measured: &Measured, page: &crate::report::RunReport, common: &Common) -> Result<Outcome> {
    let out = plan.output_dir();
    let config = serde_json::to_value(plan.config())?;
    let stages: Vec<String> = ["debate", "distill", "train", "verdict"].map(String::from).to_vec();
    let manifest = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"), "seed": plan.config().seed, "config_sha256": hash_bytes(config.to_string().as_bytes()),
        "config": config, "stages": stages,
    });
    write_atomic(&out.join("manifest.json"), format!("{manifest:#}\n").as_bytes())?;
    if common.json {
        println!("{}", serde_json::json!({"out": out, "headline": page.headline(), "comparison": measured.comparison}));
    } else {
        print!("{}", table::comparison(&measured.comparison));
        println!("\n{}", page.headline());
        println!("report: {}", out.join("report.html").display());
    }
    let worst = measured.failed.iter().max_by_key(|(name, failed)| (*failed, std::cmp::Reverse(name.as_str())));
    Ok(match worst {
        // The untrained student is expected to fail; it is measured, not trusted.
        Some((_, failed)) if *failed > plan.config().eval.max_failures => Outcome::TooManyFailures,
        _ => Outcome::Done,
    })
}
