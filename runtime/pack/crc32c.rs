//! CRC-32C (Castagnoli, polynomial 0x1EDC6F41), the checksum of every section and every load.
