//! Slots that chunks of several networks share: which are free.

/// Slots that chunks of several networks share.
#[derive(Debug)]
pub struct Pool<'a> {
    /// Slots that no chunk has: the first `count`.
    free: &'a mut [u32],
    count: usize,
    /// How many there are, free or not.
    slots: usize,
    /// Slots that are of no network's stock.
    own: Slots,
    /// Where in memory lies what its slots are of, as long as the pool is there.
    pub(super) memory: Option<usize>,
}

/// So many slots, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slots {
    pub first: u32,
    pub pages: u32,
    pub count: usize,
}

impl Slots {
    fn all(self) -> impl Iterator<Item = u32> {
        let Self { first, pages, count } = self;
        (first..).step_by(pages.max(1) as usize).take(count)
    }
}

impl<'a> Pool<'a> {
    /// No slots: for networks without chunks.
    pub fn none() -> Self {
        Self { free: &mut [], count: 0, slots: 0, own: Slots::default(), memory: None }
    }

    /// A pool of the slots at this address. Its list has a place for each of them, and for those of stocks.
    #[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
    pub(super) fn new(memory: usize, free: &'a mut [u32], own: Slots) -> Self {
        let mut pool = Self { free, count: 0, slots: 0, own, memory: Some(memory) };
        pool.refill();
        pool
    }

    /// Has its own slots, all of them free.
    pub(crate) fn refill(&mut self) {
        (self.slots, self.count) = (0, 0);
        self.own.all().for_each(|slot| self.add(slot));
    }

    /// Has another slot, which is free.
    pub(crate) fn add(&mut self, slot: u32) {
        self.slots = self.free.len().min(self.slots + 1);
        self.give(slot);
    }

    /// A chunk has kept this slot: it is not free.
    pub(crate) fn hold(&mut self, slot: u32) {
        let free = self.free.get_mut(..self.count).unwrap_or_default();
        if let Some(at) = free.iter().position(|other| *other == slot) {
            self.count -= 1;
            free.swap(at, self.count);
        }
    }

    /// Its own slots: those that are of no network's stock.
    pub(crate) fn own(&self) -> u32 {
        u32::try_from(self.own.count).unwrap_or(u32::MAX)
    }

    /// Its slots, free or not.
    pub fn chunks(&self) -> u32 {
        u32::try_from(self.slots).unwrap_or(u32::MAX)
    }

    /// Slots that no chunk has.
    pub fn free(&self) -> u32 {
        u32::try_from(self.count).unwrap_or(u32::MAX)
    }

    /// The slots that no chunk has.
    #[cfg(test)]
    pub(crate) fn free_slots(&self) -> &[u32] {
        &self.free[..self.count]
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        let at = self.count.checked_sub(1)?;
        let slot = self.free.get(at).copied()?;
        self.count = at;
        Some(slot)
    }

    pub(crate) fn give(&mut self, slot: u32) {
        if let Some(place) = self.free.get_mut(self.count).filter(|_| self.count < self.slots) {
            *place = slot;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapless::Vec;

    #[test]
    fn slots_of_a_pool_are_taken_once() {
        let mut list = [0; 5];
        let mut pool = Pool::new(0, &mut list, Slots { first: 20, pages: 1, count: 3 });
        let mut taken: Vec<u32, 9> = core::iter::from_fn(|| pool.take()).collect();
        taken.sort_unstable();
        assert_eq!((taken, pool.free(), pool.chunks()), (Vec::from_iter([20, 21, 22]), 0, 3));
        pool.give(21);
        assert_eq!((pool.free(), pool.take(), pool.take()), (1, Some(21), None));
        (20..24).for_each(|slot| pool.give(slot));
        assert_eq!(pool.free(), 3, "no more than there are");
        pool.refill();
        pool.add(7);
        assert_eq!((pool.free(), pool.chunks(), pool.own()), (4, 4, 3));
        pool.hold(21);
        pool.hold(30);
        assert_eq!((pool.free(), pool.chunks()), (3, 4));
        let mut taken: Vec<u32, 9> = core::iter::from_fn(|| pool.take()).collect();
        taken.sort_unstable();
        assert_eq!(taken, [7, 20, 22]);
        [7, 20, 21, 22].iter().for_each(|slot| pool.give(*slot));
        (8..20).for_each(|slot| pool.add(slot));
        assert_eq!((pool.free(), pool.chunks()), (5, 5), "the list has no more places");
        assert_eq!((Pool::none().chunks(), Pool::none().take()), (0, None));
    }
}
