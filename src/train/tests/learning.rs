//! What is learned: weighting, accumulation, skipped steps, refusals.

use super::*;
use crate::student::{LoraConfig, share};

#[test]
fn the_same_items_are_learned_however_a_step_is_split() {
    // The last window of each epoch is short: 13 items are 8 and 5, 5 items are 4 and 1.
    for (count, splits) in [(13, &[(8, 1), (4, 2), (2, 4), (1, 8)][..]), (5, &[(4, 1), (2, 2), (1, 4)])] {
        let items = items(count);
        let home = tempfile::tempdir().unwrap();
        let run = |(micro, accumulation): (usize, usize)| {
            let config = TrainConfig { micro_batch_size: micro, gradient_accumulation_steps: accumulation, ..config() };
            losses(&train(&items, &config, &home.path().join(micro.to_string())))
        };
        let whole = run(splits[0]);
        assert_eq!(whole.len(), 4);
        assert!(whole.windows(2).all(|pair| (pair[0] - pair[1]).abs() > 1e-3), "{whole:?}");
        for split in &splits[1..] {
            let losses = run(*split);
            // Sums of f32 in another order.
            let same = whole.iter().zip(&losses).all(|(a, b)| (a - b).abs() <= 1e-5 * a);
            assert!(same && losses.len() == 4, "{split:?}: {whole:?} {losses:?}");
        }
    }
}

#[test]
fn every_supervised_token_of_a_window_counts_alike() {
    let (student, items) = (student(), [item(0, 1), item(1, 8)]);
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { max_steps: Some(1), micro_batch_size: 1, ..config() };
    let fitted = train(&items, &config, home.path());
    let tokenized = preflight(&student, &items, &config).unwrap().items;
    let losses = tokenized.iter().map(|item| {
        let (prefix, rows) = share(&[(&item.ids[..], item.supervised.clone())]);
        student.model.logprobs(prefix, &rows).unwrap()[0].iter().map(|logprob| -f64::from(*logprob)).collect()
    });
    let losses: Vec<Vec<f64>> = losses.collect();
    // One answer of a word and the end of turn, one of eight words and the end of turn.
    assert_eq!(losses.iter().map(Vec::len).collect::<Vec<_>>(), [2, 9]);
    let expected = losses.concat().iter().sum::<f64>() / 11.0;
    let of_means = (losses[0].iter().sum::<f64>() / 2.0 + losses[1].iter().sum::<f64>() / 9.0) / 2.0;
    let found = fitted.log[0].loss.unwrap();
    assert!((found - expected).abs() < 1e-5 * expected, "{found} {expected}");
    assert!((found - of_means).abs() > 1e-3, "the example does not tell the two means apart");
    assert_eq!(fitted.supervised_tokens, 11);
}

#[test]
fn a_short_last_window_steps_with_its_full_gradient() {
    let home = tempfile::tempdir().unwrap();
    // The model all but stands still, so that every step is seen from the same point.
    let config = TrainConfig {
        learning_rate: 1e-30,
        num_epochs: 1,
        micro_batch_size: 1,
        gradient_accumulation_steps: 4,
        ..config()
    };
    let items = items(5);
    let fitted = train(&items, &config, &home.path().join("all"));
    assert_eq!(fitted.steps, 2);
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * b;
    let last = &fitted.log[1];
    let alone = |at: usize| train(&items[at..=at], &config, &home.path().join(at.to_string())).log.remove(0);
    let same = (0..5).map(alone).filter(|line| near(line.loss.unwrap(), last.loss.unwrap()));
    let norms: Vec<f64> = same.map(|line| line.grad_norm.unwrap()).collect();
    assert!(norms.len() == 1 && near(norms[0], last.grad_norm.unwrap()), "{norms:?} {last:?}");
}

#[test]
fn a_step_without_a_finite_gradient_changes_nothing_and_is_named() {
    let home = tempfile::tempdir().unwrap();
    let mut items = items(6);
    items[3].weight = f32::MAX;
    let base = TrainConfig {
        schedule: Schedule::Constant,
        warmup_ratio: 0.0,
        micro_batch_size: 1,
        gradient_accumulation_steps: 1,
        ..config()
    };
    let run = |steps: usize| {
        let dir = home.path().join(steps.to_string());
        (train(&items, &TrainConfig { max_steps: Some(steps), ..base.clone() }, &dir), dir)
    };
    let (fitted, dir) = run(6);
    assert_eq!((fitted.steps, fitted.skipped), (6, 1));
    let line = fitted.log.iter().find(|line| line.skipped.is_some()).unwrap();
    assert_eq!((line.loss, line.grad_norm), (None, None));
    assert_eq!(fitted.log.iter().filter(|line| line.loss.is_some_and(f64::is_finite)).count(), 5);
    let skipped = fs::read_to_string(dir.join("skipped.jsonl")).unwrap();
    let step = line.current_steps;
    assert_eq!(
        skipped,
        format!("{{\"step\":{step},\"reason\":\"the loss is not finite\",\"items\":[\"train.jsonl:4\"]}}\n")
    );
    let log = fs::read_to_string(dir.join("trainer_log.jsonl")).unwrap();
    assert!(log.lines().nth(step - 1).unwrap().contains("\"loss\":null"), "{log}");
    assert!((2..6).contains(&step), "the step should have neighbours; choose another item than the fourth");
    assert!(state(&run(step - 1).1, step - 1) == state(&run(step).1, step));
    assert!(state(&run(step).1, step) != state(&run(step + 1).1, step + 1));
}

#[test]
fn too_many_skipped_steps_in_a_row_end_the_run_without_a_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let mut items = items(8);
    items.iter_mut().for_each(|item| item.weight = f32::MAX);
    let config = TrainConfig { max_skipped: 2, micro_batch_size: 1, gradient_accumulation_steps: 1, ..config() };
    let mut script = Script::default();
    let error = fit(&student(), &items, &config, home.path(), "base", &mut script).unwrap_err();
    assert!(matches!(error, TrainError::Diverged { step: 3, in_a_row: 3, .. }), "{error}");
    assert!(checkpoints(home.path()).is_empty());
}

#[test]
fn weights_that_overflow_are_not_saved() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { learning_rate: 1e300, ..config() };
    let error = fit(&student(), &items(4), &config, home.path(), "base", &mut Script::default()).unwrap_err();
    assert!(matches!(error, TrainError::Overflow { step: 1 }), "{error}");
    assert!(checkpoints(home.path()).is_empty());
}

#[test]
fn the_logged_norm_is_the_one_before_clipping() {
    let home = tempfile::tempdir().unwrap();
    let norm = |most: f64| {
        let config = TrainConfig { max_grad_norm: most, max_steps: Some(1), ..config() };
        train(&items(4), &config, &home.path().join(most.to_string())).log[0].grad_norm.unwrap()
    };
    assert!(norm(0.0) > 0.01);
    assert_eq!(norm(0.0), norm(0.001));
}

#[test]
fn a_few_items_are_learned_by_heart() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { max_steps: Some(40), lora: LoraConfig { dropout: 0.05, ..config().lora }, ..config() };
    let fitted = train(&items(4), &config, home.path());
    let losses = losses(&fitted);
    // Chance over 64 tokens is ln 64 = 4.16.
    assert!(losses[0] > 3.0 && losses[39] < 0.5 * losses[0], "{losses:?}");
    let best = best_model(&student(), &fitted).unwrap();
    let [item] = &preflight(&student(), &items(1), &config).unwrap().items[..] else { panic!("one item") };
    let (prefix, rows) = share(&[(&item.ids[..], item.supervised.clone())]);
    let loss = |model: &Model| -model.logprobs(prefix, &rows).unwrap()[0].iter().sum::<f32>();
    assert!(loss(&best) < 0.7 * loss(&student().model), "{} {}", loss(&best), loss(&student().model));
}

#[test]
fn items_that_must_not_be_trained_on_are_refused() {
    let student = student();
    let refused = |items: &[Item], config: &TrainConfig| preflight(&student, items, config).unwrap_err();
    let short = TrainConfig { sequence_len: 60, ..config() };
    let mut long = items(3);
    long[1] = item(1, 30);
    // <s>, four control tokens and two ends of turn around 40 + 4 words of prompt; 30 words and an end.
    let refusal = refused(&long, &short);
    assert_eq!(refusal.code, "E206");
    assert!(refusal.message.starts_with("train.jsonl:2: 81 tokens (prompt 50, answer 31)"), "{refusal}");
    assert!(refusal.message.contains("1 of 3"), "{refusal}");
    let dropping = TrainConfig { excess_length: ExcessLength::Drop, ..short };
    let tokenized = preflight(&student, &long, &dropping).unwrap();
    assert_eq!((tokenized.items.len(), &tokenized.dropped[..]), (2, &["train.jsonl:2".to_owned()][..]));
    assert_eq!(refused(&[], &dropping).code, "E201");
    assert_eq!(refused(&long[1..2], &dropping).code, "E201");
    let mut asked = items(1);
    asked[0].messages.pop();
    assert_eq!(refused(&asked, &config()).code, "E207");
    asked[0].messages.clear();
    assert_eq!(refused(&asked, &config()).code, "E207");
    for weight in [f32::NAN, -1.0, f32::INFINITY] {
        let weighted = Item { weight, ..item(0, 3) };
        assert_eq!(refused(&[weighted], &config()).code, "E208");
    }
}
