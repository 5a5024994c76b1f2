//! Conversations of a corpus in the forms that trainers read, and back: TRL's messages and
//! prompt/completion, alpaca; and preferences, TRL's and alpaca's.

use super::{Message, Speaker};
use serde_json::{Value, json};

/// How a conversation stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `{"messages": [{"role", "content"}, …]}`.
    Messages,
    /// `{"prompt": [message, …], "completion": [message]}`.
    PromptCompletion,
    /// `{"instruction", "input", "output", "system", "history"}`.
    Alpaca,
}

/// One conversation.
///
/// # Errors
/// If it does not end with an answer, or, for alpaca, question and answer do not take turns behind
/// one system message at most.
pub fn written(messages: &[Message], form: Form) -> Result<Value, String> {
    let Some((answer, asked)) = messages.split_last().filter(|(last, _)| last.role == Speaker::Assistant) else {
        return Err("expected a conversation that ends with the assistant's answer".into());
    };
    Ok(match form {
        Form::Messages => json!({ "messages": messages }),
        Form::PromptCompletion => json!({"prompt": asked, "completion": [answer]}),
        Form::Alpaca => {
            let (mut record, question) = asked_alpaca(asked)?;
            record["instruction"] = question.into();
            record["output"] = answer.content.clone().into();
            record
        }
    })
}

/// Two answers to one question: the first is to be preferred.
///
/// # Errors
/// As [`written`].
pub fn preference(asked: &[Message], chosen: &str, rejected: &str, form: Form) -> Result<Value, String> {
    let answer = |text: &str| vec![Message::assistant(text)];
    Ok(match form {
        Form::Alpaca => {
            let (mut record, question) = asked_alpaca(asked)?;
            record["instruction"] = question.into();
            (record["chosen"], record["rejected"]) = (chosen.into(), rejected.into());
            record
        }
        _ => json!({"prompt": asked, "chosen": answer(chosen), "rejected": answer(rejected)}),
    })
}

/// The fields of alpaca in front of the answer, and the last question.
fn asked_alpaca(asked: &[Message]) -> Result<(Value, &str), String> {
    let refused = || Err("alpaca holds one system message at most, then questions and answers in turn".into());
    let (system, turns) = match asked.split_first() {
        Some((first, rest)) if first.role == Speaker::System => (first.content.as_str(), rest),
        _ => ("", asked),
    };
    let Some((last, before)) = turns.split_last().filter(|(last, _)| last.role == Speaker::User) else {
        return refused();
    };
    let mut history = Vec::new();
    for pair in before.chunks(2) {
        match pair {
            [a, b] if (a.role, b.role) == (Speaker::User, Speaker::Assistant) => {
                history.push(json!([a.content, b.content]))
            }
            _ => return refused(),
        }
    }
    // All fields always: readers of JSON Lines by column want every row alike.
    let record = json!({"instruction": "", "input": "", "system": system, "history": history});
    Ok((record, &last.content))
}

/// The conversation of a record.
///
/// # Errors
/// If a field is missing or no text.
pub fn read_back(record: &Value, form: Form) -> Result<Vec<Message>, String> {
    let listed = |name: &str| {
        let list = record.get(name).cloned().ok_or_else(|| format!("the field \"{name}\" is missing"))?;
        serde_json::from_value::<Vec<Message>>(list).map_err(|error| format!("{name}: {error}"))
    };
    let text = |name: &str| {
        let text = record.get(name).and_then(Value::as_str);
        text.map(str::to_string).ok_or_else(|| format!("the field \"{name}\" is missing or no text"))
    };
    Ok(match form {
        Form::Messages => listed("messages")?,
        Form::PromptCompletion => [listed("prompt")?, listed("completion")?].concat(),
        Form::Alpaca => {
            let system = text("system").unwrap_or_default();
            let mut messages: Vec<Message> =
                (!system.is_empty()).then(|| Message::system(system)).into_iter().collect();
            for pair in record.get("history").and_then(Value::as_array).into_iter().flatten() {
                let [question, answer]: [String; 2] =
                    serde_json::from_value(pair.clone()).map_err(|error| format!("history: {error}"))?;
                messages.extend([Message::user(question), Message::assistant(answer)]);
            }
            let (instruction, input) = (text("instruction")?, text("input").unwrap_or_default());
            // As the trainers join the two.
            let question = if input.is_empty() { instruction } else { format!("{instruction}\n{input}") };
            messages.extend([Message::user(question), Message::assistant(text("output")?)]);
            messages
        }
    })
}

/// What `dataset_info.json` says of a file, where LLaMA-Factory can read it.
pub fn dataset_info(file: &str, format: &str) -> Option<Value> {
    let tags = json!({"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"});
    let alpaca = json!({"prompt": "instruction", "query": "input", "response": "output", "system": "system", "history": "history"});
    let ranking = json!({"prompt": "instruction", "query": "input", "chosen": "chosen", "rejected": "rejected", "system": "system", "history": "history"});
    Some(match format {
        "messages" => {
            json!({"file_name": file, "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags})
        }
        "alpaca" => json!({"file_name": file, "columns": alpaca}),
        "sharegpt" => json!({"file_name": file, "formatting": "sharegpt", "columns": {"messages": "conversations"}}),
        "iepile" => json!({"file_name": file, "columns": {"prompt": "instruction", "response": "output"}}),
        "dpo-alpaca" => json!({"file_name": file, "ranking": true, "columns": ranking}),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn conversation() -> impl Strategy<Value = Vec<Message>> {
        (prop::option::of(".{1,30}"), prop::collection::vec((".{0,30}", ".{0,30}"), 1..4)).prop_map(
            |(system, turns)| {
                let turns = turns
                    .into_iter()
                    .flat_map(|(question, answer)| [Message::user(question), Message::assistant(answer)]);
                system.map(Message::system).into_iter().chain(turns).collect()
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same_in_every_form(messages in conversation()) {
            for form in [Form::Messages, Form::PromptCompletion, Form::Alpaca] {
                let record = written(&messages, form).unwrap();
                // Through text, as in a file.
                let record: Value = serde_json::from_str(&record.to_string()).unwrap();
                prop_assert_eq!(read_back(&record, form), Ok(messages.clone()), "{:?} {}", form, record);
            }
        }

        #[test]
        fn a_preference_holds_the_question_once_and_both_answers(messages in conversation(), other in ".{0,30}") {
            let (last, asked) = messages.split_last().unwrap();
            let record = preference(asked, &last.content, &other, Form::Alpaca).unwrap();
            prop_assert_eq!((&record["chosen"], &record["rejected"]), (&json!(last.content), &json!(other)));
            let mut chosen = record.clone();
            chosen["output"] = record["chosen"].clone();
            prop_assert_eq!(read_back(&chosen, Form::Alpaca), Ok(messages.clone()));
            let record = preference(asked, &last.content, &other, Form::Messages).unwrap();
            prop_assert_eq!(&record["prompt"], &json!(asked));
            prop_assert_eq!(&record["rejected"], &json!([{"role": "assistant", "content": other}]));
        }
    }

    #[test]
    fn a_conversation_that_a_form_cannot_hold_is_refused() {
        let open = [Message::user("a")];
        assert!(written(&open, Form::Messages).unwrap_err().contains("ends with the assistant's answer"));
        let twice = [Message::user("a"), Message::user("b"), Message::assistant("c")];
        assert!(written(&twice, Form::PromptCompletion).is_ok());
        assert!(written(&twice, Form::Alpaca).unwrap_err().contains("in turn"));
        assert!(read_back(&json!({"instruction": "a"}), Form::Alpaca).unwrap_err().contains("\"output\" is missing"));
    }
}
