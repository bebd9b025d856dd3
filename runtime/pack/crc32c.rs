//! CRC-32C (Castagnoli, polynomial 0x1EDC6F41), the checksum of every section and every load.
//!
//! Reading and checking go together: the implementation, with the instructions that processors have
//! for it, is [`storage::crc32c`](crate::storage::crc32c).

pub use crate::storage::crc32c::crc32c;
