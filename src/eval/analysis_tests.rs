//! What the analysis promises, on two documents whose errors are counted by hand.

use super::*;
use crate::ie::{Entity, Span};

const TEXTS: [&str; 2] = ["Ann Lee met Bo in Rome", "Zoe left Bern for Rome"];

fn read(text: &str, of: &[(&str, &str)]) -> Extraction {
    let entity = |&(label, words): &(&str, &str)| {
        let start = text.find(words).unwrap();
        Entity {
            label: label.into(),
            text: words.into(),
            span: Span::new(text, start..start + words.len()).ok(),
            confidence: None,
        }
    };
    Extraction { entities: of.iter().map(entity).collect(), ..Extraction::default() }
}

fn documents() -> Vec<Document> {
    let gold = [
        read(TEXTS[0], &[("PER", "Ann Lee"), ("PER", "Bo"), ("LOC", "Rome")]),
        read(TEXTS[1], &[("PER", "Zoe"), ("LOC", "Bern"), ("LOC", "Rome")]),
    ];
    let of =
        |(at, gold): (usize, Extraction)| Document { gold: Some(gold), ..Document::new(format!("d{at}"), TEXTS[at]) };
    gold.into_iter().enumerate().map(of).collect()
}

/// Team: Lee too short, Bo as ORG; the second document right but for "left". Student: Lee right,
/// Bo missing, Rome right; Zoe missing, Bern as PER, Rome right, "left" as well.
fn readings() -> Vec<(String, Vec<Extraction>)> {
    let team = vec![
        read(TEXTS[0], &[("PER", "Ann"), ("ORG", "Bo"), ("LOC", "Rome")]),
        read(TEXTS[1], &[("PER", "Zoe"), ("LOC", "Bern"), ("LOC", "Rome"), ("PER", "left")]),
    ];
    let student = vec![
        read(TEXTS[0], &[("PER", "Ann Lee"), ("LOC", "Rome")]),
        read(TEXTS[1], &[("PER", "Bern"), ("LOC", "Rome"), ("PER", "left")]),
    ];
    vec![("team".into(), team), ("student".into(), student)]
}

fn asked(seen: Option<&Seen>) -> Asked<'_> {
    Asked {
        pairs: vec![("team", "student"), ("team", "nobody")],
        seen,
        shown: vec!["team", "student"],
        hardest: 1,
        resampling: Resampling { replicates: 100, seed: 1 },
    }
}

#[test]
fn errors_and_labels_of_every_system_are_counted() {
    let found = analyse(&documents(), &readings(), &asked(None));
    let [team, student] = [&found.systems[0], &found.systems[1]];
    let expected = Errors { right: 4, wrong_type: 1, boundary: 1, contained: 1, spurious: 1, ..Errors::default() };
    assert_eq!(team.errors, expected);
    let expected = Errors { right: 3, wrong_type: 1, missing: 2, spurious: 1, ..Errors::default() };
    assert_eq!(student.errors, expected);
    let labels: Vec<(&str, &str, u64)> =
        student.labels.iter().map(|one| (one.gold.as_str(), one.answered.as_str(), one.count)).collect();
    assert_eq!(labels, [("LOC", "LOC", 2), ("LOC", "PER", 1), ("PER", "PER", 1)]);
}

#[test]
fn transitions_say_what_is_fixed_and_what_is_lost() {
    let found = analyse(&documents(), &readings(), &asked(None));
    let [one] = &found.transitions[..] else { panic!("a pair with an unknown name counts") };
    assert_eq!((one.both, one.neither), (2, 1));
    assert_eq!(one.fixed, BTreeMap::from([(Kind::Contained, 1)]));
    assert_eq!(one.lost, BTreeMap::from([(Kind::WrongType, 1), (Kind::Missing, 1)]));
    assert_eq!(one.withdrawn, BTreeMap::from([(Kind::WrongType, 1), (Kind::Contained, 1)]));
    assert_eq!(one.introduced, BTreeMap::from([(Kind::WrongType, 1)]));
    assert_eq!(one.repeated, 1);
    // Every gold mention is in exactly one cell.
    assert_eq!(one.both + one.neither + one.fixed() + one.lost(), 6);
}

#[test]
fn subsets_hold_what_training_cannot_have_shown() {
    let taught = read(TEXTS[0], &[("PER", "Bo"), ("LOC", "Rome")]);
    let seen = Seen::of([&taught], BTreeSet::from(["d0".to_string()]));
    let found = analyse(&documents(), &readings(), &asked(Some(&seen)));
    let counts = |part: usize, system: usize| found.subsets[part].systems[system].entities;
    // Not shown: Ann Lee, Zoe, Bern. Team: Ann (fp), Zoe, Bern, left (fp); student: Ann Lee, Bern as
    // PER, left.
    assert_eq!(counts(0, 0), Counts { tp: 2, fp: 2, fn_: 1 });
    assert_eq!(counts(0, 1), Counts { tp: 1, fp: 2, fn_: 2 });
    // Shown: Bo and Rome twice.
    assert_eq!(counts(1, 0), Counts { tp: 2, fp: 1, fn_: 1 });
    assert_eq!((found.subsets[1].gold, found.subsets[1].documents), (3, 2));
    // The second document alone.
    assert_eq!(counts(2, 0), Counts { tp: 3, fp: 1, fn_: 0 });
    assert_eq!((found.subsets[2].documents, found.subsets[3].gold), (1, 2));
    assert!(analyse(&documents(), &readings(), &asked(None)).subsets.is_empty());
}

#[test]
fn the_hardest_document_comes_with_text_gold_and_every_answer() {
    let found = analyse(&documents(), &readings(), &asked(None));
    let [hard] = &found.hardest[..] else { panic!("one was asked for") };
    // d0: two mistakes of the team, one of the student; d1: one and three.
    assert_eq!((hard.id.as_str(), hard.text.as_str(), hard.cut), ("d1", TEXTS[1], 0));
    assert_eq!(hard.answers.iter().map(|one| one.errors.total()).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((hard.gold.len(), hard.answers[0].entities.len()), (3, 4));
}

#[test]
fn a_long_text_is_cut_and_says_by_how_much() {
    let text = format!("Zoé {}", "x".repeat(2 * SHOWN));
    let gold = Extraction {
        entities: vec![Entity {
            label: "X".into(),
            text: "x".into(),
            span: Span::new(&text, text.len() - 1..text.len()).ok(),
            confidence: None,
        }],
        ..Extraction::default()
    };
    let document = Document { gold: Some(gold), ..Document::new("d", text) };
    let found = analyse(&[document], &[("team".into(), vec![Extraction::default()])], &asked(None));
    let hard = &found.hardest[0];
    assert_eq!((hard.text.chars().count(), hard.cut, hard.gold.len()), (SHOWN, SHOWN as u64 + 4, 0));
}

#[test]
fn readings_shorter_than_the_documents_count_as_empty() {
    let found = analyse(&documents(), &[("team".into(), vec![])], &asked(None));
    assert_eq!(found.systems[0].errors, Errors { missing: 6, ..Errors::default() });
}
