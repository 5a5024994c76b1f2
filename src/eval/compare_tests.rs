//! What the comparison promises, on three systems whose differences are known.

use super::*;
use crate::ie::{Cost, Entity, Extraction, Span, Status};

fn gold(id: usize) -> Document {
    let text = "Ann met Bo";
    let entity = |start: usize, end: usize| Entity {
        label: "PER".into(),
        text: text[start..end].into(),
        span: Span::new(text, start..end).ok(),
        confidence: None,
    };
    let found = Extraction { entities: vec![entity(0, 3), entity(8, 10)], ..Extraction::default() };
    Document { gold: Some(found), ..Document::new(format!("d{id}"), text) }
}

fn cost(calls: u64, tokens: Option<u64>, seconds: f64) -> Cost {
    Cost { calls, prompt_tokens: tokens, completion_tokens: tokens.map(|_| 10), seconds }
}

/// A system that finds both names, but only the first one in every `every`-th document.
fn system(name: &str, documents: &[Document], every: usize, cost: Cost) -> System {
    let reading = |(at, document): (usize, &Document)| {
        let mut found = document.gold.clone().unwrap();
        if at % every == 0 {
            found.entities.truncate(1);
        }
        Prediction::read(document.id.clone(), found, cost)
    };
    System { name: name.into(), predictions: documents.iter().enumerate().map(reading).collect() }
}

fn how() -> Resampling {
    Resampling { replicates: 500, seed: 3 }
}

fn three() -> (Vec<Document>, Vec<System>) {
    let documents: Vec<Document> = (0..40).map(gold).collect();
    let systems = vec![
        system("team", &documents, 3, cost(12, Some(4000), 6.5)),
        system("student", &documents, 4, cost(1, Some(300), 0.25)),
        system("single_prompt", &documents, 1, cost(1, None, 0.9)),
    ];
    (documents, systems)
}

#[test]
fn every_system_is_told_apart_from_the_reference_or_not() {
    let (documents, systems) = three();
    let found = compare(&documents, &systems, "team", &Rules::default(), how()).unwrap();
    let of = |name: &str| found.system(name).unwrap().entities_difference;
    assert_eq!(of("team"), None);
    assert_eq!(of("single_prompt").unwrap().verdict, Verdict::Worse);
    // 14 of 80 names missed against 10 of 80: F1 132/146 and 140/150 by hand.
    let student = of("student").unwrap();
    assert!((student.f1 - (140.0 / 150.0 - 132.0 / 146.0)).abs() < 1e-12);
    assert_eq!(student.verdict, Verdict::CannotTell);
    let turned = compare(&documents, &systems, "single_prompt", &Rules::default(), how()).unwrap();
    assert_eq!(turned.system("team").unwrap().entities_difference.unwrap().verdict, Verdict::Better);
}

#[test]
fn the_table_shows_scores_cost_and_verdicts() {
    let (documents, systems) = three();
    let found = compare(&documents, &systems, "team", &Rules::default(), how()).unwrap();
    insta::assert_snapshot!(table::comparison(&found));
}

#[test]
fn unknown_tokens_are_not_zero_and_a_blank_document_costs_nothing() {
    let (documents, mut systems) = three();
    systems[0].predictions[0].cost = Cost::default();
    let found = compare(&documents, &systems, "team", &Rules::default(), how()).unwrap();
    assert_eq!(found.system("single_prompt").unwrap().tokens(), None);
    assert_eq!(found.system("team").unwrap().prompt_tokens, Some(3900.0));
    systems[0].predictions.iter_mut().for_each(|one| one.cost = Cost::default());
    let unmeasured = compare(&documents, &systems, "team", &Rules::default(), how()).unwrap();
    let team = unmeasured.system("team").unwrap();
    assert_eq!((team.calls, team.tokens(), team.seconds_mean, team.seconds_p50), (0, None, None, None));
}

#[test]
fn failed_documents_lower_the_score_of_the_system_that_failed() {
    let (documents, mut systems) = three();
    systems[1].predictions[1] = Prediction::failed("d1", Status::Failed, "timeout", cost(1, None, 30.0));
    let found = compare(&documents, &systems, "team", &Rules::default(), how()).unwrap();
    let student = found.system("student").unwrap();
    assert_eq!((student.scores.failed, student.scores.entities.fn_), (1, 12));
}

#[test]
fn a_comparison_survives_the_round_trip() {
    let (documents, systems) = three();
    let found = compare(&documents, &systems, "team", &Rules::default(), how()).unwrap();
    let written = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(&written).unwrap(), found);
}

#[test]
fn names_must_be_distinct_and_the_reference_known() {
    let (documents, mut systems) = three();
    let said = compare(&documents, &systems, "teem", &Rules::default(), how()).unwrap_err().to_string();
    assert_eq!(said, "reference \"teem\" is none of the systems; known: team, student, single_prompt");
    systems[1].name = "team".into();
    let said = compare(&documents, &systems, "team", &Rules::default(), how()).unwrap_err();
    assert_eq!(said, CompareError::NameTwice("team".into()));
}
