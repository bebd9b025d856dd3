//! Elementwise functions and arithmetic in plain Rust, for any target: the definition of what the
//! other kernels compute, an element at a time.

use super::igemm::clamp;
use super::{math, wide};
use crate::pack::{ActivationKind, BinaryOp};

/// A function with its parameters.
///
/// NaN stays NaN. Silu, Gelu, GeluTanh and HardSwish of minus infinity are their limit, -0.
#[inline(always)]
pub fn map(function: ActivationKind, x: f32, alpha: f32, beta: f32) -> f32 {
    match function {
        ActivationKind::None => x,
        ActivationKind::Clamp => clamp(x, alpha, beta),
        ActivationKind::LeakyRelu => leaky(x, alpha),
        ActivationKind::Sigmoid => math::sigmoid(x),
        ActivationKind::HardSigmoid => math::hard_sigmoid(x, alpha, beta),
        ActivationKind::HardSwish => math::hard_swish(x),
        ActivationKind::Tanh => math::tanh(x),
        ActivationKind::Silu => math::silu(x),
        ActivationKind::Gelu => math::gelu(x),
        ActivationKind::GeluTanh => math::gelu_tanh(x),
        ActivationKind::Erf => math::erf(x),
        ActivationKind::Sqrt => math::sqrt(x),
        ActivationKind::Exp => math::exp(x),
        ActivationKind::Elu => math::elu(x, alpha, beta),
        ActivationKind::Softplus => math::softplus(x),
        ActivationKind::Mish => math::mish(x),
        ActivationKind::Swish => math::swish(x, alpha),
        ActivationKind::Log => math::log(x),
        ActivationKind::Abs => x.abs(),
        ActivationKind::Floor => math::floor(x),
        ActivationKind::Ceil => -math::floor(-x),
        ActivationKind::Round => math::round(x),
        ActivationKind::Sign => math::sign(x),
        ActivationKind::Softsign => math::softsign(x),
        ActivationKind::Shrink => math::shrink(x, alpha, beta),
        ActivationKind::ThresholdedRelu => math::above(x, alpha),
        ActivationKind::Quantise => math::quantise(x, alpha, beta),
        ActivationKind::FakeQuantise => math::quantise(x, alpha, beta) * alpha,
        ActivationKind::Sin => wide::sin(x),
        ActivationKind::Cos => wide::cos(x),
        ActivationKind::Tan => wide::tan(x),
        ActivationKind::Asin => wide::asin(x),
        ActivationKind::Acos => wide::acos(x),
        ActivationKind::Atan => wide::atan(x),
        ActivationKind::Sinh => wide::sinh(x),
        ActivationKind::Cosh => wide::cosh(x),
        ActivationKind::Asinh => wide::asinh(x),
        ActivationKind::Acosh => wide::acosh(x),
        ActivationKind::Atanh => wide::atanh(x),
    }
}

/// Arithmetic of two elements.
#[inline(always)]
pub fn binary(op: BinaryOp, a: f32, b: f32) -> f32 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::PRelu => leaky(a, b),
        BinaryOp::Mask => {
            if b.is_nan() {
                a
            } else {
                b
            }
        }
        BinaryOp::Max => maximum(a, b),
        BinaryOp::Min => minimum(a, b),
        BinaryOp::Pow => wide::pow(a, b),
        BinaryOp::Mod => wide::remainder(a, b),
    }
}

/// `x` with `slope` below 0.
#[inline(always)]
fn leaky(x: f32, slope: f32) -> f32 {
    if 0.0 <= x { x } else { x * slope }
}

/// `b` where one is NaN.
#[inline(always)]
pub fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// NaN where either is; of equal ones `b`.
#[inline(always)]
pub fn maximum(a: f32, b: f32) -> f32 {
    if a.is_nan() { a } else { larger(a, b) }
}

/// NaN where either is; of equal ones `b`.
#[inline(always)]
pub fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() || a < b { a } else { b }
}
