//! The sections of a pack as typed slices, in place: nothing is copied, nothing is trusted yet.

use super::{
    Buffer, Flaw, Layer, Load, Name, Place, PlanHeader, Port, SkeletonHeader, Stage, Step, Tensor,
    validate::flaw,
};
use bytemuck::Pod;

/// The network without its weights.
#[derive(Clone, Copy, Debug)]
pub struct Skeleton<'a> {
    /// Runs of activation memory.
    pub buffers: &'a [Buffer],
    /// Views of them.
    pub tensors: &'a [Tensor],
    /// In execution order.
    pub layers: &'a [Layer],
    /// Inputs in the model's order.
    pub inputs: &'a [Port],
    /// Outputs in the model's order.
    pub outputs: &'a [Port],
    names: &'a [u8],
    name: Name,
}

/// One plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanView<'a> {
    /// Where each buffer lies.
    pub places: &'a [Place],
    /// Loads that are done once.
    pub resident: &'a [Load],
    /// Loads of every inference.
    pub loads: &'a [Load],
    /// Steps of every inference, without the host's.
    pub steps: &'a [Step],
    /// Where each of `loads` is staged; empty without a staging ring.
    pub stages: &'a [Stage],
    /// Bytes of the staging ring; 0 where there is none.
    pub staging_bytes: u64,
}

/// Takes `count` records off the front of `bytes`.
fn take<'a, T: Pod>(bytes: &mut &'a [u8], count: u32, what: &'static str) -> Result<&'a [T], Flaw> {
    let wanted = (count as usize).saturating_mul(size_of::<T>());
    if wanted > bytes.len() {
        return Err(flaw(what, wanted as u64, bytes.len() as u64));
    }
    let (head, tail) = bytes.split_at(wanted);
    *bytes = tail;
    bytemuck::try_cast_slice(head).map_err(|_| flaw(what, head.as_ptr() as u64, 8))
}

/// Takes one record off the front of `bytes`.
fn take_one<T: Pod>(bytes: &mut &[u8], what: &'static str) -> Result<T, Flaw> {
    take::<T>(bytes, 1, what).map(|records| records[0])
}

impl<'a> Skeleton<'a> {
    /// Views a skeleton section. Checks extents only.
    pub fn view(mut bytes: &'a [u8]) -> Result<Self, Flaw> {
        let bytes = &mut bytes;
        let header: SkeletonHeader = take_one(bytes, "skeleton: header bytes")?;
        let skeleton = Self {
            buffers: take(bytes, header.buffers, "skeleton: bytes of buffers")?,
            tensors: take(bytes, header.tensors, "skeleton: bytes of tensors")?,
            layers: take(bytes, header.layers, "skeleton: bytes of layers")?,
            inputs: take(bytes, header.inputs, "skeleton: bytes of inputs")?,
            outputs: take(bytes, header.outputs, "skeleton: bytes of outputs")?,
            names: take(bytes, header.names, "skeleton: bytes of names")?,
            name: header.name,
        };
        if !bytes.is_empty() {
            return Err(flaw("skeleton: bytes left over", bytes.len() as u64, 0));
        }
        Ok(skeleton)
    }

    /// A string of the string table; empty if the reference is broken.
    pub fn text(&self, name: Name) -> &'a str {
        let start = name.start as usize;
        start
            .checked_add(name.len as usize)
            .and_then(|end| self.names.get(start..end))
            .and_then(|bytes| core::str::from_utf8(bytes).ok())
            .unwrap_or("")
    }

    /// The network's name.
    pub fn name(&self) -> &'a str {
        self.text(self.name)
    }

    /// Input records of a layer; those of absent inputs are zero.
    pub fn layer_inputs(&self, layer: &Layer) -> [Tensor; 2] {
        layer.inputs.map(|id| self.tensors.get(id as usize).copied().unwrap_or_default())
    }
}

impl<'a> PlanView<'a> {
    /// No plan.
    pub const EMPTY: Self =
        Self { places: &[], resident: &[], loads: &[], steps: &[], stages: &[], staging_bytes: 0 };

    /// Views a plan section. Checks extents only.
    pub fn view(mut bytes: &'a [u8]) -> Result<Self, Flaw> {
        let bytes = &mut bytes;
        let header: PlanHeader = take_one(bytes, "plan: header bytes")?;
        let stages = if header.staging_bytes > 0 { header.loads } else { 0 };
        let plan = Self {
            places: take(bytes, header.buffers, "plan: bytes of places")?,
            resident: take(bytes, header.resident_loads, "plan: bytes of resident loads")?,
            loads: take(bytes, header.loads, "plan: bytes of loads")?,
            steps: take(bytes, header.steps, "plan: bytes of steps")?,
            stages: take(bytes, stages, "plan: bytes of stages")?,
            staging_bytes: header.staging_bytes,
        };
        if !bytes.is_empty() {
            return Err(flaw("plan: bytes left over", bytes.len() as u64, 0));
        }
        Ok(plan)
    }

    /// Steps of an inference, the host's included.
    pub fn period(&self) -> u32 {
        self.steps.len() as u32 + 1
    }
}
