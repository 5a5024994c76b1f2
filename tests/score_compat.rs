//! Every convention of the scorer prints what its original prints.

use serde::Deserialize;
use std::collections::BTreeMap;
use understudy::eval::compat::{Convention, Figure, Measure, tags, tally};
use understudy::eval::{Mode, Rules};
use understudy::ie::record::ExtractionRecord;
use understudy::ie::{Cost, Document, Prediction, Status};

type Modes = BTreeMap<String, BTreeMap<String, Numbers>>;

#[derive(Deserialize)]
struct Golden {
    documents: Vec<Case>,
    modes: Modes,
    tagged: BTreeMap<String, Tagged>,
    tags: Vec<Tags>,
    sentences: Vec<Sentences>,
}

#[derive(Clone, Deserialize)]
struct Case {
    id: String,
    text: String,
    gold: ExtractionRecord,
    pred: Option<ExtractionRecord>,
}

#[derive(Deserialize)]
struct Tagged {
    untagged: (u64, u64),
    #[serde(flatten)]
    modes: Modes,
}

#[derive(Deserialize)]
struct Tags {
    gold: Vec<Vec<String>>,
    pred: Vec<Vec<String>>,
    modes: Modes,
}

#[derive(Deserialize)]
struct Sentences {
    documents: Vec<Case>,
    modes: Modes,
}

#[derive(Deserialize)]
struct Numbers {
    precision: Option<f64>,
    recall: Option<f64>,
    f1: f64,
    tp: Option<u64>,
    fp: Option<u64>,
    #[serde(rename = "fn")]
    fn_: Option<u64>,
}

fn golden() -> Golden {
    // Origin: scripts/golden/compat.py, which runs the originals.
    serde_json::from_str(include_str!("golden/compat.json")).unwrap()
}

fn read(cases: &[Case]) -> (Vec<Document>, Vec<Prediction>) {
    let document = |case: &Case| {
        let gold = Some(case.gold.clone().read(&case.text).unwrap());
        Document { gold, ..Document::new(case.id.clone(), case.text.clone()) }
    };
    let prediction = |case: &Case| match &case.pred {
        Some(found) => Prediction::read(case.id.clone(), found.clone().read(&case.text).unwrap(), Cost::default()),
        None => Prediction::failed(case.id.clone(), Status::Failed, "no answer", Cost::default()),
    };
    (cases.iter().map(document).collect(), cases.iter().map(prediction).collect())
}

fn figures(cases: &[Case], convention: Convention, tokens: tags::Tokens) -> Vec<Figure> {
    let (documents, predictions) = read(cases);
    let tallies = tally(&documents, &predictions, &[convention], &Rules::new(Mode::Strict, None), tokens);
    tallies.figures().remove(0).1
}

/// How far a figure may lie from a printed one: half a unit of the last printed digit, or the
/// order of the operations of F1.
fn tolerance(mode: &str) -> f64 {
    match mode {
        // These print percents with two decimals.
        "conlleval" | "semeval" => 0.5001e-4,
        _ => 1e-12,
    }
}

fn compare(mode: &str, expected: &BTreeMap<String, Numbers>, found: &[Figure]) {
    for (measure, numbers) in expected {
        let one = found.iter().find(|figure| figure.measure.name() == measure);
        let one = one.unwrap_or_else(|| panic!("{mode} says nothing of {measure}"));
        let pairs = [(one.precision, numbers.precision), (one.recall, numbers.recall), (one.f1, Some(numbers.f1))];
        for (ours, theirs) in pairs {
            let far = match (ours, theirs) {
                (Some(ours), Some(theirs)) => (ours - theirs).abs(),
                (None, None) => 0.0,
                _ => f64::INFINITY,
            };
            assert!(far <= tolerance(mode), "{mode}, {measure}: {ours:?} against {theirs:?}");
        }
        if let (Some(tp), Some(counts)) = (numbers.tp, one.counts) {
            assert_eq!((counts.tp, Some(counts.fp), Some(counts.fn_)), (tp, numbers.fp, numbers.fn_), "{mode}");
        }
    }
}

#[test]
fn conventions_of_documents_print_what_their_originals_print() {
    let golden = golden();
    assert_eq!((golden.documents.len(), golden.modes.len()), (150, 18));
    for (mode, expected) in &golden.modes {
        let convention: Convention = mode.parse().unwrap();
        compare(mode, expected, &figures(&golden.documents, convention, tags::Tokens::Words));
    }
}

#[test]
fn conventions_of_tags_print_what_their_originals_print_for_tagged_mentions() {
    let golden = golden();
    let (documents, predictions) = read(&golden.documents);
    for (name, tokens) in [("words", tags::Tokens::Words), ("characters", tags::Tokens::Characters)] {
        let expected = &golden.tagged[name];
        assert!(expected.untagged.0 > 0 && expected.untagged.1 > 0);
        for (mode, numbers) in &expected.modes {
            let convention: Convention = mode.parse().unwrap();
            compare(mode, numbers, &figures(&golden.documents, convention, tokens));
            let tallies = tally(&documents, &predictions, &[convention], &Rules::default(), tokens);
            assert_eq!(tallies.tallies[0].1.untagged, expected.untagged, "{mode}, {name}");
        }
    }
}

#[test]
fn tags_that_follow_no_scheme_are_read_as_the_originals_read_them() {
    let golden = golden();
    assert_eq!(golden.tags.len(), 2);
    for set in &golden.tags {
        let sentences: Vec<_> = set.gold.iter().cloned().zip(set.pred.iter().cloned()).collect();
        for (mode, numbers) in &set.modes {
            let convention: Convention = mode.parse().unwrap();
            compare(mode, numbers, &tags::of_sentences(convention, &sentences));
        }
    }
}

#[test]
fn relations_of_sentences_are_scored_as_their_shared_tasks_score_them() {
    for set in &golden().sentences {
        for (mode, numbers) in &set.modes {
            let convention: Convention = mode.parse().unwrap();
            compare(mode, numbers, &figures(&set.documents, convention, tags::Tokens::Words));
        }
    }
}

#[test]
fn the_conventions_of_one_set_differ() {
    let golden = golden();
    let mut f1: Vec<f64> =
        golden.modes.values().filter_map(|mode| mode.get(Measure::Entities.name())).map(|one| one.f1).collect();
    f1.sort_by(f64::total_cmp);
    assert!(f1[0] < 0.35 && f1[f1.len() - 1] > 0.6, "{f1:?}");
}
