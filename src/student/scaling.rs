//! How rotary angles are stretched for long contexts: read from `config.json` or GGUF metadata,
//! computed as `transformers` computes it, in f32, and written back. YaRN: Peng et al. 2023,
//! arXiv:2309.00071.

use super::error::{Result, StudentError};
use super::fields::Fields;
use super::gguf::Gguf;
use serde_json::{Value, json};
use std::path::Path;

/// How rotary angles are stretched for long contexts.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// As trained.
    None,
    /// Every position divided by the factor.
    Linear(f64),
    /// Llama 3.1: low frequencies divided by the factor, a ramp between.
    Llama3 {
        /// How far the context was stretched.
        factor: f64,
        /// Wavelengths above `original / low` are stretched in full.
        low: f64,
        /// Wavelengths below `original / high` are kept.
        high: f64,
        /// Tokens of context before the stretch.
        original: f64,
    },
    /// YaRN: a ramp over the number of turns within the original context.
    Yarn {
        /// How far the context was stretched.
        factor: f64,
        /// Tokens of context before the stretch.
        original: f64,
        /// Frequencies that turn more often than this are kept.
        fast: f64,
        /// Frequencies that turn less often than this are stretched in full.
        slow: f64,
        /// On cosines and sines, so that its square stands on the attention scores.
        attention: f64,
        /// Whether the ends of the ramp are whole numbers.
        truncate: bool,
    },
    /// One divisor per frequency, as a GGUF carries them.
    Factors(Vec<f32>),
}

impl RopeScaling {
    /// The base of the frequencies and the stretching: `rope_theta` and `rope_scaling` at the top,
    /// or (newer files) both inside `rope_parameters`.
    pub(crate) fn from_json(at: &Fields, context: usize) -> Result<(f64, RopeScaling)> {
        let top = at.number("rope_theta")?;
        refuse_partial(at)?;
        let filled =
            |key| at.object(key).map(|found| found.filter(|f| f.json.as_object().is_some_and(|o| !o.is_empty())));
        let Some(rope) = filled("rope_scaling")?.or(filled("rope_parameters")?) else {
            return Ok((top.unwrap_or(10000.0), RopeScaling::None));
        };
        refuse_partial(&rope)?;
        if let Some((key, _)) = rope.json.as_object().and_then(|all| all.iter().find(|(_, value)| value.is_object())) {
            return Err(at.fail(format!("rotary parameters of their own for \"{key}\" are not supported")));
        }
        let theta = rope.number("rope_theta")?.or(top).unwrap_or(10000.0);
        let old = rope.find_text("type")?;
        let kind = rope.find_text("rope_type")?.or(old).unwrap_or("default");
        // As in transformers: the model's own field counts before that of the stretching.
        let original = || -> Result<f64> {
            let key = "original_max_position_embeddings";
            let said = at.number(key)?.map_or_else(|| rope.number(key), |said| Ok(Some(said)));
            Ok(said?.unwrap_or(context as f64))
        };
        let scaling = match kind {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear(rope.need("factor")?),
            "llama3" => RopeScaling::Llama3 {
                factor: rope.need("factor")?,
                low: rope.need("low_freq_factor")?,
                high: rope.need("high_freq_factor")?,
                original: original()?,
            },
            "yarn" => yarn(&rope, original()?, context)?,
            "longrope" => table(&rope)?,
            other => return Err(unknown(at.path, other)),
        };
        Ok((theta, scaling))
    }

    /// From GGUF metadata of this architecture; a table of divisors is a tensor and comes later.
    pub(crate) fn from_gguf(gguf: &Gguf, arch: &str, context: usize) -> Result<RopeScaling> {
        let number = |name: &str, default| gguf.number_or(&format!("{arch}.rope.{name}"), default);
        let refuse = |name: &str, sound: f64| match number(name, sound)? {
            found if found == sound => Ok(()),
            found => Err(StudentError::file(gguf.path(), format!("{arch}.rope.{name} {found} is not supported"))),
        };
        // llama.cpp: no type is linear, and a factor of 0 is none.
        let kind = gguf.text_if(&format!("{arch}.rope.scaling.type"))?.unwrap_or("linear");
        let factor = match number("scaling.factor", number("scale_linear", 1.0)?)? {
            0.0 => 1.0,
            factor => factor,
        };
        refuse("scaling.attn_factor", 1.0)?;
        Ok(match kind {
            "none" => RopeScaling::None,
            "linear" if factor == 1.0 => RopeScaling::None,
            "linear" => RopeScaling::Linear(factor),
            "yarn" => {
                refuse("scaling.yarn_ext_factor", 1.0)?;
                refuse("scaling.yarn_log_multiplier", 0.0)?;
                RopeScaling::Yarn {
                    factor,
                    original: number("scaling.original_context_length", context as f64)?,
                    fast: number("scaling.yarn_beta_fast", 32.0)?,
                    slow: number("scaling.yarn_beta_slow", 1.0)?,
                    attention: number("scaling.yarn_attn_factor", magnitude(factor, 1.0))?,
                    truncate: true,
                }
            }
            other => return Err(unknown(gguf.path(), other)),
        })
    }

    /// As `rope_scaling` in the `config.json` of a model with this context.
    pub(crate) fn to_json(&self, context: usize) -> Value {
        match self {
            RopeScaling::None => Value::Null,
            RopeScaling::Linear(factor) => json!({"rope_type": "linear", "factor": factor}),
            RopeScaling::Llama3 { factor, low, high, original } => json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                "original_max_position_embeddings": whole(*original)}),
            RopeScaling::Yarn { factor, original, fast, slow, attention, truncate } => json!({
                "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": whole(*original),
                "beta_fast": fast, "beta_slow": slow, "attention_factor": attention, "truncate": truncate}),
            // The one kind that takes a table; equal for short and long texts it is no more than that.
            RopeScaling::Factors(factors) => json!({
                "rope_type": "longrope", "factor": 1.0, "attention_factor": 1.0,
                "short_factor": factors, "long_factor": factors,
                "original_max_position_embeddings": context}),
        }
    }

    /// Refuses what has no finite frequencies.
    pub(crate) fn check(&self, theta: f64, head_dim: usize, path: &Path) -> Result<()> {
        let sane = |x: &f64| (1e-9..1e12).contains(x);
        let fine = match self {
            RopeScaling::None => true,
            RopeScaling::Linear(factor) => sane(factor),
            RopeScaling::Llama3 { factor, low, high, original } => {
                [factor, low, high, original].into_iter().all(sane) && high > low
            }
            RopeScaling::Yarn { factor, original, fast, slow, attention, .. } => {
                [factor, original, fast, slow, attention].into_iter().all(sane) && fast >= slow && theta > 1.0
            }
            RopeScaling::Factors(factors) => {
                if factors.len() != head_dim / 2 {
                    let cause = format!("{} divisors for {} rotary frequencies", factors.len(), head_dim / 2);
                    return Err(StudentError::file(path, cause));
                }
                factors.iter().all(|factor| sane(&f64::from(*factor)))
            }
        };
        if fine {
            return Ok(());
        }
        let cause = "rope scaling factors must be numbers above 0 (1e-9 to 1e12), high above low, fast not below slow, theta above 1";
        Err(StudentError::file(path, cause))
    }

    /// One frequency for two numbers of a head, in f32 throughout, as PyTorch computes them; and
    /// the factor on cosines and sines.
    pub(crate) fn frequencies(&self, theta: f64, head_dim: usize) -> (Vec<f32>, f32) {
        let periods: Vec<f32> =
            (0..head_dim / 2).map(|i| (theta as f32).powf((2 * i) as f32 / head_dim as f32)).collect();
        let plain = periods.iter().map(|period| 1.0 / period);
        match self {
            RopeScaling::None => (plain.collect(), 1.0),
            RopeScaling::Linear(factor) => (plain.map(|f| f / *factor as f32).collect(), 1.0),
            RopeScaling::Factors(factors) => {
                (periods.iter().zip(factors).map(|(period, factor)| 1.0 / (factor * period)).collect(), 1.0)
            }
            RopeScaling::Llama3 { factor, low, high, original } => {
                let ramped = plain.map(|f| {
                    let wavelength = std::f64::consts::TAU / f as f64;
                    let kept = ((original / wavelength - low) / (high - low)).clamp(0.0, 1.0);
                    ((1.0 - kept) * f as f64 / factor + kept * f as f64) as f32
                });
                (ramped.collect(), 1.0)
            }
            RopeScaling::Yarn { factor, original, fast, slow, attention, truncate } => {
                let turning = |turns: f64| {
                    head_dim as f64 * (original / (turns * std::f64::consts::TAU)).ln() / (2.0 * theta.ln())
                };
                let (mut low, mut high) = (turning(*fast), turning(*slow));
                if *truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                (low, high) = (low.max(0.0), high.min((head_dim - 1) as f64));
                if low == high {
                    high += 0.001;
                }
                let ramped = periods.iter().enumerate().map(|(i, period)| {
                    let kept = 1.0 - ((i as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
                    1.0 / (*factor as f32 * period) * (1.0 - kept) + 1.0 / period * kept
                });
                (ramped.collect(), *attention as f32)
            }
        }
    }
}

fn yarn(rope: &Fields, original: f64, context: usize) -> Result<RopeScaling> {
    let set = |key: &str| rope.number(key).map(|found| found.filter(|x| *x != 0.0));
    let factor = rope.number("factor")?.unwrap_or(context as f64 / original);
    let attention = match (rope.number("attention_factor")?, set("mscale")?, set("mscale_all_dim")?) {
        (Some(said), ..) => said,
        (None, Some(one), Some(all)) => magnitude(factor, one) / magnitude(factor, all),
        _ => magnitude(factor, 1.0),
    };
    let (fast, slow) = (set("beta_fast")?.unwrap_or(32.0), set("beta_slow")?.unwrap_or(1.0));
    Ok(RopeScaling::Yarn { factor, original, fast, slow, attention, truncate: rope.flag("truncate", true)? })
}

/// `longrope` is read where it comes to one table: the same divisors for short and long texts and
/// no factor on the scores.
fn table(rope: &Fields) -> Result<RopeScaling> {
    let (short, long) = (rope.numbers("short_factor")?, rope.numbers("long_factor")?);
    match short {
        Some(factors) if Some(&factors) == long.as_ref() && rope.number("attention_factor")? == Some(1.0) => {
            Ok(RopeScaling::Factors(factors.into_iter().map(|factor| factor as f32).collect()))
        }
        _ => Err(unknown(rope.path, "longrope")),
    }
}

/// What longer contexts do to the scores, by the paper's fit.
fn magnitude(factor: f64, scale: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 }
}

fn whole(x: f64) -> Value {
    if x.fract() == 0.0 && (0.0..1e15).contains(&x) { json!(x as u64) } else { json!(x) }
}

fn refuse_partial(at: &Fields) -> Result<()> {
    match at.number("partial_rotary_factor")? {
        Some(part) if part != 1.0 => Err(at.fail("partial_rotary_factor other than 1 is not supported")),
        _ => Ok(()),
    }
}

fn unknown(path: &Path, found: &str) -> StudentError {
    let cause = format!("rope scaling type \"{found}\" is not supported; expected default, linear, llama3 or yarn");
    StudentError::file(path, cause)
}
