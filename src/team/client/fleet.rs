//! Many requests over one or more servers: bounded in flight, paced, tried again elsewhere or
//! later, bounded in attempts, calls and money. A request that waits for its next attempt holds
//! neither a thread nor a place in flight.

use super::ClientError;
use super::http::{Attempt, Endpoint, HttpClient};
use super::pace::{Limits, Pace, Reserved, Spent};
use super::retry::backoff;
use super::servers::{Choice, Servers};
use crate::store::{StoredAnswer, StoredRequest, request_key};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Requests in a row that no server answers, after which nobody is asked any more.
const HOPELESS: u32 = 5;
/// How long a thread waits at most before it looks whether it shall stop.
const NAP: Duration = Duration::from_millis(100);
/// Bytes of stack of a thread that asks; a request needs some tens of KiB.
const STACK: usize = 512 << 10;

/// Servers of one model, and the limits of asking them.
pub struct Fleet {
    clients: Vec<HttpClient>,
    max_attempts: u32,
    in_flight: usize,
    state: Mutex<State>,
    bell: Condvar,
    /// One call at a time.
    turn: Mutex<()>,
    start: Instant,
}

struct State {
    servers: Servers,
    pace: Pace,
    /// Why nobody is asked any more.
    halted: Option<String>,
    /// Requests since the last answer that used up their attempts, or were turned away for all.
    hopeless: u32,
    queue: Queue,
}

/// The requests of one call that are not answered yet.
#[derive(Default)]
struct Queue {
    all: usize,
    next: usize,
    /// Due time and ordinal of those that will be tried again.
    delayed: BinaryHeap<Reverse<(Duration, usize)>>,
    tried: Vec<Tried>,
}

#[derive(Clone, Default)]
struct Tried {
    attempts: u32,
    failed_on: Option<usize>,
}

/// What a thread does next.
enum Step {
    Ask { at: usize, server: usize, attempt: u32, reserved: Reserved },
    GiveUp(usize, ClientError),
    Leave,
}

/// Hears the ordinal of a request and what became of it, from any thread, once for each.
pub(super) type Heard<'a> = &'a (dyn Fn(usize, Result<StoredAnswer, ClientError>) + Sync);

impl Fleet {
    /// Servers with `in_flight` requests each and `max_attempts` for each request, the first
    /// included; nothing is sent yet.
    pub fn new(endpoints: Vec<Endpoint>, in_flight: usize, max_attempts: u32, limits: Limits) -> Fleet {
        let in_flight = in_flight.max(1);
        let state = State {
            servers: Servers::new(endpoints.len(), in_flight),
            pace: Pace::new(limits),
            halted: None,
            hopeless: 0,
            queue: Queue::default(),
        };
        Fleet {
            clients: endpoints.into_iter().map(|endpoint| HttpClient::new(endpoint, in_flight)).collect(),
            max_attempts: max_attempts.max(1),
            in_flight,
            state: Mutex::new(state),
            bell: Condvar::new(),
            turn: Mutex::default(),
            start: Instant::now(),
        }
    }

    /// What was asked so far.
    pub fn spent(&self) -> Spent {
        self.lock().pace.spent()
    }

    /// Why nobody is asked any more: a limit was reached, or no server answers.
    pub fn halted(&self) -> Option<String> {
        self.lock().halted.clone()
    }

    /// Asks nobody any more; the first reason stands.
    pub(super) fn halt(&self, why: String) {
        self.lock().halted.get_or_insert(why);
        self.bell.notify_all();
    }

    /// Asks until there is an answer, the attempts are used up or `stop` is set.
    ///
    /// # Errors
    /// [`ClientError::Status`] or [`ClientError::Transport`] of the last attempt.
    pub fn complete(&self, request: &StoredRequest, stop: &AtomicBool) -> Result<StoredAnswer, ClientError> {
        let answer = Mutex::new(Err(ClientError::Interrupted));
        self.answer_all(&[request], stop, &|_, heard| *locked(&answer) = heard);
        answer.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks all, the first ones first; returns once each was heard.
    pub(super) fn answer_all(&self, requests: &[&StoredRequest], stop: &AtomicBool, heard: Heard) {
        let _turn = locked(&self.turn);
        let all = requests.len();
        self.lock().queue = Queue { all, tried: vec![Tried::default(); all], ..Queue::default() };
        let threads = (self.in_flight * self.clients.len()).min(all);
        std::thread::scope(|scope| {
            for thread in 1..threads {
                let named = std::thread::Builder::new().name(format!("ask-{thread}")).stack_size(STACK);
                // Fewer threads than wished for are slower, not wrong.
                if named.spawn_scoped(scope, || self.work(requests, stop, heard)).is_err() {
                    break;
                }
            }
            self.work(requests, stop, heard);
        });
    }

    fn work(&self, requests: &[&StoredRequest], stop: &AtomicBool, heard: Heard) {
        loop {
            match self.step(requests, stop) {
                Step::Leave => return,
                Step::GiveUp(at, error) => heard(at, Err(error)),
                Step::Ask { at, server, attempt, reserved } => {
                    let attempted = self.clients[server].attempt(requests[at], attempt);
                    if let Some(outcome) = self.close(requests[at], at, server, reserved, attempted) {
                        heard(at, outcome);
                    }
                }
            }
        }
    }

    /// Waits until there is something to do: a request whose time has come, a server for it, and
    /// the limits' consent.
    fn step(&self, requests: &[&StoredRequest], stop: &AtomicBool) -> Step {
        let mut state = self.lock();
        loop {
            let now = self.start.elapsed();
            let due = state.queue.delayed.peek().map(|Reverse((due, at))| (*due, *at));
            let fresh = Some(state.queue.next).filter(|next| *next < state.queue.all);
            let (at, from) = match (due, fresh) {
                (Some((due, at)), fresh) if due <= now || fresh.is_none() => (at, due),
                (_, Some(fresh)) => (fresh, Duration::ZERO),
                // Whoever holds a request in flight will try it again itself.
                (_, None) => return Step::Leave,
            };
            let stopped = stop.load(Ordering::SeqCst).then_some(ClientError::Interrupted);
            if let Some(error) = stopped.or_else(|| state.halted.clone().map(ClientError::Halted)) {
                state.queue.take(at);
                return Step::GiveUp(at, error);
            }
            let ready = from.max(state.pace.ready());
            let choice = state.servers.choose(now, state.queue.tried[at].failed_on);
            let wait = match choice {
                _ if ready > now => ready - now,
                Choice::Full => NAP,
                Choice::Aside(until) => until - now,
                Choice::Server(server) => match state.pace.admit(requests[at], now) {
                    Ok(reserved) => {
                        state.queue.take(at);
                        state.servers.begin(server);
                        let tried = &mut state.queue.tried[at];
                        tried.attempts += 1;
                        return Step::Ask { at, server, attempt: tried.attempts, reserved };
                    }
                    Err(limit) => {
                        state.halted.get_or_insert(limit);
                        self.bell.notify_all();
                        continue;
                    }
                },
            };
            let waited = self.bell.wait_timeout(state, wait.min(NAP));
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    /// Takes note of an attempt; `None` if the request will be tried again.
    fn close(
        &self,
        request: &StoredRequest,
        at: usize,
        server: usize,
        reserved: Reserved,
        attempted: Attempt,
    ) -> Option<Result<StoredAnswer, ClientError>> {
        let now = self.start.elapsed();
        let mut state = self.lock();
        let outcome = match attempted {
            Attempt::Answered(answer) => {
                state.servers.succeeded(server);
                state.pace.settle(reserved, Some(&answer));
                state.hopeless = 0;
                Some(Ok(answer))
            }
            Attempt::Refused(error) => {
                state.servers.succeeded(server);
                state.pace.settle(reserved, None);
                // A wrong key, an empty account or a wrong name is wrong for every request.
                if matches!(error, ClientError::Status { status: 401..=404, .. }) {
                    state.despair(&error);
                }
                Some(Err(error))
            }
            Attempt::Again(error, delay) => {
                state.servers.failed(server, now, delay);
                state.pace.settle(reserved, None);
                let attempts = state.queue.tried[at].attempts;
                if attempts >= self.max_attempts {
                    if state.servers.all_fail() {
                        state.despair(&error);
                    }
                    Some(Err(error))
                } else {
                    state.queue.tried[at].failed_on = Some(server);
                    let due = match state.servers.another_works(server, now) {
                        true => now,
                        false => now + delay.unwrap_or_else(|| backoff(&request_key(request), attempts)),
                    };
                    state.queue.delayed.push(Reverse((due, at)));
                    None
                }
            }
        };
        drop(state);
        self.bell.notify_one();
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl State {
    fn despair(&mut self, error: &ClientError) {
        self.hopeless += 1;
        if self.hopeless >= HOPELESS {
            self.halted.get_or_insert(format!("{HOPELESS} requests in a row got no answer; the last: {error}"));
        }
    }
}

impl Queue {
    /// Takes the one out that stands first among the delayed, or else among the fresh.
    fn take(&mut self, at: usize) {
        match self.delayed.peek() {
            Some(Reverse((_, first))) if *first == at => drop(self.delayed.pop()),
            _ => self.next = at + 1,
        }
    }
}

/// A panic elsewhere leaves counts that are still counts.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
