//! `eyelet run --dim`: which of the shapes of a pack is run.

use super::super::error::RunError;
use crate::cli::Error;
use crate::cli::pack_file::Strategies;
use eyelet::arena::MappedArena;
use eyelet::executor::OpenError;
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::{Header, LayerNames, PAGE};
use eyelet::storage::Storage;
use std::path::Path;

/// The shape that has all of these dimensions: its number, and its name where there are several.
/// Without dimensions it is the first one.
pub(super) fn find(
    path: &Path,
    storage: &mut impl Storage,
    header: &Header,
    dims: &[(String, usize)],
) -> Result<(usize, Option<String>), Error> {
    if header.shapes == 1 && dims.is_empty() {
        return Ok((0, None));
    }
    let names = names(path, storage, header)?;
    let wanted: Vec<String> =
        dims.iter().map(|(name, extent)| format!("{name}={extent}")).collect();
    let has = |name: &String| wanted.iter().all(|dim| name.split(',').any(|part| part == dim));
    match names.iter().position(has) {
        Some(shape) => Ok((shape, Some(names[shape].clone()).filter(|name| !name.is_empty()))),
        None => {
            Err(RunError::Shape { path: path.to_owned(), asked: wanted.join(","), shapes: names }
                .into())
        }
    }
}

/// Memory for a section of so many bytes, in whole pages.
pub(super) fn room(bytes: u64) -> Result<MappedArena, Error> {
    Ok(MappedArena::new(bytes.next_multiple_of(PAGE) as usize)?)
}

/// A section of a pack whose header has been checked, so that it is a part of the file.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

impl Section {
    /// Reads it into whole pages, as everything else is read, and compares it with its checksum.
    pub(super) fn read<'m>(
        &self,
        path: &Path,
        storage: &mut impl Storage,
        pages: &'m mut [u8],
    ) -> Result<&'m [u8], Error> {
        let wrong = |source| Error::pack(path, source);
        storage.read(self.offset, pages).map_err(|error| wrong(error.into()))?;
        let bytes = &pages[..self.bytes as usize];
        let (section, expected) = (self.name, self.crc);
        match crc32c(0, bytes) {
            found if found == expected => Ok(bytes),
            found => Err(wrong(OpenError::Checksum { section, found, expected })),
        }
    }
}

/// The names of all shapes.
fn names(path: &Path, storage: &mut impl Storage, header: &Header) -> Result<Vec<String>, Error> {
    let shapes = 0..header.shapes as usize;
    let of = |names: LayerNames<'_>| shapes.map(|at| names.of_shape(at).to_owned()).collect();
    with_names(path, storage, header, of)
}

/// The strategies that made the plans.
pub(super) fn strategies(
    path: &Path,
    storage: &mut impl Storage,
    header: &Header,
) -> Result<Strategies, Error> {
    with_names(path, storage, header, Strategies::of)
}

/// What is made of a pack's names.
fn with_names<T>(
    path: &Path,
    storage: &mut impl Storage,
    header: &Header,
    of: impl FnOnce(LayerNames<'_>) -> T,
) -> Result<T, Error> {
    let &Header { names_offset, names_bytes, names_crc, shapes, .. } = header;
    let section =
        Section { name: "layers' names", offset: names_offset, bytes: names_bytes, crc: names_crc };
    let mut pages = room(names_bytes)?;
    let mut pages = pages.memory();
    let bytes = section.read(path, storage, pages.as_mut_slice())?;
    let names = LayerNames::view(bytes, shapes as usize);
    names.map(of).map_err(|flaw| Error::pack(path, OpenError::Flaw(flaw)))
}
