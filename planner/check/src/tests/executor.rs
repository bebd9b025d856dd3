//! A second judge: plays a plan in a random order that its thresholds allow, on an arena whose lines
//! are tagged with what they hold. It knows nothing of the checker's reasoning.

use eyelet::pack::{NONE, OpKind, Step};
use eyelet_model::network::Network;
use eyelet_model::plan::{Plan, step_weights};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

const LINE: u64 = 32;
const INFERENCES: i64 = 4;

/// What a line of 32 bytes holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    /// Anything: half a load, scratch.
    Noise(u32),
    /// A line of the weights section.
    File(u64),
    /// A line of a buffer, written in some inference.
    Value { buffer: u32, inference: i64 },
}

struct Arena {
    lines: Vec<Tag>,
    noise: u32,
}

impl Arena {
    fn lines(bytes: Range<u64>) -> Range<usize> {
        (bytes.start / LINE) as usize..bytes.end.div_ceil(LINE) as usize
    }

    fn noise(&mut self, bytes: Range<u64>) -> Tag {
        self.noise += 1;
        let tag = Tag::Noise(self.noise);
        self.lines[Self::lines(bytes)].fill(tag);
        tag
    }

    fn file(&mut self, bytes: Range<u64>, offset: u64) {
        for (index, line) in Self::lines(bytes).enumerate() {
            self.lines[line] = Tag::File(offset / LINE + index as u64);
        }
    }

    fn expect(
        &self,
        bytes: Range<u64>,
        what: &str,
        tag: impl Fn(u64) -> Tag,
    ) -> Result<(), String> {
        for (index, line) in Self::lines(bytes).enumerate() {
            let (found, expected) = (self.lines[line], tag(index as u64));
            if found != expected {
                return Err(format!("{what}: line {line} is {found:?}, not {expected:?}"));
            }
        }
        Ok(())
    }
}

/// What may happen next: the start of a task or its end.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    Read,
    Copy,
    Step,
}

/// Plays four inferences. `mode`: 0 loads are eager, 1 compute is, otherwise chance decides.
pub fn run(
    network: &Network,
    plan: &Plan,
    rng: &mut ChaCha8Rng,
    mode: usize,
) -> Result<(), String> {
    let (steps, loads) = (plan.period(), plan.loads.len() as i64);
    let staged = plan.staging_bytes > 0;
    let arena =
        |bytes: u64| Arena { lines: vec![Tag::Noise(0); (bytes / LINE) as usize], noise: 0 };
    let (mut ring, mut arena) = (arena(plan.staging_bytes), arena(plan.arena_bytes));
    for load in &plan.resident {
        arena.file(load.address..load.address + u64::from(load.bytes), load.offset);
    }
    let (mut steps_done, mut copies_done, mut reads_done) = (0i64, 0i64, 0i64);
    let (mut stepping, mut copying, mut reading) = (None, None, None);
    while steps_done < INFERENCES * steps {
        let arrived = if staged { copies_done } else { reads_done };
        let (now, number) = (steps_done / steps, steps_done % steps);
        let mut may = Vec::new();
        if loads > 0 && reads_done < INFERENCES * loads {
            let (inference, index) = (reads_done / loads, (reads_done % loads) as usize);
            let after = |steps_of: i32| steps_done >= inference * steps + i64::from(steps_of);
            let starts = match plan.stages.get(index) {
                Some(stage) => {
                    let copied = copies_done >= inference * loads + i64::from(stage.copies);
                    copied && after(stage.steps)
                }
                None => after(plan.loads[index].release),
            };
            if reading.is_some() || starts {
                may.push(Task::Read);
            }
        }
        if staged && copies_done < reads_done {
            let (inference, index) = (copies_done / loads, (copies_done % loads) as usize);
            let release = i64::from(plan.loads[index].release);
            if copying.is_some() || steps_done >= inference * steps + release {
                may.push(Task::Copy);
            }
        }
        let waits = |done: i64, count: u32| done >= now * loads + i64::from(count);
        let starts = number == 0 || {
            let step = &plan.steps[number as usize - 1];
            waits(arrived, step.ready) && waits(reads_done, step.reads)
        };
        if stepping.is_some() || starts {
            may.push(Task::Step);
        }
        if may.is_empty() {
            return Err(format!("deadlock at step {number} of inference {now}"));
        }
        let weight = |task: &Task| match (mode, *task == Task::Step) {
            (0, false) | (1, true) => 9,
            _ => 1,
        };
        let mut draw: u32 = rng.random_range(0..may.iter().map(weight).sum());
        let chosen = may.iter().find(|task| {
            let found = draw < weight(task);
            draw = draw.saturating_sub(weight(task));
            found
        });
        match chosen.expect("one is drawn") {
            Task::Read => {
                let index = (reads_done % loads) as usize;
                let (load, what) = (&plan.loads[index], format!("read {reads_done}"));
                let (memory, start) = match plan.stages.get(index) {
                    Some(stage) => (&mut ring, stage.address),
                    None => (&mut arena, load.address),
                };
                let bytes = start..start + u64::from(load.bytes);
                match reading.take() {
                    None => reading = Some(memory.noise(bytes)),
                    Some(noise) => {
                        // Nobody may have touched what is being read.
                        memory.expect(bytes.clone(), &what, |_| noise)?;
                        memory.file(bytes, load.offset);
                        reads_done += 1;
                    }
                }
            }
            Task::Copy => {
                let index = (copies_done % loads) as usize;
                let (load, start) = (&plan.loads[index], plan.stages[index].address);
                let what = format!("the source of copy {copies_done}");
                let file = |line| Tag::File(load.offset / LINE + line);
                ring.expect(start..start + u64::from(load.bytes), &what, file)?;
                let bytes = load.address..load.address + u64::from(load.bytes);
                match copying.take() {
                    None => copying = Some(arena.noise(bytes)),
                    Some(noise) => {
                        let what = format!("copy {copies_done}");
                        arena.expect(bytes.clone(), &what, |_| noise)?;
                        arena.file(bytes, load.offset);
                        copies_done += 1;
                    }
                }
            }
            Task::Step => match stepping.take() {
                None => {
                    before(network, plan, &mut arena, now, number)?;
                    let scratch = (number > 0).then(|| {
                        let step = &plan.steps[number as usize - 1];
                        (step.scratch_bytes > 0).then(|| arena.noise(scratch(step)))
                    });
                    during(network, plan, &mut arena, now, number, true)?;
                    stepping = Some(scratch.flatten());
                }
                Some(noise) => {
                    if let Some(noise) = noise {
                        let step = &plan.steps[number as usize - 1];
                        let what = format!("scratch of step {number}");
                        arena.expect(scratch(step), &what, |_| noise)?;
                    }
                    during(network, plan, &mut arena, now, number, false)?;
                    steps_done += 1;
                }
            },
        }
    }
    Ok(())
}

fn scratch(step: &Step) -> Range<u64> {
    step.scratch..step.scratch + step.scratch_bytes
}

fn place(network: &Network, plan: &Plan, buffer: u32) -> Range<u64> {
    let address = plan.places[buffer as usize].address;
    address..address + network.buffers[buffer as usize].bytes
}

fn buffer_of(network: &Network, tensor: u32) -> u32 {
    network.tensors[tensor as usize].buffer
}

/// What must hold when a step starts; then it marks the buffers it writes.
fn before(
    network: &Network,
    plan: &Plan,
    arena: &mut Arena,
    inference: i64,
    number: i64,
) -> Result<(), String> {
    if number == 0 {
        for port in &network.outputs {
            let buffer = buffer_of(network, port.tensor);
            if inference > 0 {
                let tag = Tag::Value { buffer, inference: inference - 1 };
                arena.expect(place(network, plan, buffer), "output", |_| tag)?;
            }
        }
        for port in &network.inputs {
            let buffer = buffer_of(network, port.tensor);
            let tag = Tag::Value { buffer, inference };
            arena.lines[Arena::lines(place(network, plan, buffer))].fill(tag);
        }
        return Ok(());
    }
    let step = &plan.steps[number as usize - 1];
    let output = buffer_of(network, network.layers[step.layer as usize].output);
    let written_before = network.inputs.iter().any(|p| buffer_of(network, p.tensor) == output)
        || plan.steps[..number as usize - 1].iter().any(|earlier| {
            buffer_of(network, network.layers[earlier.layer as usize].output) == output
        });
    if !written_before {
        let tag = Tag::Value { buffer: output, inference };
        arena.lines[Arena::lines(place(network, plan, output))].fill(tag);
    }
    Ok(())
}

/// What must hold while a step runs: its weights, and all buffers that it reads and writes.
fn during(
    network: &Network,
    plan: &Plan,
    arena: &mut Arena,
    inference: i64,
    number: i64,
    starting: bool,
) -> Result<(), String> {
    let moment = if starting { "start" } else { "end" };
    let intact = |arena: &Arena, tensor: u32, inference: i64| {
        let buffer = buffer_of(network, tensor);
        let what = format!("buffer {buffer} at the {moment} of step {number}");
        let tag = Tag::Value { buffer, inference };
        arena.expect(place(network, plan, buffer), &what, |_| tag)
    };
    if number == 0 {
        for port in &network.inputs {
            intact(arena, port.tensor, inference)?;
        }
        if inference > 0 {
            for port in &network.outputs {
                intact(arena, port.tensor, inference - 1)?;
            }
        }
        return Ok(());
    }
    let step = &plan.steps[number as usize - 1];
    let layer = &network.layers[step.layer as usize];
    for tensor in layer.inputs.into_iter().chain([layer.output]) {
        if tensor != NONE {
            intact(arena, tensor, inference)?;
        }
    }
    let bytes = step_weights(network, step);
    if layer.kind == OpKind::Conv as u32 {
        let at = step.weights..step.weights + (bytes.end - bytes.start);
        let what = format!("weights at the {moment} of step {number}");
        arena.expect(at, &what, |line| Tag::File(bytes.start / LINE + line))?;
    }
    Ok(())
}
