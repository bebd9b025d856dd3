//! Two networks with deadlines in one static arena: no allocation, no operating system, no chunks.
//!
//!     eyelet plan tests/data/digits/digits.onnx --budget 64KiB -o digits.pack
//!     cargo run --release --example deadlines -- digits.pack digits.pack
//!
//! Both networks stay in memory. They share the processor: the one whose deadline is earlier goes first, between two
//! steps of the other. Firmware reads its timer for the clock, and its flash for the packs.

use eyelet::arena::Arena;
use eyelet::device::{Device, Inline};
use eyelet::executor::{Instance, Options};
use eyelet::set::{ChunkedInstance, Finished, Host, Member, Policy, Pool, Ports, Task, TaskSet};
use eyelet::storage::BufferedFile;
use std::error::Error;
use std::ffi::CString;

/// Memory of both: half for each.
static ARENA: Arena<{ 512 << 10 }> = Arena::new();

const MS: u64 = 1_000_000;

struct Program;

impl Host for Program {
    fn inputs(&mut self, task: usize, ports: &mut dyn Ports) {
        if let Ok(input) = ports.input_mut(0) {
            input.fill(task as f32);
        }
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        let first = ports.output(0).ok().and_then(|output| output.first().copied());
        println!("task {}: {first:?} after {} us", job.task, job.response_ns / 1000);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = &paths[..] else { return Err("usage: deadlines FILE.pack FILE.pack".into()) };
    let mut storages =
        [BufferedFile::open(&CString::new(&**a)?)?, BufferedFile::open(&CString::new(&**b)?)?];
    let mut memory = ARENA.take().ok_or("the arena is in use")?;
    let (first, second) = memory.as_mut_slice().split_at_mut(256 << 10);
    let [of_a, of_b] = &mut storages;
    let mut networks = [
        ChunkedInstance::whole(Instance::open(of_a, first, Options::default())?),
        ChunkedInstance::whole(Instance::open(of_b, second, Options::default())?),
    ];
    // Every 20 ms for at most 5, and every 50 ms for at most 10.
    let first = Task::new(20 * MS, 5 * MS).of(&networks[0]);
    let second = Task::new(50 * MS, 10 * MS).of(&networks[1]);
    let [a, b] = &mut networks;
    let members = [
        Member { task: first, network: a, storage: of_a },
        Member { task: second, network: b, storage: of_b },
    ];
    let mut set = TaskSet::<_, 2>::new(Policy::Steps, members, Pool::none())?;
    let clock = || Inline.now_ns();
    set.run(&Inline, &clock, &mut Program, |running| {
        let end = clock() + 200 * MS;
        while clock() < end {
            // Before its period has passed a task is not released.
            let _ = (running.release(0, clock()), running.release(1, clock()));
            running.run_until(end.min(clock() + MS));
        }
    });
    println!("{:?}\n{:?}", set.counts(0), set.counts(1));
    Ok(())
}
