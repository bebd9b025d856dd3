//! What the tests of kernels and of the operators that call them share: numbers, packing, threads,
//! scratch, and the two references: double precision, and the chain of fused multiply-adds that every
//! kernel must reproduce bit for bit.

use super::{Isa, Kernels};
use crate::device::Device;
use bytemuck::{Pod, Zeroable};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::vec::Vec;

/// Every instruction set that this machine can run.
pub fn available() -> Vec<&'static Kernels> {
    Isa::ALL.into_iter().filter_map(Kernels::for_isa).collect()
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

/// Packs weights `[channel][k]` of `groups` equal groups, and biases, into panels of `nr` channels:
/// `bias[nr]`, then `[k][nr]`. A group's last panel is filled with zeros.
pub fn pack(weights: &[f32], bias: &[f32], groups: usize, nr: usize) -> Vec<f32> {
    let (in_group, k) = (bias.len() / groups, weights.len() / bias.len());
    let mut packed = Vec::new();
    for group in 0..groups {
        for first in (0..in_group).step_by(nr) {
            let channel =
                |lane: usize| (first + lane < in_group).then_some(group * in_group + first + lane);
            packed.extend((0..nr).map(|lane| channel(lane).map_or(0.0, |c| bias[c])));
            for i in 0..k {
                packed.extend((0..nr).map(|l| channel(l).map_or(0.0, |c| weights[c * k + i])));
            }
        }
    }
    packed
}

/// Threads of the standard library, made for every task.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub usize);

impl Device for Threads {
    fn threads(&self) -> usize {
        self.0
    }

    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..self.0 {
                let next = &next;
                scope.spawn(move || {
                    let claim =
                        || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|p| *p < parts);
                    while let Some(part) = claim() {
                        task(part, thread);
                    }
                });
            }
        });
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

/// Asserts that `got` has the bits of `chain` and lies within 2e-6 of the largest magnitude of `exact`.
pub fn assert_close(got: &[f32], chain: &[f32], exact: &[f64], what: &str) {
    assert_eq!(got.len(), exact.len(), "{what}");
    let largest = exact.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    for (i, (&got, &exact)) in got.iter().zip(exact).enumerate() {
        let error = (got as f64 - exact).abs();
        assert!(error <= 2e-6 * largest, "{what}: element {i} is {got}, not {exact}");
        assert_eq!(got.to_bits(), chain[i].to_bits(), "{what}: element {i} is {got}");
    }
}
