//! The model card of the student: the adapter's README, in the form that model hubs read, with the
//! same figures as the report.

use super::markdown::{listed, section, text};
use super::run::RunReport;
use super::{error_tables, spread_tables, tables};
use crate::eval::Interval;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the card says that no other part of a report does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The model that the adapter belongs to.
    pub base_model: String,
    /// SHA-256 of its weights.
    pub base_sha256: String,
    /// SHA-256 of the adapter's weights.
    pub adapter_sha256: String,
    /// SHA-256 of the corpus that it was trained on.
    pub corpus_sha256: String,
    /// Conversations in that corpus.
    pub conversations: u64,
    /// Entity types that it knows.
    pub entities: Vec<String>,
    /// Relation types that it knows.
    pub relations: Vec<String>,
    /// Event types that it knows.
    pub events: Vec<String>,
}

/// The card as Markdown with its front matter.
pub fn card(report: &RunReport, card: &Card) -> String {
    let mut out = front(report, card);
    out += &format!("\n# {}: the student\n\n**{}**\n", text(&report.title), text(&report.headline()));
    out += &format!(
        "\nA LoRA adapter for {}, distilled from the answers of a debating team of LLM agents ({}). Load it with\n\n\
         ```python\nfrom peft import PeftModel\nmodel = PeftModel.from_pretrained(base, \"this directory\")\n```\n\n\
         or, with its prompts and its reader of answers, by `understudy extract`.\n",
        text(&card.base_model),
        text(&report.team)
    );
    out +=
        "\n## Intended use\n\nReading these types out of texts like those it was trained on, in the same language:\n\n";
    for (what, labels) in [("entities", &card.entities), ("relations", &card.relations), ("events", &card.events)] {
        if !labels.is_empty() {
            out += &format!("- {what}: {}\n", text(&labels.join(", ")));
        }
    }
    if let Some(comparison) = &report.comparison {
        let found = [Some(tables::scores(comparison)), spread_tables::spread(report), tables::by_type(report)];
        section(&mut out, "Figures", &found.into_iter().flatten().collect::<Vec<_>>());
        let spent = [Some(tables::spending(comparison, report.cost.as_ref())), tables::once(report)];
        section(&mut out, "Cost", &spent.into_iter().flatten().collect::<Vec<_>>());
    }
    out += "\n## Training\n\n";
    out += &format!("- Corpus: {} conversations, SHA-256 `{}`\n", card.conversations, card.corpus_sha256);
    out += &format!("- Base: SHA-256 `{}`\n- Adapter: SHA-256 `{}`\n", card.base_sha256, card.adapter_sha256);
    for fact in &report.config {
        out += &format!("- {}: {}\n", text(&fact.name), text(&fact.value));
    }
    if let Some(said) = super::svg::loss_summary(&report.training) {
        out += &format!("\n{said}\n");
    }
    limits(&mut out, report);
    out
}

fn limits(out: &mut String, report: &RunReport) {
    *out += "\n## Limits\n\n- It says nothing of types that it was not taught, and it repeats its team’s habits, mistakes \
             included: the table below says which.\n- Other domains, languages and longer texts were not measured.\n";
    let cautions = report.comparison.iter().flat_map(|comparison| comparison.cautions());
    listed(out, &cautions.chain(report.notes.iter().cloned()).collect::<Vec<_>>());
    if let Some(analysis) = &report.analysis {
        let found = [error_tables::errors(analysis), error_tables::subsets(analysis)];
        section(out, "What goes wrong", &found.into_iter().flatten().collect::<Vec<_>>());
    }
}

/// The metadata that model hubs index, figures included.
fn front(report: &RunReport, card: &Card) -> String {
    let mut out = format!(
        "---\nbase_model: {}\nlibrary_name: peft\npipeline_tag: text-generation\ntags:\n- lora\n- information-extraction\n",
        Value::from(card.base_model.as_str())
    );
    if let Some(row) = report.student_row() {
        let title = Value::from(report.title.as_str());
        out += &format!("model-index:\n- name: {title}\n  results:\n");
        let scores = [
            ("token-classification", "Named entity recognition", row.scores.entities.f1(), row.entities_interval),
            ("other", "Relation extraction", row.scores.relations.f1(), row.relations_interval),
        ];
        for (kind, task, f1, within) in scores {
            let Some(f1) = f1 else { continue };
            let within = within
                .map_or_else(String::new, |Interval { low, high }| format!(", 95 % interval {low:.3} to {high:.3}"));
            out += &format!(
                "  - task:\n      type: {kind}\n      name: {task}\n    dataset:\n      type: {title}\n      name: {title}\n      split: test\n    metrics:\n    - type: f1\n      value: {f1:.4}\n      name: \"strict micro F1{within}\"\n"
            );
        }
    }
    out + "---\n"
}
