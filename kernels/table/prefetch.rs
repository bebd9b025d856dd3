//! Weights that are used soon, and what kernels fetch of them.

use super::Packed;
use core::ptr;

/// Where weights lie that are used after the current ones. It is a hint: kernels fetch the bytes
/// into a cache and never read them. They need not have been loaded yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prefetch {
    address: usize,
    floats: usize,
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

impl Prefetch {
    /// `floats` floats from an address on.
    pub fn at(address: *const u8, floats: usize) -> Self {
        Self { address: address.addr(), floats }
    }

    /// The hint for weights that have been loaded.
    pub fn of(weights: &[f32]) -> Self {
        Self::at(weights.as_ptr().cast(), weights.len())
    }

    /// The hint for `rest` if there is any, which is used first, and else this one.
    pub fn behind(self, rest: Packed<'_>) -> Self {
        if rest.is_empty() { self } else { Self::of(rest.floats()) }
    }

    /// Whether there is nothing to fetch.
    pub fn is_empty(&self) -> bool {
        self.floats == 0
    }

    /// The first `floats` floats, or all if there are fewer.
    pub fn first(self, floats: usize) -> Self {
        Self { floats: self.floats.min(floats), ..self }
    }

    /// All but the first `floats` floats.
    pub(super) fn skip(self, floats: usize) -> Self {
        let floats = floats.min(self.floats);
        let address = self.address.wrapping_add(floats * size_of::<f32>());
        Self { address, floats: self.floats - floats }
    }

    /// Where the floats begin.
    pub(super) fn start(&self) -> *const f32 {
        ptr::without_provenance(self.address)
    }

    /// The bytes that strips fetch while they compute `k` terms of a panel: their start (the panel
    /// itself if there are none), bytes for each k, and each strip's share, or 0 if the only strip
    /// has all. A strip fetches at most two lines for each k, the first ones.
    pub(super) fn fetched(
        self,
        panel: &[f32],
        strips: usize,
        k: usize,
    ) -> (*const f32, usize, usize) {
        let most = (2 * LINE).saturating_mul(k).saturating_mul(strips);
        let bytes = (self.floats * size_of::<f32>()).min(most);
        let each = bytes.checked_div(strips).unwrap_or(0);
        let share = if strips > 1 { each } else { 0 };
        let start = if self.is_empty() { panel.as_ptr() } else { self.start() };
        (start, each.checked_div(k).unwrap_or(0), share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares that strips fetch lie in the weights, one after the other.
    #[test]
    fn strips_share_what_is_fetched() {
        let weights = [0.0f32; 4096];
        let prefetch = Prefetch::of(&weights);
        for strips in 1..20 {
            for k in [1, 3, 64, 100, 1024] {
                let (start, step, share) = prefetch.fetched(&weights[..1], strips, k);
                assert_eq!(start, weights.as_ptr());
                assert!(step <= 2 * LINE && (strips > 1 || share == 0), "{strips} strips, {k}");
                let end = (strips - 1) * share + k * step;
                assert!(end <= size_of_val(&weights), "{strips} strips, {k}: {end} bytes");
            }
        }
    }

    #[test]
    fn nothing_is_fetched_where_there_is_nothing() {
        let panel = [0.0f32; 64];
        let rest = Prefetch::of(&panel).skip(100);
        assert!(rest.is_empty());
        assert_eq!(rest.fetched(&panel, 3, 7), (panel.as_ptr(), 0, 0));
        assert_eq!(Prefetch::of(&panel).first(10).skip(4).floats, 6);
    }
}
