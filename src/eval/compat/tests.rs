//! What the golden numbers cannot show: worked examples of conventions without a program of their
//! own, and the sides of each convention that no original can be asked about.

use super::*;
use crate::ie::{Argument, Entity, Event, Relation, Span, Trigger};

fn entity(text: &str, surface: &str, label: &str) -> Entity {
    let span = text.find(surface).and_then(|at| Span::new(text, at..at + surface.len()).ok());
    Entity { label: label.into(), text: surface.into(), span, confidence: None }
}

fn related(text: &str, surfaces: &[&str], links: &[(&str, usize, usize)]) -> Extraction {
    let entities = surfaces.iter().map(|surface| entity(text, surface, "e")).collect();
    let link =
        |&(label, head, tail): &(&str, usize, usize)| Relation { label: label.into(), head, tail, confidence: None };
    Extraction { entities, relations: links.iter().map(link).collect(), events: vec![] }
}

fn event(label: &str, arguments: &[(&str, &str)]) -> Extraction {
    let argument = |&(role, text): &(&str, &str)| Argument { role: role.into(), text: text.into(), span: None };
    let event = Event {
        label: label.into(),
        trigger: Trigger { text: "裁掉".into(), span: None },
        arguments: arguments.iter().map(argument).collect(),
        confidence: None,
    };
    Extraction { events: vec![event], ..Extraction::default() }
}

fn figures(convention: Convention, text: &str, gold: &Extraction, pred: Option<&Extraction>) -> Vec<Figure> {
    let mut tallies = Tallies::new(&[convention]);
    tallies.count(&Pair { text, gold, pred }, &Rules::default(), tags::Tokens::Words);
    tallies.figures().remove(0).1
}

fn f1(convention: Convention, text: &str, gold: &Extraction, pred: &Extraction, measure: Measure) -> Option<f64> {
    figures(convention, text, gold, Some(pred)).iter().find(|one| one.measure == measure)?.f1
}

#[test]
fn names_are_read_back_and_an_unknown_one_lists_the_known() {
    for convention in Convention::ALL {
        assert_eq!(convention.name().parse(), Ok(*convention));
    }
    let said = "partial".parse::<Convention>().unwrap_err().to_string();
    assert!(
        said.starts_with("scoring mode \"partial\" is not known; known modes: strict, boundaries, macro,"),
        "{said}"
    );
}

#[test]
fn duee_gives_credit_for_shared_characters_of_the_same_role() {
    // Origin: the task's description (argument worth = event type right × role right × F1 of shared
    // characters, case ignored, the best of several gold arguments), worked by hand: 猛龙队 against
    // 猛龙 shares 2 of 3 and 2 characters, 2·2/5 = 0.8; the second prediction has no gold role.
    let gold = event("裁员", &[("裁员方", "猛龙"), ("裁员人数", "400人")]);
    let pred = event("裁员", &[("裁员方", "猛龙队"), ("地点", "多伦多")]);
    let found = f1(Convention::Duee, "", &gold, &pred, Measure::ArgumentClassification);
    assert!((found.unwrap() - 0.4).abs() < 1e-12, "{found:?}");
    let other = event("加盟", &[("裁员方", "猛龙")]);
    assert_eq!(f1(Convention::Duee, "", &gold, &other, Measure::ArgumentClassification), Some(0.0));
    // By words, "New York City" shares two of three and two words with "new york".
    let (gold, pred) = (event("move", &[("place", "new york")]), event("move", &[("place", "New York City")]));
    let found = f1(Convention::DueeWord, "", &gold, &pred, Measure::ArgumentClassification);
    assert!((found.unwrap() - 0.8).abs() < 1e-12, "{found:?}");
}

#[test]
fn repeating_a_near_miss_earns_nothing_under_duee() {
    let gold = event("裁员", &[("裁员方", "猛龙")]);
    let once = event("裁员", &[("裁员方", "猛龙队")]);
    let often = event("裁员", &[("裁员方", "猛龙队"), ("裁员方", "猛龙队"), ("裁员方", "猛龙们")]);
    let recall = |pred| figures(Convention::Duee, "", &gold, Some(pred))[0].recall.unwrap();
    assert!(recall(&often) <= 1.0);
    assert!(
        f1(Convention::Duee, "", &gold, &often, Measure::ArgumentClassification)
            <= f1(Convention::Duee, "", &gold, &once, Measure::ArgumentClassification)
    );
}

#[test]
fn a_triple_of_duie_is_right_only_with_all_its_slots() {
    let text = "《流浪地球》 票房 46亿 中国 2019";
    let names = ["《流浪地球》", "46亿", "中国", "2019"];
    let gold = related(text, &names, &[("票房", 0, 1), ("票房.inArea", 1, 2)]);
    let right = related(text, &["流浪地球", "46亿", "中国"], &[("票房", 0, 1), ("票房.inArea", 1, 2)]);
    let bare = related(text, &names, &[("票房", 0, 1)]);
    let more = related(text, &names, &[("票房", 0, 1), ("票房.inArea", 1, 2), ("票房.onDate", 1, 3)]);
    let of = |pred| f1(Convention::Duie, text, &gold, pred, Measure::Relations);
    assert_eq!([of(&gold), of(&right), of(&bare), of(&more)], [Some(1.0), Some(1.0), Some(0.0), Some(0.0)]);
}

#[test]
fn what_has_no_place_is_never_right_where_places_are_compared() {
    let lost = Extraction { entities: vec![entity("Ann", "Bo", "PER")], ..Extraction::default() };
    assert_eq!(lost.entities[0].span, None);
    for convention in [Convention::Spert, Convention::Uie, Convention::UieSet, Convention::NervaluateType] {
        let found = f1(convention, "Ann", &lost, &lost, Measure::Entities);
        assert_eq!(found, Some(0.0), "{}", convention.name());
    }
    assert_eq!(f1(Convention::UieString, "Ann", &lost, &lost, Measure::Entities), Some(1.0));
    let tallies = {
        let mut tallies = Tallies::new(&[Convention::Seqeval]);
        tallies.count(&Pair { text: "Ann", gold: &lost, pred: Some(&lost) }, &Rules::default(), tags::Tokens::Words);
        tallies
    };
    assert_eq!(tallies.tallies[0].1.untagged, (1, 1));
}

#[test]
fn boundaries_beside_strict_ignore_the_type() {
    let text = "Ann met Bo";
    let gold = related(text, &["Ann", "Bo"], &[("met", 0, 1)]);
    let mut other = gold.clone();
    other.entities[0].label = "other".into();
    let of = |convention, measure| f1(convention, text, &gold, &other, measure);
    // One of two mentions has its type, both have their place; the relation needs both types.
    assert_eq!(of(Convention::Strict, Measure::Entities), Some(0.5));
    assert_eq!(of(Convention::Boundaries, Measure::Entities), Some(1.0));
    assert_eq!(of(Convention::Boundaries, Measure::Relations), Some(0.0));
}

#[test]
fn a_failed_document_is_a_miss_under_every_convention() {
    let text = "Ann met Bo";
    let gold = related(text, &["Ann", "Bo"], &[("met", 0, 1)]);
    for convention in Convention::ALL {
        for figure in figures(*convention, text, &gold, None) {
            assert!(figure.f1.is_none_or(|f1| f1 == 0.0), "{}: {figure:?}", convention.name());
        }
    }
}

#[test]
fn nothing_on_both_sides_is_no_figure_except_where_the_original_counts_it() {
    let nothing = Extraction::default();
    for convention in Convention::ALL {
        let said: Vec<_> = figures(*convention, "Ann", &nothing, Some(&nothing))
            .into_iter()
            .filter(|figure| figure.f1.is_some())
            .map(|figure| (figure.measure, figure.f1))
            .collect();
        let expected: &[_] = match convention {
            // `None` against `None` is a hit.
            Convention::InstructUie => &[(Measure::Entities, Some(1.0))],
            _ => &[],
        };
        assert_eq!(said, expected, "{}", convention.name());
    }
}

#[test]
fn the_spread_names_both_ends_and_the_main_figure() {
    let figure = |f1| Figure { measure: Measure::Entities, counts: None, precision: None, recall: None, f1: Some(f1) };
    let figures = [
        (Convention::Strict, vec![figure(0.5)]),
        (Convention::Uie, vec![figure(0.4)]),
        (Convention::UniNer, vec![figure(0.75)]),
        (Convention::Semeval, vec![]),
    ];
    let spread = Spread::of(&figures);
    assert_eq!(spread.len(), 1);
    let (measure, spread) = &spread[0];
    assert_eq!((*measure, spread.main, spread.modes), (Measure::Entities, Some(0.5), 3));
    assert_eq!(
        (spread.min, spread.min_mode.as_str(), spread.max, spread.max_mode.as_str()),
        (0.4, "uie", 0.75, "uniner")
    );
}

#[test]
fn chunks_follow_the_worked_example_of_seqeval() {
    // Origin: the README of seqeval 1.2.2: gold B-NP I-NP against I-NP I-NP is 1.00 without mode and
    // 0.00 in mode strict.
    let sentence = [(vec!["B-NP".to_string(), "I-NP".into()], vec!["I-NP".to_string(), "I-NP".into()])];
    let f1 = |convention| tags::of_sentences(convention, &sentence)[0].f1;
    assert_eq!((f1(Convention::Seqeval), f1(Convention::SeqevalStrict)), (Some(1.0), Some(0.0)));
}
