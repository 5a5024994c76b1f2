//! Many rooms at once: documents are read side by side, each as far as its answers have come.
//!
//! A room's protocol is polled by whichever thread brings the last answer that it waits for, so
//! that no thread waits for a document and no document for another. Equal requests that are under
//! way at the same time are asked once. Memory holds the documents that are open, however many
//! there are in all.

use super::client::Asked;
use super::floor::Team;
use super::protocol;
use super::room::{Outcome, Room, Told};
use crate::ie::Document;
use crate::store::StoredRequest;
use crate::trace::Trace;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Brings documents, in order; `None` after the last.
pub type Source<'a> = &'a Mutex<dyn Iterator<Item = Document> + Send + 'a>;

/// Hears the ordinal of a document, its trace, and the requests where the team records them; from
/// any thread, in any order, once for each document.
pub type Finished<'a> = &'a (dyn Fn(usize, Trace, Vec<StoredRequest>) + Sync);

type Reading<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A document that is open.
struct Seat<'a> {
    ordinal: usize,
    room: Arc<Room<'a>>,
    reading: Mutex<Reading<'a>>,
    /// Answers that are awaited, and one for as long as questions are being asked.
    missing: AtomicUsize,
    told: Mutex<Vec<Option<Told>>>,
}

/// Who waits for an answer: a seat and the place in its wish.
type Waiting<'a> = Vec<(Arc<Seat<'a>>, usize)>;

/// All that is going on.
struct Hall<'a> {
    team: &'a Team<'a>,
    source: Source<'a>,
    opened: AtomicUsize,
    under_way: Mutex<HashMap<String, Waiting<'a>>>,
    finished: Finished<'a>,
}

/// Reads all documents of `source`; at most `most` are open at once.
pub(super) fn read_all<'a>(team: &'a Team<'a>, source: Source<'a>, most: usize, finished: Finished<'a>) {
    let hall = Hall { team, source, opened: AtomicUsize::new(0), under_way: Mutex::default(), finished };
    // Stored answers are read by all cores, what is left of `most` documents is asked.
    let (threads, open) = (std::thread::available_parallelism().map_or(1, usize::from), AtomicUsize::new(0));
    let first: Mutex<Vec<(usize, Vec<Asked>)>> = Mutex::default();
    let begin = || {
        while open.fetch_add(1, Ordering::Relaxed) < most {
            match hall.open() {
                Some((ordinal, asked)) => locked(&first).push((ordinal, asked)),
                None => return,
            }
        }
    };
    std::thread::scope(|scope| {
        (1..threads.min(most)).for_each(|_| drop(scope.spawn(begin)));
        begin();
    });
    let mut first = first.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    first.sort_by_key(|(ordinal, _)| *ordinal);
    let first = first.into_iter().flat_map(|(_, asked)| asked).collect();
    team.client.answer_all(first, &|asked, outcome| hall.hear(asked, &outcome));
}

impl<'a> Hall<'a> {
    /// Opens documents until one has to wait, and gives what it asks; `None` if all are finished.
    fn open(&self) -> Option<(usize, Vec<Asked>)> {
        loop {
            let seat = self.seat()?;
            let asked = self.advance(&seat);
            if let Some(asked) = asked {
                return Some((seat.ordinal, asked));
            }
        }
    }

    fn seat(&self) -> Option<Arc<Seat<'a>>> {
        if self.team.client.stopped() || self.team.client.halted().is_some() {
            return None;
        }
        let (ordinal, document) = {
            // One lock for both: ordinals are in the order of the documents.
            let mut source = self.source.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let document = source.next()?;
            (self.opened.fetch_add(1, Ordering::Relaxed), document)
        };
        let room = Arc::new(Room::new(self.team, document));
        let reading = Mutex::new(reading(Arc::clone(&room)));
        let (missing, told) = (AtomicUsize::new(0), Mutex::default());
        Some(Arc::new(Seat { ordinal, room, reading, missing, told }))
    }

    /// Goes on reading until answers are awaited, and gives what is to be asked for them; `None` if
    /// the document is finished.
    fn advance(&self, seat: &Arc<Seat<'a>>) -> Option<Vec<Asked>> {
        loop {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(()) = locked(&seat.reading).as_mut().poll(&mut context) {
                let (trace, requests) = seat.room.leave();
                (self.finished)(seat.ordinal, trace, requests);
                return None;
            }
            let wish = seat.room.wish();
            seat.missing.store(wish.len() + 1, Ordering::SeqCst);
            *locked(&seat.told) = wish.iter().map(|_| None).collect();
            let mut asked = Vec::new();
            for (place, request) in wish.into_iter().enumerate() {
                match self.look_up(seat, place, request) {
                    Looked::Known(told) => {
                        locked(&seat.told)[place] = Some(told);
                        seat.missing.fetch_sub(1, Ordering::SeqCst);
                    }
                    Looked::Awaited => {}
                    Looked::Open(request) => asked.push(request),
                }
            }
            if seat.missing.fetch_sub(1, Ordering::SeqCst) > 1 {
                return Some(asked);
            }
            seat.bring();
        }
    }

    /// Looks for an answer in the store, then among what is under way.
    fn look_up(&self, seat: &Arc<Seat<'a>>, place: usize, request: StoredRequest) -> Looked {
        let client = self.team.client;
        let asked = Asked::new(request);
        let known = || client.store().get_key(&asked.key).map(|answer| Looked::Known((asked.key.clone(), Ok(answer))));
        if let Some(known) = known() {
            return known;
        }
        if !client.is_live() {
            let error = client.unanswered(&asked.request);
            return Looked::Known((asked.key, Err(error)));
        }
        let mut under_way = locked(&self.under_way);
        if let Some(waiting) = under_way.get_mut(&asked.key) {
            waiting.push((Arc::clone(seat), place));
            return Looked::Awaited;
        }
        // It may have come since the store was asked.
        if let Some(known) = known() {
            return known;
        }
        under_way.insert(asked.key.clone(), vec![(Arc::clone(seat), place)]);
        Looked::Open(asked)
    }

    /// Gives an answer to everybody who waits for it; what is asked next.
    fn hear(&self, asked: &Asked, outcome: &Outcome) -> Vec<Asked> {
        let waiting = locked(&self.under_way).remove(&asked.key).unwrap_or_default();
        let mut next = Vec::new();
        for (seat, place) in waiting {
            locked(&seat.told)[place] = Some((asked.key.clone(), outcome.clone()));
            if seat.missing.fetch_sub(1, Ordering::SeqCst) > 1 {
                continue;
            }
            seat.bring();
            match self.advance(&seat) {
                Some(asked) => next.extend(asked),
                None => next.extend(self.open().into_iter().flat_map(|(_, asked)| asked)),
            }
        }
        next
    }
}

/// Where the answer to a request is.
enum Looked {
    Known(Told),
    /// Somebody else asks for it.
    Awaited,
    Open(Asked),
}

impl Seat<'_> {
    fn bring(&self) {
        let told = std::mem::take(&mut *locked(&self.told));
        let all = told.into_iter().map(|told| told.expect("nothing is missing any more"));
        self.room.bring(all.collect());
    }
}

fn reading<'a>(room: Arc<Room<'a>>) -> Reading<'a> {
    Box::pin(async move { protocol::read(&room).await })
}

/// A panic elsewhere leaves values that are still values.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
