//! What happens when a run diverges: it ends whole, or goes back once with a lower rate.

use super::*;
use serde_json::Value;

/// Rises from 0 to a rate that no weight survives: step 1 stands still, step 2 blows up, steps 3
/// and 4 are skipped.
fn blowing_up() -> TrainConfig {
    TrainConfig {
        learning_rate: 1e25,
        rollback_lr_factor: 1e-27,
        schedule: Schedule::ConstantWithWarmup,
        warmup_ratio: 0.5,
        max_skipped: 1,
        save_steps: 1,
        on_divergence: OnDivergence::Rollback,
        ..long()
    }
}

/// The same from the start with the rate that a rollback leaves.
fn calm() -> TrainConfig {
    TrainConfig { learning_rate: 1e25 * 1e-27, ..blowing_up() }
}

fn skipped(dir: &Path) -> Vec<Value> {
    crate::store::read_jsonl(&dir.join("skipped.jsonl")).unwrap()
}

#[test]
fn a_run_that_blows_up_goes_back_behind_the_cause_and_ends_like_a_calm_one() {
    let home = tempfile::tempdir().unwrap();
    let (wild, straight) = (home.path().join("wild"), home.path().join("straight"));
    let mut script = Script::default();
    let fitted = go_on(&wild, &blowing_up(), &mut script).unwrap();
    assert_eq!((fitted.steps, fitted.skipped, fitted.rollbacks), (6, 0, 1));
    let said = script.notes.last().unwrap();
    assert!(
        said.starts_with("step 4: 2 steps in a row had no finite gradient (last: the loss is not finite)"),
        "{said}"
    );
    assert!(said.contains("whole; rolled back to step 1; the learning rate is multiplied by 0.000"), "{said}");
    go_on(&straight, &calm(), &mut Script::default()).unwrap();
    assert!(state(&wild, 6) == state(&straight, 6) && adapter(&wild, 6) == adapter(&straight, 6));
    // The log is that of the way that was kept; the other's batches are still on record.
    assert_eq!(fitted.log.iter().map(|line| line.current_steps).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert!(fitted.log.iter().all(|line| line.lr < 1.1e-2), "{:?}", fitted.log);
    let lines: Vec<LogLine> = crate::store::read_jsonl(&wild.join("trainer_log.jsonl")).unwrap();
    assert_eq!(lines, fitted.log);
    let skipped = skipped(&wild);
    assert_eq!(skipped.len(), 2);
    for (line, step) in skipped.iter().zip([3, 4]) {
        assert_eq!((&line["step"], &line["rolled_back"]), (&json!(step), &json!(true)));
        assert!(!line["items"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_run_without_a_checkpoint_behind_the_cause_goes_back_to_the_first_step() {
    let home = tempfile::tempdir().unwrap();
    let (wild, straight) = (home.path().join("wild"), home.path().join("straight"));
    // The first update is the fatal one: the checkpoint after it is whole, and no place to go back to.
    let at_once = |config| TrainConfig { schedule: Schedule::Constant, ..config };
    let mut script = Script::default();
    let fitted = go_on(&wild, &at_once(blowing_up()), &mut script).unwrap();
    assert!(script.notes.last().unwrap().contains("rolled back to step 0"), "{:?}", script.notes);
    go_on(&straight, &at_once(calm()), &mut Script::default()).unwrap();
    assert!(fitted.steps == 6 && state(&wild, 6) == state(&straight, 6));
}

#[test]
fn weights_that_overflow_are_a_cause_to_go_back_too() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { learning_rate: 1e300, rollback_lr_factor: 1e-302, ..blowing_up() };
    let mut script = Script::default();
    let fitted = go_on(home.path(), &config, &mut script).unwrap();
    assert_eq!((fitted.steps, fitted.rollbacks), (6, 1));
    let said = script.notes.last().unwrap();
    assert!(said.starts_with("step 2: an adapter weight is no longer finite"), "{said}");
    assert!(said.contains("rolled back to step 1"), "{said}");
}

#[test]
fn a_run_that_is_stopped_around_its_rollback_ends_in_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    let straight = home.path().join("straight");
    let whole = go_on(&straight, &blowing_up(), &mut Script::default()).unwrap();
    // Lines: 1, 2, skipped 3, skipped 4, then 2 to 6 anew.
    for after in 1..9 {
        let dir = home.path().join(after.to_string());
        let stopped = go_on(&dir, &blowing_up(), &mut Script { stop_after: Some(after), ..Script::default() });
        assert!(matches!(stopped, Err(TrainError::Stopped { .. })), "{after}");
        let fitted = go_on(&dir, &blowing_up(), &mut Script::default()).unwrap();
        assert_eq!((fitted.steps, fitted.rollbacks, fitted.skipped), (6, 1, 0), "{after}");
        assert!(state(&dir, 6) == state(&straight, 6), "{after}");
        assert_eq!(losses(&fitted), losses(&whole), "{after}");
        assert_eq!(skipped(&dir).len(), 2, "{after}");
    }
}

#[test]
fn a_run_goes_back_once_and_then_says_what_was_tried() {
    let home = tempfile::tempdir().unwrap();
    let mut items = items(8);
    items.iter_mut().for_each(|item| item.weight = f32::MAX);
    let config = TrainConfig { on_divergence: OnDivergence::Rollback, max_skipped: 1, ..long() };
    let mut script = Script::default();
    let error = fit(&student(), &items, &config, home.path(), "base", &Resume::Auto, &mut script).unwrap_err();
    assert!(matches!(error, TrainError::Diverged { step: 2, in_a_row: 2, rolled_back: Some(0), .. }), "{error:?}");
    assert!(error.to_string().contains("a rollback to step 0 with a lower rate did not help"), "{error}");
    assert_eq!(script.notes.len(), 1);
    assert!(checkpoints(home.path()).is_empty());
    let flags = skipped(home.path()).iter().map(|line| line["rolled_back"] == json!(true)).collect::<Vec<_>>();
    assert_eq!(flags, [true, true, false, false]);
    // Asked to stop, it stops, and names the other way.
    let config = TrainConfig { on_divergence: OnDivergence::Stop, ..config };
    let error = fit(&student(), &items, &config, home.path(), "base", &Resume::Auto, &mut script).unwrap_err();
    assert!(error.to_string().contains("on_divergence = \"rollback\""), "{error}");
}

#[test]
fn no_checkpoint_is_written_amid_skipped_steps() {
    let home = tempfile::tempdir().unwrap();
    let mut items = items(6);
    items[3].weight = f32::MAX;
    let config =
        TrainConfig { save_steps: 1, save_total_limit: 0, num_epochs: 1, gradient_accumulation_steps: 1, ..long() };
    let fitted = train(&items, &config, home.path());
    let skipped = fitted.log.iter().find(|line| line.skipped.is_some()).unwrap().current_steps;
    assert!((2..6).contains(&skipped), "the skipped step should have neighbours; choose another item");
    let expected: Vec<String> =
        (1..7).filter(|step| *step != skipped).map(|step| format!("checkpoint-{step}")).collect();
    assert_eq!(checkpoints(home.path()), expected);
}
