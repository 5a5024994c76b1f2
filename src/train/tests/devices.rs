//! Several devices: the micro-batches of a window on copies of the model, side by side.

use super::*;
use std::cell::Cell;

/// Windows of up to four micro-batches, with dropout.
fn shared(devices: usize) -> TrainConfig {
    TrainConfig { devices, gradient_accumulation_steps: 4, ..long() }
}

#[test]
fn however_many_devices_share_a_step_it_ends_in_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    let run = |devices: usize| {
        let dir = home.path().join(devices.to_string());
        // The last window of each epoch is short: nine items are four, four and one.
        let fitted = train(&items(9), &shared(devices), &dir);
        assert_eq!((fitted.steps, fitted.skipped), (6, 0));
        (losses(&fitted), norms(&fitted), state(&dir, 6), adapter(&dir, 6))
    };
    let alone = run(1);
    assert!(alone.0.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", alone.0);
    for devices in [2, 3, 4, 7] {
        assert!(run(devices) == alone, "{devices} devices");
    }
}

#[test]
fn what_is_not_finite_is_named_on_every_device() {
    let home = tempfile::tempdir().unwrap();
    let mut items = items(8);
    items[3].weight = f32::MAX;
    let run = |devices: usize| {
        let dir = home.path().join(devices.to_string());
        let fitted = train(&items, &shared(devices), &dir);
        (fitted.skipped, fs::read_to_string(dir.join("skipped.jsonl")).unwrap(), state(&dir, fitted.steps))
    };
    let alone = run(1);
    assert!(alone.0 == 2 && alone.1.contains("train.jsonl:4"), "{} {}", alone.0, alone.1);
    assert!(run(2) == alone && run(3) == alone);
}

/// Wants to stop when it is asked for the n-th time.
struct Impatient(Cell<usize>);

impl Hooks for Impatient {
    fn evaluate(&mut self, _: &Model, _: usize) -> Result<f64, String> {
        Err("not asked for".into())
    }

    fn log(&mut self, _: &LogLine) {}

    fn stopped(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }
}

#[test]
fn a_window_left_in_its_middle_is_done_anew_by_whoever_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { num_epochs: 4, ..shared(2) };
    let straight = home.path().join("straight");
    go_on(&straight, &config, &mut Script::default()).unwrap();
    for asked in [2, 3, 4, 8] {
        let dir = home.path().join(asked.to_string());
        let error = go_on(&dir, &config, &mut Impatient(Cell::new(asked))).unwrap_err();
        assert!(matches!(error, TrainError::Stopped { .. }), "{error}");
        let fitted = go_on(&dir, &TrainConfig { devices: 1, ..config.clone() }, &mut Script::default()).unwrap();
        assert!(state(&dir, fitted.steps) == state(&straight, fitted.steps), "stopped at {asked}");
    }
}

#[test]
fn devices_without_work_are_spoken_of() {
    let home = tempfile::tempdir().unwrap();
    for (devices, said) in [(4, false), (5, true)] {
        let mut script = Script::default();
        let config = TrainConfig { max_steps: Some(1), ..shared(devices) };
        go_on(&home.path().join(devices.to_string()), &config, &mut script).unwrap();
        let note = script.notes.iter().any(|note| note.contains("train.devices is 5, but a step has 4 forwards"));
        assert_eq!(note, said, "{:?}", script.notes);
    }
}
