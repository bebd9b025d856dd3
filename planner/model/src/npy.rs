//! NumPy's `.npy` files: inputs and outputs of a network outside it.
//!
//! Elements pass through a buffer of 64 KiB straight into or out of the caller's slice, so that an
//! input can be read into the arena without a second copy of it in memory. What is read may be of any
//! real number type, byte order and memory order; it arrives as f32 in C order, or as words where the
//! network has integers. What is written is little-endian, of the network's own type, in C order.

mod half;

use crate::replace::replace;
use crate::weights::halves;
use eyelet::kernels::table::f16;
use eyelet::pack::PortType;
use half::Half;
use npyz::{
    Deserialize, NpyFile, NpyHeader, Order, Serialize, TypeChar, WriteOptions, WriterBuilder,
};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 64 << 10;
/// Longest header accepted; NumPy's are 118 bytes unless the array has dozens of axes.
const HEADER_BYTES: u64 = 1 << 10;

/// Why a `.npy` file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not a .npy file: {source}", path.display())]
    Header { path: PathBuf, source: io::Error },
    #[error(
        "{} holds elements of type {dtype}; needed are real numbers: save it with .astype('f4')",
        path.display()
    )]
    Type { path: PathBuf, dtype: String },
    #[error(
        "{} holds elements of type {dtype}; needed are integers: save it with .astype('{kind}')",
        path.display()
    )]
    Fraction { path: PathBuf, dtype: String, kind: &'static str },
    #[error(
        "{} holds {found}; elements of type {kind} are {least} to {most} here",
        path.display()
    )]
    Range { path: PathBuf, found: i128, kind: &'static str, least: i32, most: i32 },
    #[error("{} has shape {found:?}; needed is {needed:?}", path.display())]
    Shape { path: PathBuf, found: Vec<usize>, needed: Vec<usize> },
    #[error("{} has shape {shape:?}: more elements than memory can hold", path.display())]
    TooLarge { path: PathBuf, shape: Vec<u64> },
    #[error(
        "{} is truncated: shape {shape:?} takes {needed} bytes of data, the file has {found}",
        path.display()
    )]
    Truncated { path: PathBuf, shape: Vec<usize>, needed: u64, found: u64 },
    #[error(
        "{} has shape {shape:?}, {} elements; the slice has {slice}",
        path.display(),
        shape.iter().product::<usize>()
    )]
    Length { path: PathBuf, shape: Vec<usize>, slice: usize },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// An open `.npy` file whose header has been read.
pub struct Npy {
    path: PathBuf,
    header: NpyHeader,
    kind: (TypeChar, usize),
    shape: Vec<usize>,
    elements: usize,
    data: BufReader<File>,
}

impl Npy {
    /// The type of its elements where that is bytes (`u1`, `i1`), as pictures are saved.
    pub fn bytes(&self) -> Option<&'static str> {
        match self.kind {
            (TypeChar::Uint, 1) => Some("u1"),
            (TypeChar::Int, 1) => Some("i1"),
            _ => None,
        }
    }
}

/// Numbers of a file, as exact as it has them.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    Whole(Vec<i128>),
    Real(Vec<f64>),
}

impl Numbers {
    pub fn len(&self) -> usize {
        match self {
            Numbers::Whole(numbers) => numbers.len(),
            Numbers::Real(numbers) => numbers.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reads the header of the file at `path`.
pub fn open(path: impl AsRef<Path>) -> Result<Npy, Error> {
    let path = path.as_ref().to_path_buf();
    let file = match crate::open::open(&path) {
        Ok(file) => file,
        Err(source) => return Err(Error::Read { path, source }),
    };
    let length = file.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
    let mut data = BufReader::with_capacity(BUFFER_BYTES, file);
    let header = match header(&mut data) {
        Ok(header) => header,
        Err(source) => return Err(Error::Header { path, source }),
    };
    let kind = match header.dtype() {
        npyz::DType::Plain(scalar) => scalar.num_bytes().map(|size| (scalar.type_char(), size)),
        _ => None,
    };
    let Some(kind) = kind.filter(|kind| is_real(*kind)) else {
        return Err(Error::Type { path, dtype: header.dtype().descr() });
    };
    let extents: Option<Vec<usize>> =
        header.shape().iter().map(|&extent| extent.try_into().ok()).collect();
    let Some((shape, elements, bytes)) = extents.and_then(|shape| {
        let elements = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))?;
        // As f32 and as they are stored.
        let bytes = elements.checked_mul(kind.1.max(size_of::<f32>()))?;
        (bytes <= isize::MAX as usize).then_some((shape, elements, (elements * kind.1) as u64))
    }) else {
        return Err(Error::TooLarge { path, shape: header.shape().to_vec() });
    };
    if let (Some(length), Ok(start)) = (length, data.stream_position()) {
        let found = length.saturating_sub(start);
        if found < bytes {
            return Err(Error::Truncated { path, shape, needed: bytes, found });
        }
    }
    Ok(Npy { path, header, kind, shape, elements, data })
}

/// Reads a header, whose length is looked at before memory is taken for it.
fn header(data: &mut impl Read) -> io::Result<NpyHeader> {
    // Magic, version, and the length: of two bytes in version 1, of four in later ones.
    let mut start = Vec::with_capacity(12);
    data.by_ref().take(12).read_to_end(&mut start)?;
    let length = match start[..] {
        [_, _, _, _, _, _, 1, _, a, b, ..] => u32::from(u16::from_le_bytes([a, b])),
        [_, _, _, _, _, _, _, _, a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    };
    if start.starts_with(b"\x93NUMPY") && u64::from(length) > HEADER_BYTES {
        let reason =
            format!("its header says that it has {length} bytes, at most {HEADER_BYTES} are read");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    NpyHeader::from_reader(start.chain(data.take(HEADER_BYTES)))
}

impl Npy {
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The product of the shape.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Reads all elements into `out`, in C order; f64 and wide integers are rounded to the nearest f32.
    pub fn read_into(self, out: &mut [f32]) -> Result<(), Error> {
        if out.len() != self.elements {
            let Npy { path, shape, .. } = self;
            return Err(Error::Length { path, shape, slice: out.len() });
        }
        match self.kind {
            (TypeChar::Float, 2) => self.convert(out, |value: Half| f16(value.0)),
            (TypeChar::Float, 4) => self.convert(out, |value: f32| value),
            (TypeChar::Float, _) => self.convert(out, |value: f64| value as f32),
            (TypeChar::Int, 1) => self.convert(out, |value: i8| f32::from(value)),
            (TypeChar::Int, 2) => self.convert(out, |value: i16| f32::from(value)),
            (TypeChar::Int, 4) => self.convert(out, |value: i32| value as f32),
            (TypeChar::Int, _) => self.convert(out, |value: i64| value as f32),
            (TypeChar::Uint, 1) => self.convert(out, |value: u8| f32::from(value)),
            (TypeChar::Uint, 2) => self.convert(out, |value: u16| f32::from(value)),
            (TypeChar::Uint, 4) => self.convert(out, |value: u32| value as f32),
            (TypeChar::Uint, _) => self.convert(out, |value: u64| value as f32),
            _ => self.convert(out, |value: bool| f32::from(u8::from(value))),
        }
    }

    /// The shape, and all elements in C order and in full precision.
    pub fn numbers(self) -> Result<(Vec<usize>, Numbers), Error> {
        let (shape, count, kind) = (self.shape.clone(), self.elements, self.kind);
        let mut whole = vec![0i128; if kind.0 == TypeChar::Float { 0 } else { count }];
        let mut real = vec![0f64; count - whole.len()];
        match kind {
            (TypeChar::Float, 2) => self.convert(&mut real, |value: Half| f16(value.0).into()),
            (TypeChar::Float, 4) => self.convert(&mut real, |value: f32| value.into()),
            (TypeChar::Float, _) => self.convert(&mut real, |value: f64| value),
            (TypeChar::Int, 1) => self.convert(&mut whole, |value: i8| value.into()),
            (TypeChar::Int, 2) => self.convert(&mut whole, |value: i16| value.into()),
            (TypeChar::Int, 4) => self.convert(&mut whole, |value: i32| value.into()),
            (TypeChar::Int, _) => self.convert(&mut whole, |value: i64| value.into()),
            (TypeChar::Uint, 1) => self.convert(&mut whole, |value: u8| value.into()),
            (TypeChar::Uint, 2) => self.convert(&mut whole, |value: u16| value.into()),
            (TypeChar::Uint, 4) => self.convert(&mut whole, |value: u32| value.into()),
            (TypeChar::Uint, _) => self.convert(&mut whole, |value: u64| value.into()),
            _ => self.convert(&mut whole, |value: bool| value.into()),
        }?;
        let is_real = kind.0 == TypeChar::Float;
        Ok((shape, if is_real { Numbers::Real(real) } else { Numbers::Whole(whole) }))
    }

    /// Reads all elements into `out`, in C order: integers or truth values, which the type has.
    pub fn read_words_into(self, kind: PortType, out: &mut [i32]) -> Result<(), Error> {
        if out.len() != self.elements {
            let Npy { path, shape, .. } = self;
            return Err(Error::Length { path, shape, slice: out.len() });
        }
        let (least, most) = kind.limits();
        let (path, dtype) = (self.path.clone(), self.header.dtype().descr());
        let outside = Cell::new(None);
        let word = |found: i128| {
            let word = i32::try_from(found).ok().filter(|word| (least..=most).contains(word));
            if word.is_none() && outside.get().is_none() {
                outside.set(Some(found));
            }
            word.unwrap_or(0)
        };
        match self.kind {
            (TypeChar::Int, 1) => self.convert(out, |value: i8| word(value.into())),
            (TypeChar::Int, 2) => self.convert(out, |value: i16| word(value.into())),
            (TypeChar::Int, 4) => self.convert(out, |value: i32| word(value.into())),
            (TypeChar::Int, _) => self.convert(out, |value: i64| word(value.into())),
            (TypeChar::Uint, 1) => self.convert(out, |value: u8| word(value.into())),
            (TypeChar::Uint, 2) => self.convert(out, |value: u16| word(value.into())),
            (TypeChar::Uint, 4) => self.convert(out, |value: u32| word(value.into())),
            (TypeChar::Uint, _) => self.convert(out, |value: u64| word(value.into())),
            (TypeChar::Bool, _) => self.convert(out, |value: bool| word(value.into())),
            _ => return Err(Error::Fraction { path, dtype, kind: kind.name() }),
        }?;
        match outside.get() {
            None => Ok(()),
            Some(found) => Err(Error::Range { path, found, kind: kind.name(), least, most }),
        }
    }

    fn convert<T: Deserialize, U>(self, out: &mut [U], to: impl Fn(T) -> U) -> Result<(), Error> {
        let Npy { path, header, shape, data, .. } = self;
        let places = Places::new(&shape, header.order());
        let file = NpyFile::with_header(header, data);
        let values = match file.data::<T>() {
            Ok(values) => values,
            Err(error) => return Err(Error::Read { path, source: io::Error::other(error) }),
        };
        for (place, value) in places.zip(values) {
            match value {
                Ok(value) => out[place] = to(value),
                Err(source) => return Err(Error::Read { path, source }),
            }
        }
        Ok(())
    }
}

/// Whether elements of this type and size are real numbers that can be read.
fn is_real(kind: (TypeChar, usize)) -> bool {
    match kind {
        (TypeChar::Float, size) => matches!(size, 2 | 4 | 8),
        (TypeChar::Int | TypeChar::Uint, size) => matches!(size, 1 | 2 | 4 | 8),
        (TypeChar::Bool, size) => size == 1,
        _ => false,
    }
}

/// The places in C order of elements as they come in the file.
struct Places {
    /// Extent and stride in C order, the axis that runs fastest in the file first.
    axes: Vec<(usize, usize)>,
    index: Vec<usize>,
    /// Of the next element.
    place: usize,
    left: usize,
}

impl Places {
    fn new(shape: &[usize], order: Order) -> Places {
        let mut stride = 1;
        let mut axes: Vec<(usize, usize)> = Vec::with_capacity(shape.len());
        for &extent in shape.iter().rev() {
            axes.push((extent, stride));
            stride *= extent;
        }
        match order {
            // One axis, as consecutive as the elements.
            Order::C => axes = vec![(stride, 1)],
            Order::Fortran => axes.reverse(),
        }
        Places { index: vec![0; axes.len()], axes, place: 0, left: stride }
    }
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let place = self.place;
        for (index, &(extent, stride)) in self.index.iter_mut().zip(&self.axes) {
            *index += 1;
            self.place += stride;
            if *index < extent {
                break;
            }
            *index = 0;
            self.place -= extent * stride;
        }
        Some(place)
    }
}

/// Reads the file at `path`: its shape, and its elements in C order.
pub fn read(path: impl AsRef<Path>) -> Result<(Vec<usize>, Vec<f32>), Error> {
    let npy = open(path)?;
    let shape = npy.shape.clone();
    let mut data = Vec::new();
    if data.try_reserve_exact(npy.elements).is_err() {
        let shape = npy.header.shape().to_vec();
        return Err(Error::TooLarge { path: npy.path, shape });
    }
    data.resize(npy.elements, 0.0);
    npy.read_into(&mut data)?;
    Ok((shape, data))
}

/// Reads the file at `path` into `out`; its shape must be `shape`, but for leading axes of length 1
/// (one image may come with or without the batch).
pub fn read_into(path: impl AsRef<Path>, shape: &[usize], out: &mut [f32]) -> Result<(), Error> {
    open_as(path, shape)?.read_into(out)
}

/// Reads the file at `path` into words of this type, as [`read_into`] does floats.
pub fn read_words_into(
    path: impl AsRef<Path>,
    shape: &[usize],
    kind: PortType,
    out: &mut [i32],
) -> Result<(), Error> {
    open_as(path, shape)?.read_words_into(kind, out)
}

/// Opens a file that must have this shape, but for leading axes of length 1.
fn open_as(path: impl AsRef<Path>, shape: &[usize]) -> Result<Npy, Error> {
    fn significant(shape: &[usize]) -> &[usize] {
        let ones = shape.iter().take_while(|&&extent| extent == 1).count();
        &shape[ones..]
    }
    let npy = open(path)?;
    match significant(npy.shape()) == significant(shape) {
        true => Ok(npy),
        false => Err(Error::Shape { path: npy.path, found: npy.shape, needed: shape.to_vec() }),
    }
}

/// Writes `data`, of that shape and in C order, as the file at `path`, whole or not at all.
pub fn write(path: impl AsRef<Path>, shape: &[usize], data: &[f32]) -> Result<(), Error> {
    write_as(path, shape, "<f4", data, |value| *value)
}

/// Writes floats as elements of this type, as [`write()`] does those of single precision. NumPy has no type of bfloat16:
/// they are written in single precision.
pub fn write_floats(
    path: impl AsRef<Path>,
    shape: &[usize],
    kind: PortType,
    data: &[f32],
) -> Result<(), Error> {
    match kind {
        PortType::Half => write_as(path, shape, "<f2", data, |value| Half(halves::f16(*value))),
        PortType::Double => write_as(path, shape, "<f8", data, |value| f64::from(*value)),
        _ => write(path, shape, data),
    }
}

/// Writes words as elements of this type, as [`write()`] does floats.
pub fn write_words(
    path: impl AsRef<Path>,
    shape: &[usize],
    kind: PortType,
    data: &[i32],
) -> Result<(), Error> {
    match kind {
        PortType::Bool => write_as(path, shape, "|b1", data, |value| *value != 0),
        PortType::Int8 => write_as(path, shape, "|i1", data, |value| *value as i8),
        PortType::Uint8 => write_as(path, shape, "|u1", data, |value| *value as u8),
        PortType::Int16 => write_as(path, shape, "<i2", data, |value| *value as i16),
        PortType::Uint16 => write_as(path, shape, "<u2", data, |value| *value as u16),
        PortType::Uint32 => write_as(path, shape, "<u4", data, |value| *value as u32),
        PortType::Int64 => write_as(path, shape, "<i8", data, |value| i64::from(*value)),
        PortType::Uint64 => write_as(path, shape, "<u8", data, |value| *value as u32 as u64),
        _ => write_as(path, shape, "<i4", data, |value| *value),
    }
}

/// Writes elements as another type, of this description.
fn write_as<V, T: Serialize>(
    path: impl AsRef<Path>,
    shape: &[usize],
    description: &str,
    data: &[V],
    to: impl Fn(&V) -> T,
) -> Result<(), Error> {
    let path = path.as_ref();
    if shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)) != Some(data.len()) {
        let (path, shape) = (path.to_path_buf(), shape.to_vec());
        return Err(Error::Length { path, shape, slice: data.len() });
    }
    let extents: Vec<u64> = shape.iter().map(|&extent| extent as u64).collect();
    replace(path, |sink| {
        let options = WriteOptions::new()
            .dtype(description.parse().map(npyz::DType::Plain).map_err(io::Error::other)?);
        let mut writer = options.shape(&extents).writer(sink).begin_nd()?;
        writer.extend(data.iter().map(&to))?;
        writer.finish()
    })
    .map_err(|source| Error::Write { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as NumPy writes it, format version 1.
    fn file(directory: &Path, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> PathBuf {
        let fortran = if fortran { "True" } else { "False" };
        let mut header =
            format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let length = (header.len() as u16).to_le_bytes();
        let bytes = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat();
        let path = directory.join("array.npy");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn bytes<T, const N: usize>(values: &[T], to: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(to).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("array.npy");
        for shape in [vec![], vec![1], vec![7], vec![0, 3], vec![2, 3, 5], vec![1, 3, 97, 101]] {
            let elements: usize = shape.iter().product();
            let data: Vec<f32> = (0..elements).map(|i| (i as f32 - 7.5) * 0.37).collect();
            write(&path, &shape, &data).unwrap();
            assert_eq!(read(&path).unwrap(), (shape, data));
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn written_bytes_are_numpys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("array.npy");
        write(&path, &[2, 1], &[1.5, -2.0]).unwrap();
        let written = std::fs::read(&path).unwrap();
        assert!(written.starts_with(b"\x93NUMPY\x01\x00"));
        let (header, data) = written.split_at(written.len() - 8);
        assert_eq!(header.len() % 16, 0);
        let text = String::from_utf8_lossy(&header[10..]);
        assert!(text.contains("'<f4'") && text.contains("(2, 1"), "{text}");
        assert_eq!(data, [1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat());
    }

    /// Halves in both byte orders; NaN, infinities, the least and what is rounded.
    #[test]
    fn halves_are_read_and_written() {
        let directory = tempfile::tempdir().unwrap();
        let values = [1.5, -0.25, f32::INFINITY, 65504.0, 5.960_464_5e-8];
        let bits = values.map(halves::f16);
        let little = bytes(&bits, |bits| bits.to_le_bytes());
        for (descr, data) in
            [("'<f2'", little.clone()), ("'>f2'", bytes(&bits, |b| b.to_be_bytes()))]
        {
            let path = file(directory.path(), descr, false, "(5,)", &data);
            assert_eq!(read(&path).unwrap(), (vec![5], values.to_vec()), "{descr}");
            let (_, numbers) = open(&path).unwrap().numbers().unwrap();
            assert_eq!(numbers, Numbers::Real(values.map(f64::from).to_vec()));
        }
        let path = directory.path().join("half.npy");
        write_floats(&path, &[6], PortType::Half, &[&values[..], &[1.000_1]].concat()).unwrap();
        let written = std::fs::read(&path).unwrap();
        assert!(written.ends_with(&[&little[..], &0x3c00u16.to_le_bytes()].concat()));
        assert!(String::from_utf8_lossy(&written).contains("'<f2'"));
        write_floats(&path, &[1], PortType::Double, &[0.5]).unwrap();
        assert!(std::fs::read(&path).unwrap().ends_with(&0.5f64.to_le_bytes()));
    }

    /// The digits' files were written by NumPy.
    #[test]
    fn numpys_files_are_read() {
        let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/digits");
        let array = |name: &str| read(format!("{digits}/{name}.npy")).unwrap();
        let (shape, images) = array("images");
        assert_eq!(shape, [64, 1, 8, 8]);
        // Sixteenths from 0 to 1.
        assert!(images.iter().all(|v| (0.0..=1.0).contains(v) && (v * 16.0).fract() == 0.0));
        let ((rows, logits), (count, labels)) = (array("logits"), array("labels"));
        assert_eq!((rows, count), (vec![64, 10], vec![64]));
        for (logits, label) in logits.chunks_exact(10).zip(labels) {
            let largest = logits[label as usize];
            assert!(logits.iter().all(|&logit| logit <= largest));
        }
    }

    #[test]
    fn every_real_type_arrives_as_f32() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let check = |descr: &str, data: &[u8], expected: [f32; 3]| {
            let path = file(at, descr, false, "(3,)", data);
            assert_eq!(read(&path).unwrap(), (vec![3], expected.to_vec()), "{descr}");
        };
        check("'<f4'", &bytes(&[0.5f32, -1.0, 3e9], |v| v.to_le_bytes()), [0.5, -1.0, 3e9]);
        check("'>f4'", &bytes(&[0.5f32, -1.0, 3e9], |v| v.to_be_bytes()), [0.5, -1.0, 3e9]);
        check(
            "'<f8'",
            &bytes(&[0.1f64, -1.0, 1e99], |v| v.to_le_bytes()),
            [0.1, -1.0, f32::INFINITY],
        );
        check("'|i1'", &bytes(&[1i8, -128, 127], |v| v.to_le_bytes()), [1.0, -128.0, 127.0]);
        check("'|u1'", &[0, 128, 255], [0.0, 128.0, 255.0]);
        check("'<i2'", &bytes(&[1i16, -2, 300], |v| v.to_le_bytes()), [1.0, -2.0, 300.0]);
        check("'>u2'", &bytes(&[1u16, 2, 65535], |v| v.to_be_bytes()), [1.0, 2.0, 65535.0]);
        check("'<i4'", &bytes(&[1i32, -2, 70000], |v| v.to_le_bytes()), [1.0, -2.0, 70000.0]);
        check("'<u4'", &bytes(&[1u32, 2, 70000], |v| v.to_le_bytes()), [1.0, 2.0, 70000.0]);
        check("'<i8'", &bytes(&[1i64, -2, 3], |v| v.to_le_bytes()), [1.0, -2.0, 3.0]);
        check("'<u8'", &bytes(&[1u64, 2, 3], |v| v.to_le_bytes()), [1.0, 2.0, 3.0]);
        check("'|b1'", &[0, 1, 1], [0.0, 1.0, 1.0]);
    }

    #[test]
    fn fortran_order_is_turned() {
        let directory = tempfile::tempdir().unwrap();
        // [[[0 1 2] [3 4 5]]], first axis fastest.
        let data = bytes(&[0f32, 3.0, 1.0, 4.0, 2.0, 5.0], |v| v.to_le_bytes());
        let path = file(directory.path(), "'<f4'", true, "(1, 2, 3)", &data);
        assert_eq!(read(&path).unwrap().1, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        for shape in [&[][..], &[4], &[2, 3, 4, 5]] {
            let mut places: Vec<usize> = Places::new(shape, Order::Fortran).collect();
            places.sort_unstable();
            assert!(places.iter().copied().eq(0..shape.iter().product()), "{shape:?}");
        }
        assert_eq!(Places::new(&[3, 0], Order::Fortran).next(), None);
    }

    #[test]
    fn errors_name_file_and_both_sides() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let message = |descr: &str, shape: &str, bytes: usize| {
            let path = file(at, descr, false, shape, &vec![0; bytes]);
            let mut out = [0.0; 6];
            read_into(&path, &[1, 2, 3], &mut out).map_err(|error| {
                let error = error.to_string();
                assert!(error.contains("array.npy"), "{error}");
                error
            })
        };
        let has = |result: Result<(), String>, parts: &[&str]| {
            let error = result.unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        message("'<f4'", "(2, 3)", 24).unwrap();
        message("'<f4'", "(1, 1, 2, 3)", 24).unwrap();
        has(message("'<f4'", "(3, 2)", 24), &["[3, 2]", "[1, 2, 3]"]);
        has(message("'<f4'", "(2, 3)", 23), &["truncated", "24", "23"]);
        has(message("'<c8'", "(2, 3)", 48), &["<c8", "astype"]);
        has(message("'<f16'", "(2, 3)", 96), &["<f16", "astype"]);
        has(message("[('a', '<f4')]", "(2, 3)", 24), &["'a'", "astype"]);
        has(message("'<f4'", "(4611686018427387904,)", 0), &["4611686018427387904"]);
        has(message("'<f4'", "2", 0), &["not a .npy file"]);

        let path = at.join("array.npy");
        std::fs::write(&path, b"PK\x03\x04 surely no array").unwrap();
        assert!(matches!(open(&path), Err(Error::Header { .. })));
        assert!(matches!(open(at.join("none.npy")), Err(Error::Read { .. })));
        assert!(matches!(write(&path, &[2, 2], &[0.0; 3]), Err(Error::Length { slice: 3, .. })));
        write(&path, &[2, 2], &[0.0; 4]).unwrap();
        let short = open(&path).unwrap().read_into(&mut [0.0; 3]);
        assert!(matches!(short, Err(Error::Length { slice: 3, .. })));
    }

    #[test]
    fn hostile_headers_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("array.npy");
        let huge = [b"\x93NUMPY\x02\x00", &u32::MAX.to_le_bytes()[..], &[b'('; 4000]].concat();
        let deep = [b"\x93NUMPY\x01\x00", &900u16.to_le_bytes()[..], &[b'('; 900]].concat();
        for bytes in [&huge[..], &deep, b"\x93NUMPY\x09\x00\x00\x00", b"\x93NUM", b""] {
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(open(&path), Err(Error::Header { .. })));
        }
        std::fs::write(&path, b"\x93NUMPY\x02\x00\xf0\xff\xff\xff{").unwrap();
        let error = open(&path).err().expect("a long header").to_string();
        assert!(error.contains("4294967280 bytes, at most 1024"), "{error}");
    }
}
