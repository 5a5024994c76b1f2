//! What the scorer promises, on documents small enough to count by hand.

use super::super::align::Mode;
use super::super::counts::Counts;
use super::*;
use crate::ie::{Argument, Cost, Entity, Event, Extraction, Relation, RelationType, Schema, Span, Trigger};

fn entity(text: &str, start: usize, end: usize, label: &str) -> Entity {
    let span = Span::new(text, start..end).unwrap();
    Entity { label: label.into(), text: text[start..end].into(), span: Some(span), confidence: None }
}

fn entities(text: &str, of: &[(usize, usize, &str)]) -> Extraction {
    let entities = of.iter().map(|&(start, end, label)| entity(text, start, end, label)).collect();
    Extraction { entities, ..Extraction::default() }
}

fn linked(mut of: Extraction, links: &[(&str, usize, usize)]) -> Extraction {
    let link =
        |&(label, head, tail): &(&str, usize, usize)| Relation { label: label.into(), head, tail, confidence: None };
    of.relations = links.iter().map(link).collect();
    of
}

fn event(text: &str, label: &str, trigger: (usize, usize), arguments: &[(&str, usize, usize)]) -> Event {
    let span = |start, end| Span::new(text, start..end).ok();
    let argument = |&(role, start, end): &(&str, usize, usize)| Argument {
        role: role.into(),
        text: text[start..end].into(),
        span: span(start, end),
    };
    Event {
        label: label.into(),
        trigger: Trigger { text: text[trigger.0..trigger.1].into(), span: span(trigger.0, trigger.1) },
        arguments: arguments.iter().map(argument).collect(),
        confidence: None,
    }
}

fn document(id: &str, text: &str, gold: Extraction) -> Document {
    Document { gold: Some(gold), ..Document::new(id, text) }
}

fn read(id: &str, found: Extraction) -> Prediction {
    Prediction::read(id, found, Cost::default())
}

fn one(text: &str, gold: Extraction, pred: Extraction, rules: &Rules) -> Scores {
    score(&[document("1", text, gold)], &[read("1", pred)], rules).unwrap().total
}

fn counts(tp: u64, fp: u64, fn_: u64) -> Counts {
    Counts { tp, fp, fn_ }
}

fn symmetric(label: &str) -> Rules {
    Rules { symmetric: [label.to_string()].into(), ..Rules::default() }
}

#[test]
fn the_order_of_a_list_changes_nothing() {
    // case C40: TP 2, FP 1, FN 0, F1 0.8, whichever way the lists run.
    let text = "xxxxAcmeCxxxBob";
    let (gold, pred) = ([(4, 9, "A"), (12, 15, "B")], [(0, 2, "C"), (4, 9, "A"), (12, 15, "B")]);
    let (mut back_gold, mut back_pred) = (gold, pred);
    back_gold.reverse();
    back_pred.reverse();
    for (gold, pred) in [(gold, pred), (back_gold, back_pred)] {
        let scores = one(text, entities(text, &gold), entities(text, &pred), &Rules::default());
        assert_eq!(scores.entities, counts(2, 1, 0));
        assert_eq!(scores.entities.f1(), Some(0.8));
        assert_eq!(scores.per_type.entities["C"], counts(0, 1, 0));
    }
}

#[test]
fn edge_space_is_forgiven_on_both_sides_and_punctuation_is_not() {
    let text = " Acme Inc. ";
    let rules = Rules::default();
    for (gold, pred) in [((1, 10), (0, 11)), ((0, 11), (1, 10)), ((0, 10), (1, 11))] {
        let scores =
            one(text, entities(text, &[(gold.0, gold.1, "ORG")]), entities(text, &[(pred.0, pred.1, "ORG")]), &rules);
        assert_eq!(scores.entities, counts(1, 0, 0));
    }
    let scores = one(text, entities(text, &[(1, 10, "ORG")]), entities(text, &[(1, 9, "ORG")]), &rules);
    assert_eq!(scores.entities, counts(0, 1, 1));
}

#[test]
fn micro_counts_are_summed_before_anything_is_divided() {
    // case C41 (d): the document mean would be 0.5.
    let text = "abcdefghij";
    let nine: Vec<_> = (0..9).map(|at| (at, at + 1, "PER")).collect();
    let wrong: Vec<_> = (0..9).map(|at| (at, at + 1, "LOC")).collect();
    let documents =
        [document("1", "Ann", entities("Ann", &[(0, 3, "PER")])), document("2", text, entities(text, &nine))];
    let predictions = [read("2", entities(text, &wrong)), read("1", entities("Ann", &[(0, 3, "PER")]))];
    let scored = score(&documents, &predictions, &Rules::default()).unwrap();
    assert_eq!((scored.total.entities, scored.total.entities.f1()), (counts(1, 9, 9), Some(0.1)));
    assert_eq!(scored.documents[0].entities, counts(1, 0, 0));
    let bare = score(&documents, &predictions, &Rules::new(Mode::Boundaries, None)).unwrap();
    assert_eq!(bare.total.entities, counts(10, 0, 0));
}

#[test]
fn what_could_not_be_read_counts_as_missed() {
    let gold = || entities("Ann", &[(0, 3, "PER")]);
    let documents: Vec<_> = ["ok", "failed", "refused", "absent"].map(|id| document(id, "Ann", gold())).into();
    let mut failed = Prediction::failed("failed", Status::Failed, "no answer", Cost::default());
    // Even an item in a failed reading is not believed.
    failed.extraction = gold();
    let refused = Prediction::failed("refused", Status::Refused, "declined", Cost::default());
    let scored = score(&documents, &[read("ok", gold()), failed, refused], &Rules::default()).unwrap();
    assert_eq!((scored.total.documents, scored.total.failed), (4, 3));
    assert_eq!(scored.total.entities, counts(1, 0, 3));
    assert_eq!(scored.missing, ["absent"]);
}

#[test]
fn duplicates_collapse_on_both_sides_and_are_counted() {
    let text = "Ann met Bo";
    let pair = [(0, 3, "PER"), (0, 3, "PER"), (8, 10, "PER")];
    let gold = linked(entities(text, &pair), &[("met", 0, 2), ("met", 1, 2)]);
    let pred = entities(text, &[(0, 3, "PER"), (0, 3, "PER"), (0, 3, "PER")]);
    let scores = one(text, gold, pred, &Rules::default());
    assert_eq!((scores.entities, scores.relations), (counts(1, 0, 1), counts(0, 0, 1)));
    assert_eq!((scores.duplicates.gold, scores.duplicates.pred), (2, 2));
}

#[test]
fn an_item_without_a_place_is_never_right() {
    let lost = || Extraction {
        entities: vec![Entity { label: "PER".into(), text: "Ann".into(), span: None, confidence: None }],
        ..Extraction::default()
    };
    let found = || entities("Ann", &[(0, 3, "PER")]);
    assert_eq!(one("Ann", found(), lost(), &Rules::default()).entities, counts(0, 1, 1));
    assert_eq!(one("Ann", lost(), lost(), &Rules::default()).entities, counts(0, 1, 1));
    let blank = entities("   ", &[(0, 2, "PER")]);
    assert_eq!(one("   ", blank.clone(), blank, &Rules::default()).entities, counts(0, 1, 1));
}

#[test]
fn strict_relations_need_types_and_direction_and_boundaries_forgive_types() {
    // case C42.
    let text = "Acme hired Ann";
    let of =
        |first: &str, head, tail| linked(entities(text, &[(0, 4, first), (11, 14, "PER")]), &[("employs", head, tail)]);
    let retyped = one(text, of("ORG", 0, 1), of("LOC", 0, 1), &Rules::default());
    assert_eq!((retyped.relations, retyped.relations_boundaries), (counts(0, 1, 1), counts(1, 0, 0)));
    let swapped = one(text, of("ORG", 0, 1), of("ORG", 1, 0), &Rules::default());
    assert_eq!((swapped.relations, swapped.relations_boundaries), (counts(0, 1, 1), counts(0, 1, 1)));
}

#[test]
fn a_symmetric_relation_counts_once_in_either_order() {
    let text = "Ann wed Bo";
    let of = |links: &[(&str, usize, usize)]| linked(entities(text, &[(0, 3, "PER"), (8, 10, "PER")]), links);
    let gold = || of(&[("wed", 0, 1)]);
    for pred in [of(&[("wed", 1, 0)]), of(&[("wed", 1, 0), ("wed", 0, 1)])] {
        assert_eq!(one(text, gold(), pred, &symmetric("wed")).relations, counts(1, 0, 0));
    }
    assert_eq!(one(text, gold(), of(&[("wed", 1, 0)]), &symmetric("other")).relations, counts(0, 1, 1));
}

#[test]
fn the_schema_says_which_relations_are_symmetric() {
    let relation = |label: &str, symmetric| RelationType {
        label: label.into(),
        definition: String::new(),
        head: vec![],
        tail: vec![],
        symmetric,
        aliases: vec![],
    };
    let schema = Schema { relations: vec![relation("wed", true), relation("hired", false)], ..Schema::default() };
    assert_eq!(Rules::new(Mode::Strict, Some(&schema)), symmetric("wed"));
}

#[test]
fn an_argument_of_the_wrong_event_type_is_wrong() {
    // case C43.
    let text = "They fired Ann";
    let of = |label, role| Extraction {
        events: vec![event(text, label, (5, 10), &[(role, 11, 14)])],
        ..Extraction::default()
    };
    let retyped = one(text, of("Dismiss", "Person"), of("Attack", "Person"), &Rules::default()).events;
    assert_eq!(retyped.trigger_identification, counts(1, 0, 0));
    for wrong in [retyped.trigger_classification, retyped.argument_identification, retyped.argument_classification] {
        assert_eq!(wrong, counts(0, 1, 1));
    }
    let recast = one(text, of("Dismiss", "Person"), of("Dismiss", "Boss"), &Rules::default()).events;
    assert_eq!((recast.argument_identification, recast.argument_classification), (counts(1, 0, 0), counts(0, 1, 1)));
}

#[test]
fn an_argument_of_another_trigger_is_found_but_not_classified() {
    let text = "fired and fired Ann";
    let of = |trigger| Extraction {
        events: vec![event(text, "Dismiss", trigger, &[("Person", 16, 19)])],
        ..Extraction::default()
    };
    let events = one(text, of((0, 5)), of((10, 15)), &Rules::default()).events;
    assert_eq!((events.argument_identification, events.argument_classification), (counts(1, 0, 0), counts(0, 1, 1)));
}

#[test]
fn equal_items_of_two_documents_do_not_meet() {
    let text = "They fired Ann";
    let dismissed =
        || Extraction { events: vec![event(text, "Dismiss", (5, 10), &[("Person", 11, 14)])], ..Extraction::default() };
    let documents = [document("1", text, dismissed()), document("2", text, Extraction::default())];
    let predictions = [read("1", Extraction::default()), read("2", dismissed())];
    let scored = score(&documents, &predictions, &Rules::default()).unwrap();
    assert_eq!(scored.total.events.argument_classification, counts(0, 1, 1));
    assert_eq!(scored.total.events.trigger_classification, counts(0, 1, 1));
}

#[test]
fn what_cannot_be_scored_is_refused_by_name() {
    let documents = [document("a", "Ann", Extraction::default())];
    let said = |documents: &[Document], predictions: &[Prediction]| {
        score(documents, predictions, &Rules::default()).unwrap_err()
    };
    let nothing = || read("a", Extraction::default());
    assert_eq!(said(&[Document::new("a", "Ann")], &[]), ScoreError::NoGold("a".into()));
    assert_eq!(said(&[documents[0].clone(), documents[0].clone()], &[]), ScoreError::DocumentTwice("a".into()));
    assert_eq!(said(&documents, &[read("b", Extraction::default())]), ScoreError::UnknownDocument("b".into()));
    assert_eq!(said(&documents, &[nothing(), nothing()]), ScoreError::PredictedTwice("a".into()));
}

#[test]
fn an_unknown_mode_is_refused_with_the_known_ones() {
    let said = "partial".parse::<Mode>().unwrap_err().to_string();
    assert_eq!(said, "scoring mode \"partial\" is not known; known modes: strict, boundaries");
    assert_eq!("boundaries".parse(), Ok(Mode::Boundaries));
}

#[test]
fn the_table_shows_every_measure_and_a_dash_where_nothing_can_be_said() {
    let text = "Acme hired Ann in Bern";
    let gold = linked(entities(text, &[(0, 4, "ORG"), (11, 14, "PER"), (18, 22, "LOC")]), &[("employs", 0, 1)]);
    let pred = linked(entities(text, &[(0, 4, "ORG"), (11, 14, "LOC"), (18, 22, "LOC")]), &[("employs", 0, 1)]);
    let scores = one(text, gold, pred, &Rules::default());
    insta::assert_snapshot!(super::super::table::scores(&scores, Mode::Strict));
}

#[test]
fn the_json_has_the_shape_of_the_contract() {
    let scores = one("Ann", entities("Ann", &[(0, 3, "PER")]), Extraction::default(), &Rules::default());
    insta::assert_snapshot!(serde_json::to_string_pretty(&scores).unwrap());
}
