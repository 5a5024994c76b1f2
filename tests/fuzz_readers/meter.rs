//! An allocator that counts what each thread asks for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// No machine that this runs on has it to spare: such a request fails at once and ends the test.
const NEVER: usize = 4 << 30;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread asks for.
struct Meter;

fn count(bytes: isize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
    if bytes > 0 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes.unsigned_abs())));
    }
}

// SAFETY: every request goes to the system's allocator unchanged, or is refused with null.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        if layout.size() > NEVER { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static METER: Meter = Meter;

/// Begins a new count for this thread.
pub fn reset() {
    LIVE.set(0);
    PEAK.set(0);
    LARGEST.set(0);
}

/// The most bytes that were live at one time since, and the largest single request.
pub fn most() -> (isize, usize) {
    (PEAK.get(), LARGEST.get())
}
