//! Boxes of a detector of the YOLO family, and how they are drawn.
//!
//! Two forms of output are known, of `n` boxes with a centre, a width and a height in pixels of the input: `[1, 4 + classes, n]`
//! with the scores of the classes (YOLOv8 and later), and `[1, n, 5 + classes]` with the score of there being anything before
//! them (YOLOv5 to v7).

use super::labels::Labels;
use super::picture::Placement;
use image::{Rgb, RgbImage};
use serde::Serialize;

/// Boxes with a lower score are left out.
const LEAST_SCORE: f32 = 0.25;
/// Of boxes of one class that share more than this part of their union, the one with the best score stays.
const MOST_SHARED: f32 = 0.45;
/// Boxes of a picture at most.
const MOST_BOXES: usize = 300;

/// Something that was found, in pixels of the picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    pub class: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub score: f32,
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
}

impl Found {
    fn area(&self) -> f32 {
        (self.right - self.left).max(0.0) * (self.bottom - self.top).max(0.0)
    }

    /// The part of the union that two boxes share.
    fn shared(&self, other: &Self) -> f32 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        let both = width.max(0.0) * height.max(0.0);
        both / (self.area() + other.area() - both).max(f32::MIN_POSITIVE)
    }
}

/// How a detector's output lists its boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub classes: usize,
    boxes: usize,
    /// Whether a box's numbers lie side by side, with the score of there being anything.
    rows: bool,
}

impl Form {
    /// The form of an output of this shape, if it is a detector's: it has more boxes than numbers of a box.
    pub fn of(shape: &[usize]) -> Option<Self> {
        match *shape {
            [1, numbers, boxes] if numbers > 4 && boxes > numbers => {
                Some(Self { classes: numbers - 4, boxes, rows: false })
            }
            [1, boxes, numbers] if numbers > 5 && boxes > numbers => {
                Some(Self { classes: numbers - 5, boxes, rows: true })
            }
            _ => None,
        }
    }

    /// A number of a box.
    fn number(&self, output: &[f32], found: usize, number: usize) -> f32 {
        let place = match self.rows {
            true => found * (self.classes + 5) + number,
            false => number * self.boxes + found,
        };
        output.get(place).copied().unwrap_or(0.0)
    }

    /// The boxes of an output, the best first.
    pub fn boxes(&self, output: &[f32], placement: Placement, labels: &Labels) -> Vec<Found> {
        let mut found: Vec<Found> = (0..self.boxes)
            .filter_map(|index| self.one(output, index, placement, labels))
            .collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut kept: Vec<Found> = Vec::new();
        for one in found {
            let covered =
                |other: &Found| other.class == one.class && other.shared(&one) > MOST_SHARED;
            if !kept.iter().any(covered) {
                kept.push(one);
            }
            if kept.len() == MOST_BOXES {
                break;
            }
        }
        kept
    }

    fn one(&self, output: &[f32], index: usize, at: Placement, labels: &Labels) -> Option<Found> {
        let number = |n| self.number(output, index, n);
        let (first, any) = if self.rows { (5, number(4)) } else { (4, 1.0) };
        let scores = (0..self.classes).map(|class| (class, any * number(first + class)));
        let (class, score) = scores.max_by(|a, b| a.1.total_cmp(&b.1))?;
        // NaN is no score.
        if score.is_nan() || score < LEAST_SCORE {
            return None;
        }
        let back = |axis: usize, value: f32| (value - at.offset[axis]) / at.scale[axis];
        let [x, y, width, height] = [0, 1, 2, 3].map(number);
        Some(Found {
            class,
            label: labels.of(class),
            score,
            left: back(0, x - width / 2.0),
            top: back(1, y - height / 2.0),
            right: back(0, x + width / 2.0),
            bottom: back(1, y + height / 2.0),
        })
    }
}

/// Draws the boxes' outlines, each class in a colour of its own.
pub fn draw(picture: &mut RgbImage, found: &[Found]) {
    let thick = (picture.width().max(picture.height()) / 300).clamp(2, 12) as i64;
    for one in found {
        let colour = colour(one.class);
        let [left, top, right, bottom] =
            [one.left, one.top, one.right, one.bottom].map(|edge| edge.round() as i64);
        for inset in 0..thick {
            for x in left..=right {
                put(picture, x, top + inset, colour);
                put(picture, x, bottom - inset, colour);
            }
            for y in top..=bottom {
                put(picture, left + inset, y, colour);
                put(picture, right - inset, y, colour);
            }
        }
    }
}

fn put(picture: &mut RgbImage, x: i64, y: i64, colour: Rgb<u8>) {
    let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
    if let Some(pixel) = picture.get_pixel_mut_checked(x, y) {
        *pixel = colour;
    }
}

/// Eight colours that differ for most eyes (Okabe and Ito).
fn colour(class: usize) -> Rgb<u8> {
    const COLOURS: [[u8; 3]; 8] = [
        [230, 159, 0],
        [86, 180, 233],
        [0, 158, 115],
        [240, 228, 66],
        [0, 114, 178],
        [213, 94, 0],
        [204, 121, 167],
        [255, 255, 255],
    ];
    Rgb(COLOURS[class % COLOURS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Placement = Placement { scale: [0.5; 2], offset: [0.0, 10.0] };

    /// Two boxes that cover each other, one elsewhere, and others without a score.
    fn numbers() -> [[f32; 6]; 8] {
        let mut all = [[0.0; 6]; 8];
        all[0] = [50.0, 60.0, 20.0, 40.0, 0.0, 0.9];
        all[3] = [51.0, 60.0, 20.0, 40.0, 0.0, 0.8];
        all[5] = [20.0, 20.0, 10.0, 10.0, 0.5, 0.0];
        all
    }

    #[test]
    fn columns_are_read_and_mapped_back() {
        let output: Vec<f32> = (0..6).flat_map(|n| numbers().map(|found| found[n])).collect();
        let form = Form::of(&[1, 6, 8]).unwrap();
        assert_eq!(form.classes, 2);
        let found = form.boxes(&output, HERE, &Labels::default());
        assert_eq!(found.len(), 2, "{found:?}");
        let Found { class, score, left, top, right, bottom, .. } = found[0];
        assert_eq!((class, score), (1, 0.9));
        assert_eq!([left, top, right, bottom], [80.0, 60.0, 120.0, 140.0]);
        assert_eq!((found[1].class, found[1].score), (0, 0.5));
    }

    #[test]
    fn rows_have_a_score_of_their_own() {
        let row = |[x, y, w, h, a, b]: [f32; 6]| [x, y, w, h, 0.5, a, b];
        let output: Vec<f32> = numbers().into_iter().flat_map(row).collect();
        let form = Form::of(&[1, 8, 7]).unwrap();
        let found = form.boxes(&output, HERE, &Labels::default());
        assert_eq!(found.iter().map(|one| one.score).collect::<Vec<_>>(), [0.45, 0.25]);
    }

    #[test]
    fn classifiers_are_no_detectors() {
        for shape in [&[1, 1000][..], &[1, 1000, 1, 1], &[1, 4, 8400], &[2, 84, 8400]] {
            assert_eq!(Form::of(shape), None, "{shape:?}");
        }
    }

    #[test]
    fn boxes_beyond_the_edge_are_drawn_as_far_as_they_are_inside() {
        let mut picture = RgbImage::new(40, 30);
        let one = Found {
            class: 1,
            label: None,
            score: 1.0,
            left: -5.0,
            top: 3.0,
            right: 60.0,
            bottom: 99.0,
        };
        draw(&mut picture, &[one]);
        assert_eq!(picture.get_pixel(20, 3), &Rgb([86, 180, 233]));
        assert_eq!(picture.get_pixel(20, 20), &Rgb([0; 3]));
    }
}
