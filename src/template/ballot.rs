//! A turn of a debate, read back: which option, how sure, why.

use super::answer::Finish;

/// What a debater or the summarizer chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Ballot {
    /// The option's letter.
    pub choice: char,
    /// In `0..=1`; unknown stays unknown.
    pub confidence: Option<f64>,
    /// Why, at most 200 characters.
    pub reason: String,
}

/// Reads `{"choice":"A","confidence":0.8,"reason":"…"}`, fenced or after prose, or a bare letter.
///
/// # Errors
/// If the answer was cut off before its choice, or names none of the options.
pub fn read_ballot(raw: &str, finish: Finish, options: usize) -> Result<Ballot, String> {
    if finish == Finish::ContentFilter {
        return Err("stopped by the server's content filter".into());
    }
    let letter = |text: &str| {
        let mut letters = text.trim().trim_matches(['"', '(', ')', '.', ':']).chars();
        let first = letters.next()?.to_ascii_uppercase();
        let alone = letters.next().is_none_or(|next| !next.is_alphanumeric());
        (alone && ('A'..='Z').take(options).any(|option| option == first)).then_some(first)
    };
    let start = raw.find('{');
    let object = start.and_then(|start| {
        let mut values = serde_json::Deserializer::from_str(&raw[start..]).into_iter::<serde_json::Value>();
        values.next()?.ok()
    });
    if let Some(object) = object {
        let said = object.get("choice").and_then(|choice| choice.as_str()).unwrap_or_default();
        let choice = letter(said)
            .ok_or_else(|| format!("the choice \"{}\" is none of the {options} options", shortened(said)))?;
        let confidence =
            object.get("confidence").and_then(serde_json::Value::as_f64).filter(|c| (0.0..=1.0).contains(c));
        let reason = object.get("reason").and_then(|reason| reason.as_str()).unwrap_or_default();
        return Ok(Ballot { choice, confidence, reason: shortened(reason) });
    }
    // A cut-off reason leaves the choice whole: {"choice":"A","reason":"because …
    let after = raw.split("\"choice\"").nth(1).map(|rest| rest.trim_start_matches([':', ' ']));
    let choice = after.or(Some(raw).filter(|_| start.is_none())).and_then(letter);
    let confidence =
        raw.split("\"confidence\":").nth(1).and_then(|rest| rest.split([',', '}']).next()?.trim().parse().ok());
    let confidence = confidence.filter(|value: &f64| (0.0..=1.0).contains(value));
    let reason = raw.split("\"reason\":\"").nth(1).map(|rest| format!("{}…", shortened(rest))).unwrap_or_default();
    choice
        .map(|choice| Ballot { choice, confidence, reason })
        .ok_or_else(|| format!("no choice in the answer: \"{}\"", shortened(raw)))
}

fn shortened(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ballot_is_read_in_the_forms_that_models_give() {
        let read = |raw| read_ballot(raw, Finish::Stop, 3).map(|ballot| ballot.choice);
        assert_eq!(read(r#"{"choice":"B","confidence":0.8,"reason":"x"}"#), Ok('B'));
        assert_eq!(read("```json\n{\"choice\": \"b: a place\"}\n```"), Ok('B'));
        assert_eq!(read("C."), Ok('C'));
        assert_eq!(read(r#"{"choice":"A","reason":"cut o"#), Ok('A'));
        assert!(read(r#"{"choice":"D"}"#).is_err());
        assert!(read("Because it is a city").is_err());
        assert!(read("{}").is_err());
    }

    #[test]
    fn a_reason_that_is_cut_keeps_its_choice_and_confidence() {
        let ballot =
            read_ballot(r#"{"choice":"C","confidence":0.9,"reason":"The text clearly"#, Finish::Length, 3).unwrap();
        assert_eq!(ballot, Ballot { choice: 'C', confidence: Some(0.9), reason: "The text clearly…".into() });
    }

    #[test]
    fn confidence_outside_its_range_is_unknown() {
        let ballot = read_ballot(r#"{"choice":"A","confidence":90}"#, Finish::Stop, 2).unwrap();
        assert_eq!(ballot.confidence, None);
    }
}
