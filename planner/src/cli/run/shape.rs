//! `eyelet run --dim`: which of the shapes of a pack is run.

use super::super::error::RunError;
use crate::cli::Error;
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

/// The names of all shapes, which are read as everything else is.
fn names(path: &Path, storage: &mut impl Storage, header: &Header) -> Result<Vec<String>, Error> {
    let wrong = |source| Error::pack(path, source);
    let &Header { names_offset, names_bytes, names_crc: expected, shapes, .. } = header;
    // The header has been checked: it is a part of the file.
    let mut section = MappedArena::new(names_bytes.next_multiple_of(PAGE) as usize)?;
    let mut section = section.memory();
    storage.read(names_offset, section.as_mut_slice()).map_err(|error| wrong(error.into()))?;
    let bytes = &section.as_slice()[..names_bytes as usize];
    let found = crc32c(0, bytes);
    if found != expected {
        return Err(wrong(OpenError::Checksum { section: "layers' names", found, expected }));
    }
    let names = LayerNames::view(bytes, shapes as usize);
    let names = names.map_err(|flaw| wrong(OpenError::Flaw(flaw)))?;
    Ok((0..shapes as usize).map(|shape| names.of_shape(shape).to_owned()).collect())
}
