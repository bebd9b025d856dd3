//! The memory that a pack needs, from its header. A program can ask for it at compile time.

use super::{
    Flaw, Header, Isa, MAGIC, MAX_PLANS, MAX_SHAPES, NONE, PAGE, PLANS, PlanEntry, VERSION,
};
use core::mem::offset_of;

/// The memory that a pack needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The instruction set that it is for.
    pub isa: Isa,
    /// Bytes of the whole pack: what mapped memory must hold.
    pub pack_bytes: u64,
    /// How many shapes it has.
    pub shapes: u32,
    plans: [PlanNeeds; MAX_PLANS],
    count: usize,
}

/// The memory that a plan needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanNeeds {
    /// The budget that it was made for.
    pub budget: u64,
    /// Bytes of arena: of the regions working and kept.
    pub arena_bytes: u64,
    /// Bytes of fast memory: of the region fast.
    pub fast_bytes: u64,
    /// The largest number of compute threads that it has scratch for.
    pub threads: u32,
    /// The shape that it computes.
    pub shape: u16,
}

impl Needs {
    /// The needs of each plan, in the order of the pack; there is at least one.
    pub const fn plans(&self) -> &[PlanNeeds] {
        self.plans.split_at(self.count).0
    }

    /// The bytes of arena with which every shape has a plan.
    pub const fn least_arena_bytes(&self) -> u64 {
        let mut most = 0;
        let mut shape = 0;
        while shape < self.shapes {
            let mut least = u64::MAX;
            let mut at = 0;
            while at < self.count {
                let plan = self.plans[at];
                if plan.shape as u32 == shape && plan.arena_bytes < least {
                    least = plan.arena_bytes;
                }
                at += 1;
            }
            if least > most {
                most = least;
            }
            shape += 1;
        }
        most
    }

    /// The bytes of fast memory with which every shape has a plan in an arena of `arena_bytes`
    /// bytes. `u64::MAX`: in such an arena some shape has none.
    pub const fn least_fast_bytes(&self, arena_bytes: u64) -> u64 {
        let mut most = 0;
        let mut shape = 0;
        while shape < self.shapes {
            let mut least = u64::MAX;
            let mut at = 0;
            while at < self.count {
                let plan = self.plans[at];
                let fits = plan.shape as u32 == shape && plan.arena_bytes <= arena_bytes;
                if fits && plan.fast_bytes < least {
                    least = plan.fast_bytes;
                }
                at += 1;
            }
            if least > most {
                most = least;
            }
            shape += 1;
        }
        most
    }
}

/// Reads what a pack needs from its header. It reads nothing else and proves nothing: `open` does
/// that.
pub const fn needs(pack: &[u8]) -> Result<Needs, Flaw> {
    let first = size_of::<Header>();
    if pack.len() < first {
        return Err(wrong(
            "it is no pack: it is shorter than a header",
            pack.len() as u64,
            first as u64,
        ));
    }
    let mut at = 0;
    while at < MAGIC.len() {
        if pack[at] != MAGIC[at] {
            return Err(wrong(
                "it is no pack: it does not begin as one",
                pack[at] as u64,
                MAGIC[at] as u64,
            ));
        }
        at += 1;
    }
    let version = word(pack, offset_of!(Header, version));
    if version != VERSION {
        let what = "the pack has another version of the format: plan the model again";
        return Err(wrong(what, version as u64, VERSION as u64));
    }
    let code = word(pack, offset_of!(Header, isa));
    if code as usize >= Isa::ALL.len() {
        return Err(wrong(
            "the pack is for an unknown instruction set",
            code as u64,
            Isa::ALL.len() as u64,
        ));
    }
    let count = word(pack, offset_of!(Header, plans)) as usize;
    if count == 0 || count > MAX_PLANS || pack.len() < PLANS + count * size_of::<PlanEntry>() {
        return Err(wrong(
            "the pack has no plan, too many plans, or is cut short",
            count as u64,
            MAX_PLANS as u64,
        ));
    }
    let shapes = word(pack, offset_of!(Header, shapes));
    if shapes == 0 || shapes as usize > MAX_SHAPES {
        return Err(wrong("the pack has no shape, or too many", shapes as u64, MAX_SHAPES as u64));
    }
    const NOTHING: PlanNeeds =
        PlanNeeds { budget: 0, arena_bytes: 0, fast_bytes: 0, threads: 0, shape: 0 };
    let mut plans = [NOTHING; MAX_PLANS];
    let mut plan = 0;
    while plan < count {
        let entry = PLANS + plan * size_of::<PlanEntry>();
        plans[plan] = PlanNeeds {
            budget: long(pack, entry + offset_of!(PlanEntry, budget)),
            arena_bytes: long(pack, entry + offset_of!(PlanEntry, arena_bytes)),
            fast_bytes: half(pack, entry + offset_of!(PlanEntry, fast_pages)) as u64 * PAGE,
            threads: half(pack, entry + offset_of!(PlanEntry, threads)) as u32,
            shape: half(pack, entry + offset_of!(PlanEntry, shape)),
        };
        plan += 1;
    }
    let pack_bytes = long(pack, offset_of!(Header, file_bytes));
    Ok(Needs { isa: Isa::ALL[code as usize], pack_bytes, shapes, plans, count })
}

const fn wrong(what: &'static str, found: u64, limit: u64) -> Flaw {
    Flaw { what, index: NONE, found, limit }
}

const fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

const fn long(bytes: &[u8], at: usize) -> u64 {
    (word(bytes, at + 4) as u64) << 32 | word(bytes, at) as u64
}

const _: () = {
    let mut code = 0;
    while code < Isa::ALL.len() {
        assert!(Isa::ALL[code] as usize == code, "a code is an index");
        code += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::{Zeroable, bytes_of};

    const ENTRIES: usize = 3;

    fn pack(change: impl FnOnce(&mut Header)) -> [u8; PLANS + ENTRIES * size_of::<PlanEntry>()] {
        let mut header = Header { magic: MAGIC, version: VERSION, ..Header::zeroed() };
        (header.isa, header.plans, header.shapes) = (3, ENTRIES as u32, 2);
        header.file_bytes = (7 << 32) + 5;
        change(&mut header);
        let entry = |arena_bytes, shape| PlanEntry {
            budget: 1 << 40,
            arena_bytes,
            threads: 2,
            fast_pages: 12 - arena_bytes as u16,
            shape,
            ..PlanEntry::zeroed()
        };
        let mut bytes = [0; PLANS + ENTRIES * size_of::<PlanEntry>()];
        let (head, tail) = bytes.split_at_mut(PLANS);
        head[..size_of::<Header>()].copy_from_slice(bytes_of(&header));
        tail.copy_from_slice(bytes_of(&[entry(9, 0), entry(4, 0), entry(6, 1)]));
        bytes
    }

    #[test]
    fn needs_are_those_of_the_header() {
        let needs = needs(&pack(|_| ())).unwrap();
        assert_eq!((needs.isa, needs.shapes, needs.pack_bytes), (Isa::Neon, 2, (7 << 32) + 5));
        let plan = |arena_bytes, shape| PlanNeeds {
            budget: 1 << 40,
            arena_bytes,
            fast_bytes: 4096 * (12 - arena_bytes),
            threads: 2,
            shape,
        };
        assert_eq!(needs.plans(), [plan(9, 0), plan(4, 0), plan(6, 1)]);
        assert_eq!(needs.least_arena_bytes(), 6);
        // The first shape's larger plan has less in fast memory. The second shape has one plan.
        assert_eq!(
            [5, 6, 8, 9].map(|arena| needs.least_fast_bytes(arena) / 4096),
            [u64::MAX / 4096, 8, 8, 6]
        );
    }

    #[test]
    fn what_is_no_pack_is_refused() {
        let refused = |pack: &[u8], text: &str| {
            let flaw = needs(pack).unwrap_err();
            assert!(flaw.what.contains(text), "{flaw}");
        };
        let good = pack(|_| ());
        refused(&good[..40], "shorter than a header");
        refused(&good[..good.len() - 1], "cut short");
        refused(&pack(|header| header.magic[3] = 0), "does not begin");
        refused(&pack(|header| header.version += 1), "another version");
        refused(&pack(|header| header.isa = 99), "unknown instruction set");
        refused(&pack(|header| header.plans = 0), "no plan");
        refused(&pack(|header| header.shapes = 0), "no shape");
        refused(&pack(|header| header.plans = u32::MAX), "too many");
    }
}
