//! The keys of a description, with their kinds and ranges.
//!
//! This table is the schema. [`Document::parse`](crate::Document::parse) checks a file against it,
//! and a test compares it with `docs/boards.md`.

use Kind::*;
use Need::*;

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub need: Need,
    pub kind: Kind,
}

/// Whether a table is complete without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Required,
    Optional,
    /// The former name of an optional key. Profiles that were measured then are still read.
    Former,
}

/// The kind of a value.
#[derive(Debug)]
pub enum Kind {
    /// A string that is not empty.
    Text,
    /// A string of a form that the function accepts, which the text describes.
    Formed(fn(&str) -> bool, &'static str),
    /// One of these strings.
    Choice(&'static [&'static str]),
    Flag,
    Integer(Range),
    /// A power of two.
    Power(Range),
    /// Bytes: an integer, or a string such as "512KiB".
    Size(Range),
    Number(Range),
    Integers(Range),
    Table(&'static [Key]),
    /// A table in which nothing is required: what differs from another table.
    Part(&'static [Key]),
    /// A list of tables, none of them where the key is left out.
    Tables(&'static [Key]),
}

/// Which numbers there may be; NaN is in no range.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub least: f64,
    pub most: f64,
    pub text: &'static str,
}

impl Range {
    pub fn holds(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

const fn range(least: f64, most: f64, text: &'static str) -> Range {
    Range { least, most, text }
}

/// Rates, in whatever they are counted by: time for work and bytes of any size stays far below what a number holds.
const RATES: Range = range(1e-4, 1e9, "between 0.0001 and 1e9");
/// Rates of work that may take no time.
const FREE: Range = range(1e-4, f64::INFINITY, "0.0001 or more");
/// Nanoseconds of something that is done many times.
const TIMES: Range = range(0.0, 1e9, "between 0 and 1e9");
const SHARES: Range = range(0.0, 1.0, "between 0 and 1");
const SIZES: Range = range(1.0, TWO_50, "between 1 and 2^50");
const CACHES: Range = range(0.0, TWO_50, "between 0 and 2^50");
const THREADS: Range = range(1.0, 1024.0, "between 1 and 1024");
const CORE_NUMBERS: Range = range(0.0, 1023.0, "between 0 and 1023");
const LITTLE_SPEEDS: Range = range(0.01, 1.0, "between 0.01 and 1");
const DEPTHS: Range = range(1.0, 8.0, "between 1 and 8");
const MULTIPROCESSORS: Range =
    range(1.0, 65536.0, "between 1 and 65536 with isa = \"cuda\", and left out without");
const PAGES: Range = range(1.0, 4096.0, "a power of two and at most 4096");
/// The lowest address of the last page of 2^52 bytes: doubles are exact below.
const ADDRESSES: Range = range(0.0, 4503599627370495.0, "between 0 and 2^52 - 1");
const HERTZ: Range = range(1.0, 1e12, "between 1 and 1e12");
/// The result of a fit: any number.
const FITTED: Range = range(f64::MIN, f64::MAX, "finite");
const TWO_50: f64 = (1u64 << 50) as f64;

const fn must(name: &'static str, kind: Kind) -> Key {
    Key { name, need: Required, kind }
}

const fn may(name: &'static str, kind: Kind) -> Key {
    Key { name, need: Optional, kind }
}

const fn former(name: &'static str, kind: Kind) -> Key {
    Key { name, need: Former, kind }
}

/// The instruction sets that packs are made for.
pub const ISAS: &[&str] = &["portable", "avx2", "avx512", "neon", "cuda"];

/// A board.toml.
pub const BOARD: &[Key] = &[
    must("name", Text),
    must("description", Text),
    must("page", Power(PAGES)),
    may("isa", Choice(ISAS)),
    may("threads", Integer(THREADS)),
    may("cores", Table(CORES)),
    may("clock", Table(CLOCK)),
    may("storage", Table(DEVICE)),
    may("memory", Tables(MEMORY)),
    may("profile", Table(COSTS)),
    may("gpu", Table(GPU)),
];

const CORES: &[Key] = &[
    must("count", Integer(THREADS)),
    may("big", Integers(CORE_NUMBERS)),
    may("little_speed", Number(LITTLE_SPEEDS)),
    may("loader", Integer(CORE_NUMBERS)),
    may("pipeline", Choice(&["in-order", "out-of-order"])),
];

const CLOCK: &[Key] = &[must("hz", Integer(HERTZ))];

const DEVICE: &[Key] =
    &[must("kind", Choice(&["flash", "nor", "nand", "emmc", "sd", "nvme", "virtio", "disk"]))];

const MEMORY: &[Key] = &[
    must("name", Formed(is_identifier, "a lower-case letter, then letters, digits and _")),
    must("kind", Choice(&["ram", "flash"])),
    must("base", Integer(ADDRESSES)),
    must("bytes", Size(SIZES)),
    may("gbs", Number(RATES)),
    may("working", Size(SIZES)),
    may("kept", Size(SIZES)),
    may("fast", Size(SIZES)),
    may("mapped", Size(SIZES)),
    may("stack", Size(SIZES)),
];

const GPU: &[Key] = &[
    must("arch", Formed(is_arch, "like sm_53")),
    must("multiprocessors", Integer(MULTIPROCESSORS)),
    must("memory", Choice(&["zero-copy", "staged"])),
    must("ptx", Formed(is_ptx, "like 6.5")),
    must("profile", Table(GPU_COSTS)),
    may("staged", Part(GPU_COSTS)),
];

/// Costs on a processor.
const COSTS: &[Key] = &[
    must("estimated", Flag),
    must("source", Text),
    must("compute", Table(COMPUTE)),
    must("storage", Table(STORAGE)),
    may("mapped", Table(MAPPED)),
    may("transfer", Table(TRANSFER)),
    may("delays", Table(DELAYS)),
];

/// Costs on a GPU. It uses the processor's storage, if there is one.
const GPU_COSTS: &[Key] = &[
    must("estimated", Flag),
    must("source", Text),
    must("compute", Table(COMPUTE)),
    may("storage", Table(STORAGE)),
    may("transfer", Table(TRANSFER)),
    may("delays", Table(DELAYS)),
];

/// A profile, as `eyelet profile` writes it.
pub const PROFILE: &[Key] = &[
    must("name", Text),
    must("isa", Choice(ISAS)),
    must("threads", Integer(THREADS)),
    may("multiprocessors", Integer(MULTIPROCESSORS)),
    may("cores", Table(UNEQUAL_CORES)),
    must("estimated", Flag),
    must("source", Text),
    must("compute", Table(COMPUTE)),
    must("storage", Table(STORAGE)),
    may("mapped", Table(MAPPED)),
    may("transfer", Table(TRANSFER)),
    may("delays", Table(DELAYS)),
    may("steadiness", Table(STEADINESS)),
];

/// How steady a machine was that was measured.
const STEADINESS: &[Key] = &[
    must("one_thread", Table(TURNS)),
    must("all_threads", Table(TURNS)),
    must("reads", Table(TURNS)),
];

const TURNS: &[Key] = &[must("fastest", Number(RATES)), must("slowest", Number(RATES))];

/// Cores of two kinds, in a profile.
const UNEQUAL_CORES: &[Key] = &[
    must("count", Integer(THREADS)),
    must("big", Integers(CORE_NUMBERS)),
    must("little_speed", Number(LITTLE_SPEEDS)),
    may("loader", Integer(CORE_NUMBERS)),
];

const COMPUTE: &[Key] = &[
    must("conv_1x1_gflops", Number(RATES)),
    must("conv_kxk_gflops", Number(RATES)),
    must("depthwise_gflops", Number(RATES)),
    may("conv_1x1_piece_ns", Number(TIMES)),
    may("conv_kxk_piece_ns", Number(TIMES)),
    may("depthwise_piece_ns", Number(TIMES)),
    may("depthwise_wait_ns_per_byte", Number(TIMES)),
    must("matmul_gflops", Number(RATES)),
    must("fully_connected_gbs", Number(RATES)),
    must("transform_gbs", Number(RATES)),
    may("transform_spill_ns_per_byte", Number(TIMES)),
    may("product_ns", Number(TIMES)),
    may("product_ns_per_byte", Number(TIMES)),
    must("widen_gbs", Number(FREE)),
    must("transform_weights_gbs", Number(FREE)),
    must("elementwise_gbs", Number(RATES)),
    must("function_gbs", Number(RATES)),
    must("pool_gbs", Number(RATES)),
    must("copy_gbs", Number(RATES)),
    must("memory_gbs", Number(RATES)),
    must("cache_bytes", Integer(CACHES)),
    may("shared_cache_bytes", Integer(CACHES)),
    may("shared_cache_gbs", Number(TIMES)),
    must("exposed", Number(SHARES)),
    may("winograd_exposed", Number(SHARES)),
    must("scaling", Number(SHARES)),
    must("step_overhead_ns", Integer(TIMES)),
    may("speed_probe_gflops", Number(RATES)),
    may("speed_probe_all_gflops", Number(RATES)),
];

const STORAGE: &[Key] = &[
    may("io", Choice(&["direct", "buffered", "memory"])),
    may("depth", Integer(DEPTHS)),
    may("window", Integer(SIZES)),
    may("together", Flag),
    must("latency_ns", Integer(TIMES)),
    must("reads", Tables(READS)),
    must("checksum_gbs", Number(RATES)),
    may("llc", Table(LLC)),
    may("contention", Table(CONTENTION)),
    may("queued_reads", Tables(QUEUED)),
    former("near", Table(LLC)),
    former("drag", Table(DRAG)),
    former("deeper", Tables(QUEUED)),
];

const READS: &[Key] = &[must("bytes", Integer(SIZES)), must("mbs", Number(RATES))];

const LLC: &[Key] = &[must("reads", Tables(READS)), must("checksum_gbs", Number(RATES))];

const CONTENTION: &[Key] =
    &[must("llc_ns_per_byte", Number(TIMES)), must("dram_ns_per_byte", Number(TIMES))];

const DRAG: &[Key] =
    &[must("near_ns_per_byte", Number(TIMES)), must("far_ns_per_byte", Number(TIMES))];

const QUEUED: &[Key] =
    &[must("depth", Integer(DEPTHS)), must("bytes", Integer(SIZES)), must("mbs", Number(RATES))];

/// Flash that is read like memory.
const MAPPED: &[Key] = &[must("gbs", Number(RATES))];

const TRANSFER: &[Key] = &[must("latency_ns", Integer(TIMES)), must("gbs", Number(RATES))];

const DELAYS: &[Key] = &[
    must("alpha_ns_per_byte", Number(FITTED)),
    must("beta_ns", Number(FITTED)),
    must("gamma_ns_per_flop", Number(FITTED)),
    must("eta_ns", Number(FITTED)),
    must("in_residual", Number(FITTED)),
    must("ex_residual", Number(FITTED)),
];

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_arch(text: &str) -> bool {
    text.strip_prefix("sm_").is_some_and(digits)
}

fn is_ptx(text: &str) -> bool {
    text.split_once('.').is_some_and(|(major, minor)| digits(major) && digits(minor))
}

/// Whether linkers, C and Rust accept the text as a part of a name.
fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}
