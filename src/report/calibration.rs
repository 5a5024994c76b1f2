//! What the filter learned of the team's confidences, as the corpus manifest says it. Read
//! leniently: a manifest of another version may say more or less.

use crate::eval::reliability::Bin;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One fitted map from what the team says to how often that is right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// What was calibrated: `confidence`, or the kind of item.
    pub name: String,
    /// How it was fitted: `isotonic`, `platt`, `none`.
    pub method: String,
    /// Expected calibration error of the confidences as they came.
    pub ece_before: Option<f64>,
    /// The same after the fit.
    pub ece_after: Option<f64>,
    /// The least confidence that is kept.
    pub threshold: Option<f64>,
    /// The precision that the threshold was chosen for.
    pub target_precision: Option<f64>,
    /// The curve.
    pub bins: Vec<Bin>,
}

impl Calibration {
    /// From the key `calibration` of a corpus manifest: one fit, or one for each kind of item.
    pub fn read(manifest: &Value) -> Vec<Calibration> {
        let Some(said) = manifest.get("calibration") else { return vec![] };
        if let Some(one) = fit("confidence", said) {
            return vec![one];
        }
        let kinds = said.as_object().into_iter().flatten();
        kinds.filter_map(|(kind, said)| fit(kind, said)).collect()
    }
}

fn fit(name: &str, said: &Value) -> Option<Calibration> {
    let number = |key: &str| said.get(key).and_then(Value::as_f64);
    let bin = |one: &Value| serde_json::from_value::<Bin>(one.clone()).ok().filter(|bin| bin.count > 0);
    let bins: Vec<Bin> = said.get("bins")?.as_array()?.iter().filter_map(bin).collect();
    Some(Calibration {
        name: name.into(),
        method: said.get("method").and_then(Value::as_str).unwrap_or("unknown").into(),
        ece_before: number("ece_before"),
        ece_after: number("ece_after"),
        threshold: number("threshold"),
        target_precision: number("target_precision"),
        bins,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_fit_or_one_a_kind_is_read_and_empty_bins_are_left_out() {
        let fit = json!({"method": "isotonic", "ece_before": 0.2, "ece_after": 0.05, "threshold": 0.7, "more": [1],
            "bins": [{"lower": 0.0, "upper": 0.5, "mean_confidence": 0.3, "precision": 0.2, "count": 5},
                     {"lower": 0.5, "upper": 1.0, "mean_confidence": null, "precision": null, "count": 0}]});
        let found = Calibration::read(&json!({"calibration": fit}));
        assert_eq!((found.len(), found[0].bins.len(), found[0].threshold), (1, 1, Some(0.7)));
        let found = Calibration::read(&json!({"calibration": {"entities": fit, "relations": fit}}));
        assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["entities", "relations"]);
        for nothing in [json!({}), json!({"calibration": null}), json!({"calibration": {"method": "none"}})] {
            assert!(Calibration::read(&nothing).is_empty(), "{nothing}");
        }
    }
}
