//! Compiles the kernels of `kernels/`: those in C for the processor that is built for
//! (`build/cpu.rs`), and with the features `cuda` and `cuda-linked` those for GPUs
//! (`build/cuda.rs`). Turns the board that is built for into constants (`build/board.rs`).

#[path = "build/board.rs"]
mod board;
#[path = "build/cpu.rs"]
mod cpu;
#[cfg(any(feature = "cuda", feature = "cuda-linked"))]
#[path = "build/cuda.rs"]
mod cuda;

const HEADERS: &[&str] = &[
    "kernels/kernel.h",
    "kernels/igemm.h",
    "kernels/dwconv.h",
    "kernels/dwconv3x3.h",
    "kernels/gconv.h",
    "kernels/widen.h",
    "kernels/winograd.h",
    "kernels/winograd-transforms.h",
    "kernels/neon/f32-igemm-8x8-neon.h",
    "kernels/neon/f32-dwconv-8x8-neon.h",
    "kernels/neon/store-neon.h",
    "kernels/elementwise.h",
    "kernels/elementwise-loops.h",
    "kernels/pool.h",
    "kernels/pool-loops.h",
    "kernels/rows.h",
    "kernels/rows-loops.h",
    "kernels/math.h",
    "kernels/vector.h",
    "kernels/x86/f32-dwconv.h",
    "kernels/x86/f32-gconv.h",
    "kernels/x86/panel.h",
    "kernels/x86/vector-avx2.h",
    "kernels/x86/vector-avx512.h",
    "kernels/neon/vector-neon.h",
];

fn main() {
    for header in HEADERS {
        println!("cargo::rerun-if-changed={header}");
    }
    let board = board::build();
    let cores = board.and_then(|board| board.cores);
    cpu::build(cores.and_then(|cores| cores.pipeline).as_deref());
    #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
    cuda::build();
}
