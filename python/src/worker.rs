//! The thread of a session: it opens the pack, and then answers one request after the other.

use runtime::arena::MappedArena;
use runtime::device::threads::available_cores;
use runtime::device::workers::Pool;
use runtime::executor::{self, Concurrent, Instance, Model, Options};
use runtime::pack::{Header, PAGE, PlanEntry, Port, Skeleton};
use runtime::storage::residency::PageCache;
use runtime::storage::{
    BufferedFile, DirectFile, MappedFile, Populate, Slice, Storage, StorageError,
};
use std::ffi::CString;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};

/// How a pack is opened.
pub struct Asked {
    pub path: PathBuf,
    pub budget: Option<u64>,
    pub threads: Option<u32>,
    pub io: Io,
    pub verify: bool,
}

/// How a pack is read.
#[derive(Clone, Copy)]
pub enum Io {
    /// Past the page cache.
    Direct,
    Buffered,
    /// From a map of the whole pack.
    Memory,
}

/// What a session is asked for.
pub enum Request {
    Infer(Vec<Values>),
    Budget(u64),
}

/// What it answers. An error is a text for the user.
pub type Answer = Result<Reply, String>;

pub enum Reply {
    Opened(Opened),
    Outputs(Vec<Values>),
    Changed(Changed),
}

/// The elements of an input or output.
pub enum Values {
    Floats(Vec<f32>),
    /// Integers and truth values.
    Words(Vec<i32>),
}

/// An open pack.
#[derive(Default)]
pub struct Opened {
    pub network: String,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
    pub budgets: Vec<u64>,
    pub budget: u64,
    pub arena_bytes: u64,
    pub threads: u32,
}

/// An input or output: its name, its shape, the name of its type, and that type's limits.
pub type Tensor = (String, Vec<usize>, &'static str, (i32, i32));

/// Another plan: its budget and arena, and what the change took.
pub struct Changed {
    pub budget: u64,
    pub arena_bytes: u64,
    pub kept_bytes: u64,
    pub read_bytes: u64,
    pub total_ns: u64,
}

/// Serves a session until nobody can ask any more. The first answer is about opening the pack.
pub fn serve(asked: &Asked, requests: &Receiver<Request>, answers: &Sender<Answer>) {
    let done = open(asked, requests, answers);
    if let Err(error) = done {
        // Whoever asked is gone if that fails.
        let _ = answers.send(Err(error));
    }
}

/// Says which pack an error is about.
fn of<E: Display>(asked: &Asked) -> impl Fn(E) -> String {
    move |error| format!("{}: {error}", asked.path.display())
}

fn open(
    asked: &Asked,
    requests: &Receiver<Request>,
    answers: &Sender<Answer>,
) -> Result<(), String> {
    let path = CString::new(asked.path.as_os_str().as_encoded_bytes()).map_err(of(asked))?;
    let wrong = |error| match error {
        // The system's own words, as the command has them.
        StorageError::Open { errno } => {
            let error = io::Error::from_raw_os_error(errno);
            format!("cannot read {}: {error}", asked.path.display())
        }
        error => of(asked)(error),
    };
    match asked.io {
        Io::Direct => {
            let mut file = DirectFile::open(&path).map_err(wrong)?;
            let cache = file.page_cache().ok();
            // What a copy has left there is none of this session's.
            let _ = cache.as_ref().map(PageCache::forget);
            run(asked, &mut file, cache.as_ref(), requests, answers)
        }
        Io::Buffered => {
            let mut file = BufferedFile::open(&path).map_err(wrong)?;
            run(asked, &mut file, None, requests, answers)
        }
        Io::Memory => {
            let mut file = MappedFile::open(&path, Populate::AtOpen).map_err(wrong)?;
            let (header, _) = choose(asked, &mut file)?;
            if header.mapped == 0 {
                return run(asked, &mut file, None, requests, answers);
            }
            // A pack that is used where it lies is copied: a file could change meanwhile.
            let bytes = file.len().map_err(wrong)? as usize;
            let mut copy = MappedArena::new(bytes).map_err(of(asked))?;
            let mut copy = copy.memory();
            let copy = &mut copy.as_mut_slice()[..bytes];
            file.read(0, copy).map_err(wrong)?;
            run(asked, &mut Slice(copy), None, requests, answers)
        }
    }
}

/// The header of a pack, and its plans for the first shape, by budget.
fn choose(asked: &Asked, storage: &mut impl Storage) -> Result<(Header, Vec<PlanEntry>), String> {
    let size = storage.len().map_err(of(asked))?;
    let mut page = MappedArena::new(PAGE as usize).map_err(of(asked))?;
    let mut page = page.memory();
    if size < PAGE {
        let error = executor::OpenError::Size { found: size, expected: PAGE };
        return Err(of(asked)(error));
    }
    storage.read(0, page.as_mut_slice()).map_err(of(asked))?;
    let header = executor::header(page.as_slice(), size).map_err(of(asked))?;
    let entries = executor::entries(page.as_slice(), header.plans);
    let mut entries: Vec<_> = entries.filter(|entry| entry.shape == 0).collect();
    entries.sort_by_key(|entry| entry.budget);
    Ok((header, entries))
}

/// Opens the pack in an arena of its own, and answers.
fn run<S: Storage + Send>(
    asked: &Asked,
    storage: &mut S,
    cache: Option<&PageCache>,
    requests: &Receiver<Request>,
    answers: &Sender<Answer>,
) -> Result<(), String> {
    let (header, entries) = choose(asked, storage)?;
    let most = asked.budget.unwrap_or(u64::MAX);
    let fitting = || entries.iter().filter(|entry| entry.budget <= most);
    let Some(entry) = fitting().next_back() else {
        let plans = entries.iter().map(|entry| entry.budget.to_string());
        let plans = plans.collect::<Vec<_>>().join(", ");
        let text = format!(
            "no plan fits a budget of {most} bytes; it has plans for {plans}: give one of these, or plan the model for less"
        );
        return Err(of(asked)(text));
    };
    let cores = available_cores() as u32;
    let threads = asked.threads.unwrap_or(u32::from(entry.threads).min(cores)).max(1);
    // A change of budget may go to any plan up to the budget that was asked for.
    let arena_bytes = fitting().map(|entry| entry.arena_bytes).max().unwrap_or(0);
    if arena_bytes > MOST_ARENA {
        return Err(of(asked)(format!("a plan of {arena_bytes} bytes, at most {MOST_ARENA} are")));
    }
    let mut arena = MappedArena::new(arena_bytes as usize).map_err(of(asked))?;
    let mut memory = arena.memory();
    let options = Options { verify: asked.verify, threads, budget: most, ..Options::default() };
    let instance = Instance::open(storage, memory.as_mut_slice(), options);
    let mut instance = instance.map_err(of(asked))?;
    let budgets = fitting().map(|entry| entry.budget).collect();
    let opened = Opened { budgets, threads, ..describe(instance.skeleton(), instance.entry()) };
    // Nobody to tell: nobody will ask, either.
    let _ = answers.send(Ok(Reply::Opened(opened)));
    let pool = Pool::new();
    pool.scope(threads as usize, None, |workers| {
        instance.with_loader(storage, |model| {
            let mut proof = cache;
            for request in requests {
                let answer = answer(model, workers, request).map_err(of(asked));
                let kept_out = proof.take().map(|cache| cache.keep_out(header.file_bytes));
                let answer = match kept_out {
                    Some(Err(error @ StorageError::StaysCached { .. })) => Err(of(asked)(error)),
                    _ => answer,
                };
                if answers.send(answer).is_err() {
                    break;
                }
            }
        })
    })
    .and_then(|done| done)
    .map_err(of(asked))
}

/// No plan has a larger arena.
const MOST_ARENA: u64 = 1 << 44;

fn describe(skeleton: &Skeleton<'_>, entry: &PlanEntry) -> Opened {
    let tensor = |port: &Port| {
        let shape = port.shape.iter().take(port.rank as usize).map(|extent| *extent as usize);
        let (name, kind) = (skeleton.text(port.name).to_owned(), port.kind());
        (name, shape.collect(), kind.name(), kind.limits())
    };
    Opened {
        network: skeleton.name().to_owned(),
        inputs: skeleton.inputs.iter().map(tensor).collect(),
        outputs: skeleton.outputs.iter().map(tensor).collect(),
        budget: entry.budget,
        arena_bytes: entry.arena_bytes,
        ..Opened::default()
    }
}

type Running<'m, 'a> = Model<'m, 'a, Concurrent<'m, 'a>>;

fn answer(
    model: &mut Running<'_, '_>,
    device: &dyn runtime::device::Device,
    request: Request,
) -> Result<Reply, String> {
    match request {
        Request::Infer(inputs) => infer(model, device, &inputs).map(Reply::Outputs),
        Request::Budget(bytes) => {
            let change = model.set_budget(bytes).map_err(text)?;
            let entry = model.entry();
            Ok(Reply::Changed(Changed {
                budget: entry.budget,
                arena_bytes: entry.arena_bytes,
                kept_bytes: change.kept_bytes + change.moved_bytes,
                read_bytes: change.read_bytes,
                total_ns: change.total_ns,
            }))
        }
    }
}

fn infer(
    model: &mut Running<'_, '_>,
    device: &dyn runtime::device::Device,
    inputs: &[Values],
) -> Result<Vec<Values>, String> {
    let count = model.inputs().len();
    if inputs.len() != count {
        return Err(format!("{} inputs given, the network has {count}", inputs.len()));
    }
    for (index, input) in inputs.iter().enumerate() {
        match input {
            Values::Floats(from) => copy(index, from, model.input_mut(index).map_err(text)?)?,
            Values::Words(from) => copy(index, from, model.input_words_mut(index).map_err(text)?)?,
        }
    }
    model.infer(device).map_err(text)?;
    let integers = |port: &Port| port.kind().is_integer();
    let integers: Vec<bool> = model.outputs().iter().map(integers).collect();
    let outputs = integers.into_iter().enumerate().map(|(index, integers)| match integers {
        true => model.output_words(index).map(|words| Values::Words(words.to_vec())),
        false => model.output(index).map(|floats| Values::Floats(floats.to_vec())),
    });
    outputs.collect::<Result<_, _>>().map_err(text)
}

fn copy<T: Copy>(index: usize, from: &[T], into: &mut [T]) -> Result<(), String> {
    if from.len() != into.len() {
        let (found, needed) = (from.len(), into.len());
        return Err(format!("input {index} has {found} elements, the network takes {needed}"));
    }
    into.copy_from_slice(from);
    Ok(())
}

fn text(error: impl Display) -> String {
    error.to_string()
}
