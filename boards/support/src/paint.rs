//! Painted memory: filled with a pattern before, looked at after, so that what was touched shows.

/// What memory is painted with, in words.
pub const PAINT: u32 = 0x5afe_c0de;

const BYTES: [u8; 4] = PAINT.to_ne_bytes();

/// Paints memory, which is a whole number of words.
pub fn paint(memory: &mut [u8]) {
    for word in memory.as_chunks_mut().0 {
        *word = BYTES;
    }
}

/// Bytes of painted memory that were written to, in words. A word that was written with the pattern
/// is not found.
pub fn touched(memory: &[u8]) -> usize {
    memory.as_chunks().0.iter().filter(|word| **word != BYTES).count() * BYTES.len()
}

/// Bytes of painted memory up to the last word that was written to.
pub fn extent(memory: &[u8]) -> usize {
    let (words, _) = memory.as_chunks();
    let last = words.iter().rposition(|word| *word != BYTES);
    last.map_or(0, |last| (last + 1) * BYTES.len())
}

/// Bytes from the first word that was written to, to `end`: how deep a stack went that grows down
/// from there.
///
/// # Safety
/// `start` and `end` are the ends of a whole number of initialised words. Nobody writes those that
/// have not been written to yet.
pub unsafe fn depth(start: *const u32, end: *const u32) -> usize {
    let mut at = start;
    // SAFETY: inside, by the caller's promise. Volatile: the rest of a stack changes, and nothing
    // of it is read after the first word that has.
    while at < end && unsafe { at.read_volatile() } == PAINT {
        at = at.wrapping_add(1);
    }
    end.addr() - at.addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_touched_shows() {
        let mut memory = [0; 64];
        paint(&mut memory);
        assert_eq!((touched(&memory), extent(&memory)), (0, 0));
        memory[21] = 1;
        assert_eq!((touched(&memory), extent(&memory)), (4, 24));
        memory[63] = 2;
        assert_eq!((touched(&memory), extent(&memory)), (8, 64));
    }

    #[test]
    fn the_depth_of_a_stack_shows() {
        let mut stack = [PAINT; 16];
        // SAFETY: the ends of an array.
        let depth = |stack: &[u32; 16]| unsafe {
            let ends = stack.as_ptr_range();
            super::depth(ends.start, ends.end)
        };
        assert_eq!(depth(&stack), 0);
        stack[5] = 1;
        stack[7] = PAINT + 1;
        assert_eq!(depth(&stack), 44);
    }
}
