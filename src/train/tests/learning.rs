//! What is learned: weighting, accumulation, skipped steps, refusals.

use super::*;
use crate::student::{LoraConfig, Row, share};

/// Items whose weights differ.
fn weighted(count: usize) -> Vec<Item> {
    let mut items = items(count);
    items.iter_mut().enumerate().for_each(|(at, item)| item.weight = [1.0, 0.3, 0.75][at % 3]);
    items
}

#[test]
fn the_same_items_are_learned_however_a_step_is_split() {
    // The last window of each epoch is short: 13 items are 8 and 5, 5 items are 4 and 1. Answers
    // have one to nine words.
    let cases = [
        (items(13), &[(8, 1), (4, 2), (2, 4), (1, 8)][..]),
        (items(5), &[(4, 1), (2, 2), (1, 4)]),
        (weighted(13), &[(8, 1), (4, 2), (2, 4), (1, 8)]),
    ];
    for (items, splits) in cases {
        let home = tempfile::tempdir().unwrap();
        let run = |(micro, accumulation): (usize, usize)| {
            let config = TrainConfig { micro_batch_size: micro, gradient_accumulation_steps: accumulation, ..config() };
            let dir = home.path().join(micro.to_string());
            let fitted = train(&items, &config, &dir);
            (losses(&fitted), norms(&fitted), adapter_numbers(&dir, 4))
        };
        let whole = run(splits[0]);
        assert_eq!(whole.0.len(), 4);
        assert!(whole.0.windows(2).all(|pair| (pair[0] - pair[1]).abs() > 1e-3), "{:?}", whole.0);
        for split in &splits[1..] {
            let found = run(*split);
            // Sums of f32 in another order.
            for (a, b) in [(&whole.0, &found.0), (&whole.1, &found.1)] {
                let same = a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * a);
                assert!(same && b.len() == 4, "{split:?}: {a:?} {b:?}");
            }
            let apart = apart(&whole.2, &found.2);
            assert!(apart <= 1e-5, "{split:?}: the adapters are {apart} apart");
        }
    }
}

#[test]
fn a_packed_step_is_that_of_plain_rows_without_a_shared_prefix() {
    for items in [items(8), weighted(8)] {
        let home = tempfile::tempdir().unwrap();
        let config =
            TrainConfig { max_steps: Some(1), micro_batch_size: 8, gradient_accumulation_steps: 1, ..config() };
        let line = train(&items, &config, home.path()).log.remove(0);
        let student = student();
        let tokenized = preflight(&student, &items, &config).unwrap().items;
        let model = student.model.untracked().adapted(&config.lora, config.seed).unwrap().tracked();
        let (mut loss, mut count, mut squares) = (0.0, 0.0, 0.0);
        let mut sums: Vec<Vec<f64>> = Vec::new();
        for item in &tokenized {
            let row =
                Row { ids: &item.ids, supervised: item.supervised.clone(), weight: item.weight, unlearned: vec![] };
            let sum = model.loss_sum(&[], &[row], None).unwrap();
            loss += f64::from(sum.clone().into_data().try_into_vec::<f32>().unwrap()[0]);
            count += f64::from(item.weight) * item.supervised.len() as f64;
            let mut gradients = sum.backward();
            for (at, (_, leaf)) in model.adapters().iter().enumerate() {
                let gradient = leaf.grad_remove(&mut gradients).unwrap().into_data().try_into_vec::<f32>().unwrap();
                sums.resize_with(sums.len().max(at + 1), || vec![0.0; gradient.len()]);
                sums[at].iter_mut().zip(gradient).for_each(|(sum, g)| *sum += f64::from(g));
            }
        }
        sums.iter().flatten().for_each(|g| squares += g * g);
        let (loss, norm) = (loss / count, f64::sqrt(squares) / count);
        assert!((line.loss.unwrap() - loss).abs() <= 1e-5 * loss, "{line:?} {loss}");
        assert!((line.grad_norm.unwrap() - norm).abs() <= 1e-5 * norm, "{line:?} {norm}");
    }
}

#[test]
fn equal_weights_change_nothing_and_others_do() {
    let home = tempfile::tempdir().unwrap();
    let run = |name: &str, weight: fn(usize) -> f32| {
        let mut items = items(6);
        items.iter_mut().enumerate().for_each(|(at, item)| item.weight = weight(at));
        let fitted = train(&items, &config(), &home.path().join(name));
        (losses(&fitted), adapter(&home.path().join(name), 4))
    };
    let plain = run("1", |_| 1.0);
    // A power of two is exact.
    assert!(run("0.5", |_| 0.5) == plain);
    let close = run("0.7", |_| 0.7).0;
    assert!(plain.0.iter().zip(&close).all(|(a, b)| (a - b).abs() <= 1e-5 * a), "{plain:?} {close:?}");
    let other = run("mixed", |at| if at % 2 == 0 { 1.0 } else { 0.1 }).0;
    assert!(plain.0.iter().zip(&other).any(|(a, b)| (a - b).abs() > 1e-3 * a), "{plain:?} {other:?}");
}

#[test]
fn an_item_of_weight_0_is_left_out_as_if_it_were_not_there() {
    let home = tempfile::tempdir().unwrap();
    let mut with = items(7);
    with[3].weight = 0.0;
    let mut without = with.clone();
    without.remove(3);
    let (a, b) = (home.path().join("with"), home.path().join("without"));
    let mut script = Script::default();
    let fitted = fit(&student(), &with, &config(), &a, "base", &Resume::Auto, &mut script).unwrap();
    assert_eq!(fitted.weightless, ["train.jsonl:4"]);
    assert_eq!(script.notes, ["1 items have weight 0 and are left out, train.jsonl:4 first"]);
    train(&without, &config(), &b);
    assert!(fitted.steps == 4 && adapter(&a, 4) == adapter(&b, 4));
    with.iter_mut().for_each(|item| item.weight = 0.0);
    let error = fit(&student(), &with, &config(), &a, "base", &Resume::Auto, &mut script).unwrap_err();
    assert!(error.to_string().starts_with("E208: all 7 items have weight 0"), "{error}");
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
    let error = fit(&student(), &items, &config, home.path(), "base", &Resume::Auto, &mut script).unwrap_err();
    assert!(matches!(error, TrainError::Diverged { step: 3, in_a_row: 3, .. }), "{error}");
    assert!(checkpoints(home.path()).is_empty());
}

#[test]
fn weights_that_overflow_are_not_saved() {
    let home = tempfile::tempdir().unwrap();
    let config = TrainConfig { learning_rate: 1e300, schedule: Schedule::Constant, ..config() };
    let error =
        fit(&student(), &items(4), &config, home.path(), "base", &Resume::Auto, &mut Script::default()).unwrap_err();
    assert!(matches!(error, TrainError::Overflow { step: 1, rolled_back: None }), "{error}");
    assert!(checkpoints(home.path()).is_empty());
}

#[test]
fn the_logged_norm_is_the_one_before_clipping_and_the_step_is_clipped() {
    let home = tempfile::tempdir().unwrap();
    // With so large an epsilon AdamW's first step is the rate times the gradient; B starts at 0.
    let base = TrainConfig {
        adam_epsilon: 1.0,
        max_steps: Some(1),
        schedule: Schedule::Constant,
        lora: LoraConfig { dropout: 0.0, ..config().lora },
        ..config()
    };
    let run = |name: &str, config: TrainConfig| {
        let dir = home.path().join(name);
        let norm = train(&items(4), &config, &dir).log[0].grad_norm.unwrap();
        (norm, adapter_numbers(&dir, 1))
    };
    let (norm, free) = run("free", TrainConfig { max_grad_norm: 0.0, ..base.clone() });
    let (same, clipped) = run("clipped", TrainConfig { max_grad_norm: 0.001, ..base.clone() });
    let start = run("start", TrainConfig { learning_rate: 1e-30, ..base }).1;
    assert!(norm > 0.01 && norm == same, "{norm} {same}");
    let moved = |to: &[f64]| to.iter().zip(&start).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    // The epsilon of 1 against squares of at most 0.001: three digits.
    assert!((moved(&clipped) - 1e-2 * 0.001).abs() < 1e-3 * 1e-5, "{}", moved(&clipped));
    assert!(moved(&free) > 5.0 * moved(&clipped), "{} {}", moved(&free), moved(&clipped));
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
fn what_is_not_learned_is_read_and_has_no_loss() {
    let student = student();
    // The second and third word of "w0 w1 w2 w3 w4".
    let unsure = 3..8;
    let masked = Item { unlearned: Vec::from([unsure]), ..item(0, 5) };
    let tokenized = preflight(&student, &[masked], &config()).unwrap();
    let found = &tokenized.items[0];
    let first = found.supervised.start;
    assert_eq!(found.unlearned, [first + 1..first + 2, first + 2..first + 3]);
    assert_eq!((found.learned(), tokenized.supervised_tokens), (4, 4));
    let (ids, supervised) = (&found.ids[..], found.supervised.clone());
    let row = |unlearned| Row { ids, supervised: supervised.clone(), weight: 1.0, unlearned };
    let all = &student.model.logprobs(&[], &[row(vec![])]).unwrap()[0];
    let some = &student.model.logprobs(&[], &[row(found.unlearned.clone())]).unwrap()[0];
    assert_eq!(some.len(), 4);
    for (one, other) in some.iter().zip([all[0], all[3], all[4], all[5]]) {
        // The same sums in another blocking of the matrix.
        assert!((one - other).abs() < 1e-5, "{some:?} {all:?}");
    }
    let loss = student.model.loss_sum(&[], &[row(found.unlearned.clone())], None).unwrap();
    let loss = loss.try_into_data().unwrap().try_into_vec::<f32>().unwrap()[0];
    assert!((loss + some.iter().sum::<f32>()).abs() < 1e-4, "{loss}");
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
