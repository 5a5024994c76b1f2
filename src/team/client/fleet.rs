//! Many requests over one or more servers: bounded in flight, paced, tried again elsewhere or
//! later, bounded in attempts, calls and money. A request that waits for its next attempt holds
//! neither a thread nor a place in flight. Several calls may share the places: the one whose
//! requests run out leaves them to the next.

use super::ClientError;
use super::http::{Attempt, Endpoint, HttpClient};
use super::pace::{Limits, Pace, Reserved, Spent};
use super::retry::backoff;
use super::servers::{Choice, Servers};
use crate::store::{StoredAnswer, StoredRequest, request_key};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
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
    start: Instant,
}

struct State {
    servers: Servers,
    pace: Pace,
    /// Why nobody is asked any more.
    halted: Option<String>,
    /// Requests since the last answer that used up their attempts, or were turned away for all.
    hopeless: u32,
    /// The threads of each call that is going on, the oldest first.
    calls: Vec<Arc<Waiting>>,
}

/// Threads of one call that wait for a place, a time or a limit's consent.
#[derive(Default)]
struct Waiting {
    bell: Condvar,
    count: AtomicUsize,
}

/// One call: what is asked, who hears it, and how far it is.
struct Call<'a> {
    requests: &'a [&'a StoredRequest],
    stop: &'a AtomicBool,
    heard: Heard<'a>,
    waiting: Arc<Waiting>,
    /// Locked only by whoever holds the fleet's state.
    queue: Mutex<Queue>,
}

/// The requests of one call that are not answered yet.
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
            calls: Vec::new(),
        };
        Fleet {
            clients: endpoints.into_iter().map(|endpoint| HttpClient::new(endpoint, in_flight)).collect(),
            max_attempts: max_attempts.max(1),
            in_flight,
            state: Mutex::new(state),
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
        let mut state = self.lock();
        state.halted.get_or_insert(why);
        state.wake_all();
    }

    /// Requests that may be in flight at once, all servers together.
    pub(super) fn places(&self) -> usize {
        self.in_flight * self.clients.len()
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
        let all = requests.len();
        let queue = Queue { all, next: 0, delayed: BinaryHeap::new(), tried: vec![Tried::default(); all] };
        let waiting = Arc::new(Waiting::default());
        let call = Call { requests, stop, heard, waiting: Arc::clone(&waiting), queue: Mutex::new(queue) };
        self.lock().calls.push(Arc::clone(&waiting));
        std::thread::scope(|scope| {
            for thread in 1..self.places().min(all) {
                let named = std::thread::Builder::new().name(format!("ask-{thread}")).stack_size(STACK);
                // Fewer threads than wished for are slower, not wrong.
                if named.spawn_scoped(scope, || self.work(&call)).is_err() {
                    break;
                }
            }
            self.work(&call);
        });
        self.lock().calls.retain(|other| !Arc::ptr_eq(other, &waiting));
    }

    fn work(&self, call: &Call) {
        loop {
            match self.step(call) {
                Step::Leave => return,
                Step::GiveUp(at, error) => (call.heard)(at, Err(error)),
                Step::Ask { at, server, attempt, reserved } => {
                    let attempted = self.clients[server].attempt(call.requests[at], attempt);
                    if let Some(outcome) = self.close(call, at, server, reserved, attempted) {
                        (call.heard)(at, outcome);
                    }
                }
            }
        }
    }

    /// Waits until there is something to do: a request whose time has come, a server for it, and
    /// the limits' consent.
    fn step(&self, call: &Call) -> Step {
        let mut state = self.lock();
        loop {
            let now = self.start.elapsed();
            let mut queue = locked(&call.queue);
            let Some((at, from)) = queue.first(now) else {
                // Whoever holds a request in flight will try it again itself.
                state.wake_one(&call.waiting);
                return Step::Leave;
            };
            let stopped = call.stop.load(Ordering::SeqCst).then_some(ClientError::Interrupted);
            if let Some(error) = stopped.or_else(|| state.halted.clone().map(ClientError::Halted)) {
                queue.take(at);
                return Step::GiveUp(at, error);
            }
            let ready = from.max(state.pace.ready());
            let wait = match state.servers.choose(now, queue.tried[at].failed_on) {
                _ if ready > now => ready - now,
                Choice::Full => NAP,
                Choice::Aside(until) => until - now,
                Choice::Server(server) => match state.pace.admit(call.requests[at], now) {
                    Ok(reserved) => {
                        queue.take(at);
                        state.servers.begin(server);
                        queue.tried[at].attempts += 1;
                        return Step::Ask { at, server, attempt: queue.tried[at].attempts, reserved };
                    }
                    Err(limit) => {
                        state.halted.get_or_insert(limit);
                        state.wake_all();
                        continue;
                    }
                },
            };
            drop(queue);
            if from > now {
                // The place that this thread had is of use to another call.
                state.wake_one(&call.waiting);
            }
            call.waiting.count.fetch_add(1, Ordering::Relaxed);
            let waited = call.waiting.bell.wait_timeout(state, wait.min(NAP));
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
            call.waiting.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes note of an attempt; `None` if the request will be tried again.
    fn close(
        &self,
        call: &Call,
        at: usize,
        server: usize,
        reserved: Reserved,
        attempted: Attempt,
    ) -> Option<Result<StoredAnswer, ClientError>> {
        let mut state = self.lock();
        let now = self.start.elapsed();
        match attempted {
            Attempt::Answered(answer) => {
                state.pace.settle(reserved, Some(&answer));
                state.hopeless = 0;
                if state.servers.succeeded(server) {
                    state.wake_all();
                }
                Some(Ok(answer))
            }
            Attempt::Refused(error) => {
                state.pace.settle(reserved, None);
                if state.servers.succeeded(server) {
                    state.wake_all();
                }
                // A wrong key, an empty account or a wrong name is wrong for every request.
                if matches!(error, ClientError::Status { status: 401..=404, .. }) {
                    state.despair(&error);
                }
                Some(Err(error))
            }
            Attempt::Again(error, delay) => {
                state.servers.failed(server, now, delay);
                state.pace.settle(reserved, None);
                let mut queue = locked(&call.queue);
                let attempts = queue.tried[at].attempts;
                if attempts >= self.max_attempts {
                    if state.servers.all_fail() {
                        state.despair(&error);
                    }
                    return Some(Err(error));
                }
                queue.tried[at].failed_on = Some(server);
                let due = match state.servers.another_works(server, now) {
                    true => now,
                    false => now + delay.unwrap_or_else(|| backoff(&request_key(call.requests[at]), attempts)),
                };
                queue.delayed.push(Reverse((due, at)));
                None
            }
        }
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
            self.wake_all();
        }
    }

    /// Wakes a thread of the oldest other call that waits.
    fn wake_one(&self, mine: &Arc<Waiting>) {
        let waits = |call: &&Arc<Waiting>| !Arc::ptr_eq(call, mine) && call.count.load(Ordering::Relaxed) > 0;
        if let Some(call) = self.calls.iter().find(waits) {
            call.bell.notify_one();
        }
    }

    fn wake_all(&self) {
        self.calls.iter().for_each(|call| call.bell.notify_all());
    }
}

impl Queue {
    /// What comes next, and when: a delayed request that is due, a fresh one, or the delayed one
    /// that is due first.
    fn first(&self, now: Duration) -> Option<(usize, Duration)> {
        let due = self.delayed.peek().map(|Reverse((due, at))| (*at, *due));
        let fresh = (self.next < self.all).then_some((self.next, Duration::ZERO));
        due.filter(|(_, due)| *due <= now).or(fresh).or(due)
    }

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
