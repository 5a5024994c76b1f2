//! Constrained decoding on small vocabularies of both kinds, and on the real one where it is there.

use super::constrain::{Closed, Guide, Vocabulary};
use super::file_tests::{Writer, saved, text};
use super::gguf::Gguf;
use super::gguf_tokenizer;
use super::tokenizer::{ChatTokenizer, Parts};
use crate::ie::record::ExtractionRecord;
use crate::ie::{EntityType, Extraction, Schema};
use crate::template::answer::{Finish, Grammar, read_answer, render_entities, render_relations};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const TEMPLATE: &str = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}";

/// Texts and answers about them, as they are rendered.
const ANSWERS: [(&str, &str); 8] = [
    ("Ada Lovelace met Bob in Paris.", r#"{"person":["Ada Lovelace","Bob"],"location":["Paris"]}"#),
    ("It rained.", "{}"),
    ("the server (the one) saw Ann, Anna", r#"{"person":["Ann","Anna"],"product":["server (the one)"]}"#),
    ("Im \u{201e}Standard\u{201c} steht \"Q\" in C:\\x", r#"{"product":["\"Q\"","C:\\x"],"location":["Im"]}"#),
    ("王芳住在北京 🗼 café", r#"{"person":["王芳"],"location":["北京","🗼","café"]}"#),
    ("a\tb and x\u{1}y's 1999", r#"{"person":["a\tb","x\u0001y's"],"location":["1999"]}"#),
    (".. , ,, ]} \":[", r#"{"person":["..",", ,,"],"product":["]}"]}"#),
    ("  They've  two   spaces ", r#"{"person":["They've  two   spaces"]}"#),
];

fn schema() -> Schema {
    let kind =
        |label: &str| EntityType { label: label.into(), ..serde_json::from_value(json!({"label": ""})).unwrap() };
    Schema { entities: ["person", "product", "location"].map(kind).into(), ..Schema::default() }
}

fn grammar(text: &str) -> Arc<Grammar> {
    Arc::new(Grammar::entities(&schema(), text))
}

/// Byte-level BPE with these merges; the bytes first, the control tokens last.
pub(super) fn byte_level(merges: &[(String, String)], pre: Value) -> ChatTokenizer {
    let mut alphabet: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
    alphabet.sort();
    let mut vocab: serde_json::Map<String, Value> = serde_json::Map::new();
    let tokens = alphabet.iter().map(char::to_string).chain(merges.iter().map(|(a, b)| format!("{a}{b}")));
    for token in tokens {
        let next = vocab.len();
        vocab.entry(token).or_insert(next.into());
    }
    let added: Vec<Value> = (["<|endoftext|>", "<|im_end|>"].iter().enumerate())
        .map(|(at, text)| {
            json!({"id": vocab.len() + at, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    let stop = vocab.len() as u32;
    let model = json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
        "vocab": vocab, "merges": merges});
    let parts = Parts {
        tokenizer: json!({"version": "1.0", "added_tokens": added, "normalizer": null, "pre_tokenizer": pre,
            "post_processor": null, "decoder": bytes(false), "model": model}),
        template: Some(TEMPLATE.into()),
        named: vec![("eos_token".into(), "<|endoftext|>".into())],
        stops: BTreeSet::from([stop]),
    };
    ChatTokenizer::new(Path::new("tiny"), parts).unwrap()
}

fn bytes(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

/// How Llama 3 cuts words: a sign before letters goes with them.
fn llama3() -> Value {
    let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    json!({"type": "Sequence", "pretokenizers": [split, bytes(false)]})
}

/// The alphabet of byte-level vocabularies.
fn written(bytes: &[u8]) -> String {
    let plain = byte_level(&[], bytes_only());
    let text = String::from_utf8_lossy(bytes);
    plain.encode_text(&text).unwrap().iter().map(|id| plain.token(*id).unwrap()).collect()
}

fn bytes_only() -> Value {
    bytes(false)
}

/// Merges learned from texts in a haphazard order: each joins two neighbours that `picks` names.
fn merges(texts: &[&str], picks: &[usize]) -> Vec<(String, String)> {
    let all = written(texts.concat().as_bytes());
    let mut pieces: Vec<String> = all.chars().map(String::from).collect();
    let mut merges: Vec<(String, String)> = Vec::new();
    for pick in picks {
        if pieces.len() < 2 {
            break;
        }
        let at = pick % (pieces.len() - 1);
        let pair = (pieces[at].clone(), pieces[at + 1].clone());
        if merges.iter().any(|(a, b)| format!("{a}{b}") == format!("{}{}", pair.0, pair.1)) {
            continue;
        }
        let mut joined: Vec<String> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match joined.last_mut() {
                Some(last) if *last == pair.0 && piece == pair.1 => last.push_str(&piece),
                _ => joined.push(piece),
            }
        }
        pieces = joined;
        merges.push(pair);
    }
    merges
}

/// The sentencepiece vocabulary of `scripts/golden/readers.py tokenizers`.
fn pieces(prefix: u32) -> ChatTokenizer {
    let golden: Value = serde_json::from_str(include_str!("../../tests/golden/tokenizers.json")).unwrap();
    let golden = &golden["pieces"];
    let mut tokens: Vec<String> = serde_json::from_value(golden["tokens"].clone()).unwrap();
    let mut types: Vec<i32> = serde_json::from_value(golden["types"].clone()).unwrap();
    let mut scores: Vec<f32> = serde_json::from_value(golden["scores"].clone()).unwrap();
    for (at, piece) in
        ["\"", ":", ",", "[\"", "\":[\"", "\",\"", "\"]", "]}", "\"]}", "{\"", "\u{2581}{\""].iter().enumerate()
    {
        tokens.push(piece.to_string());
        types.push(1);
        scores.push(-(200.0 + at as f32));
    }
    tokens.push("<|im_end|>".into());
    types.push(3);
    scores.push(0.0);
    let array = |kind: u32, items: Vec<Vec<u8>>| {
        [&kind.to_le_bytes()[..], &(items.len() as u64).to_le_bytes(), &items.concat()].concat()
    };
    let mut writer = Writer::default();
    writer.text("tokenizer.ggml.model", "llama").count("tokenizer.ggml.bos_token_id", 1);
    writer.count("tokenizer.ggml.eos_token_id", 2).text("tokenizer.chat_template", TEMPLATE);
    writer.meta("tokenizer.ggml.add_space_prefix", 4, &prefix.to_le_bytes());
    writer.meta("tokenizer.ggml.tokens", 9, &array(8, tokens.iter().map(|t| text(t)).collect()));
    writer.meta("tokenizer.ggml.token_type", 9, &array(5, types.iter().map(|t| t.to_le_bytes().into()).collect()));
    writer.meta("tokenizer.ggml.scores", 9, &array(6, scores.iter().map(|s| s.to_le_bytes().into()).collect()));
    let (_dir, path) = saved(&writer.bytes());
    ChatTokenizer::new(&path, gguf_tokenizer::parts(&Gguf::open(&path).unwrap()).unwrap()).unwrap()
}

/// Every kind of vocabulary, with merges that reach over the signs of JSON.
fn vocabularies() -> Vec<(&'static str, ChatTokenizer)> {
    let answers: Vec<&str> = ANSWERS.iter().map(|(_, answer)| *answer).collect();
    let picks: Vec<usize> = (1..150).map(|at| at * 7919).collect();
    let merges = merges(&answers, &picks);
    vec![
        ("bytes", byte_level(&[], bytes(true))),
        ("gpt-2", byte_level(&merges, bytes(true))),
        ("whole", byte_level(&merges, bytes(false))),
        ("llama-3", byte_level(&merges, llama3())),
        ("pieces", pieces(0)),
        ("pieces behind a space", pieces(1)),
    ]
}

/// Writes an answer as the tokenizer cuts it, token by token, and checks every step. Returns how
/// many tokens would have needed no question to the model.
fn followed(tokenizer: &ChatTokenizer, vocabulary: &Vocabulary, grammar: &Arc<Grammar>, answer: &str) -> usize {
    let ids = tokenizer.encode_text(answer).unwrap();
    let mut guide = Guide::new(grammar.clone());
    let (mut saved, mut ahead) = (0, 0);
    for (at, id) in ids.iter().enumerate() {
        assert!(!guide.finished() && guide.allows(vocabulary, *id), "{answer}: {:?}", tokenizer.shown(*id));
        let forced = guide.forced(tokenizer, vocabulary);
        assert_eq!(&ids[at..(at + forced.len()).min(ids.len())], &forced[..], "{answer} at {at}");
        if at >= ahead {
            saved += forced.len();
            ahead = at + forced.len();
        }
        // The likeliest of all, or the likeliest but for the tokens that end an answer.
        for others in [-1.0, 2.0] {
            let mut scores = vec![-1.0; tokenizer.vocab()];
            tokenizer.stops().iter().for_each(|stop| scores[*stop as usize] = others);
            scores[*id as usize] = 1.0;
            assert_eq!(guide.choose(vocabulary, &scores, tokenizer.stops()), Some(*id), "{answer} at {at}");
        }
        assert!(guide.push(vocabulary, *id));
    }
    assert_eq!((guide.bytes(), guide.ids(), guide.finished()), (answer.as_bytes(), &ids[..], true));
    assert!(guide.forced(tokenizer, vocabulary).is_empty());
    let scores = vec![0.0; tokenizer.vocab()];
    assert_eq!(guide.choose(vocabulary, &scores, tokenizer.stops()), tokenizer.stops().first().copied());
    saved
}

/// Writes an answer with scores from a seed, at most so many tokens; checks every choice against
/// all tokens. Whether it came to its end, and the guide.
fn wandered(tokenizer: &ChatTokenizer, vocabulary: &Vocabulary, text: &str, seed: u64, most: usize) -> (bool, Guide) {
    let mut guide = Guide::new(grammar(text));
    let mut state = seed;
    for _ in 0..most {
        let scores: Vec<f32> = (0..tokenizer.vocab() + 3)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Few values, so that equals occur.
                if state >> 60 == 0 { f32::NAN } else { ((state >> 33) % 64) as f32 }
            })
            .collect();
        let rank =
            |id: &u32| (if scores[*id as usize].is_nan() { -1 } else { scores[*id as usize] as i64 }, -i64::from(*id));
        let ids = 0..tokenizer.vocab() as u32;
        let chosen = guide.choose(vocabulary, &scores, tokenizer.stops());
        if guide.finished() {
            assert_eq!(chosen, tokenizer.stops().iter().copied().max_by_key(rank));
            return (true, guide);
        }
        assert_eq!(chosen, ids.filter(|id| guide.allows(vocabulary, *id)).max_by_key(rank));
        assert!(guide.push(vocabulary, chosen.expect("a byte is a token")));
        let forced = guide.forced(tokenizer, vocabulary);
        forced.iter().for_each(|id| assert!(guide.push(vocabulary, *id)));
    }
    (false, guide)
}

fn spelled(vocabulary: &Vocabulary, ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| vocabulary.token(*id)).copied().collect()
}

#[test]
fn the_tokens_of_a_text_spell_it() {
    for (name, tokenizer) in vocabularies() {
        let vocabulary = Vocabulary::of(&tokenizer).unwrap();
        let lead = if name == "pieces behind a space" { " " } else { "" };
        for text in ANSWERS.iter().flat_map(|(text, answer)| [text, answer]) {
            let ids = tokenizer.encode_text(text).unwrap();
            assert_eq!(spelled(&vocabulary, &ids), format!("{lead}{text}").as_bytes(), "{name}");
            assert_eq!(vocabulary.spelled(&tokenizer, text).unwrap(), *text, "{name}");
        }
        assert!(tokenizer.stops().iter().all(|stop| vocabulary.token(*stop).is_empty()));
        assert!(vocabulary.token(u32::MAX).is_empty());
    }
}

#[test]
fn a_vocabulary_of_words_is_refused_and_one_that_composes_says_what_it_reads() {
    let word = |id: usize, text: &str| (text.to_owned(), Value::from(id));
    let vocab: serde_json::Map<String, Value> =
        ["<unk>", "a", "{", "}", "<|im_end|>"].iter().enumerate().map(|(id, text)| word(id, text)).collect();
    let added = json!([{"id": 4, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true}]);
    let words = json!({"version": "1.0", "added_tokens": added, "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null, "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}});
    let parts = |tokenizer: Value| Parts {
        tokenizer,
        template: Some(TEMPLATE.into()),
        named: vec![("eos_token".into(), "<|im_end|>".into())],
        stops: BTreeSet::new(),
    };
    let tokenizer = ChatTokenizer::new(Path::new("words"), parts(words)).unwrap();
    let said = Vocabulary::of(&tokenizer).err().unwrap().to_string();
    assert!(said.contains("can be constrained"), "{said}");

    let mut composing = byte_level(&[], bytes(true)).files()[0].clone();
    composing["normalizer"] = json!({"type": "NFC"});
    let tokenizer = ChatTokenizer::new(Path::new("composing"), parts(composing)).unwrap();
    let vocabulary = Vocabulary::of(&tokenizer).unwrap();
    let text = "Noe\u{308}l left.";
    let read = vocabulary.spelled(&tokenizer, text).unwrap();
    assert_eq!(read, "Noël left.");
    let answer = r#"{"person":["Noël"]}"#;
    followed(&tokenizer, &vocabulary, &grammar(&read), answer);
    // The answer is about the text as it stands in the file.
    let reading = read_answer(answer, Finish::Stop, text, &schema());
    assert_eq!((reading.extraction.entities[0].text.as_str(), reading.dropped.len()), ("Noe\u{308}l", 0));
}

#[test]
fn an_answer_cut_as_the_tokenizer_cuts_is_followed_to_its_end() {
    for (name, tokenizer) in vocabularies() {
        let vocabulary = Vocabulary::of(&tokenizer).unwrap();
        let mut saved = 0;
        for (text, answer) in ANSWERS {
            saved += followed(&tokenizer, &vocabulary, &grammar(text), answer);
        }
        assert!(saved > 0, "{name}: no token is ever forced");
    }
}

#[test]
fn what_must_follow_needs_no_question_where_no_merge_can_undo_it() {
    let merge = |a: &str, b: &str| (written(a.as_bytes()), written(b.as_bytes()));
    let said = |merges: &[(String, String)], start: &str| {
        let tokenizer = byte_level(merges, bytes(false));
        let vocabulary = Vocabulary::of(&tokenizer).unwrap();
        let mut guide = Guide::new(grammar("Ann Bo"));
        tokenizer.encode_text(start).unwrap().iter().for_each(|id| assert!(guide.push(&vocabulary, *id)));
        String::from_utf8(spelled(&vocabulary, &guide.forced(&tokenizer, &vocabulary))).unwrap()
    };
    // Behind the key stands `A` or `B`.
    assert_eq!(said(&[], r#"{"l"#), r#"ocation":[""#);
    assert_eq!(said(&[merge("\"", "A")], r#"{"l"#), r#"ocation":["#);
    assert_eq!(said(&[merge("\"", "C")], r#"{"l"#), r#"ocation":[""#);
    // A merge over what was already written.
    assert_eq!(said(&[merge("l", "o")], r#"{"l"#), "");
    // The end of the answer holds whatever could follow.
    assert_eq!(said(&[], r#"{"location":["Ann"]"#), "}");
    assert_eq!(said(&[merge("]", "}")], r#"{"location":["Ann"]"#), "");
}

#[test]
fn refused_tokens_change_nothing_and_control_tokens_follow_only_the_end() {
    let tokenizer = byte_level(&[], bytes(true));
    let (vocabulary, stop) = (Vocabulary::of(&tokenizer).unwrap(), tokenizer.end_of_turn());
    let id = |text: &str| tokenizer.encode_text(text).unwrap()[0];
    let mut guide = Guide::new(grammar("Ann"));
    for refused in [id("}"), id(" "), stop, u32::MAX] {
        assert!(!guide.allows(&vocabulary, refused) && !guide.push(&vocabulary, refused));
    }
    assert_eq!((guide.ids(), guide.bytes()), (&[][..], &[][..]));
    for token in [id("{"), id("}")] {
        assert!(guide.push(&vocabulary, token));
    }
    assert!(guide.finished() && !guide.allows(&vocabulary, stop) && !guide.push(&vocabulary, id("}")));
    assert!(guide.push(&vocabulary, stop));
    assert_eq!((guide.ids().len(), guide.bytes()), (3, &b"{}"[..]));
    // A vocabulary whose scores end early has nothing to say.
    assert_eq!(Guide::new(grammar("Ann")).choose(&vocabulary, &[], &[stop]), None);
}

#[test]
fn a_limit_anywhere_leaves_a_whole_answer_with_its_finished_items() {
    for (name, tokenizer) in vocabularies() {
        let vocabulary = Vocabulary::of(&tokenizer).unwrap();
        for (text, answer) in ANSWERS {
            let ids = tokenizer.encode_text(answer).unwrap();
            for most in 0..=ids.len() {
                let mut guide = Guide::new(grammar(text));
                ids[..most].iter().for_each(|id| assert!(guide.push(&vocabulary, *id)));
                let Closed { kept, added } = guide.close(&tokenizer, &vocabulary).unwrap();
                assert!(guide.finished() && kept <= most, "{name}");
                assert_eq!([&ids[..kept], &added].concat(), guide.ids());
                assert_eq!(tokenizer.decode(guide.ids()).unwrap().as_bytes(), guide.bytes(), "{name}");
                let closed = std::str::from_utf8(guide.bytes()).unwrap();
                let (closed, whole) = (items(closed), items(answer));
                assert!(closed.iter().all(|item| whole.contains(item)), "{name}: {closed:?}");
                assert!(most < ids.len() || closed == whole);
            }
        }
    }
}

/// Labels and surfaces of an answer, as JSON.
fn items(answer: &str) -> Vec<(String, String)> {
    let groups: std::collections::BTreeMap<String, Vec<String>> = serde_json::from_str(answer).unwrap();
    groups.into_iter().flat_map(|(label, items)| items.into_iter().map(move |item| (label.clone(), item))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_scores_lead_to_an_answer_that_is_read_without_repairs(seed in any::<u64>(), which in 0usize..6, about in 0usize..8, most in 1usize..60) {
        let (name, tokenizer) = vocabularies().swap_remove(which);
        let vocabulary = Vocabulary::of(&tokenizer).unwrap();
        let text = ANSWERS[about].0;
        let (ended, mut guide) = wandered(&tokenizer, &vocabulary, text, seed, most);
        if !ended {
            guide.close(&tokenizer, &vocabulary).unwrap();
        }
        let answer = String::from_utf8(guide.bytes().to_vec()).unwrap();
        prop_assert_eq!(&tokenizer.decode(guide.ids()).unwrap(), &answer, "{}", name);
        let reading = read_answer(&answer, Finish::Stop, text, &schema());
        prop_assert_eq!(reading.repairs, Vec::<String>::new(), "{}", answer);
        followed(&tokenizer, &vocabulary, &grammar(text), &answer);
    }

    #[test]
    fn forced_tokens_are_the_tokenizers_own_whatever_its_merges(picks in prop::collection::vec(any::<usize>(), 0..60), words in any::<bool>(), seed in any::<u64>(), about in 0usize..8) {
        let answers: Vec<&str> = ANSWERS.iter().map(|(_, answer)| *answer).collect();
        let tokenizer = byte_level(&merges(&answers, &picks), if words { llama3() } else { bytes(false) });
        let vocabulary = Vocabulary::of(&tokenizer).unwrap();
        let (text, answer) = ANSWERS[about];
        followed(&tokenizer, &vocabulary, &grammar(text), answer);
        let (_, mut guide) = wandered(&tokenizer, &vocabulary, text, seed, 200);
        guide.close(&tokenizer, &vocabulary).unwrap();
        followed(&tokenizer, &vocabulary, &grammar(text), std::str::from_utf8(guide.bytes()).unwrap());
    }
}

/// The annotated texts of the sample corpus.
fn sample() -> (Schema, Vec<(String, Extraction)>) {
    let (mut labels, mut relations, mut texts) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for file in ["dev.jsonl", "test.jsonl"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample").join(file);
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let document: Value = serde_json::from_str(line).unwrap();
            let text = document["text"].as_str().unwrap().to_owned();
            let gold: ExtractionRecord = serde_json::from_value(document["gold"].clone()).unwrap();
            let gold = gold.read(&text).unwrap();
            labels.extend(gold.entities.iter().map(|entity| entity.label.clone()));
            relations.extend(gold.relations.iter().map(|relation| relation.label.clone()));
            texts.push((text, gold));
        }
    }
    let list = |labels: BTreeSet<String>| labels.into_iter().map(|label| json!({"label": label})).collect::<Vec<_>>();
    let schema = json!({"entities": list(labels), "relations": list(relations)});
    (serde_json::from_value(schema).unwrap(), texts)
}

#[test]
fn the_real_vocabulary_follows_every_gold_answer_of_the_sample() {
    let Ok(path) = std::env::var("UNDERSTUDY_MODEL") else {
        println!("skipped: set UNDERSTUDY_MODEL to SmolLM2-135M-Instruct.Q4_1.gguf to run this");
        return;
    };
    let tokenizer = ChatTokenizer::open(Path::new(&path)).unwrap();
    let vocabulary = Vocabulary::of(&tokenizer).unwrap();
    let (schema, texts) = sample();
    let (mut tokens, mut saved, mut closed) = (0, 0, 0);
    for (text, gold) in &texts {
        let entities = (Arc::new(Grammar::entities(&schema, text)), render_entities(gold, &schema));
        let relations = (Arc::new(Grammar::relations(&schema, &gold.entities)), render_relations(gold, &schema));
        for (grammar, answer) in [entities, relations] {
            let ids = tokenizer.encode_text(&answer).unwrap();
            assert_eq!(spelled(&vocabulary, &ids), answer.as_bytes());
            saved += followed(&tokenizer, &vocabulary, &grammar, &answer);
            tokens += ids.len();
            let mut guide = Guide::new(grammar);
            ids[..ids.len() / 2].iter().for_each(|id| assert!(guide.push(&vocabulary, *id)));
            guide.close(&tokenizer, &vocabulary).unwrap();
            assert!(guide.finished());
            closed += 1;
        }
    }
    println!("{saved} of {tokens} tokens in {closed} gold answers are forced");
    assert!(texts.len() >= 100 && saved > 0);
}
