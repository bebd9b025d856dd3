//! When the lines of an image hold something: buffers may share bytes where no two such lines meet.

use super::Lifetime;

/// When the lines of a buffer hold something; counted in steps, the host's being 0.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Bytes of a line.
    bytes: i64,
    lives: Vec<Option<Lifetime>>,
}

impl Lines {
    /// `lines` lines of `bytes` bytes, none of which is in use yet.
    pub fn new(lines: usize, bytes: i64) -> Self {
        Self { bytes, lives: vec![None; lines] }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.lives.len() as u32
    }

    /// A line holds something until this step, no earlier than any before.
    pub fn touch(&mut self, line: u32, time: usize) {
        if let Some(life) = self.lives.get_mut(line as usize) {
            life.get_or_insert(Lifetime { start: time, end: time }).end = time;
        }
    }

    /// The lines were all made before these steps.
    pub fn known_before(&mut self) {
        self.lives.iter_mut().flatten().for_each(|life| life.start = 0);
    }

    /// The lines are all needed after these steps.
    pub fn needed_after(&mut self) {
        self.lives.iter_mut().flatten().for_each(|life| life.end = usize::MAX);
    }

    /// The distances from the start of this buffer to that of another one between which lines would
    /// meet, both ends excluded. `None` if they share no moment.
    pub fn forbidden(&self, lines: &Self) -> Option<(i64, i64)> {
        let theirs: Vec<(i64, Lifetime)> = alive(&lines.lives).collect();
        // For each line: the latest end up to it, and the earliest start from it on.
        let mut ends: Vec<usize> = theirs.iter().map(|(_, life)| life.end).collect();
        (1..ends.len()).for_each(|at| ends[at] = ends[at].max(ends[at - 1]));
        let mut starts: Vec<usize> = theirs.iter().map(|(_, life)| life.start).collect();
        (1..starts.len()).rev().for_each(|at| starts[at - 1] = starts[at - 1].min(starts[at]));
        let mut found: Option<(i64, i64)> = None;
        for (x, a) in alive(&self.lives) {
            // Lines before the first of these have ended, and those from the last on begin later.
            let first = ends.partition_point(|end| *end < a.start);
            let last = starts.partition_point(|start| *start <= a.end);
            let meets = |(_, b): &&(i64, Lifetime)| a.start <= b.end && b.start <= a.end;
            let between = theirs.get(first..last).unwrap_or_default();
            let (Some((low, _)), Some((high, _))) =
                (between.iter().find(meets), between.iter().rev().find(meets))
            else {
                continue;
            };
            let least: i64 = x * self.bytes - (high + 1) * lines.bytes;
            let most: i64 = (x + 1) * self.bytes - low * lines.bytes;
            let held = found.get_or_insert((least, most));
            *held = (held.0.min(least), held.1.max(most));
        }
        found
    }

    /// Whether all lines of both hold something at once: none of them is dead before one of the
    /// other's is made.
    #[cfg(test)]
    pub(crate) fn all_meet(&self, other: &Self) -> bool {
        let meets = |a: &Lifetime, b: &Lifetime| a.start <= b.end && b.start <= a.end;
        let theirs = || other.lives.iter().flatten();
        self.lives.iter().flatten().all(|one| theirs().all(|other| meets(one, other)))
    }
}

/// The lines that hold something, with their numbers.
fn alive(lives: &[Option<Lifetime>]) -> impl Iterator<Item = (i64, Lifetime)> + '_ {
    (0..).zip(lives).filter_map(|(line, life)| Some((line, (*life)?)))
}
