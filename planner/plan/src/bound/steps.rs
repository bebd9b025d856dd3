//! Lower bounds for the steps of a layer, by the memory that each of them must have at once.
//!
//! A step makes some lines of some panels. It must have the lines that it sees and those that it
//! makes, its panels, and its scratch: all the scratch that the others leave, at best. Time for a
//! line, `g(p)`, is least for the best number of lines of steps of `p` panels that fit. The steps
//! that make parts of one line have its panels, each once; so the line takes no less than the best
//! division of the panels into such steps, by `g`, and the layer takes that for each of its lines,
//! however it is divided into steps.
//!
//! Consider steps of the same panels with the same scratch. Those of more lines take no more for a
//! line: the work for each line is the same, and all other work is divided by more lines. So the
//! most lines that fit are best if scratch changes nothing. A step of parts of lines takes no less
//! for each than one that makes whole lines. But more lines may not stay in a cache
//! ([`cached_rings`](super::cached_rings)). Then the bound is the time that they would take if they did.

/// A layer, by an algorithm, in a budget.
pub(super) struct Layer<'a> {
    /// Lines of its output; 1 if it does not slide.
    pub(super) lines: u32,
    /// Steps begin at a multiple of this many lines.
    pub(super) tile: u32,
    /// 0 if it has none.
    pub(super) panels: u32,
    pub(super) panel_bytes: f64,
    /// Least bytes that a step must have of a panel. Steps that each have a part together take no
    /// less than one that has all.
    pub(super) part_bytes: f64,
    /// Bytes that a step leaves to its panels and its scratch, by its lines. Fewer lines leave no
    /// less.
    pub(super) left: &'a dyn Fn(u32) -> f64,
    /// The least scratch of a step.
    pub(super) scratch: f64,
    /// Time of a step, by its lines, panels and scratch.
    pub(super) ns: &'a dyn Fn(u32, u32, f64) -> f64,
    /// Time by lines and panels. No step of the same panels and fewer lines takes less for each
    /// line.
    pub(super) floor: &'a dyn Fn(u32, u32) -> f64,
    /// Whether steps take longer with less scratch.
    pub(super) wants_scratch: bool,
}

impl Layer<'_> {
    /// The least time of its steps; `None` if none fits.
    pub(super) fn least_ns(&self) -> Option<f64> {
        let fewest = self.panels.min(1);
        let left = (self.left)(self.lines);
        if !self.wants_scratch && self.weights(self.panels) + self.scratch <= left {
            return Some((self.ns)(self.lines, self.panels, left));
        }
        // For each number of panels, from the fewest on: the time of a line, and whether no other
        // steps take less.
        let mut found = vec![(f64::INFINITY, false); (self.panels - fewest + 1) as usize];
        let begins = |lines: u32| {
            lines.is_multiple_of(self.tile) || (self.lines - lines).is_multiple_of(self.tile)
        };
        for lines in (1..=self.lines).rev().filter(|lines| begins(*lines)) {
            let left = (self.left)(lines);
            for (count, (least, known)) in (fewest..).zip(&mut found).filter(|(_, found)| !found.1)
            {
                let scratch = left - self.weights(count);
                if scratch < self.scratch {
                    break;
                }
                let floor = || (self.floor)(lines, count) / f64::from(lines);
                *known = *least < f64::INFINITY && floor() >= *least;
                if !*known {
                    *least = least.min((self.ns)(lines, count, scratch) / f64::from(lines));
                    *known = !self.wants_scratch;
                }
            }
            if found.iter().all(|(_, known)| *known) {
                break;
            }
        }
        let of_line = found.iter().map(|(ns, _)| *ns).take_while(|ns| *ns < f64::INFINITY);
        let of_line: Vec<f64> = of_line.collect();
        let ns = match (of_line.first(), self.panels) {
            (None, _) => return None,
            (Some(ns), 0) => *ns,
            _ => least_in_steps(self.panels, &of_line),
        };
        Some(f64::from(self.lines) * ns)
    }

    fn weights(&self, panels: u32) -> f64 {
        if panels == 1 { self.part_bytes } else { f64::from(panels) * self.panel_bytes }
    }
}

/// The least time for `panels` panels in steps of one or more, given the time of each step.
fn least_in_steps(panels: u32, step_ns: &[f64]) -> f64 {
    let mut least = vec![0.0];
    for count in 1..=panels as usize {
        // The last step, and those before it.
        let with = |(less, ns): (usize, &f64)| ns + least[count - 1 - less];
        let ns = step_ns.iter().take(count).enumerate().map(with).fold(f64::INFINITY, f64::min);
        least.push(ns);
    }
    least[panels as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Steps whose lines and panels take memory, and which take the longer the less scratch they
    /// have.
    #[derive(Clone, Debug)]
    struct Made {
        lines: u32,
        tile: u32,
        panels: u32,
        budget: f64,
        line_bytes: f64,
        /// Times of a step, of a line, of a panel, of a panel's line, and of a panel's block.
        ns: [f64; 5],
        wants_scratch: bool,
        /// Lines that a cache holds, and the extra time of each line of a longer step.
        cached: (u32, f64),
    }

    impl Made {
        fn left(&self, lines: u32) -> f64 {
            self.budget - self.line_bytes * f64::from(lines)
        }

        fn ns(&self, lines: u32, count: u32, scratch: f64) -> f64 {
            let (cached, spill_ns) = self.cached;
            let spill = if lines > cached { spill_ns * f64::from(lines) } else { 0.0 };
            self.cached_ns(lines, count, scratch) + spill
        }

        fn floor(&self, lines: u32, count: u32) -> f64 {
            self.cached_ns(lines, count, f64::INFINITY)
        }

        fn cached_ns(&self, lines: u32, count: u32, scratch: f64) -> f64 {
            let [step, line, panel, piece, block] = self.ns;
            let (lines, count) = (f64::from(lines), f64::from(count));
            let blocks = if self.wants_scratch { (lines / scratch).max(1.0) } else { 1.0 };
            step + line * lines + count * (panel + piece * lines + block * blocks)
        }

        fn least_ns(&self) -> Option<f64> {
            let layer = Layer {
                lines: self.lines,
                tile: self.tile,
                panels: self.panels,
                panel_bytes: 1.0,
                part_bytes: 1.0,
                left: &|lines| self.left(lines),
                scratch: 1.0,
                ns: &|lines, count, scratch| self.ns(lines, count, scratch),
                floor: &|lines, count| self.floor(lines, count),
                wants_scratch: self.wants_scratch,
            };
            layer.least_ns()
        }

        /// The least time of `panels` panels of `lines` lines, one step after the other.
        fn band_ns(&self, lines: u32, panels: u32) -> f64 {
            let with = |count: u32| {
                let scratch = self.left(lines) - f64::from(count);
                let ns = match scratch >= 1.0 {
                    true => self.ns(lines, count, scratch),
                    false => f64::INFINITY,
                };
                ns + self.band_ns(lines, panels - count)
            };
            if panels == 0 { 0.0 } else { (1..=panels).map(with).fold(f64::INFINITY, f64::min) }
        }

        /// The least time of all lines from `from` on, band after band.
        fn all_ns(&self, from: u32) -> f64 {
            let with = |to: u32| self.band_ns(to - from, self.panels) + self.all_ns(to);
            let ends = (from + 1..=self.lines)
                .filter(|to| *to == self.lines || to.is_multiple_of(self.tile));
            if from == self.lines { 0.0 } else { ends.map(with).fold(f64::INFINITY, f64::min) }
        }

        /// The time of a line in the best steps for `panels` panels of it.
        fn line_ns(&self, panels: u32) -> f64 {
            let begins = |lines: &u32| {
                [*lines, self.lines - lines].iter().any(|n| n.is_multiple_of(self.tile))
            };
            let with = |count: u32| {
                let lines = (1..=self.lines).filter(begins);
                let of_line = lines.filter_map(|lines| {
                    let scratch = self.left(lines) - f64::from(count);
                    (scratch >= 1.0).then(|| self.ns(lines, count, scratch) / f64::from(lines))
                });
                of_line.fold(f64::INFINITY, f64::min) + self.line_ns(panels - count)
            };
            if panels == 0 { 0.0 } else { (1..=panels).map(with).fold(f64::INFINITY, f64::min) }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_steps_that_fit_take_less(
            (lines, tile, panels) in (1u32..9, 1u32..5, 1u32..7),
            (budget, line_bytes) in (1.0f64..20.0, 0.0f64..3.0),
            ns in prop::array::uniform5(0.0f64..10.0),
            wants_scratch in any::<bool>(),
            cached in (1u32..9, 0.0f64..10.0),
        ) {
            let cached = if wants_scratch { cached } else { (lines, 0.0) };
            let made = Made {
                lines, tile, panels, budget, line_bytes, ns, wants_scratch, cached,
            };
            let (least, best) = (made.least_ns(), made.all_ns(0));
            prop_assert!(least.unwrap_or(f64::INFINITY) <= best * (1.0 + 1e-9), "{least:?} of {best}");
            // And as much as can be said line by line.
            let of_lines = f64::from(lines) * made.line_ns(panels);
            match least {
                None => prop_assert!(of_lines == f64::INFINITY),
                Some(least) => prop_assert!(
                    (least - of_lines).abs() <= 1e-9 * of_lines, "{least} instead of {of_lines}"
                ),
            }
        }
    }

    #[test]
    fn bands_transform_anew() {
        // Four lines of two panels; a step costs 1, a panel 10, a line of a panel 1.
        let made = |budget: f64| Made {
            lines: 4,
            tile: 1,
            panels: 2,
            budget,
            line_bytes: 2.0,
            ns: [1.0, 0.0, 10.0, 1.0, 0.0],
            wants_scratch: false,
            cached: (4, 0.0),
        };
        let least = |budget: f64| made(budget).least_ns();
        // All at once; panel by panel, or three of the lines at a time; two; one line of one panel.
        assert_eq!([least(11.0), least(10.0)], [Some(29.0), Some(30.0)]);
        assert_eq!([least(6.0), least(4.0)], [Some(52.0), Some(96.0)]);
        assert_eq!(least(3.9), None);
    }

    #[test]
    fn steps_are_as_long_as_is_best() {
        // A step costs 10, panels 1 each; beyond four there is little scratch for them.
        let step_ns = |count: u32| 10.0 + f64::from(count) * if count > 4 { 5.0 } else { 1.0 };
        let least = |panels: u32, most: u32| {
            least_in_steps(panels, &(1..=most).map(step_ns).collect::<Vec<_>>())
        };
        assert_eq!([least(4, 4), least(8, 8), least(8, 3)], [14.0, 28.0, 38.0]);
        assert_eq!([least(5, 8), least(1, 1)], [25.0, 11.0]);
    }
}
