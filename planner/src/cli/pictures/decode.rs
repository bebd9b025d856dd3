//! Decodes a picture file in bounded memory.
//!
//! The header of a file says how much memory its pixels need. That is compared with a limit before they are decoded. What a
//! decoder keeps besides pixels is counted, too, or has a limit of its own: a small file may claim many pixels, and unpack to
//! hundreds of megabytes of colour profile.

use super::picture::{Layout, PictureError, resizing};
use super::preprocess::Preprocess;
use eyelet_planner::open;
use image::codecs::{jpeg::JpegDecoder, png::PngDecoder};
use image::{ColorType, DynamicImage, ImageDecoder, ImageFormat, Limits, RgbImage};
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::path::Path;

/// Bytes at most while a picture is decoded and fitted to an input of few pixels.
const MOST: u64 = 128 << 20;

/// What is added to that for each pixel of the input: a large input takes large pictures.
const MOST_OF_PIXEL: u64 = 64;

/// Bytes at most of a JPEG file, which is read into memory.
const MOST_JPEG: u64 = 24 << 20;

/// Copies of a JPEG file while it is decoded: its bytes, the decoder's, which may have grown to twice as many, and the parts
/// that are no pixels.
const COPIES: u64 = 4;

/// Bytes at most of what a PNG file has besides pixels. A colour profile that unpacks to more is ignored, as all are.
const MOST_CHUNKS: u64 = 4 << 20;

/// Such a chunk as it is, half as much while it grows, and unpacked.
const CHUNKS: u64 = 3 * MOST_CHUNKS;

/// Bytes that a decoder holds of a few rows, for each pixel of a row.
const ROWS: u64 = 256;

/// Coefficients of a JPEG file whose scans add up: two bytes in each of four components.
const COEFFICIENTS: u64 = 8;

/// The extents of a JPEG file's blocks, of up to 4 x 4 blocks of 8 pixels.
const BLOCK: u64 = 32;

/// Decodes a file that is then fitted to an input.
pub fn decode(path: &Path, layout: Layout, how: &Preprocess) -> Result<RgbImage, PictureError> {
    let unreadable = |source| PictureError::Read { path: path.to_owned(), source };
    let wrong = |message: String| PictureError::Decode { path: path.to_owned(), message };
    let mut file = open::open(path).map_err(unreadable)?;
    let format = format_of(&mut file).map_err(unreadable)?;
    let fits = |decoder: &dyn ImageDecoder, held: u64| {
        let need = Need { path, picture: decoder.dimensions(), layout };
        need.check(decoder.total_bytes(), decoder.color_type(), held, how)
    };
    let pixels = match format {
        Some(ImageFormat::Png) => {
            let mut limits = Limits::no_limits();
            limits.max_alloc = Some(MOST_CHUNKS);
            // Before anything is allocated for rows.
            limits.max_image_width = Some((layout.most() / ROWS) as u32);
            let decoder = PngDecoder::with_limits(BufReader::new(file), limits);
            let decoder = decoder.map_err(|error| wrong(error.to_string()))?;
            fits(&decoder, CHUNKS)?;
            DynamicImage::from_decoder(decoder)
        }
        Some(ImageFormat::Jpeg) => {
            let bytes = open::bytes(file, MOST_JPEG).map_err(unreadable)?;
            let (copies, adds_up) = (COPIES * bytes.len() as u64, adds_up(&bytes));
            let decoder = JpegDecoder::new(Cursor::new(bytes));
            let decoder = decoder.map_err(|error| wrong(error.to_string()))?;
            let (width, height) = decoder.dimensions();
            let padded = |extent: u32| u64::from(extent).next_multiple_of(BLOCK);
            let kept = if adds_up { COEFFICIENTS * padded(width) * padded(height) } else { 0 };
            fits(&decoder, copies + kept)?;
            DynamicImage::from_decoder(decoder)
        }
        _ => return Err(wrong("it is neither PNG nor JPEG".to_owned())),
    };
    pixels.map(DynamicImage::into_rgb8).map_err(|error| wrong(error.to_string()))
}

/// The format that a file begins as.
fn format_of(file: &mut File) -> io::Result<Option<ImageFormat>> {
    let mut start = Vec::new();
    file.by_ref().take(16).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(image::guess_format(&start).ok())
}

/// Whether scans of a JPEG file may add up to its pixels, so that coefficients of all pixels are kept: it is progressive, or a
/// scan has not all components. Markers are looked for everywhere, also where they may be data by chance. Compressed pixels
/// have none.
fn adds_up(bytes: &[u8]) -> bool {
    const PROGRESSIVE: u8 = 0xc2;
    const SCAN: u8 = 0xda;
    // After a marker come the length in two bytes and the count of components; before this count, a frame has its
    // precision and extents.
    let marked = |marker: std::ops::RangeInclusive<u8>, at: usize| {
        let found = bytes.windows(2).enumerate();
        let found = found.filter(move |(_, pair)| pair[0] == 0xff && marker.contains(&pair[1]));
        found.filter_map(move |(place, _)| bytes.get(place + at).copied())
    };
    let components = marked(0xc0..=0xc1, 9).max().unwrap_or_default();
    marked(PROGRESSIVE..=PROGRESSIVE, 0).next().is_some()
        || marked(SCAN..=SCAN, 4).any(|count| count != components)
}

impl Layout {
    /// Bytes at most while a picture is decoded and fitted.
    fn most(&self) -> u64 {
        let pixels = (self.width as u64).saturating_mul(self.height as u64);
        MOST.saturating_add(pixels.saturating_mul(MOST_OF_PIXEL))
    }
}

/// What a picture's header says.
struct Need<'p> {
    path: &'p Path,
    picture: (u32, u32),
    layout: Layout,
}

impl Need<'_> {
    /// Refuses a picture that takes more than the limit, or than there is. It is decoded to so many bytes, next to what its
    /// decoder holds beside them.
    fn check(
        &self,
        decoded: u64,
        color: ColorType,
        held: u64,
        how: &Preprocess,
    ) -> Result<(), PictureError> {
        let &Self { path, picture, layout } = self;
        let (_, resized) = resizing(picture, layout, how);
        let input = (layout.width as u32, layout.height as u32);
        let times = |(width, height): (u32, u32), bytes: u64| {
            (u64::from(width) * u64::from(height)).saturating_mul(bytes)
        };
        let rgb = times(picture, 3);
        let converted = if color == ColorType::Rgb8 { 0 } else { rgb };
        let rows = ROWS * u64::from(picture.0);
        let decoding = [decoded, converted, held, rows];
        // Columns are resized first, in floats of four channels. Bars are added, or the middle is cut out, in a copy.
        let values = times(input, 4 * layout.channels as u64);
        let columns = times((picture.0, resized.1), 16);
        let fitting = [rgb, columns, times(resized, 3), times(input, 3), values];
        let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
        let (bytes, most) = (sum(&decoding).max(sum(&fitting)), layout.most());
        let path = || path.to_owned();
        if bytes > most {
            return Err(PictureError::TooLarge {
                path: path(),
                picture,
                input,
                resized,
                bytes,
                most,
            });
        }
        let there = usize::try_from(bytes).is_ok_and(|bytes| {
            // Given back at once.
            Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
        });
        if there { Ok(()) } else { Err(PictureError::Memory { path: path(), bytes }) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::preprocess::Fit;
    use super::*;

    const RGB: ColorType = ColorType::Rgb8;

    fn found(picture: (u32, u32), fit: Fit, crop: f32) -> Result<(), String> {
        let layout = Layout::of("x", &[1, 3, 224, 224]).unwrap();
        let how = Preprocess { fit, crop, ..Preprocess::default() };
        let decoded = 3 * u64::from(picture.0) * u64::from(picture.1);
        let need = Need { path: Path::new("long.png"), picture, layout };
        need.check(decoded, RGB, CHUNKS, &how).map_err(|error| error.to_string())
    }

    #[test]
    fn a_picture_that_takes_too_much_is_refused() {
        for picture in [(20_000, 1), (1, 20_000)] {
            let error = found(picture, Fit::Crop, 0.875).unwrap_err();
            let (wide, high) = picture;
            assert!(error.contains(&format!("long.png has {wide} x {high} pixels")), "{error}");
            let resized = format!("by way of {} x {}", wide * 256, high * 256);
            assert!(error.contains(&resized) && error.contains("224 x 224"), "{error}");
            found(picture, Fit::Stretch, 1.0).unwrap();
            found(picture, Fit::Letterbox, 1.0).unwrap();
        }
        // Columns are resized before rows.
        assert!(found((100_000_000, 1), Fit::Stretch, 1.0).is_err());
        assert!(found((3000, 2000), Fit::Crop, f32::MIN_POSITIVE).is_err());
        assert!(found((12_000, 9000), Fit::Crop, 0.875).is_err());
        found((7000, 5000), Fit::Crop, 0.875).unwrap();
    }

    #[test]
    fn a_large_input_takes_large_pictures() {
        let how = Preprocess { fit: Fit::Letterbox, ..Preprocess::default() };
        for (extent, fits) in [(224, false), (4096, true)] {
            let layout = Layout::of("x", &[1, 3, extent, extent]).unwrap();
            let need = Need { path: Path::new("large.png"), picture: (9000, 6000), layout };
            assert_eq!(need.check(3 * 9000 * 6000, RGB, CHUNKS, &how).is_ok(), fits, "{extent}");
        }
    }

    #[test]
    fn scans_that_add_up_are_found() {
        let frame = |marker: u8, components: u8| {
            [0xff, marker, 0, 8 + 3 * components, 8, 0, 64, 0, 64, components]
        };
        let scan = |components: u8| [0xff, 0xda, 0, 6 + 2 * components, components];
        for (marker, of_frame, of_scans, adds) in [
            (0xc0, 3, &[3][..], false),
            (0xc1, 1, &[1], false),
            (0xc0, 3, &[1, 1, 1], true),
            (0xc0, 3, &[3, 1], true),
            (0xc2, 3, &[3], true),
        ] {
            let mut bytes = frame(marker, of_frame).to_vec();
            of_scans.iter().for_each(|count| bytes.extend(scan(*count)));
            assert_eq!(adds_up(&bytes), adds, "{marker:x} {of_frame} {of_scans:?}");
        }
        assert!(!adds_up(&[0xff]));
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::of("x", &[1, 3, 224, 224]).unwrap();
        let refused = |name: &str| {
            let decoded = decode(&folder.path().join(name), layout, &Preprocess::default());
            decoded.unwrap_err().to_string()
        };
        std::fs::write(folder.path().join("cat.png"), b"not a picture").unwrap();
        let error = refused("cat.png");
        assert!(error.contains("cat.png") && error.contains("give a PNG or JPEG"), "{error}");
        assert!(refused("none.png").contains("cannot read"));
    }
}
