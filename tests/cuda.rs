//! The golden tests on a GPU: numbers of `scripts/golden/student.py` (PyTorch, transformers, PEFT),
//! and what the CPU computes where there are none.
//!
//! `UNDERSTUDY_TEST_DEVICE` names the device, as `--device` does; without it `cuda` is tried, and
//! every test says that it was skipped where there is none. `cpu` runs the same operations as a GPU
//! would, in place of the CPU's own: that proves the tests.

#![allow(clippy::explicit_write, reason = "what eprintln writes is not shown where a test passes")]

use burn::tensor::{Device, Tensor};
use safetensors::SafeTensors;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use understudy::student::{LoraConfig, Model, Row, Student, Weights, device, share};
use understudy::template::Message;
use understudy::train::{Fitted, Hooks, Item, LogLine, Resume, TrainConfig, fit};

const MODELS: [&str; 4] = ["llama", "llama-tied", "qwen2", "qwen3"];

/// The device under test, or a line that says why there is none.
fn device() -> Option<Device> {
    let named = std::env::var("UNDERSTUDY_TEST_DEVICE").ok();
    match device::open(named.as_deref().unwrap_or("cuda")) {
        Ok(opened) => Some(opened.device),
        Err(error) => {
            assert!(named.is_none(), "{error}");
            // Not by `println!`, which shows nothing where a test passes.
            writeln!(std::io::stderr(), "skipped: {error}; UNDERSTUDY_TEST_DEVICE names another").unwrap();
            None
        }
    }
}

/// How far numbers may be from their reference, relative to the largest of them.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    scores: f32,
    loss: f32,
    gradients: f32,
}

impl Bounds {
    /// Of products in f32.
    fn plain(device: &Device) -> Bounds {
        match *device == Device::flex() {
            // Sums of f32 in another order: 1e-6.
            true => Bounds { scores: 1e-4, loss: 1e-4, gradients: 1e-4 },
            // On tensor cores, where autotune likes them, burn rounds the factors of f32 products to
            // TF32: 11 bits, an eighth of bf16's error below, but in attention and head as well.
            false => Bounds { scores: 1e-2, loss: 5e-3, gradients: 5e-2 },
        }
    }

    /// Of products in bf16: 8 bits, a rounding of 2^-9 before and behind each of fourteen products.
    /// The CPU's figures on these models, and the bounds of its own test, are the same.
    fn rounded() -> Bounds {
        Bounds { scores: 3e-2, loss: 2e-2, gradients: 0.2 }
    }
}

fn golden(name: &str) -> PathBuf {
    // Known at run time too: `scripts/gpu.sh` carries the compiled tests to another machine.
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&root).join("tests/golden").join(name)
}

/// A tensor that PyTorch wrote; `tokens` has numbers of eight bytes.
fn written(model: &str, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(golden(model).join("golden.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let data = file.tensor(name).unwrap().data().to_vec();
    data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn tokens(model: &str) -> Vec<u32> {
    let bytes = std::fs::read(golden(model).join("golden.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let data = file.tensor("tokens").unwrap().data().to_vec();
    data.chunks_exact(8).map(|b| b[0].into()).collect()
}

/// The model as a GPU computes it, whatever the device.
fn load(model: &str, device: &Device) -> Model {
    Model::load(Weights::open(&golden(model)).unwrap(), device).unwrap().0.composed()
}

fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data().try_into_vec().unwrap()
}

/// The largest difference, relative to the largest number.
fn apart(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let most = theirs.iter().fold(0f32, |most, x| most.max(x.abs()));
    assert!(most > 1e-3 && ours.iter().all(|x| x.is_finite()), "nothing to compare");
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / most
}

fn check(what: &str, found: f32, most: f32) {
    writeln!(std::io::stderr(), "{what}: {found:.1e} of at most {most:.0e}").unwrap();
    assert!(found <= most, "{what}: {found}, expected at most {most}");
}

#[test]
fn logits_of_every_family_are_those_of_transformers() {
    let Some(device) = device() else { return };
    for name in MODELS {
        let (model, theirs) = (load(name, &device), written(name, "logits"));
        let of = |model: &Model| apart(&numbers(model.logits(&tokens(name))), &theirs);
        check(&format!("{name}: logits"), of(&model), Bounds::plain(&device).scores);
        check(&format!("{name}: logits in bf16"), of(&model.clone().in_bf16()), Bounds::rounded().scores);
        // The way every device of several gets its copy.
        let carried = load(name, &Device::flex()).on(&device);
        assert_eq!(carried.device(), &device);
        check(&format!("{name}: logits of a copy"), of(&carried), Bounds::plain(&device).scores);
    }
}

#[test]
fn loss_and_gradients_of_an_adapter_are_those_of_peft() {
    let Some(device) = device() else { return };
    let (model, _) = load("llama", &device).with_peft(&golden("llama/adapter")).unwrap();
    let ids = tokens("llama");
    let (prefix, rows) = share(&[(&ids[..], 7..12)]);
    for (dtype, model, bounds) in
        [("f32", model.clone(), Bounds::plain(&device)), ("bf16", model.in_bf16(), Bounds::rounded())]
    {
        let scores = apart(&numbers(model.logits(&ids)), &written("llama", "adapted_logits"));
        check(&format!("adapted logits, {dtype}"), scores, bounds.scores);
        let merged = apart(&numbers(model.merged().logits(&ids)), &written("llama", "adapted_logits"));
        check(&format!("merged logits, {dtype}"), merged, bounds.scores);
        let tracked = model.tracked();
        let loss = tracked.loss_sum(prefix, &rows, None).unwrap();
        check(&format!("loss, {dtype}"), apart(&numbers(loss.clone()), &written("llama", "loss")), bounds.loss);
        let grads = loss.backward();
        let mut worst = 0f32;
        for (name, factor) in tracked.adapters() {
            // Adapters and their gradients are f32 whatever the weights are: the numbers are read as such.
            let gradient = numbers(factor.grad(&grads).expect("every factor has a gradient").transpose());
            worst = worst.max(apart(&gradient, &written("llama", &format!("grad.{name}"))));
        }
        check(&format!("gradients, {dtype}"), worst, bounds.gradients);
    }
}

#[test]
fn what_is_computed_again_is_the_same() {
    let Some(device) = device() else { return };
    for name in MODELS {
        let model = load(name, &device).adapted(&LoraConfig::default(), 1).unwrap();
        let filled = model.adapters().into_iter().map(|(_, factor)| factor + 0.01).collect();
        let model = model.with_adapters(filled).unwrap();
        let (kept, again) = (learned(&model), learned(&model.clone().recomputing(true)));
        let bounds = Bounds::plain(&device);
        check(&format!("{name}: loss, computed again"), (again.0 / kept.0 - 1.0).abs(), bounds.loss);
        let worst = again.1.iter().zip(&kept.1).map(|(ours, theirs)| apart(ours, theirs)).fold(0.0, f32::max);
        check(&format!("{name}: gradients, computed again"), worst, bounds.gradients);
    }
}

/// Loss and gradients of rows that share a prefix.
fn learned(model: &Model) -> (f32, Vec<Vec<f32>>) {
    let rows: [&[u32]; 3] = [&[8, 22, 22, 50], &[9, 10, 11, 12, 13, 14, 63], &[9, 2]];
    let row = |ids: &'static [u32]| Row { ids, supervised: 1..ids.len(), weight: 1.0, unlearned: vec![] };
    let tracked = model.tracked();
    let loss = tracked.loss_sum(&[3, 17, 40, 5, 61], &rows.map(row), None).unwrap();
    let grads = loss.backward();
    let gradients = tracked.adapters().into_iter().map(|(_, factor)| numbers(factor.grad(&grads).unwrap())).collect();
    (numbers(loss)[0], gradients)
}

#[test]
fn a_batch_behind_a_prefix_is_learned_as_on_the_cpu() {
    let Some(device) = device() else { return };
    for name in MODELS {
        let adapted = |device: &Device| {
            let model = Model::load(Weights::open(&golden(name)).unwrap(), device).unwrap().0;
            let model = model.adapted(&LoraConfig::default(), 1).unwrap();
            let filled = model.adapters().into_iter().map(|(_, factor)| factor + 0.01).collect();
            model.with_adapters(filled).unwrap()
        };
        let (ours, theirs) = (learned(&adapted(&device).composed()), learned(&adapted(&Device::flex())));
        let bounds = Bounds::plain(&device);
        check(&format!("{name}: loss"), (ours.0 / theirs.0 - 1.0).abs(), bounds.loss);
        let worst = ours.1.iter().zip(&theirs.1).map(|(ours, theirs)| apart(ours, theirs)).fold(0.0, f32::max);
        check(&format!("{name}: gradients"), worst, bounds.gradients);
    }
}

/// The random llama of `scripts/golden/student.py` with a vocabulary of 58 words.
fn student(home: &Path, device: &Device) -> Student {
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden("llama").join(file), home.join(file)).unwrap();
    }
    let special = ["<s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"];
    let words = ["[UNK]"].into_iter().chain(special).map(str::to_owned).chain((0..58).map(|i| format!("w{i}")));
    let vocab: BTreeMap<String, usize> = words.zip(0..).collect();
    let added = |(content, id): (&str, usize)| {
        json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "decoder": null, "added_tokens": special.into_iter().zip(1..).map(added).collect::<Vec<_>>(),
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
    });
    let template = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}\
                    {% if add_generation_prompt %}<|assistant|>{% endif %}";
    let config = json!({"bos_token": "<s>", "eos_token": "<|end|>", "chat_template": template});
    std::fs::write(home.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(home.join("tokenizer_config.json"), config.to_string()).unwrap();
    Student::load(home, device).unwrap()
}

fn words(from: usize, count: usize) -> String {
    (0..count).map(|i| format!("w{}", (from + i * 3) % 58)).collect::<Vec<_>>().join(" ")
}

struct Silent;

impl Hooks for Silent {
    fn evaluate(&mut self, _: &Model, _: usize) -> Result<f64, String> {
        Err("not asked for".into())
    }

    fn log(&mut self, _: &LogLine) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// One step of four conversations; loss, norm of the gradient, and the adapters behind it.
fn step(student: &Student, config: &TrainConfig) -> (f64, f64, Vec<f32>) {
    let item = |number: usize| Item {
        name: format!("conversation {number}"),
        messages: vec![
            Message::system(words(0, 40)),
            Message::user(words(number * 7, 3 + number)),
            Message::assistant(words(number * 11, 2 + number)),
        ],
        weight: 1.0,
        unlearned: vec![],
    };
    let items: Vec<Item> = (0..4).map(item).collect();
    let home = tempfile::tempdir().unwrap();
    let Fitted { last_checkpoint, log, .. } =
        fit(student, &items, config, home.path(), "tiny", &Resume::Anew, &mut Silent).unwrap();
    let (model, _) = student.model.clone().with_peft(&last_checkpoint).unwrap();
    let adapters = model.adapters().into_iter().flat_map(|(_, factor)| numbers(factor)).collect();
    (log[0].loss.unwrap(), log[0].grad_norm.unwrap(), adapters)
}

#[test]
fn a_training_step_ends_where_that_of_the_cpu_ends() {
    let Some(device) = device() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut student = student(home.path(), &device);
    student.model = student.model.composed();
    let reference = self::student(home.path(), &Device::flex());
    let base = TrainConfig {
        max_steps: Some(1),
        learning_rate: 0.5,
        warmup_ratio: 0.0,
        // As large as the gradients: the update is nearly proportional to them, and the sign of one
        // that is nearly 0 decides nothing.
        adam_epsilon: 1.0,
        micro_batch_size: 2,
        gradient_accumulation_steps: 2,
        evals_per_epoch: 0,
        sequence_len: 128,
        lora: LoraConfig { r: 4, alpha: 8.0, ..LoraConfig::default() },
        ..TrainConfig::default()
    };
    let theirs = step(&reference, &base);
    let before: Vec<f32> = {
        let fresh = reference.model.clone().adapted(&base.lora, base.seed).unwrap();
        fresh.adapters().into_iter().flat_map(|(_, factor)| numbers(factor)).collect()
    };
    let moved = |to: &[f32]| to.iter().zip(&before).map(|(to, from)| to - from).collect::<Vec<f32>>();
    for (dtype, bf16, bounds) in [("f32", false, Bounds::plain(&device)), ("bf16", true, Bounds::rounded())] {
        let ours = step(&student, &TrainConfig { bf16, ..base.clone() });
        check(&format!("loss, {dtype}"), (ours.0 / theirs.0 - 1.0).abs() as f32, bounds.loss);
        check(&format!("norm of the gradient, {dtype}"), (ours.1 / theirs.1 - 1.0).abs() as f32, bounds.gradients);
        check(&format!("update, {dtype}"), apart(&moved(&ours.2), &moved(&theirs.2)), bounds.gradients);
    }
}

#[test]
fn greedy_answers_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut student = student(home.path(), &device);
    student.model = student.model.composed();
    let reference = self::student(home.path(), &Device::flex());
    let ask = |number: usize| {
        let messages = [Message::system(words(0, 20)), Message::user(words(number * 7, 3 + number % 5))];
        student.tokenizer.prompt(&messages).unwrap()
    };
    let prompts: Vec<Vec<u32>> = (0..9).map(ask).collect();
    let (ours, theirs) = (student.generate(&prompts, 24).unwrap(), reference.generate(&prompts, 24).unwrap());
    assert!(theirs.iter().map(|answer| answer.ids.len()).sum::<usize>() > 60, "too short to compare");
    let (mut same, mut all) = (0, 0);
    for ((prompt, ours), theirs) in prompts.iter().zip(&ours).zip(&theirs) {
        let common = ours.ids.iter().zip(&theirs.ids).take_while(|(a, b)| a == b).count();
        (same, all) = (same + common, all + theirs.ids.len());
        if let (Some(a), Some(b)) = (ours.ids.get(common), theirs.ids.get(common)) {
            // Only where two tokens are equally likely, up to rounding, may the other one win.
            let read = [&prompt[..], &theirs.ids[..common]].concat();
            let scores = numbers(reference.model.logits_at(&reference.model.states(&read), &[read.len() - 1]));
            let most = scores.iter().fold(0f32, |most, x| most.max(x.abs()));
            let gap = (scores[*b as usize] - scores[*a as usize]) / most;
            check("a likelier token was passed over by", gap, 2.0 * Bounds::plain(&device).scores);
        } else {
            assert_eq!((ours.ids.len(), ours.finish), (theirs.ids.len(), theirs.finish));
        }
    }
    writeln!(std::io::stderr(), "greedy: {same} of {all} tokens before the first difference").unwrap();
    assert!(same * 2 > all, "{same} of {all}");
}

#[test]
fn two_gpus_learn_what_one_learns() {
    let Some(device) = device() else { return };
    if let Err(error) = device::side_by_side(&device, 2) {
        writeln!(std::io::stderr(), "skipped: {error}").unwrap();
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mut student = student(home.path(), &device);
    student.model = student.model.composed();
    let config = TrainConfig {
        max_steps: Some(1),
        warmup_ratio: 0.0,
        adam_epsilon: 1.0,
        micro_batch_size: 1,
        gradient_accumulation_steps: 4,
        evals_per_epoch: 0,
        sequence_len: 128,
        ..TrainConfig::default()
    };
    let (alone, both) = (step(&student, &config), step(&student, &TrainConfig { devices: 2, ..config.clone() }));
    let bounds = Bounds::plain(&device);
    check("loss of two", (both.0 / alone.0 - 1.0).abs() as f32, bounds.loss);
    check("adapters of two", apart(&both.2, &alone.2), bounds.scores);
}
