//! Memory that goes from use to use instead of back to the system, which would clear its pages anew.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// What nobody uses at the moment.
static IDLE: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());

/// Numbers of unspecified value; they go back to the pool when dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    numbers: Vec<f32>,
}

impl Buffer {
    /// Holds whatever its last user left.
    pub fn new(length: usize) -> Buffer {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = idle.iter().enumerate().filter(|(_, old)| old.capacity() >= length);
        let best = fits.min_by_key(|(_, old)| old.capacity()).map(|(place, _)| place);
        let mut numbers = match best {
            Some(place) => idle.swap_remove(place),
            None => {
                // Nothing fits: as much as is needed is given back first, so that buffers of other
                // sizes do not pile up.
                let mut missing = length;
                while missing > 0
                    && let Some(old) = idle.pop()
                {
                    missing = missing.saturating_sub(old.capacity());
                }
                Vec::with_capacity(class(length))
            }
        };
        drop(idle);
        numbers.resize(length, 0.0);
        Buffer { numbers }
    }

    /// All zero.
    pub fn zeros(length: usize) -> Buffer {
        let mut fresh = Buffer::new(length);
        fresh.fill(0.0);
        fresh
    }

    /// A copy.
    pub fn of(numbers: &[f32]) -> Buffer {
        let mut fresh = Buffer::new(numbers.len());
        fresh.copy_from_slice(numbers);
        fresh
    }

    /// Takes the numbers out of the pool for good.
    pub fn into_vec(mut self) -> Vec<f32> {
        std::mem::take(&mut self.numbers)
    }
}

/// Lengths are rounded up to eight sizes between powers of two, so that batches of similar length
/// find each other's buffers.
fn class(length: usize) -> usize {
    let step = (length.next_power_of_two() / 16).max(64);
    length.next_multiple_of(step)
}

/// Gives all idle memory back to the system.
pub(crate) fn release() {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.numbers.capacity() > 0 {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.numbers));
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.numbers
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_by_less_than_an_eighth() {
        for length in [1, 63, 64, 1000, 1 << 20, (1 << 20) + 1, 3_000_000] {
            let rounded = class(length);
            assert!(rounded >= length && (length < 1024 || rounded - length <= length / 8), "{length} {rounded}");
        }
    }

    #[test]
    fn buffers_have_the_length_asked_for_whatever_was_there_before() {
        for length in [100, 7, 5000, 4999, 0, 100] {
            let mut buffer = Buffer::new(length);
            assert_eq!(buffer.len(), length);
            buffer.fill(f32::NAN);
            assert!(Buffer::zeros(length).iter().all(|x| *x == 0.0));
        }
        assert_eq!(&*Buffer::of(&[1.0, 2.0]), [1.0, 2.0]);
        release();
    }
}
