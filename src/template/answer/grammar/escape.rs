//! JSON strings as `serde_json` writes them, character by character.

/// The inside of a JSON string.
pub(super) fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    text.chars().for_each(|c| escape(c, &mut written));
    written
}

/// Appends one character as it stands in a JSON string.
pub(super) fn escape(c: char, written: &mut String) {
    let short = match c {
        '"' | '\\' => c,
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\0'..='\u{1f}' => {
            written.push_str(&format!("\\u{:04x}", u32::from(c)));
            return;
        }
        _ => {
            written.push(c);
            return;
        }
    };
    written.extend(['\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_escaped_as_serde_json_escapes_it() {
        for c in (0..=0x2fff).chain([0xfeff, 0xfffd, 0x1f600, 0x10ffff]).filter_map(char::from_u32) {
            let written = serde_json::Value::from(format!("a{c}b")).to_string();
            assert_eq!(format!("\"{}\"", escaped(&format!("a{c}b"))), written, "{c:?}");
        }
    }
}
