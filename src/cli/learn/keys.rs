//! The keys of `[train]`, as `understudy train --help` shows them.

/// Behind the flags of the long help.
pub const HELP: &str = "Examples:
  understudy train configs/quickstart.toml
  understudy train configs/quickstart.toml --set train.learning_rate=1e-3 --resume none

Ctrl-C saves and exits with 130; the same command goes on from there, to the same bytes.

Keys of [train], with default and range:
  num_epochs                   3         passes over the corpus; 1 or more
  max_steps                    none      steps, in place of num_epochs; 1 or more
  init_adapter                 none      a PEFT directory that the adapters begin with
  learning_rate                2e-4      peak; above 0, at most 1
  lr_scheduler                 cosine    constant (no warm-up), constant_with_warmup, linear, cosine
  warmup_ratio                 0.1       share of the steps that warm up from 0; 0 to 1
  loraplus_lr_ratio            1         LoRA+: the rate of B is that of A times this; 0.001 to 1000
  weight_decay                 0         decoupled; 0 to 1
  adam_beta1                   0.9       0 up to 1
  adam_beta2                   0.999     0 up to 1
  adam_epsilon                 1e-8      above 0, at most 1
  max_grad_norm                1         one norm over all adapters; 0 is off
  micro_batch_size             8         conversations per forward; memory grows with it
  gradient_accumulation_steps  1         forwards per step; every supervised token counts alike
  devices                      1         GPUs that share the forwards of a step, from --device on
  bf16                         false     products of the frozen weights in bf16; slower on a CPU
  gradient_checkpointing       false     keep only the inputs of blocks: less memory, more time
  sequence_len                 1024      most tokens of a conversation
  excess_length_strategy       raise     raise, or drop longer ones
  weight_by_confidence         false     conversations count by the team's confidence; 0 is left out
  evals_per_epoch              1         measurements of dev F1; 1 or more
  early_stopping_patience      0         measurements without a gain after which training ends; 0 is off
  early_stopping_threshold     0         F1 that counts as a gain; 0 to 1
  load_best_model_at_end       true      adapter/ is the checkpoint of the best dev F1; false: the last
  save_steps                   10        steps between checkpoints; a kill loses at most these
  save_total_limit             2         newest checkpoints that are kept, beside the best; 0 keeps all
  max_skipped                  3         steps in a row without a finite gradient that are borne
  on_divergence                stop      then stop, or once rollback to the last good checkpoint
  rollback_lr_factor           0.5       on the learning rate after a rollback; above 0, at most 1
  report_to                    []        [\"tensorboard\"] writes event files
  logging_dir                  OUT/runs  where they are written";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrainSection;

    #[test]
    fn the_help_names_every_key_and_its_default() {
        let set = TrainSection {
            max_steps: Some(1),
            init_adapter: Some("x".into()),
            logging_dir: Some("OUT/runs".into()),
            ..TrainSection::default()
        };
        let keys = serde_json::to_value(set).unwrap();
        for (key, default) in keys.as_object().unwrap() {
            let line = HELP.lines().find(|line| line.trim_start().starts_with(&format!("{key} ")));
            let shown = line.unwrap_or_else(|| panic!("{key} is missing")).split_whitespace().nth(1).unwrap();
            let written = default.to_string();
            let same = match default {
                _ if key == "max_steps" || key == "init_adapter" => shown == "none",
                serde_json::Value::String(text) => shown == text,
                serde_json::Value::Number(number) => shown.parse::<f64>().ok() == number.as_f64(),
                _ => shown == written,
            };
            assert!(same, "{key}: {shown} is not {default}");
        }
        let listed = HELP.split_once("range:\n").unwrap().1;
        assert_eq!(listed.lines().count(), keys.as_object().unwrap().len());
    }
}
