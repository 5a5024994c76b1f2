//! What a run begins with, and what is known of it before it begins.

use super::*;
use crate::student::LoraConfig;

/// The factors that `config` draws, as a PEFT directory.
fn drawn(config: &TrainConfig, dir: &Path) -> InitAdapter {
    let model = student().model.adapted(&config.lora, config.seed).unwrap();
    model.write_adapter(dir, "base").unwrap();
    let sha256 = crate::store::hash_file(&dir.join("adapter_model.safetensors")).unwrap();
    InitAdapter { dir: dir.to_owned(), sha256 }
}

#[test]
fn a_run_that_begins_with_written_factors_is_that_which_draws_them() {
    let home = tempfile::tempdir().unwrap();
    let plain = TrainConfig { lora: LoraConfig { dropout: 0.1, ..config().lora }, ..config() };
    let straight = train(&items(6), &plain, &home.path().join("drawn"));
    let init = drawn(&plain, &home.path().join("init"));
    let config = TrainConfig { init_adapter: Some(init), ..plain.clone() };
    let begun = train(&items(6), &config, &home.path().join("begun"));
    assert_eq!(losses(&straight), losses(&begun));
    assert!(adapter(&home.path().join("drawn"), 4) == adapter(&home.path().join("begun"), 4));

    // Other factors give other losses: those of the trained adapter, from the first step on.
    let trained = InitAdapter { dir: straight.last_checkpoint.clone(), sha256: "trained".into() };
    let config = TrainConfig { init_adapter: Some(trained), ..plain };
    let again = train(&items(6), &config, &home.path().join("again"));
    assert!(losses(&again)[0] < losses(&straight)[0] - 0.1, "{:?} {:?}", losses(&again), losses(&straight));
}

#[test]
fn an_adapter_of_another_form_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let init = drawn(&config(), &home.path().join("init"));
    let lora = config().lora;
    let fewer: Vec<String> = lora.targets.iter().filter(|name| *name != "v_proj").cloned().collect();
    let cases = [
        (
            LoraConfig { r: 8, ..lora.clone() },
            "expected [32, 8] scaled by 1, as [lora] says, found [32, 4] scaled by 2",
        ),
        (LoraConfig { alpha: 16.0, ..lora.clone() }, "expected [32, 4] scaled by 4, as [lora] says, found [32, 4]"),
        (LoraConfig { rslora: true, ..lora.clone() }, "scaled by 4, as [lora] says"),
        (LoraConfig { targets: fewer, ..lora }, "holds model.layers.0.self_attn.v_proj.lora_A.weight, which"),
    ];
    let run = |config: TrainConfig| {
        let dir = home.path().join("run");
        let script = &mut Script::default();
        fit(&student(), &items(6), &config, &dir, "base", &Resume::Auto, script).unwrap_err().to_string()
    };
    for (lora, says) in cases {
        let said = run(TrainConfig { init_adapter: Some(init.clone()), lora, ..config() });
        assert!(said.starts_with("E210: train.init_adapter ") && said.contains(says), "{says}: {said}");
        assert!(said.ends_with("make [lora] that of the adapter, or leave train.init_adapter out"), "{said}");
    }
    let part = TrainConfig { lora: LoraConfig { targets: vec!["q_proj".into()], ..config().lora }, ..config() };
    let part = drawn(&part, &home.path().join("part"));
    let said = run(TrainConfig { init_adapter: Some(part), ..config() });
    assert!(said.contains("it lacks model.layers.0.self_attn.k_proj.lora_A.weight, which"), "{said}");
    let nowhere = InitAdapter { dir: home.path().join("nowhere"), sha256: String::new() };
    let said = run(TrainConfig { init_adapter: Some(nowhere), ..config() });
    assert!(said.contains("E210") && said.contains("nowhere") && said.contains("not found"), "{said}");
}

#[test]
fn what_is_foreseen_is_what_is_learned() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { excess_length: ExcessLength::Drop, sequence_len: 80, ..config() };
    let mut items = items(13);
    items[2].weight = 0.0;
    items[5] = item(5, 60);
    let foreseen = foresee(&student(), &items, &config).unwrap();
    assert_eq!(foreseen.left_out, ["train.jsonl:6", "train.jsonl:3"]);
    assert_eq!((foreseen.items, foreseen.steps_per_epoch, foreseen.steps.len()), (11, 3, 6));
    let fitted = train(&items, &config, home.path());
    assert_eq!(fitted.steps, foreseen.steps.len());
    assert_eq!(fitted.supervised_tokens, 2 * foreseen.supervised_tokens as u64);
    assert_eq!(fitted.log.last().unwrap().total_tokens, 2 * foreseen.tokens as u64);
    // The tokens of every step are those of the items that it names.
    let tokenized = preflight(&student(), &items, &config).unwrap().items;
    let length = |name: &String| tokenized.iter().find(|item| item.name == *name).unwrap().ids.len() as u64;
    let mut seen = 0;
    for (line, step) in fitted.log.iter().zip(&foreseen.steps) {
        seen += step.iter().map(length).sum::<u64>();
        assert_eq!(line.total_tokens, seen);
    }
    let all: std::collections::BTreeSet<&String> = foreseen.steps[..3].iter().flatten().collect();
    assert_eq!(all.len(), 11, "an epoch holds every item once");
}
