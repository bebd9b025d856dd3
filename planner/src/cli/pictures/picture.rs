//! A picture as the values of an input.

use super::preprocess::{Fit, Order, Preprocess};
use eyelet_planner::size;
use image::RgbImage;
use image::imageops::{self, FilterType};
use std::path::PathBuf;

/// Why a picture is not an input.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot decode {}: {message}; give a PNG or JPEG file", path.display())]
    Decode { path: PathBuf, message: String },
    #[error(
        "input `{name}` has the shape {shape:?}, which is no picture: one has [1, 3, height, width] \
         or [1, height, width, 3], or one channel; give the input by --input"
    )]
    NoPicture { name: String, shape: Vec<usize> },
    #[error(
        "{} has {} x {} pixels: decoding it, and fitting it to the input of {} x {} by way of {} x {}, takes {}, and a picture \
         may take {}: scale it down, or cut it to about the input's shape", path.display(),
        picture.0, picture.1, input.0, input.1, resized.0, resized.1, size::human(*bytes), size::human(*most)
    )]
    TooLarge {
        path: PathBuf,
        picture: (u32, u32),
        input: (u32, u32),
        resized: (u32, u32),
        bytes: u64,
        most: u64,
    },
    #[error(
        "{}: decoding it, and fitting it to the input, takes {}, which the system does not give: scale it down, or end other \
         programs", path.display(), size::human(*bytes)
    )]
    Memory { path: PathBuf, bytes: u64 },
    #[error("the network has {inputs} inputs, and --image gives one: give all by --input")]
    Inputs { inputs: usize },
}

/// Where the values of a picture are in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    /// Whether the channels of a pixel lie side by side.
    channels_last: bool,
}

impl Layout {
    /// The layout of an input of one picture.
    pub fn of(name: &str, shape: &[usize]) -> Result<Self, PictureError> {
        let layout = |channels, height, width, channels_last| Self {
            channels,
            height,
            width,
            channels_last,
        };
        match *shape {
            [1, channels @ (1 | 3), height, width] => Ok(layout(channels, height, width, false)),
            [1, height, width, channels @ (1 | 3)] => Ok(layout(channels, height, width, true)),
            _ => Err(PictureError::NoPicture { name: name.to_owned(), shape: shape.to_vec() }),
        }
    }

    fn index(&self, channel: usize, row: usize, column: usize) -> usize {
        match self.channels_last {
            true => (row * self.width + column) * self.channels + channel,
            false => (channel * self.height + row) * self.width + column,
        }
    }
}

/// How a picture's pixels became those of an input: `input = scale · picture + offset`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    pub scale: [f32; 2],
    pub offset: [f32; 2],
}

/// A picture fitted to an input.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Row-major in the input's shape: values for floats, pixels 0 to 255 for integers.
    pub values: Vec<f32>,
    pub placement: Placement,
}

/// Fits a picture to an input. Without `scaled` its values are pixels.
pub fn fit(picture: &RgbImage, layout: Layout, how: &Preprocess, scaled: bool) -> Picture {
    let (width, height) = (layout.width as u32, layout.height as u32);
    let (scale, (wide, high)) = resizing(picture.dimensions(), layout, how);
    let resized = imageops::resize(picture, wide.max(1), high.max(1), FilterType::Triangle);
    let (fitted, offset) = match how.fit {
        Fit::Stretch => (resized, [0.0; 2]),
        Fit::Crop => cropped(&resized, width, height),
        Fit::Letterbox => letterboxed(&resized, width, height, how.pad),
    };
    let placement = Placement { scale, offset };
    let mut values = vec![0.0; layout.channels * layout.height * layout.width];
    for (column, row, pixel) in fitted.enumerate_pixels() {
        let value = |channel: usize| match scaled {
            true => how.value(channel, pixel.0[channel]),
            false => f32::from(pixel.0[channel]),
        };
        let place = |channel| layout.index(channel, row as usize, column as usize);
        if layout.channels == 1 {
            // BT.601's weights of brightness.
            let [red, green, blue] = [0, 1, 2].map(value);
            let grey = 0.299 * red + 0.587 * green + 0.114 * blue;
            values[place(0)] = if scaled { grey } else { grey.round() };
            continue;
        }
        for channel in 0..3 {
            let from = if how.order == Order::Bgr { 2 - channel } else { channel };
            values[place(channel)] = value(from);
        }
    }
    Picture { values, placement }
}

/// What a picture is resized to, and by which factors, before its middle is cut out or bars are added.
pub fn resizing(from: (u32, u32), layout: Layout, how: &Preprocess) -> ([f32; 2], (u32, u32)) {
    let (width, height) = (layout.width as u32, layout.height as u32);
    let (across, down) = (factor(width, from.0), factor(height, from.1));
    let size = |from: u32, scale: f32| (from as f32 * scale).round() as u32;
    match how.fit {
        Fit::Stretch => ([across, down], (width, height)),
        // The input is a part of the shorter side.
        Fit::Crop => {
            let scale = across.max(down) / how.crop;
            ([scale; 2], (size(from.0, scale).max(width), size(from.1, scale).max(height)))
        }
        Fit::Letterbox => {
            let scale = across.min(down);
            let side = |from, most| size(from, scale).clamp(1, most);
            ([scale; 2], (side(from.0, width), side(from.1, height)))
        }
    }
}

fn factor(to: u32, from: u32) -> f32 {
    to as f32 / from.max(1) as f32
}

/// The middle, and where the picture begins in it.
fn cropped(large: &RgbImage, width: u32, height: u32) -> (RgbImage, [f32; 2]) {
    let (left, top) = ((large.width() - width) / 2, (large.height() - height) / 2);
    let middle = imageops::crop_imm(large, left, top, width, height).to_image();
    (middle, [-(left as f32), -(top as f32)])
}

/// All of it with bars, and where the picture begins in it.
fn letterboxed(small: &RgbImage, width: u32, height: u32, pad: u8) -> (RgbImage, [f32; 2]) {
    let (left, top) = ((width - small.width()) / 2, (height - small.height()) / 2);
    let mut framed = RgbImage::from_pixel(width, height, image::Rgb([pad; 3]));
    imageops::replace(&mut framed, small, left.into(), top.into());
    (framed, [left as f32, top as f32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Rgb;

    /// Red on the left half, blue on the right.
    fn halves(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, _| match x < width / 2 {
            true => Rgb([255, 0, 0]),
            false => Rgb([0, 0, 255]),
        })
    }

    #[test]
    fn layouts_follow_from_shapes() {
        let first = Layout::of("x", &[1, 3, 8, 16]).unwrap();
        assert_eq!((first.channels, first.height, first.width), (3, 8, 16));
        assert_eq!(first.index(2, 1, 5), 2 * 128 + 16 + 5);
        let last = Layout::of("x", &[1, 8, 16, 3]).unwrap();
        assert_eq!(last.index(2, 1, 5), (16 + 5) * 3 + 2);
        let error = Layout::of("ids", &[1, 128]).unwrap_err().to_string();
        assert!(
            error.contains("input `ids` has the shape [1, 128], which is no picture"),
            "{error}"
        );
    }

    #[test]
    fn colours_keep_their_channel_and_side() {
        for (shape, channels_last) in [([1, 3, 4, 8], false), ([1, 4, 8, 3], true)] {
            let layout = Layout::of("x", &shape).unwrap();
            assert_eq!(layout.channels_last, channels_last);
            let rgb = fit(&halves(80, 40), layout, &Preprocess::default(), true).values;
            let at = |values: &[f32], channel, column| values[layout.index(channel, 2, column)];
            assert_eq!([at(&rgb, 0, 0), at(&rgb, 2, 0), at(&rgb, 2, 7)], [255.0, 0.0, 255.0]);
            let bgr = Preprocess { order: Order::Bgr, ..Preprocess::default() };
            let bgr = fit(&halves(80, 40), layout, &bgr, true).values;
            assert_eq!([at(&bgr, 2, 0), at(&bgr, 0, 0), at(&bgr, 0, 7)], [255.0, 0.0, 255.0]);
        }
    }

    #[test]
    fn a_letterbox_shows_all_and_says_where() {
        let layout = Layout::of("x", &[1, 3, 100, 100]).unwrap();
        let how = Preprocess { fit: Fit::Letterbox, pad: 9, ..Preprocess::default() };
        let Picture { values, placement } = fit(&halves(200, 100), layout, &how, true);
        assert_eq!(placement, Placement { scale: [0.5; 2], offset: [0.0, 25.0] });
        assert_eq!(values[layout.index(0, 0, 0)], 9.0);
        assert_eq!(values[layout.index(0, 50, 1)], 255.0);
    }

    #[test]
    fn a_crop_cuts_the_middle_out() {
        let layout = Layout::of("x", &[1, 3, 50, 50]).unwrap();
        let how = Preprocess { fit: Fit::Crop, ..Preprocess::default() };
        let Picture { values, placement } = fit(&halves(200, 100), layout, &how, true);
        assert_eq!(placement, Placement { scale: [0.5; 2], offset: [-25.0, 0.0] });
        assert_eq!([values[layout.index(0, 0, 0)], values[layout.index(2, 0, 49)]], [255.0; 2]);
        // An odd shape, and one smaller than the input.
        for (width, height) in [(7, 333), (1, 1), (51, 50)] {
            for fit_by in [Fit::Crop, Fit::Letterbox, Fit::Stretch] {
                let how = Preprocess { fit: fit_by, crop: 0.875, ..Preprocess::default() };
                assert_eq!(fit(&halves(width, height), layout, &how, true).values.len(), 7500);
            }
        }
    }

    #[test]
    fn a_grey_input_gets_brightness() {
        let layout = Layout::of("x", &[1, 1, 2, 2]).unwrap();
        let white = RgbImage::from_pixel(5, 5, Rgb([255; 3]));
        let values = fit(&white, layout, &Preprocess::default(), false).values;
        assert_eq!(values, [255.0; 4]);
    }
}
