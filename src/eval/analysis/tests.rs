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
        rules: Rules::default(),
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
    assert_eq!(found.leaked, Some(1));
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
    let text = format!("Zoé {}", "x".repeat(2 * hardest::SHOWN));
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
    assert_eq!((hard.text.chars().count(), hard.cut, hard.gold.len()), (hardest::SHOWN, hardest::SHOWN as u64 + 4, 0));
}

#[test]
fn readings_shorter_than_the_documents_count_as_empty() {
    let found = analyse(&documents(), &[("team".into(), vec![])], &asked(None));
    assert_eq!(found.systems[0].errors, Errors { missing: 6, ..Errors::default() });
}

/// The documents with relations: Ann Lee met Bo; Zoe left Bern.
fn related() -> (Vec<Document>, Vec<(String, Vec<Extraction>)>) {
    let link = |label: &str, head: usize, tail: usize| crate::ie::Relation {
        label: label.into(),
        head,
        tail,
        confidence: None,
    };
    let with = |mut found: Extraction, links: &[crate::ie::Relation]| {
        found.relations = links.to_vec();
        found
    };
    let mut documents = documents();
    let links = [vec![link("met", 0, 1)], vec![link("left", 0, 1)]];
    for (document, links) in documents.iter_mut().zip(&links) {
        document.gold = document.gold.take().map(|gold| with(gold, links));
    }
    let gold = |at: usize| documents[at].gold.clone().unwrap();
    // The team turns the first round; the student has the first right and takes the second for "met".
    let team = vec![with(gold(0), &[link("met", 1, 0)]), gold(1)];
    let student = vec![gold(0), with(gold(1), &[link("met", 0, 1), link("left", 0, 2)])];
    (documents, vec![("team".into(), team), ("student".into(), student)])
}

#[test]
fn relations_have_kinds_transitions_subsets_and_stand_in_hard_documents() {
    let (documents, readings) = related();
    let taught = read(TEXTS[0], &[("PER", "Ann Lee"), ("PER", "Bo")]);
    let seen = Seen::of([&taught], BTreeSet::new());
    let found = analyse(&documents, &readings, &Asked { pairs: vec![("team", "student")], ..asked(Some(&seen)) });
    let tally = |system: usize| &found.systems[system].other(Measure::Relations).unwrap().tally;
    assert_eq!((tally(0).right, &tally(0).kinds), (1, &BTreeMap::from([(Kind::Reversed, 1)])));
    assert_eq!(tally(1).kinds, BTreeMap::from([(Kind::WrongLabel, 1), (Kind::Spurious, 1)]));
    assert_eq!(found.systems[1].counts(Measure::Relations), Some(Counts { tp: 1, fp: 2, fn_: 1 }));
    assert!(found.systems[0].other(Measure::Triggers).is_none(), "nobody finds an event");
    let [entities, relations] = &found.transitions[..] else { panic!("entities and relations") };
    assert_eq!((entities.measure, relations.measure), (Measure::Entities, Measure::Relations));
    assert_eq!(relations.fixed, BTreeMap::from([(Kind::Reversed, 1)]));
    assert_eq!(relations.lost, BTreeMap::from([(Kind::WrongLabel, 1)]));
    // One end that was not shown is enough: Zoe left Bern. Both ends were shown: Ann Lee met Bo.
    assert_eq!(found.subsets[0].systems[0].relations, Counts { tp: 1, fp: 0, fn_: 0 });
    assert_eq!(found.subsets[1].systems[0].relations, Counts { tp: 0, fp: 1, fn_: 1 });
    assert_eq!((found.subsets[0].gold_relations, found.leaked), (1, Some(0)));
    // The first document has the team's one mistake of two (gold missed, answer wrong) and counts 1.
    let hard = &found.hardest[0];
    assert_eq!((hard.id.as_str(), hard.answers[1].mistakes()), ("d1", 2));
    assert_eq!(hard.gold_relations[0].head, "Zoe");
    assert_eq!(hard.answers[1].relations.iter().map(|one| one.right).collect::<Vec<_>>(), [false, false]);
}
