//! A bell: what wakes a thread that waits for the kernel and for another thread at once.
//!
//! The kernel says that a read is done by a descriptor; who sleeps for a count does so on a futex, and no call waits for
//! both. So a [`Counter`](super::futex::Counter) can have a bell: a descriptor (an eventfd, which the kernels of the oldest
//! boards have), written to by whoever counts, if somebody listens. It is the counter's own, so that one that is rung too
//! late is still a bell.
//!
//! Without Linux there is none.

#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::storage::fd::Signal;
use core::sync::atomic::{AtomicU32, Ordering};

/// A bell, if it is hung, and how many listen.
#[derive(Debug)]
pub(super) struct Bell {
    #[cfg(all(feature = "linux", target_os = "linux"))]
    signal: Option<Signal>,
    listeners: AtomicU32,
}

impl Bell {
    pub const fn new() -> Self {
        Self {
            #[cfg(all(feature = "linux", target_os = "linux"))]
            signal: None,
            listeners: AtomicU32::new(0),
        }
    }

    /// How many listen. In which order with other things, the caller's fences say.
    pub fn listeners(&self) -> u32 {
        self.listeners.load(Ordering::Relaxed)
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl Bell {
    /// Makes one that can be rung, unless the system has no descriptors left.
    pub fn hang(&mut self) {
        if self.signal.is_none() {
            self.signal = Signal::new().ok();
        }
    }

    /// Calls `body`, a listener, with what becomes readable when the bell is rung after that; `None` without a bell.
    pub fn listen<T>(&self, body: impl FnOnce(&Signal) -> T) -> Option<T> {
        let signal = self.signal.as_ref()?;
        self.listeners.fetch_add(1, Ordering::Relaxed);
        let result = body(signal);
        self.listeners.fetch_sub(1, Ordering::Relaxed);
        signal.clear();
        Some(result)
    }

    /// Wakes who listens.
    pub fn ring(&self) {
        if let Some(signal) = &self.signal {
            signal.raise();
        }
    }
}

#[cfg(not(all(feature = "linux", target_os = "linux")))]
impl Bell {
    /// Wakes who listens: nobody does.
    pub fn ring(&self) {}
}
