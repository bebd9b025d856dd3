//! Arbitrary bytes as a pack: it is refused, or it runs inside its arena.
//!
//! `cargo +nightly fuzz run open`, best with a small pack in `fuzz/corpus/open`. What the mutations break
//! and nothing later relies on is repaired first (signature, version, length, checksums), so that they get
//! as far as the records.

#![no_main]

use eyelet::device::Inline;
use eyelet::executor::{Instance, Options};
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::{Header, MAGIC, PAGE, PlanEntry, VERSION};
use eyelet::storage::Slice;
use libfuzzer_sys::fuzz_target;
use std::mem::{offset_of, size_of};
use std::ops::Range;

/// More is refused for want of arena, and would only be slow.
const ARENA: usize = 1 << 20;

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The checksum of a section, if the section is in the pack.
fn checksum(pack: &[u8], offset: u64, bytes: u64) -> Option<[u8; 4]> {
    let range: Range<usize> =
        offset.try_into().ok()?..offset.checked_add(bytes)?.try_into().ok()?;
    Some(crc32c(0, pack.get(range)?).to_le_bytes())
}

fn repair(pack: &mut [u8]) {
    let length = pack.len() as u64;
    put(pack, offset_of!(Header, magic), &MAGIC);
    put(pack, offset_of!(Header, version), &VERSION.to_le_bytes());
    put(pack, offset_of!(Header, file_bytes), &length.to_le_bytes());
    let (offset, bytes) = (
        word(pack, offset_of!(Header, skeleton_offset)),
        word(pack, offset_of!(Header, skeleton_bytes)),
    );
    if let Some(crc) = checksum(pack, offset, bytes) {
        put(pack, offset_of!(Header, skeleton_crc), &crc);
    }
    let entries = (size_of::<Header>()..PAGE as usize).step_by(size_of::<PlanEntry>());
    for entry in entries.take_while(|entry| entry + size_of::<PlanEntry>() <= PAGE as usize) {
        let offset = word(pack, entry + offset_of!(PlanEntry, offset));
        let bytes = word(pack, entry + offset_of!(PlanEntry, bytes));
        if let Some(crc) = checksum(pack, offset, bytes) {
            put(pack, entry + offset_of!(PlanEntry, crc), &crc);
        }
    }
    put(pack, offset_of!(Header, crc), &[0; 4]);
    let crc = crc32c(0, &pack[..PAGE as usize]).to_le_bytes();
    put(pack, offset_of!(Header, crc), &crc);
}

fuzz_target!(|data: &[u8]| {
    let mut pack = data.to_vec();
    pack.resize(data.len().next_multiple_of(PAGE as usize).max(PAGE as usize), 0);
    repair(&mut pack);
    let mut memory = vec![0u8; ARENA + PAGE as usize];
    let start = memory.as_ptr().align_offset(PAGE as usize);
    let mut storage = Slice(&pack);
    // Checksums of weights are not repaired, and not what is tested here.
    let options = Options { verify: false, threads: 1 };
    let Ok(mut instance) = Instance::open(&mut storage, &mut memory[start..][..ARENA], options)
    else {
        return;
    };
    let mut model = instance.inline(&mut storage);
    for _ in 0..2 {
        let mut index = 0;
        while let Some(input) = model.input_mut(index) {
            input.fill(1.0);
            index += 1;
        }
        let _ = model.infer(&Inline);
    }
});
