//! A pack in addressable memory: memory-mapped flash, or an array in a test.

use super::{Storage, StorageError};

/// A pack in memory.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a>(
    /// All bytes of the pack.
    pub &'a [u8],
);

impl Storage for Slice<'_> {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.0.len() as u64)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let rest = usize::try_from(offset).ok().and_then(|start| self.0.get(start..));
        let rest = rest.unwrap_or_default();
        match rest.get(..into.len()) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => {
                let (wanted, got) = (into.len() as u64, rest.len() as u64);
                return Err(StorageError::Short { offset, wanted, got });
            }
        }
        Ok(())
    }

    fn alignment(&self) -> u64 {
        1
    }

    fn mapped<'s>(&self) -> Option<&'s [u8]>
    where
        Self: 's,
    {
        Some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there_and_no_more() {
        let bytes: [u8; 256] = core::array::from_fn(|i| i as u8);
        let mut slice = Slice(&bytes);
        let mut into = [0; 16];
        for offset in 0..=240 {
            slice.read(offset, &mut into).unwrap();
            assert_eq!(into, bytes[offset as usize..][..16]);
        }
        for (offset, got) in [(241, 15), (256, 0), (257, 0), (u64::MAX, 0)] {
            let short = StorageError::Short { offset, wanted: 16, got };
            assert_eq!(slice.read(offset, &mut into), Err(short));
        }
        assert_eq!(slice.len(), Ok(256));
        assert_eq!(slice.is_empty(), Ok(false));
    }

    #[test]
    fn its_bytes_outlive_it() {
        fn lent<'s>(storage: impl Storage + 's) -> Option<&'s [u8]> {
            storage.mapped()
        }
        let bytes = [7; 16];
        let mut slice = Slice(&bytes);
        assert_eq!(lent(slice), Some(&bytes[..]));
        let inside: &mut (dyn Storage + '_) = &mut slice;
        assert_eq!(lent(inside), Some(&bytes[..]));
    }
}
