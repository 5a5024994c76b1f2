//! Measurements on the way: early stop, and the files in which tools read how a run went.

use super::*;
use serde_json::Value;

fn patient(patience: usize) -> TrainConfig {
    TrainConfig { evals_per_epoch: 3, early_stopping_patience: patience, ..long() }
}

fn script(metrics: &[f64]) -> Script {
    Script { metrics: metrics.iter().copied().map(Ok).collect(), ..Script::default() }
}

#[test]
fn a_run_ends_when_the_metric_has_not_risen_for_as_long_as_patience_lasts() {
    let home = tempfile::tempdir().unwrap();
    let mut told = script(&[0.2, 0.5, 0.5, 0.1]);
    let fitted = go_on(home.path(), &patient(2), &mut told).unwrap();
    assert_eq!((fitted.steps, fitted.best_step, fitted.stopped_early), (4, 2, true));
    assert!(told.notes.last().unwrap().starts_with("step 4: 2 measurements in a row were not better"));
    assert_eq!(fitted.last_checkpoint, home.path().join("checkpoint-4"));
    assert!(checkpoints(home.path()).contains(&"checkpoint-4".into()));
    // Over is over.
    let again = go_on(home.path(), &patient(2), &mut script(&[])).unwrap();
    assert_eq!((again.steps, again.resumed_from, again.stopped_early), (4, Some(4), true));
    // With more patience it goes on, as if it had never stopped.
    let mut rest = script(&[0.3, 0.6]);
    let fitted = go_on(home.path(), &patient(9), &mut rest).unwrap();
    assert_eq!((&rest.measured[..], fitted.best_step, fitted.stopped_early), (&[5, 6][..], 6, false));
    let straight = home.path().join("straight");
    go_on(&straight, &patient(0), &mut script(&[0.2, 0.5, 0.5, 0.1, 0.3, 0.6])).unwrap();
    assert!(state(&straight, 6) == state(home.path(), 6));
}

#[test]
fn patience_is_counted_across_a_resumption_and_a_gain_starts_it_anew() {
    let home = tempfile::tempdir().unwrap();
    // A line per step and one per measurement: stopped behind the third measurement.
    let mut first = Script { stop_after: Some(6), ..script(&[0.5, 0.4, 0.6]) };
    go_on(home.path(), &patient(2), &mut first).unwrap_err();
    let fitted = go_on(home.path(), &patient(2), &mut script(&[0.6, 0.6])).unwrap();
    assert_eq!((fitted.steps, fitted.best_step), (5, 3));
    // What is better by less than the threshold is the best, and no gain.
    let config = TrainConfig { early_stopping_threshold: 0.05, ..patient(2) };
    let fitted = go_on(&home.path().join("threshold"), &config, &mut script(&[0.5, 0.52, 0.54])).unwrap();
    assert_eq!((fitted.steps, fitted.best_step, fitted.best_metric), (3, 3, Some(0.54)));
}

#[test]
fn the_trainers_state_has_the_fields_of_transformers_and_a_number_wherever_there_is_one() {
    let home = tempfile::tempdir().unwrap();
    let mut items = items(6);
    items[3].weight = f32::MAX;
    let config = TrainConfig { evals_per_epoch: 1, num_epochs: 1, gradient_accumulation_steps: 1, ..long() };
    let mut script = script(&[0.25]);
    let fitted = fit(&student(), &items, &config, home.path(), "base", &Resume::Auto, &mut script).unwrap();
    assert_eq!(fitted.skipped, 1);
    let read = |path: &str| -> Value { serde_json::from_slice(&fs::read(home.path().join(path)).unwrap()).unwrap() };
    let state = read("trainer_state.json");
    // transformers 5.24, trainer_callback.py, TrainerState; it takes no other.
    let fields = [
        "best_global_step",
        "best_metric",
        "best_model_checkpoint",
        "epoch",
        "eval_steps",
        "global_step",
        "is_hyper_param_search",
        "is_local_process_zero",
        "is_world_process_zero",
        "log_history",
        "logging_steps",
        "max_steps",
        "num_input_tokens_seen",
        "num_train_epochs",
        "save_steps",
        "stateful_callbacks",
        "total_flos",
        "train_batch_size",
        "trial_name",
        "trial_params",
    ];
    assert_eq!(state.as_object().unwrap().keys().collect::<Vec<_>>(), fields);
    let expected = json!({"best_global_step": 6, "best_metric": 0.25, "best_model_checkpoint": "checkpoint-6",
        "epoch": 1.0, "eval_steps": 6, "global_step": 6, "max_steps": 6, "num_train_epochs": 1, "train_batch_size": 1,
        "num_input_tokens_seen": fitted.log[5].total_tokens, "save_steps": 2});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&state[key], value, "{key}");
    }
    // Two layers: q and o 32 by 64, k and v 32 by 32, three of 32 by 48; six operations a weight and token.
    let weights = 2 * (2 * 32 * 64 + 2 * 32 * 32 + 3 * 32 * 48);
    assert_eq!(state["total_flos"], json!(6.0 * f64::from(weights) * fitted.log[5].total_tokens as f64));
    let history = state["log_history"].as_array().unwrap();
    assert_eq!(history.len(), 8, "six steps, a measurement, a summary");
    let keys = |entry: &Value| entry.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let with_loss = history.iter().filter(|entry| keys(entry) == "epoch grad_norm learning_rate loss step").count();
    let without = history.iter().filter(|entry| keys(entry) == "epoch learning_rate step").count();
    assert_eq!((with_loss, without, keys(&history[6])), (5, 1, "epoch eval_f1 step".into()));
    assert_eq!(keys(&history[7]), "epoch step total_flos train_loss train_runtime train_steps_per_second");
    assert!(history.iter().all(|entry| entry.as_object().unwrap().values().all(Value::is_number)));
    // The one in the checkpoint ends with the measurement.
    assert_eq!(read("checkpoint-6/trainer_state.json")["log_history"].as_array().unwrap()[..], history[..7]);
    // LLaMA-Factory's names, in each line.
    let log = fs::read_to_string(home.path().join("trainer_log.jsonl")).unwrap();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        for key in ["current_steps", "total_steps", "lr", "epoch", "percentage", "throughput", "total_tokens"] {
            assert!(line[key].is_number(), "{key}: {line}");
        }
        assert!(line["elapsed_time"].is_string() && line["remaining_time"].is_string(), "{line}");
        assert!(line.as_object().unwrap().contains_key("loss"), "{line}");
    }
}

#[test]
fn the_event_files_of_a_resumed_run_say_what_its_log_says() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { tensorboard: Some(home.path().join("runs")), ..long() };
    go_on(home.path(), &config, &mut Script { stop_after: Some(3), ..Script::default() }).unwrap_err();
    let fitted = go_on(home.path(), &config, &mut Script::default()).unwrap();
    let mut paths: Vec<_> = fs::read_dir(home.path().join("runs")).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 2, "one file a process");
    let all = paths.iter().flat_map(|path| fs::read(path).unwrap()).collect::<Vec<u8>>();
    // Each loss stands behind its tag, as the bits of an f32.
    let behind: Vec<f32> = (0..all.len() - 15)
        .filter(|at| all[*at..].starts_with(b"train/loss\x15"))
        .map(|at| f32::from_le_bytes(all[at + 11..at + 15].try_into().unwrap()))
        .collect();
    assert_eq!(behind, losses(&fitted).iter().map(|loss| *loss as f32).collect::<Vec<_>>());
    // Without the option there is nothing.
    let plain = home.path().join("plain");
    go_on(&plain, &long(), &mut Script::default()).unwrap();
    assert!(!plain.join("runs").exists());
}
