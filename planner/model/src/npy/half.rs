//! Floats of half precision in `.npy` files.

use npyz::{DType, DTypeError, Deserialize, Endianness, Serialize, TypeRead, TypeWrite};
use std::io::{self, Read};

/// A float of half precision, as it is stored.
pub struct Half(pub u16);

/// Reads and writes halves in a byte order.
pub struct Halves {
    big: bool,
}

impl Halves {
    fn new(dtype: &DType) -> Self {
        let big = matches!(dtype, DType::Plain(found) if found.endianness() == Endianness::Big);
        Self { big }
    }
}

impl Deserialize for Half {
    type TypeReader = Halves;

    fn reader(dtype: &DType) -> Result<Halves, DTypeError> {
        Ok(Halves::new(dtype))
    }
}

impl Serialize for Half {
    type TypeWriter = Halves;

    fn writer(dtype: &DType) -> Result<Halves, DTypeError> {
        Ok(Halves::new(dtype))
    }
}

impl TypeRead for Halves {
    type Value = Half;

    fn read_one<R: Read>(&self, mut bytes: R) -> io::Result<Half> {
        let mut pair = [0; 2];
        bytes.read_exact(&mut pair)?;
        Ok(Half(if self.big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }))
    }
}

impl TypeWrite for Halves {
    type Value = Half;

    fn write_one<W: io::Write>(&self, mut writer: W, value: &Half) -> io::Result<()> {
        writer.write_all(&if self.big { value.0.to_be_bytes() } else { value.0.to_le_bytes() })
    }
}
