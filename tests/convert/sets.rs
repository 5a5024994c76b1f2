//! Whole public sets, whose counts are known. They are not in the repository: their licences do not
//! allow it. `UNDERSTUDY_DATA` names the folder that holds them; without it these tests say so.
//!
//! Counts are those of the sets' papers and pages, or were taken from the files by a script in
//! another language.

use super::read;
use std::collections::BTreeMap;
use std::path::PathBuf;
use understudy::corpus::{Kind, Options, Report};
use understudy::ie::Document;

/// A total that no source gives.
const ANY: usize = usize::MAX;

/// The folder with the sets, or a visible line.
fn home() -> Option<PathBuf> {
    let home = std::env::var_os("UNDERSTUDY_DATA").map(PathBuf::from);
    if home.is_none() {
        // Past the capture of the test harness: a skipped test should be seen.
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "skipped: UNDERSTUDY_DATA does not name the public data sets");
    }
    home
}

/// Detects, reads and holds the totals against documents, entities, relations, events, arguments.
fn counted(file: &str, format: &str, wanted: [usize; 5]) -> Option<(Vec<Document>, Report)> {
    let path = home()?.join(file);
    let (found, _) = understudy::corpus::detect(&path).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.name, format, "{file}");
    let options = Options { check: true, ..Options::default() };
    let (documents, report) = read(&path, None, &options).unwrap_or_else(|error| panic!("{error}"));
    let census = &report.census;
    let counts = [
        census.documents,
        census.total_entities(),
        census.total_relations(),
        census.total_events(),
        census.total_arguments(),
    ];
    println!("{file}: {counts:?}\n{}", report.table(true));
    let fits = counts.iter().zip(&wanted).all(|(found, wanted)| found == wanted || *wanted == ANY);
    assert!(fits, "{file}: {counts:?}, expected {wanted:?}");
    Some((documents, report))
}

fn count(report: &Report, kind: Kind) -> usize {
    report.faults.get(&kind).map_or(0, |tally| tally.count)
}

#[test]
fn conll04_in_both_of_its_forms() {
    for (file, wanted) in [
        ("conll04_spert/conll04_train.json", [922, 3377, 1283, 0, 0]),
        ("conll04_spert/conll04_dev.json", [231, 893, 343, 0, 0]),
        ("conll04_spert/conll04_train_dev.json", [1153, 4270, 1626, 0, 0]),
    ] {
        counted(file, "spert", wanted);
    }
    let Some((documents, report)) = counted("conll04_spert/conll04_test.json", "spert", [288, 1079, 422, 0, 0]) else {
        return;
    };
    let census = &report.census;
    let listed = |pairs: &[(&str, usize)]| pairs.iter().map(|(name, n)| (name.to_string(), *n)).collect();
    assert_eq!(census.entities, listed(&[("Loc", 427), ("Org", 198), ("Other", 133), ("Peop", 321)]));
    let wanted = [("Kill", 47), ("Live_In", 100), ("Located_In", 94), ("OrgBased_In", 105), ("Work_For", 76)];
    assert_eq!(census.relations, listed(&wanted));
    let schema = census.schema();
    let signature = |label: &str| {
        let relation = schema.relation(label).unwrap();
        (relation.head.join("|"), relation.tail.join("|"))
    };
    assert_eq!(signature("OrgBased_In"), ("Org".into(), "Loc".into()));
    assert_eq!(signature("Live_In"), ("Peop".into(), "Loc".into()));
    assert_eq!(signature("Work_For"), ("Peop".into(), "Org".into()));
    // 3391 mentions begin with B-, and two with I- (documents 4295 and 1395), which the form of SpERT
    // has too: 3393 + 877 = 4270.
    let (_, train) = counted("conll04_bekou/train.txt", "multihead", [910, 3391 + 2, 1273, 0, 0]).unwrap();
    assert_eq!(count(&train, Kind::Tags), 2);
    counted("conll04_bekou/dev.txt", "multihead", [243, 877, 353, 0, 0]);
    // The same test sentences in the other form. A final stop is a token of its own there, and some
    // numbers were cut; where the texts are equal, so are all facts and offsets.
    let (other, _) = counted("conll04_bekou/test.txt", "multihead", [288, 1079, 422, 0, 0]).unwrap();
    let facts = |documents: &[Document]| -> BTreeMap<String, String> {
        let fact = |document: &Document| {
            let gold = document.gold.clone().unwrap().sorted();
            let record = understudy::ie::record::ExtractionRecord::of(&gold, &document.text);
            (document.text.clone(), serde_json::to_string(&record).unwrap())
        };
        documents.iter().map(fact).collect()
    };
    let (ours, theirs) = (facts(&documents), facts(&other));
    let shared: Vec<&String> = ours.keys().filter(|text| theirs.contains_key(*text)).collect();
    assert!(shared.len() > 200, "{}", shared.len());
    assert!(shared.iter().all(|text| ours[*text] == theirs[*text]));
}

#[test]
fn scierc() {
    counted("scierc_spert/scierc_train.json", "spert", [1861, 5598, 3219, 0, 0]);
    counted("scierc_spert/scierc_dev.json", "spert", [275, 811, 455, 0, 0]);
    let Some((_, report)) = counted("scierc_spert/scierc_test.json", "spert", [551, 1685, 974, 0, 0]) else { return };
    let listed = |pairs: &[(&str, usize)]| pairs.iter().map(|(name, n)| (name.to_string(), *n)).collect();
    let entities = [
        ("Generic", 241),
        ("Material", 158),
        ("Method", 430),
        ("Metric", 71),
        ("OtherScientificTerm", 522),
        ("Task", 263),
    ];
    assert_eq!(report.census.entities, listed(&entities));
    let relations = [
        ("Compare", 38),
        ("Conjunction", 123),
        ("Evaluate-for", 91),
        ("Feature-of", 59),
        ("Hyponym-of", 67),
        ("Part-of", 63),
        ("Used-for", 533),
    ];
    assert_eq!(report.census.relations, listed(&relations));
    assert_eq!(report.census.empty, 22, "sentences without an entity");
}

#[test]
fn wnut17() {
    counted("wnut17/wnut17train.conll", "conll", [3394, 1975, 0, 0, 0]);
    counted("wnut17/emerging.dev.conll", "conll", [1009, 836, 0, 0, 0]);
    let Some((_, report)) = counted("wnut17/emerging.test.annotated", "conll", [1287, 1079, 0, 0, 0]) else { return };
    assert_eq!(report.census.entities.len(), 6);
    assert_eq!(count(&report, Kind::Tags), 0);
}

#[test]
fn semeval2010_task8() {
    let Some((_, report)) = counted("semeval2010_task8/TRAIN_FILE.TXT", "semeval2010", [8000, 16000, 6590, 0, 0])
    else {
        return;
    };
    // TRAIN_DISTRIB.TXT of the release.
    let relations = [
        ("Cause-Effect", 1003),
        ("Component-Whole", 941),
        ("Content-Container", 540),
        ("Entity-Destination", 845),
        ("Entity-Origin", 716),
        ("Instrument-Agency", 504),
        ("Member-Collection", 690),
        ("Message-Topic", 634),
        ("Product-Producer", 717),
    ];
    assert_eq!(report.census.relations, relations.map(|(name, n)| (name.to_string(), n)).into());
    let (documents, _) =
        counted("semeval2010_task8/TEST_FILE_FULL.TXT", "semeval2010", [2717, 5434, 2263, 0, 0]).unwrap();
    // Entity-Destination(e2,e1) occurs once in the test part.
    let backward = |document: &&Document| {
        document.gold.as_ref().unwrap().relations.iter().any(|r| r.label == "Entity-Destination" && r.head > r.tail)
    };
    assert_eq!(documents.iter().filter(backward).count(), 1);
    let multi = |document: &&Document| document.gold.as_ref().unwrap().entities.iter().any(|e| e.text.contains(' '));
    assert_eq!(documents.iter().filter(multi).count(), 211, "sentences with a nominal of several words");
    // The quotes around a sentence are gone; two sentences begin with quotes of their own.
    assert_eq!(documents.iter().filter(|document| document.text.starts_with('"')).count(), 2);
    assert!(documents.iter().all(|document| !document.text.contains("<e")));
    let clean = home().unwrap().join("semeval2010_task8/TEST_FILE_CLEAN.TXT");
    let (clean, _) = read(&clean, None, &Options::default()).unwrap();
    assert_eq!(clean.iter().filter(|document| document.gold.is_none()).count(), 2717);
    assert!(clean.iter().zip(&documents).all(|(a, b)| a.text == b.text && a.id == b.id));
    let key = home().unwrap().join("semeval2010_task8/TEST_FILE_KEY.TXT");
    let said = read(&key, Some("semeval2010"), &Options::default()).unwrap_err();
    assert!(said.contains("read TEST_FILE_FULL.TXT"), "{said}");
}

#[test]
fn nyt11_hrl_with_its_spaces() {
    let Some((documents, report)) = counted("nyt11_hrl/dev.json", "instructuie", [149, ANY, 327, 0, 0]) else { return };
    assert_eq!((count(&report, Kind::Moved), count(&report, Kind::Mismatch)), (0, 0));
    assert!(documents.iter().all(|document| document.text.starts_with(' ') && document.text.ends_with(' ')));
    let triples = |document: &Document| document.gold.as_ref().unwrap().relations.len();
    assert!(documents.iter().all(|document| triples(document) >= 2));
}

#[test]
fn msra_in_the_form_of_cdner() {
    counted("msra_cdner/dev.json", "dygie", [3001, 5011, 0, 0, 0]);
    let Some((documents, report)) = counted("msra_cdner/test.json", "dygie", [3450, 6190, 0, 0, 0]) else { return };
    let entities = [("人名", 1973), ("公司", 1331), ("地址", 2886)];
    assert_eq!(report.census.entities, entities.map(|(name, n)| (name.to_string(), n)).into());
    assert_eq!(report.census.empty, 1467);
    assert!(documents.iter().all(|document| !document.text.contains(' ')));
    let whole = Options { unit: understudy::corpus::Unit::Document, ..Options::default() };
    let path = home().unwrap().join("msra_cdner/test.json");
    let (documents, report) = read(&path, None, &whole).unwrap();
    assert_eq!((documents.len(), report.census.total_entities()), (1, 6190));
}

#[test]
fn duie_with_all_slots() {
    // 284 objects with one further slot, 23 with two, 6 with three.
    let slots = 284 + 2 * 23 + 3 * 6;
    let file = "duie_lawsonabs/train_data_5000.json";
    let Some((_, report)) = counted(file, "duie", [5000, ANY, 8945 + slots, 0, 0]) else { return };
    let main = |(label, _): &(&String, &usize)| !label.contains('.');
    let relations = &report.census.relations;
    assert_eq!(relations.iter().filter(main).map(|(_, count)| count).sum::<usize>(), 8945);
    assert_eq!(relations.iter().filter(main).count(), 46);
    assert_eq!(count(&report, Kind::NotFound), 0);
}

#[test]
fn duee_by_start_offsets() {
    let Some((documents, report)) = counted("duee/duee_dev.json", "duee", [1492, 0, 0, 1783, 3682]) else { return };
    assert_eq!(report.census.events.len(), 65);
    assert_eq!((count(&report, Kind::Moved), count(&report, Kind::Mismatch)), (0, 0));
    let events = |document: &Document| document.gold.as_ref().unwrap().events.len();
    assert_eq!(documents.iter().filter(|document| events(document) > 1).count(), 207);
    let schema = report.census.schema();
    assert_eq!(schema.events.iter().map(|event| event.roles.len()).sum::<usize>(), 206);
}

#[test]
fn wikievents_as_whole_documents() {
    counted("wikievents/dev.jsonl", "oneie", [20, 2256, 0, 345, 428]);
    let Some((documents, report)) = counted("wikievents/test.jsonl", "oneie", [20, 2673, 0, 364, 563]) else { return };
    assert_eq!((count(&report, Kind::Mismatch), count(&report, Kind::Mended)), (0, 0));
    assert!(documents.iter().any(|document| document.text.contains('\n')));
    counted("wikievents/test_info.jsonl", "oneie", [20, 2673, 0, ANY, ANY]);
}

#[test]
fn gliner_and_iepile_samples() {
    counted("gliner_sample/sample_data.json", "gliner", [64, 236, 0, 0, 0]);
    for (file, wanted) in [
        ("NER/sample.json", [ANY, ANY, 0, 0, 0]),
        ("RE/sample.json", [ANY, ANY, ANY, 0, 0]),
        ("SPO/sample.json", [ANY, ANY, ANY, 0, 0]),
        ("KG/sample.json", [5, ANY, ANY, 0, 0]),
        ("EE/sample.json", [6, 0, 0, ANY, ANY]),
    ] {
        let file = format!("iepile_samples/data/{file}");
        let Some((_, plain)) = counted(&file, "iepile", wanted) else { return };
        // The training and test records ask the same texts, a few labels at a time.
        for other in ["train", "test"] {
            let census = &plain.census;
            // A knowledge graph says the types of subjects, which the plain form does not.
            let entities = if file.contains("KG/") { ANY } else { census.total_entities() };
            let path = file.replace("/sample", &format!("/{other}"));
            let wanted = [ANY, entities, census.total_relations(), census.total_events(), census.total_arguments()];
            counted(&path, "iepile", wanted);
        }
    }
}

#[test]
fn native_schemas() {
    let Some(home) = home() else { return };
    let schema = |files: &[&str]| {
        let paths: Vec<PathBuf> = files.iter().map(|file| home.join(file)).collect();
        for path in &paths {
            if !path.to_string_lossy().contains("_entity.json") {
                assert_eq!(understudy::corpus::detect(path).unwrap().0.name, "schema", "{}", path.display());
            }
        }
        let paths: Vec<&std::path::Path> = paths.iter().map(PathBuf::as_path).collect();
        let schema = understudy::corpus::native_schema(&paths).unwrap();
        schema.check().unwrap();
        let roles: std::collections::BTreeSet<&str> =
            schema.events.iter().flat_map(|event| &event.roles).map(|role| role.label.as_str()).collect();
        let pairs = schema.events.iter().map(|event| event.roles.len()).sum::<usize>();
        ([schema.entities.len(), schema.relations.len(), schema.events.len(), pairs, roles.len()], schema)
    };
    let ace = ["event_role", "role_entity", "relation_entity"]
        .map(|part| format!("event_schemas_textee/ace05-en.{part}.json"));
    // 7 entity types, 6 relation types, 33 event types, 22 roles.
    assert_eq!(schema(&ace.each_ref().map(String::as_str)).0, [7, 6, 33, 100, 22]);
    assert_eq!(schema(&["event_schemas_textee/casie.event_role.json"]).0[2..], [5, 48, 26]);
    assert_eq!(schema(&["event_schemas_textee/maven.event_role.json"]).0[2], 168);
    assert_eq!(schema(&["event_schemas_textee/rams.event_role.json"]).0[2], 139);
    let wiki = schema(&["event_schemas_textee/wikievents.event_role.json"]).0;
    assert_eq!((wiki[2], wiki[4]), (50, 58));
    assert_eq!(schema(&["duee/duee_event_schema.json"]).0, [0, 0, 65, 217, 121]);
    let (counts, duie) = schema(&["duie_lawsonabs/duie_schema.json"]);
    assert_eq!(counts[1], 48 + 7, "predicates, and slots of five of them");
    assert!(duie.relation("饰演.inWork").is_some());
    let (counts, scierc) = schema(&["scierc_spert/scierc_types.json"]);
    assert_eq!(counts[..2], [6, 7]);
    assert!(scierc.relation("Compare").unwrap().symmetric && !scierc.relation("Used-for").unwrap().symmetric);
    assert!(schema(&["wikievents/ontology_gen-arg/event_role_KAIROS.json"]).0[2] > 0);
    assert!(schema(&["wikievents/meta.json"]).0[2] > 0);
}
