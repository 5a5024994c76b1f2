//! The team's LLM in this process: `team.local` names a model that our own engine runs.

use super::{Common, model, session, usage};
use crate::config::Plan;
use crate::store::{StoredAnswer, StoredRequest, StoredToken};
use crate::student::{self, ChatTokenizer, Engine, Finish, Generated, Model, Request, Settings, Student};
use crate::team::client::{Asked, ClientError, Heard, Local};
use anyhow::Result;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A loaded model; one call at a time, and within it many questions at once.
struct Own {
    model: Model,
    tokenizer: ChatTokenizer,
    settings: Settings,
    busy: Mutex<()>,
}

/// Loads the model that a plan names.
pub fn load(plan: &Plan, name: &str, common: &Common) -> Result<Box<dyn Local>> {
    let team = &plan.config().team;
    if team.temperature != 0.0 || team.frequency_penalty != 0.0 || team.constrained_output != "none" {
        return Err(usage(
            "team.local answers greedily; leave team.temperature and team.frequency_penalty at 0 and \
             team.constrained_output at none, or use a server (team.base_url)",
        ));
    }
    let path = if model::is_known(name) { model::student_path(name)? } else { PathBuf::from(name) };
    let student = Student::load(&path, &session::device(common)?)?;
    let settings = Settings { lanes: plan.config().eval.lanes, ..Settings::default() };
    Ok(Box::new(Own { model: student.model, tokenizer: student.tokenizer, settings, busy: Mutex::new(()) }))
}

/// The requests of one call.
struct Work<'a> {
    own: &'a Own,
    waiting: VecDeque<Asked>,
    /// Requests that the engine has, with the tokens of their prompts.
    open: BTreeMap<usize, (Asked, u64)>,
    number: usize,
    stop: &'a AtomicBool,
    heard: Heard<'a>,
}

impl Work<'_> {
    fn hear(&mut self, asked: &Asked, outcome: Result<StoredAnswer, ClientError>) {
        self.waiting.extend((self.heard)(asked, outcome));
    }
}

impl student::Work for Work<'_> {
    fn next(&mut self, _: bool) -> student::Result<Option<(usize, Request)>> {
        while !self.stop.load(Ordering::SeqCst)
            && let Some(asked) = self.waiting.pop_front()
        {
            match self.own.tokenizer.prompt(&asked.request.messages) {
                Ok(prompt) => {
                    let max_new_tokens = asked.request.max_tokens as usize;
                    self.number += 1;
                    self.open.insert(self.number, (asked, prompt.len() as u64));
                    return Ok(Some((self.number, Request { prompt, grammar: None, max_new_tokens })));
                }
                Err(error) => self.hear(&asked, Err(ClientError::Store(error.to_string()))),
            }
        }
        Ok(None)
    }

    fn done(&mut self, number: usize, said: Generated) -> student::Result<()> {
        if let Some((asked, read)) = self.open.remove(&number) {
            let answer = stored(&self.own.tokenizer, &asked.request, read, said);
            self.hear(&asked, Ok(answer));
        }
        Ok(())
    }
}

impl Local for Own {
    fn answer_all(&self, first: Vec<Asked>, stop: &AtomicBool, heard: Heard) {
        let _one = self.busy.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut work = Work { own: self, waiting: first.into(), open: BTreeMap::new(), number: 0, stop, heard };
        let ended = Engine::new(&self.model, &self.tokenizer, self.settings.clone())
            .and_then(|mut engine| engine.run(&mut work));
        // Hearing that a request failed may lead to others; they fail alike.
        while let Some(asked) = work.waiting.pop_front().or_else(|| work.open.pop_first().map(|(_, (asked, _))| asked))
        {
            let error = match &ended {
                Ok(()) => ClientError::Interrupted,
                Err(error) => ClientError::Store(error.to_string()),
            };
            work.hear(&asked, Err(error));
        }
    }
}

/// The answer as a server would have sent it. Tokens that share a character are one, with the
/// probability of all of them.
fn stored(tokenizer: &ChatTokenizer, asked: &StoredRequest, read: u64, said: Generated) -> StoredAnswer {
    let shown = said.ids.len() - usize::from(said.finish == Finish::Stop);
    let mut tokens = Vec::new();
    let (mut bytes, mut sum) = (Vec::new(), Some(0.0));
    for (id, logprob) in said.ids[..shown].iter().zip(&said.logprobs) {
        bytes.extend(tokenizer.bytes_of(*id));
        sum = sum.zip(*logprob).map(|(sum, logprob)| sum + f64::from(logprob));
        if let Ok(text) = std::str::from_utf8(&bytes) {
            tokens.push(StoredToken(text.to_owned(), sum));
            (bytes, sum) = (Vec::new(), Some(0.0));
        }
    }
    if !bytes.is_empty() {
        tokens.push(StoredToken(String::from_utf8_lossy(&bytes).into_owned(), sum));
    }
    StoredAnswer {
        content: said.text,
        finish: if said.finish == Finish::Stop { "stop" } else { "length" }.into(),
        refusal: None,
        tokens: asked.logprobs.then_some(tokens),
        prompt_tokens: Some(read),
        completion_tokens: Some(said.ids.len() as u64),
        seconds: (said.seconds * 1e3).round() / 1e3,
        attempts: 1,
    }
}
