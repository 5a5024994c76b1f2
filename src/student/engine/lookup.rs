//! Guesses from the prompt: an answer copies from its document, so what followed its last tokens
//! there is likely to follow here (prompt-lookup decoding; checking guesses in one pass is Leviathan
//! et al. 2023, arXiv:2211.17192).

/// Longest run of last tokens that is looked for.
const LONGEST: usize = 3;

/// Up to `most` tokens that followed the last occurrence of the last written tokens in the prompt;
/// `plain` maps a token to the one without its leading space, since the first word of a string has
/// none where the document has one.
pub(super) fn guess(prompt: &[u32], written: &[u32], most: usize, plain: impl Fn(u32) -> u32) -> Vec<u32> {
    for length in (1..=LONGEST.min(written.len())).rev() {
        let tail: Vec<u32> = written[written.len() - length..].iter().map(|id| plain(*id)).collect();
        // What follows must exist.
        let found = (length..prompt.len())
            .rev()
            .find(|end| prompt[end - length..*end].iter().zip(&tail).all(|(id, wanted)| plain(*id) == *wanted));
        if let Some(end) = found {
            return prompt[end..prompt.len().min(end + most)].to_vec();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_longest_and_last_occurrence_is_guessed() {
        let prompt = [5, 6, 7, 8, 5, 6, 9, 5, 1];
        assert_eq!(guess(&prompt, &[5, 6], 2, |id| id), [9, 5]);
        assert_eq!(guess(&prompt, &[0, 6, 7], 9, |id| id), [8, 5, 6, 9, 5, 1]);
        assert_eq!(guess(&prompt, &[0, 5], 9, |id| id), [1]);
        assert_eq!(guess(&prompt, &[1], 9, |id| id), [], "nothing follows it");
        assert_eq!(guess(&prompt, &[], 9, |id| id), []);
        // 17 is 7 with a space before it.
        assert_eq!(guess(&[17, 8], &[7], 9, |id| if id == 17 { 7 } else { id }), [8]);
    }
}
