//! Which documents are shown, in which order, and which never.

use super::*;
use crate::ie::{Entity, EntityType, Extraction, Relation, RelationType, Span};
use crate::store::write_documents;

/// A text is where its numbers say: "x 3 -4" stands at (3, -4). Any letters may stand between.
struct Map;

impl Encoder for Map {
    fn identity(&self) -> String {
        "map".into()
    }

    fn encode(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let numbers = |text: &&str| text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        Ok(texts.iter().map(numbers).collect())
    }
}

fn schema() -> Schema {
    let entity =
        |label: &str| EntityType { label: label.into(), definition: String::new(), aliases: vec![], examples: vec![] };
    let relation: RelationType = serde_json::from_str(r#"{"label": "A"}"#).unwrap();
    Schema { entities: ["A", "B", "C"].map(entity).to_vec(), relations: vec![relation], events: vec![] }
}

/// A document whose gold has these types of entity.
fn document(id: &str, text: &str, labels: &[&str]) -> Document {
    let entity = |label: &&str| Entity {
        label: (*label).into(),
        text: text[..1].into(),
        span: Some(Span::new(text, 0..1).unwrap()),
        confidence: None,
    };
    let gold = Extraction { entities: labels.iter().map(entity).collect(), relations: vec![], events: vec![] };
    Document { gold: Some(gold), ..Document::new(id, text) }
}

fn demonstrations(documents: &[Document], shots: usize, ways: Option<usize>) -> Demonstrations {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("pool.jsonl");
    write_documents(&path, documents).unwrap();
    Demonstrations::open(&path, &schema(), Box::new(Map), Shots { shots, ways }, home.path(), &|_, _| true).unwrap()
}

fn pool() -> Vec<Document> {
    vec![
        document("d", "a 3 0", &["A"]),
        document("b", "b 1 0", &["A", "B"]),
        document("a", "c -1 0", &["B"]),
        document("c", "d 0 1", &["A"]),
        document("e", "e 0 9", &["C"]),
        document("f", "f 0 0", &["Z"]),
    ]
}

fn ids(found: &[&Document]) -> Vec<String> {
    found.iter().map(|document| document.id.clone()).collect()
}

#[test]
fn each_type_gets_its_nearest_documents_ties_by_id_and_the_nearest_stands_last() {
    let asked = Document::new("q", "q 0 0");
    let near = |shots, ways, labels: &[&str]| {
        ids(&demonstrations(&pool(), shots, ways).nearest(&asked, Kind::Entity, labels).unwrap())
    };
    // b and c are equally far: b's id comes first, and so it stands nearer to the question.
    assert_eq!(near(1, None, &["A"]), ["b"]);
    assert_eq!(near(2, None, &["A"]), ["c", "b"]);
    assert_eq!(near(9, None, &["A"]), ["d", "c", "b"]);
    // a is as near as b; b holds both types and is shown once.
    assert_eq!(near(1, None, &["A", "B"]), ["b", "a"]);
    assert_eq!(near(2, None, &["A", "B"]), ["c", "b", "a"]);
    assert_eq!(near(1, None, &["A", "B", "C"]), ["e", "b", "a"]);
    assert_eq!(near(1, Some(2), &["C", "A", "B"]), ["b", "a"], "the farthest type is left out");
    assert_eq!(near(1, Some(1), &["C", "A", "B"]), ["a"]);
    assert_eq!(near(0, None, &["A", "B", "C"]), Vec::<String>::new());
    assert_eq!(near(3, None, &["Z"]), Vec::<String>::new(), "a type that nobody asked for");
}

#[test]
fn the_document_itself_is_never_shown_and_every_time_counted() {
    let shown = demonstrations(&pool(), 9, None);
    let near = |asked: Document| ids(&shown.nearest(&asked, Kind::Entity, &["A"]).unwrap());
    assert_eq!(near(Document::new("q", "q 0 0")), ["d", "c", "b"]);
    assert_eq!(shown.passed_over(), 0);
    assert_eq!(near(Document::new("b", "q 0 0")), ["d", "c"], "its id");
    assert_eq!(near(Document::new("q", " B 1 ,  0 ")), ["d", "c"], "its words");
    assert_eq!(shown.passed_over(), 2);
}

#[test]
fn a_text_that_stands_twice_in_the_pool_is_shown_once() {
    let twice = [document("y", "a 1 0", &["A"]), document("x", "A 1  0", &["A"]), document("z", "b 2 0", &["A"])];
    let shown = demonstrations(&twice, 2, None);
    let found = shown.nearest(&Document::new("q", "q 0 0"), Kind::Entity, &["A"]).unwrap();
    assert_eq!(ids(&found), ["z", "x"]);
}

#[test]
fn a_label_means_its_own_kind() {
    let mut related = document("r", "r 5 0", &["B", "B"]);
    let gold = related.gold.as_mut().unwrap();
    gold.relations.push(Relation { label: "A".into(), head: 0, tail: 1, confidence: None });
    let shown = demonstrations(&[pool(), vec![related]].concat(), 2, None);
    let asked = Document::new("q", "q 0 0");
    assert_eq!(ids(&shown.nearest(&asked, Kind::Relation, &["A"]).unwrap()), ["r"]);
    assert_eq!(ids(&shown.nearest(&asked, Kind::Entity, &["A"]).unwrap()), ["c", "b"]);
    assert_eq!(shown.without(Kind::Entity, &["A", "B", "Z"]), ["Z"]);
    assert_eq!(shown.sizes(), (7, 6), "the document without an asked type is read, and not kept");
}

#[test]
fn of_many_documents_the_exact_nearest_are_found_whatever_was_prepared() {
    // Whole numbers, whose squares are exact in f32.
    let place = |i: usize| (i * 7919) % 1009;
    let many: Vec<Document> = (0..3000)
        .map(|i| document(&format!("{i:04}"), &format!("x {} {} {i}", place(i), place(i + 5)), &["A"]))
        .collect();
    let shown = demonstrations(&many, 5, None);
    let asked: Vec<Document> =
        (0..20).map(|i| Document::new(format!("q{i}"), format!("q {} {} {}", i * 5, i * 3, i * 100))).collect();
    let numbers = |text: &str| -> Vec<f64> { text.split(' ').filter_map(|word| word.parse().ok()).collect() };
    for (round, document) in asked.iter().chain(&asked).enumerate() {
        if round == asked.len() {
            shown.prepare(&asked).unwrap();
        }
        let question = numbers(&document.text);
        let mut all: Vec<(f64, &str)> = many
            .iter()
            .map(|other| {
                let far = numbers(&other.text).iter().zip(&question).map(|(a, b)| (a - b) * (a - b)).sum();
                (far, other.id.as_str())
            })
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
        let expected: Vec<&str> = all[..5].iter().rev().map(|(_, id)| *id).collect();
        assert_eq!(ids(&shown.nearest(document, Kind::Entity, &["A"]).unwrap()), expected);
    }
}

#[test]
fn a_pool_that_cannot_serve_says_why() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("pool.jsonl");
    let open = |documents: &[Document], shots: usize| {
        write_documents(&path, documents).unwrap();
        let shots = Shots { shots, ways: None };
        Demonstrations::open(&path, &schema(), Box::new(Map), shots, home.path(), &|_, _| true).map(|_| ())
    };
    let said = open(&[document("a", "a 1 0", &["A"]), Document::new("bare", "b 1 0")], 1).unwrap_err().to_string();
    assert!(said.contains("pool.jsonl: document \"bare\" has no gold"), "{said}");
    let said = open(&[document("a", "a 1 0", &["Z"])], 1).unwrap_err().to_string();
    assert!(said.contains("none of its 1 documents has gold of a type of the schema"), "{said}");
    let ragged = [document("a", "a 1 0", &["A"]), document("b", "b 1", &["A"])];
    let said = open(&ragged, 1).unwrap_err().to_string();
    assert!(said.contains("vectors of 2 and of 1 numbers"), "{said}");
    open(&ragged, 0).unwrap();
}
