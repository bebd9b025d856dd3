//! The file of weights: a header, then the numbers of all layers in their order.
//!
//! ```text
//! major:i32 minor:i32 revision:i32 seen:i64 (i32 before version 0.2)   numbers:f32…
//! ```

use super::error::DarknetError;
use super::layers::{Layer, Layers};
use crate::graph::Constant;
use bytes::Bytes;
use eyelet::pack::Encoding;

/// Bytes of the header, with the 64-bit count of seen images that Darknet writes today.
pub(super) const HEADER: usize = 20;
/// With a count of 32 bits.
const OLD_HEADER: usize = 16;

/// The numbers of a network, checked to be as many as its layers need.
pub(super) struct Numbers {
    bytes: Bytes,
    /// Matrices of connected layers have a row an input.
    pub transposed: bool,
    /// Bytes that were taken.
    at: usize,
}

impl Numbers {
    pub fn new(bytes: Bytes, layers: &Layers) -> Result<Self, DarknetError> {
        let short = |needs| DarknetError::Header { has: bytes.len(), needs };
        let words = bytes.get(..OLD_HEADER).ok_or_else(|| short(OLD_HEADER))?.as_chunks().0;
        let [major, minor] = [words[0], words[1]].map(|word| i64::from(i32::from_le_bytes(word)));
        let transposed = major > 1000 || minor > 1000;
        let header = match major * 10 + minor >= 2 && !transposed {
            true => HEADER,
            false => OLD_HEADER,
        };
        if bytes.len() < header {
            return Err(short(header));
        }
        let of = |numbers: usize| (numbers as u64).saturating_mul(4).saturating_add(header as u64);
        let (needs, has) = (of(layers.numbers()), bytes.len() as u64);
        if needs < has {
            return Err(DarknetError::Longer { needs, has });
        }
        let mut numbers = 0usize;
        for Layer { line, name, numbers: own, .. } in &layers.layers {
            numbers = numbers.saturating_add(*own);
            if of(numbers) > has {
                let (line, section) = (*line, name.clone());
                return Err(DarknetError::Truncated { needs, has, section, line });
            }
        }
        Ok(Self { bytes, transposed, at: header })
    }

    /// The next numbers.
    pub fn take(&mut self, count: usize) -> Constant {
        let start = self.at;
        self.at += 4 * count;
        Constant::Raw(self.bytes.slice(start..self.at), Encoding::F32)
    }
}
