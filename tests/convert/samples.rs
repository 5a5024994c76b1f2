//! One small file of each format, written for these tests, with what it says: also what
//! `fuzz_readers` changes at random.

/// Name, bytes, format, and the text and facts of every document, as `formats::told` writes them.
pub struct Sample(
    pub &'static str,
    pub &'static str,
    pub &'static str,
    #[allow(dead_code, reason = "the fuzz test takes the bytes alone")] pub &'static [(&'static str, &'static str)],
);

/// Tokens, and mentions by their indexes.
pub const TOKENS: [Sample; 10] = [
    Sample(
        "a.json",
        r#"[{"tokens": ["Ann", "Lee", "joined", "Acme"], "tags": ["B-Peop", "L-Peop", "O", "U-Org"],
             "relations": [{"head": 0, "tail": 1, "type": "Work_For"}], "orig_id": 17}]"#,
        "spert",
        &[("Ann Lee joined Acme", "Peop Ann Lee 0-7; Org Acme 15-19; Work_For(Ann Lee, Acme)")],
    ),
    // Nested mentions, and a relation by ordinal.
    Sample(
        "b.json",
        r#"[{"tokens": ["fast", "parsers", "of", "text"], "entities": [{"type": "Method", "start": 0, "end": 4},
             {"type": "Material", "start": 3, "end": 4}], "relations": [{"type": "Used-for", "head": 0, "tail": 1}]}]"#,
        "spert",
        &[(
            "fast parsers of text",
            "Method fast parsers of text 0-20; Material text 16-20; Used-for(fast parsers of text, text)",
        )],
    ),
    Sample(
        "c.txt",
        "#doc 5\n0\tAnn\tB-Peop\t['N']\t[0]\n1\tLee\tI-Peop\t['Live_In', 'Work_For']\t[3, 2]\n2\tAcme\tB-Org\t['N']\t[2]\n\
         3\tBern\tB-Loc\t['N']\t[3]\n#doc 6\n0\tRain\tO\t['N']\t[0]\n",
        "multihead",
        &[
            (
                "Ann Lee Acme Bern",
                "Peop Ann Lee 0-7; Org Acme 8-12; Loc Bern 13-17; Live_In(Ann Lee, Bern); Work_For(Ann Lee, Acme)",
            ),
            ("Rain", ""),
        ],
    ),
    // Indexes count through the document and include their end; a trigger is one token.
    Sample(
        "d.jsonl",
        r#"{"doc_key": "d", "sentences": [["It", "rained", "."], ["Ann", "Lee", "left", "Bern"]],
            "ner": [[], [[3, 4, "PER"], [6, 6, "LOC"]]], "relations": [[], [[3, 4, 6, 6, "FROM"]]],
            "events": [[], [[[5, "Leave"], [3, 4, "Agent"]]]]}"#,
        "dygie",
        &[
            ("It rained .", ""),
            (
                "Ann Lee left Bern",
                "PER Ann Lee 0-7; LOC Bern 13-17; FROM(Ann Lee, Bern); Leave[left 8-12: Agent=Ann Lee 0-7]",
            ),
        ],
    ),
    Sample(
        "e.jsonl",
        r#"{"doc_id": "d", "sent_id": "d-1", "tokens": ["Ann", "left", "Bern", "."], "sentence": "Ann left  Bern.",
            "entity_mentions": [{"id": "T1", "start": 0, "end": 1, "entity_type": "PER", "text": "Ann"},
             {"id": "T2", "start": 2, "end": 3, "entity_type": "GPE", "text": "Bern"}],
            "relation_mentions": [{"relation_type": "PHYS", "arguments": [{"entity_id": "T2", "role": "Arg-2"}, {"entity_id": "T1", "role": "Arg-1"}]}],
            "event_mentions": [{"event_type": "Movement:Leave", "trigger": {"start": 1, "end": 2, "text": "left"},
             "arguments": [{"entity_id": "T1", "role": "Agent", "text": "Ann"}]}]}"#,
        "oneie",
        &[("Ann left  Bern.", "PER Ann 0-3; GPE Bern 10-14; PHYS(Ann, Bern); Movement:Leave[left 4-8: Agent=Ann 0-3]")],
    ),
    Sample(
        "f.json",
        r#"{"tokens": ["Ann", "left", "New", "Bern"], "entity": [{"type": "place", "offset": [2, 3], "text": "New Bern"}],
            "relation": [{"type": "from", "args": [{"type": "person", "offset": [0], "text": "Ann"}, {"type": "place", "offset": [2, 3], "text": "New Bern"}]}],
            "event": [{"type": "leave", "offset": [1], "text": "left", "args": [{"type": "agent", "offset": [0], "text": "Ann"}]}]}"#,
        "uie",
        &[(
            "Ann left New Bern",
            "place New Bern 9-17; person Ann 0-3; from(Ann, New Bern); leave[left 4-8: agent=Ann 0-3]",
        )],
    ),
    Sample(
        "g.json",
        r#"[{"tokenized_text": ["Ann", "Lee", "left"], "ner": [[0, 1, "person"]]}]"#,
        "gliner",
        &[("Ann Lee left", "person Ann Lee 0-7")],
    ),
    Sample(
        "h.json",
        r#"[{"id": "x", "relation": "per:title", "token": ["He", "is", "vice", "chair"], "subj_start": 0, "subj_end": 0,
             "obj_start": 2, "obj_end": 3, "subj_type": "PERSON", "obj_type": "TITLE"},
            {"id": "y", "relation": "no_relation", "token": ["He", "sat"], "subj_start": 0, "subj_end": 0, "obj_start": 1, "obj_end": 1}]"#,
        "tacred",
        &[
            ("He is vice chair", "PERSON He 0-2; TITLE vice chair 6-16; per:title(He, vice chair)"),
            ("He sat", "entity He 0-2; entity sat 3-6"),
        ],
    ),
    Sample(
        "i.jsonl",
        "{\"token\": [\"ann\", \"left\", \"bern\"], \"h\": {\"name\": \"ann\", \"pos\": [0, 1]}, \"t\": {\"name\": \"bern\", \"pos\": [2, 3]}, \"relation\": \"from\"}\n\
         {\"text\": \"Ann left Bern\", \"h\": {\"name\": \"Ann\", \"pos\": [0, 3]}, \"t\": {\"name\": \"Bern\", \"pos\": [9, 13]}, \"relation\": \"NA\"}",
        "fewrel",
        &[
            ("ann left bern", "entity ann 0-3; entity bern 9-13; from(ann, bern)"),
            ("Ann left Bern", "entity Ann 0-3; entity Bern 9-13"),
        ],
    ),
    Sample(
        "j.json",
        r#"[{"title": "T", "sents": [["Ann", "slept"], ["She", "left", "Bern"]], "labels": [{"h": 0, "t": 1, "r": "P1", "evidence": [1]}],
             "vertexSet": [[{"name": "Ann", "sent_id": 0, "pos": [0, 1], "type": "PER"}, {"name": "She", "sent_id": 1, "pos": [0, 1], "type": "PER"}],
                           [{"name": "Bern", "sent_id": 1, "pos": [2, 3], "type": "LOC"}]]}]"#,
        "docred",
        &[("Ann slept\nShe left Bern", "PER Ann 0-3; PER She 10-13; LOC Bern 19-23; P1(Ann, Bern)")],
    ),
];

/// Texts, and mentions by code points.
pub const POINTS: [Sample; 10] = [
    // The sentence begins with a space, which counts.
    Sample(
        "a.json",
        r#"[{"sentence": " Zoë lives in Bern . ", "relations": [{"head": {"name": "Zoë", "type": "NA", "pos": [1, 4]},
             "type": "place lived", "tail": {"name": "Bern", "type": "NA", "pos": [14, 18]}}]}]"#,
        "instructuie",
        &[(" Zoë lives in Bern . ", "NA Zoë 1-4; NA Bern 14-18; place lived(Zoë, Bern)")],
    ),
    Sample(
        "b.json",
        r#"[{"sentence": "Ann met Ann", "entities": [{"name": "Ann", "type": "person", "pos": []}, {"name": "Ann", "type": "person", "pos": []}]}]"#,
        "instructuie",
        &[("Ann met Ann", "person Ann 0-3; person Ann 8-11")],
    ),
    Sample(
        "c.jsonl",
        r#"{"id": 3, "text": "Zoë works for Acme", "entities": [{"id": 10, "label": "PER", "start_offset": 0, "end_offset": 3},
            {"id": 11, "label": "ORG", "start_offset": 14, "end_offset": 18}], "relations": [{"id": 0, "from_id": 10, "to_id": 11, "type": "works_for"}]}"#,
        "doccano",
        &[("Zoë works for Acme", "PER Zoë 0-3; ORG Acme 14-18; works_for(Zoë, Acme)")],
    ),
    Sample(
        "d.jsonl",
        r#"{"id": 3, "text": "Zoë left", "label": [[0, 3, "PER"]]}"#,
        "doccano",
        &[("Zoë left", "PER Zoë 0-3")],
    ),
    Sample(
        "e.json",
        r#"[{"id": 1, "data": {"text": "Zoë works for Acme"}, "annotations": [{"result": [
             {"id": "a", "type": "labels", "from_name": "label", "value": {"start": 0, "end": 3, "text": "Zoë", "labels": ["PER"]}},
             {"id": "b", "type": "labels", "from_name": "label", "value": {"start": 14, "end": 18, "text": "Acme", "labels": ["ORG"]}},
             {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right", "labels": ["works_for"]}]}]}]"#,
        "labelstudio",
        &[("Zoë works for Acme", "PER Zoë 0-3; ORG Acme 14-18; works_for(Zoë, Acme)")],
    ),
    Sample(
        "f.jsonl",
        "[\"Zoë left\", {\"entities\": [[0, 3, \"PER\"]]}]\n[\"Rain\", {\"entities\": []}]",
        "spacy",
        &[("Zoë left", "PER Zoë 0-3"), ("Rain", "")],
    ),
    Sample(
        "g.jsonl",
        r#"{"text": "Zoë left Bern", "spans": [{"start": 0, "end": 3, "token_end": 0, "label": "PER"}, {"start": 9, "end": 13, "token_end": 2, "label": "LOC"}],
            "relations": [{"head": 0, "child": 2, "label": "from"}], "answer": "accept"}"#,
        "spacy",
        &[("Zoë left Bern", "PER Zoë 0-3; LOC Bern 9-13; from(Zoë, Bern)")],
    ),
    Sample(
        "h.jsonl",
        r#"{"text": "李雷在伯尔尼", "label": {"name": {"李雷": [[0, 1]]}, "address": {"伯尔尼": [[3, 5]]}}}"#,
        "cluener",
        &[("李雷在伯尔尼", "name 李雷 0-2; address 伯尔尼 3-6")],
    ),
    Sample(
        "i.jsonl",
        "{\"content\": \"李雷在伯尔尼\", \"prompt\": \"人物\", \"result_list\": [{\"text\": \"李雷\", \"start\": 0, \"end\": 2}]}\n\
         {\"content\": \"李雷在伯尔尼\", \"prompt\": \"李雷的住处\", \"result_list\": [{\"text\": \"伯尔尼\", \"start\": 3, \"end\": 6}]}\n\
         {\"content\": \"李雷在伯尔尼\", \"prompt\": \"地点\", \"result_list\": [{\"text\": \"伯尔尼\", \"start\": 3, \"end\": 6}]}\n\
         {\"content\": \"下雨\", \"prompt\": \"人物\", \"result_list\": []}",
        "paddlenlp",
        &[("李雷在伯尔尼", "人物 李雷 0-2; 地点 伯尔尼 3-6; 住处(李雷, 伯尔尼)"), ("下雨", "")],
    ),
    Sample(
        "j.json",
        r#"{"id": "o", "text": "Zoë left Bern", "events": [{"type": "leave", "triggers": [{"id": "t", "trigger_word": "left", "position": [4, 8],
            "arguments": [{"role": "who", "mentions": [{"mention": "Zoë", "mention_id": "m", "position": [0, 3]}]}]}]}],
            "negative_triggers": [], "entities": [{"type": "PER", "mentions": [{"mention": "Zoë", "position": [0, 3]}]}]}"#,
        "omnievent",
        &[("Zoë left Bern", "PER Zoë 0-3; leave[left 4-8: who=Zoë 0-3]")],
    ),
];

/// Texts, and words that stand somewhere in them.
pub const WORDS: [Sample; 8] = [
    Sample(
        "a.jsonl",
        r#"{"text": "Annabel said that Ann left Bern .", "triple_list": [["Ann", "from", "Bern"]]}"#,
        "casrel",
        &[("Annabel said that Ann left Bern .", "entity Ann 18-21; entity Bern 27-31; from(Ann, Bern)")],
    ),
    Sample(
        "b.jsonl",
        r#"{"sentText": "Ann left Bern\r\n", "relationMentions": [{"em1Text": "Ann", "em2Text": "Bern", "label": "from"}],
            "entityMentions": [{"start": 0, "label": "PERSON", "text": "Ann"}, {"start": 1, "label": "LOCATION", "text": "Bern"}]}"#,
        "copyre",
        &[("Ann left Bern", "PERSON Ann 0-3; LOCATION Bern 9-13; from(Ann, Bern)")],
    ),
    // The object stands inside the subject and behind it: the place outside is taken.
    Sample(
        "c.json",
        r#"{"text": "《伯尔尼之歌》由李雷写于伯尔尼", "spo_list": [
            {"predicate": "地点", "subject_type": "歌曲", "subject": "伯尔尼之歌", "object_type": {"@value": "城市"}, "object": {"@value": "伯尔尼"}},
            {"predicate": "饰演", "subject_type": "人物", "subject": "李雷", "object_type": {"@value": "人物", "inWork": "作品"}, "object": {"@value": "歌", "inWork": "伯尔尼之歌"}}]}"#,
        "duie",
        &[(
            "《伯尔尼之歌》由李雷写于伯尔尼",
            "歌曲 伯尔尼之歌 1-6; 城市 伯尔尼 12-15; 人物 李雷 8-10; 人物 歌 5-6; 作品 伯尔尼之歌 1-6; \
             地点(伯尔尼之歌, 伯尔尼); 饰演(李雷, 歌); 饰演.inWork(歌, 伯尔尼之歌)",
        )],
    ),
    Sample(
        "d.json",
        r#"{"text": "李雷写歌", "postag": [], "spo_list": [{"predicate": "作品", "subject_type": "人物", "subject": "李雷", "object_type": "歌曲", "object": "歌"}]}"#,
        "duie",
        &[("李雷写歌", "人物 李雷 0-2; 歌曲 歌 3-4; 作品(李雷, 歌)")],
    ),
    Sample(
        "e.json",
        r#"{"text": "昨天李雷辞职\n了", "id": "x", "event_list": [{"event_type": "组织关系-辞/离职", "trigger": "辞职", "trigger_start_index": 4,
            "arguments": [{"argument_start_index": 2, "role": "离职者", "argument": "李雷", "alias": []}], "class": "组织关系"}]}"#,
        "duee",
        &[("昨天李雷辞职\n了", "组织关系-辞/离职[辞职 4-6: 离职者=李雷 2-4]")],
    ),
    Sample(
        "f.json",
        r#"{"id": "u", "conversations": [{"from": "human", "value": "Text: Ann left Bern"}, {"from": "gpt", "value": "I've read this text."},
            {"from": "human", "value": "What describes person in the text?"}, {"from": "gpt", "value": "[\"Ann\"]"},
            {"from": "human", "value": "What describes drug in the text?"}, {"from": "gpt", "value": "[]"}]}"#,
        "universalner",
        &[("Ann left Bern", "person Ann 0-3")],
    ),
    Sample(
        "g.json",
        r#"{"idx": 4, "sentence": "Ann left Bern", "label": "{'Ann': 'Person', \"Bern\": 'Location'}"}"#,
        "literal",
        &[("Ann left Bern", "Person Ann 0-3; Location Bern 9-13")],
    ),
    Sample(
        "h.json",
        r#"[{"context": "Ann left New Bern", "entity_label": "LOC", "start_position": [2], "end_position": [3], "query": "q", "qas_id": "7.1", "impossible": false},
            {"context": "Ann left New Bern", "entity_label": "PER", "start_position": [0], "end_position": [0], "query": "q", "qas_id": "7.2", "impossible": false}]"#,
        "mrc",
        &[("Ann left New Bern", "LOC New Bern 9-17; PER Ann 0-3")],
    ),
];

/// Event sets in their own forms.
pub const EVENTS: [Sample; 3] = [
    Sample(
        "a.jsonlines",
        r#"{"doc_key": "r", "sentences": [["It", "rained", "."], ["Ann", "Lee", "left"]], "evt_triggers": [[5, 5, [["move.leave.n/a", 1.0]]]],
            "ent_spans": [[3, 4, [["evt089arg01victim", 1.0]]]], "gold_evt_links": [[[5, 5], [3, 4], "evt089arg01victim"]]}"#,
        "rams",
        &[("It rained .\nAnn Lee left", "move.leave.n/a[left 20-24: victim=Ann Lee 12-19]")],
    ),
    Sample(
        "b.jsonl",
        r#"{"id": "m", "title": "T", "content": [{"sentence": "It rained.", "tokens": ["It", "rained", "."]}, {"sentence": "Ann left", "tokens": ["Ann", "left"]}],
            "events": [{"id": "e", "type": "Leave", "type_id": 1, "mention": [{"id": "x", "trigger_word": "left", "sent_id": 1, "offset": [1, 2]}]}], "negative_triggers": []}"#,
        "maven",
        &[("It rained .\nAnn left", "Leave[left 16-20: ]")],
    ),
    // Offsets too large by one, as in some files of CASIE.
    Sample(
        "c.json",
        r#"{"sourcefile": "1.txt", "info": {}, "content": "Acme had been hacked.", "cyberevent": {"hopper": [{"relation": "", "index": "h", "events": [
            {"index": "E", "type": "Attack", "subtype": "Databreach", "realis": "Actual", "nugget": {"startOffset": 10, "endOffset": 21, "text": "been hacked"},
             "argument": [{"startOffset": 1, "endOffset": 5, "text": "Acme", "type": "Organization", "role": {"type": "Victim"}}]}]}]}}"#,
        "casie",
        &[("Acme had been hacked.", "Organization Acme 0-4; Attack:Databreach[been hacked 9-20: Victim=Acme 0-4]")],
    ),
];
