//! What an image's linker script says: where statics and stacks are.
//!
//! Every image's `link.ld` gives these symbols.

use crate::paint::depth;

unsafe extern "C" {
    static stack_bottom: u8;
    static stack_top: u8;
    static bss_start: u8;
    static data_end: u8;
}

/// The most bytes of stacks that were in use so far: of so many stacks of the same size, side by
/// side.
pub fn stack_bytes(stacks: usize) -> usize {
    let (bottom, top) = (&raw const stack_bottom, &raw const stack_top);
    let bytes = (top.addr() - bottom.addr()) / stacks.max(1);
    let deep = |stack: usize| {
        let bottom = bottom.wrapping_add(stack * bytes);
        // SAFETY: the startup painted the stacks, which are in words. Cores write only there, and
        // not below what was in use.
        unsafe { depth(bottom.cast(), bottom.wrapping_add(bytes).cast()) }
    };
    (0..stacks).map(deep).sum()
}

/// Bytes of all statics.
pub fn data_bytes() -> usize {
    (&raw const data_end).addr() - (&raw const bss_start).addr()
}
