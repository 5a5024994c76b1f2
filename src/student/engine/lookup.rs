//! Guesses from the prompt: an answer copies from its document, so what followed its last tokens
//! there is likely to follow here (prompt-lookup decoding; checking guesses in one pass is Leviathan
//! et al. 2023, arXiv:2211.17192).

/// Longest run of last tokens that is looked for.
pub(super) const LONGEST: usize = 3;

/// Up to `most` tokens that followed the last occurrence of the last written tokens in the prompt.
/// Compared is `plain`, the prompt's tokens without leading spaces, with `tail`, the last written
/// ones likewise: the first word of a string has no space where the document has one.
pub(super) fn guess(prompt: &[u32], plain: &[u32], tail: &[u32], most: usize) -> Vec<u32> {
    for length in (1..=LONGEST.min(tail.len())).rev() {
        let tail = &tail[tail.len() - length..];
        // What follows must exist.
        if let Some(end) = (length..prompt.len()).rev().find(|end| &plain[end - length..*end] == tail) {
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
        assert_eq!(guess(&prompt, &prompt, &[5, 6], 2), [9, 5]);
        assert_eq!(guess(&prompt, &prompt, &[0, 6, 7], 9), [8, 5, 6, 9, 5, 1]);
        assert_eq!(guess(&prompt, &prompt, &[0, 5], 9), [1]);
        assert!(guess(&prompt, &prompt, &[1], 9).is_empty(), "nothing follows it");
        assert!(guess(&prompt, &prompt, &[], 9).is_empty());
        // 17 is 7 with a space before it.
        assert_eq!(guess(&[17, 8], &[7, 8], &[7], 9), [8]);
    }
}
