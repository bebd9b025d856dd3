//! Pictures for the examples: frames in the format PPM, which needs no library, and the input of a
//! network made of them.
//!
//! A pack does not say how pictures become inputs, since ONNX does not. This is what torchvision's
//! classifiers were trained with. `eyelet run --preprocess` knows others.

use std::io::{Error, ErrorKind, Read, Result};

/// A picture, row by row: red, green, blue.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
}

/// More is no picture of a camera.
const MOST_PIXELS: usize = 1 << 26;

impl Picture {
    /// Reads the next picture of a stream in place of this one. False at the end of the stream.
    pub fn read_next(&mut self, from: &mut impl Read) -> Result<bool> {
        let mut magic = [0; 2];
        if from.read(&mut magic[..1])? == 0 {
            return Ok(false);
        }
        from.read_exact(&mut magic[1..])?;
        if magic != *b"P6" {
            return Err(wrong("the picture is not a PPM file: it does not begin with P6"));
        }
        self.width = number(from)?;
        self.height = number(from)?;
        let most = number(from)?;
        let count = self.width.saturating_mul(self.height);
        if most != 255 || count == 0 || count > MOST_PIXELS {
            let (width, height) = (self.width, self.height);
            let text = format!(
                "a picture of {width} x {height} pixels with values to {most}: values go to 255"
            );
            return Err(wrong(&text));
        }
        self.pixels.resize(3 * count, 0);
        from.read_exact(&mut self.pixels)?;
        Ok(true)
    }

    /// Writes the middle of the picture, 7/8 of its shorter side, as the input of a classifier: a
    /// plane for each colour, `side` by `side`, normalised.
    pub fn write(&self, into: &mut [f32], side: usize) {
        const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
        const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];
        let crop = (self.width.min(self.height) * 7 / 8).max(1);
        let (left, top) = ((self.width - crop) / 2, (self.height - crop) / 2);
        let at = |index: usize| index * crop / side;
        for (colour, plane) in into.chunks_exact_mut(side * side).take(3).enumerate() {
            for (y, row) in plane.chunks_exact_mut(side).enumerate() {
                for (x, value) in row.iter_mut().enumerate() {
                    let pixel = (top + at(y)) * self.width + left + at(x);
                    let byte = f32::from(self.pixels[3 * pixel + colour]);
                    *value = (byte / 255.0 - MEAN[colour]) / DEVIATION[colour];
                }
            }
        }
    }
}

/// A number of the header, with the white space before it and one byte of it after.
fn number(from: &mut impl Read) -> Result<usize> {
    let mut value = None;
    loop {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        match (byte[0], value) {
            (digit @ b'0'..=b'9', _) => {
                let more = usize::from(digit - b'0');
                value = Some(value.unwrap_or(0usize).saturating_mul(10).saturating_add(more));
            }
            (b' ' | b'\t' | b'\r' | b'\n', Some(value)) => return Ok(value),
            (b' ' | b'\t' | b'\r' | b'\n', None) => {}
            (b'#', None) => {
                while byte[0] != b'\n' {
                    from.read_exact(&mut byte)?;
                }
            }
            _ => return Err(wrong("the picture's header has something other than numbers")),
        }
    }
}

fn wrong(text: &str) -> Error {
    Error::new(ErrorKind::InvalidData, text.to_owned())
}

/// The numbers of the largest values, largest first.
pub fn largest(values: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_one_another() {
        let stream = b"P6\n# a camera's\n2 1\n255\n\x01\x02\x03\x04\x05\x06P6 1 1 255 \xff\x00\x80";
        let (mut stream, mut frame) = (&stream[..], Picture::default());
        assert!(frame.read_next(&mut stream).unwrap());
        assert_eq!(frame, Picture { width: 2, height: 1, pixels: vec![1, 2, 3, 4, 5, 6] });
        assert!(frame.read_next(&mut stream).unwrap());
        assert_eq!(frame, Picture { width: 1, height: 1, pixels: vec![255, 0, 128] });
        assert!(!frame.read_next(&mut stream).unwrap());
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for bad in ["P5 1 1 255 a", "P6 0 1 255 ", "P6 1 1 15 abc", "P6 99999 99999 255 ", "P6 1 x"]
        {
            let error = Picture::default().read_next(&mut bad.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{bad}");
        }
        let cut = Picture::default().read_next(&mut &b"P6 2 2 255 abc"[..]).unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn inputs_have_a_plane_for_each_colour() {
        // Red on the left, blue on the right.
        let pixels = [[255, 0, 0], [0, 0, 255]].concat().repeat(2);
        let picture = Picture { width: 2, height: 2, pixels };
        let mut input = [0.0; 12];
        picture.write(&mut input, 2);
        // 7/8 of two pixels are one: the first.
        let red = (1.0 - 0.485) / 0.229;
        assert_eq!(input[..4], [red; 4]);
        assert_eq!(input[8..], [-0.406 / 0.225; 4]);
        assert_eq!(largest(&[1.0, 3.0, 2.0], 2), [1, 2]);
    }
}
