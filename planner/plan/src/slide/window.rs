//! Which image lines of an input the lines of an output are made from.

use eyelet::ops::{Reads, reads};
use eyelet::pack::{NONE, OpKind, ResampleParams, Tensor};
use eyelet_model::network::Network;
use eyelet_model::ops::winograd::tile;
use eyelet_model::ops::{Lines, lines};
use std::ops::Range;

/// How an operator reads an input, line by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Input lines that one output line sees.
    reach: i64,
    /// Input lines from one output line to the next, in parts of a line.
    stride: i64,
    /// Parts of a line.
    parts: i64,
    /// Lines of padding above, in parts.
    pad: i64,
    /// No window begins before this line, nor after that one.
    within: [i64; 2],
    /// Output lines are made in multiples of this, the last ones excepted.
    pub tile: u32,
    /// Lines of the input.
    height: i64,
}

impl Window {
    /// Each line by itself, from the first on.
    const EVERY: Self = Self {
        reach: 1,
        stride: 1,
        parts: 1,
        pad: 0,
        within: [i64::MIN, i64::MAX],
        tile: 1,
        height: 0,
    };

    /// Line y from line y.
    pub(super) fn same(height: u32) -> Self {
        Self { reach: 1, height: height.into(), ..Self::EVERY }
    }

    /// Every line from all lines.
    fn all(height: u32, made: u32) -> Self {
        let (height, made) = (i64::from(height), i64::from(made));
        Self { reach: height + made, pad: made, height, ..Self::EVERY }
    }

    /// The first line that the window of a line begins with.
    fn start(&self, made: i64) -> i64 {
        let start = (made * self.stride - self.pad).div_euclid(self.parts);
        start.clamp(self.within[0], self.within[1])
    }

    /// The lines from which these are made.
    pub fn lines(&self, made: Range<u32>) -> Range<u32> {
        let start = self.first(made.start);
        start..self.end(made.end).max(start)
    }

    /// The first line from which a line is made.
    pub fn first(&self, made: u32) -> u32 {
        self.start(made.into()).clamp(0, self.height) as u32
    }

    /// The end of the input lines from which the first `made` output lines are made.
    pub fn end(&self, made: u32) -> u32 {
        let made = i64::from(made.next_multiple_of(self.tile));
        (self.start(made - 1) + self.reach).clamp(0, self.height) as u32
    }

    /// The most input lines that one of `made` output lines sees at once, however they are made.
    pub fn reach(&self, made: u32) -> u32 {
        let alone = Self { tile: 1, ..*self };
        let lines = (0..made).map(|line| alone.lines(line..line + 1));
        lines.map(|lines| lines.end - lines.start).max().unwrap_or(0)
    }

    /// The fewest input lines from which `lines` of `made` output lines are made. Padding is only
    /// at the first and the last lines.
    pub fn fewest(&self, lines: u32, made: u32) -> u32 {
        let alone = Self { tile: 1, ..*self };
        let lines = lines.min(made);
        let seen = |first: u32| alone.lines(first..first + lines).len() as u32;
        if lines == 0 { 0 } else { seen(0).min(seen(made - lines)) }
    }

    /// Input lines from one output line to the next, where they are whole.
    pub fn stride(&self) -> Option<u32> {
        (self.parts == 1).then_some(self.stride as u32)
    }

    /// Whether some of `made` output lines read the first and the last input line.
    pub fn spans(&self, made: u32) -> bool {
        let alone = Self { tile: 1, ..*self };
        let lines = |line: u32| alone.lines(line..line + 1);
        let of = |line: u32| (lines(line).start, i64::from(lines(line).end));
        made > 0 && of(0).0 == 0 && of(0).1 > 0 && of(made - 1).1 == self.height
    }

    /// Whether each input line is read for some of `made` output lines.
    pub fn covers(&self, made: u32) -> bool {
        self.spans(made) && !self.skips()
    }

    /// Whether a line is made from more lines than there are, as if all were one.
    pub fn sees_all(&self) -> bool {
        self.reach > self.height
    }

    /// Whether some input lines are not read at all.
    pub fn skips(&self) -> bool {
        self.stride > self.reach * self.parts
    }

    /// How many lines must have been made so that no other will be made from any of the first
    /// `spent`.
    pub fn lines_to_spend(&self, spent: u32, height: u32) -> u32 {
        let spent = i64::from(spent);
        if spent > self.within[1] {
            return height;
        }
        let made = (spent * self.parts + self.pad).max(0) as u64;
        (made.div_ceil(self.stride.max(1) as u64).min(height.into())) as u32
    }
}

/// An operand of a layer whose lines are made one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    pub tensor: u32,
    pub window: Window,
    /// Read row by row, each row of the output from the row of its number.
    pub rowwise: bool,
}

/// The inputs of a layer, if its lines can be made one after the other: an operator over one image
/// that looks at a window, works row by row, or copies rows from all over an input of the network,
/// which is there before any step.
pub fn operands(network: &Network, index: usize) -> Option<Vec<Operand>> {
    let layer = &network.layers[index];
    if network.tensors[layer.output as usize].dims[0] != 1 {
        return None;
    }
    let looks_around = looks_around(network, index);
    let given = layer.inputs.into_iter().enumerate().filter(|(_, id)| *id != NONE);
    let found: Option<Vec<Operand>> = given
        .map(|(slot, tensor)| {
            let window = window_of(network, index, slot)?;
            Some(Operand { tensor, window, rowwise: !(slot == 0 && looks_around) })
        })
        .collect();
    found.filter(|found| !found.is_empty())
}

/// The window through which a layer looks at one of its inputs.
fn window_of(network: &Network, index: usize, slot: usize) -> Option<Window> {
    let layer = &network.layers[index];
    // Steps may compute by Winograd's algorithm what is stored for the direct one.
    let tile = tile(layer).unwrap_or(network.on_load[index]).max(1);
    let record = |id: u32| &network.tensors[id as usize];
    let (input, output) = (record(layer.inputs[slot]), record(layer.output));
    if input.dims[0] != 1 {
        return None;
    }
    Some(match lines(network, index, slot)? {
        Lines::Own => Window { tile, ..rowwise(input, output)? },
        Lines::All => Window::all(input.dims[1], output.dims[1]),
        Lines::Sums(p) => resampled(&p, input),
        Lines::Window { kernel, stride, dilation, pad } => Window {
            reach: (i64::from(kernel) - 1) * i64::from(dilation) + 1,
            stride: i64::from(stride).max(1),
            pad: pad.into(),
            tile,
            height: input.dims[1].into(),
            ..Window::EVERY
        },
    })
}

/// Whether a layer's operator reads its first input through a window.
pub fn looks_around(network: &Network, layer: usize) -> bool {
    let kind = OpKind::from_code(network.layers[layer].kind);
    kind.is_some_and(|kind| reads(kind)[0] == Reads::Window)
}

/// The lines that sums along an axis are made from.
fn resampled(p: &ResampleParams, input: &Tensor) -> Window {
    let height = input.dims[1];
    match p.axis {
        1 => Window {
            reach: p.reach.into(),
            stride: p.step[0].into(),
            parts: i64::from(p.step[1]).max(1),
            pad: -i64::from(p.shift),
            within: [0, i64::from(height.saturating_sub(p.reach))],
            tile: 1,
            height: height.into(),
        },
        _ => Window::same(height),
    }
}

fn rowwise(input: &Tensor, output: &Tensor) -> Option<Window> {
    (input.dims[..3] == output.dims[..3]).then(|| Window::same(input.dims[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_what_they_leave() {
        // 3 taps, stride 2, one line of padding, 9 lines: 5 outputs.
        let window = Window { reach: 3, stride: 2, pad: 1, height: 9, ..Window::EVERY };
        assert_eq!(window.lines(0..1), 0..2);
        assert_eq!(window.lines(1..3), 1..6);
        assert_eq!(window.lines(4..5), 7..9);
        // Line 0 is read for output 0 only, lines up to 3 for outputs 0 and 1 and, the last, 2.
        assert_eq!(window.lines_to_spend(1, 5), 1);
        assert_eq!(window.lines_to_spend(3, 5), 2);
        assert_eq!(window.lines_to_spend(4, 5), 3);
        for spent in 1..9 {
            let made = window.lines_to_spend(spent, 5);
            assert!(made == 5 || window.lines(made..made + 1).start >= spent);
            assert!(window.lines(made - 1..made).start < spent);
        }
        for lines in 0..6 {
            let seen = (0..=5 - lines).map(|first| window.lines(first..first + lines).len());
            assert_eq!(
                window.fewest(lines, 5) as usize,
                if lines > 0 { seen.min().unwrap() } else { 0 }
            );
        }
        let tiles = Window { reach: 3, pad: 1, tile: 4, height: 10, ..Window::EVERY };
        assert_eq!(tiles.lines(0..4), 0..5);
        assert_eq!(tiles.lines(8..10), 7..10);
    }

    #[test]
    fn windows_that_go_on_by_parts_of_a_line() {
        // Five lines doubled, each from two: (y - 1) / 2, and never beyond the fourth.
        let twice =
            Window { reach: 2, parts: 2, pad: 1, within: [0, 3], height: 5, ..Window::EVERY };
        let firsts: Vec<u32> = (0..10).map(|line| twice.first(line)).collect();
        assert_eq!(firsts, [0, 0, 0, 1, 1, 2, 2, 3, 3, 3]);
        assert_eq!((twice.lines(0..3), twice.lines(9..10)), (0..2, 3..5));
        assert!(twice.covers(10) && !twice.skips() && twice.stride().is_none());
        for spent in 1..5 {
            let made = twice.lines_to_spend(spent, 10);
            assert!(made == 10 || twice.first(made) >= spent);
            assert!(twice.first(made - 1) < spent);
        }
    }
}
