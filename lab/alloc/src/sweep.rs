//! What is live when: the peak, and the sections of time in which it matters.

use super::Buffer;
use std::ops::Range;

/// The moment with the most live bytes: no placement is lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    pub bytes: u64,
    /// The first such moment.
    pub time: i64,
}

pub fn peak(buffers: &[Buffer]) -> Peak {
    let mut peak = Peak::default();
    let mut live = 0;
    for event in events(buffers) {
        if !event.starts {
            live -= buffers[event.buffer].size;
            continue;
        }
        live += buffers[event.buffer].size;
        if live > peak.bytes {
            peak = Peak { bytes: live, time: event.time };
        }
    }
    peak
}

/// The sections in which each buffer lives, and how many there are.
///
/// A section is a set of buffers that are all live at some moment, and to which no other can be added: two
/// buffers share a moment exactly if they share a section, and sections a buffer lives in follow each other.
pub fn sections(buffers: &[Buffer]) -> (Vec<Range<usize>>, usize) {
    let mut spans = vec![0..0; buffers.len()];
    let mut count = 0;
    let mut grown = false;
    for event in events(buffers) {
        if event.starts {
            grown = true;
            spans[event.buffer].start = count;
        } else {
            count += usize::from(grown);
            grown = false;
            spans[event.buffer].end = count;
        }
    }
    (spans, count)
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time: i64,
    // What ends at a time does so before something starts.
    starts: bool,
    buffer: usize,
}

fn events(buffers: &[Buffer]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::with_capacity(2 * buffers.len());
    for (buffer, &Buffer { lower, upper, .. }) in buffers.iter().enumerate() {
        events.push(Event { time: lower, starts: true, buffer });
        events.push(Event { time: upper, starts: false, buffer });
    }
    events.sort_unstable();
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_makes_room_for_what_starts() {
        let buffers = [
            Buffer::new(0, 3, 4),
            Buffer::new(3, 9, 4),
            Buffer::new(0, 9, 4),
            Buffer::new(9, 21, 5),
        ];
        assert_eq!(peak(&buffers), Peak { bytes: 8, time: 0 });
        assert_eq!(sections(&buffers), (vec![0..1, 1..2, 0..2, 2..3], 3));
        assert_eq!(peak(&[]), Peak::default());
    }

    #[test]
    fn sections_are_maximal() {
        // The second starts and the third ends within the first: one section has all that meet.
        let buffers = [Buffer::new(0, 10, 1), Buffer::new(-2, 5, 1), Buffer::new(4, 12, 1)];
        assert_eq!(sections(&buffers), (vec![0..1; 3], 1));
    }
}
