//! What an answer without JSON says: that nothing is there, or that the model declines.

/// Texts that stand for "nothing" where an item is asked for.
const NOTHING: [&str; 12] =
    ["none", "null", "nil", "n/a", "na", "nothing", "no", "empty", "not applicable", "not found", "-", "—"];

/// What is asked for, as a sentence may call it.
const THINGS: [&str; 12] = [
    "entity",
    "entities",
    "relation",
    "relations",
    "relationship",
    "relationships",
    "event",
    "events",
    "mention",
    "mentions",
    "result",
    "results",
];

/// How a refusal opens.
const REFUSALS: [&str; 20] = [
    "i can't",
    "i cannot",
    "i can not",
    "i am unable",
    "i'm unable",
    "i am not able",
    "i'm not able",
    "i won't",
    "i will not",
    "i must decline",
    "i'm sorry",
    "i am sorry",
    "sorry",
    "i apologize",
    "i apologise",
    "as an ai",
    "unfortunately, i",
    "i do not feel comfortable",
    "i'm not comfortable",
    "my apologies",
];

/// Longest sentence that is read as "nothing found"; longer ones say more than that.
const LONGEST: usize = 200;

/// Lower case, typographic apostrophes plain, no edge punctuation.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase().replace(['’', '‘'], "'");
    lower.trim_matches(|c: char| c.is_whitespace() || ".!?:;,*_`\"'()[]<>".contains(c)).to_owned()
}

/// Whether an item's text is a placeholder for "nothing".
pub(super) fn is_placeholder(text: &str) -> bool {
    text.chars().count() <= 20 && {
        let plain = plain(text);
        plain.is_empty() || NOTHING.contains(&plain.as_str())
    }
}

/// Whether the words say that nothing is there: `None`, `NO`, `No entities found.`
pub(super) fn says_nothing(words: &str) -> bool {
    if words.len() > LONGEST {
        return false;
    }
    let said = plain(words);
    if said.is_empty() {
        return false;
    }
    if NOTHING.contains(&said.as_str()) {
        return true;
    }
    let tokens: Vec<&str> =
        said.split(|c: char| !(c.is_alphanumeric() || c == '\'')).filter(|t| !t.is_empty()).collect();
    let any_of = |words: &[&str]| tokens.iter().any(|token| words.contains(token));
    if said.contains([':', '\n']) || any_of(&["help", "assist", "provide", "comply"]) {
        return false;
    }
    let thing = any_of(&THINGS);
    let has = |phrase: &str| format!(" {} ", tokens.join(" ")).contains(&format!(" {phrase} "));
    let negated =
        any_of(&["not", "cannot", "no", "none", "nothing"]) || tokens.iter().any(|token| token.ends_with("n't"));
    let found = ["found", "find any", "identify any", "contain any", "mention any", "present"].into_iter().any(has);
    let first = said.split([',', '.', ';', '!']).next().unwrap_or_default();
    let opening = |token: &str| THINGS.contains(&token) || token == "found";
    match tokens.first() {
        // "No entities found", but not "No problem, the entities are …".
        Some(&"no") => first.split_whitespace().any(opening) && !any_of(&["but", "however", "except", "only"]),
        Some(&"none" | &"nothing") => tokens.len() <= 6 && found,
        _ => negated && thing && (found || has("no")),
    }
}

/// Whether the words are a refusal.
pub(super) fn refuses(words: &str) -> bool {
    let said = plain(words);
    REFUSALS
        .iter()
        .any(|opening| said.strip_prefix(opening).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())))
}
