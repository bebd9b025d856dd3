//! The sections of a pack as typed slices, in place: nothing is copied, nothing is trusted yet.

use super::stored::{Layers, Records, Steps, Stored};
use super::{
    Buffer, Flaw, INPUTS, Layer, Load, Name, PAGE, Place, PlanHeader, Port, SkeletonHeader, Stage,
    Step, Tensor, flaw,
};
use bytemuck::Pod;

/// The network without its weights.
#[derive(Clone, Copy, Debug)]
pub struct Skeleton<'a> {
    /// Runs of activation memory.
    #[doc(hidden)]
    pub buffers: Records<'a, Buffer>,
    /// Tensors: views of the buffers.
    #[doc(hidden)]
    pub tensors: &'a [Tensor],
    /// Layers in execution order.
    #[doc(hidden)]
    pub layers: Layers<'a>,
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
    pub places: Records<'a, Place>,
    /// Loads that are done once.
    pub resident: Records<'a, Load>,
    /// Loads of every inference.
    pub loads: Records<'a, Load>,
    /// Steps of every inference, without the host's.
    pub steps: Steps<'a>,
    /// Where each of `loads` is staged; empty without a staging ring.
    pub stages: Records<'a, Stage>,
    /// Bytes of the staging ring; 0 where there is none.
    pub staging_bytes: u64,
}

/// The names of the shapes and of their layers, and of the strategies that made the plans.
#[derive(Clone, Copy, Debug)]
pub struct LayerNames<'a> {
    /// Layers of each shape.
    layers: &'a [u32],
    /// For each shape its own name, then the names of its layers.
    names: &'a [Name],
    strategies: &'a [Name],
    text: &'a [u8],
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

/// Takes `count` of what is stored as records off the front of `bytes`.
fn take_stored<'a, T: Stored>(
    bytes: &mut &'a [u8],
    count: u32,
    what: &'static str,
) -> Result<Records<'a, T>, Flaw> {
    Ok(Records::of(take(bytes, count, what)?))
}

/// Takes one record off the front of `bytes`.
fn take_one<T: Pod>(bytes: &mut &[u8], what: &'static str) -> Result<T, Flaw> {
    take::<T>(bytes, 1, what).map(|records| records[0])
}

impl<'a> Skeleton<'a> {
    /// No network.
    pub(crate) const EMPTY: Self = Self {
        buffers: Records::of(&[]),
        tensors: &[],
        layers: Records::sharing(&[], &[]),
        inputs: &[],
        outputs: &[],
        names: &[],
        name: Name { start: 0, len: 0 },
    };

    /// Views a skeleton. Checks extents only, those of the layers' words, too.
    pub fn view(mut bytes: &'a [u8]) -> Result<Self, Flaw> {
        let bytes = &mut bytes;
        let header: SkeletonHeader = take_one(bytes, "skeleton: header bytes")?;
        let buffers = take_stored(bytes, header.buffers, "skeleton: bytes of buffers")?;
        let tensors = take(bytes, header.tensors, "skeleton: bytes of tensors")?;
        let layers = take(bytes, header.layers, "skeleton: bytes of layers")?;
        let words = take(bytes, header.words, "skeleton: bytes of words")?;
        let skeleton = Self {
            buffers,
            tensors,
            layers: Records::sharing(layers, words),
            inputs: take(bytes, header.inputs, "skeleton: bytes of inputs")?,
            outputs: take(bytes, header.outputs, "skeleton: bytes of outputs")?,
            names: take(bytes, header.names, "skeleton: bytes of names")?,
            name: header.name,
        };
        if !bytes.is_empty() {
            return Err(flaw("skeleton: bytes left over", bytes.len() as u64, 0));
        }
        let broken = skeleton.layers.stored().iter().position(|layer| layer.words(words).is_none());
        if let Some(index) = broken {
            let (found, limit) = (skeleton.layers.stored()[index].first_word, header.words);
            let what = "layer: words beyond their table";
            return Err(Flaw {
                what,
                index: index as u32,
                found: found.into(),
                limit: limit.into(),
            });
        }
        Ok(skeleton)
    }

    /// A string of the string table; empty if the reference is broken.
    pub fn text(&self, name: Name) -> &'a str {
        text(self.names, name)
    }

    /// The network's name.
    pub fn name(&self) -> &'a str {
        self.text(self.name)
    }

    /// The layer that a step belongs to.
    ///
    /// # Panics
    /// When there is no such layer.
    pub(crate) fn layer_of(&self, step: &Step) -> Layer {
        self.layers.at(step.layer as usize)
    }

    /// Input records of a layer; those of absent inputs are zero.
    pub fn layer_inputs(&self, layer: &Layer) -> [Tensor; INPUTS] {
        layer.inputs.map(|id| self.tensors.get(id as usize).copied().unwrap_or_default())
    }
}

/// A string of a table of strings; empty if the reference is broken.
fn text(table: &[u8], name: Name) -> &str {
    let start = name.start as usize;
    start
        .checked_add(name.len as usize)
        .and_then(|end| table.get(start..end))
        .and_then(|bytes| core::str::from_utf8(bytes).ok())
        .unwrap_or("")
}

impl<'a> LayerNames<'a> {
    /// Views the names of a pack of `shapes` shapes. Checks extents only.
    pub fn view(mut bytes: &'a [u8], shapes: usize) -> Result<Self, Flaw> {
        let bytes = &mut bytes;
        let shapes = u32::try_from(shapes).unwrap_or(u32::MAX);
        let layers = take(bytes, shapes, "names: bytes of their counts")?;
        let counted = layers.iter().fold(shapes, |sum, count: &u32| sum.saturating_add(*count));
        let strategies = take(bytes, 1, "names: bytes of their counts")?[0];
        Ok(Self {
            layers,
            names: take(bytes, counted, "names: bytes of their table")?,
            strategies: take(bytes, strategies, "names: bytes of strategies")?,
            text: bytes,
        })
    }

    /// The names of a shape, its own first.
    fn names(&self, shape: usize) -> &'a [Name] {
        let before = self.layers.iter().take(shape).map(|count| *count as usize + 1).sum::<usize>();
        let count = self.layers.get(shape).map_or(0, |count| *count as usize + 1);
        self.names.get(before..before + count).unwrap_or_default()
    }

    /// The name of a shape, as in `seq=64`; empty where a pack has one shape.
    pub fn of_shape(&self, shape: usize) -> &'a str {
        self.names(shape).first().map_or("", |name| text(self.text, *name))
    }

    /// The names of the strategies, in the order of [`PlanEntry::strategy`](super::PlanEntry).
    pub fn strategies(&self) -> impl Iterator<Item = &'a str> {
        let table = self.text;
        self.strategies.iter().map(move |name| text(table, *name))
    }

    /// The name of a shape's layer; empty if it has none.
    pub fn of(&self, shape: usize, layer: usize) -> &'a str {
        self.names(shape).get(layer + 1).map_or("", |name| text(self.text, *name))
    }
}

impl<'a> PlanView<'a> {
    /// No plan.
    pub const EMPTY: Self = Self {
        places: Records::of(&[]),
        resident: Records::of(&[]),
        loads: Records::of(&[]),
        steps: Records::sharing(&[], &[]),
        stages: Records::of(&[]),
        staging_bytes: 0,
    };

    /// Views a plan section. Checks extents only, that steps refer to works among them.
    pub fn view(mut bytes: &'a [u8]) -> Result<Self, Flaw> {
        let bytes = &mut bytes;
        let header: PlanHeader = take_one(bytes, "plan: header bytes")?;
        let stages = if header.staging_pages > 0 { header.loads } else { 0 };
        let places = take_stored(bytes, header.buffers, "plan: bytes of places")?;
        let resident = take_stored(bytes, header.resident_loads, "plan: bytes of resident loads")?;
        let loads = take_stored(bytes, header.loads, "plan: bytes of loads")?;
        let works = take(bytes, header.works, "plan: bytes of what steps do")?;
        let steps = take(bytes, header.steps, "plan: bytes of steps")?;
        let stages = take_stored(bytes, stages, "plan: bytes of stages")?;
        let staging_bytes = u64::from(header.staging_pages) * PAGE;
        let steps = Records::sharing(steps, works);
        let plan = Self { places, resident, loads, steps, stages, staging_bytes };
        if !bytes.is_empty() {
            return Err(flaw("plan: bytes left over", bytes.len() as u64, 0));
        }
        let broken = plan.steps.stored().iter().position(|step| step.work >= header.works);
        if let Some(index) = broken {
            let (found, limit) = (plan.steps.stored()[index].work, header.works);
            let what = "step: what it does is not in the table";
            return Err(Flaw {
                what,
                index: index as u32,
                found: found.into(),
                limit: limit.into(),
            });
        }
        Ok(plan)
    }

    /// Steps of an inference, the host's included.
    pub fn period(&self) -> u32 {
        self.steps.len() as u32 + 1
    }
}
