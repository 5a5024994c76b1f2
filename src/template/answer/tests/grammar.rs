//! The grammar against rendering and reading: what is rendered is accepted, what is accepted is
//! rendered by some extraction and read back.

use super::super::fold::boundary;
use super::super::{Closing, Grammar, State, read_relations, render_entities, render_relations};
use super::*;
use crate::ie::{Entity, Extraction, Relation, Span, Status};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeSet;

/// Words that are parts of each other, other scripts, marks, and what JSON escapes.
const WORDS: [&str; 20] = [
    "Ann",
    "Anna",
    "Ann",
    "Bo",
    "New",
    "York",
    "New York",
    "Köln",
    "Zoe\u{308}",
    "王芳",
    "北京",
    "서울",
    "O'Hara",
    "\"Q\"",
    "C:\\x",
    "a-b",
    "🗼",
    "👩\u{200d}🚀",
    "x\u{1}y",
    ".",
];

fn text() -> impl Strategy<Value = String> {
    let gap = prop::sample::select(vec![" ", " ", " ", ", ", "", "\n", "\t"]);
    prop::collection::vec((prop::sample::select(WORDS.to_vec()), gap), 0..14)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(word, gap)| [word, gap]).collect())
}

/// Every place where the language lets a mention stand, in span order.
fn places(text: &str) -> Vec<Span> {
    let borders: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
    let pairs = borders.iter().flat_map(|start| borders.iter().map(move |end| (*start, *end)));
    let fits = |(start, end): &(usize, usize)| {
        start < end && text[*start..*end].trim().len() == end - start && boundary(text, *start, *end)
    };
    pairs.filter(fits).map(|(start, end)| Span::new(text, start..end).unwrap()).collect()
}

fn mention(text: &str, label: &str, span: Span) -> Entity {
    Entity { label: label.into(), text: span.slice(text).into(), span: Some(span), confidence: None }
}

/// A text and any mentions of it: nested, repeated, under several labels, in no order.
fn marked() -> impl Strategy<Value = (String, Vec<Entity>)> {
    let picks = prop::collection::vec((any::<prop::sample::Index>(), 0usize..3), 0..8);
    (text(), picks).prop_map(|(text, picks)| {
        let places = places(&text);
        let picks = if places.is_empty() { Vec::new() } else { picks };
        let mut seen = BTreeSet::new();
        let entities = picks.into_iter().map(|(at, label)| (places[at.index(places.len())], label));
        let entities = entities.filter(|found| seen.insert(*found));
        let entities = entities.map(|(span, label)| mention(&text, ["PER", "ORG", "LOC"][label], span)).collect();
        (text, entities)
    })
}

/// The test schema with relations of every kind besides.
fn linked() -> Schema {
    let mut schema = schema();
    let relation = |label: &str, head: &[&str], tail: &[&str], symmetric| {
        let types = |types: &[&str]| types.iter().map(|t| t.to_string()).collect();
        let (label, definition, aliases) = (label.to_owned(), String::new(), vec![]);
        RelationType { label, definition, head: types(head), tail: types(tail), symmetric, aliases }
    };
    schema.relations.push(relation("knows \"well\"", &[], &[], false));
    schema.relations.push(relation("near", &["LOC"], &["LOC", "ORG"], true));
    schema.relations.push(relation("nearby", &["LOC", "PER"], &[], false));
    schema
}

/// Walks a whole text; `None` where a byte is refused.
fn walked(grammar: &Grammar, text: &[u8]) -> Option<State> {
    text.iter().try_fold(grammar.start(), |state, byte| grammar.step(&state, *byte))
}

fn accepts(grammar: &Grammar, text: &[u8]) -> bool {
    walked(grammar, text).is_some_and(|state| grammar.finished(&state))
}

/// Every byte that may follow, by trying all.
fn followers(grammar: &Grammar, state: &State) -> Vec<u8> {
    (0..=u8::MAX).filter(|byte| grammar.step(state, *byte).is_some()).collect()
}

/// What an unfinished answer says in whole items: strings of a list, lists of a list.
fn finished_items(written: &[u8], item_depth: usize) -> usize {
    let (mut depth, mut inside, mut escaped, mut items) = (0, false, false, 0);
    for byte in written {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => {
                inside = !inside;
                items += usize::from(!inside && depth == 2 && item_depth == 2);
            }
            b'{' | b'[' if !inside => depth += 1,
            b'}' | b']' if !inside => {
                items += usize::from(depth == 3 && item_depth == 3);
                depth -= 1;
            }
            _ => {}
        }
    }
    items
}

/// A stream of numbers; the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}

/// Walks at random to the end, checking every state on the way; returns the answer.
fn walk(grammar: &Grammar, seed: u64, item_depth: usize) -> Result<String, TestCaseError> {
    let (mut dice, mut state, mut written) = (Dice(seed), grammar.start(), Vec::new());
    loop {
        let next = followers(grammar, &state);
        prop_assert_eq!(next.is_empty(), grammar.finished(&state), "{:?}", String::from_utf8_lossy(&written));
        let candidates = grammar.candidates(&state);
        prop_assert!(next.iter().all(|byte| candidates[usize::from(*byte)]));

        let mut forced = Vec::new();
        let mut ahead = state.clone();
        while let [only] = followers(grammar, &ahead)[..] {
            forced.push(only);
            ahead = grammar.step(&ahead, only).unwrap();
        }
        prop_assert_eq!(grammar.forced(&state), forced);

        let Closing { back, append } = grammar.closing(&state);
        let closed = [&written[..written.len() - back], &append].concat();
        prop_assert!(accepts(grammar, &closed), "{:?}", String::from_utf8_lossy(&closed));
        let items = |text: &[u8]| finished_items(text, item_depth);
        prop_assert_eq!(items(&closed), items(&written), "{:?}", String::from_utf8_lossy(&written));

        if next.is_empty() {
            return Ok(String::from_utf8(written).expect("whole characters"));
        }
        // Ends are taken more often than their share, or answers would list nearly everything.
        let end = next.iter().copied().find(|byte| matches!(byte, b']' | b'}' | b'"')).filter(|_| dice.below(3) == 0);
        let byte = end.unwrap_or(next[dice.below(next.len())]);
        written.push(byte);
        state = grammar.step(&state, byte).unwrap();
    }
}

/// The items under each label as written.
fn groups<T: serde::de::DeserializeOwned>(raw: &str) -> Vec<(String, Vec<T>)> {
    let value: serde_json::Map<String, serde_json::Value> = serde_json::from_str(raw).unwrap();
    value.into_iter().map(|(label, items)| (label, serde_json::from_value(items).unwrap())).collect()
}

/// The extraction that an answer stands for: of every surface the first place behind the one
/// before. Panics where there is none.
fn meant(raw: &str, text: &str) -> Extraction {
    let places = places(text);
    let mut entities = Vec::new();
    for (label, surfaces) in groups::<String>(raw) {
        let mut last: Option<Span> = None;
        for surface in surfaces {
            let later = |span: &&Span| span.slice(text) == surface && last.is_none_or(|last| last < **span);
            let span = *places.iter().find(later).expect("a place behind the last");
            entities.push(mention(text, &label, span));
            last = Some(span);
        }
    }
    Extraction { entities, ..Extraction::default() }
}

fn all_distinct<T: Ord>(items: impl IntoIterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    items.into_iter().all(|item| seen.insert(item))
}

/// Whether every surface is meant where it first stands, under one label, and is no part of another.
fn is_plain(meant: &Extraction, text: &str) -> bool {
    let (entities, places) = (&meant.entities, places(text));
    let first = |entity: &Entity| places.iter().find(|span| span.slice(text) == entity.text).copied();
    let surfaces: Vec<&str> = entities.iter().map(|entity| entity.text.as_str()).collect();
    let apart = |surface: &&str| surfaces.iter().all(|other| other == surface || !other.contains(surface));
    all_distinct(&surfaces) && entities.iter().all(|e| first(e) == e.span) && surfaces.iter().all(apart)
}

/// Relations that the language has: of those given, what the signature allows as it is written.
fn allowed(schema: &Schema, entities: &[Entity], relations: Vec<Relation>) -> Vec<Relation> {
    let fits = |relation: &Relation| {
        let kind = schema.relation(&relation.label).unwrap();
        let (mut head, mut tail) = (&entities[relation.head], &entities[relation.tail]);
        if kind.symmetric && tail.span < head.span {
            (head, tail) = (tail, head);
        }
        let same = head.text == tail.text && head.label == tail.label;
        relation.head != relation.tail && !same && kind.allows(&head.label, &tail.label)
    };
    relations.into_iter().filter(fits).collect()
}

/// As [`meant`]: of every pair of surfaces the first places behind those of the pair before.
fn meant_pairs(raw: &str, schema: &Schema, entities: &[Entity]) -> Extraction {
    let mut order: Vec<usize> = (0..entities.len()).collect();
    order.sort_by_key(|at| entities[*at].span);
    let mut relations = Vec::new();
    for (label, pairs) in groups::<(String, String)>(raw) {
        let mut last = None;
        for (head, tail) in pairs {
            let all = order.iter().flat_map(|h| order.iter().map(move |t| (*h, *t)));
            let found = all
                .filter(|(h, t)| (&entities[*h].text, &entities[*t].text) == (&head, &tail))
                .map(|(head, tail)| Relation { label: label.clone(), head, tail, confidence: None })
                .filter(|relation| {
                    let kind = schema.relation(&label).unwrap();
                    let turned = kind.symmetric && entities[relation.tail].span < entities[relation.head].span;
                    !turned && !allowed(schema, entities, vec![relation.clone()]).is_empty()
                })
                .map(|relation| ((entities[relation.head].span, entities[relation.tail].span), relation))
                .find(|(place, _)| last.is_none_or(|last| last <= *place));
            let (place, relation) = found.expect("places behind the last");
            relations.push(relation);
            last = Some(place);
        }
    }
    Extraction { entities: entities.to_vec(), relations, events: vec![] }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_rendered_answer_is_in_the_language((text, entities) in marked()) {
        let raw = render_entities(&Extraction { entities, ..Extraction::default() }, &schema());
        prop_assert!(accepts(&Grammar::entities(&schema(), &text), raw.as_bytes()), "{} of {:?}", raw, text);
    }

    #[test]
    fn every_answer_of_the_language_is_rendered_and_read((text, _) in marked(), seed in any::<u64>()) {
        let raw = walk(&Grammar::entities(&schema(), &text), seed, 2)?;
        let meant = meant(&raw, &text);
        prop_assert_eq!(render_entities(&meant, &schema()), raw.clone());
        let reading = read(&raw, &text);
        prop_assert_eq!(&reading.repairs[..], &[] as &[String], "{}", raw);
        prop_assert_eq!(reading.status, if meant.is_empty() { Status::Empty } else { Status::Ok }, "{}", raw);
        for (item, reason) in dropped(&reading) {
            prop_assert!(["only inside a longer mention", "label conflict"].contains(&reason), "{}: {}", item, reason);
        }
        if is_plain(&meant, &text) {
            prop_assert!(reading.dropped.is_empty(), "{}: {:?}", raw, reading.dropped);
            prop_assert_eq!(render_entities(&reading.extraction, &schema()), raw);
        }
    }

    #[test]
    fn every_rendered_pair_is_in_the_language((_, entities) in marked(), picks in prop::collection::vec((0usize..6, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8)) {
        let schema = linked();
        let picks = if entities.is_empty() { Vec::new() } else { picks };
        let relations = picks.into_iter().map(|(kind, head, tail)| {
            let label = schema.relations[kind].label.clone();
            Relation { label, head: head.index(entities.len()), tail: tail.index(entities.len()), confidence: None }
        });
        let relations = allowed(&schema, &entities, relations.collect());
        let grammar = Grammar::relations(&schema, &entities);
        let raw = render_relations(&Extraction { entities, relations, events: vec![] }, &schema);
        prop_assert!(accepts(&grammar, raw.as_bytes()), "{}", raw);
    }

    #[test]
    fn every_pair_of_the_language_is_rendered_and_read((_, entities) in marked(), seed in any::<u64>()) {
        let schema = linked();
        let raw = walk(&Grammar::relations(&schema, &entities), seed, 3)?;
        let meant = meant_pairs(&raw, &schema, &entities);
        prop_assert_eq!(render_relations(&meant, &schema), raw.clone());
        let reading = read_relations(&raw, Finish::Stop, &schema, &entities);
        prop_assert_eq!((&reading.repairs[..], &reading.dropped[..]), (&[] as &[String], &[][..]), "{}", raw);
        prop_assert_eq!(reading.status, if meant.relations.is_empty() { Status::Empty } else { Status::Ok });
        if all_distinct(entities.iter().map(|entity| &entity.text)) {
            let back = Extraction { relations: reading.relations, ..meant };
            prop_assert_eq!(render_relations(&back, &schema), raw);
        }
    }
}

#[test]
fn the_language_of_a_short_text_is_what_one_counts_by_hand() {
    // Stretches of "Bo Li" on word borders: "Bo", "Bo Li", "Li", in this order.
    let mut one = schema();
    one.entities.truncate(1);
    let grammar = Grammar::entities(&one, "Bo Li");
    let mut answers = Vec::new();
    let mut open = vec![(grammar.start(), String::new())];
    while let Some((state, written)) = open.pop() {
        if grammar.finished(&state) {
            answers.push(written.clone());
        }
        for byte in followers(&grammar, &state) {
            open.push((grammar.step(&state, byte).unwrap(), format!("{written}{}", char::from(byte))));
        }
    }
    answers.sort();
    let lists = [
        r#""Bo Li""#,
        r#""Bo Li","Li""#,
        r#""Bo""#,
        r#""Bo","Bo Li""#,
        r#""Bo","Bo Li","Li""#,
        r#""Bo","Li""#,
        r#""Li""#,
    ];
    let mut expected: Vec<String> = lists.iter().map(|list| format!(r#"{{"PER":[{list}]}}"#)).collect();
    expected.push("{}".into());
    expected.sort();
    assert_eq!(answers, expected);
}

#[test]
fn a_surface_may_mean_any_of_its_occurrences_but_stands_once_a_type() {
    let grammar = Grammar::entities(&schema(), "Ann met Bo and Ann.");
    for raw in [
        r#"{"PER":["Ann","Bo"]}"#,
        r#"{"PER":["Bo","Ann"]}"#,
        r#"{"PER":["Ann"],"ORG":["Ann"]}"#,
        r#"{"PER":["Ann","Ann met Bo"]}"#,
        r#"{"ORG":["Ann met Bo","met Bo and Ann."]}"#,
        "{}",
    ] {
        assert!(accepts(&grammar, raw.as_bytes()), "{raw}");
    }
    for raw in [
        r#"{"PER":["Ann","Ann"]}"#,
        r#"{"PER":["Ann","Bo","Ann"]}"#,
        r#"{"PER":["Bo","met"]}"#,
        r#"{"ORG":["Bo"],"PER":["Ann"]}"#,
        r#"{"PER":["Bo"],"PER":["Ann"]}"#,
        r#"{"PER":["An"]}"#,
        r#"{"PER":["Ann "]}"#,
        r#"{"PER":[" Bo"]}"#,
        r#"{"PER":["Eve"]}"#,
        r#"{"PER":[""]}"#,
        r#"{"PER":[]}"#,
        r#"{"DATE":["Ann"]}"#,
        r#"{"PER": ["Ann"]}"#,
    ] {
        assert!(!accepts(&grammar, raw.as_bytes()), "{raw}");
    }
}

#[test]
fn only_where_words_are_separated_does_a_mention_keep_to_them() {
    let grammar = Grammar::entities(&schema(), "王芳住在北京市 New2 Köln");
    for surface in ["王芳", "北京", "市 New2", "Köln"] {
        assert!(accepts(&grammar, format!(r#"{{"PER":["{surface}"]}}"#).as_bytes()), "{surface}");
    }
    for surface in ["New", "K", "Kö", "öln", "2", "市 New"] {
        assert!(!accepts(&grammar, format!(r#"{{"PER":["{surface}"]}}"#).as_bytes()), "{surface}");
    }
    // Half a character ends nothing.
    let half = [br#"{"PER":[""#, &"王".as_bytes()[..2], b"\""].concat();
    assert!(walked(&grammar, &half[..half.len() - 1]).is_some() && walked(&grammar, &half).is_none());
}

#[test]
fn what_must_follow_is_told_up_to_the_first_choice() {
    let forced = |grammar: &Grammar, written: &str| {
        String::from_utf8(grammar.forced(&walked(grammar, written.as_bytes()).unwrap())).unwrap()
    };
    let grammar = Grammar::entities(&schema(), "Ada Lovelace met Ann");
    let said = |written: &str| forced(&grammar, written);
    assert_eq!((said(""), said("{\"P"), said("{\"PER\":[\"Ad")), ("{".into(), "ER\":[\"".into(), "a".into()));
    assert_eq!((said("{\"PER\":[\"Ada L"), said("{\"PER\":[\"Ann")), ("ovelace".into(), "\"]".into()));
    assert_eq!((said("{\"LOC\":[\"Ann\"]"), said("{}")), ("}".into(), String::new()));
    for blank in ["", " \n"] {
        assert_eq!(forced(&Grammar::entities(&schema(), blank), ""), "{}", "{blank:?}");
    }
    assert_eq!(forced(&Grammar::entities(&Schema::default(), "Ann"), ""), "{}");
    assert_eq!(forced(&Grammar::relations(&linked(), &[]), ""), "{}");
}

#[test]
fn an_answer_is_closed_behind_its_last_finished_item() {
    let text = "Ada Lovelace met Ann in Rome";
    let grammar = Grammar::entities(&schema(), text);
    let closed = |written: &str| {
        let Closing { back, append } = grammar.closing(&walked(&grammar, written.as_bytes()).unwrap());
        format!("{}{}", &written[..written.len() - back], String::from_utf8(append).unwrap())
    };
    for (written, whole) in [
        ("", "{}"),
        ("{", "{}"),
        ("{\"P", "{}"),
        ("{\"PER\":[", "{}"),
        ("{\"PER\":[\"Ada", "{}"),
        ("{\"PER\":[\"Ada\"", "{\"PER\":[\"Ada\"]}"),
        ("{\"PER\":[\"Ada\",", "{\"PER\":[\"Ada\"]}"),
        ("{\"PER\":[\"Ada\",\"An", "{\"PER\":[\"Ada\"]}"),
        ("{\"PER\":[\"Ada\"]", "{\"PER\":[\"Ada\"]}"),
        ("{\"PER\":[\"Ada\"],", "{\"PER\":[\"Ada\"]}"),
        ("{\"PER\":[\"Ada\"],\"LOC\":[\"R", "{\"PER\":[\"Ada\"]}"),
        ("{\"PER\":[\"Ada\"]}", "{\"PER\":[\"Ada\"]}"),
    ] {
        assert_eq!(closed(written), whole, "{written}");
    }
}

#[test]
fn pairs_keep_to_signature_direction_and_order() {
    let text = "Ann met Bo of Acme; Acme hired Ann";
    let at = |label: &str, range: std::ops::Range<usize>| mention(text, label, Span::new(text, range).unwrap());
    let entities = [at("PER", 0..3), at("PER", 8..10), at("ORG", 14..18), at("ORG", 20..24), at("PER", 31..34)];
    let grammar = Grammar::relations(&schema(), &entities);
    for raw in [
        r#"{"works_for":[["Ann","Acme"],["Bo","Acme"]]}"#,
        r#"{"works_for":[["Bo","Acme"],["Ann","Acme"]],"married_to":[["Ann","Bo"],["Bo","Ann"]]}"#,
    ] {
        assert!(accepts(&grammar, raw.as_bytes()), "{raw}");
    }
    for raw in [
        r#"{"works_for":[["Acme","Ann"]]}"#,
        r#"{"works_for":[["Ann","Acme"],["Ann","Acme"]]}"#,
        r#"{"works_for":[["Ann","Bo"]]}"#,
        r#"{"married_to":[["Bo","Ann"],["Ann","Bo"]]}"#,
        r#"{"married_to":[["Ann","Ann"]]}"#,
        r#"{"born_in":[]}"#,
    ] {
        assert!(!accepts(&grammar, raw.as_bytes()), "{raw}");
    }
}

#[test]
fn a_long_text_of_one_word_is_no_trouble() {
    let text = "buffalo ".repeat(1000);
    let grammar = Grammar::entities(&schema(), &text);
    let raw = format!(r#"{{"PER":["{}","buffalo"]}}"#, text.trim());
    assert!(accepts(&grammar, raw.as_bytes()));
    assert!(!accepts(&grammar, format!(r#"{{"PER":["{text}"]}}"#).as_bytes()));
}
