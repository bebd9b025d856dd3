//! A value whose references may have lapsed.
//!
//! A function that gets a reference by value, inside of a larger value too, may rely on what it
//! leads to until the function returns. The proof of a plan refers to the plan's tables, over which
//! the next plan's are read; and whoever changes the budget may have passed on the model, or the
//! instance, with the proof inside. In a [`Lapsing`] its references promise nothing until they are
//! asked for.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

/// A value, or none, that is not looked at as it is passed on. As large as an `Option`.
#[derive(Clone, Copy)]
pub(crate) struct Lapsing<T: Copy>(MaybeUninit<Option<T>>);

impl<T: Copy> Lapsing<T> {
    pub(crate) const NONE: Self = Self(MaybeUninit::new(None));

    pub(crate) fn new(value: T) -> Self {
        Self(MaybeUninit::new(Some(value)))
    }

    /// The value.
    ///
    /// It is there only while its referent is. The proof of a plan lapses when
    /// [`Weights::all`](super::Weights::all) is called again. Then neither side has the plan any
    /// more.
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: written by `new`, or none. The caller sees to the rest.
        unsafe { self.0.assume_init_ref() }.as_ref()
    }
}

impl<T: Copy> core::fmt::Debug for Lapsing<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Lapsing")
    }
}
