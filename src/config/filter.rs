//! `[filter]`: what of the team's answers becomes training data.

use super::ConfigError;
use super::plan::{one_of, within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is kept of the team's answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilterSection {
    /// Entities below this confidence are not taught. In 0..=1. Default 0.5.
    pub threshold: f64,
    /// The same for relations. Default 0.5.
    pub relation_threshold: f64,
    /// The same for events. Default 0.5.
    pub event_threshold: f64,
    /// What a confidence is: vote share × `product` (geometric mean of the span's token
    /// probabilities), `votes` (vote share alone), `least` (× the least probable token) or `margin`
    /// (× the margin of the first token). Default `product`.
    pub score: String,
    /// How a confidence becomes a probability, on training documents with gold: `none`, `isotonic`
    /// (some hundred judged items) or `platt` (fewer). Default `none`.
    pub calibration: String,
    /// Most documents with gold that calibrate; an audit of the others is then on unseen ones. Default 2000.
    pub calibration_documents: usize,
    /// Instead of a fixed threshold: the largest set of the surest items of which this share is right,
    /// by the gold; needs a calibration. In 0..=1. Default: none.
    pub target_precision: Option<f64>,
    /// Whether the target is to be met by the `estimate` on the gold, or by its lower bound at 95 %
    /// (`wilson`), which keeps less where there is little gold. Default `estimate`.
    pub precision_bound: String,
    /// Instead of a fixed threshold: the surest share of items. In 0..=1. Default: none.
    pub share_kept: Option<f64>,
    /// What becomes of an item below the threshold: `drop` (the answer is written without it), `mask`
    /// (entities and relations are written and not learned) or `document` (the whole document is left
    /// out). Default `drop`.
    pub unsure_item: String,
    /// A document is left out if more than this share of its entities falls below the threshold: what
    /// is left would teach that the rest is nothing. In 0..=1. Default 0.34.
    pub max_dropped_share: f64,
    /// Two labels of one place, or both directions of a relation that is not symmetric: `keep`, keep
    /// the `surer` (none if both are as sure), or leave the `document` out. Default `surer`.
    pub contradictory: String,
    /// Entities that overlap: `keep`, or keep the `outermost` or the `innermost`. Default `keep`.
    pub nesting: String,
    /// Longest entity, in characters. Default: any.
    pub max_entity_chars: Option<usize>,
    /// Longest document, in characters. Default: any.
    pub max_document_chars: Option<usize>,
    /// `all`, or `cases_per_type` (the paper's template fine-tuning). Default `all`.
    pub mode: String,
    /// Documents per type, surest first, in the mode of that name. Default 5.
    pub cases_per_type: usize,
    /// Fewest documents of every type that is kept at all; with fewer, nothing is written. Default 0.
    pub min_documents_per_type: usize,
    /// Most documents of a type, as a multiple of those of the rarest; lots are drawn among the others.
    /// At least 1. Default: any.
    pub max_type_ratio: Option<f64>,
    /// Most conversations with an empty answer, as a share of those of their task: a student that
    /// never sees one invents facts. In 0..=1. Default 0.25.
    pub negatives_share: f64,
    /// Share of the conversations that ask for some of the labels only, so that the student keeps to
    /// what is asked. In 0..=1. Default 0.
    pub subset_share: f64,
    /// Training texts that share this much of their five-word shingles (Jaccard, estimated) with an
    /// earlier one are left out, and so are exact copies. In 0..=1; 0 leaves all in. Default 0.85.
    pub dedup_threshold: f64,
    /// What becomes of texts with e-mail addresses, phone numbers, IBANs, card numbers or IP
    /// addresses: `keep`, `drop` (the document), or `mask` (letters as x, digits as 0, so that all
    /// else stays where it stands). Default `keep`.
    pub pii: String,
}

impl Default for FilterSection {
    fn default() -> FilterSection {
        FilterSection {
            threshold: 0.5,
            relation_threshold: 0.5,
            event_threshold: 0.5,
            score: "product".into(),
            calibration: "none".into(),
            calibration_documents: 2000,
            target_precision: None,
            precision_bound: "estimate".into(),
            share_kept: None,
            unsure_item: "drop".into(),
            max_dropped_share: 0.34,
            contradictory: "surer".into(),
            nesting: "keep".into(),
            max_entity_chars: None,
            max_document_chars: None,
            mode: "all".into(),
            cases_per_type: 5,
            min_documents_per_type: 0,
            max_type_ratio: None,
            negatives_share: 0.25,
            subset_share: 0.0,
            dedup_threshold: 0.85,
            pii: "keep".into(),
        }
    }
}

impl FilterSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, value) in [
            ("filter.threshold", self.threshold),
            ("filter.relation_threshold", self.relation_threshold),
            ("filter.event_threshold", self.event_threshold),
            ("filter.target_precision", self.target_precision.unwrap_or(1.0)),
            ("filter.share_kept", self.share_kept.unwrap_or(1.0)),
            ("filter.max_dropped_share", self.max_dropped_share),
            ("filter.negatives_share", self.negatives_share),
            ("filter.subset_share", self.subset_share),
            ("filter.dedup_threshold", self.dedup_threshold),
        ] {
            within(key, value, 0.0, 1.0)?;
        }
        within("filter.max_type_ratio", self.max_type_ratio.unwrap_or(1.0), 1.0, f64::INFINITY)?;
        one_of("filter.score", &self.score, &["product", "votes", "least", "margin"])?;
        one_of("filter.calibration", &self.calibration, &["none", "isotonic", "platt"])?;
        one_of("filter.precision_bound", &self.precision_bound, &["estimate", "wilson"])?;
        one_of("filter.unsure_item", &self.unsure_item, &["drop", "mask", "document"])?;
        one_of("filter.contradictory", &self.contradictory, &["keep", "surer", "document"])?;
        one_of("filter.nesting", &self.nesting, &["keep", "outermost", "innermost"])?;
        one_of("filter.pii", &self.pii, &["keep", "drop", "mask"])?;
        one_of("filter.mode", &self.mode, &["all", "cases_per_type"])?;
        for (key, value) in [
            ("filter.cases_per_type", self.cases_per_type),
            ("filter.calibration_documents", self.calibration_documents),
            ("filter.max_entity_chars", self.max_entity_chars.unwrap_or(1)),
            ("filter.max_document_chars", self.max_document_chars.unwrap_or(1)),
        ] {
            if value == 0 {
                return Err(ConfigError(format!("{key} is 0; expected 1 or more")));
            }
        }
        if self.target_precision.is_some() && self.calibration == "none" {
            return Err(ConfigError(
                "filter.target_precision is set, and filter.calibration is \"none\"; a precision is known only on gold: \
                 set calibration to isotonic or platt"
                    .into(),
            ));
        }
        if self.target_precision.is_some() && self.share_kept.is_some() {
            return Err(ConfigError(
                "filter.target_precision and filter.share_kept are both set; each chooses the threshold, so keep one"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Refuses a threshold that is written beside a key that chooses it.
    pub(super) fn check_written(&self, written: &toml::Table) -> Result<(), ConfigError> {
        let chooser = match (self.target_precision, self.share_kept) {
            (Some(_), _) => "filter.target_precision",
            (_, Some(_)) => "filter.share_kept",
            _ => return Ok(()),
        };
        let keys = ["threshold", "relation_threshold", "event_threshold"];
        let fixed = written.get("filter").and_then(toml::Value::as_table);
        match keys.iter().find(|key| fixed.is_some_and(|table| table.contains_key(**key))) {
            Some(key) => Err(ConfigError(format!(
                "filter.{key} and {chooser} are both set; the second chooses the threshold, so remove the first"
            ))),
            None => Ok(()),
        }
    }
}
