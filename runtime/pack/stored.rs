//! How the records of a network and of a plan are stored: in as few bytes as they need, since the
//! tables lie in the arena.
//!
//! Addresses and offsets are stored in units of what they are aligned to, as 32 bits. Data that
//! many records share is stored once. Layers refer to words with their activation and parameters.
//! Steps refer to [works](WorkRecord): steps of layers that slide differ only in their place in the
//! image and in the address of their scratch. [`Records`] reads them back one by one. The planner
//! stores them (`store` of each type), and gets an error for what is too large for that.

use super::{
    Activation, Buffer, Element, Flaw, INPUTS, Layer, Load, Method, PAGE, Place, Region, Stage,
    Step, flaw,
};
use bytemuck::{Pod, Zeroable};

/// A type that a pack stores as a record of another form.
pub trait Stored: Copy + Default + PartialEq {
    /// As it is stored.
    type Record: Pod;
}

/// A type that is decoded from a record, and from a table that the record may refer to.
pub trait ReadWith<Shared>: Stored {
    /// Decodes a record. One that refers beyond the table decodes to zeros.
    fn read(record: &Self::Record, shared: Shared) -> Self;
}

/// Records of a pack, in place, and the table that they refer to.
#[derive(Clone, Copy)]
pub struct Records<'a, T: Stored, Shared = ()> {
    records: &'a [T::Record],
    shared: Shared,
}

/// Layers, and the words that they refer to.
pub type Layers<'a> = Records<'a, Layer, &'a [u32]>;

/// Steps, and what they do.
pub type Steps<'a> = Records<'a, Step, &'a [WorkRecord]>;

impl<T: Stored, Shared> core::fmt::Debug for Records<'_, T, Shared> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} records", self.records.len())
    }
}

impl<'a, T: Stored> Records<'a, T> {
    /// Records that refer to nothing.
    pub const fn of(records: &'a [T::Record]) -> Self {
        Self { records, shared: () }
    }
}

impl<'a, T: Stored, Shared> Records<'a, T, Shared> {
    /// Records that refer to a table.
    pub(super) const fn sharing(records: &'a [T::Record], shared: Shared) -> Self {
        Self { records, shared }
    }
}

impl<'a, T: ReadWith<Shared> + 'a, Shared: Copy> Records<'a, T, Shared> {
    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Record `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<T> {
        self.records.get(index).map(|record| T::read(record, self.shared))
    }

    /// Record `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn at(&self, index: usize) -> T {
        T::read(&self.records[index], self.shared)
    }

    /// All records, in order.
    pub fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator + Clone + use<'a, T, Shared> {
        let shared = self.shared;
        self.records.iter().map(move |record| T::read(record, shared))
    }

    /// The records as they are stored.
    pub fn stored(&self) -> &'a [T::Record] {
        self.records
    }
}

/// The unit of addresses or offsets, with the messages for a number that is no multiple of it, or
/// that 32 bits cannot count.
struct Unit {
    bytes: u64,
    uneven: &'static str,
    beyond: &'static str,
}

macro_rules! unit {
    ($what:literal, $bytes:expr) => {
        &Unit {
            bytes: $bytes,
            uneven: concat!($what, ": not a multiple of its unit"),
            beyond: concat!($what, ": beyond what a pack counts"),
        }
    };
}

impl Unit {
    fn of(&self, bytes: u64) -> Result<u32, Flaw> {
        if !bytes.is_multiple_of(self.bytes) {
            return Err(flaw(self.uneven, bytes, self.bytes));
        }
        let most = u64::from(u32::MAX) * self.bytes;
        u32::try_from(bytes / self.bytes).map_err(|_| flaw(self.beyond, bytes, most))
    }
}

/// Bytes of a staging ring, in pages.
pub fn pages(bytes: u64) -> Result<u32, Flaw> {
    unit!("plan: bytes of the staging ring", PAGE).of(bytes)
}

fn bytes(units: u32, unit: u64) -> u64 {
    u64::from(units) * unit
}

fn short(value: u32, what: &'static str) -> Result<u16, Flaw> {
    u16::try_from(value).map_err(|_| flaw(what, value.into(), u16::MAX.into()))
}

/// Alignment of buffers, scratch and weights in the file.
const LINE: u64 = 64;
/// Alignment of panels in the arena.
const PANEL: u64 = 32;

/// A [`Buffer`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BufferRecord {
    /// Its bytes, in units of 64, of 31 bits. The highest bit is set where its elements are words.
    pub lines: u32,
}

/// The bit of [`BufferRecord::lines`] that says what the elements are.
const WORDS: u32 = 1 << 31;

impl Stored for Buffer {
    type Record = BufferRecord;
}

impl ReadWith<()> for Buffer {
    fn read(record: &BufferRecord, (): ()) -> Self {
        let element = if record.lines & WORDS == 0 { Element::Float } else { Element::Word };
        Self { bytes: bytes(record.lines & !WORDS, LINE), element }
    }
}

impl Buffer {
    /// As it is stored.
    pub fn store(&self) -> Result<BufferRecord, Flaw> {
        let lines = unit!("buffer: bytes", LINE).of(self.bytes)?;
        if lines >= WORDS {
            let what = "buffer: bytes: beyond what a pack counts";
            return Err(flaw(what, self.bytes, bytes(WORDS - 1, LINE)));
        }
        let words = if self.element == Element::Word { WORDS } else { 0 };
        Ok(BufferRecord { lines: lines | words })
    }
}

/// A [`Layer`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct LayerRecord {
    /// [`OpKind`](super::OpKind) code.
    pub kind: u8,
    /// [`Encoding`](super::Encoding) code.
    pub encoding: u8,
    /// Words that say more: its activation and its parameters, without the zeros at the end.
    pub words: u8,
    /// Output channels that a panel holds; 0 if the panel is full.
    pub width: u8,
    /// The first of them, in the skeleton's table of words.
    pub first_word: u32,
    /// Input tensors.
    pub inputs: [u32; INPUTS],
    /// Output tensor.
    pub output: u32,
    /// Panels of packed weights.
    pub panels: u32,
    /// Bytes of a panel.
    pub panel_bytes: u32,
    /// Where its weights start in their section, in units of 64 bytes.
    pub weights: u32,
}

/// Words of an activation and the parameters of an operator, at most.
pub const LAYER_WORDS: usize = 27;

impl LayerRecord {
    /// Its words among all; `None` where they are not there.
    pub(super) fn words<'a>(&self, words: &'a [u32]) -> Option<&'a [u32]> {
        let first = self.first_word as usize;
        words
            .get(first..first.checked_add(self.words.into())?)
            .filter(|words| words.len() <= LAYER_WORDS)
    }
}

impl Stored for Layer {
    type Record = LayerRecord;
}

impl ReadWith<&[u32]> for Layer {
    fn read(record: &LayerRecord, words: &[u32]) -> Self {
        let Some(stored) = record.words(words) else { return Self::default() };
        let mut words = [0; LAYER_WORDS];
        words[..stored.len()].copy_from_slice(stored);
        let [kind, alpha, beta, params @ ..] = words;
        let (alpha, beta) = (f32::from_bits(alpha), f32::from_bits(beta));
        let &LayerRecord { inputs, output, panels, panel_bytes, .. } = record;
        Self {
            kind: record.kind.into(),
            inputs,
            output,
            activation: Activation { kind, alpha, beta },
            panels,
            panel_bytes,
            width: record.width.into(),
            encoding: record.encoding.into(),
            weights: bytes(record.weights, LINE),
            params,
        }
    }
}

impl Layer {
    /// The record that stores it, and its words. The first `LayerRecord::words` of these belong
    /// into the table.
    pub fn store(&self) -> Result<(LayerRecord, [u32; LAYER_WORDS]), Flaw> {
        let Self { activation, params, inputs, output, panels, panel_bytes, .. } = *self;
        let mut words = [0; LAYER_WORDS];
        words[0] = activation.kind;
        words[1] = activation.alpha.to_bits();
        words[2] = activation.beta.to_bits();
        words[3..].copy_from_slice(&params);
        let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        let code = |code: u32, what| {
            u8::try_from(code).map_err(|_| flaw(what, code.into(), u8::MAX.into()))
        };
        let record = LayerRecord {
            kind: code(self.kind, "layer: code of its operator")?,
            encoding: code(self.encoding, "layer: code of its encoding")?,
            words: used as u8,
            width: code(self.width, "layer: output channels of a panel")?,
            first_word: 0,
            inputs,
            output,
            panels,
            panel_bytes,
            weights: unit!("layer: offset of its weights", LINE).of(self.weights)?,
        };
        Ok((record, words))
    }
}

/// A [`Place`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct PlaceRecord {
    /// Where it is in the arena, in units of 64 bytes.
    pub address: u32,
    /// Image lines of a ring, or 0.
    pub lines: u32,
}

impl Stored for Place {
    type Record = PlaceRecord;
}

impl ReadWith<()> for Place {
    fn read(record: &PlaceRecord, (): ()) -> Self {
        Self { address: bytes(record.address, LINE), lines: record.lines }
    }
}

impl Place {
    /// As it is stored.
    pub fn store(&self) -> Result<PlaceRecord, Flaw> {
        let address = unit!("plan: address of a buffer", LINE).of(self.address)?;
        Ok(PlaceRecord { address, lines: self.lines })
    }
}

/// A [`Load`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct LoadRecord {
    /// The first page, from the start of the weights section.
    pub offset: u32,
    /// The page of the arena that it goes to.
    pub address: u32,
    /// Bytes.
    pub bytes: u32,
    /// CRC-32C of these bytes.
    pub crc: u32,
    /// Steps that release it.
    pub release: i32,
}

impl Stored for Load {
    type Record = LoadRecord;
}

impl ReadWith<()> for Load {
    fn read(record: &LoadRecord, (): ()) -> Self {
        let &LoadRecord { offset, address, bytes: count, crc, release } = record;
        Self {
            offset: bytes(offset, PAGE),
            address: bytes(address, PAGE),
            bytes: count,
            crc,
            release,
        }
    }
}

impl Load {
    /// As it is stored.
    pub fn store(&self) -> Result<LoadRecord, Flaw> {
        let &Self { bytes, crc, release, .. } = self;
        let offset = unit!("load: offset", PAGE).of(self.offset)?;
        let address = unit!("load: address", PAGE).of(self.address)?;
        Ok(LoadRecord { offset, address, bytes, crc, release })
    }
}

/// A [`Step`] without its first row and the address of its scratch. Steps that agree in all of this
/// share it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct WorkRecord {
    /// Loads that the step waits for, and in the upper eight bits its algorithm, or what it is
    /// [instead](SOME_CHAINS).
    pub ready_and_algorithm: u32,
    /// Index of the layer.
    pub layer: u16,
    /// First panel.
    pub first: u16,
    /// Panels; of a step of some chains, how many these are, of one panel.
    pub count: u16,
    /// Reads that the step waits for, beyond its loads; for a step of some chains, the first chain.
    /// (Plans with a staging ring have no such steps.)
    pub reads_ahead: u16,
    /// Output rows.
    pub rows: u32,
    /// Where the first panel lies in the arena, in units of 32 bytes; with the [bit](MAPPED), in the
    /// pack's weights section.
    pub weights: u32,
    /// Bytes of scratch, in units of 64.
    pub scratch_lines: u32,
}

/// In the place of an algorithm: a step of some chains of one panel, by the layer's own.
pub const SOME_CHAINS: u32 = 1;

/// In the address of weights: they are used where they lie in the pack.
pub const MAPPED: u32 = 1 << 31;

/// Bits of the loads that a step waits for.
const READY_BITS: u32 = 24;

/// A [`Step`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct StepRecord {
    /// Index of its [`WorkRecord`].
    pub work: u32,
    /// First output row.
    pub row: u32,
    /// Where its scratch lies in the arena, in units of 64 bytes.
    pub scratch: u32,
}

impl Stored for Step {
    type Record = StepRecord;
}

impl ReadWith<&[WorkRecord]> for Step {
    fn read(record: &StepRecord, works: &[WorkRecord]) -> Self {
        let Some(work) = works.get(record.work as usize) else { return Self::default() };
        let ready = work.ready_and_algorithm & ((1 << READY_BITS) - 1);
        let algorithm = work.ready_and_algorithm >> READY_BITS;
        let (count, ahead) = (u32::from(work.count), u32::from(work.reads_ahead));
        let (method, count, ahead) = match algorithm {
            SOME_CHAINS => (Method::Chains { first: ahead, count }, 1, 0),
            other => (Method::by(other), count, ahead),
        };
        Self {
            layer: work.layer.into(),
            ready,
            first: work.first.into(),
            count,
            row: record.row,
            rows: work.rows,
            weights: bytes(work.weights & !MAPPED, PANEL),
            weights_in: if work.weights & MAPPED == 0 { Region::Arena } else { Region::Mapped },
            scratch: bytes(record.scratch, LINE),
            scratch_bytes: bytes(work.scratch_lines, LINE),
            reads: if ahead > 0 { ready + ahead } else { 0 },
            method,
        }
    }
}

impl Step {
    /// As it is stored, with what it may share with others. Which of these it refers to is left
    /// open.
    pub fn store(&self) -> Result<(StepRecord, WorkRecord), Flaw> {
        let most = (1 << READY_BITS) - 1;
        if self.ready > most {
            return Err(flaw("step: loads that it waits for", self.ready.into(), most.into()));
        }
        let reads_ahead = self.reads.saturating_sub(self.ready);
        let (algorithm, count, ahead) = match self.method {
            Method::Own => (0, self.count, reads_ahead),
            // The record has no place for this, and no step has it.
            Method::Chains { count, .. } if self.reads > 0 || self.count != 1 || count == 0 => {
                let found = self.reads.max(self.count);
                return Err(flaw("step: which chains it computes", found.into(), count.into()));
            }
            Method::Chains { first, count } => (SOME_CHAINS, count, first),
            Method::Winograd { tile } => {
                if tile > u8::MAX.into() || [0, SOME_CHAINS].contains(&tile) {
                    return Err(flaw("step: its algorithm", tile.into(), u8::MAX.into()));
                }
                (tile, self.count, reads_ahead)
            }
        };
        let weights = unit!("step: address of its weights", PANEL).of(self.weights)?;
        if weights >= MAPPED {
            let (found, limit) = (self.weights, bytes(MAPPED - 1, PANEL));
            return Err(flaw(
                "step: address of its weights: beyond what a pack counts",
                found,
                limit,
            ));
        }
        let region = if self.weights_in == Region::Mapped { MAPPED } else { 0 };
        let work = WorkRecord {
            ready_and_algorithm: self.ready | algorithm << READY_BITS,
            layer: short(self.layer, "step: index of its layer")?,
            first: short(self.first, "step: its first panel")?,
            count: short(count, "step: its panels, or chains")?,
            reads_ahead: short(ahead, "step: reads that it waits for, or its first chain")?,
            rows: self.rows,
            weights: weights | region,
            scratch_lines: unit!("step: bytes of its scratch", LINE).of(self.scratch_bytes)?,
        };
        let scratch = unit!("step: address of its scratch", LINE).of(self.scratch)?;
        Ok((StepRecord { work: 0, row: self.row, scratch }, work))
    }
}

/// A [`Stage`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct StageRecord {
    /// The page of the staging ring.
    pub address: u32,
    /// Copies that permit the read.
    pub copies: i32,
    /// Steps that do.
    pub steps: i32,
}

impl Stored for Stage {
    type Record = StageRecord;
}

impl ReadWith<()> for Stage {
    fn read(record: &StageRecord, (): ()) -> Self {
        let &StageRecord { address, copies, steps } = record;
        Self { address: bytes(address, PAGE), copies, steps }
    }
}

impl Stage {
    /// As it is stored.
    pub fn store(&self) -> Result<StageRecord, Flaw> {
        let &Self { copies, steps, .. } = self;
        Ok(StageRecord { address: unit!("stage: address", PAGE).of(self.address)?, copies, steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read() {
        let load = Load { offset: 7 << 40, address: 5 * PAGE, bytes: 4096, crc: 3, release: -9 };
        assert_eq!(Load::read(&load.store().unwrap(), ()), load);
        let stage = Stage { address: 5 * PAGE, copies: -1, steps: 2 };
        assert_eq!(Stage::read(&stage.store().unwrap(), ()), stage);
        let place = Place { address: 192, lines: 3 };
        assert_eq!(Place::read(&place.store().unwrap(), ()), place);
        for element in [Element::Float, Element::Word] {
            let buffer = Buffer { bytes: (1 << 37) - 64, element };
            assert_eq!(Buffer::read(&buffer.store().unwrap(), ()), buffer);
        }
        let flaw = Buffer::floats(1 << 37).store().unwrap_err();
        assert_eq!((flaw.found, flaw.limit), (1 << 37, (1 << 37) - 64));

        let step = Step {
            layer: 65535,
            ready: (1 << 24) - 1,
            first: 65535,
            count: 2,
            row: 1 << 31,
            rows: 77,
            weights: 96,
            weights_in: Region::Mapped,
            scratch: 64,
            scratch_bytes: 128,
            reads: 1 << 24,
            method: Method::Winograd { tile: 4 },
        };
        let chains = Method::Chains { first: 3, count: 65535 };
        let part = Step { method: chains, reads: 0, count: 1, ..step };
        let (record, work) = part.store().unwrap();
        assert_eq!(Step::read(&record, &[work]), part);
        let own = Step { method: Method::Own, ..step };
        let (record, work) = own.store().unwrap();
        assert_eq!(Step::read(&record, &[work]), own);
        for lost in [
            Step { reads: 1 << 24, ..part },
            Step { count: 2, ..part },
            Step { method: Method::Chains { first: 0, count: 0 }, ..part },
            Step { method: Method::Winograd { tile: 0 }, ..step },
            Step { method: Method::Winograd { tile: 1 }, ..step },
            Step { method: Method::Winograd { tile: 256 }, ..step },
        ] {
            assert!(lost.store().is_err(), "{lost:?}");
        }
        let (record, work) = step.store().unwrap();
        let other = Step { reads: 0, ..step }.store().unwrap().1;
        assert_eq!(Step::read(&StepRecord { work: 1, ..record }, &[other, work]), step);
        assert_eq!(Step::read(&record, &[other, work]), Step { reads: 0, ..step });
        assert_eq!(Step::read(&StepRecord { work: 2, ..record }, &[other, work]), Step::default());

        let mut layer =
            Layer { kind: 8, inputs: [1, 2, 4], output: 3, panels: 9, ..Layer::default() };
        (layer.panel_bytes, layer.encoding, layer.weights) = (160, 2, 640);
        layer.width = 31;
        layer.activation = Activation::RELU;
        for used in [0, 5, 24] {
            layer.params = [0; 24];
            layer.params[..used].fill(7);
            let (record, words) = layer.store().unwrap();
            // The upper bound of the activation is the last word that is not zero.
            let words = &words[..3 + used];
            assert_eq!(record.words as usize, words.len());
            assert_eq!(Layer::read(&record, words), layer);
            let short = &words[..words.len() - 1];
            assert_eq!(Layer::read(&record, short), Layer::default());
            assert!(LayerRecord { first_word: u32::MAX, ..record }.words(words).is_none());
        }
    }

    #[test]
    fn what_is_too_large_or_between_units_is_said() {
        let most = u64::from(u32::MAX) * PAGE;
        let flaw = Load { address: most + PAGE, ..Load::default() }.store().unwrap_err();
        assert_eq!((flaw.found, flaw.limit), (most + PAGE, most));
        let flaw = Load { offset: 64, ..Load::default() }.store().unwrap_err();
        assert_eq!((flaw.found, flaw.limit), (64, PAGE));
        let refused = |step: Step| {
            let flaw = step.store().unwrap_err();
            (flaw.found, flaw.limit)
        };
        let step = Step::default();
        assert_eq!(refused(Step { layer: 65536, ..step }), (65536, 65535));
        assert_eq!(refused(Step { count: 65536, ..step }), (65536, 65535));
        assert_eq!(refused(Step { ready: 1 << 24, ..step }), (1 << 24, (1 << 24) - 1));
        assert_eq!(refused(Step { scratch_bytes: 65, ..step }), (65, 64));
        let most = (1u64 << 36) - 32;
        for weights_in in [Region::Arena, Region::Mapped] {
            let far = Step { weights: most, weights_in, ..step };
            let (record, work) = far.store().unwrap();
            assert_eq!(Step::read(&record, &[work]), far);
            assert_eq!(refused(Step { weights: most + 32, ..far }), (most + 32, most));
        }
    }
}
