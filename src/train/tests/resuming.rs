//! What is saved: a run that was stopped, killed or damaged ends in the same bytes.

use super::*;
use crate::student::LoraConfig;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Twelve steps of two, in two epochs, with dropout and a falling rate.
fn long() -> TrainConfig {
    TrainConfig {
        micro_batch_size: 1,
        num_epochs: 2,
        save_steps: 2,
        lora: LoraConfig { dropout: 0.1, ..config().lora },
        ..config()
    }
}

fn adapter(dir: &Path, step: usize) -> Vec<u8> {
    fs::read(dir.join(format!("checkpoint-{step}/adapter_model.safetensors"))).unwrap()
}

fn go_on(dir: &Path, config: &TrainConfig, script: &mut Script) -> Result<Fitted, TrainError> {
    fit(&student(), &items(6), config, dir, "base", script)
}

#[test]
fn a_stopped_run_goes_on_to_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    let (straight, resumed) = (home.path().join("straight"), home.path().join("resumed:0.6b"));
    let whole = go_on(&straight, &long(), &mut Script::default()).unwrap();
    assert_eq!((whole.steps, whole.resumed_from, whole.best_step), (6, None, 6));
    let mut script = Script { stop_after: Some(3), ..Script::default() };
    let stopped = go_on(&resumed, &long(), &mut script).unwrap_err();
    assert!(matches!(stopped, TrainError::Stopped { step: 3 }), "{stopped}");
    let rest = go_on(&resumed, &long(), &mut Script::default()).unwrap();
    assert_eq!((rest.steps, rest.resumed_from), (6, Some(3)));
    assert!(adapter(&straight, 6) == adapter(&resumed, 6) && state(&straight, 6) == state(&resumed, 6));
    assert_eq!(losses(&whole), losses(&rest));
    assert_eq!(whole.supervised_tokens, rest.supervised_tokens);
    let lines: Vec<LogLine> = crate::store::read_jsonl(&resumed.join("trainer_log.jsonl")).unwrap();
    assert_eq!(lines, rest.log);
    assert_eq!(lines.iter().map(|line| line.current_steps).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    // Once more finds nothing to do.
    let mut script = Script::default();
    assert_eq!(go_on(&resumed, &long(), &mut script).unwrap().resumed_from, Some(6));
    assert!(script.lines.is_empty());
}

#[test]
fn a_killed_run_goes_on_from_the_last_whole_checkpoint_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    let (straight, killed) = (home.path().join("straight"), home.path().join("killed"));
    go_on(&straight, &long(), &mut Script::default()).unwrap();
    go_on(&killed, &long(), &mut Script { stop_after: Some(5), ..Script::default() }).unwrap_err();
    assert_eq!(checkpoints(&killed), ["checkpoint-4", "checkpoint-5"]);
    // What a kill or a bad disk leaves: half a checkpoint, a changed file, half a line.
    fs::create_dir(killed.join(".checkpoint-6.partial")).unwrap();
    fs::create_dir(killed.join("..checkpoint-6.partial.partial-99")).unwrap();
    fs::create_dir(killed.join("checkpoint-7")).unwrap();
    let path = killed.join("checkpoint-5/state.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::write(killed.join("trainer_log.jsonl"), "{\"current_st").unwrap();
    let mut script = Script::default();
    let fitted = go_on(&killed, &long(), &mut script).unwrap();
    assert_eq!(fitted.resumed_from, Some(4));
    assert_eq!(script.notes.len(), 2);
    assert!(script.notes[0].contains("checkpoint-7: passed over: it has no COMPLETE"), "{:?}", script.notes);
    assert!(script.notes[1].contains("state.safetensors was changed"), "{:?}", script.notes);
    assert!(adapter(&straight, 6) == adapter(&killed, 6) && state(&straight, 6) == state(&killed, 6));
    assert_eq!(fitted.log.len(), 6);
    // The damaged ones are left alone, and count for nothing.
    assert_eq!(checkpoints(&killed), ["checkpoint-4", "checkpoint-5", "checkpoint-6", "checkpoint-7"]);
}

#[test]
fn a_run_killed_at_any_moment_ends_in_the_same_bytes() {
    const DIRECTORY: &str = "UNDERSTUDY_TEST_KILLED_RUN";
    let config = TrainConfig { save_steps: 1, ..long() };
    if let Some(dir) = std::env::var_os(DIRECTORY) {
        // The process that is killed is this very test.
        go_on(Path::new(&dir), &config, &mut Script::default()).unwrap();
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (straight, killed) = (home.path().join("straight"), home.path().join("killed"));
    go_on(&straight, &config, &mut Script::default()).unwrap();
    let start = |dir: &Path| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = "train::tests::resuming::a_run_killed_at_any_moment_ends_in_the_same_bytes";
        command.args([name, "--exact"]).env(DIRECTORY, dir).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let began = Instant::now();
    assert!(start(&home.path().join("timed")).wait().unwrap().success());
    let whole = began.elapsed();
    // Moments all over a run; whoever survives had less to do than a whole run.
    let mut hit = 0;
    for part in [50u32, 30, 60, 40, 70, 35, 80, 45] {
        let mut child = start(&killed);
        std::thread::sleep((whole * part / 100).max(Duration::from_millis(1)));
        child.kill().unwrap();
        hit += usize::from(!child.wait().unwrap().success());
    }
    assert!(hit > 0, "every run ended before it was killed");
    let last = go_on(&killed, &config, &mut Script::default()).unwrap();
    assert_eq!((last.steps, last.log.len()), (6, 6));
    assert!(adapter(&straight, 6) == adapter(&killed, 6) && state(&straight, 6) == state(&killed, 6));
}

#[test]
fn a_failed_save_leaves_the_checkpoint_before_it() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("checkpoint-4"), "a file where a directory belongs").unwrap();
    let error = go_on(home.path(), &long(), &mut Script::default()).unwrap_err();
    assert!(error.to_string().contains("checkpoint-4"), "{error}");
    assert_eq!(checkpoints(home.path()), ["checkpoint-2", "checkpoint-4"]);
    fs::remove_file(home.path().join("checkpoint-4")).unwrap();
    assert_eq!(go_on(home.path(), &long(), &mut Script::default()).unwrap().resumed_from, Some(2));
}

#[test]
fn a_checkpoint_of_another_config_or_of_other_items_is_not_taken_up() {
    let home = tempfile::tempdir().unwrap();
    let stop = || Script { stop_after: Some(2), ..Script::default() };
    go_on(home.path(), &long(), &mut stop()).unwrap_err();
    // How often one saves does not matter.
    let mut script = Script { stop_after: Some(0), ..Script::default() };
    go_on(home.path(), &TrainConfig { save_steps: 3, ..long() }, &mut script).unwrap_err();
    assert!(script.notes.is_empty());
    let other = TrainConfig { seed: 7, ..long() };
    let mut script = stop();
    go_on(home.path(), &other, &mut script).unwrap_err();
    assert!(script.notes[0].contains("checkpoint-2: passed over: it was trained with another config"));
    assert_eq!(script.lines[0].current_steps, 1);
    let mut script = stop();
    fit(&student(), &items(5), &other, home.path(), "base", &mut script).unwrap_err();
    assert!(script.notes[0].contains("on other items"), "{:?}", script.notes);
}

#[test]
fn the_best_checkpoint_is_kept_and_a_tie_keeps_the_earlier() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { evals_per_epoch: 3, save_steps: 1, ..long() };
    let metrics = [0.2, 0.5, 0.5, 0.1, 0.4, 0.5].map(Ok).to_vec();
    let mut script = Script { metrics, ..Script::default() };
    let fitted = go_on(home.path(), &config, &mut script).unwrap();
    assert_eq!(script.measured, [1, 2, 3, 4, 5, 6]);
    assert_eq!((fitted.best_step, fitted.best_metric), (2, Some(0.5)));
    assert_eq!(checkpoints(home.path()), ["checkpoint-2", "checkpoint-5", "checkpoint-6"]);
    assert_eq!(fitted.best_checkpoint, home.path().join("checkpoint-2"));
    let best = best_model(&student(), &fitted).unwrap();
    assert_eq!(best.lora().unwrap().r, 4);
    let state: serde_json::Value =
        serde_json::from_slice(&fs::read(home.path().join("trainer_state.json")).unwrap()).unwrap();
    assert_eq!(state["best_model_checkpoint"], "checkpoint-2");
    assert_eq!((&state["global_step"], &state["max_steps"]), (&json!(6), &json!(6)));
    assert_eq!(state["log_history"].as_array().unwrap().len(), 12);
    assert_eq!(fitted.log.iter().filter_map(|line| line.eval_f1).count(), 6);
    // Without its best, the last one is no place to go on from.
    fs::remove_dir_all(home.path().join("checkpoint-2")).unwrap();
    let mut script = Script { stop_after: Some(0), ..Script::default() };
    let stopped = go_on(home.path(), &config, &mut script).unwrap_err();
    assert!(matches!(stopped, TrainError::Stopped { step: 0 }), "{stopped}");
    assert!(script.notes[0].contains("checkpoint-2, its best, is not whole"), "{:?}", script.notes);
}

#[test]
fn a_failed_measurement_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { evals_per_epoch: 1, save_steps: 0, ..long() };
    let mut script = Script { metrics: vec![Err("the validation split is gone".into())], ..Script::default() };
    let error = go_on(home.path(), &config, &mut script).unwrap_err();
    assert_eq!(error.to_string(), "evaluation at step 3: the validation split is gone");
    let mut script = Script { metrics: vec![Ok(0.3), Ok(0.2)], ..Script::default() };
    let fitted = go_on(home.path(), &config, &mut script).unwrap();
    assert_eq!((fitted.resumed_from, &script.measured[..]), (Some(3), &[3, 6][..]));
    assert_eq!((fitted.best_step, fitted.best_metric), (3, Some(0.3)));
    let mut script = Script { metrics: vec![Ok(f64::NAN)], ..Script::default() };
    let error = go_on(&home.path().join("nan"), &config, &mut script).unwrap_err();
    assert!(error.to_string().contains("the metric is NaN"), "{error}");
}
