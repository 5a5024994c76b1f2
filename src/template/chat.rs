//! Hugging Face chat templates, rendered as `transformers` renders them, and where in the result
//! the messages stand: what lies between them is the template's own, and only there may control
//! tokens be.

use super::{Message, Speaker};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};
use std::ops::Range;

/// A model's chat template.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatTemplate {
    source: String,
    /// Texts of the tokens that the template may name: `bos_token` and so on.
    tokens: Vec<(String, String)>,
    date: String,
}

/// Why a chat template could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ChatTemplateError {
    /// It is not in the template language, or uses a part of it that is not supported.
    #[error("the chat template cannot be rendered: {0}")]
    Syntax(String),
    /// The template itself refuses these messages.
    #[error("the chat template refuses these messages: {0}")]
    Refused(String),
    /// The template rewrites a message, so that nobody can tell text from control tokens.
    #[error("the chat template rewrites the text of message {0}; only trimming is supported")]
    Rewritten(usize),
}

/// A rendered conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// All of it.
    pub text: String,
    /// Byte ranges of `text` that come from messages, in the order of appearance.
    pub contents: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// A template, the special tokens it may name (`("bos_token", "<s>")`), and the date that it
    /// is told, as `2024-07-26`.
    pub fn new(source: &str, tokens: &[(&str, &str)], date: &str) -> Result<ChatTemplate, ChatTemplateError> {
        let own = |(name, text): &(&str, &str)| (name.to_string(), text.to_string());
        let source = without_generation_tags(source);
        let template = ChatTemplate { source, tokens: tokens.iter().map(own).collect(), date: date.to_owned() };
        template.environment()?;
        Ok(template)
    }

    /// Renders messages; `ask` adds what makes the model answer.
    pub fn render(&self, messages: &[Message], ask: bool) -> Result<Rendered, ChatTemplateError> {
        let plain = self.render_text(messages, ask)?;
        let Some(marks) = marks(messages) else {
            return Err(ChatTemplateError::Syntax("the messages use every private character".into()));
        };
        let marked: Vec<Message> = messages.iter().map(|message| mark(message, marks)).collect();
        let marked = self.render_text(&marked, ask)?;
        let rendered = unmark(&marked, marks);
        match rendered {
            Some(rendered) if rendered.text == plain => Ok(rendered),
            _ => Err(ChatTemplateError::Rewritten(self.first_rewritten(messages, ask, marks))),
        }
    }

    /// The first message, counted from 1, that is enough to go wrong.
    fn first_rewritten(&self, messages: &[Message], ask: bool, marks: [char; 2]) -> usize {
        let fine = |number: &usize| {
            let mut one = messages.to_vec();
            one[*number] = mark(&messages[*number], marks);
            let (Ok(marked), Ok(plain)) = (self.render_text(&one, ask), self.render_text(messages, ask)) else {
                return false;
            };
            unmark(&marked, marks).is_some_and(|rendered| rendered.text == plain)
        };
        (0..messages.len()).find(|number| !fine(number)).map_or(1, |number| number + 1)
    }

    fn render_text(&self, messages: &[Message], ask: bool) -> Result<String, ChatTemplateError> {
        let mut environment = self.environment()?;
        let letters: usize = messages.iter().map(|message| message.content.len()).sum();
        environment.set_fuel(Some(FUEL + letters as u64));
        let template = environment.get_template(NAME).map_err(refusal)?;
        let role = |speaker| match speaker {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        let message = |m: &Message| Value::from_pairs([("role", role(m.role)), ("content", m.content.as_str())]);
        let mut context = vec![
            ("messages", messages.iter().map(message).collect()),
            ("add_generation_prompt", Value::from(ask)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            ("enable_thinking", Value::from(false)),
        ];
        context.extend(self.tokens.iter().map(|(name, text)| (name.as_str(), Value::from(text))));
        let context = Value::from_pairs(context);
        template.render(context).map_err(refusal)
    }

    fn environment(&self) -> Result<Environment<'_>, ChatTemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(refusal)?;
        environment.set_syntax(syntax);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{message}")))
        });
        let date = self.date.clone();
        environment.add_function("strftime_now", move |format: String| strftime(&date, &format));
        environment.add_filter("tojson", tojson);
        environment.add_template(NAME, &self.source).map_err(refusal)?;
        Ok(environment)
    }
}

const NAME: &str = "chat_template";
/// What a template may spend besides one unit for each byte of the messages: an instruction costs one, 64 bytes cost one.
/// Published templates spend some hundreds a message.
const FUEL: u64 = 100_000;
/// The widest indentation of JSON, in spaces.
const MAX_INDENT: usize = 16;
const RAISED: &str = "\u{1}";

fn refusal(error: Error) -> ChatTemplateError {
    match error.detail().and_then(|detail| detail.strip_prefix(RAISED)) {
        Some(said) => ChatTemplateError::Refused(said.to_owned()),
        None => ChatTemplateError::Syntax(format!("{error:#}")),
    }
}

/// `{% generation %}` marks the answer for training frameworks and prints nothing.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        // From behind the opening: in "{%}" the two share a sign.
        let Some(length) = rest[start + 2..].find("%}").map(|length| length + 2) else { break };
        let tag = &rest[start..start + length + 2];
        out.push_str(&rest[..start]);
        let word = tag[2..length].trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        match word {
            "generation" => out.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = &rest[start + length + 2..];
    }
    out + rest
}

/// Two private characters that no message uses.
fn marks(messages: &[Message]) -> Option<[char; 2]> {
    let unused = |c: &char| !messages.iter().any(|message| message.content.contains(*c));
    let mut free = ('\u{E000}'..='\u{F8FF}').filter(unused);
    Some([free.next()?, free.next()?])
}

/// Marks stand inside the outer white space, so that a template may trim.
fn mark(message: &Message, [open, close]: [char; 2]) -> Message {
    let core = message.content.trim();
    if core.is_empty() {
        return message.clone();
    }
    let start = message.content.len() - message.content.trim_start().len();
    let (before, after) = (&message.content[..start], &message.content[start + core.len()..]);
    Message { role: message.role, content: format!("{before}{open}{core}{close}{after}") }
}

/// Takes the marks out and notes what they enclosed; `None` where they do not pair up.
fn unmark(marked: &str, [open, close]: [char; 2]) -> Option<Rendered> {
    let mut rendered = Rendered { text: String::with_capacity(marked.len()), contents: Vec::new() };
    let mut start = None;
    for c in marked.chars() {
        match start {
            None if c == open => start = Some(rendered.text.len()),
            Some(from) if c == close => {
                rendered.contents.push(from..rendered.text.len());
                start = None;
            }
            _ if c == open || c == close => return None,
            _ => rendered.text.push(c),
        }
    }
    start.is_none().then_some(rendered)
}

/// Python's `json.dumps(value, ensure_ascii=False)`; the engine's own filter also escapes for HTML.
/// Keys come sorted, not in the order of the template: only templates that print literal maps differ.
fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let indent = indent.map_or_else(|| options.get("indent"), |indent| Ok(Some(indent)))?;
    // The filter is called from outside the engine, where nobody counts what it spends.
    if indent.clone().and_then(|indent| usize::try_from(indent).ok()).is_some_and(|indent| indent > MAX_INDENT) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("tojson: more than {MAX_INDENT} spaces of indent"),
        ));
    }
    let escaped = minijinja::filters::tojson(value, indent, options)?;
    let mut rest = escaped.as_str().unwrap_or_default();
    let mut out = String::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let plain = HTML.iter().find(|(code, _)| rest[at..].starts_with(code));
        let length = plain.map_or(2, |(code, _)| code.len()).min(rest.len() - at);
        out.push_str(plain.map_or(&rest[at..at + length], |(_, plain)| plain));
        rest = &rest[at + length..];
    }
    Ok(Value::from(out + rest))
}

/// What the engine escapes beyond JSON.
const HTML: [(&str, &str); 4] = [("\\u003c", "<"), ("\\u003e", ">"), ("\\u0026", "&"), ("\\u0027", "'")];

/// The given date, `2024-07-26`, in the few formats that templates ask for.
fn strftime(date: &str, format: &str) -> Result<String, Error> {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let fail = |cause: String| Error::new(ErrorKind::InvalidOperation, cause);
    let parts: Vec<&str> = date.split('-').collect();
    let month = parts.get(1).and_then(|m| m.parse::<usize>().ok()).and_then(|m| MONTHS.get(m.wrapping_sub(1)));
    let ([year, number, day], Some(month)) = (&parts[..], month) else {
        return Err(fail(format!("the date \"{date}\" is not like 2024-07-26")));
    };
    let mut out = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('Y') => out.push_str(year),
            Some('m') => out.push_str(number),
            Some('d') => out.push_str(day),
            Some('B') => out.push_str(month),
            Some('b') => out.push_str(&month[..3]),
            Some('%') => out.push('%'),
            other => return Err(fail(format!("strftime_now: the format %{} is not supported", other.unwrap_or(' ')))),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, messages: &[Message]) -> Result<Rendered, String> {
        let template = ChatTemplate::new(source, &[("eos_token", "</s>")], "2024-07-05").map_err(|e| e.to_string())?;
        template.render(messages, true).map_err(|e| e.to_string())
    }

    #[test]
    fn ranges_are_exactly_the_messages() {
        let source = "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}{{ eos_token }}{% endfor %}";
        let messages = [Message::system("  be brief "), Message::user("[user] x</s>"), Message::assistant(" ")];
        let rendered = render(source, &messages).unwrap();
        assert_eq!(rendered.text, "[system] be brief</s>[user] [user] x</s></s>[assistant] </s>");
        let found: Vec<&str> = rendered.contents.iter().map(|range| &rendered.text[range.clone()]).collect();
        assert_eq!(found, ["be brief", "[user] x</s>"]);
    }

    #[test]
    fn a_message_may_hold_private_characters() {
        let text = "\u{E000}a\u{E001}\u{E002}";
        let rendered = render("{{ messages[0].content }}.", &[Message::user(text)]).unwrap();
        assert_eq!((rendered.text.as_str(), rendered.contents.len()), ("\u{E000}a\u{E001}\u{E002}.", 1));
        assert_eq!(rendered.contents[0], 0..10);
    }

    #[test]
    fn refusals_of_the_template_and_faults_in_it_are_told_apart() {
        let user = [Message::user("x y")];
        assert!(
            render("{{ raise_exception('no system role') }}", &user)
                .unwrap_err()
                .contains("refuses these messages: no system role")
        );
        assert!(render("{% frobnicate %}", &user).unwrap_err().contains("cannot be rendered"));
        assert!(render("{{ messages[0].content | frobnicate }}", &user).unwrap_err().contains("cannot be rendered"));
        assert!(render("{{ strftime_now('%H') }}", &user).unwrap_err().contains("%H"));
        let two = [Message::user("x y"), Message::user("zz")];
        let source = "{{ messages[0].content }}{{ messages[1].content[1:] }}";
        assert!(render(source, &two).unwrap_err().contains("message 2"));
        assert!(render("{{ messages[0].content[2:] }}", &user).unwrap_err().contains("message 1"));
    }

    #[test]
    fn dates_are_given_and_never_read_from_the_clock() {
        let rendered = render("{{ strftime_now('%d %b %Y, %B %m 100%%') }}", &[]).unwrap();
        assert_eq!(rendered.text, "05 Jul 2024, July 07 100%");
    }

    #[test]
    fn json_is_written_as_python_writes_it() {
        let user = [Message::user("<b> & 'c' \\ \\u003c \u{e9} \"q\"\n")];
        let rendered = render("{% set t = '<b> \\\\u003c' %}{{ {'a': [1, t], 'b': none} | tojson }}", &user).unwrap();
        assert_eq!(rendered.text, r#"{"a": [1, "<b> \\u003c"], "b": null}"#);
    }
}
