//! The C functions for an open model.

use super::computer::{Computer, Engine};
use super::error::{Error, Kind as _, Status, argument};
use super::give;
use super::open::{Memory, Model, Running, part};
use crate::executor::{
    BudgetError, Feed, InferError, Progress, ShapeError, Stats, Switch as Switched,
};
use crate::pack::{PlanEntry, PlanView, Port, Skeleton};
use core::ffi::c_char;

/// An input or an output.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorInfo {
    /// Its name in the model, in UTF-8 and not terminated.
    pub name: *const c_char,
    /// Bytes of the name.
    pub name_bytes: u64,
    /// Floats in it.
    pub elements: u64,
    /// Number of dimensions.
    pub rank: u32,
    /// Zero.
    pub kind: u32,
    /// Its shape in the model, row-major; unused entries are 1.
    pub shape: [u32; 8],
}

impl TensorInfo {
    /// The description of a port that does not exist.
    pub(super) const NONE: Self = Self {
        name: core::ptr::null(),
        name_bytes: 0,
        elements: 0,
        rank: 0,
        kind: 0,
        shape: [0; 8],
    };

    /// Describes a port of this name.
    pub(super) fn of(port: &Port, name: &str) -> Self {
        let shape = port.shape.iter().take(port.rank as usize);
        Self {
            name: name.as_ptr().cast(),
            name_bytes: name.len() as u64,
            elements: shape.map(|dim| u64::from(*dim)).product(),
            rank: port.rank,
            kind: port.kind,
            shape: port.shape,
        }
    }
}

/// The plan that is followed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanInfo {
    /// The budget that it was made for.
    pub budget_bytes: u64,
    /// Bytes of arena that it takes.
    pub arena_bytes: u64,
    /// Bytes of weights that stay.
    pub resident_bytes: u64,
    /// Bytes of weights that are read in every inference.
    pub read_bytes: u64,
    /// Predicted latency; 0 where nothing was predicted.
    pub predicted_ns: u64,
    /// Steps of an inference.
    pub steps: u32,
    /// Compute threads.
    pub threads: u32,
}

/// The cost of a change of budget or shape.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Switch {
    /// Bytes of residents that stayed where they were.
    pub kept_bytes: u64,
    /// Bytes of residents that were moved in the arena.
    pub moved_bytes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Nanoseconds for the whole.
    pub total_ns: u64,
}

/// Times of an inference.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Nanoseconds in kernels.
    pub compute_ns: u64,
    /// Nanoseconds waiting for weights, or loading them inline.
    pub stall_ns: u64,
}

/// The operations of all models, however they get their loads.
trait Operated {
    fn skeleton(&self) -> &Skeleton<'_>;
    fn plan(&self) -> (&PlanEntry, &PlanView<'_>);
    /// A float port, or (`integers`) one of integers: its address and number of elements.
    fn port(&mut self, index: usize, output: bool, integers: bool) -> Option<(*mut u8, usize)>;
    fn step(&mut self, device: &Computer) -> Result<Progress, InferError>;
    fn infer(&mut self, device: &Computer) -> Result<(), InferError>;
    fn set_budget(&mut self, bytes: u64) -> Result<Switched, BudgetError>;
    /// How many shapes the pack has, and the number of the one that is computed.
    fn shapes(&self) -> [u32; 2];
    fn set_shape(&mut self, shape: u32) -> Result<Switched, ShapeError>;
    fn unused(&mut self) -> (*mut u8, usize);
    fn stats(&self) -> Stats;
}

impl<F: Feed> Operated for crate::executor::Model<'static, 'static, F> {
    fn skeleton(&self) -> &Skeleton<'_> {
        self.skeleton()
    }

    fn plan(&self) -> (&PlanEntry, &PlanView<'_>) {
        (self.entry(), self.plan())
    }

    fn port(&mut self, index: usize, output: bool, integers: bool) -> Option<(*mut u8, usize)> {
        match (output, integers) {
            (false, false) => self.input_mut(index).ok().map(|x| (x.as_mut_ptr().cast(), x.len())),
            (false, true) => {
                self.input_words_mut(index).ok().map(|x| (x.as_mut_ptr().cast(), x.len()))
            }
            (true, false) => {
                self.output(index).ok().map(|x| (x.as_ptr().cast_mut().cast(), x.len()))
            }
            (true, true) => {
                self.output_words(index).ok().map(|x| (x.as_ptr().cast_mut().cast(), x.len()))
            }
        }
    }

    fn step(&mut self, device: &Computer) -> Result<Progress, InferError> {
        self.step(device)
    }

    fn infer(&mut self, device: &Computer) -> Result<(), InferError> {
        self.infer(device)
    }

    fn set_budget(&mut self, bytes: u64) -> Result<Switched, BudgetError> {
        self.set_budget(bytes)
    }

    fn shapes(&self) -> [u32; 2] {
        [self.shapes(), self.shape()]
    }

    fn set_shape(&mut self, shape: u32) -> Result<Switched, ShapeError> {
        self.set_shape(shape)
    }

    fn unused(&mut self) -> (*mut u8, usize) {
        let unused = self.unused();
        (unused.as_mut_ptr(), unused.len())
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

impl Running {
    /// How its loads are made.
    fn operated(&mut self) -> &mut dyn Operated {
        match self {
            Self::Inline(model) => model,
            #[cfg(all(feature = "linux", target_os = "linux"))]
            Self::WithLoader(model, _) => model,
        }
    }
}

/// A model's two halves, if there is one.
///
/// # Safety
/// It is null, or open and used by nobody else for `'a`.
unsafe fn halves<'a>(model: *mut Model) -> Option<(&'a mut dyn Operated, &'a Computer)> {
    if model.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; both were written when it was opened.
    unsafe {
        let running: &'a mut Running = &mut *part(&raw mut (*model).running);
        Some((running.operated(), Engine::device(&raw const (*model).engine)))
    }
}

const NO_MODEL: &str = "the model is missing";

/// The ports of one side.
fn ports(model: &dyn Operated, output: bool) -> &[Port] {
    let skeleton = model.skeleton();
    if output { skeleton.outputs } else { skeleton.inputs }
}

/// # Safety
/// As the header says of the functions that this serves.
unsafe fn describe(
    model: *mut Model,
    index: u32,
    output: bool,
    info: *mut TensorInfo,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        give(info, TensorInfo::NONE);
        let Some((model, _)) = halves(model) else { return argument(NO_MODEL).tell(error) };
        let Some(port) = ports(model, output).get(index as usize) else {
            return argument("the network has no input or output of that number").tell(error);
        };
        give(info, TensorInfo::of(port, model.skeleton().text(port.name)));
    }
    Status::Ok as i32
}

/// # Safety
/// As the header says of the functions that this serves.
unsafe fn values<T>(
    model: *mut Model,
    index: u32,
    output: bool,
    integers: bool,
    count: *mut u64,
) -> *mut T {
    // SAFETY: the caller's promises.
    unsafe {
        let port =
            halves(model).and_then(|(model, _)| model.port(index as usize, output, integers));
        let (words, elements) = port.unwrap_or((core::ptr::null_mut(), 0));
        give(count, elements as u64);
        words.cast()
    }
}

/// Number of inputs; 0 without a model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_inputs(model: *mut Model) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { halves(model) }.map_or(0, |(model, _)| ports(model, false).len() as u32)
}

/// Number of outputs; 0 without a model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_outputs(model: *mut Model) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { halves(model) }.map_or(0, |(model, _)| ports(model, true).len() as u32)
}

/// Describes an input.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_input_info(
    model: *mut Model,
    index: u32,
    info: *mut TensorInfo,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { describe(model, index, false, info, error) }
}

/// Describes an output.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_output_info(
    model: *mut Model,
    index: u32,
    info: *mut TensorInfo,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { describe(model, index, true, info, error) }
}

/// Where an input is written, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_input(
    model: *mut Model,
    index: u32,
    elements: *mut u64,
) -> *mut f32 {
    // SAFETY: the caller's promises.
    unsafe { values(model, index, false, false, elements) }
}

/// Where an output is read, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_output(
    model: *mut Model,
    index: u32,
    elements: *mut u64,
) -> *const f32 {
    // SAFETY: the caller's promises.
    unsafe { values(model, index, true, false, elements) }
}

/// Where an input of integers or truth values is written, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_input_words(
    model: *mut Model,
    index: u32,
    elements: *mut u64,
) -> *mut i32 {
    // SAFETY: the caller's promises.
    unsafe { values(model, index, false, true, elements) }
}

/// Where an output of integers or truth values is read, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_output_words(
    model: *mut Model,
    index: u32,
    elements: *mut u64,
) -> *const i32 {
    // SAFETY: the caller's promises.
    unsafe { values::<i32>(model, index, true, true, elements) }
}

/// One inference, or the rest of the one in progress.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_infer(model: *mut Model, error: *mut Error) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        let Some((model, device)) = halves(model) else { return argument(NO_MODEL).tell(error) };
        match model.infer(device) {
            Ok(()) => Status::Ok as i32,
            Err(why) => why.failure().tell(error),
        }
    }
}

/// One step of an inference.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_step(model: *mut Model, error: *mut Error) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        let Some((model, device)) = halves(model) else { return argument(NO_MODEL).tell(error) };
        match model.step(device) {
            Ok(Progress::Finished) => Status::Ok as i32,
            Ok(Progress::Running) => Status::Running as i32,
            Err(why) => why.failure().tell(error),
        }
    }
}

/// Changes to the plan with the largest budget that needs at most `bytes` bytes of arena; 0 is no
/// limit, and so is all of the caller's memory, the record's part included.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_budget(
    model: *mut Model,
    bytes: u64,
    took: *mut Switch,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        give(took, Switch::default());
        let Some((operated, _)) = halves(model) else { return argument(NO_MODEL).tell(error) };
        let Memory { arena, whole } = *part(&raw mut (*model).memory);
        let budget = match bytes {
            0 => arena,
            bytes if bytes <= whole => bytes.min(arena),
            bytes => bytes,
        };
        match operated.set_budget(budget) {
            Ok(switched) => changed(switched, took),
            Err(why) => why.failure().tell(error),
        }
    }
}

/// Writes the cost of a change, and returns success.
///
/// # Safety
/// `took` is null, or valid for writes.
unsafe fn changed(switched: Switched, took: *mut Switch) -> i32 {
    let Switched { kept_bytes, moved_bytes, read_bytes, total_ns, .. } = switched;
    // SAFETY: the caller's promise.
    unsafe { give(took, Switch { kept_bytes, moved_bytes, read_bytes, total_ns }) };
    Status::Ok as i32
}

/// Number of shapes of the pack; 0 without a model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_shapes(model: *mut Model) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { halves(model) }.map_or(0, |(model, _)| model.shapes()[0])
}

/// The number of the shape that is computed; 0 without a model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_shape(model: *mut Model) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { halves(model) }.map_or(0, |(model, _)| model.shapes()[1])
}

/// Changes to another shape of the pack.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_shape(
    model: *mut Model,
    shape: u32,
    took: *mut Switch,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        give(took, Switch::default());
        let Some((model, _)) = halves(model) else { return argument(NO_MODEL).tell(error) };
        match model.set_shape(shape) {
            Ok(switched) => changed(switched, took),
            Err(why) => why.failure().tell(error),
        }
    }
}

/// The part of the arena that the plan has no use for.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_unused(
    model: *mut Model,
    bytes: *mut u64,
) -> *mut core::ffi::c_void {
    // SAFETY: the caller's promises.
    unsafe {
        let unused = halves(model).map(|(model, _)| model.unused());
        let (start, len) = unused.filter(|(_, len)| *len > 0).unwrap_or((core::ptr::null_mut(), 0));
        give(bytes, len as u64);
        start.cast()
    }
}

/// Tells of the plan that is followed; zeros without a model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_plan(model: *mut Model, info: *mut PlanInfo) {
    // SAFETY: the caller's promises.
    unsafe {
        let Some((model, device)) = halves(model) else { return give(info, PlanInfo::default()) };
        let (entry, plan) = model.plan();
        let info_of = PlanInfo {
            budget_bytes: entry.budget,
            arena_bytes: entry.arena_bytes,
            resident_bytes: plan.resident.iter().map(|load| u64::from(load.bytes)).sum(),
            read_bytes: plan.loads.iter().map(|load| u64::from(load.bytes)).sum(),
            predicted_ns: entry.predicted_ns,
            steps: plan.steps.len() as u32,
            threads: crate::device::Device::threads(device) as u32,
        };
        give(info, info_of);
    }
}

/// Times of the last inference, or of the one in progress; zeros without a model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_times(model: *mut Model, times: *mut Times) {
    // SAFETY: the caller's promises.
    unsafe {
        let Some((model, _)) = halves(model) else { return give(times, Times::default()) };
        let Stats { compute_ns, stall_ns } = model.stats();
        give(times, Times { compute_ns, stall_ns });
    }
}
