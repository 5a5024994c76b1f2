//! Greedy decoding: what an answer is, and whole batches of them by burn's own operations. What all
//! prompts begin with is read once; each step then appends one token to every unfinished row, in one
//! product per layer. [`super::engine`] is what runs on the CPU.

use super::cache::{Prefix, Rows, to_rows};
use super::engine::{Answer, Engine, Pen, Request, Settings};
use super::error::Result;
use super::model::Model;
use super::tokenizer::ChatTokenizer;
use rayon::prelude::*;

/// Most rows decoded together; memory for keys and values grows linearly.
const MAX_ROWS: usize = 32;
/// Most prompt tokens read together, behind the shared prefix.
const MAX_TOKENS: usize = 8192;
/// Finished rows are dropped once they are this share of the batch; dropping copies the cache.
const DROP_SHARE: usize = 4;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model said that it is done.
    Stop,
    /// The limit was reached first.
    Length,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Tokens, the final stop token included.
    pub ids: Vec<u32>,
    /// As text, without control tokens; where the answer was closed at its limit, the text is whole
    /// and the tokens are those that were written.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// Natural logarithm of each token's probability; `None` where the grammar left no choice and
    /// the model was not asked.
    pub logprobs: Vec<Option<f32>>,
    /// Whether the limit was reached and the grammar closed the answer behind its last whole item.
    pub closed: bool,
    /// Its share of the time.
    pub seconds: f64,
}

/// Answers every prompt (at least one token each) greedily: the likeliest token each time, the
/// lowest id among equals. Takes any adapters into account.
///
/// # Errors
/// If the device fails or the vocabulary cannot be read.
pub fn generate(
    model: &Model,
    tokenizer: &ChatTokenizer,
    prompts: &[Vec<u32>],
    max_new_tokens: usize,
) -> Result<Vec<Generated>> {
    let ask = |prompt: &Vec<u32>| Request { prompt: prompt.clone(), grammar: None, max_new_tokens };
    Engine::new(model, tokenizer, Settings::default())?.answer(prompts.iter().map(ask).collect())
}

/// Answers in whole batches, one token a pass and row, with burn's own operations: for devices
/// other than the CPU, and what the engine is tested against.
pub(crate) fn decode(model: &Model, pen: Pen, requests: &[Request]) -> Result<Vec<Generated>> {
    let mut answers: Vec<Option<Generated>> = requests.iter().map(|_| None).collect();
    let model = model.untracked();
    let prompts: Vec<&[u32]> = requests.iter().map(|request| &request.prompt[..]).collect();
    let shared = shared_prefix(&prompts);
    let prefix = Prefix::read(&model, prompts.first().map_or(&[], |prompt| &prompt[..shared]));
    // Rows of like length pad little.
    let mut order: Vec<usize> = (0..prompts.len()).collect();
    order.sort_by_key(|i| (prompts[*i].len(), *i));
    let mut rest = &order[..];
    while !rest.is_empty() {
        let fits = |count: usize| prompts[rest[count - 1]].len().saturating_sub(shared) * count <= MAX_TOKENS;
        let count = (1..=rest.len().min(MAX_ROWS)).rev().find(|count| fits(*count)).unwrap_or(1);
        let (batch, after) = rest.split_at(count);
        rest = after;
        let suffixes: Vec<&[u32]> = batch.iter().map(|i| &prompts[*i][shared..]).collect();
        let begun = batch.iter().map(|i| Answer::new(&requests[*i], pen)).collect();
        for (i, answer) in batch.iter().zip(decode_batch(&model, pen, &prefix, &suffixes, begun)?) {
            answers[*i] = Some(answer.into_generated(pen.tokenizer)?);
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

fn decode_batch(
    model: &Model,
    pen: Pen,
    prefix: &Prefix,
    suffixes: &[&[u32]],
    mut answers: Vec<Answer>,
) -> Result<Vec<Answer>> {
    if answers.iter().all(Answer::ended) {
        return Ok(answers);
    }
    let (mut rows, mut hidden) = Rows::read(model, prefix, suffixes);
    // Which answer each row of the cache belongs to, and how many of its tokens were read.
    let mut owners: Vec<usize> = (0..suffixes.len()).collect();
    let mut read = vec![0; suffixes.len()];
    loop {
        let scores = to_rows(hidden.matmul(model.head.clone()))?;
        let mut of_answer: Vec<Option<&[f32]>> = vec![None; answers.len()];
        owners.iter().zip(&scores).for_each(|(owner, scores)| of_answer[*owner] = Some(scores));
        let due = answers.par_iter_mut().zip(of_answer).zip(&read);
        due.for_each(|((answer, scores), read)| {
            if let Some(scores) = scores.filter(|_| !answer.ended() && *read == answer.ids().len()) {
                answer.advance(scores, pen);
            }
        });
        let active: Vec<usize> = (0..owners.len()).filter(|row| !answers[owners[*row]].ended()).collect();
        if active.is_empty() {
            return Ok(answers);
        }
        if (owners.len() - active.len()) * DROP_SHARE >= owners.len() {
            rows.keep(model, &active);
            owners = active.iter().map(|row| owners[*row]).collect();
        }
        let next = |owner: &usize| {
            // A row whose answer stands is carried along until it is dropped.
            let ids = answers[*owner].ids();
            let id = ids.get(read[*owner]).or(ids.last()).copied().unwrap_or_default();
            read[*owner] += 1;
            id
        };
        let tokens: Vec<u32> = owners.iter().map(next).collect();
        hidden = rows.step(model, &tokens);
    }
}

/// Tokens that all prompts begin with; leaves every prompt at least one of its own.
pub(crate) fn shared_prefix<T: AsRef<[u32]>>(prompts: &[T]) -> usize {
    let Some(first) = prompts.first().map(AsRef::as_ref) else { return 0 };
    let common = |other: &[u32]| first.iter().zip(other).take_while(|(a, b)| a == b).count();
    prompts.iter().map(|p| common(p.as_ref()).min(p.as_ref().len().saturating_sub(1))).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::shared_prefix;

    #[test]
    fn the_shared_prefix_leaves_every_prompt_a_token() {
        assert_eq!(shared_prefix(&[vec![1, 2, 3], vec![1, 2, 4]]), 2);
        assert_eq!(shared_prefix(&[vec![1, 2, 3], vec![1, 2]]), 1);
        assert_eq!(shared_prefix(&[vec![5]]), 0);
        assert_eq!(shared_prefix::<Vec<u32>>(&[]), 0);
    }
}
