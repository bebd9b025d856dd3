//! Opens a pack that lies in memory and runs one inference, and a set of two networks, from static arenas, without an
//! allocator.
//!
//! Not meant to be run: it proves by linking. Everything of the runtime that firmware uses is reached
//! from here, and had any of it reached for `alloc`, the build would end for want of an allocator.
#![no_std]
#![no_main]

use eyelet::arena::Arena;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options, Progress};
use eyelet::set::{
    Activity, ChunkedInstance, Finished, Host, Member, Policy, Pool, Ports, Task, TaskSet,
};
use eyelet::storage::Slice;

static ARENA: Arena<{ 4 << 20 }> = Arena::new();
static OF_SET: [Arena<{ 4 << 20 }>; 2] = [const { Arena::new() }; 2];

/// Inputs from a sensor, outputs to an actuator.
struct Board;

impl Host for Board {
    fn inputs(&mut self, task: usize, ports: &mut dyn Ports) {
        if let Ok(input) = ports.input_mut(0) {
            input.fill(task as f32);
        }
    }

    fn outputs(&mut self, _: &Finished, ports: &mut dyn Ports) {
        let _ = core::hint::black_box(ports.output(0));
    }
}

/// Two networks that preempt each other.
fn set(mut packs: [Slice<'static>; 2]) -> Option<()> {
    let [a, b] = &OF_SET;
    let (mut a, mut b) = (a.take()?, b.take()?);
    let [of_a, of_b] = &mut packs;
    let options = Options::default();
    let mut a = ChunkedInstance::whole(Instance::open(of_a, a.as_mut_slice(), options).ok()?);
    let mut b = ChunkedInstance::whole(Instance::open(of_b, b.as_mut_slice(), options).ok()?);
    let task = Task { step_ns: 1_000_000, ..Task::new(20_000_000, 5_000_000) };
    let slow = Task { period_ns: 50_000_000, ..task };
    let members = [
        Member { task: task.of(&a), network: &mut a, storage: of_a },
        Member { task: slow.of(&b), network: &mut b, storage: of_b },
    ];
    let mut set = TaskSet::<_, 2>::new(Policy::Steps, members, Pool::none()).ok()?;
    // Here firmware would read a timer.
    set.run(&Inline, &|| 0, &mut Board, |running| {
        for task in 0..2 {
            let _ = running.release(task, 0);
        }
        while running.step() != Activity::Idle {}
    });
    Some(())
}

unsafe extern "C" {
    /// Where the board's flash holds the pack; given to the linker.
    static PACK: [u8; 1 << 20];
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // SAFETY: the linker placed it; flash is never written.
    let mut storage = Slice(unsafe { &PACK });
    if let Some(mut memory) = ARENA.take()
        && let Ok(mut instance) =
            Instance::open(&mut storage, memory.as_mut_slice(), Options::default())
    {
        let mut model = instance.inline(&mut storage);
        if let Ok(input) = model.input_mut(0) {
            input.fill(0.5);
        }
        // Here firmware would kick its watchdog.
        while let Ok(Progress::Running) = model.step(&Inline) {}
        let _ = model.infer(&Inline);
        let _ = core::hint::black_box(model.output(0));
    }
    // SAFETY: as above.
    let pack = unsafe { &PACK };
    let _ = core::hint::black_box(set([Slice(pack), Slice(pack)]));
    loop {}
}
