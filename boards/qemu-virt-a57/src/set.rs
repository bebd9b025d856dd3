//! Two networks with deadlines in one arena: the pack of the image, in flash, and one on the disk.
//!
//! The timer says when jobs arrive. The urgent network goes ahead between two steps of the other one, whose weights
//! are read meanwhile. The outputs must be those of each network alone.

use crate::{machine, watchdog};
use board_support::device::Clocked;
use board_support::paint::{extent, paint, touched};
use board_support::report::{Digest, Failed, Findings, Report, write_inputs};
use core::fmt::Write;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options};
use eyelet::set::{
    ChunkedInstance, Counts, Finished, Host, JobError, Member, Policy, Pool, Ports, SetEvent, Task,
    TaskSet,
};
use eyelet::storage::{Slice, Storage};

/// Networks of the set.
const NETWORKS: usize = 2;
/// The one whose pack is on the disk. That of the image comes first, and is urgent.
const SLOW: usize = 1;

const MS: u64 = 1_000_000;

/// How often jobs arrive, and how long they compute, in nanoseconds: one is an instruction where the emulator counts
/// these. Its speed is its host's otherwise, so that nothing is concluded from a miss.
const TASKS: [Task; NETWORKS] = [
    Task { step_ns: MS, ..Task::new(20 * MS, 2 * MS) },
    Task { step_ns: 15 * MS, ..Task::new(1000 * MS, 700 * MS) },
];

/// Jobs of the slow network until the image is content.
const JOBS: u64 = 2;

/// Bytes of memory that any plan is made for a multiple of.
const PAGE: usize = 4096;

/// What is found out during the jobs.
struct Program {
    expected: [u64; NETWORKS],
    /// A digest that is not the one expected, of this task.
    wrong: Option<(usize, u64)>,
    /// A job that was given up.
    failed: Option<(usize, JobError)>,
    /// The slow network is in the middle of an inference.
    begun: bool,
    /// Jobs of the urgent network that went ahead meanwhile.
    ahead: u32,
    /// When the current step began, and how long the longest took.
    began_ns: u64,
    longest_ns: u64,
}

impl Host for Program {
    fn inputs(&mut self, task: usize, ports: &mut dyn Ports) {
        self.begun |= task == SLOW;
        write_inputs(ports);
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        let digest = Digest::of(ports).0;
        if self.expected[job.task] != digest {
            self.wrong = Some((job.task, digest));
        }
        match job.task {
            SLOW => self.begun = false,
            _ => self.ahead += u32::from(self.begun),
        }
    }

    fn failed(&mut self, task: usize, error: JobError) {
        self.failed = self.failed.or(Some((task, error)));
    }

    fn event(&mut self, event: SetEvent, now_ns: u64) {
        match event {
            SetEvent::StepBegins { .. } => self.began_ns = now_ns,
            SetEvent::StepEnds { .. } => {
                self.longest_ns = self.longest_ns.max(now_ns - self.began_ns);
            }
            _ => {}
        }
    }
}

/// Runs both until the slow one has had its jobs. The pack of the image has the first `urgent_bytes` of the memory.
pub fn run(
    report: &mut Report,
    memory: &mut [u8],
    (pack, urgent_bytes): (&'static [u8], usize),
    expected: [&str; NETWORKS],
    limit_ms: u64,
) -> Result<Findings, Failed> {
    let expected = expected.map(|digest| u64::from_str_radix(digest, 16).unwrap_or(0));
    let mut disk = machine::disk(limit_ms).map_err(|error| report.failed(error))?;
    let mut flash = Slice(pack);
    paint(memory);
    let (mut of_urgent, mut of_slow): (&mut dyn Storage, &mut dyn Storage) =
        (&mut flash, &mut disk);
    let program = {
        let (urgent, slow) = memory.split_at_mut(urgent_bytes.next_multiple_of(PAGE));
        let mut urgent = open(report, &mut of_urgent, urgent)?;
        let mut slow = open(report, &mut of_slow, slow)?;
        let [first, second] = TASKS;
        let members = [
            Member { task: first.of(&urgent), network: &mut urgent, storage: &mut of_urgent },
            Member { task: second.of(&slow), network: &mut slow, storage: &mut of_slow },
        ];
        let set = TaskSet::<_, NETWORKS>::new(Policy::Steps, members, Pool::none());
        let mut set = set.map_err(|error| report.failed(error))?;
        let program = jobs(&mut set, expected);
        for (task, name) in ["urgent", "slow"].iter().enumerate() {
            let Counts { jobs, misses, step_overruns, worst_response_ns, .. } = set.counts(task);
            let worst = report.ticks_of(worst_response_ns);
            let _ = writeln!(
                report.console,
                "{name:<12} {jobs} jobs, {misses} misses, {step_overruns} long steps, worst response {worst} ticks of {} Hz",
                (report.frequency)()
            );
        }
        program
    };
    let longest = report.ticks_of(program.longest_ns);
    let _ = writeln!(report.console, "longest      {longest} ticks in a step");
    let arena = extent(memory).next_multiple_of(PAGE);
    let _ = writeln!(
        report.console,
        "touched      {} bytes of arena, {arena} in whole pages",
        touched(memory)
    );
    let _ = writeln!(
        report.console,
        "ahead        {} jobs between two steps of the slow network",
        program.ahead
    );
    match program {
        Program { failed: Some((task, error)), .. } => {
            Err(report.failed(format_args!("task {task}: {error}")))
        }
        Program { wrong: Some((task, digest)), .. } => Err(report.failed(format_args!(
            "task {task}: digest {digest:016x}, alone it is {:016x}",
            expected[task]
        ))),
        Program { ahead: 0, .. } => Err(report.failed("the urgent network has never gone ahead")),
        // Both digests were compared.
        _ => Ok(Findings { digest: expected[SLOW], arena, fast: 0 }),
    }
}

/// Opens a network that stays in its part of the memory.
fn open<'a, S: Storage + 'a>(
    report: &mut Report,
    storage: &mut S,
    memory: &'a mut [u8],
) -> Result<ChunkedInstance<'a>, Failed> {
    let instance = Instance::open(storage, memory, Options::default());
    let instance = instance.map_err(|error| report.failed(error))?;
    let bytes = instance.entry().arena_bytes;
    let _ = writeln!(report.console, "plan         {bytes} bytes of arena");
    Ok(ChunkedInstance::whole(instance))
}

/// Releases jobs as the timer says, and computes in between.
fn jobs<S: Storage>(set: &mut TaskSet<'_, '_, S, NETWORKS>, expected: [u64; NETWORKS]) -> Program {
    let mut program = Program {
        expected,
        wrong: None,
        failed: None,
        begun: false,
        ahead: 0,
        began_ns: 0,
        longest_ns: 0,
    };
    let device = Clocked { device: &Inline, now_ns: machine::now_ns };
    set.run(&device, &machine::now_ns, &mut program, |running| {
        let mut arrivals = [machine::now_ns(); NETWORKS];
        while running.counts(SLOW).jobs + running.counts(SLOW).failed < JOBS {
            let now_ns = machine::now_ns();
            for (task, arrival) in arrivals.iter_mut().enumerate() {
                if *arrival <= now_ns {
                    // One whose predecessor has not ended is lost, and counts as a miss.
                    let _ = running.release(task, *arrival);
                    *arrival += TASKS[task].period_ns;
                }
            }
            running.step();
            watchdog::kick();
        }
    });
    program
}
