//! Any bytes as a set's file, with the checksum put right: an error, or tasks that lie in the file.

use bytemuck::{bytes_of, pod_read_unaligned};
use eyelet::pack::PAGE;
use eyelet::pack::crc32c::crc32c;
use eyelet::set::{SET_MAGIC, SET_VERSION, SetFile, SetHeader};
use eyelet::storage::{Part, Slice, Storage};

/// Returns whether the bytes are a set's file.
pub fn run(data: &[u8]) -> bool {
    if data.len() < PAGE as usize {
        return false;
    }
    let mut file = data.to_vec();
    let mut header: SetHeader = pod_read_unaligned(&file[..size_of::<SetHeader>()]);
    header = SetHeader { magic: SET_MAGIC, version: SET_VERSION, crc: 0, ..header };
    let end = (header.table_bytes as usize).min(file.len());
    file[..size_of::<SetHeader>()].copy_from_slice(bytes_of(&header));
    header.crc = crc32c(0, &file[..end]);
    file[..size_of::<SetHeader>()].copy_from_slice(bytes_of(&header));
    let mut memory = vec![0u64; 8 * PAGE as usize / 8];
    let memory = bytemuck::cast_slice_mut(&mut memory);
    let Ok((set, rest)) = SetFile::read(&mut Slice(&file), memory) else { return false };
    let rest = rest.len();
    assert!(set.tasks().len() > 0 && rest + header.table_bytes as usize == 8 * PAGE as usize);
    // As the reader adds: a memory may be said to be as large as numbers get.
    let chunks = |count: u32| u64::from(count).saturating_mul(set.chunk_bytes());
    let mut stay = chunks(set.header().pool);
    for entry in set.tasks() {
        let mut pack = Part::new(Slice(&file), entry.pack_offset, entry.pack_bytes).unwrap();
        let mapped = pack.mapped().map(<[u8]>::len);
        assert_eq!(mapped.map(|len| len as u64), pack.len().ok(), "the pack lies in the file");
        if entry.pack_bytes > 0 {
            pack.read(entry.pack_bytes - 1, &mut [0]).unwrap();
        }
        stay = stay.saturating_add(entry.bytes - chunks(entry.task.chunks));
    }
    assert!(stay <= set.memory_bytes());
    true
}
