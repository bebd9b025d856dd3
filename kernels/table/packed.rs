//! Weights as a pack stores them.

use core::ops::Range;

/// Packed weights, in the encoding of their layer: panels, each with its biases and then weights of
/// 32, 16 or 8 bits, or whatever words an operator has for constants. They are whole 32-bit words,
/// which only [`floats`](Self::floats) says are numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packed<'a> {
    words: &'a [f32],
}

impl<'a> Packed<'a> {
    /// The weights that these words have.
    pub const fn new(words: &'a [f32]) -> Self {
        Self { words }
    }

    /// All of them as floats, where they are stored as floats.
    pub const fn floats(self) -> &'a [f32] {
        self.words
    }

    /// All of them as bytes.
    pub fn bytes(self) -> &'a [u8] {
        bytemuck::cast_slice(self.words)
    }

    /// How many words there are.
    pub const fn len(self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.words.is_empty()
    }

    /// Some panels, of `each` words.
    ///
    /// # Panics
    /// If the weights have fewer.
    pub fn panels(self, panels: Range<usize>, each: usize) -> Self {
        Self::new(&self.words[panels.start * each..panels.end * each])
    }

    /// Panel after panel, of `each` words.
    pub fn chunks(self, each: usize) -> impl ExactSizeIterator<Item = Self> {
        self.words.chunks_exact(each).map(Self::new)
    }

    /// The floats of one panel before its weights: the biases of `nr` channels.
    ///
    /// # Panics
    /// If the panel has fewer words.
    pub fn biases(self, nr: usize) -> &'a [f32] {
        &self.words[..nr]
    }
}
