//! What Python's string functions do to an answer, as far as the conventions use them.

use unicode_normalization::char::is_combining_mark;

/// White space as `str.split` sees it: Unicode's, and the four separators of ASCII.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `' '.join(text.split())`.
pub fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// No white space beside `, : ( ) . _ ; ' -`, one blank elsewhere.
fn tightened(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut skip = false;
    for c in joined(text).chars() {
        if skip && c == ' ' {
            continue;
        }
        skip = matches!(c, ',' | ':' | '(' | ')' | '.' | '_' | ';' | '\'' | '-');
        if skip && out.ends_with(' ') {
            out.pop();
        }
        out.push(c);
    }
    out
}

/// The form in which OneKE compares strings: tightened, lower case, without braces, runs of
/// `,`, `.` and `;` as one, a straight apostrophe.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in tightened(text).to_lowercase().chars() {
        match c {
            '{' | '}' => {}
            ',' | '.' | ';' if out.ends_with(c) => {}
            '’' => out.push('\''),
            c => out.push(c),
        }
    }
    out
}

/// The form in which InstructUIE compares strings: [`plain`], and `location` becomes `located`.
pub fn instructuie(text: &str) -> String {
    plain(text).replace("location", "located")
}

/// A character that `\w` matches; letters and digits, no combining marks.
fn is_word(c: char) -> bool {
    (c.is_alphanumeric() && !is_combining_mark(c)) || c == '_'
}

/// The form in which UniversalNER compares strings: lower case, without ASCII punctuation, without
/// the words a, an and the, one blank between words.
pub fn uniner(text: &str) -> String {
    let bare: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let mut out = String::with_capacity(bare.len());
    let mut rest = bare.as_str();
    while !rest.is_empty() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        out.push_str(if matches!(word, "a" | "an" | "the") { " " } else { word });
        let length = behind.find(is_word).unwrap_or(behind.len());
        out.push_str(&behind[..length]);
        rest = &behind[length..];
    }
    joined(&out)
}

/// `text.encode('utf-8').decode('unicode_escape')`: every byte a character, escapes resolved.
/// `None` where Python raises.
pub fn unicode_escape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(char::from(byte));
            continue;
        }
        match bytes.next()? {
            b'\n' => {}
            escape @ (b'\\' | b'\'' | b'"') => out.push(char::from(escape)),
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b't' => out.push('\t'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b'v' => out.push('\u{b}'),
            b'a' => out.push('\u{7}'),
            b'u' => {
                let digits: Option<String> = (0..4).map(|_| bytes.next().map(char::from)).collect();
                out.push(char::from_u32(u32::from_str_radix(&digits?, 16).ok()?)?);
            }
            // JSON has no other escape; Python keeps an unknown one as it is.
            other => {
                out.push('\\');
                out.push(char::from(other));
            }
        }
    }
    Some(out)
}

/// The last balanced `{…}` of at most three levels, as OneKE's pattern finds it.
pub fn last_object(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (None, 0);
    // Behind an opening brace without its partner the search goes on one further, which would be
    // quadratic for a hostile text: give up after as many failures as no real answer has.
    let mut failures = 0;
    while at < bytes.len() && failures < 1000 {
        if bytes[at] != b'{' {
            at += 1;
            continue;
        }
        match object_end(&bytes[at..]) {
            Some(length) => {
                found = Some(&text[at..at + length]);
                at += length;
            }
            None => {
                at += 1;
                failures += 1;
            }
        }
    }
    found
}

fn object_end(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
        if depth > 3 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_take_the_forms_of_the_originals() {
        // Origin: the functions of the originals, run by hand on these strings; the golden test has many more.
        assert_eq!(plain("  Kjc,  jns , ((  : ()  )  ( . )( ln  kc  a,,  "), "kjc,jns,((:())(.)(ln kc a,");
        assert_eq!(instructuie("The {Location} ; of ’x"), "the located;of 'x");
        assert_eq!(uniner("The A.B. of an “Über-Fan” a"), "ab of “überfan”");
    }

    #[test]
    fn an_answer_outside_ascii_is_garbled_as_python_garbles_it() {
        // Origin: Python 3.11, 'é\\"\\u00e9\\\\n'.encode('utf-8').decode('unicode_escape').
        assert_eq!(unicode_escape(r#"é\"\u00e9\\n"#).as_deref(), Some("Ã©\"é\\n"));
        assert_eq!(unicode_escape("\\"), None);
    }

    #[test]
    fn the_last_object_is_found_and_unbalanced_braces_are_passed_over() {
        assert_eq!(last_object("x {a} {b {c}} y"), Some("{b {c}}"));
        assert_eq!(last_object("{ {a}"), Some("{a}"));
        assert_eq!(last_object("{{{{a}}}}"), Some("{{{a}}}"));
        assert_eq!(last_object("no"), None);
    }
}
