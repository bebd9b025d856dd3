//! Whether this machine has cores of two kinds, and how fast the little ones are.
//!
//! Linux says for each core how much it can do (`cpu_capacity`, of ARM's processors), or how fast its clock can be. That tells
//! which cores are big. How fast the others are is measured, by what a loader does on them: checksums of weights in memory.

use super::bench::median;
use eyelet::device::threads::cores;
use eyelet::pack::crc32c::crc32c;
use eyelet_plan::cores::Cores;
use eyelet_plan::profile::UnequalCores;
use std::fs::read_to_string;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// Where Linux describes cores.
pub(super) const CORES: &str = "/sys/devices/system/cpu";

/// Cores that differ by less than this count as equal: clocks of big cores differ by some percent.
const ALIKE: f64 = 0.9;

/// The most cores of a machine that are looked at.
const MOST: usize = 1024;

/// Bytes of a checksum, which no cache of a core of its own holds, and how many are made on each core.
const BYTES: usize = 8 << 20;
const TIMES: usize = 9;

/// The cores of this machine, if they are of two kinds and all may be used.
pub(super) fn find(folder: &Path) -> Option<UnequalCores> {
    let big = big_cores(&abilities(folder)?)?;
    let count = cores::<MOST>().len();
    let little = (0..count).find(|core| !big.contains(core))?;
    let all: Vec<u32> = (0..count as u32).collect();
    let last = u32::try_from(*big.last()?).ok()?;
    // Also where there are cores that this process may not use.
    Cores::pinned(&all, last).ok()?;
    let [big_ns, little_ns] = [big[0], little].map(checksum_ns);
    let little_speed = (big_ns? / little_ns?).clamp(0.01, 1.0);
    let big = big.iter().map(|core| *core as u32).collect();
    Some(UnequalCores { count: count as u32, big, little_speed, loader: None })
}

/// The capacity of each core, in any unit; `None` if Linux does not report it for all.
fn abilities(folder: &Path) -> Option<Vec<f64>> {
    let of = |name: &str| -> Option<Vec<f64>> {
        let is_core = |core: usize| folder.join(format!("cpu{core}")).is_dir();
        let read = |core: usize| {
            let text = read_to_string(folder.join(format!("cpu{core}/{name}"))).ok()?;
            text.trim().parse::<f64>().ok().filter(|ability| *ability > 0.0)
        };
        (0..MOST).take_while(|core| is_core(*core)).map(read).collect()
    };
    let found = |all: &Vec<f64>| !all.is_empty();
    of("cpu_capacity").filter(found).or_else(|| of("cpufreq/cpuinfo_max_freq").filter(found))
}

/// The cores with more capacity, if there are two kinds. With three kinds, the middle one belongs to the
/// closer kind.
fn big_cores(abilities: &[f64]) -> Option<Vec<usize>> {
    let least = abilities.iter().copied().reduce(f64::min)?;
    let most = abilities.iter().copied().reduce(f64::max)?;
    let is_big = |(_, ability): &(usize, &f64)| **ability > (least + most) / 2.0;
    let big = abilities.iter().enumerate().filter(is_big).map(|(core, _)| core);
    (least < ALIKE * most).then(|| big.collect())
}

/// The time of a checksum on a core.
fn checksum_ns(core: usize) -> Option<f64> {
    let on_core = Cores::pinned(&[core as u32], core as u32).ok()?;
    let measured = move || {
        on_core.compute();
        let bytes = vec![1u8; BYTES];
        let once = |_| {
            let start = Instant::now();
            black_box(crc32c(0, black_box(&bytes)));
            start.elapsed().as_nanos() as f64
        };
        median((0..TIMES).map(once).collect()).max(1.0)
    };
    std::thread::spawn(measured).join().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    /// A folder that describes cores like Linux.
    fn described(name: &str, abilities: &[u32]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (core, ability) in abilities.iter().enumerate() {
            let file = folder.path().join(format!("cpu{core}/{name}"));
            create_dir_all(file.parent().unwrap()).unwrap();
            write(file, format!("{ability}\n")).unwrap();
        }
        folder
    }

    #[test]
    fn linux_says_which_cores_are_big() {
        let big = |name, abilities: &[u32]| {
            let folder = described(name, abilities);
            super::abilities(folder.path()).and_then(|abilities| big_cores(&abilities))
        };
        let clock = "cpufreq/cpuinfo_max_freq";
        assert_eq!(big("cpu_capacity", &[382, 382, 1024, 1024]), Some(vec![2, 3]));
        // Three kinds.
        assert_eq!(big("cpu_capacity", &[300, 300, 800, 1024]), Some(vec![2, 3]));
        assert_eq!(big(clock, &[1_416_000, 1_800_000]), Some(vec![1]));
        // Clocks that differ a little are of one kind, and so are equal ones.
        assert_eq!(big(clock, &[4_900_000, 5_000_000]), None);
        assert_eq!(big("cpu_capacity", &[1024; 4]), None);
        assert_eq!(big("something", &[1, 2]), None);
        assert_eq!(big(clock, &[]), None);
    }

    #[test]
    fn what_one_core_does_not_say_is_not_guessed() {
        let folder = described("cpu_capacity", &[382, 1024]);
        create_dir_all(folder.path().join("cpu2")).unwrap();
        assert_eq!(abilities(folder.path()), None);
    }

    #[test]
    fn a_core_of_this_machine_is_measured() {
        let core = cores::<MOST>()[0];
        assert!(checksum_ns(core).unwrap() > 1.0);
        assert_eq!(checksum_ns(MOST - 1), None, "there is no such core");
    }
}
