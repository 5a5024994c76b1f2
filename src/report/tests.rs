//! What every page promises, on a small run with hostile names in it.

use super::*;
use crate::eval::analysis::{Asked, Seen, analyse};
use crate::eval::bootstrap::Resampling;
use crate::eval::compat::spreads;
use crate::eval::reliability::{Bin, reliability};
use crate::eval::{Rules, System, compare};
use crate::ie::{Confidence, ConfidenceSource, Cost, Document, Entity, Extraction, Prediction, Relation, Span};
use std::collections::{BTreeMap, BTreeSet};

const HOSTILE: &str = "<script>alert(1)</script>|\"'&\n[x](http://x)";

fn documents() -> Vec<Document> {
    let text = "Ann met Bo in Bern";
    let entity = |start: usize, end: usize, label: &str| Entity {
        label: label.into(),
        text: text[start..end].into(),
        span: Span::new(text, start..end).ok(),
        confidence: None,
    };
    let of = |id: usize| {
        let place = if id.is_multiple_of(5) { HOSTILE } else { "LOC" };
        let entities = vec![entity(0, 3, "PER"), entity(8, 10, "PER"), entity(14, 18, place)];
        let relations = vec![Relation { label: "met".into(), head: 0, tail: 1, confidence: None }];
        Document {
            gold: Some(Extraction { entities, relations, ..Extraction::default() }),
            ..Document::new(format!("d{id}"), text)
        }
    };
    (0..30).map(of).collect()
}

/// A system that leaves out the last entity of every `every`-th document and turns the relation of
/// every tenth; the team says how sure it is.
fn system(name: &str, every: usize, calls: u64, tokens: u64, seconds: f64) -> System {
    let cost = Cost { calls, prompt_tokens: Some(tokens), completion_tokens: Some(tokens / 10), seconds };
    let read = |(at, document): (usize, Document)| {
        let mut found = document.gold.unwrap();
        found.entities.truncate(if at % every == 0 { 2 } else { 3 });
        if at % 10 == 0 {
            (found.relations[0].head, found.relations[0].tail) = (1, 0);
        }
        if name == "team" {
            found.entities[0].confidence = Confidence::new(0.9, ConfidenceSource::Vote);
        }
        Prediction::read(document.id, found, cost)
    };
    System { name: name.into(), predictions: documents().into_iter().enumerate().map(read).collect() }
}

fn run() -> RunReport {
    let systems =
        [system("team", 2, 14, 9000, 20.0), system("student", 3, 1, 400, 0.5), system(HOSTILE, 1, 2, 900, 1.0)];
    let how = Resampling { replicates: 200, seed: 0 };
    let seen =
        Seen::of(documents()[..1].iter().filter_map(|one| one.gold.as_ref()), BTreeSet::from(["d1".to_string()]));
    let asked = Asked {
        pairs: vec![("team", "student"), ("team", HOSTILE)],
        seen: Some(&seen),
        shown: vec!["team", "student"],
        hardest: 3,
        resampling: how,
        rules: Rules::default(),
    };
    let first = readings(&documents(), &[system("team: first", 1, 0, 0, 0.0)]);
    let all: Vec<_> = first.into_iter().chain(readings(&documents(), &systems)).collect();
    let analysis = analyse(&documents(), &all, &asked);
    let fact = |name: &str, value: &str| Fact { name: name.into(), value: value.into() };
    let counts =
        |of: &[(&str, u64)]| of.iter().map(|(name, number)| (name.to_string(), *number)).collect::<BTreeMap<_, _>>();
    let price = |system: &str, prompt, hour| Price { system: system.into(), prompt, completion: prompt * 3.0, hour };
    let point = |step: u64| TrainingPoint {
        step,
        loss: 2.0 / step as f64,
        lr: 2e-4,
        grad_norm: 1.0,
        dev_f1: step.is_multiple_of(5).then_some(0.5 + step as f64 / 100.0),
    };
    RunReport {
        title: format!("Sample {HOSTILE}"),
        config: vec![fact("seed", "17"), fact(HOSTILE, HOSTILE)],
        corpus: vec![Split { name: "train".into(), documents: 1200, entities: 3000, relations: 10, events: 0 }],
        stages: vec![
            Stage {
                name: "debate".into(),
                documents: 1200,
                calls: 16_800,
                conflicts: Some(68),
                kept: counts(&[("PER", 40)]),
                ..Stage::default()
            },
            Stage {
                name: "filter".into(),
                documents: 1190,
                kept: counts(&[("PER", 25), ("LOC", 9), ("met", 12)]),
                dropped: counts(&[(HOSTILE, 4), ("near-duplicate", 6)]),
                ..Stage::default()
            },
        ],
        comparison: Some(compare(&documents(), &systems, "team", &Rules::default(), how).unwrap()),
        team: "team".into(),
        student: "student".into(),
        training: (1..=10).map(point).collect(),
        hardware: "2 CPU cores".into(),
        notes: vec![HOSTILE.into(), "Answers were replayed.".into()],
        cost: Some(CostModel {
            currency: "$".into(),
            prices: vec![price("team", 0.2, 0.0), price("student", 0.0, 0.1)],
            once: vec![OneOff { what: "answers".into(), amount: 2.5 }],
        }),
        analysis: Some(analysis),
        spread: spreads(&documents(), &systems, &Rules::default()),
        reliability: reliability(&documents(), &systems, &Rules::default()),
        calibration: vec![Calibration {
            name: "confidence".into(),
            method: HOSTILE.into(),
            ece_before: Some(0.2),
            ece_after: Some(0.05),
            threshold: Some(0.7),
            target_precision: Some(0.9),
            bins: vec![Bin { lower: 0.6, upper: 0.8, mean_confidence: 0.7, precision: 0.72, count: 40 }],
        }],
        flows: vec![Flow {
            name: "team on train".into(),
            documents: 1200,
            consensus: BTreeMap::from([(1, 50), (2, 12)]),
            summarizer: 5,
            majority: 1,
            failed: 0,
        }],
        card: Some(Card {
            base_model: HOSTILE.into(),
            base_sha256: "aa".into(),
            adapter_sha256: "bb".into(),
            corpus_sha256: "cc".into(),
            conversations: 46,
            entities: vec!["PER".into(), HOSTILE.into()],
            relations: vec!["met".into()],
            events: vec![],
        }),
    }
}

fn page(name: &str) -> String {
    pages(&run()).unwrap().into_iter().find(|page| page.name == name).unwrap().text
}

#[test]
fn the_markdown_page() {
    insta::assert_snapshot!(page("report.md"));
}

#[test]
fn the_model_card() {
    let card = page(MODEL_CARD);
    insta::assert_snapshot!(card);
    // What a hub reads ends at the second rule, and no name can end it earlier.
    assert!(card.starts_with("---\n") && card.matches("\n---\n").count() == 1);
}

#[test]
fn the_csv_page() {
    insta::assert_snapshot!(page("report.csv"));
}

#[test]
fn the_headline_names_both_scores_and_what_the_sample_says() {
    // 90 gold entities; the team misses 15 and the student 10: F1 150/165 and 160/170 by hand.
    let said = run().headline();
    assert!(
        said.starts_with(
            "The student reaches 94.1 entity F1, the team 90.9; 30 documents cannot tell them apart (+3.2"
        ),
        "{said}"
    );
    assert!(said.ends_with("It needs 23× fewer tokens and 40× less time per document."), "{said}");
    let mut better = run();
    let comparison = better.comparison.as_mut().unwrap();
    let found = comparison.systems[1].entities_difference.as_mut().unwrap();
    found.verdict = crate::eval::compare::Verdict::Better;
    assert!(better.headline().starts_with("The student beats its team: 94.1 entity F1 against 90.9 ("));
    better.student = "nobody".into();
    assert_eq!(better.headline(), "The systems were scored, but student and team are not both among them.");
    assert_eq!(RunReport::default().headline(), "This run has not been scored yet.");
}

#[test]
fn the_break_even_is_where_the_saving_covers_what_was_paid_once() {
    // Team: 9000 * 0.2e-6 + 900 * 0.6e-6 = 0.00234 a document; student: 0.5 s of 0.1 an hour =
    // 0.0000139; 2.5 / 0.0023261 = 1074.8, rounded up.
    assert_eq!(run().break_even(), Some(1075));
    let mut dear = run();
    dear.cost.as_mut().unwrap().prices[1].hour = 100.0;
    assert_eq!(dear.break_even(), None);
}

#[test]
fn the_html_page_reaches_for_nothing_outside_and_says_nothing_raw() {
    let html = page("report.html");
    assert!(!html.contains("<script>alert"), "a name became markup");
    for outside in ["src=", "href=\"http", "url(", "@import", "<link", "fetch(", "<iframe"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(!html.contains("NaN") || html.matches("NaN").count() == html.matches("Number.isNaN").count());
    assert_eq!(html.matches("<script>").count(), 1);
}

#[test]
fn every_table_has_a_caption_and_scopes_and_every_plot_a_title_and_a_description() {
    let html = page("report.html");
    let tables = html.matches("<table").count();
    assert!(tables >= 7, "{tables}");
    assert_eq!(html.matches("<caption id=").count(), tables);
    assert_eq!(html.matches("role=\"region\"").count(), tables);
    assert_eq!(html.matches("<th ").count(), html.matches("<th scope=").count());
    let plots = html.matches("<svg ").count();
    assert_eq!(plots, 8);
    for mark in ["role=\"img\"", "<title id=", "<desc id="] {
        assert_eq!(html.matches(mark).count(), plots, "{mark}");
    }
}

#[test]
fn ids_are_unique_and_every_reference_points_at_one() {
    let html = page("report.html");
    let after = |mark: &str| -> Vec<String> {
        html.split(mark).skip(1).filter_map(|rest| rest.split('"').next()).map(String::from).collect()
    };
    let ids = after(" id=\"");
    let known: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(known.len(), ids.len());
    for reference in after("aria-labelledby=\"").iter().flat_map(|all| all.split(' ')) {
        assert!(known.contains(&reference.to_string()), "{reference}");
    }
}

#[test]
fn elements_are_closed_in_the_order_they_were_opened() {
    let html = page("report.html");
    let body = html.split("<body>").nth(1).unwrap().split("<script>").next().unwrap();
    let mut open: Vec<&str> = Vec::new();
    for tag in body.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
        let name = tag.split([' ', '\n']).next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "at {tag}"),
            None if tag.ends_with('/') => (),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_report_survives_the_round_trip_and_gives_the_same_bytes() {
    let report = run();
    let written = serde_json::to_string(&report).unwrap();
    let read: RunReport = serde_json::from_str(&written).unwrap();
    assert_eq!(read, report);
    assert_eq!(pages(&read).unwrap(), pages(&report).unwrap());
}

#[test]
fn a_loss_that_was_not_finite_survives_as_such() {
    let mut report = run();
    report.training[3].loss = f64::NAN;
    let read: RunReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert!(read.training[3].loss.is_nan());
    assert!(markdown::markdown(&read).contains("1 of 10 logged losses were not finite"));
}

#[test]
fn an_empty_report_is_a_short_page_without_empty_sections() {
    let pages = pages(&RunReport { title: "nothing yet".into(), ..RunReport::default() }).unwrap();
    assert_eq!(pages.len(), 2);
    assert_eq!(pages[0].text, "# nothing yet\n\n**This run has not been scored yet.**\n");
    assert!(!pages[1].text.contains("<section") && !pages[1].text.contains("<figure"));
}

#[test]
fn what_compare_prints_beneath_its_scores() {
    insta::assert_snapshot!(text(&run()));
}

#[test]
fn a_report_written_before_there_was_an_analysis_is_read() {
    let mut value = serde_json::to_value(run()).unwrap();
    let fields = value.as_object_mut().unwrap();
    for key in ["analysis", "spread", "reliability", "calibration", "flows", "card"] {
        fields.remove(key).unwrap();
    }
    let comparison = fields["comparison"].as_object_mut().unwrap();
    comparison.remove("delta");
    for row in comparison["systems"].as_array_mut().unwrap() {
        for key in ["tests", "type_intervals", "seconds_p95", "seconds_p99"] {
            row.as_object_mut().unwrap().remove(key).unwrap();
        }
    }
    let read: RunReport = serde_json::from_value(value).unwrap();
    assert_eq!((read.comparison.as_ref().unwrap().delta, read.analysis.is_none()), (0.02, true));
    assert!(pages(&read).unwrap()[1].text.contains("Student and team"));
}

#[test]
fn results_and_samples_have_the_shape_of_the_harness() {
    use crate::report::harness::{Setting, results, samples};
    let systems = [system("team", 2, 14, 9000, 20.0), system("student", 3, 1, 400, 0.5)];
    let setting =
        Setting { config: serde_json::json!({"seed": 17}), task_hash: "ff".into(), date: 1, version: "0".into() };
    let found = results(&documents(), &systems, &run(), &Rules::default(), &setting).unwrap();
    let student = &found["results"]["student"];
    // 80 of 90 found, nothing wrong: 160/170. 27 of 30 relations right, 3 turned.
    assert!((student["entities_f1,strict"].as_f64().unwrap() - 160.0 / 170.0).abs() < 1e-12);
    assert!((student["relations_f1,strict"].as_f64().unwrap() - 0.9).abs() < 1e-12);
    assert!(student["entities_f1_stderr,strict"].as_f64().unwrap() > 0.0);
    assert!(student["entities_f1,seqeval"].is_f64() && student.get("triggers_f1,strict").is_none());
    assert_eq!(found["n-samples"]["team"], serde_json::json!({"original": 30, "effective": 30}));
    assert_eq!(found["higher_is_better"]["team"]["entities_f1"], true);
    assert_eq!((&found["task_hashes"]["team"], &found["versions"]["team"]), (&"ff".into(), &1.into()));

    let lines = samples(&documents(), &systems[1], &Rules::default()).unwrap();
    let keys = [
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    ];
    assert!(keys.iter().all(|key| lines[0].get(key).is_some()), "{}", lines[0]);
    assert_eq!((lines.len(), &lines[0]["doc"]["id"]), (30, &"d0".into()));
    // The last entity of the first document is not found: 2 of 3.
    assert_eq!(lines[0]["entities_f1"], serde_json::json!(0.8));
    assert_eq!(lines[0]["metrics"], serde_json::json!(["entities_f1", "relations_f1"]));
    let raw = lines[0]["resps"][0][0].as_str().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(raw).unwrap(), lines[0]["filtered_resps"][0]);
    // What a document is called by does not depend on who read it.
    let other = samples(&documents(), &systems[0], &Rules::default()).unwrap();
    assert_eq!((&other[0]["doc_hash"], &other[0]["target_hash"]), (&lines[0]["doc_hash"], &lines[0]["target_hash"]));
}
