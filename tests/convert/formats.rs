//! One small file of each format, written for this test: it is told by itself, and says what it
//! should; and the traps that public copies of these formats have.

use super::samples::{self, Sample};
use super::{Desk, read};
use understudy::corpus::{self, FORMATS, Kind, Options, Target, Unit, WayBack};
use understudy::ie::{Document, Span};

/// Everything that a document holds, on one line: mentions with code points, relations, events.
pub fn told(document: &Document) -> String {
    let Some(gold) = &document.gold else { return "no gold".into() };
    let at = |span: &Option<Span>| match span {
        Some(span) => {
            let (start, end) = span.to_code_points(&document.text);
            format!("{start}-{end}")
        }
        None => "?".into(),
    };
    let mut facts: Vec<String> =
        gold.entities.iter().map(|e| format!("{} {} {}", e.label, e.text, at(&e.span))).collect();
    facts.extend(gold.relations.iter().map(|relation| {
        format!("{}({}, {})", relation.label, gold.entities[relation.head].text, gold.entities[relation.tail].text)
    }));
    facts.extend(gold.events.iter().map(|event| {
        let roles: Vec<String> =
            event.arguments.iter().map(|a| format!("{}={} {}", a.role, a.text, at(&a.span))).collect();
        format!("{}[{} {}: {}]", event.label, event.trigger.text, at(&event.trigger.span), roles.join(", "))
    }));
    facts.join("; ")
}

/// Reads a file in the format that it is told to be in, and compares text and facts of every document.
fn says(name: &str, bytes: &str, format: &str, wanted: &[(&str, &str)]) {
    let desk = Desk::new();
    let path = desk.write(name, bytes);
    let (found, why) = corpus::detect(&path).unwrap_or_else(|error| panic!("{format}: {error}"));
    assert_eq!(found.name, format, "{why}");
    let (documents, _) = read(&path, None, &Options::default()).unwrap_or_else(|error| panic!("{format}: {error}"));
    let found: Vec<(&str, String)> = documents.iter().map(|d| (d.text.as_str(), told(d))).collect();
    let wanted: Vec<(&str, String)> = wanted.iter().map(|(text, facts)| (*text, facts.to_string())).collect();
    assert_eq!(found, wanted, "{format}");
}

#[test]
fn sets_of_tokens() {
    samples::TOKENS.iter().for_each(|Sample(name, bytes, format, wanted)| says(name, bytes, format, wanted));
}

#[test]
fn one_tag_a_token() {
    says(
        "a.jsonl",
        r#"{"id": "0", "tokens": ["Ann", "in", "Bern"], "ner_tags": ["B-PER", "O", "B-LOC"]}"#,
        "tagged",
        &[("Ann in Bern", "PER Ann 0-3; LOC Bern 7-11")],
    );
    says(
        "b.jsonl",
        r#"{"text": ["李", "雷", "在", "伯", "尔", "尼"], "label": ["B-PER", "E-PER", "O", "B-LOC", "M-LOC", "E-LOC"]}"#,
        "tagged",
        &[("李雷在伯尔尼", "PER 李雷 0-2; LOC 伯尔尼 3-6")],
    );
    // Numbers say nothing without the card: two public copies of one set number them differently.
    let desk = Desk::new();
    let path = desk.write("c.jsonl", r#"{"tokens": ["Ann", "Lee", "in", "Bern"], "ner_tags": [1, 2, 0, 5]}"#);
    let said = read(&path, None, &Options::default()).unwrap_err();
    assert!(said.contains("c.jsonl:1: tag 1 has no name") && said.contains("--tag-names"), "{said}");
    let names = "O,B-PER,I-PER,B-ORG,I-ORG,B-LOC,I-LOC".split(',').map(String::from).collect();
    let (documents, _) = read(&path, None, &Options { tag_names: names, ..Options::default() }).unwrap();
    assert_eq!(told(&documents[0]), "PER Ann Lee 0-7; LOC Bern 11-15");
    let columns = |word: &str, name: &str| format!("nw/x 0 0 {word} NNP * - - - - {name} (1)\n");
    let text = format!(
        "#begin document (nw/x); part 000\n{}{}{}{}\n{}#end document\n",
        columns("Ann", "(PERSON*"),
        columns("Lee", "*)"),
        columns("visited", "*"),
        columns("Bern", "(GPE)"),
        columns("/.", "*")
    );
    says(
        "d.gold_conll",
        &text,
        "ontonotes",
        &[("Ann Lee visited Bern", "PERSON Ann Lee 0-7; GPE Bern 16-20"), ("/.", "")],
    );
}

#[test]
fn texts_with_code_points() {
    samples::POINTS.iter().for_each(|Sample(name, bytes, format, wanted)| says(name, bytes, format, wanted));
}

#[test]
fn words_without_offsets() {
    samples::WORDS.iter().for_each(|Sample(name, bytes, format, wanted)| says(name, bytes, format, wanted));
}

#[test]
fn instruction_records_of_one_text_become_one_document() {
    let record = |task: &str, schema: &str, answer: &str| {
        let instruction = serde_json::json!({"instruction": "…", "schema": serde_json::from_str::<serde_json::Value>(schema).unwrap(), "input": "Ann left Bern"});
        serde_json::json!({"task": task, "source": "x", "instruction": instruction.to_string(), "output": answer})
            .to_string()
            + "\n"
    };
    let text = "Ann left Bern";
    let ner = record("NER", r#"["person", "place"]"#, r#"{"person": ["Ann"], "place": []}"#)
        + &record("NER", r#"["city", "person"]"#, r#"{"city": ["Bern"], "person": ["Ann"]}"#);
    says("a.json", &ner, "iepile", &[(text, "person Ann 0-3; city Bern 9-13")]);
    let re = record("RE", r#"["from", "to"]"#, r#"{"from": [{"subject": "Ann", "object": "Bern"}], "to": []}"#);
    says("b.json", &re, "iepile", &[(text, "entity Ann 0-3; entity Bern 9-13; from(Ann, Bern)")]);
    let spo = record(
        "SPO",
        r#"[{"subject_type": "person", "predicate": "from", "object_type": "city"}]"#,
        r#"{"from": [{"subject": "Ann", "object": "Bern"}]}"#,
    );
    says("c.json", &spo, "iepile", &[(text, "person Ann 0-3; city Bern 9-13; from(Ann, Bern)")]);
    let ee = record(
        "EE",
        r#"[{"event_type": "leave", "trigger": true, "arguments": ["who", "whence", "when"]}, {"event_type": "eat", "trigger": true, "arguments": []}]"#,
        r#"{"leave": [{"trigger": "left", "arguments": {"who": "Ann", "whence": ["Bern"], "when": "NAN"}}], "eat": []}"#,
    );
    says("d.json", &ee, "iepile", &[(text, "leave[left 4-8: who=Ann 0-3, whence=Bern 9-13]")]);
    says("e.json", &record("EET", r#"["leave"]"#, r#"{"leave": ["left"]}"#), "iepile", &[(text, "leave[left 4-8: ]")]);
    let kg = record(
        "KG",
        r#"[{"entity_type": "person", "attributes": ["from"]}]"#,
        r#"{"person": {"Ann": {"from": "Bern"}}}"#,
    );
    says("f.json", &kg, "iepile", &[(text, "person Ann 0-3; entity Bern 9-13; from(Ann, Bern)")]);
    let desk = Desk::new();
    let (documents, _) = read(&desk.write("a.json", &ner), None, &Options::default()).unwrap();
    assert_eq!(documents[0].meta, r#"{"asked":["city","person","place"]}"#);
}

#[test]
fn semeval_with_its_line_ends_quotes_and_directions() {
    let text = "8001\t\"A \"sour\" <e1>taste</e1> came from the <e2>acid</e2>.\"\nCause-Effect(e2,e1)\nComment: two\n\
                8002\t\"The <e1>cat</e1> saw a <e2>dog</e2>.\"\nOther\nComment:\n\n";
    says(
        "TEST_FILE_FULL.TXT",
        &text.replace('\n', "\r\n"),
        "semeval2010",
        &[
            (
                "A \"sour\" taste came from the acid.",
                "nominal taste 9-14; nominal acid 29-33; Cause-Effect(acid, taste)",
            ),
            ("The cat saw a dog.", "nominal cat 4-7; nominal dog 14-17"),
        ],
    );
}

#[test]
fn event_sets_in_their_own_forms() {
    samples::EVENTS.iter().for_each(|Sample(name, bytes, format, wanted)| says(name, bytes, format, wanted));
}

#[test]
fn standoff_beside_its_text() {
    let desk = Desk::new();
    desk.write("set/a.txt", "Zoë Lee\nfounded Acme and left.");
    desk.write(
        "set/a.ann",
        "T1\tPER 0 7\tZoë Lee\nT2\tORG 16 20\tAcme\nT3\tFound 8 15\tfounded\nT4\tPART 0 3;16 20\tZoë Acme\n\
         R1\tfounder_of Arg1:T1 Arg2:T2\nE1\tFound:T3 Who:T1 What:T2\nA1\tNegated E1\n#1\tAnnotatorNotes T1\tsure?\n",
    );
    desk.write("set/b.txt", "It rained.");
    desk.write("set/b.ann", "");
    desk.write("set/c.txt", "IL-2 expression rose.");
    desk.write("set/c.a1", "T1\tProtein 0 4\tIL-2\n");
    desk.write("set/c.a2", "T2\tGene_expression 5 15\texpression\nT3\tUp 16 20\trose\nE1\tGene_expression:T2 Theme:T1\nE2\tUp:T3 Theme:E1\n*\tEquiv T1 T2\n");
    let path = desk.path("set");
    assert_eq!(corpus::detect(&path).unwrap().0.name, "brat");
    let (documents, report) = read(&path, None, &Options::default()).unwrap();
    let facts: Vec<String> = documents.iter().map(|d| format!("{}: {}", d.id, told(d))).collect();
    assert_eq!(
        facts,
        [
            "a: PER Zoë Lee 0-7; ORG Acme 16-20; PART Zoë Lee\nfounded Acme 0-20; founder_of(Zoë Lee, Acme); \
             Found[founded 8-15: Who=Zoë Lee 0-7, What=Acme 16-20]",
            "b: ",
            // An event that takes part in another is stood for by its trigger.
            "c: Protein IL-2 0-4; Gene_expression[expression 5-15: Theme=IL-2 0-4]; Up[rose 16-20: Theme=expression 5-15]",
        ]
    );
    assert_eq!(report.faults[&Kind::LeftOut].count, 4, "the gap, an attribute, a note, an equivalence");
    let (one, _) = read(&desk.path("set/a.ann"), None, &Options::default()).unwrap();
    assert_eq!(told(&one[0]), told(&documents[0]));
}

#[test]
fn conversions_in_circulation_that_were_broken_are_noticed() {
    let desk = Desk::new();
    // Character spans too small by one unless the entity begins the text.
    let path = desk.write(
        "off.json",
        r#"[{"sentence": "Ann saw Bern", "entities": [{"name": "Ann", "type": "PER", "pos": [0, 3]}, {"name": "Bern", "type": "LOC", "pos": [7, 11]}]}]"#,
    );
    let (documents, report) = read(&path, None, &Options::default()).unwrap();
    assert_eq!(told(&documents[0]), "PER Ann 0-3; LOC Bern 8-12");
    assert_eq!(report.faults[&Kind::Moved].count, 1);
    // Relation arguments that were collapsed into one.
    let collapsed = r#"{"doc_key": "d", "sentences": [["Ann", "Bern"]], "ner": [[[0, 0, "PER"], [0, 0, "PER"]]], "relations": [[[0, 0, 0, 0, "relation"]]]}"#;
    let said = read(&desk.write("collapsed.json", collapsed), None, &Options::default()).unwrap_err();
    assert!(said.contains("1 of 1 relations lead from a mention to itself"), "{said}");
    // An object that was cut to its first token.
    let cut = r#"{"token": ["Ann", "left", "New", "Bern"], "h": {"name": "Ann", "pos": [0, 1]}, "t": {"name": "New Bern", "pos": [2, 3]}, "relation": "from"}"#;
    let said = read(&desk.write("cut.json", cut), None, &Options::default()).unwrap_err();
    assert!(said.contains("\"New Bern\" should stand at tokens 2..3; there is \"New\""), "{said}");
    // Exclusive ends where the format has inclusive ones.
    let shifted = r#"{"tokenized_text": ["Ann", "left"], "ner": [[0, 2, "person"]]}"#;
    let said = read(&desk.write("shifted.json", shifted), None, &Options::default()).unwrap_err();
    assert!(said.contains("person: tokens 0..3 of 2"), "{said}");
    // Tokens that lost their characters.
    let empty = r#"[{"tokens": ["Ann", "", "left", ""], "entities": [{"type": "PER", "start": 0, "end": 1}], "relations": []}]"#;
    let (documents, report) = read(&desk.write("empty.json", empty), None, &Options::default()).unwrap();
    assert_eq!((documents[0].text.as_str(), report.faults[&Kind::EmptyToken].count), ("Ann left", 1));
}

#[test]
fn what_a_file_could_be_is_told_or_asked() {
    let desk = Desk::new();
    let both = desk.write("both.json", r#"{"text": "Ann", "spo_list": [], "event_list": []}"#);
    let said = corpus::detect(&both).unwrap_err().to_string();
    assert!(
        said.ends_with("both.json: the format is not clear: duie (text and spo_list) or duee (text and event_list) — pass --from duie or --from duee"),
        "{said}"
    );
    let unknown = desk.write("unknown.json", r#"{"colour": 1}"#);
    let said = corpus::detect(&unknown).unwrap_err().to_string();
    assert!(
        said.contains("no known format: JSON records with the fields colour — pass --from with one of documents,"),
        "{said}"
    );
    let names: std::collections::BTreeSet<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names.len(), FORMATS.len());
}

#[test]
fn a_document_of_sentences_is_read_either_way() {
    let desk = Desk::new();
    let path = desk.write(
        "d.jsonl",
        r#"{"doc_key": "d", "sentences": [["Ann", "left"], ["Bo", "slept"]], "ner": [[[0, 0, "PER"]], [[2, 2, "PER"]]]}"#,
    );
    let (documents, _) = read(&path, None, &Options { unit: Unit::Document, ..Options::default() }).unwrap();
    let told: Vec<String> = documents.iter().map(|d| format!("{} {:?} {}", d.id, d.text, told(d))).collect();
    assert_eq!(told, ["d \"Ann left\\nBo slept\" PER Ann 0-3; PER Bo 9-11"]);
    let (documents, _) = read(&path, None, &Options::default()).unwrap();
    assert_eq!(documents.iter().map(|d| d.id.as_str()).collect::<Vec<_>>(), ["d-1", "d-2"]);
}

#[test]
fn what_goes_there_and_back_is_the_same() {
    let desk = Desk::new();
    let there = |path: &std::path::Path, target: Target| {
        let (mut back, mut bytes) = (WayBack::new(target, false), Vec::new());
        let format = corpus::detect(path).unwrap().0;
        corpus::convert(&[(path.to_path_buf(), format)], &Options::default(), &mut |document, tokens| {
            bytes.extend(back.document(document, tokens));
            Ok(())
        })
        .unwrap();
        bytes.extend(back.end());
        (String::from_utf8(bytes).unwrap(), back.left_out)
    };
    let conll = "Ann\tB-PER\nLee\tI-PER\n's\tO\n\n北\tB-LOC\n京\tI-LOC\n\n";
    assert_eq!(there(&desk.write("a.conll", conll), Target::Conll).0, conll);
    let bioes = "Ann\tB-PER\nLee\tE-PER\n's\tO\n\n北\tB-LOC\n京\tE-LOC\n\n";
    assert_eq!(there(&desk.write("b.conll", bioes), Target::ConllBioes).0, bioes);
    let spert = "[\n{\"tokens\":[\"Ann\",\"'s\",\"dog\"],\"entities\":[{\"type\":\"PER\",\"start\":0,\"end\":1},\
                 {\"type\":\"X\",\"start\":0,\"end\":3}],\"relations\":[{\"type\":\"has\",\"head\":0,\"tail\":1}],\"orig_id\":\"7\"}\n]\n";
    let path = desk.write("c.json", spert);
    assert_eq!(there(&path, Target::Spert).0, spert);
    // Columns cannot hold the inner mention nor the relation.
    let (columns, left_out) = there(&path, Target::Conll);
    assert_eq!(columns, "Ann\tB-X\n's\tI-X\ndog\tI-X\n\n");
    let left_out: Vec<String> = left_out.iter().map(|(what, (n, example))| format!("{n} {what}: {example}")).collect();
    assert_eq!(left_out, ["1 mentions that overlap a longer one: 7: \"Ann\"", "1 relations: 7: \"has\""]);
    let text = r#"{"id": "d", "text": "Ann, Bo.\nBern-born", "gold": {"entities": [{"type": "PER", "text": "Bo", "start": 5, "end": 7},
                   {"type": "LOC", "text": "Ber", "start": 9, "end": 12}]}}"#;
    let (columns, left_out) = there(&desk.write("d.jsonl", text), Target::Conll);
    assert_eq!(columns, "Ann\tO\n,\tO\nBo\tB-PER\n.\tO\n\nBern\tO\n-\tO\nborn\tO\n\n");
    assert_eq!(left_out["mentions that cross tokens"], (1, "d: \"Ber\"".to_string()));
}

#[test]
fn xml_beside_its_text() {
    let desk = Desk::new();
    // Tags do not count, references count as they are written, ends are inclusive.
    desk.write("ace/x.sgm", "<DOC>\n<TEXT>\nAT&amp;T's chief Zoë left Bern.\n</TEXT>\n</DOC>\n");
    let mention = |id: &str, start: usize, end: usize, text: &str, head: &str| {
        format!(
            "<entity_mention ID=\"{id}\" TYPE=\"NAM\"><extent><charseq START=\"{start}\" END=\"{end}\">{text}</charseq></extent>{head}</entity_mention>"
        )
    };
    let apf = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE source_file SYSTEM \"apf.v5.1.1.dtd\">\n<source_file URI=\"x.sgm\"><document DOCID=\"x\">\n\
         <entity ID=\"E1\" TYPE=\"ORG\">{}</entity>\n<entity ID=\"E2\" TYPE=\"PER\">{}</entity>\n<entity ID=\"E3\" TYPE=\"GPE\">{}</entity>\n\
         <relation ID=\"R1\" TYPE=\"ORG-AFF\" SUBTYPE=\"Employment\"><relation_argument REFID=\"E2\" ROLE=\"Arg-1\"/>\
         <relation_mention ID=\"R1-1\"><extent><charseq START=\"2\" END=\"19\">x</charseq></extent>\
         <relation_mention_argument REFID=\"E2-1\" ROLE=\"Arg-1\"><extent><charseq START=\"2\" END=\"3\">x</charseq></extent></relation_mention_argument>\
         <relation_mention_argument REFID=\"E1-1\" ROLE=\"Arg-2\"/></relation_mention></relation>\n\
         <event ID=\"EV1\" TYPE=\"Movement\" SUBTYPE=\"Transport\"><event_argument REFID=\"E2\" ROLE=\"Artifact\"/><event_mention ID=\"EV1-1\">\
         <extent><charseq START=\"2\" END=\"30\">x</charseq></extent><anchor><charseq START=\"23\" END=\"26\">left</charseq></anchor>\
         <event_mention_argument REFID=\"E2-1\" ROLE=\"Artifact\"><extent><charseq START=\"2\" END=\"3\">x</charseq></extent></event_mention_argument>\
         <event_mention_argument REFID=\"E3-1\" ROLE=\"Origin\"/></event_mention></event>\n</document></source_file>\n",
        mention("E1-1", 2, 9, "AT&amp;T", ""),
        mention("E2-1", 2, 21, "AT&amp;T's chief Zoë", "<head><charseq START=\"19\" END=\"21\">Zoë</charseq></head>"),
        mention("E3-1", 28, 31, "Bern", ""),
    );
    let path = desk.write("ace/x.apf.xml", &apf);
    assert_eq!(corpus::detect(&path).unwrap().0.name, "ace");
    assert_eq!(corpus::detect(&desk.path("ace")).unwrap().0.name, "ace");
    let facts = "ORG AT&T 2-6; PER Zoë 15-18; GPE Bern 24-28; ORG-AFF(Zoë, AT&T); \
                 Movement:Transport[left 19-23: Artifact=Zoë 15-18, Origin=Bern 24-28]";
    for path in [path, desk.path("ace")] {
        let (documents, report) = read(&path, None, &Options::default()).unwrap();
        assert_eq!((documents.len(), documents[0].text.as_str()), (1, "\n\nAT&T's chief Zoë left Bern.\n\n\n"));
        assert_eq!((documents[0].id.as_str(), told(&documents[0]).as_str()), ("x", facts));
        assert!(report.faults.is_empty(), "{}", report.faults_table(true));
    }
    desk.write("source/y.txt", "<p>Zoë left Bern.</p>");
    let ere = "<?xml version=\"1.0\"?>\n<deft_ere kit_id=\"k\" doc_id=\"y\"><entities><entity id=\"e1\" type=\"PER\">\
        <entity_mention id=\"m1\" noun_type=\"NAM\" source=\"y\" offset=\"3\" length=\"3\"><mention_text>Zoë</mention_text></entity_mention></entity>\
        <entity id=\"e2\" type=\"GPE\"><entity_mention id=\"m2\" source=\"y\" offset=\"12\" length=\"4\"><mention_text>Bern</mention_text></entity_mention></entity></entities>\
        <relations><relation id=\"r\" type=\"physical\" subtype=\"locatednear\"><relation_mention id=\"rm\">\
        <rel_arg1 entity_id=\"e1\" entity_mention_id=\"m1\" role=\"entity\">Zoë</rel_arg1><rel_arg2 entity_id=\"e2\" entity_mention_id=\"m2\" role=\"place\">Bern</rel_arg2>\
        </relation_mention></relation></relations><hoppers><hopper id=\"h\"><event_mention id=\"em\" type=\"movement\" subtype=\"transportperson\">\
        <trigger source=\"y\" offset=\"7\" length=\"4\">left</trigger><em_arg entity_id=\"e1\" entity_mention_id=\"m1\" role=\"person\">Zoë</em_arg></event_mention></hopper></hoppers></deft_ere>";
    let path = desk.write("ere/y.rich_ere.xml", ere);
    let (documents, report) = read(&path, None, &Options::default()).unwrap();
    assert_eq!(
        told(&documents[0]),
        "PER Zoë 3-6; GPE Bern 12-16; physical.locatednear(Zoë, Bern); movement.transportperson[left 7-11: person=Zoë 3-6]"
    );
    assert!(report.faults.is_empty());
    std::fs::remove_file(desk.path("source/y.txt")).unwrap();
    assert!(read(&path, None, &Options::default()).unwrap_err().contains("../source"));
}
