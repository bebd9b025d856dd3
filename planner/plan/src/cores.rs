//! The cores that compute, and the core that reads at the same time.
//!
//! A board with cores of two kinds says which ([`Cores::pinned`]). Elsewhere interrupts decide.
//!
//! Storage that is read past the page cache says with an interrupt that a read has come, and one core serves it: often
//! always the same, whichever thread has asked. A thread that computes there is held up each time. A network that reads 2
//! MiB within 3 ms measurably loses 7 %, for all of a process's life or for none of it, as the system happens to place its
//! threads. So the loader goes to the core that the interrupts come to, and computing to the others, if there are enough.

use eyelet::arena::MappedArena;
use eyelet::device::threads::{confine_current, cores, pin_current};
use eyelet::pack::PAGE;
use eyelet::storage::Storage;
use std::io::Error as SystemError;
use thiserror::Error;

/// Reads that are made to see where their interrupts come to.
const READS: u64 = 32;

/// The most cores of a machine that are looked at.
const MOST: usize = 1024;

/// The cores of loads and of steps; by default there are none, and the system places all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// The core of the loader.
    pub reading: Option<usize>,
    /// The other cores that this process may use: at least one for each thread that computes.
    computing: Vec<usize>,
    /// Each thread that computes has one of these to itself, in turn.
    each: bool,
}

/// Why threads are not pinned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unpinned {
    #[error("{threads} threads compute, and it has {cores} cores; give --threads {cores} or fewer")]
    Few { threads: u32, cores: u32 },
    #[error(
        "this process may not run on core {core} ({}); see `taskset -p $$`, and the cpuset of its container",
        SystemError::from_raw_os_error(*errno)
    )]
    Refused { core: usize, errno: i32 },
}

impl Cores {
    /// Finds the cores of this machine for `threads` compute threads. Reads a few pages to find the core of the storage's
    /// interrupts. The result is empty if interrupts come to several cores, if the loader would have no core, or if the
    /// system does not say.
    pub fn find(storage: &mut impl Storage, threads: usize) -> Self {
        Self::apart(storage, threads).unwrap_or_default()
    }

    /// A core for each thread that computes, and the loader's, which may be one of these. Tries to run on all of them.
    pub fn pinned(computing: &[u32], reading: u32) -> Result<Self, Unpinned> {
        let computing: Vec<usize> = computing.iter().map(|core| *core as usize).collect();
        let cores = Self { reading: Some(reading as usize), computing, each: true };
        let all = cores.all();
        let tried = move || {
            let refused = |core: usize| {
                pin_current(core).err().map(|errno| Unpinned::Refused { core, errno })
            };
            all.into_iter().find_map(refused)
        };
        // On a thread of its own: the caller stays where it is.
        match std::thread::spawn(tried).join().unwrap_or_default() {
            Some(refused) => Err(refused),
            None => Ok(cores),
        }
    }

    /// The core of each thread that computes, if each has its own. The first is the caller's.
    pub fn of_workers(&self) -> Option<&[usize]> {
        self.each.then_some(self.computing.as_slice())
    }

    /// All that are named.
    fn all(&self) -> Vec<usize> {
        let reading = self.reading.filter(|core| !self.computing.contains(core));
        self.computing.iter().copied().chain(reading).collect()
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
        all.contains(&reading).then_some(Self { reading: Some(reading), computing, each: false })
    }

    /// Confines the calling thread to the cores that compute, and those that it starts from then on; to the first of them, if
    /// each thread has its own.
    pub fn compute(&self) {
        match self.of_workers() {
            Some(cores) => self.confine(&cores[..cores.len().min(1)]),
            None => self.confine(&self.computing),
        }
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
        self.confine(&self.all());
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
    /// The number of each column's core.
    cores: Vec<usize>,
    /// The lines by their names.
    lines: Vec<(String, Vec<u64>)>,
}

impl Interrupts {
    fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/interrupts").ok()?)
    }

    /// As Linux lists them: a column for each core, a line for each interrupt; those with numbers are devices'.
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

    /// The core that served nearly all interrupts of the line that had most since `before`, if these were about as
    /// many as `reads`.
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

    /// On a thread of its own, which the test leaves behind.
    fn elsewhere<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(body).join().unwrap()
    }

    #[test]
    fn each_thread_keeps_to_its_core() {
        let may = cores::<MOST>();
        let (first, last) = (may[0], may[may.len() - 1]);
        let pinned = Cores::pinned(&[last as u32], first as u32).unwrap();
        assert_eq!(pinned.of_workers(), Some(&[last][..]));
        elsewhere(move || {
            pinned.compute();
            assert_eq!(cores::<MOST>()[..], [last]);
            assert_eq!(pinned.read(cores::<MOST>)[..], [first]);
            // Both again, which are one where there is only one.
            assert!(cores::<MOST>().iter().all(|core| [first, last].contains(core)));
        });
        assert_eq!(Cores::default().of_workers(), None);
    }

    #[test]
    fn a_core_that_is_not_there_is_named() {
        let may = cores::<MOST>();
        let refused = Cores::pinned(&[may[0] as u32], 1023).unwrap_err();
        assert_eq!(refused, Unpinned::Refused { core: 1023, errno: libc::EINVAL });
        assert!(refused.to_string().contains("core 1023"), "{refused}");
        assert_eq!(cores::<MOST>(), may, "the caller has moved");
    }

    #[test]
    fn computing_has_the_cores_that_do_not_read() {
        let cores = Cores { reading: Some(3), computing: vec![0, 1], each: false };
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
        // Reading memory interrupts nobody.
        assert_eq!(Cores::find(&mut nothing, 1), Cores::default());
    }
}
