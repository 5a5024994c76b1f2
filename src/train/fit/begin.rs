//! What a run begins with: drawn adapters, or those of a PEFT directory.

use super::sums;
use crate::student::{Model, StudentError};
use crate::train::checkpoint::Numbers;
use crate::train::config::{InitAdapter, TrainConfig};
use crate::train::error::{Refusal, TrainError};
use crate::train::optimizer::AdamW;

/// The model with its first adapters, their numbers, and what was not understood of their settings.
pub(super) fn begin(base: &Model, config: &TrainConfig) -> Result<(Model, Numbers, Vec<String>), TrainError> {
    let base = if config.bf16 { base.clone().in_bf16() } else { base.clone() };
    let drawn = base.clone().adapted(&config.lora, config.seed)?;
    let (model, ignored) = match &config.init_adapter {
        Some(init) => read(&base, drawn, init)?,
        None => (drawn, vec![]),
    };
    let model = model.recomputing(config.gradient_checkpointing);
    let (mut shapes, mut factors) = (Vec::new(), Vec::new());
    for (name, factor) in model.adapters() {
        shapes.push((name, factor.dims()));
        factors.push(sums::floats(factor)?);
    }
    let adam = AdamW::new(factors.iter().map(Vec::len));
    Ok((model, Numbers { shapes, factors, adam }, ignored))
}

/// The numbers of the directory in the adapters that the config asks for; both must be of one form.
fn read(base: &Model, drawn: Model, init: &InitAdapter) -> Result<(Model, Vec<String>), Refusal> {
    let refuse = |what: String| {
        let way_out = "make [lora] that of the adapter, or leave train.init_adapter out";
        Refusal::new("E210", format!("train.init_adapter {}: {what} — {way_out}", init.dir.display()))
    };
    let plain = |error: StudentError| refuse(error.to_string());
    let (found, ignored) = base.clone().with_peft(&init.dir).map_err(plain)?;
    let forms = |model: &Model| -> Vec<(String, String)> {
        let form = |(name, dims, scale): (String, [usize; 2], f64)| (name, format!("{dims:?} scaled by {scale}"));
        model.adapter_forms().into_iter().map(form).collect()
    };
    let (wanted, held) = (forms(&drawn), forms(&found));
    let absent = |others: &[(String, String)], name: &str| others.iter().all(|(other, _)| other != name);
    if let Some((name, _)) = held.iter().find(|(name, _)| absent(&wanted, name)) {
        return Err(refuse(format!("it holds {name}, which lora.target_modules does not name")));
    }
    if let Some((name, _)) = wanted.iter().find(|(name, _)| absent(&held, name)) {
        return Err(refuse(format!("it lacks {name}, which lora.target_modules names")));
    }
    if let Some(((name, expected), (_, found))) = wanted.iter().zip(&held).find(|(a, b)| a != b) {
        return Err(refuse(format!("{name}: expected {expected}, as [lora] says, found {found}")));
    }
    let factors = found.adapters().into_iter().map(|(_, factor)| factor).collect();
    Ok((drawn.with_adapters(factors).map_err(plain)?, ignored))
}
