//! One value passed from one thread to another, without a lock that either could die holding.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering};

const EMPTY: u8 = 0;
const BUSY: u8 = 1;
const FULL: u8 = 2;

/// Room for one value.
#[derive(Debug)]
pub struct Handoff<T> {
    state: AtomicU8,
    /// Written when the state first became FULL.
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: `value` is touched only by whoever has moved `state` to BUSY, one at a time; a value is
// moved between threads, hence `Send`.
unsafe impl<T: Copy + Send> Sync for Handoff<T> {}

impl<T: Copy + Send> Default for Handoff<T> {
    fn default() -> Self {
        Self { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

impl<T: Copy + Send> Handoff<T> {
    /// Moves the state from one of `from` to BUSY; `None` if it is neither.
    fn claim(&self, from: &[u8]) -> Option<u8> {
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state == BUSY {
                core::hint::spin_loop();
                continue;
            }
            if !from.contains(&state) {
                return None;
            }
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            if self.state.compare_exchange_weak(state, BUSY, acquire, relaxed).is_ok() {
                return Some(state);
            }
        }
    }

    /// Puts a value in, over an older one.
    pub fn put(&self, value: T) {
        if self.claim(&[EMPTY, FULL]).is_some() {
            // SAFETY: this thread has claimed the value.
            unsafe { *self.value.get() = MaybeUninit::new(value) };
            self.state.store(FULL, Ordering::Release);
        }
    }

    /// The value, which stays.
    pub fn get(&self) -> Option<T> {
        self.claim(&[FULL])?;
        // SAFETY: this thread has claimed the value, which is there: the state was FULL.
        let value = unsafe { (*self.value.get()).assume_init() };
        self.state.store(FULL, Ordering::Release);
        Some(value)
    }

    /// Removes the value.
    pub fn clear(&self) {
        if self.claim(&[FULL]).is_some() {
            self.state.store(EMPTY, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_get_clear() {
        let slot = Handoff::default();
        assert_eq!(slot.get(), None);
        slot.put(3);
        slot.put(4);
        assert_eq!((slot.get(), slot.get()), (Some(4), Some(4)));
        slot.clear();
        assert_eq!(slot.get(), None);
    }

    #[test]
    fn threads_see_whole_values() {
        let slot = Handoff::<[u64; 4]>::default();
        std::thread::scope(|scope| {
            for n in 0..3u64 {
                let slot = &slot;
                scope.spawn(move || (0..20_000).for_each(|i| slot.put([n * i; 4])));
            }
            for _ in 0..20_000 {
                if let Some(value) = slot.get() {
                    assert!(value.iter().all(|x| *x == value[0]));
                }
            }
        });
    }
}
