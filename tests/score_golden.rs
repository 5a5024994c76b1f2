//! Our entity scores are seqeval's, on a set that both can express.

use serde::Deserialize;
use std::collections::BTreeMap;
use understudy::eval::{Counts, Rules, score};
use understudy::ie::record::{EntityRecord, ExtractionRecord};
use understudy::ie::{Cost, Document, Prediction};

#[derive(Deserialize)]
struct Golden {
    scores: BTreeMap<String, Line>,
    documents: Vec<Case>,
}

#[derive(Deserialize)]
struct Line {
    precision: f64,
    recall: f64,
    f1: f64,
    support: u64,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    text: String,
    gold: Vec<EntityRecord>,
    pred: Vec<EntityRecord>,
}

#[test]
fn entity_scores_equal_those_of_seqeval_strict() {
    // Origin: scripts/golden/seqeval_scores.py, seqeval 1.2.2, mode strict, scheme IOB2.
    let golden: Golden = serde_json::from_str(include_str!("golden/score_seqeval.json")).unwrap();
    let (mut documents, mut predictions) = (vec![], vec![]);
    for case in golden.documents {
        let read = |entities| ExtractionRecord { entities, ..ExtractionRecord::default() }.read(&case.text).unwrap();
        let gold = Some(read(case.gold));
        predictions.push(Prediction::read(case.id.clone(), read(case.pred), Cost::default()));
        documents.push(Document { gold, ..Document::new(case.id, case.text.clone()) });
    }
    let total = score(&documents, &predictions, &Rules::default()).unwrap().total;
    assert_eq!(golden.scores.len(), 5);
    for (name, expected) in golden.scores {
        let ours: Counts = if name == "micro avg" { total.entities } else { total.per_type.entities[&name] };
        assert_eq!(ours.tp + ours.fn_, expected.support, "{name}");
        // Both divide the same integers; only the order of the operations of F1 differs.
        for (ours, theirs) in
            [(ours.precision(), expected.precision), (ours.recall(), expected.recall), (ours.f1(), expected.f1)]
        {
            assert!((ours.unwrap() - theirs).abs() < 1e-12, "{name}: {ours:?} against {theirs}");
        }
    }
}
