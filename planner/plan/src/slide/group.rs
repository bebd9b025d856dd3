//! A run of layers whose lines are made in turn, and what of it lives in rings.

use super::window::{Operand, Window, looks_around, operands};
use eyelet::kernels::Isa;
use eyelet::pack::{NONE, Tensor, ring_bytes};
use eyelet_model::network::Network;
use std::ops::Range;

/// Facts of a network before any group is formed.
pub struct Facts<'a> {
    pub network: &'a Network,
    /// For each layer its inputs, if its lines can be made one after the other.
    pub operands: Vec<Option<Vec<Operand>>>,
    /// For each buffer the first and the last layer that touch it; `None` if the host does, too, or
    /// if its tensors are not images of one height, width and pitch.
    inner: Vec<Option<Range<usize>>>,
    /// For each layer the buffers it touches.
    touched: Vec<Vec<usize>>,
    /// For each buffer the layers that touch it, in their order.
    touching: Vec<Vec<usize>>,
    /// For each buffer the first of its tensors.
    tensor_of: Vec<Option<usize>>,
    /// For each number of first layers: how many of them slide.
    sliding: Vec<usize>,
    /// For each layer the first after it that no group can have with it.
    parted: Vec<usize>,
}

/// Height, width and pitch: what the tensors of a ring have in common.
fn plane(tensor: &Tensor) -> Option<[u32; 3]> {
    let fits = u64::from(tensor.offset) + u64::from(tensor.cols()) <= u64::from(tensor.pitch);
    (tensor.dims[0] == 1 && fits).then_some([tensor.dims[1], tensor.dims[2], tensor.pitch])
}

impl<'a> Facts<'a> {
    pub fn new(network: &'a Network) -> Self {
        // A GPU makes all lines of a layer at once.
        let lines = network.isa != Isa::Cuda;
        let operands: Vec<Option<Vec<Operand>>> = (0..network.layers.len())
            .map(|layer| lines.then(|| operands(network, layer)).flatten())
            .collect();
        let mut planes = vec![None; network.buffers.len()];
        let mut inner = vec![Some(usize::MAX..usize::MAX); network.buffers.len()];
        for tensor in &network.tensors {
            let buffer = tensor.buffer as usize;
            let own = plane(tensor);
            if own.is_none() || planes[buffer].is_some_and(|other| Some(other) != own) {
                inner[buffer] = None;
            }
            planes[buffer] = own;
        }
        // Buffers whose tensors are not such images: lines of the one are no lines of the other.
        let unlike: Vec<bool> = inner.iter().map(Option::is_none).collect();
        for port in network.inputs.iter().chain(&network.outputs) {
            inner[network.tensors[port.tensor as usize].buffer as usize] = None;
        }
        let mut touched = Vec::new();
        let mut touching = vec![Vec::new(); network.buffers.len()];
        for (index, layer) in network.layers.iter().enumerate() {
            let tensors = layer.inputs.into_iter().chain([layer.output]).filter(|id| *id != NONE);
            let mut buffers: Vec<usize> =
                tensors.map(|id| network.tensors[id as usize].buffer as usize).collect();
            buffers.sort_unstable();
            buffers.dedup();
            for &buffer in &buffers {
                touching[buffer].push(index);
                if let Some(users) = &mut inner[buffer] {
                    *users = users.start.min(index)..index + 1;
                }
            }
            touched.push(buffers);
        }
        let mut parted = vec![usize::MAX; network.layers.len()];
        // For each such buffer: the layer that touches it next, and the one that writes it next.
        let mut next = vec![(usize::MAX, usize::MAX); network.buffers.len()];
        for (layer, buffers) in touched.iter().enumerate().rev() {
            let output = network.tensors[network.layers[layer].output as usize].buffer as usize;
            for &buffer in buffers.iter().filter(|&&buffer| unlike[buffer]) {
                let (user, writer) = &mut next[buffer];
                let writes = buffer == output;
                parted[layer] = parted[layer].min(if writes { *user } else { *writer });
                *user = layer;
                if writes {
                    *writer = layer;
                }
            }
        }
        let mut tensor_of = vec![None; network.buffers.len()];
        for (index, tensor) in network.tensors.iter().enumerate() {
            tensor_of[tensor.buffer as usize].get_or_insert(index);
        }
        let mut sliding = vec![0];
        for operands in &operands {
            sliding.push(sliding[sliding.len() - 1] + usize::from(operands.is_some()));
        }
        Self { network, operands, inner, touched, touching, tensor_of, sliding, parted }
    }

    /// Whether a layer can belong to a group.
    pub fn slides(&self, layer: usize) -> bool {
        self.operands[layer].is_some()
    }

    /// Whether a layer can be in a group with the layers after it, up to `end`: what the one writes
    /// and the other touches must have the same lines.
    pub fn goes_with(&self, layer: usize, end: usize) -> bool {
        end <= self.parted[layer]
    }

    /// The first layer after one that no group can have with it for that.
    pub fn parted(&self, layer: usize) -> usize {
        self.parted[layer]
    }

    /// Whether a group of these layers can hold a buffer in a ring.
    pub fn is_inner(&self, buffer: usize, layers: &Range<usize>) -> bool {
        self.inner[buffer]
            .as_ref()
            .is_some_and(|users| users.start >= layers.start && users.end <= layers.end)
    }

    /// The buffers of a layer that are images of one height, width and pitch, and no port's:
    /// number, height, bytes of a line.
    pub fn images(&self, layer: usize) -> impl Iterator<Item = (usize, usize, i64)> + '_ {
        let images = self.touched[layer].iter().filter(|&&buffer| self.inner[buffer].is_some());
        images.filter_map(|&buffer| {
            let tensor = &self.network.tensors[self.tensor_of[buffer]?];
            let bytes = 4 * i64::from(tensor.dims[2]) * i64::from(tensor.pitch);
            Some((buffer, tensor.dims[1] as usize, bytes))
        })
    }

    /// The layers from the first to the last that touch a buffer with lines of its own; `None` of
    /// one that has none.
    pub fn users(&self, buffer: usize) -> Option<Range<usize>> {
        self.inner[buffer].clone()
    }

    /// Whether a layer touches all lines of such a buffer, however it is divided into steps.
    pub fn touches_all(&self, layer: usize, buffer: usize) -> bool {
        if self.output(layer).buffer as usize == buffer {
            return true;
        }
        let made = self.output(layer).dims[1];
        match &self.operands[layer] {
            Some(_) => self.operands_in(layer, buffer).any(|(_, window)| window.covers(made)),
            // A layer that does not slide may have lines that no window sees.
            None => self.touched[layer].contains(&buffer) && !looks_around(self.network, layer),
        }
    }

    /// Whether any group can: the layers from the first to the last that touch it all slide.
    pub fn can_be_inner(&self, buffer: usize) -> bool {
        let all = |users: &Range<usize>| {
            self.sliding[users.end] - self.sliding[users.start] == users.len()
        };
        // A buffer that no layer touches has no users.
        self.inner[buffer].as_ref().is_some_and(|users| users.start == usize::MAX || all(users))
    }

    /// The fewest lines of a ring in place of a buffer: the most that one of its readers sees at
    /// once.
    pub fn least_lines(&self, buffer: usize) -> u32 {
        let seen = self.touching(buffer).iter().flat_map(|&layer| {
            let made = self.output(layer).dims[1];
            let here = self.operands_in(layer, buffer);
            here.map(move |(_, window)| window.reach(made))
        });
        seen.max().unwrap_or(1).max(1)
    }

    /// The bytes of such a ring, in place of the buffer of a tensor.
    pub fn least_ring_bytes(&self, tensor: &Tensor) -> u64 {
        ring_bytes(self.least_lines(tensor.buffer as usize), tensor.dims[2], tensor.pitch)
    }

    /// The layers that touch a buffer with lines of its own, in their order; none of another.
    pub fn touching(&self, buffer: usize) -> &[usize] {
        if self.inner[buffer].is_some() { &self.touching[buffer] } else { &[] }
    }

    /// The layers that write a buffer.
    pub fn writers(&self, buffer: usize) -> impl Iterator<Item = usize> + '_ {
        let users = self.touching(buffer).iter().copied();
        users.filter(move |layer| self.output(*layer).buffer as usize == buffer)
    }

    /// The stride at which the next layer reads what a layer makes, if it does line by line from
    /// the first to the last, and no other layer writes there.
    pub fn stride_to_next(&self, layer: usize) -> Option<u32> {
        let output = self.output(layer);
        let buffer = output.buffer as usize;
        let users = self.inner[buffer].clone()?;
        let next = layer + 1;
        if !users.contains(&next) || self.writers(buffer).ne([layer]) {
            return None;
        }
        let made = self.output(next).dims[1];
        let mut reads = self.operands_in(next, buffer).filter(|(tensor, window)| {
            let lines = matches!(meeting(output, tensor), Meeting::Lines);
            lines && window.spans(made) && !window.sees_all()
        });
        reads.next().and_then(|(_, window)| window.stride())
    }

    /// The operands of a layer that lie in a buffer.
    fn operands_in(&self, layer: usize, buffer: usize) -> impl Iterator<Item = (&Tensor, Window)> {
        let operands = self.operands[layer].iter().flatten();
        let operands = operands
            .map(|operand| (&self.network.tensors[operand.tensor as usize], operand.window));
        operands.filter(move |(tensor, _)| tensor.buffer as usize == buffer)
    }

    /// A layer's lines are made in multiples of this, the last ones excepted.
    pub fn tile(&self, layer: usize) -> u32 {
        let operands = self.operands[layer].iter().flatten();
        operands.map(|operand| operand.window.tile).max().unwrap_or(1)
    }

    pub fn output(&self, layer: usize) -> &Tensor {
        &self.network.tensors[self.network.layers[layer].output as usize]
    }
}

/// How far an earlier layer must have come before a later one makes its line `n - 1`.
#[derive(Clone, Copy, Debug)]
enum Need {
    /// It has made what the later one reads.
    Made(Window),
    /// It has read for the last time what the later one writes over.
    Spent(Window),
    /// It has made the same number of lines.
    Same,
    /// It is done.
    All,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The number of the earlier layer among the group's layers.
    pub(super) from: usize,
    need: Need,
}

impl Link {
    pub(super) fn wanted(&self, lines: u32, height: u32) -> u32 {
        match self.need {
            Need::Made(window) => window.end(lines).min(height),
            Need::Spent(window) => window.lines_to_spend(lines, height),
            Need::Same => lines.min(height),
            Need::All => height,
        }
    }
}

/// One layer of a group.
#[derive(Debug)]
pub struct Member {
    pub layer: usize,
    pub height: u32,
    pub width: u32,
    /// Its lines are made in multiples of this, the last ones excepted.
    pub tile: u32,
    pub(super) links: Vec<Link>,
    /// No other layer of the group depends on it.
    pub(super) sink: bool,
}

/// A buffer that is made and used up within a group, with the members that touch it.
#[derive(Debug)]
pub struct Inner {
    pub buffer: usize,
    pub height: u32,
    pub width: u32,
    pub pitch: u32,
    pub(super) writers: Vec<usize>,
    pub(super) readers: Vec<(usize, Window)>,
    /// Members that cannot wrap around its end.
    pub(super) straight: Vec<usize>,
}

/// A run of layers and all that decides in which order their lines can be made.
#[derive(Debug)]
pub struct Chain {
    pub members: Vec<Member>,
    pub inner: Vec<Inner>,
    /// For each member the inner buffers that it writes.
    pub(super) written: Vec<Vec<usize>>,
}

impl Chain {
    /// The layers must [slide](Facts::slides).
    pub fn new(facts: &Facts<'_>, layers: Range<usize>) -> Self {
        let network = facts.network;
        let mut members: Vec<Member> = Vec::new();
        for layer in layers.clone() {
            let output = facts.output(layer);
            let mut links = Vec::new();
            for (from, other) in members.iter_mut().enumerate() {
                let before = links.len();
                links.extend(
                    between(facts, other.layer, layer).into_iter().map(|need| Link { from, need }),
                );
                other.sink &= links.len() == before;
            }
            members.push(Member {
                layer,
                height: output.dims[1],
                width: output.dims[2],
                tile: facts.tile(layer),
                links,
                sink: true,
            });
        }
        let mut buffers: Vec<usize> =
            layers.clone().flat_map(|layer| facts.touched[layer].iter().copied()).collect();
        buffers.sort_unstable();
        buffers.dedup();
        let inner = buffers.into_iter().filter(|&buffer| facts.is_inner(buffer, &layers));
        let inner = inner.map(|buffer| {
            let (mut writers, mut readers, mut straight) = (Vec::new(), Vec::new(), Vec::new());
            let mut plane = [0; 3];
            let of = |tensor: u32| network.tensors[tensor as usize].buffer as usize == buffer;
            for (index, layer) in layers.clone().enumerate() {
                if of(network.layers[layer].output) {
                    let output = facts.output(layer);
                    plane = [output.dims[1], output.dims[2], output.pitch];
                    writers.push(index);
                    straight.push(index);
                }
                for operand in facts.operands[layer].iter().flatten().filter(|o| of(o.tensor)) {
                    readers.push((index, operand.window));
                    if operand.rowwise {
                        straight.push(index);
                    }
                }
            }
            straight.sort_unstable();
            straight.dedup();
            let [height, width, pitch] = plane;
            Inner { buffer, height, width, pitch, writers, readers, straight }
        });
        let inner: Vec<Inner> = inner.collect();
        let mut written = vec![Vec::new(); members.len()];
        for (at, inner) in inner.iter().enumerate() {
            inner.writers.iter().for_each(|&writer| written[writer].push(at));
        }
        Self { members, inner, written }
    }
}

/// The needs of a later layer from an earlier one, for the buffers that both touch.
fn between(facts: &Facts<'_>, earlier: usize, later: usize) -> Vec<Need> {
    let network = facts.network;
    let tensor = |id: u32| &network.tensors[id as usize];
    let (written, made) = (facts.output(earlier), facts.output(later));
    let mut needs = Vec::new();
    for operand in facts.operands[later].iter().flatten() {
        match meeting(written, tensor(operand.tensor)) {
            Meeting::Apart => {}
            Meeting::Lines => needs.push(Need::Made(operand.window)),
            Meeting::Somehow => needs.push(Need::All),
        }
    }
    for operand in facts.operands[earlier].iter().flatten() {
        match meeting(tensor(operand.tensor), made) {
            Meeting::Apart => {}
            Meeting::Lines => needs.push(Need::Spent(operand.window)),
            Meeting::Somehow => needs.push(Need::All),
        }
    }
    match meeting(written, made) {
        Meeting::Apart => {}
        Meeting::Lines => needs.push(Need::Same),
        Meeting::Somehow => needs.push(Need::All),
    }
    needs
}

/// The bytes that two views share.
enum Meeting {
    Apart,
    /// Channels of the same lines.
    Lines,
    Somehow,
}

fn meeting(a: &Tensor, b: &Tensor) -> Meeting {
    if a.buffer != b.buffer {
        return Meeting::Apart;
    }
    match (plane(a), plane(b)) {
        (Some(of_a), Some(of_b)) if of_a == of_b => {
            let apart = a.offset + a.cols() <= b.offset || b.offset + b.cols() <= a.offset;
            if apart { Meeting::Apart } else { Meeting::Lines }
        }
        _ => Meeting::Somehow,
    }
}
