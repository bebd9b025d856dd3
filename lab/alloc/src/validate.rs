//! Proves a placement, knowing nothing of how it was made.

use super::Buffer;
use std::fmt;

/// What is wrong with a placement; buffers are told by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Not one offset for each buffer.
    Count {
        buffers: usize,
        offsets: usize,
    },
    Misaligned {
        buffer: usize,
        offset: u64,
        align: u64,
    },
    TooHigh {
        buffer: usize,
        offset: u64,
        size: u64,
        capacity: u64,
    },
    /// Two that live at the same time share a place.
    Overlap {
        first: usize,
        second: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { buffers, offsets } => {
                write!(f, "{offsets} offsets for {buffers} buffers")
            }
            Self::Misaligned { buffer, offset, align } => {
                write!(f, "buffer {buffer} at {offset} is not aligned to {align}")
            }
            Self::TooHigh { buffer, offset, size, capacity } => {
                write!(
                    f,
                    "buffer {buffer}, {size} at {offset}, ends above the capacity of {capacity}"
                )
            }
            Self::Overlap { first, second } => {
                write!(f, "buffers {first} and {second} live at the same time and share a place")
            }
        }
    }
}

impl std::error::Error for Violation {}

/// Whether every buffer lies within the capacity, and apart from all that live when it does.
pub fn validate(buffers: &[Buffer], offsets: &[u64], capacity: u64) -> Result<(), Violation> {
    if buffers.len() != offsets.len() {
        return Err(Violation::Count { buffers: buffers.len(), offsets: offsets.len() });
    }
    for (index, (buffer, &offset)) in buffers.iter().zip(offsets).enumerate() {
        if !offset.is_multiple_of(buffer.align) {
            return Err(Violation::Misaligned { buffer: index, offset, align: buffer.align });
        }
        if offset.checked_add(buffer.size).is_none_or(|end| end > capacity) {
            let size = buffer.size;
            return Err(Violation::TooHigh { buffer: index, offset, size, capacity });
        }
    }
    // By start: what comes later meets a buffer only if it starts before that ends.
    let mut by_start: Vec<usize> = (0..buffers.len()).collect();
    by_start.sort_by_key(|&index| buffers[index].lower);
    for (rank, &one) in by_start.iter().enumerate() {
        let ended = |&&other: &&usize| buffers[other].lower < buffers[one].upper;
        for &other in by_start[rank + 1..].iter().take_while(ended) {
            let begin = offsets[one].max(offsets[other]);
            let end = (offsets[one] + buffers[one].size).min(offsets[other] + buffers[other].size);
            if begin < end {
                return Err(Violation::Overlap { first: one.min(other), second: one.max(other) });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_checked() {
        let buffers = [
            Buffer::new(0, 5, 4),
            Buffer::new(4, 9, 4),
            Buffer { align: 8, ..Buffer::new(5, 9, 4) },
        ];
        assert_eq!(validate(&buffers, &[0, 4, 0], 8), Ok(()));
        let check = |offsets: &[u64]| validate(&buffers, offsets, 12).unwrap_err();
        assert_eq!(check(&[0, 4]), Violation::Count { buffers: 3, offsets: 2 });
        assert_eq!(check(&[0, 4, 4]), Violation::Misaligned { buffer: 2, offset: 4, align: 8 });
        assert_eq!(check(&[0, 3, 8]), Violation::Overlap { first: 0, second: 1 });
        assert_eq!(check(&[0, 5, 8]), Violation::Overlap { first: 1, second: 2 });
        let high = Violation::TooHigh { buffer: 1, offset: 9, size: 4, capacity: 12 };
        assert_eq!(check(&[0, 9, 0]), high);
        assert!(matches!(check(&[u64::MAX, 4, 0]), Violation::TooHigh { .. }));
        assert!(high.to_string().contains("capacity of 12"));
    }
}
