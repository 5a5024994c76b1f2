//! What is saved: a run that was stopped, killed or damaged ends in the same bytes.

use super::*;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Goes as far as the second last line of the log, and then waits to be killed.
struct Waiting(usize);

impl Hooks for Waiting {
    fn evaluate(&mut self, _: &Model, _: usize) -> Result<f64, String> {
        unreachable!("the run has no validation split")
    }

    fn stopped(&self) -> bool {
        false
    }

    fn log(&mut self, line: &LogLine) {
        if line.current_steps >= self.0 {
            loop {
                std::thread::park();
            }
        }
    }
}

#[test]
fn a_run_killed_at_any_moment_ends_in_the_same_bytes() {
    const DIRECTORY: &str = "UNDERSTUDY_TEST_KILLED_RUN";
    let config = TrainConfig { save_steps: 1, ..long() };
    if let Some(dir) = std::env::var_os(DIRECTORY) {
        // The process that is killed is this very test; it never ends by itself, however late the kill comes.
        go_on(Path::new(&dir), &config, &mut Waiting(5)).unwrap();
        unreachable!("the fifth line of the log is never gone past");
    }
    let home = tempfile::tempdir().unwrap();
    let (straight, killed) = (home.path().join("straight"), home.path().join("killed"));
    let began = Instant::now();
    go_on(&straight, &config, &mut Script::default()).unwrap();
    let whole = began.elapsed() + Duration::from_millis(20);
    // Moments all over a run, of which each goes on from where the last was killed.
    for part in [10u32, 50, 30, 120, 20, 200, 60, 40] {
        let name = "train::tests::resuming::a_run_killed_at_any_moment_ends_in_the_same_bytes";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact"]).env(DIRECTORY, &killed).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(whole * part / 100);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "it ended before it was killed");
    }
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
fn a_changed_config_or_corpus_is_refused_with_every_changed_key() {
    let home = tempfile::tempdir().unwrap();
    let stop = || Script { stop_after: Some(2), ..Script::default() };
    go_on(home.path(), &long(), &mut stop()).unwrap_err();
    // How often one saves does not matter.
    let mut script = Script { stop_after: Some(0), ..Script::default() };
    go_on(home.path(), &TrainConfig { save_steps: 3, ..long() }, &mut script).unwrap_err();
    assert!(script.notes.is_empty());
    let before = fs::read(home.path().join("trainer_log.jsonl")).unwrap();
    let other = TrainConfig { seed: 7, learning_rate: 5e-3, ..long() };
    for (resume, finished) in [(Resume::Auto, false), (Resume::Renew, false)] {
        let error = go_on_from(home.path(), &other, &resume, &mut stop()).unwrap_err();
        let TrainError::Refused(refusal) = error else { panic!("{error} {finished}") };
        assert_eq!(refusal.code, "E221");
        let said = "seed was 42, is 7; train.learning_rate was 0.01, is 0.005 — undo the change";
        assert!(refusal.message.contains(said), "{refusal}");
        assert!(refusal.message.contains("checkpoint-2") && refusal.message.contains("--resume none"), "{refusal}");
    }
    let error = fit(&student(), &items(5), &long(), home.path(), "base", &Resume::Auto, &mut stop()).unwrap_err();
    assert!(
        error.to_string().contains("corpus was 6 items (sha256 ") && error.to_string().contains("is 5 items"),
        "{error}"
    );
    assert_eq!(fs::read(home.path().join("trainer_log.jsonl")).unwrap(), before, "a refusal changes nothing");
    assert_eq!(checkpoints(home.path()), ["checkpoint-2"]);
}

#[test]
fn a_new_start_sets_earlier_checkpoints_aside() {
    let home = tempfile::tempdir().unwrap();
    go_on(home.path(), &long(), &mut Script { stop_after: Some(3), ..Script::default() }).unwrap_err();
    let kept = adapter(home.path(), 3);
    let other = TrainConfig { seed: 7, ..long() };
    let mut script = Script::default();
    let fitted = go_on_from(home.path(), &other, &Resume::Anew, &mut script).unwrap();
    assert_eq!((fitted.resumed_from, fitted.log.len()), (None, 6));
    assert!(script.notes[0].contains("set aside in") && script.notes[0].ends_with("previous-1"), "{:?}", script.notes);
    assert_eq!(checkpoints(&home.path().join("previous-1")), ["checkpoint-2", "checkpoint-3"]);
    assert!(adapter(&home.path().join("previous-1"), 3) == kept);
    assert_eq!(checkpoints(home.path()), ["checkpoint-4", "checkpoint-6"]);
    // A run that is over is set aside where stages are done again as their inputs change, and refused elsewhere.
    assert!(matches!(go_on(home.path(), &long(), &mut Script::default()), Err(TrainError::Refused(_))));
    let mut script = Script::default();
    let fitted = go_on_from(home.path(), &long(), &Resume::Renew, &mut script).unwrap();
    assert_eq!((fitted.resumed_from, script.notes.len()), (None, 2));
    assert!(script.notes[0].contains("seed was 7, is 42") && script.notes[1].ends_with("previous-2"));
    let straight = home.path().join("straight");
    go_on(&straight, &long(), &mut Script::default()).unwrap();
    assert!(adapter(&straight, 6) == adapter(home.path(), 6));
}

#[test]
fn a_named_checkpoint_is_gone_on_from_wherever_it_stands() {
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (home.path().join("first"), home.path().join("second"));
    let config = TrainConfig { evals_per_epoch: 3, save_total_limit: 0, ..long() };
    let metrics = || [0.2, 0.5, 0.3, 0.1, 0.4, 0.45].map(Ok).to_vec();
    let script = |from: usize| Script { metrics: metrics()[from..].to_vec(), ..Script::default() };
    go_on(&first, &config, &mut script(0)).unwrap();
    let end = adapter(&first, 6);
    // From another directory: its best comes along.
    go_on(&second, &TrainConfig { seed: 7, ..config.clone() }, &mut Script { stop_after: Some(2), ..script(0) })
        .unwrap_err();
    let named = Resume::From(first.join("checkpoint-4"));
    let fitted = go_on_from(&second, &config, &named, &mut script(4)).unwrap();
    assert_eq!((fitted.resumed_from, fitted.best_step, fitted.best_metric), (Some(4), 2, Some(0.5)));
    assert!(adapter(&second, 6) == end && adapter(&second, 2) == adapter(&first, 2));
    assert_eq!(checkpoints(&second.join("previous-1")).len(), 1);
    // From its own: later ones are set aside.
    let fitted = go_on_from(&first, &config, &named, &mut script(4)).unwrap();
    assert_eq!(fitted.resumed_from, Some(4));
    assert!(adapter(&first, 6) == end && adapter(&first.join("previous-1"), 6) == end);
    // Neither of another config, nor damaged, nor absent.
    let refused = |config: &TrainConfig, named: &Path| {
        let resume = Resume::From(named.into());
        let Err(TrainError::Refused(refusal)) = go_on_from(&first, config, &resume, &mut script(0)) else { panic!() };
        refusal
    };
    assert_eq!(refused(&TrainConfig { seed: 7, ..config.clone() }, &first.join("checkpoint-4")).code, "E221");
    for (named, says) in [(first.join("checkpoint-9"), "No such file"), (second.clone(), "it has no COMPLETE")] {
        let refusal = refused(&config, &named);
        assert!(refusal.code == "E222" && refusal.message.contains(says), "{refusal}");
    }
    fs::write(first.join("checkpoint-4/README.md"), "edited").unwrap();
    assert!(refused(&config, &first.join("checkpoint-4")).message.contains("README.md was changed"));
    let left = ["checkpoint-1", "checkpoint-2", "checkpoint-4", "checkpoint-6"];
    assert_eq!(checkpoints(&first), left, "a refusal moves nothing");
}

#[test]
fn streams_of_random_numbers_do_not_meet() {
    use rand::RngExt;
    let draw = |purpose, first, second| stream(42, purpose, first, second).random::<u64>();
    let drawn: std::collections::BTreeSet<u64> = [Purpose::Order, Purpose::Dropout]
        .into_iter()
        .flat_map(|purpose| (0..10).flat_map(move |first| (0..10).map(move |second| draw(purpose, first, second))))
        .collect();
    assert_eq!(drawn.len(), 200);
    // Neither the order nor the adapters depend on whether dropout is on.
    let home = tempfile::tempdir().unwrap();
    let once = |name: &str, dropout: f64| {
        let lora = crate::student::LoraConfig { dropout, ..long().lora };
        let config = TrainConfig { lora, learning_rate: 1e-30, max_steps: Some(3), ..long() };
        let fitted = train(&items(6), &config, &home.path().join(name));
        fitted.log.iter().map(|line| line.total_tokens).collect::<Vec<_>>()
    };
    assert_eq!(once("with", 0.5), once("without", 0.0));
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
    // Six steps, six measurements, a summary.
    assert_eq!(state["log_history"].as_array().unwrap().len(), 13);
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
