//! Reads digits on a Cortex-M, in 64 KiB of RAM with everything, by cortex-m-rt.
//!
//! ```sh
//! eyelet plan ../../tests/data/digits/digits.onnx --board ./board.toml --budget 12KiB -o digits.pack
//! cargo run --release        # boots it in QEMU
//! ```
//!
//! The pack is part of the program, in flash that is read like memory: its weights take no RAM.
#![no_std]
#![no_main]

use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use eyelet::board;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options, Progress};
use eyelet::storage::Slice;
use panic_semihosting as _;

/// Weights start at multiples of 64 bytes of a pack, and so must the pack.
#[repr(C, align(64))]
struct Aligned<const N: usize>([u8; N]);

#[unsafe(link_section = ".pack")]
static PACK: Aligned<{ include_bytes!("../digits.pack").len() }> =
    Aligned(*include_bytes!("../digits.pack"));

// A pack that the board has no room for does not compile.
eyelet::board_check!(PACK.0);

#[entry]
fn main() -> ! {
    let mut memory = eyelet::take_arena!(board::ARENA_BYTES).expect("this is reached once");
    let mut storage = Slice(&PACK.0);
    let opened = Instance::open(&mut storage, memory.as_mut_slice(), Options::default());
    let mut instance = opened.expect("the pack is whole");
    let mut model = instance.inline(&mut storage);

    // A vertical stroke: a one.
    let image = model.input_mut(0).expect("it has an input");
    for (pixel, value) in image.iter_mut().enumerate() {
        *value = if (3..5).contains(&(pixel % 8)) { 1.0 } else { 0.0 };
    }
    let mut steps = 1;
    while model.step(&Inline).expect("nothing is read") == Progress::Running {
        // Here a watchdog is kicked.
        steps += 1;
    }
    let scores = model.output(0).expect("it has an output");
    let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    hprintln!("{} steps, digit {:?}", steps, best);
    debug::exit(debug::EXIT_SUCCESS);
    loop {
        cortex_m::asm::wfi();
    }
}
