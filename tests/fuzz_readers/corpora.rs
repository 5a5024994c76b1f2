//! Readers of native data sets: whatever a file holds, what is accepted is a document that our own
//! reader takes.

use super::mutate::{mutated_text, pick};
use super::samples::{EVENTS, POINTS, Sample, TOKENS, WORDS};
use super::{folder, fuzz, said};
use rand::RngExt;
use understudy::corpus::{self, FORMATS, Format, Join, Options, Scheme, Target, Unit, WayBack};
use understudy::store::{read_documents, write_documents};

/// Formats that the samples do not hold, as name, bytes and format.
const OTHERS: [(&str, &str, &str); 9] = [
    ("a.conll", "-DOCSTART- O\n\n# x\nAnn\tB-PER\nLee\tI-PER\n\t\n北0\tS-LOC\nin\tO\n", "conll"),
    ("b.conll", "Ann NNP I-PER\nleft VBD O\n\nBern NNP B-LOC\n", "conll"),
    (
        "c.ann",
        "T1\tPER 0 3\tZoë\nT2\tX 0 3;4 8\tZoë left\nR1\tr Arg1:T1 Arg2:T2\nE1\tX:T2 Who:T1 Of:E1\nA1\tN E1\n",
        "brat",
    ),
    ("d.jsonl", r#"{"tokens": ["Ann", "in", "Bern"], "ner_tags": ["B-PER", 0, 1]}"#, "tagged"),
    (
        "e.txt",
        "#begin document (x)\nx 0 0 Ann NNP * - - - - (PER) -\nx 0 1 in IN * - - - - (A* -\n#end document\n",
        "ontonotes",
    ),
    ("f.txt", "1\t\"A <e1>taste</e1> of <e2>acid</e2>.\"\r\nCause-Effect(e2,e1)\r\nComment: x\r\n\r\n", "semeval2010"),
    (
        "g.json",
        r#"{"task": "NER", "instruction": "{\"schema\": [\"a\"], \"input\": \"Ann left\"}", "output": "{\"a\": [\"Ann\"]}"}
           {"instruction": "{\"schema\": [\"b\"], \"input\": \"Ann left\"}", "label": "[{\"head\": \"Ann\", \"relation\": \"b\", \"tail\": \"x\"}]"}"#,
        "iepile",
    ),
    (
        "h.jsonl",
        r#"{"id": "a", "text": "Zoë left", "gold": {"entities": [{"type": "PER", "text": "Zoë", "start": 0, "end": 3}], "relations": [{"type": "r", "head": 0, "tail": 0}], "events": []}}"#,
        "documents",
    ),
    ("i.json", r#"{"Attack": ["Target", "Place"], "Meet": []}"#, "schema"),
];

#[test]
fn native_data_sets() {
    let samples = TOKENS.iter().chain(&POINTS).chain(&WORDS).chain(&EVENTS);
    let samples = samples.map(|Sample(name, bytes, format, _)| (*name, *bytes, *format)).chain(OTHERS);
    let seeds: Vec<(&str, Vec<u8>, &'static Format)> = samples
        .map(|(name, bytes, format)| (name, bytes.as_bytes().to_vec(), corpus::format(format).unwrap()))
        .collect();
    let dir = folder();
    std::fs::write(dir.path().join("c.txt"), "Zoë left Bern.").unwrap();
    let out = dir.path().join("out.jsonl");
    fuzz("corpora", |rng| {
        let (name, bytes, own) = pick(rng, &seeds);
        let path = dir.path().join(name.replace("c.txt", "c.tsv"));
        std::fs::write(&path, mutated_text(rng, std::slice::from_ref(bytes))).unwrap();
        let format = match rng.random_range(0..4) {
            0 => *pick(rng, &FORMATS),
            1 => corpus::detect(&path).map_err(said)?.0,
            _ => own,
        };
        if format.name == "schema" {
            return corpus::native_schema(&[&path]).map(drop).map_err(said);
        }
        let options = Options {
            join: *pick(rng, &[None, None, Some(Join::Space), Some(Join::Nothing)]),
            scheme: *pick(rng, &[None, None, Some(Scheme::Io), Some(Scheme::Iob1), Some(Scheme::Bioes)]),
            unit: *pick(rng, &[Unit::Usual, Unit::Sentence, Unit::Document]),
            tag_column: *pick(rng, &[None, None, Some(2), Some(9)]),
            tag_names: vec!["O".into(), "B-PER".into()],
            drop_broken: rng.random(),
            check: rng.random(),
            ..Options::default()
        };
        let mut documents = Vec::new();
        let target = *pick(rng, &[Target::Conll, Target::ConllBioes, Target::Spert]);
        let (mut back, mut bytes) = (WayBack::new(target, rng.random()), Vec::new());
        let report = corpus::convert(&[(path, format)], &options, &mut |document, tokens| {
            documents.push(document.clone());
            bytes.extend(back.document(document, tokens));
            Ok(())
        });
        let report = report.map_err(said)?;
        bytes.extend(back.end());
        assert!(target != Target::Spert || serde_json::from_slice::<Vec<serde_json::Value>>(&bytes).is_ok());
        assert!(!report.table(true).is_empty() && report.to_json().is_object());
        report.census.schema();
        write_documents(&out, &documents).unwrap();
        let read = read_documents(&out).unwrap_or_else(|error| panic!("what was accepted is not read: {error}"));
        assert_eq!(read.len(), documents.len());
        Ok(())
    });
}
