//! Which cores compute, and which reads beside them.
//!
//! Storage that is read past the page cache says with an interrupt that a read has come, and one core serves it: often always
//! the same, whichever thread has asked. What computes there is held up each time; measured, that costs a network that reads 2 MiB
//! within 3 ms 7 %, for all of a process's life or for none of it, as the system happens to place its threads. So the loader goes to the
//! core that the interrupts come to, and computing to the others, if there are enough.

use eyelet::arena::MappedArena;
use eyelet::device::threads::{confine_current, cores};
use eyelet::pack::PAGE;
use eyelet::storage::Storage;

/// Reads that are made to see where their interrupts come to.
const READS: u64 = 32;

/// The most cores of a machine that are looked at.
const MOST: usize = 1024;

/// The cores of loads and of steps; by default nothing is told, and the system places all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// That of the loader,
    pub reading: Option<usize>,
    /// and the others that this process may use: no fewer than threads that compute.
    computing: Vec<usize>,
}

impl Cores {
    /// Of this machine, for so many threads that compute. Reads a few pages to see where the storage's interrupts come to; nothing is
    /// told if they do not come to one core, or no core would be left to the loader, or the system does not say.
    pub fn find(storage: &mut impl Storage, threads: usize) -> Self {
        Self::apart(storage, threads).unwrap_or_default()
    }

    fn apart(storage: &mut impl Storage, threads: usize) -> Option<Self> {
        let all = cores::<MOST>();
        if all.len() <= threads {
            return None;
        }
        let mut arena = MappedArena::new(PAGE as usize).ok()?;
        let mut memory = arena.memory();
        let before = Interrupts::now()?;
        for _ in 0..READS {
            storage.read(0, &mut memory.as_mut_slice()[..PAGE as usize]).ok()?;
        }
        let reading = Interrupts::now()?.core(&before, READS)?;
        let computing = all.iter().copied().filter(|core| *core != reading).collect();
        all.contains(&reading).then_some(Self { reading: Some(reading), computing })
    }

    /// Confines the calling thread to the cores that compute, and those that it starts from then on.
    pub fn compute(&self) {
        self.confine(&self.computing);
    }

    /// Runs something on the core that reads, and leaves the calling thread free to run anywhere.
    pub fn read<R>(&self, body: impl FnOnce() -> R) -> R {
        self.confine(self.reading.as_slice());
        let result = body();
        self.free();
        result
    }

    /// Lets the calling thread run on all of them again.
    pub fn free(&self) {
        let all: Vec<usize> = self.computing.iter().copied().chain(self.reading).collect();
        self.confine(&all);
    }

    /// Where that is refused, the system places the thread.
    fn confine(&self, cores: &[usize]) {
        if self.reading.is_some() {
            let _ = confine_current(cores);
        }
    }
}

/// Interrupts of devices so far.
struct Interrupts {
    /// The number of each column's core,
    cores: Vec<usize>,
    /// and the lines by their names.
    lines: Vec<(String, Vec<u64>)>,
}

impl Interrupts {
    fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/interrupts").ok()?)
    }

    /// As Linux tells them: a column for each core, a line for each interrupt; those with numbers are devices'.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let number = |column: &str| column.strip_prefix("CPU")?.parse().ok();
        let cores: Option<Vec<usize>> = lines.next()?.split_whitespace().map(number).collect();
        let cores = cores?;
        let line = |line: &str| {
            let (name, counts) = line.split_once(':')?;
            let name = name.trim();
            name.parse::<u32>().ok()?;
            let counts = counts.split_whitespace().map_while(|count| count.parse().ok());
            let counts: Vec<u64> = counts.take(cores.len()).collect();
            (counts.len() == cores.len()).then(|| (name.to_owned(), counts))
        };
        Some(Self { lines: lines.filter_map(line).collect(), cores })
    }

    /// The core to which nearly all interrupts came of the line that had most since then, if these were about so many.
    fn core(&self, before: &Self, reads: u64) -> Option<usize> {
        let since = self.lines.iter().filter_map(|(name, counts)| {
            let (_, earlier) = before.lines.iter().find(|(other, _)| other == name)?;
            let more = counts.iter().zip(earlier).map(|(now, then)| now.saturating_sub(*then));
            let more: Vec<u64> = more.collect();
            let most = more.iter().enumerate().max_by_key(|(_, count)| **count)?;
            Some((more.iter().sum::<u64>(), *most.1, *self.cores.get(most.0)?))
        });
        let (all, most, core) = since.max()?;
        (all * 2 >= reads && most * 4 >= all * 3).then_some(core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(disk: [u64; 2], network: [u64; 2]) -> Interrupts {
        let text = format!(
            "           CPU0       CPU3\n 36: {} {}  PCI-MSIX-0000:00:02.0   1-edge   virtio1-req.0\n \
             40:   {}   {}   GICv3  8 Level  eth0\n 41: 7\nLOC: 900 1000   Local timer interrupts\nERR:  0\n",
            disk[0], disk[1], network[0], network[1]
        );
        Interrupts::parse(&text).unwrap()
    }

    #[test]
    fn the_core_is_that_of_the_line_that_was_busy() {
        let before = at([5, 1000], [70, 0]);
        assert_eq!(before.lines.len(), 2);
        assert_eq!(at([5, 1032], [75, 0]).core(&before, 32), Some(3));
        assert_eq!(at([36, 1001], [70, 0]).core(&before, 32), Some(0));
        // Spread over both, or too few for what was read.
        assert_eq!(at([21, 1016], [70, 0]).core(&before, 32), None);
        assert_eq!(at([5, 1010], [70, 0]).core(&before, 32), None);
        assert!(Interrupts::parse("no such thing\n").is_none() && Interrupts::parse("").is_none());
    }

    #[test]
    fn computing_has_the_cores_that_do_not_read() {
        let cores = Cores { reading: Some(3), computing: vec![0, 1] };
        // Wherever that is allowed; it is undone with the thread.
        let body = move || {
            cores.compute();
            let read = cores.read(|| 7);
            cores.free();
            read
        };
        assert_eq!(std::thread::spawn(body).join().unwrap(), 7);
        // All cores compute.
        let mut nothing = eyelet::storage::Slice(&[0; PAGE as usize]);
        assert_eq!(Cores::find(&mut nothing, MOST), Cores::default());
        // What is in memory interrupts nobody.
        assert_eq!(Cores::find(&mut nothing, 1), Cores::default());
    }
}
