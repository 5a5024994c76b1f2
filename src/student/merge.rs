//! The adapter added into the weights, `W + s·AB`, as a model directory of its own: written, read
//! back, and compared with base and adapter before it gets its name.

use super::Student;
use super::directory::replace;
use super::error::{Result, StudentError};
use super::export::numbers;
use super::tokenizer::ChatTokenizer;
use crate::template::Message;
use burn::tensor::Tensor;
use std::path::Path;

/// Positions whose scores are compared, at least.
pub const PROBE_POSITIONS: usize = 32;
/// Tokens that both models answer.
const ANSWER: usize = 32;
/// What both models read: fixed, so that two merges can be compared.
const PROBE: &str = "List the people, places and organisations. Text: On 4 March 1861 Abraham Lincoln took the oath \
                     of office in Washington, D.C., while delegates of seven states met in Montgomery, Alabama.";

/// A merged model that was written, and how far it is from base and adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// Layers that had an adapter.
    pub layers: usize,
    /// Positions at which every token's score was compared.
    pub positions: usize,
    /// Largest difference of a score, merged in memory against base and adapter.
    pub in_memory: f32,
    /// Largest difference of a score, read back from disk against base and adapter.
    pub reloaded: f32,
    /// Tokens of the greedy answer, the same from both.
    pub answer: Vec<u32>,
}

impl Merged {
    /// The larger of the two differences.
    pub fn deviation(&self) -> f32 {
        self.in_memory.max(self.reloaded)
    }
}

/// Writes the student, with its adapter added in where it has one, as a model of its own to `out`;
/// what stands there is replaced. `news` hears each part of the work before it begins, and ends it with `false`.
///
/// # Errors
/// A score that differs by more than `max_deviation`, another greedy answer, or what the disk says;
/// `out` is then as it was.
pub fn merge(
    mut student: Student,
    out: &Path,
    max_deviation: f64,
    news: &mut dyn FnMut(&str) -> bool,
) -> Result<Merged> {
    let mut say = |what: &str| match news(what) {
        true => Ok(()),
        false => Err(StudentError::Adapter("the merge was stopped; nothing was written".into())),
    };
    let layers = student.model.adapters().len() / 2;
    say("reading the probe with base and adapter")?;
    let prompt = probe(&student.tokenizer)?;
    let mut read = prompt.clone();
    read.truncate(student.model.config().context);
    let expected = numbers(student.model.logits(&read))?;
    let answer = answer(&student, &prompt)?;

    say("adding the adapter into the weights")?;
    // Takes the place of base and adapter, which are not needed any more.
    student.model = student.model.merged();
    let in_memory = worst(&expected, student.model.logits(&read))?;
    within("merged in memory", in_memory, max_deviation)?;

    let mut reloaded = 0.0;
    replace(out, |fresh| {
        say("writing")?;
        student.fill_hf(&student.model, fresh)?;
        say("reading it back")?;
        let again = Student::load(fresh, student.model.device())?;
        reloaded = worst(&expected, again.model.logits(&read))?;
        within("read back from disk", reloaded, max_deviation)?;
        let same = self::answer(&again, &prompt)? == answer && probe(&again.tokenizer)? == prompt;
        match same {
            true => say("done"),
            false => Err(StudentError::Adapter(format!(
                "the merged model answers the probe with other tokens than base and adapter, though no score differs by \
                 more than {reloaded:e}; nothing was written"
            ))),
        }
    })?;
    Ok(Merged { layers, positions: read.len(), in_memory, reloaded, answer })
}

/// The probe as this model is asked it; longer where its tokens are so.
fn probe(tokenizer: &ChatTokenizer) -> Result<Vec<u32>> {
    let mut text = PROBE.to_owned();
    loop {
        let ids = tokenizer.prompt(&[Message::user(&text)])?;
        if ids.len() >= PROBE_POSITIONS || text.len() > PROBE_POSITIONS * PROBE.len() {
            return Ok(ids);
        }
        text = format!("{text} {PROBE}");
    }
}

fn answer(student: &Student, prompt: &[u32]) -> Result<Vec<u32>> {
    let mut answers = student.generate(&[prompt.to_vec()], ANSWER)?;
    Ok(answers.pop().map(|answer| answer.ids).unwrap_or_default())
}

/// The largest difference; whatever is not a number is infinitely far.
fn worst(expected: &[f32], found: Tensor<2>) -> Result<f32> {
    let apart = |(a, b): (&f32, f32)| if (a - b).is_nan() { f32::INFINITY } else { (a - b).abs() };
    Ok(expected.iter().zip(numbers(found)?).map(apart).fold(0.0, f32::max))
}

fn within(what: &str, deviation: f32, most: f64) -> Result<()> {
    match f64::from(deviation) <= most {
        true => Ok(()),
        false => Err(StudentError::Adapter(format!(
            "{what}, the model's scores differ from those of base and adapter by up to {deviation:e}; expected {most:e} or \
             less — nothing was written"
        ))),
    }
}
