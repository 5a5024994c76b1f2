//! Each kind by its shape, and that kinds add up to the scorer's counts whatever is compared.

use super::*;
use crate::eval::{Mode, score};
use crate::ie::{
    Argument, Cost, Document, Entity, Event, Extraction, Prediction, Relation, RelationType, Schema, Span, Trigger,
};
use proptest::prelude::*;

const TEXT: &str = "Ann Lee of the Bank of Bern met Bo in Rome";

fn entity(&(label, start, end): &(&str, usize, usize)) -> Entity {
    Entity {
        label: label.into(),
        text: TEXT[start..end].into(),
        span: Span::new(TEXT, start..end).ok(),
        confidence: None,
    }
}

fn read(of: &[(&str, usize, usize)]) -> Extraction {
    Extraction { entities: of.iter().map(entity).collect(), ..Extraction::default() }
}

fn tally(measure: Measure, gold: &Extraction, answer: &Extraction, rules: &Rules) -> Tally {
    let [gold, answer] = [gold, answer].map(|one| Keyed::of(one, TEXT, rules));
    align(measure, &gold, &answer).tally
}

#[test]
fn each_kind_is_told_by_its_shape() {
    let gold = read(&[("PER", 0, 7), ("ORG", 15, 27), ("PER", 32, 34), ("LOC", 38, 42)]);
    for (answer, expected) in [
        (("ORG", 0, 7), Kind::WrongType),
        (("PER", 0, 10), Kind::Contains),
        (("PER", 0, 3), Kind::Contained),
        (("PER", 4, 10), Kind::Overlaps),
        (("PER", 28, 31), Kind::Spurious),
    ] {
        let found = tally(Measure::Entities, &gold, &read(&[answer]), &Rules::default());
        assert_eq!(found.of(expected), 1, "{answer:?}");
        assert_eq!(found.of(Kind::Missing), if expected == Kind::Spurious { 4 } else { 3 });
        assert_eq!(found.total(), if expected == Kind::Spurious { 5 } else { 4 });
    }
}

#[test]
fn an_answer_is_spent_once_and_on_its_own_type_first() {
    // "Bank of Bern" with "Bern" inside it; one answer touches both.
    let gold = read(&[("ORG", 15, 27), ("LOC", 23, 27)]);
    let found = entities(TEXT, &gold, &read(&[("LOC", 20, 27)]));
    assert_eq!((found.contains, found.contained, found.missing), (1, 0, 1));
    assert_eq!(found.boundary_and_type, 0);
    let found = entities(TEXT, &gold, &read(&[("PER", 20, 27)]));
    assert_eq!((found.boundary, found.boundary_and_type), (1, 1));
}

#[test]
fn a_name_without_a_place_is_spurious() {
    let mut answers = read(&[]);
    answers.entities.push(Entity { label: "PER".into(), text: "Zoe".into(), span: None, confidence: None });
    assert_eq!(entities(TEXT, &read(&[]), &answers).spurious, 1);
}

/// One relation between two mentions.
fn link(label: &str, head: (&str, usize, usize), tail: (&str, usize, usize)) -> Extraction {
    let relation = Relation { label: label.into(), head: 0, tail: 1, confidence: None };
    Extraction { relations: vec![relation], ..read(&[head, tail]) }
}

#[test]
fn a_relation_is_wrong_in_its_label_its_direction_its_types_or_its_edges() {
    let (ann, bank, rome) = (("PER", 0, 7), ("ORG", 15, 27), ("LOC", 38, 42));
    let gold = link("works_for", ann, bank);
    for (answer, expected) in [
        (link("owns", ann, bank), vec![Kind::WrongLabel]),
        (link("owns", bank, ann), vec![Kind::WrongLabel]),
        (link("works_for", bank, ann), vec![Kind::Reversed]),
        (link("works_for", ann, ("LOC", 15, 27)), vec![Kind::WrongType]),
        (link("works_for", ("PER", 0, 3), bank), vec![Kind::Boundary]),
        (link("owns", ("PER", 0, 3), ("ORG", 23, 27)), vec![Kind::Boundary]),
        // One end alone is no pair.
        (link("works_for", ann, rome), vec![Kind::Missing, Kind::Spurious]),
    ] {
        let found = tally(Measure::Relations, &gold, &answer, &Rules::default());
        assert_eq!(found.kinds, expected.into_iter().map(|kind| (kind, 1)).collect(), "{answer:?}");
    }
    let found = tally(Measure::Relations, &gold, &gold, &Rules::default());
    assert_eq!((found.right, found.total()), (1, 0));
    let both = tally(Measure::Relations, &gold, &link("owns", ("PER", 0, 3), bank), &Rules::default());
    assert_eq!(both.edges_and_label, 1);
}

#[test]
fn a_symmetric_relation_has_no_direction_to_be_wrong() {
    let schema: Schema = Schema { relations: vec![married()], ..Schema::default() };
    let rules = Rules::new(Mode::Strict, Some(&schema));
    let (ann, bo) = (("PER", 0, 7), ("PER", 32, 34));
    let found = tally(Measure::Relations, &link("married", ann, bo), &link("married", bo, ann), &rules);
    assert_eq!((found.right, found.total()), (1, 0));
}

fn married() -> RelationType {
    RelationType {
        label: "married".into(),
        definition: String::new(),
        head: vec![],
        tail: vec![],
        symmetric: true,
        aliases: vec![],
    }
}

/// One event with one argument.
fn event(label: &str, trigger: (usize, usize), role: &str, at: (usize, usize)) -> Extraction {
    let span = |(start, end): (usize, usize)| (TEXT[start..end].to_string(), Span::new(TEXT, start..end).ok());
    let ((word, place), (text, argument)) = (span(trigger), span(at));
    let event = Event {
        label: label.into(),
        trigger: Trigger { text: word, span: place },
        arguments: vec![Argument { role: role.into(), text, span: argument }],
        confidence: None,
    };
    Extraction { events: vec![event], ..Extraction::default() }
}

#[test]
fn an_event_is_wrong_in_its_trigger_and_in_its_arguments() {
    let (met, bo, ann) = ((28, 31), (32, 34), (0, 7));
    let gold = event("Meet", met, "Person", ann);
    let answers = [
        (event("Meet", met, "Place", ann), None, Some(Kind::WrongRole)),
        (event("Meet", met, "Person", (0, 3)), None, Some(Kind::Boundary)),
        (event("Trade", met, "Person", ann), Some(Kind::WrongType), Some(Kind::WrongEvent)),
        (event("Meet", (28, 34), "Person", ann), Some(Kind::Contains), Some(Kind::WrongEvent)),
        (event("Meet", bo, "Person", (38, 42)), Some(Kind::Missing), Some(Kind::Missing)),
        (event("Meet", met, "Person", ann), None, None),
    ];
    for (answer, trigger, argument) in answers {
        for (measure, expected) in [(Measure::Triggers, trigger), (Measure::Arguments, argument)] {
            let found = tally(measure, &gold, &answer, &Rules::default());
            let kinds: Vec<Kind> = found.kinds.keys().copied().collect();
            let expected = match expected {
                Some(Kind::Missing) => vec![Kind::Missing, Kind::Spurious],
                one => one.into_iter().collect(),
            };
            assert_eq!(kinds, expected, "{measure:?} {answer:?}");
        }
    }
}

/// A label and where it stands.
type Place = (&'static str, usize, usize);

fn mention() -> impl Strategy<Value = Place> {
    let one = (prop::sample::select(vec!["PER", "ORG", "LOC"]), 0..40usize, 1..12usize);
    one.prop_map(|(label, start, long)| (label, start, (start + long).min(TEXT.len())))
}

/// Anything: mentions, relations among them, events; some without a place.
fn anything() -> impl Strategy<Value = Extraction> {
    let mentions = prop::collection::vec(mention(), 1..10);
    let relations =
        prop::collection::vec((prop::sample::select(vec!["owns", "married", "in"]), 0..10usize, 0..10usize), 0..10);
    let argument = (prop::sample::select(vec!["Person", "Place"]), mention());
    let events = prop::collection::vec((mention(), prop::collection::vec(argument, 0..4)), 0..4);
    (mentions, relations, events, 0..6usize).prop_map(|(mentions, relations, events, lost)| {
        let mut found = read(&mentions);
        let many = found.entities.len();
        let relation = |(label, head, tail): (&str, usize, usize)| Relation {
            label: label.into(),
            head: head % many,
            tail: tail % many,
            confidence: None,
        };
        found.relations = relations.into_iter().map(relation).collect();
        let place =
            |(_, start, end): (&str, usize, usize)| (TEXT[start..end].to_string(), Span::new(TEXT, start..end).ok());
        let event = |(trigger, arguments): (Place, Vec<(&str, Place)>)| {
            let (text, span) = place(trigger);
            let argument = |(role, at): (&str, Place)| {
                let (text, span) = place(at);
                Argument { role: role.into(), text, span }
            };
            Event {
                label: trigger.0.into(),
                trigger: Trigger { text, span },
                arguments: arguments.into_iter().map(argument).collect(),
                confidence: None,
            }
        };
        found.events = events.into_iter().map(event).collect();
        if let Some(entity) = found.entities.get_mut(lost) {
            entity.span = None;
        }
        found
    })
}

proptest! {
    #[test]
    fn kinds_add_up_to_the_scorers_counts_on_every_measure(gold in anything(), answers in anything()) {
        let schema = Schema { relations: vec![married()], ..Schema::default() };
        let rules = Rules::new(Mode::Strict, Some(&schema));
        let document = Document { gold: Some(gold.clone()), ..Document::new("d", TEXT) };
        let prediction = Prediction::read("d", answers.clone(), Cost::default());
        let scored = score(&[document], &[prediction], &rules).unwrap().total;
        for measure in Measure::ALL {
            let found = tally(measure, &gold, &answers, &rules);
            prop_assert_eq!(found.counts(), measure.counts(&scored), "{:?}", measure);
            prop_assert!(found.kinds.keys().all(|kind| Kind::of(measure).contains(kind)), "{:?}", found);
        }
    }
}
