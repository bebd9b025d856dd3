//! Helpers of the tests of kernels and operators: numbers, packing, threads, scratch, and two
//! references. The references are double precision, and the chain of fused multiply-adds that every
//! kernel must reproduce bit for bit.
#![allow(unsafe_code)]

use super::Kernels;
use crate::device::Device;
use bytemuck::{Pod, Zeroable};
use std::vec::Vec;

/// All kernels that this machine can run.
pub fn available() -> Vec<&'static Kernels> {
    Kernels::all().collect()
}

/// Whether long sweeps are asked for: `tools/test.sh --all` sets this variable.
pub fn sweeps() -> bool {
    std::env::var_os("EYELET_TEST_ALL").is_some()
}

/// In how many of these ways of dividing a step kernels are tested; the first is the whole on one thread. The portable
/// kernels are the same code everywhere. Tests for 64-bit ARM run under emulation, where they are slow: there the first
/// way is enough to compare others with.
pub fn most_ways(kernels: &Kernels, all: usize) -> usize {
    let emulated = cfg!(target_arch = "aarch64") && !sweeps();
    if emulated && kernels.isa() == super::Isa::Portable { 1 } else { all }
}

/// Small numbers from -1 to 1, the same for the same seed.
pub fn floats(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Sums of all kinds.
pub const SPECIAL: [f32; 8] =
    [f32::NAN, -0.0, 0.0, f32::INFINITY, f32::NEG_INFINITY, -1.0, 7.0, 1e-40];

/// Bounds of clamps of all kinds, as
/// [`Activation::for_kernels`](crate::pack::Activation::for_kernels) gives them.
pub const BOUNDS: [[f32; 2]; 8] = [
    [f32::NEG_INFINITY, f32::INFINITY],
    [-0.0, f32::INFINITY],
    [-0.0, 6.0],
    [-0.0, 0.0],
    [-1.0, 0.0],
    [-3.0, -2.0],
    [f32::NEG_INFINITY, 0.0],
    [f32::NEG_INFINITY, 1.0],
];

/// Each of these is one of the sums, in turn, inside the bounds, bit for bit. Which NaN it is
/// depends on the processor.
pub fn assert_clamped(found: &[f32], sums: &[f32], [min, max]: [f32; 2], what: &str) {
    for (&found, &sum) in found.iter().zip(sums.iter().cycle()) {
        let want = super::portable::igemm::clamp(sum, min, max);
        let same = found.to_bits() == want.to_bits() || found.is_nan() && want.is_nan();
        assert!(same, "{what}: {found:?} for {want:?}, {sum:?} in {min}..{max}");
    }
}

/// Packs weights `[channel][k]` of `groups` equal groups, and biases, into panels of `nr` channels:
/// `bias[nr]`, then `[k][nr]`. A group's last panel is filled with zeros.
pub fn pack(weights: &[f32], bias: &[f32], groups: usize, nr: usize) -> Vec<f32> {
    pack_narrow(weights, bias, groups, nr, nr)
}

/// Packs weights in panels that hold `width` channels. Floats after their last weights are NaN: a
/// result would show it if a kernel used them.
pub fn pack_narrow(
    weights: &[f32],
    bias: &[f32],
    groups: usize,
    width: usize,
    nr: usize,
) -> Vec<f32> {
    let (in_group, k) = (bias.len() / groups, weights.len() / bias.len());
    let mut packed = Vec::new();
    for group in 0..groups {
        for first in (0..in_group).step_by(width) {
            let inside = |lane: usize| lane < width && first + lane < in_group;
            let channel = |lane: usize| inside(lane).then_some(group * in_group + first + lane);
            packed.extend((0..nr).map(|lane| channel(lane).map_or(0.0, |c| bias[c])));
            for i in 0..k {
                packed.extend((0..width).map(|l| channel(l).map_or(0.0, |c| weights[c * k + i])));
            }
            packed.extend((width..nr).map(|_| f32::NAN));
            packed.resize(packed.len().next_multiple_of(8), f32::NAN);
        }
    }
    packed
}

/// So many threads. They stay for the next task of the same test: emulators never give back all
/// memory of one that has ended, and there are many tasks.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub usize);

// SAFETY: `Workers` keeps the promise with this task, which unwinds nowhere; the other loop is one
// part after the other.
unsafe impl Device for Threads {
    fn threads(&self) -> usize {
        self.0
    }

    #[cfg(all(feature = "linux", target_os = "linux"))]
    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        use crate::device::workers::{Pool, Workers};
        use core::cell::RefCell;
        use std::boxed::Box;
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
        use std::rc::Rc;
        use std::sync::Mutex;

        std::thread_local! {
            static ALL: RefCell<Vec<Rc<Workers<'static>>>> = const { RefCell::new(Vec::new()) };
        }
        let workers = ALL.with_borrow_mut(|all| {
            if let Some(found) = all.iter().find(|workers| workers.threads() == self.0) {
                return found.clone();
            }
            let pool: &'static Pool = Box::leak(Box::new(Pool::new()));
            let workers = Rc::new(pool.start(self.0, None).unwrap());
            all.push(workers.clone());
            workers
        });
        // A worker's panic would end the process; here it fails the test.
        let panicked = Mutex::new(None);
        workers.run(parts, &|part, thread| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| task(part, thread))) {
                *panicked.lock().unwrap() = Some(payload);
            }
        });
        if let Some(payload) = panicked.into_inner().unwrap() {
            resume_unwind(payload);
        }
    }

    #[cfg(not(all(feature = "linux", target_os = "linux")))]
    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        (0..parts).for_each(|part| task(part, part % self.0));
    }
}

/// Sixty-four bytes of aligned memory.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Line([u8; 64]);

/// Aligned scratch of `bytes` (a multiple of 64), filled with garbage that reads as NaN.
pub fn scratch(bytes: u64) -> Vec<Line> {
    assert!(bytes.is_multiple_of(64));
    std::vec![Line([0xff; 64]); (bytes / 64) as usize]
}

/// Asserts that `got` has the bits of `chain` and lies within 2e-6 of the largest magnitude of
/// `exact`.
pub fn assert_close(got: &[f32], chain: &[f32], exact: &[f64], what: &str) {
    assert_eq!(got.len(), exact.len(), "{what}");
    let largest = exact.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    for (i, (&got, &exact)) in got.iter().zip(exact).enumerate() {
        let error = (got as f64 - exact).abs();
        assert!(error <= 2e-6 * largest, "{what}: element {i} is {got}, not {exact}");
        assert_eq!(got.to_bits(), chain[i].to_bits(), "{what}: element {i} is {got}");
    }
}

/// The error function in double precision: its series near zero, a continued fraction elsewhere.
pub fn erf(x: f64) -> f64 {
    let z = x * x;
    if z < 9.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= -z / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let fraction = (1..60).rev().fold(x.abs(), |f, n| x.abs() + n as f64 / 2.0 / f);
    (1.0 - (-z).exp() / (fraction * std::f64::consts::PI.sqrt())).copysign(x)
}

/// Asserts that two results have the same bits; any NaN is as good as another.
pub fn assert_same(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        assert!(same, "{what}: element {i} is {got:e}, not {want:e}");
    }
}

/// Numbers of all kinds: the special ones, small ones, and floats of any bits.
pub fn any_floats(count: usize, seed: u64) -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE / 2.0,
        f32::MAX,
        -f32::MAX,
    ];
    let uniform = floats(2 * count, seed);
    (0..count)
        .map(|i| match i % 8 {
            0 => special[i / 8 % special.len()],
            1 | 2 => {
                let [high, low] = [0, 1].map(|k| ((uniform[2 * i + k] + 1.0) * 32767.9) as u32);
                f32::from_bits(high << 16 | low)
            }
            3 => uniform[i] * 100.0,
            _ => uniform[i] * 8.0,
        })
        .collect()
}
