//! Whatever the engine does to be fast, the answers are those of reading everything anew.

use super::*;
use crate::ie::{EntityType, Schema};
use crate::student::cache::to_rows;
use crate::student::constrain_tests::byte_level;
use crate::student::generate::Finish;
use crate::student::tokenizer::Parts;
use crate::student::{LoraConfig, Student, Weights};
use crate::template::answer::{Finish as Ended, read_answer};
use crate::template::prompt::Prompts;
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

fn model(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let (model, _) = Model::load(Weights::open(&path).unwrap(), &Device::flex()).unwrap();
    model.adapted(&LoraConfig::default(), 3).unwrap()
}

/// 64 words, of which one ends answers.
fn words(stop: u32) -> ChatTokenizer {
    let vocab: serde_json::Map<String, Value> = (0..64).map(|id| (format!("w{id}"), id.into())).collect();
    let added = json!([{"id": stop, "content": format!("w{stop}"), "special": true, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false}]);
    let parts = Parts {
        tokenizer: json!({"version": "1.0", "added_tokens": added, "normalizer": null, "post_processor": null,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": null,
            "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"}}),
        template: Some(format!("{{% for m in messages %}}{{{{ m.content }}}} w{stop}{{% endfor %}}")),
        named: vec![("eos_token".into(), format!("w{stop}"))],
        stops: BTreeSet::from([stop]),
    };
    ChatTokenizer::new(Path::new("words"), parts).unwrap()
}

/// One token at a time, reading everything anew.
fn slow(model: &Model, prompt: &[u32], most: usize) -> (Vec<u32>, Vec<f32>, Finish) {
    let (mut ids, mut answer, mut logprobs) = (prompt.to_vec(), Vec::new(), Vec::new());
    while answer.len() < most {
        let rows = to_rows(model.logits(&ids)).unwrap();
        let scores = rows.last().unwrap();
        let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let id = scores.iter().position(|score| *score == highest).unwrap() as u32;
        ids.push(id);
        answer.push(id);
        logprobs.push(-scores.iter().map(|score| (score - highest).exp()).sum::<f32>().ln());
    }
    (answer, logprobs, Finish::Length)
}

fn ways() -> Vec<Settings> {
    let of = |lanes, tokens, share, guess| Settings { lanes, tokens, share, guess, force: true };
    vec![
        Settings::default(),
        of(1, 256, false, 0),
        of(1, 7, true, 8),
        of(3, 5, true, 0),
        of(4, 40, true, 24),
        of(64, 1, false, 8),
    ]
}

/// Prompts of a common beginning, and one that has none.
fn prompts() -> Vec<Vec<u32>> {
    let shared: Vec<u32> = (0..30u32).map(|i| (i * 11 + 3) % 64).collect();
    let mut all: Vec<Vec<u32>> = (0..9u32)
        .map(|i| shared.iter().copied().chain((0..=i * 3 % 7).map(|j| (i * 13 + j * 7) % 64)).collect())
        .collect();
    all.insert(4, vec![9, 8, 7]);
    all
}

#[test]
fn every_way_of_working_gives_the_answers_of_reading_everything_anew() {
    for name in ["llama", "llama-tied", "qwen2", "qwen3"] {
        let (model, prompts, most) = (model(name), prompts(), 60);
        // A stop token that some answers reach soon and others late or never.
        let free: Vec<_> = prompts.iter().map(|prompt| slow(&model, prompt, most)).collect();
        let reach = |stop: &u32| free.iter().filter(|answer| answer.0.contains(stop)).count();
        let stop = (0..64).find(|stop| (2..prompts.len()).contains(&reach(stop))).unwrap();
        let tokenizer = words(stop);
        let cut = |(mut ids, mut logprobs, finish): (Vec<u32>, Vec<f32>, Finish)| {
            let Some(at) = ids.iter().position(|id| *id == stop) else { return (ids, logprobs, finish) };
            ids.truncate(at + 1);
            logprobs.truncate(at + 1);
            (ids, logprobs, Finish::Stop)
        };
        let expected: Vec<_> = free.into_iter().map(cut).collect();
        let requests: Vec<Request> = (prompts.iter())
            .map(|prompt| Request { prompt: prompt.clone(), grammar: None, max_new_tokens: most })
            .collect();
        let pen = Pen { tokenizer: &tokenizer, vocabulary: None, force: true };
        let mut all = vec![("composed".to_owned(), decode(&model, pen, &requests).unwrap())];
        for settings in ways() {
            let mut engine = Engine::new(&model, &tokenizer, settings.clone()).unwrap();
            all.push((format!("{settings:?}"), engine.answer(requests.clone()).unwrap()));
            // The prompt without relatives holds nothing; of the others most hold the beginning.
            assert_eq!(engine.tally().held > 0, settings.share, "{settings:?}: {:?}", engine.tally());
        }
        for (way, answers) in all {
            assert_eq!(answers.len(), expected.len());
            for (at, (ours, (ids, logprobs, finish))) in answers.iter().zip(&expected).enumerate() {
                assert_eq!((&ours.ids, ours.finish), (ids, *finish), "{name}, prompt {at}, {way}");
                for (a, b) in ours.logprobs.iter().zip(logprobs) {
                    assert!((a.unwrap() - b).abs() < 1e-3, "{name}, prompt {at}, {way}: {a:?} {b}");
                }
            }
        }
    }
}

#[test]
fn nothing_to_ask_and_nothing_to_write_are_answered_at_once() {
    let (model, tokenizer) = (model("llama"), words(5));
    let mut engine = Engine::new(&model, &tokenizer, Settings::default()).unwrap();
    assert!(engine.answer(Vec::new()).unwrap().is_empty());
    let none = Request { prompt: vec![3, 4], grammar: None, max_new_tokens: 0 };
    let empty = Request { prompt: Vec::new(), grammar: None, max_new_tokens: 9 };
    for answer in engine.answer(vec![none, empty]).unwrap() {
        assert!(answer.ids.is_empty() && answer.finish == Finish::Length);
    }
    assert_eq!(engine.tally().passes, 0);
}

fn schema() -> Schema {
    let kind =
        |label: &str| EntityType { label: label.into(), ..serde_json::from_value(json!({"label": ""})).unwrap() };
    Schema { entities: ["person", "place"].map(kind).into(), ..Schema::default() }
}

/// A random llama with an embedding for every byte.
fn of_bytes(vocab: usize) -> Model {
    let mut model = model("llama");
    let width = model.config.d_model;
    let numbers = |salt: usize| -> Vec<f32> {
        (0..vocab * width).map(|i| ((i * 7919 + salt) as f32 * 0.7391).sin() * 0.7).collect()
    };
    model.embed = Tensor::from_data(TensorData::new(numbers(1), [vocab, width]), &Device::flex());
    model.head = Tensor::from_data(TensorData::new(numbers(5), [width, vocab]), &Device::flex());
    model.config.vocab = vocab;
    model
}

#[test]
fn constrained_answers_read_without_repairs_whichever_way_they_were_written() {
    let merges = [("p", "e"), ("a", "n"), ("\"", ":"), ("\":", "["), ("[", "\""), ("{", "\"")];
    let merges: Vec<(String, String)> = merges.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let tokenizer = byte_level(
        &merges,
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}),
    );
    let model = of_bytes(tokenizer.vocab());
    let texts = ["Ann met Bob in Paris.", "王芳 said \"no\" to Ann, Ann and Bob", "It rained.", "x"];
    let requests: Vec<Request> = (texts.iter().cycle().zip([50, 24, 3, 0, 50, 9, 50]))
        .map(|(text, max_new_tokens)| Request {
            prompt: tokenizer.encode_text(&format!("Find all in: {text}\n")).unwrap(),
            grammar: Some(Arc::new(Grammar::entities(&schema(), text))),
            max_new_tokens,
        })
        .collect();
    let vocabulary = Vocabulary::of(&tokenizer).unwrap();
    let pen = Pen { tokenizer: &tokenizer, vocabulary: Some(&vocabulary), force: true };
    let expected = decode(&model, pen, &requests).unwrap();
    let (mut right, mut forced) = (0, 0);
    for settings in ways() {
        let mut engine = Engine::new(&model, &tokenizer, settings.clone()).unwrap();
        let answers = engine.answer(requests.clone()).unwrap();
        for ((ours, theirs), text) in answers.iter().zip(&expected).zip(texts.iter().cycle()) {
            assert_eq!((&ours.ids, &ours.text), (&theirs.ids, &theirs.text), "{settings:?}");
            let read = read_answer(&ours.text, Ended::Stop, text, &schema());
            assert!(read.repairs.is_empty() && read.error.is_none(), "{}: {read:?}", ours.text);
        }
        (right, forced) = (right + engine.tally().right, forced + engine.tally().forced);
        assert_eq!(engine.tally().closed, answers.iter().filter(|answer| answer.closed).count());
    }
    assert!(expected.iter().any(|answer| answer.closed) && right > 0 && forced > 0, "{right} {forced}: {expected:?}");
}

#[test]
fn a_grammar_is_refused_where_tokens_spell_no_text() {
    let (model, tokenizer) = (model("llama"), words(5));
    let mut engine = Engine::new(&model, &tokenizer, Settings::default()).unwrap();
    let grammar = Some(Arc::new(Grammar::entities(&schema(), "Ann")));
    let error = engine.answer(vec![Request { prompt: vec![1, 2], grammar, max_new_tokens: 4 }]).unwrap_err();
    assert!(error.to_string().contains("can be constrained"), "{error}");
}

#[test]
fn the_real_student_answers_alike_whichever_way_it_works() {
    let Some(path) = std::env::var_os("UNDERSTUDY_MODEL") else {
        println!("skipped: UNDERSTUDY_MODEL names no weights");
        return;
    };
    let student = Student::load(Path::new(&path), &Device::flex()).unwrap();
    let prompts = Prompts::new(schema());
    let texts = ["Ada Lovelace met Charles Babbage in London.", "It rained.", "Marie Curie left Warsaw for Paris."];
    let ask = |text: &&str| Request {
        prompt: student.tokenizer.prompt(&prompts.entities(text)).unwrap(),
        grammar: Some(Arc::new(Grammar::entities(&schema(), text))),
        max_new_tokens: 48,
    };
    let requests: Vec<Request> = texts.iter().map(ask).collect();
    let mut expected: Option<Vec<Generated>> = None;
    for settings in ways() {
        let mut engine = Engine::new(&student.model, &student.tokenizer, settings.clone()).unwrap();
        let answers = engine.answer(requests.clone()).unwrap();
        println!("{settings:?}: {:?}", engine.tally());
        let expected = expected.get_or_insert_with(|| answers.clone());
        for (ours, theirs) in answers.iter().zip(expected.iter()) {
            assert_eq!((&ours.ids, &ours.text), (&theirs.ids, &theirs.text), "{settings:?}");
        }
    }
}
