//! Waiting: for a moment by spinning, longer by sleeping in the kernel.
//!
//! [`Counter`] is what joins threads here: loader and compute in the executor, caller and workers
//! in a pool. One side counts up, the other waits until the count is reached. A count that is not
//! far off is waited for by spinning, since waking a thread costs tens of microseconds, more than
//! many a layer. A longer wait sleeps on a futex. Counting costs a system call only when it reaches
//! what a sleeper waits for.
//!
//! Without an operating system a 64-bit ARM core sleeps until another one signals an event. Other
//! processors spin until the count is reached.

use super::spin::Spin;
use core::sync::atomic::{AtomicU32, Ordering, fence};

/// A count that others can wait for. It wraps: counts up to 2³¹ ahead of it are
/// still to come, others are reached.
///
/// # Why no wake-up is lost
///
/// Whoever counts stores the count, fences, and reads `sleepers` and `wanted`. Whoever waits
/// announces itself in `sleepers` and its target in `wanted`, fences, reads `epoch`, reads the
/// count once more, and only then sleeps, on `epoch`. The two fences are in one order. If the
/// counter's is first, the waiter sees the new count and does not sleep if that is its target.
/// Otherwise the counter sees the sleeper and what is wanted, and advances `epoch` if the count has
/// reached it: if the waiter read `epoch` after that, it also sees the count; if before, the kernel
/// finds `epoch` changed and does not let it sleep, or it sleeps already and is woken.
///
/// With several sleepers, `wanted` is the nearest target, or a nearer one. A sleeper puts its
/// target there unless a nearer one is there that is not reached yet. All are woken together and
/// those whose targets are not reached announce themselves again.
#[derive(Debug, Default)]
pub struct Counter {
    count: AtomicU32,
    sleepers: AtomicU32,
    /// The count at which the first of the sleepers is to be woken.
    wanted: AtomicU32,
    epoch: AtomicU32,
}

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
        }
    }

    /// The count. Writes of the counting side before it counted this far are visible afterwards.
    pub fn get(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether `target` is reached.
    pub fn reached(&self, target: u32) -> bool {
        is_reached(self.get(), target)
    }

    /// Sets the count and wakes whoever waits for it. For a counter with one counting side.
    pub fn set(&self, count: u32) {
        self.count.store(count, Ordering::Release);
        self.wake_reached(count);
    }

    /// Adds to the count and wakes whoever waits for it. For a counter with several counting sides.
    #[cfg_attr(
        not(target_has_atomic = "64"),
        allow(dead_code, reason = "only threads and cores count together")
    )]
    pub fn add(&self, more: u32) {
        let before = self.count.fetch_add(more, Ordering::AcqRel);
        self.wake_reached(before.wrapping_add(more));
    }

    /// Wakes the sleepers if `count` is what one of them waits for.
    fn wake_reached(&self, count: u32) {
        fence(Ordering::SeqCst);
        let wanted = || self.wanted.load(Ordering::Relaxed);
        if self.sleepers.load(Ordering::Relaxed) != 0 && is_reached(count, wanted()) {
            self.wake_sleepers();
        }
    }

    /// Wakes whoever waits, to look at their `stop` again.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake_sleepers();
        }
    }

    fn wake_sleepers(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
        system::wake_all(&self.epoch);
    }

    /// Waits until `target` is reached or `stop` says so, and returns whether it is reached. Spins
    /// for about `spin_ns` nanoseconds, giving way in between, then sleeps. Whoever makes `stop`
    /// true must [`wake`](Self::wake) after.
    pub fn wait_until(&self, target: u32, spin_ns: u64, stop: impl Fn() -> bool) -> bool {
        if self.reached(target) {
            return true;
        }
        let mut spin = Spin::new();
        loop {
            for _ in 0..SPINS_PER_LOOK {
                if self.reached(target) {
                    return true;
                }
                core::hint::spin_loop();
            }
            if stop() {
                return self.reached(target);
            }
            if !spin.goes_on(spin_ns) {
                self.sleep(target, &stop);
            }
        }
    }

    /// Sleeps until woken, unless `target` is reached or `stop` says so.
    fn sleep(&self, target: u32, stop: impl Fn() -> bool) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let wanted = self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |wanted| {
            let stands = !self.reached(wanted) && is_reached(target, wanted);
            (!stands).then_some(target)
        });
        // It is this target, or an earlier one that stands.
        let (Ok(_) | Err(_)) = wanted;
        fence(Ordering::SeqCst);
        let epoch = self.epoch.load(Ordering::Acquire);
        if !self.reached(target) && !stop() {
            system::wait(&self.epoch, epoch);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a count has come to `target`.
fn is_reached(count: u32, target: u32) -> bool {
    count.wrapping_sub(target) as i32 >= 0
}

/// Looks at the count between two looks at the clock and at `stop`: about a microsecond.
const SPINS_PER_LOOK: u32 = 32;

#[cfg(all(feature = "linux", target_os = "linux"))]
mod system {
    use core::ptr::null;
    use core::sync::atomic::AtomicU32;

    /// Sleeps while `word` holds `expected`; may return early.
    pub(super) fn wait(word: &AtomicU32, expected: u32) {
        let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is valid for the call; no timeout. The result does not matter: the
        // caller looks again in any case.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), op, expected, null::<libc::timespec>())
        };
    }

    /// Wakes all who sleep on `word`.
    pub(super) fn wake_all(word: &AtomicU32) {
        let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel only uses the address.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, i32::MAX) };
    }
}

#[cfg(not(all(feature = "linux", target_os = "linux")))]
mod system {
    use core::sync::atomic::AtomicU32;

    /// Sleeps until an event, which may have come before; or returns at once.
    pub(super) fn wait(_: &AtomicU32, _: u32) {
        #[cfg(all(target_arch = "aarch64", target_os = "none"))]
        // SAFETY: waits, and does nothing else. An event that `wake_all` has signalled since the
        // caller last looked makes it return at once.
        unsafe {
            core::arch::asm!("wfe", options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "aarch64", target_os = "none")))]
        core::hint::spin_loop();
    }

    /// Signals an event to all cores, when they see what was written before.
    pub(super) fn wake_all(_: &AtomicU32) {
        #[cfg(all(target_arch = "aarch64", target_os = "none"))]
        // SAFETY: a barrier and a signal, which change no memory.
        unsafe {
            core::arch::asm!("dsb ish", "sev", options(nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn wraps() {
        let counter = Counter::new();
        counter.set(u32::MAX);
        assert!(counter.reached(u32::MAX) && counter.reached(u32::MAX - 7));
        assert!(!counter.reached(0) && !counter.reached(7));
        counter.add(1);
        assert!(counter.reached(0) && counter.reached(u32::MAX) && !counter.reached(1));
    }

    /// Two threads take turns. A lost wake-up would hang.
    fn ping_pong(rounds: u32, spin_ns: u64) {
        let (ping, pong) = (Counter::new(), Counter::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                for i in 1..=rounds {
                    assert!(ping.wait_until(i, spin_ns, || false));
                    pong.set(i);
                }
            });
            for i in 1..=rounds {
                ping.set(i);
                assert!(pong.wait_until(i, spin_ns, || false));
            }
        });
        assert_eq!(ping.sleepers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_wake_up_is_lost_when_sleeping_at_once() {
        // Without sleeping, threads on one core hand over only when their time is up.
        ping_pong(if cfg!(feature = "linux") { 20_000 } else { 200 }, 0);
    }

    #[test]
    fn no_wake_up_is_lost_when_spinning_first() {
        ping_pong(if cfg!(feature = "linux") { 5_000 } else { 200 }, 3_000);
    }

    #[test]
    fn counts_of_several_threads_add_up() {
        let counter = Counter::new();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(3)));
            }
            assert!(counter.wait_until(12_000, 1000, || false));
        });
        assert_eq!(counter.get(), 12_000);
    }

    #[test]
    fn stopping_wakes_a_sleeper() {
        for _ in 0..200 {
            let (counter, stop) = (Counter::new(), AtomicBool::new(false));
            thread::scope(|scope| {
                let waiter =
                    scope.spawn(|| counter.wait_until(1, 0, || stop.load(Ordering::Relaxed)));
                stop.store(true, Ordering::Relaxed);
                counter.wake();
                assert!(!waiter.join().unwrap());
            });
        }
    }

    #[test]
    #[cfg(feature = "linux")]
    fn counting_wakes_nobody_before_the_time() {
        let counter = Counter::new();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| counter.wait_until(100, 0, || false));
            while counter.sleepers.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(5));
            (1..100).for_each(|count| counter.set(count));
            assert_eq!(counter.epoch.load(Ordering::Relaxed), 0);
            counter.set(100);
            assert!(waiter.join().unwrap());
        });
        assert!(counter.epoch.load(Ordering::Relaxed) <= 1);
    }

    #[test]
    fn several_sleepers_are_woken() {
        let counter = Counter::new();
        thread::scope(|scope| {
            for target in [1, 2, 2, 3] {
                let counter = &counter;
                scope.spawn(move || assert!(counter.wait_until(target, 0, || false)));
            }
            for count in 1..=3 {
                thread::sleep(Duration::from_millis(5));
                counter.set(count);
            }
        });
    }
}
