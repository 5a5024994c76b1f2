//! Many requests over one or more servers: bounded in flight, paced, tried again elsewhere or
//! later, bounded in attempts, calls and money. A request that waits for its next attempt holds
//! neither a thread nor a place in flight. An answer may lead to new questions, which join the same
//! queue: a call ends when nothing is left of it. Several calls may share the places: the one whose
//! requests run out leaves them to the next.

use super::ClientError;
use super::http::{Attempt, Endpoint, HttpClient};
use super::pace::{Limits, Pace, Reserved, Spent};
use super::queue::{Entry, Queue};
use super::retry::backoff;
use super::servers::{Choice, Servers};
use super::{Asked, Told};
use crate::store::{StoredAnswer, StoredRequest};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
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

/// One call: who hears its answers, and what is left of it.
struct Call<'a> {
    stop: &'a AtomicBool,
    keep: Keep<'a>,
    heard: Hear<'a>,
    waiting: Arc<Waiting>,
    /// Locked only by whoever holds the fleet's state.
    queue: Mutex<Queue>,
    /// Where what was said goes on to; `None` once nothing is left.
    on: Mutex<Option<Sender<Told>>>,
}

/// Keeps what was said and passes it on; must not wait for it.
pub(super) type Keep<'a> = &'a (dyn Fn(Told, Sender<Told>) + Sync);
/// Hears what is kept; gives back what is asked next.
pub(super) type Hear<'a> = &'a (dyn Fn(Told) -> Vec<Asked> + Sync);

/// What a thread does next.
enum Step {
    Ask { entry: Entry, server: usize, reserved: Reserved },
    GiveUp(Entry, ClientError),
    Leave,
}

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
        let heard = |told: Told| {
            *locked(&answer) = told.1;
            Vec::new()
        };
        self.answer_all(vec![Asked::new(request.clone())], stop, &|told, on| drop(on.send(told)), &heard);
        answer.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks all, and whatever the answers lead to; returns once everything was heard. Threads that
    /// ask wait for servers alone: what comes back is kept, and then heard, by others.
    pub(super) fn answer_all(&self, first: Vec<Asked>, stop: &AtomicBool, keep: Keep, heard: Hear) {
        if first.is_empty() {
            return;
        }
        let (waiting, threads) = (Arc::new(Waiting::default()), first.len());
        let (on, kept) = channel();
        let (kept, queue, on) = (Mutex::new(kept), Mutex::new(Queue::default()), Mutex::new(Some(on)));
        locked(&queue).push(first);
        let call = Call { stop, keep, heard, waiting: Arc::clone(&waiting), queue, on };
        self.lock().calls.push(Arc::clone(&waiting));
        let started = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            // A question may lead to several: threads are added when work waits for them.
            let crew = Crew { scope, started: &started };
            crew.grow(self, &call, threads);
            if started.load(Ordering::SeqCst) == 0 {
                self.halt("no thread could be started to ask with; lower team.in_flight".into());
                self.give_up(&call, crew);
            }
            let ears = std::thread::available_parallelism().map_or(1, usize::from).min(threads);
            let (listening, call) = (&kept, &call);
            (1..ears).for_each(|_| drop(scope.spawn(move || self.listen(call, listening, crew))));
            self.listen(call, listening, crew);
        });
        self.lock().calls.retain(|other| !Arc::ptr_eq(other, &waiting));
    }

    /// Asks until nothing of the call is left; what comes back goes on to be kept.
    fn work(&self, call: &Call, on: &Sender<Told>) {
        loop {
            let told = match self.step(call) {
                Step::Leave => return,
                Step::GiveUp(entry, error) => (entry.asked, Err(error)),
                Step::Ask { entry, server, reserved } => {
                    let attempted = self.clients[server].attempt(&entry.asked.request, entry.attempts);
                    match self.close(call, entry, server, reserved, attempted) {
                        Some((entry, outcome)) => (entry.asked, outcome),
                        None => continue,
                    }
                }
            };
            (call.keep)(told, on.clone());
        }
    }

    /// Hears what is kept until nothing is left.
    fn listen<'scope, 'env>(
        &'env self,
        call: &'env Call<'env>,
        kept: &Mutex<Receiver<Told>>,
        crew: Crew<'scope, 'env>,
    ) {
        loop {
            let Ok(told) = locked(kept).recv() else { return };
            self.hear(call, told, crew);
        }
    }

    fn hear<'scope, 'env>(&'env self, call: &'env Call<'env>, told: Told, crew: Crew<'scope, 'env>) {
        let more = (call.heard)(told);
        let count = more.len();
        let state = self.lock();
        let mut queue = locked(&call.queue);
        queue.push(more);
        let over = queue.done();
        let waits = call.waiting.count.load(Ordering::Relaxed);
        drop(queue);
        match over {
            true => {
                locked(&call.on).take();
                call.waiting.bell.notify_all();
            }
            false => (0..count.min(waits)).for_each(|_| call.waiting.bell.notify_one()),
        }
        drop(state);
        crew.grow(self, call, count.saturating_sub(waits));
    }

    /// Hears of everything that it was not asked.
    fn give_up<'scope, 'env>(&'env self, call: &'env Call<'env>, crew: Crew<'scope, 'env>) {
        loop {
            let (state, now) = (self.lock(), self.start.elapsed());
            let mut queue = locked(&call.queue);
            if queue.first(now).is_none() {
                return;
            }
            let error = ClientError::Halted(state.halted.clone().unwrap_or_default());
            let asked = queue.take(now).asked;
            drop((queue, state));
            self.hear(call, (asked, Err(error)), crew);
        }
    }

    /// Waits until there is something to do: a request whose time has come, a server for it, and
    /// the limits' consent.
    fn step(&self, call: &Call) -> Step {
        let mut state = self.lock();
        loop {
            let now = self.start.elapsed();
            let mut queue = locked(&call.queue);
            let wait = match queue.first(now) {
                None if queue.is_over() => {
                    state.wake_one(&call.waiting);
                    return Step::Leave;
                }
                // An answer that is awaited may lead to new questions.
                None => NAP,
                Some(from) => {
                    let stopped = call.stop.load(Ordering::SeqCst).then_some(ClientError::Interrupted);
                    if let Some(error) = stopped.or_else(|| state.halted.clone().map(ClientError::Halted)) {
                        return Step::GiveUp(queue.take(now), error);
                    }
                    let ready = from.max(state.pace.ready());
                    match state.servers.choose(now, queue.failed_on(now)) {
                        _ if ready > now => ready - now,
                        Choice::Full => NAP,
                        Choice::Aside(until) => until - now,
                        Choice::Server(server) => match state.pace.admit(queue.request(now), now) {
                            Ok(reserved) => {
                                let mut entry = queue.take(now);
                                state.servers.begin(server);
                                entry.attempts += 1;
                                entry.began = now;
                                return Step::Ask { entry, server, reserved };
                            }
                            Err(limit) => {
                                state.halted.get_or_insert(limit);
                                state.wake_all();
                                continue;
                            }
                        },
                    }
                }
            };
            let later = queue.first(now).is_none_or(|from| from > now);
            drop(queue);
            if later {
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
        mut entry: Entry,
        server: usize,
        reserved: Reserved,
        attempted: Attempt,
    ) -> Option<(Entry, Result<StoredAnswer, ClientError>)> {
        let mut state = self.lock();
        let now = self.start.elapsed();
        match attempted {
            Attempt::Answered(mut answer) => {
                answer.attempts = entry.attempts;
                state.pace.settle(reserved, Some(&answer));
                state.hopeless = 0;
                if state.servers.succeeded(server) {
                    state.wake_all();
                }
                Some((entry, Ok(answer)))
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
                Some((entry, Err(error)))
            }
            Attempt::Again(error, delay) => {
                state.servers.failed(server, now, delay);
                state.pace.settle(reserved, None);
                if entry.attempts >= self.max_attempts {
                    if state.servers.all_fail() {
                        state.despair(&error);
                    }
                    return Some((entry, Err(error)));
                }
                entry.failed_on = Some(server);
                let due = match state.servers.another_works(server, now) {
                    true => now,
                    // A server that was silent for long has had its time already.
                    false => delay.map_or_else(
                        || (entry.began + backoff(&entry.asked.key, entry.attempts)).max(now),
                        |delay| now + delay,
                    ),
                };
                locked(&call.queue).again(entry, due);
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

/// The threads of one call: as many as have work, at most one for each place in flight.
#[derive(Clone, Copy)]
struct Crew<'scope, 'env> {
    scope: &'scope std::thread::Scope<'scope, 'env>,
    started: &'env AtomicUsize,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    fn grow(self, fleet: &'env Fleet, call: &'env Call<'env>, wanted: usize) {
        for _ in 0..wanted {
            let Some(on) = locked(&call.on).clone() else { return };
            let thread = self.started.fetch_add(1, Ordering::SeqCst);
            let named = std::thread::Builder::new().name(format!("ask-{thread}")).stack_size(STACK);
            // Fewer threads than wished for are slower, not wrong.
            if thread >= fleet.places() || named.spawn_scoped(self.scope, move || fleet.work(call, &on)).is_err() {
                self.started.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// A panic elsewhere leaves counts that are still counts.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
