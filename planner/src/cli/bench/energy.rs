//! Energy, as sensors of the machine count it: Intel's and AMD's counters (RAPL), or the INA chips of Jetsons and other
//! boards, whose power is read every few milliseconds.

use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// Time between two readings of a power sensor.
const INTERVAL: Duration = Duration::from_millis(20);

/// Energy of some time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Energy {
    /// What was counted: `package-0`, `VDD_IN`.
    pub of: String,
    pub joules: f64,
}

/// A sensor that counts joules, or one that knows watts.
#[derive(Debug)]
pub enum Sensor {
    Counters(Vec<Counter>),
    Power(Power),
}

/// An energy counter, which begins again at zero after `range_uj`.
#[derive(Debug)]
pub struct Counter {
    name: String,
    path: PathBuf,
    range_uj: u64,
}

/// Current in milliamperes and voltage in millivolts, or power in microwatts.
#[derive(Clone, Debug)]
pub struct Power {
    name: String,
    factors: Vec<PathBuf>,
    /// Watts for the product of what the files say.
    watts: f64,
}

impl Sensor {
    /// The sensor of this machine, if there is one that this process may read.
    pub fn find() -> Option<Self> {
        Self::under(Path::new("/sys"))
    }

    fn under(sys: &Path) -> Option<Self> {
        let counters: Vec<Counter> = packages(&sys.join("class/powercap"));
        if !counters.is_empty() {
            return Some(Self::Counters(counters));
        }
        let mut monitors = entries(&sys.join("class/hwmon"));
        monitors.sort();
        monitors.iter().find_map(|monitor| Power::of_ina(monitor)).map(Self::Power)
    }

    /// Begins to count.
    pub fn start(&self) -> Counting<'_> {
        match self {
            Self::Counters(counters) => {
                let now = counters.iter().map(Counter::read).collect();
                Counting::Counters(counters, now)
            }
            Self::Power(power) => Counting::Power(Sampler::start(power.clone())),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Counters(counters) => {
                counters.iter().map(|counter| counter.name.as_str()).collect::<Vec<_>>().join(" + ")
            }
            Self::Power(power) => power.name.clone(),
        }
    }

    /// So many joules of what it counts.
    pub fn energy(&self, joules: f64) -> Energy {
        Energy { of: self.name(), joules }
    }
}

/// A count under way.
pub enum Counting<'a> {
    Counters(&'a [Counter], Vec<Option<u64>>),
    Power(Sampler),
}

impl Counting<'_> {
    /// Joules since it began, if the sensor still answers.
    pub fn stop(self) -> Option<f64> {
        match self {
            Self::Counters(counters, before) => counters
                .iter()
                .zip(before)
                .map(|(counter, before)| Some(counter.since(before?, counter.read()?)))
                .sum(),
            Self::Power(sampler) => sampler.stop(),
        }
    }
}

impl Counter {
    fn read(&self) -> Option<u64> {
        number(&self.path)
    }

    /// Joules between two readings less than a whole range apart.
    fn since(&self, before: u64, now: u64) -> f64 {
        let more = if now >= before { now - before } else { now + self.range_uj - before };
        more as f64 / 1e6
    }
}

/// The processor packages. What is within one (cores, memory controller) is counted with it.
fn packages(powercap: &Path) -> Vec<Counter> {
    let counter = |zone: PathBuf| {
        let name = fs::read_to_string(zone.join("name")).ok()?.trim().to_owned();
        let path = zone.join("energy_uj");
        let range_uj = number(&zone.join("max_energy_range_uj"))?;
        let found = Counter { name, path, range_uj };
        (found.name.starts_with("package") && found.read().is_some()).then_some(found)
    };
    let mut found: Vec<Counter> = entries(powercap).into_iter().filter_map(counter).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    // The same package may be found by two drivers.
    found.dedup_by(|a, b| a.name == b.name);
    found
}

impl Power {
    /// The first channel of an INA chip: the whole board, on Jetsons.
    fn of_ina(monitor: &Path) -> Option<Self> {
        let chip = fs::read_to_string(monitor.join("name")).ok()?.trim().to_owned();
        if !chip.starts_with("ina") {
            return None;
        }
        let label = fs::read_to_string(monitor.join("in1_label")).unwrap_or_default();
        let name = if label.trim().is_empty() { chip } else { label.trim().to_owned() };
        let file = |name: &str| monitor.join(name);
        let power = Self { name: name.clone(), factors: vec![file("power1_input")], watts: 1e-6 };
        let product =
            Self { name, factors: vec![file("in1_input"), file("curr1_input")], watts: 1e-6 };
        [power, product].into_iter().find(|power| power.read().is_some())
    }

    /// Watts now.
    fn read(&self) -> Option<f64> {
        let product = self.factors.iter().map(|path| Some(number(path)? as f64)).product();
        Option::<f64>::map(product, |product| product * self.watts)
    }
}

/// A thread that reads a power sensor.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Option<f64>>,
}

impl Sampler {
    fn start(power: Power) -> Self {
        let (stop, stopped) = channel();
        let thread = spawn(move || {
            let (mut joules, mut before, mut last) = (0.0, power.read()?, Instant::now());
            loop {
                let done = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                let (watts, now) = (power.read()?, Instant::now());
                joules += f64::midpoint(before, watts) * (now - last).as_secs_f64();
                (before, last) = (watts, now);
                if done {
                    return Some(joules);
                }
            }
        });
        Self { stop, thread }
    }

    fn stop(self) -> Option<f64> {
        // It may have ended by itself, with a sensor that stopped answering.
        let _ = self.stop.send(());
        self.thread.join().ok().flatten()
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn packages_are_counted_over_the_end_of_their_range() {
        let sys = tempfile::tempdir().unwrap();
        let zone = |name: &str| sys.path().join("class/powercap").join(name);
        for (folder, name) in [("intel-rapl:0", "package-0\n"), ("intel-rapl:0:0", "core\n")] {
            write(&zone(folder).join("name"), name);
            write(&zone(folder).join("energy_uj"), "9000000\n");
            write(&zone(folder).join("max_energy_range_uj"), "10000000\n");
        }
        let sensor = Sensor::under(sys.path()).unwrap();
        let counting = sensor.start();
        write(&zone("intel-rapl:0").join("energy_uj"), "500000\n");
        let joules = counting.stop().unwrap();
        assert_eq!(sensor.energy(joules), Energy { of: "package-0".into(), joules: 1.5 });
    }

    #[test]
    fn power_is_summed_over_time() {
        let sys = tempfile::tempdir().unwrap();
        let file = |name: &str| sys.path().join("class/hwmon/hwmon3").join(name);
        assert!(Sensor::under(sys.path()).is_none());
        write(&file("name"), "ina3221\n");
        assert!(Sensor::under(sys.path()).is_none(), "it measures nothing");
        write(&file("in1_label"), "VDD_IN\n");
        write(&file("in1_input"), "5000\n");
        write(&file("curr1_input"), "2000\n");
        let sensor = Sensor::under(sys.path()).unwrap();
        let start = Instant::now();
        let counting = sensor.start();
        let joules = counting.stop().unwrap();
        assert!(joules > 0.0 && joules <= 10.0 * start.elapsed().as_secs_f64(), "{joules}");
        assert_eq!(sensor.energy(1.0).of, "VDD_IN");
    }
}
