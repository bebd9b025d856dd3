//! Packs as `inspect` and `check` read them: mapped, and viewed in place.

use super::Error;
use super::error::ShapesError;
use eyelet::executor::{self, OpenError, STEP_WORK};
use eyelet::kernels::Isa;
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::{
    self, Header, LayerNames, PAGE, PlanEntry, PlanView, Region, ShapeEntry, Skeleton,
};
use eyelet::proof::{Bounds, Proven, ProvenSkeleton};
use eyelet_planner::network::{Network, Port, Weights};
use eyelet_planner::open::open;
use eyelet_planner::plan::Plan;
use eyelet_tasks::set::decided::{Pack, Place};
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A pack whose header has been checked.
pub struct PackFile {
    path: PathBuf,
    map: Mmap,
    pub header: Header,
    pub isa: Isa,
    pub shapes: Vec<ShapeEntry>,
    pub entries: Vec<PlanEntry>,
}

impl PackFile {
    /// Maps a pack and checks its header.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        Self::of(path, &open(path).map_err(unreadable)?)
    }

    /// Maps one of several packs in a file, or a file, and checks its header.
    pub fn part(pack: &Pack) -> Result<Self, Error> {
        let name = pack.name();
        let unreadable = |source| Error::Read { path: name.clone(), source };
        Self::within(&name, &open(&pack.path).map_err(unreadable)?, pack.place)
    }

    /// Maps the pack of a task, which has one shape.
    pub fn of_task(pack: &Pack) -> Result<Self, Error> {
        let pack = Self::part(pack)?;
        match pack.shapes.len() {
            1 => Ok(pack),
            shapes => Err(ShapesError::OneShape { what: "a task", shapes }.into()),
        }
    }

    /// Maps a pack that is open, whether it still has its path or not, and checks its header. What it lies in may be longer,
    /// as a partition is.
    pub fn of(path: &Path, file: &File) -> Result<Self, Error> {
        Self::within(path, file, None)
    }

    fn within(path: &Path, mut file: &File, place: Option<Place>) -> Result<Self, Error> {
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        let wrong = |source| Error::Pack { path: path.to_owned(), source };
        // A block device has no length but this.
        let end = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let Place { offset, bytes: size } = place.unwrap_or(Place { offset: 0, bytes: end });
        let mut page = vec![0; PAGE.min(size) as usize];
        file.read_exact_at(&mut page, offset).map_err(unreadable)?;
        if size < PAGE {
            return Err(wrong(too_short(&page, size)));
        }
        let header = executor::header(&page, size).map_err(wrong)?;
        // The header has been checked: no more than there is.
        let bytes = header.file_bytes as usize;
        // SAFETY: a pack is replaced by renaming, never written in place (`eyelet_planner::replace`); a
        // file that something else cuts short meanwhile ends this process, which holds nothing.
        #[allow(unsafe_code)]
        let map = unsafe { MmapOptions::new().offset(offset).len(bytes).map(file) };
        let map = map.map_err(unreadable)?;
        // The header has been checked: the code is one.
        let isa = Isa::from_code(header.isa).ok_or(wrong(OpenError::Isa { found: header.isa }))?;
        let shapes = executor::shapes(&page, header.shapes).collect();
        let entries = executor::entries(&page, header.plans).collect();
        Ok(Self { path: path.to_owned(), map, header, isa, shapes, entries })
    }

    /// What errors call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The network in one of its shapes, if its section is whole.
    ///
    /// # Panics
    /// When there is no such shape.
    pub fn skeleton(&self, shape: usize) -> Result<Skeleton<'_>, Error> {
        let ShapeEntry { offset, bytes, crc } = self.shapes[shape];
        let bytes = self.section("skeleton", offset, bytes.into(), crc)?;
        Skeleton::view(bytes).map_err(|flaw| self.wrong(flaw.into()))
    }

    /// The names of its shapes and their layers, and of strategies.
    pub fn names(&self) -> Result<LayerNames<'_>, Error> {
        let Header { names_offset, names_bytes, names_crc, .. } = self.header;
        let bytes = self.section("layers' names", names_offset, names_bytes, names_crc)?;
        LayerNames::view(bytes, self.shapes.len()).map_err(|flaw| self.wrong(flaw.into()))
    }

    /// The strategy that made a plan.
    pub fn strategy(&self, entry: &PlanEntry) -> Result<String, Error> {
        Ok(Strategies::of(self.names()?).name(entry))
    }

    /// The name of a plan's shape, where there are several.
    pub fn shape_name(&self, entry: &PlanEntry) -> Result<Option<String>, Error> {
        let name = || Ok(self.names()?.of_shape(entry.shape.into()).to_owned());
        (self.shapes.len() > 1).then(name).transpose()
    }

    /// A plan, if its section is whole.
    pub fn plan(&self, entry: &PlanEntry) -> Result<PlanView<'_>, Error> {
        let bytes = self.section("plan", entry.offset, entry.bytes.into(), entry.crc)?;
        PlanView::view(bytes).map_err(|flaw| self.wrong(flaw.into()))
    }

    /// Bytes of arena that the tables of a plan take.
    pub fn tables(&self, entry: &PlanEntry) -> u64 {
        if self.header.mapped != 0 {
            return 0;
        }
        let shape = self.shapes[usize::from(entry.shape)];
        shape.front() + u64::from(entry.bytes).next_multiple_of(PAGE)
    }

    /// A plan, proved as the runtime proves it before it runs it.
    pub fn prove(&self, entry: &PlanEntry) -> Result<Proven<'_>, Error> {
        let plan = self.plan(entry)?;
        let bounds = Bounds {
            tables: self.tables(entry),
            arena: entry.arena_bytes,
            fast: entry.fast_bytes(),
            threads: entry.threads.into(),
            step_work: STEP_WORK,
            effort: Bounds::effort_for(self.header.file_bytes, self.header.plans),
            mapped: self.header.mapped != 0,
        };
        ProvenSkeleton::new(self.skeleton(entry.shape.into())?, self.isa, self.header.weights_bytes)
            .and_then(|network| Proven::new(&network, plan, bounds))
            .map_err(|flaw| self.wrong(flaw.into()))
    }

    /// The weights section.
    pub fn weights(&self) -> Result<&[u8], Error> {
        self.bytes("weights", self.header.weights_offset, self.header.weights_bytes)
    }

    /// An error of this pack.
    pub fn wrong(&self, source: OpenError) -> Error {
        Error::Pack { path: self.path.clone(), source }
    }

    fn section(
        &self,
        section: &'static str,
        offset: u64,
        bytes: u64,
        crc: u32,
    ) -> Result<&[u8], Error> {
        self.verified(section, self.bytes(section, offset, bytes)?, crc)
    }

    fn verified<'b>(
        &self,
        section: &'static str,
        bytes: &'b [u8],
        crc: u32,
    ) -> Result<&'b [u8], Error> {
        match crc32c(0, bytes) {
            found if found == crc => Ok(bytes),
            found => Err(self.wrong(OpenError::Checksum { section, found, expected: crc })),
        }
    }

    /// A range of the file, which must start on a page.
    fn bytes(&self, section: &'static str, offset: u64, bytes: u64) -> Result<&[u8], Error> {
        let end = offset.checked_add(bytes).filter(|_| offset.is_multiple_of(PAGE));
        let range = end.and_then(|end| self.map.get(offset as usize..end as usize));
        range.ok_or_else(|| {
            let (what, index) = (section, pack::NONE);
            let found = end.unwrap_or(u64::MAX);
            self.wrong(OpenError::Flaw(pack::Flaw {
                what,
                index,
                found,
                limit: self.header.file_bytes,
            }))
        })
    }
}

/// What a file is that is too short for a pack's header.
pub fn too_short(start: &[u8], size: u64) -> OpenError {
    match start.starts_with(&pack::MAGIC[..start.len().min(pack::MAGIC.len())]) && size > 0 {
        true => OpenError::Size { found: size, expected: PAGE },
        false => OpenError::NotAPack,
    }
}

/// The network and a plan as the planner has them, from a pack's proved records. The recipes of the
/// weights are gone, and not needed to judge a plan.
pub fn planner_types(
    pack: &PackFile,
    proven: &Proven<'_>,
    entry: &PlanEntry,
) -> Result<(Network, Plan), Error> {
    let names = pack.names()?;
    let (skeleton, plan) = (proven.skeleton(), proven.plan());
    let port = |port: &pack::Port| Port {
        name: skeleton.text(port.name).to_owned(),
        tensor: port.tensor,
        kind: port.kind(),
        shape: shape_of(port).to_vec(),
    };
    let network = Network {
        name: skeleton.name().to_owned(),
        isa: proven.isa(),
        buffers: skeleton.buffers.iter().collect(),
        tensors: skeleton.tensors.to_vec(),
        layers: skeleton.layers.iter().collect(),
        names: (0..skeleton.layers.len())
            .map(|layer| names.of(entry.shape.into(), layer).to_owned())
            .collect(),
        weights: vec![Weights::None; skeleton.layers.len()],
        on_load: vec![0; skeleton.layers.len()],
        mapped: (pack.header.mapped != 0).then(|| in_place(plan, skeleton.layers.len())),
        inputs: skeleton.inputs.iter().map(port).collect(),
        outputs: skeleton.outputs.iter().map(port).collect(),
    };
    let plan = Plan {
        strategy: Strategies::of(names).name(entry),
        budget: entry.budget,
        tables: pack.tables(entry),
        arena_bytes: entry.arena_bytes,
        fast_bytes: entry.fast_bytes(),
        threads: entry.threads.into(),
        places: plan.places.iter().collect(),
        resident: plan.resident.iter().collect(),
        loads: plan.loads.iter().collect(),
        steps: plan.steps.iter().collect(),
        stages: plan.stages.iter().collect(),
        staging_bytes: plan.staging_bytes,
    };
    Ok((network, plan))
}

/// For each layer: whether steps of it use weights where they lie in the pack.
fn in_place(plan: &PlanView<'_>, layers: usize) -> Vec<bool> {
    let mut used = vec![false; layers];
    for step in plan.steps.iter().filter(|step| step.weights_in == Region::Mapped) {
        used[step.layer as usize] = true;
    }
    used
}

/// The model's own shape of a port.
pub fn shape_of(port: &pack::Port) -> Vec<usize> {
    let rank = (port.rank as usize).min(port.shape.len());
    port.shape[..rank].iter().map(|extent| *extent as usize).collect()
}

/// The strategies that made the plans of a pack. Those without a name are unknown.
#[derive(Clone, Debug, Default)]
pub struct Strategies(Vec<String>);

impl Strategies {
    pub fn of(names: LayerNames<'_>) -> Self {
        Self(names.strategies().map(str::to_owned).collect())
    }

    /// The strategy that made a plan.
    pub fn name(&self, entry: &PlanEntry) -> String {
        let named = self.0.get(usize::from(entry.strategy)).filter(|name| !name.is_empty());
        named.cloned().unwrap_or_else(|| "unknown".to_owned())
    }
}
