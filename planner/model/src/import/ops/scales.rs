//! Scales and zeros of quantised tensors, as nodes give them.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{self, limits};
use crate::graph::ValueId;

/// The numbers of a quantisation, one of each for every channel or block.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    pub kind: DataType,
    /// The float type of the scales.
    pub of: DataType,
    pub scale: Array<f64>,
    pub zero: Vec<i64>,
    /// Where there are several scales: along which axis, and for how many elements each.
    pub along: Option<(usize, usize)>,
    /// Whether several elements of that axis have one scale.
    pub blocked: bool,
}

impl Numbers {
    /// Reads them: scales of input `at`, zeros of the next, if it is there.
    pub fn read(
        cx: &mut Context<'_, '_>,
        at: usize,
        kind: DataType,
        shape: &[usize],
        given_axis: i64,
    ) -> Result<Self, NodeProblem> {
        let value = cx.weights(at, "scale")?;
        let Some(Operand::Float(of, _)) = cx.optional(at)? else {
            unreachable!("it has been read")
        };
        let scale = cx.builder.array(value)?.unwrap_or(Array::vector(vec![]));
        let count = scale.data.len();
        let zero = match cx.optional_integers(at + 1, "zero point")? {
            Some(zero) => zero.data.clone(),
            // An empty list of zeros counts as none given.
            None => vec![0; count],
        };
        let misfit = || {
            NodeProblem::shape(format!(
                "{count} scales and {} zeros of a tensor of shape {shape:?} do not fit",
                zero.len()
            ))
        };
        if zero.len() != count || count == 0 {
            return Err(misfit());
        }
        let block = cx.attributes().int_or("block_size", 0)?;
        let blocked = scale.shape.len() > 1 || (block > 0 && shape.len() == 1);
        let along = match (count, scale.shape.len()) {
            (1, 0 | 1) => None,
            (_, 1) if !blocked => {
                let axis = axis(given_axis, shape.len())?;
                Some((axis, 1)).filter(|_| shape[axis] == count)
            }
            .map_or_else(|| Err(misfit()), |along| Ok(Some(along)))?,
            (_, rank) => {
                let axis = axis(given_axis, shape.len())?;
                let block = usize::try_from(block).ok().filter(|block| *block > 0);
                let block = block.ok_or_else(misfit)?;
                let fits = |(at, (&extent, &scales)): (usize, (&usize, &usize))| {
                    scales == if at == axis { extent.div_ceil(block) } else { extent }
                };
                let all =
                    rank == shape.len() && shape.iter().zip(&scale.shape).enumerate().all(fits);
                Some(Some((axis, block)).filter(|_| all).ok_or_else(misfit)?)
            }
        };
        Ok(Self { kind, of, scale, zero, along, blocked })
    }

    /// Scale and zero, if there is one of each.
    pub fn single(&self) -> Option<(f32, i64)> {
        self.along.is_none().then(|| (self.scale.data[0] as f32, self.zero[0]))
    }

    /// The bounds of [`Op::Quantise`], for integers of 8 bits.
    pub fn bounds(&self) -> Option<(f32, [i16; 2])> {
        let (scale, zero) = self.single()?;
        let eight = matches!(self.kind, DataType::Int8 | DataType::Uint8);
        if !eight || self.of != DataType::Float || !scale.is_normal() {
            return None;
        }
        let (low, high) = limits(self.kind);
        let from = |bound: i128| i16::try_from(bound - i128::from(zero)).ok();
        Some((scale, [from(low)?, from(high)?]))
    }

    /// Of each element which scale is its own.
    pub fn places(&self, shape: &[usize]) -> impl Fn(usize) -> usize + use<> {
        let (axis, block) = self.along.unwrap_or((0, 1));
        let inner: usize = shape.get(axis + 1..).map_or(1, |rest| rest.iter().product()).max(1);
        let extent = shape.get(axis).copied().unwrap_or(1).max(1);
        let (several, blocked) = (self.along.is_some(), self.blocked);
        let blocks = extent.div_ceil(block);
        move |at: usize| {
            let along = at / inner % extent;
            match (several, blocked) {
                (false, _) => 0,
                (true, false) => along,
                (true, true) => (at / inner / extent * blocks + along / block) * inner + at % inner,
            }
        }
    }

    /// Numbers for each channel as a constant that broadcasts; of blocks one for each element.
    pub fn aligned(
        &self,
        cx: &mut Context<'_, '_>,
        role: &str,
        shape: &[usize],
        zeros: bool,
    ) -> Result<ValueId, NodeProblem> {
        let data: Vec<f64> = match zeros {
            true => self.zero.iter().map(|&zero| zero as f64).collect(),
            false => self.scale.data.clone(),
        };
        let array = match self.along {
            None => Array { shape: vec![], data },
            Some(_) if self.blocked => {
                cx.charge_for(shape, size_of::<f64>() + size_of::<f32>())?;
                let place = self.places(shape);
                let count = shape.iter().product();
                let data = (0..count).map(|at| data[place(at)]).collect();
                Array { shape: shape.to_vec(), data }
            }
            Some((axis, _)) => {
                let channels = |at: usize| if at == axis { shape[axis] } else { 1 };
                Array { shape: (0..shape.len()).map(channels).collect(), data }
            }
        };
        let name = format!("{}/{role}", cx.name);
        Ok(cx.builder.constant(name, self.of, array))
    }
}

/// The type of a quantised tensor that a node makes.
pub(super) fn made_kind(cx: &Context<'_, '_>, zero: usize) -> Result<DataType, NodeProblem> {
    if let Some(zero) = cx.optional(zero)? {
        return Ok(zero.kind());
    }
    let given = cx.attributes().int_or("output_dtype", 0)?;
    let kind = i32::try_from(given).ok().and_then(|given| DataType::try_from(given).ok());
    match kind {
        Some(DataType::Undefined) => Ok(DataType::Uint8),
        Some(kind) if !types::is_float(kind) => Ok(kind),
        _ => {
            Err(NodeProblem::attribute("output_dtype", format!("is {given}, which is no integer")))
        }
    }
}
