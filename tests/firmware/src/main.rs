//! Opens a pack that lies in memory and runs one inference, from a static arena, without an allocator.
//!
//! Not meant to be run: it proves by linking. Everything of the runtime that firmware uses is reached
//! from here, and had any of it reached for `alloc`, the build would end for want of an allocator.
#![no_std]
#![no_main]

use eyelet::arena::Arena;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options, Progress};
use eyelet::storage::Slice;

static ARENA: Arena<{ 4 << 20 }> = Arena::new();

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
    loop {}
}
