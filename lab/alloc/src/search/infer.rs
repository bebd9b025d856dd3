//! What follows from what is known, section by section, until nothing more does.
//!
//! In one section buffers are jobs on one machine: each has a first possible start (its lowest offset), a
//! duration (its size), and all must be done by the capacity.

use super::state::{EMPTY, State};

/// A buffer of a section that is not placed.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    lowest: u64,
    size: u64,
    buffer: u32,
}

impl Job {
    fn top(self) -> u64 {
        self.lowest + self.size
    }
}

impl State {
    /// Looks at all dirty sections, and at those that become so; false if what is left cannot be placed any
    /// more. `work` grows by one for each.
    pub fn propagate(&mut self, jobs: &mut Vec<Job>, work: &mut u64) -> bool {
        let mut at = 0;
        loop {
            let Some(section) = self.dirty.take_from(at) else {
                if at == 0 {
                    return true;
                }
                at = 0;
                continue;
            };
            at = section;
            *work += 1;
            self.collect(section, jobs);
            if !self.examine(section, jobs) {
                self.dirty.clear();
                return false;
            }
        }
    }

    /// The jobs of a section, the lowest first.
    fn collect(&mut self, section: usize, jobs: &mut Vec<Job>) {
        // Sorted anew each time, from an order that was right a moment ago.
        let members = &mut self.members[section];
        for end in 1..members.len() {
            let member = members[end];
            let key = self.lowest[member as usize];
            let mut at = end;
            while at > 0 && self.lowest[members[at - 1] as usize] > key {
                members[at] = members[at - 1];
                at -= 1;
            }
            members[at] = member;
        }
        jobs.clear();
        jobs.extend(members.iter().filter(|&&member| !self.placed[member as usize]).map(
            |&buffer| {
                let index = buffer as usize;
                Job { lowest: self.lowest[index], size: self.sizes[index], buffer }
            },
        ));
    }

    fn examine(&mut self, section: usize, jobs: &[Job]) -> bool {
        let Some(first) = jobs.first() else {
            self.set_floor(section, EMPTY, 0);
            return true;
        };
        let floor = first.lowest;
        let mut end = 0;
        let mut on_floor = 0;
        for job in jobs {
            end = job.lowest.max(end) + job.size;
            on_floor += u32::from(job.lowest == floor);
        }
        if end > self.capacity || !self.not_first(floor, self.capacity - self.left[section], jobs) {
            return false;
        }
        self.set_floor(section, floor, on_floor);
        true
    }

    /// Raises buffers that leave too much unused below them where they are.
    ///
    /// A buffer at its lowest offset has below it at most those that can end there. If all the others do not
    /// fit above it, it must lie above one of these. `latest` is where the first must start at the latest.
    fn not_first(&mut self, floor: u64, latest: u64, jobs: &[Job]) -> bool {
        let mut from = jobs.len();
        while from > 0 && jobs[from - 1].lowest > latest {
            let offset = jobs[from - 1].lowest;
            let to = from;
            from = jobs[..from].partition_point(|job| job.lowest < offset);
            // So much must be below for the rest to fit.
            let need = offset - latest;
            let mut below = 0;
            let mut next = Lowest::default();
            for &job in &jobs[..from] {
                if job.top() <= offset {
                    below += job.size;
                } else {
                    next.add(job);
                }
            }
            if below >= need && offset - floor >= need {
                continue;
            }
            jobs[from..].iter().for_each(|&job| next.add(job));
            for job in &jobs[from..to] {
                let Some(above) = next.without(job.buffer) else { return false };
                if above + job.size > self.capacity {
                    return false;
                }
                self.raise(job.buffer as usize, above);
            }
        }
        true
    }
}

/// The two lowest tops of some jobs.
#[derive(Default)]
struct Lowest {
    first: Option<(u64, u32)>,
    second: Option<u64>,
}

impl Lowest {
    fn add(&mut self, job: Job) {
        let top = job.top();
        match self.first {
            Some((first, _)) if first <= top => {
                self.second = Some(self.second.map_or(top, |second| second.min(top)));
            }
            first => {
                self.second = first.map(|(first, _)| first);
                self.first = Some((top, job.buffer));
            }
        }
    }

    /// The lowest top of all but one.
    fn without(&self, buffer: u32) -> Option<u64> {
        match self.first {
            Some((_, first)) if first == buffer => self.second,
            first => first.map(|(top, _)| top),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    fn propagate(state: &mut State) -> bool {
        state.propagate(&mut Vec::new(), &mut 0)
    }

    /// Index of a buffer of the problem.
    fn index(state: &State, id: usize) -> usize {
        state.ids.iter().position(|other| *other == id).unwrap()
    }

    #[test]
    fn what_is_left_must_fit_above_the_floor() {
        let buffers = [Buffer::new(0, 4, 3), Buffer::new(0, 4, 5)];
        assert!(propagate(&mut State::new(&buffers, 8)));
        assert!(!propagate(&mut State::new(&buffers, 7)));
        // Whatever starts at 4 or above ends at 9 at the earliest.
        let mut state = State::new(&buffers, 8);
        assert!(propagate(&mut state));
        let large = index(&state, 1);
        state.raise(large, 4);
        assert!(!propagate(&mut state));
    }

    #[test]
    fn floors_rise_to_the_lowest_that_can_come() {
        // Above the first only the wide one can follow, which must lie above the second too.
        let buffers = [Buffer::new(0, 2, 2), Buffer::new(2, 4, 5), Buffer::new(0, 4, 3)];
        let mut state = State::new(&buffers, 20);
        assert!(propagate(&mut state));
        for id in [0, 1] {
            let buffer = index(&state, id);
            state.place(buffer);
        }
        assert!(propagate(&mut state));
        assert_eq!(
            (state.floors.as_slice(), state.on_floor.as_slice()),
            (&[5, 5][..], &[1, 1][..])
        );
        let wide = index(&state, 2);
        state.place(wide);
        assert!(propagate(&mut state));
        assert_eq!(state.floors, [EMPTY; 2]);
    }

    #[test]
    fn a_buffer_that_wastes_too_much_goes_above_another() {
        // At 2 the second would leave 2 below it that the third cannot use.
        let buffers = [Buffer::new(0, 2, 2), Buffer::new(0, 4, 4), Buffer::new(2, 4, 3)];
        let mut state = State::new(&buffers, 8);
        let (first, wide, narrow) = (index(&state, 0), index(&state, 1), index(&state, 2));
        state.place(first);
        assert!(propagate(&mut state));
        assert_eq!((state.lowest[wide], state.lowest[narrow]), (3, 0));
        // And with less room there is no way at all.
        let mut state = State::new(&buffers, 6);
        state.place(first);
        assert!(!propagate(&mut state));
    }

    #[test]
    fn what_is_raised_stays_aligned() {
        let aligned = Buffer { align: 8, ..Buffer::new(0, 4, 4) };
        let mut state = State::new(&[Buffer::new(0, 4, 3), aligned], 12);
        let first = index(&state, 0);
        state.place(first);
        assert!(propagate(&mut state));
        assert_eq!(state.lowest[index(&state, 1)], 8);
    }
}
