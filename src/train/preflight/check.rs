//! What must hold of every item before it is trained on, and of the layers that are adapted.

use super::{Item, Refusal, TokenizedItem};
use crate::student::{ChatTokenizer, ModelConfig, TARGETS};
use std::ops::Range;

/// Refuses adapters on the embedding or the head.
///
/// # Errors
/// `E209`, with the layer's name.
pub fn check_targets(model: &ModelConfig, targets: &[String]) -> Result<(), Refusal> {
    let is_matrix = |name: &&String| ["lm_head", "embed_tokens"].contains(&name.rsplit('.').next().unwrap_or_default());
    let Some(name) = targets.iter().find(is_matrix) else { return Ok(()) };
    let why = match model.tied {
        true => {
            "embedding and head are one matrix in this model (tied): an adapter on it would change both, and a merged \
             copy could not hold what was measured"
        }
        false => "only the linear layers of the blocks are adapted",
    };
    let message =
        format!("lora.target_modules names {name}: {why} — take it out; expected some of {}", TARGETS.join(", "));
    Err(Refusal::new("E209", message))
}

/// An item as the model sees it, if nothing speaks against it.
pub(super) fn tokenize(tokenizer: &ChatTokenizer, item: &Item) -> Result<TokenizedItem, Refusal> {
    let (found, prompt) = encode(tokenizer, item)?;
    check(&found, &prompt, tokenizer.end_of_turn(), |id| tokenizer.is_control(id))?;
    agree(tokenizer, item)?;
    Ok(found)
}

/// The ids an item is trained on, and those its student is asked with.
pub(super) fn encode(tokenizer: &ChatTokenizer, item: &Item) -> Result<(TokenizedItem, Vec<u32>), Refusal> {
    let Item { name, messages, weight, unlearned } = item;
    if !(*weight >= 0.0 && weight.is_finite()) {
        return Err(Refusal::new("E208", format!("{name}: its weight is {weight}; expected 0 or a number above")));
    }
    let fail = |error| Refusal::new("E207", format!("{name}: {error}"));
    let example = tokenizer.example(messages).map_err(fail)?;
    let prompt = tokenizer.prompt(&messages[..messages.len() - 1]).map_err(fail)?;
    let mut unread = Vec::new();
    if !unlearned.is_empty() {
        let answer = &messages[messages.len() - 1].content;
        if let Some(range) = unlearned.iter().find(|range| range.is_empty() || answer.get((*range).clone()).is_none()) {
            let message = format!("{name}: {range:?} is no part of the answer, which has {} bytes", answer.len());
            return Err(Refusal::new("E207", message));
        }
        let touched = |at: &Range<usize>| unlearned.iter().any(|range| at.start < range.end && range.start < at.end);
        let places = tokenizer.places(answer).map_err(fail)?;
        let touched =
            places.iter().enumerate().filter(|(_, at)| touched(at)).map(|(at, _)| example.supervised.start + at);
        unread = touched.map(|at| at..at + 1).collect();
    }
    let (name, supervised) = (name.clone(), example.supervised);
    let found = TokenizedItem { name, ids: example.ids, supervised, weight: *weight, unlearned: unread };
    Ok((found, prompt))
}

/// Whether the template opens an answer as it asks for one. A student is taught behind the prompt,
/// so it would learn either way, but from a place where its base model never began to speak.
pub(super) fn agree(tokenizer: &ChatTokenizer, item: &Item) -> Result<(), Refusal> {
    let fail = |error| Refusal::new("E207", format!("{}: {error}", item.name));
    let Some((asked, written)) = tokenizer.parting(&item.messages).map_err(fail)? else { return Ok(()) };
    let message = format!(
        "{}: the chat template asks with {asked:?} where it writes {written:?} before an answer; trained and asked \
         would differ — make add_generation_prompt write what stands before the assistant's text",
        item.name
    );
    Err(Refusal::new("E205", message))
}

/// What must hold of every item, whatever the tokenizer did.
pub(super) fn check(
    item: &TokenizedItem,
    prompt: &[u32],
    end_of_turn: u32,
    control: impl Fn(u32) -> bool,
) -> Result<(), Refusal> {
    let TokenizedItem { name, ids, supervised, .. } = item;
    let refuse = |code, message: String| Err(Refusal::new(code, format!("{name}: {message}")));
    if supervised.is_empty() || supervised.end > ids.len() {
        return refuse("E202", format!("no supervised token among {}; is the answer empty?", ids.len()));
    }
    if supervised.end != ids.len() || ids.last() != Some(&end_of_turn) {
        let last = ids.last().copied().unwrap_or_default();
        return refuse(
            "E203",
            format!(
                "the end of turn, token {end_of_turn}, is not learned (the last token is {last}); the student would \
                 never stop — check the chat template"
            ),
        );
    }
    if item.learned() <= 1 {
        let message = "no token of the answer is supervised, only its end; the answer is empty — leave the line out, \
                       or write what an answer without findings looks like ({})";
        return refuse("E202", message.into());
    }
    if let [first, second, ..] = ids[..]
        && first == second
        && control(first)
    {
        let message = format!(
            "it begins with the control token {first} twice; the template writes it twice (the tokenizer adds none) — \
             remove one from the chat template"
        );
        return refuse("E204", message);
    }
    if supervised.start != prompt.len() || !ids.starts_with(prompt) {
        let same = ids.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let message = format!(
            "the student is asked with {} tokens that differ from the trained ones at token {same}; the answer begins \
             at {} — check that the chat template only appends",
            prompt.len(),
            supervised.start
        );
        return refuse("E205", message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    fn item(ids: &[u32], supervised: Range<usize>) -> TokenizedItem {
        TokenizedItem { name: "train.jsonl:12".into(), ids: ids.to_vec(), supervised, weight: 1.0, unlearned: vec![] }
    }

    #[test]
    fn tokens_that_would_waste_a_run_are_refused_with_their_code() {
        // 1 begins a text, 2 ends a turn.
        let check = |ids: &[u32], supervised, prompt: &[u32]| check(&item(ids, supervised), prompt, 2, |id| id < 3);
        check(&[1, 5, 6, 7, 2], 3..5, &[1, 5, 6]).unwrap();
        check(&[5, 5, 6, 7, 2], 3..5, &[5, 5, 6]).unwrap();
        let cases = [
            (check(&[1, 5, 6, 7, 2], 3..3, &[1, 5, 6]), "E202"),
            (check(&[1, 5, 6, 7, 2], 3..6, &[1, 5, 6]), "E202"),
            (check(&[1, 5, 6, 2], 3..4, &[1, 5, 6]), "E202"),
            (check(&[1, 5, 6, 7, 2], 3..4, &[1, 5, 6]), "E203"),
            (check(&[1, 5, 6, 7, 9], 3..5, &[1, 5, 6]), "E203"),
            (check(&[1, 1, 6, 7, 2], 3..5, &[1, 1, 6]), "E204"),
            (check(&[1, 5, 6, 7, 2], 3..5, &[1, 5, 8]), "E205"),
            (check(&[1, 5, 6, 7, 2], 3..5, &[1, 5]), "E205"),
        ];
        for (result, code) in cases {
            let refusal = result.unwrap_err();
            assert_eq!(refusal.code, code, "{refusal}");
            assert!(refusal.to_string().starts_with(&format!("{code}: train.jsonl:12: ")), "{refusal}");
        }
    }
}
