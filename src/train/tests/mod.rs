//! Training a random model of two layers on a made-up language of 58 words.

#![cfg(test)]

mod beginning;
mod devices;
mod diverging;
mod learning;
mod measuring;
mod resuming;
mod saving;

use super::*;
use crate::student::{Model, Student};
use crate::template::Message;
use burn::tensor::Device;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The random llama of `scripts/golden/student.py` (64 tokens, 128 positions) with a tokenizer.
fn student() -> Student {
    let home = tempfile::tempdir().unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(model.join(file), home.path().join(file)).unwrap();
    }
    let special = ["<s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"];
    let words: Vec<String> = ["[UNK]"].into_iter().chain(special).map(str::to_owned).collect();
    let words: Vec<String> = words.into_iter().chain((0..58).map(|i| format!("w{i}"))).collect();
    let vocab: BTreeMap<&String, usize> = words.iter().enumerate().map(|(id, word)| (word, id)).collect();
    let added: Vec<_> = (1..6)
        .map(|id| {
            json!({"id": id, "content": words[id], "special": true, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false})
        })
        .collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "decoder": null, "added_tokens": added, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
    });
    let template = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}\
                    {% if add_generation_prompt %}<|assistant|>{% endif %}";
    let config = json!({"bos_token": "<s>", "eos_token": "<|end|>", "chat_template": template});
    fs::write(home.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs::write(home.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    Student::load(home.path(), &Device::flex()).unwrap()
}

fn words(range: impl Iterator<Item = usize>) -> String {
    range.map(|i| format!("w{}", i % 58)).collect::<Vec<_>>().join(" ")
}

/// An item with an instruction of 40 words, a document, and an answer of `answer` words.
fn item(number: usize, answer: usize) -> Item {
    let document = words((0..3 + number % 5).map(|j| number * 7 + j * 3));
    let answer = words((0..answer).map(|j| number * 11 + j));
    let messages = vec![Message::system(words(0..40)), Message::user(document), Message::assistant(answer)];
    Item { name: format!("train.jsonl:{}", number + 1), messages, weight: 1.0, unlearned: vec![] }
}

/// Items with answers of one to nine words.
fn items(count: usize) -> Vec<Item> {
    (0..count).map(|number| item(number, 1 + number * 5 % 9)).collect()
}

fn config() -> TrainConfig {
    TrainConfig {
        num_epochs: 2,
        learning_rate: 1e-2,
        micro_batch_size: 2,
        gradient_accumulation_steps: 2,
        sequence_len: 128,
        evals_per_epoch: 0,
        save_steps: 0,
        lora: crate::student::LoraConfig { r: 4, alpha: 8.0, ..Default::default() },
        ..TrainConfig::default()
    }
}

/// Answers measurements from a list, stops after some lines, and remembers what it was told.
#[derive(Default)]
struct Script {
    metrics: Vec<Result<f64, String>>,
    stop_after: Option<usize>,
    measured: Vec<usize>,
    lines: Vec<LogLine>,
    notes: Vec<String>,
}

impl Hooks for Script {
    fn evaluate(&mut self, model: &Model, step: usize) -> Result<f64, String> {
        assert!(model.lora().is_some() && model.adapters().iter().all(|(_, factor)| !factor.is_autodiff()));
        self.measured.push(step);
        self.metrics[self.measured.len() - 1].clone()
    }

    fn log(&mut self, line: &LogLine) {
        self.lines.push(line.clone());
    }

    fn stopped(&self) -> bool {
        self.stop_after.is_some_and(|lines| self.lines.len() >= lines)
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

fn train(items: &[Item], config: &TrainConfig, dir: &Path) -> Fitted {
    fit(&student(), items, config, dir, "base", &Resume::Auto, &mut Script::default()).unwrap()
}

fn losses(fitted: &Fitted) -> Vec<f64> {
    fitted.log.iter().filter(|line| line.eval_f1.is_none()).map(|line| line.loss.unwrap_or(f64::NAN)).collect()
}

/// The file in which adapters and moments stand with all their bits.
fn state(dir: &Path, step: usize) -> Vec<u8> {
    fs::read(dir.join(format!("checkpoint-{step}/state.safetensors"))).unwrap()
}

fn checkpoints(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains("checkpoint-")).collect();
    names.sort();
    names
}

fn norms(fitted: &Fitted) -> Vec<f64> {
    let steps = fitted.log.iter().filter(|line| line.eval_f1.is_none());
    steps.map(|line| line.grad_norm.unwrap_or(f64::NAN)).collect()
}

fn adapter(dir: &Path, step: usize) -> Vec<u8> {
    fs::read(dir.join(format!("checkpoint-{step}/adapter_model.safetensors"))).unwrap()
}

/// All numbers of a checkpoint's adapter.
fn adapter_numbers(dir: &Path, step: usize) -> Vec<f64> {
    let path = dir.join(format!("checkpoint-{step}/adapter_model.safetensors"));
    let shard = crate::student::Shard::open(&path).unwrap();
    let mut names: Vec<&str> = shard.names().collect();
    names.sort();
    names.iter().flat_map(|name| shard.to_f32(name).unwrap()).map(f64::from).collect()
}

/// How far two lists are apart, relative to the length of the first.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let length = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    length(&mut a.iter().zip(b).map(|(a, b)| a - b)) / length(&mut a.iter().copied())
}

/// Six steps of two items, in two epochs, with dropout and a falling rate.
fn long() -> TrainConfig {
    TrainConfig {
        micro_batch_size: 1,
        num_epochs: 2,
        save_steps: 2,
        lora: crate::student::LoraConfig { dropout: 0.1, ..config().lora },
        ..config()
    }
}

fn go_on(dir: &Path, config: &TrainConfig, script: &mut dyn Hooks) -> Result<Fitted, TrainError> {
    go_on_from(dir, config, &Resume::Auto, script)
}

fn go_on_from(dir: &Path, config: &TrainConfig, resume: &Resume, script: &mut dyn Hooks) -> Result<Fitted, TrainError> {
    fit(&student(), &items(6), config, dir, "base", resume, script)
}

/// Copies a directory and what is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, place) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() { copy(&path, &place) } else { fs::copy(&path, &place).map(|_| ()).unwrap() }
    }
}
