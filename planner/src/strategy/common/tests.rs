//! Pieces and their places, of residents made up.

use super::pieces::{Holdings, Item, Piece, Sharing, Use, pages, shared};
use super::slots::Slots;
use proptest::prelude::*;
use std::ops::Range;

const PANEL: u64 = 32 << 10;

/// A resident of so many panels of a layer whose weights begin at a byte, as one step uses it.
fn item(load: usize, start: u64, panels: u64) -> Item {
    let bytes = start..start + panels * PANEL;
    let panel = (panels > 1).then_some(PANEL);
    Item { load, steps: vec![Use { step: load, bytes: bytes.clone(), panel }], bytes }
}

/// Residents: panels of some layers, each of 64, the first ones.
fn holdings(panels: &[u64]) -> Holdings {
    let each = panels.iter().enumerate().filter(|(_, panels)| **panels > 0);
    // Layers do not begin at pages.
    let items = each.map(|(layer, panels)| item(layer, layer as u64 * (64 * PANEL + 96), *panels));
    Holdings { items: items.collect(), rest: 0 }
}

fn piece(bytes: Range<u64>, plans: std::ops::RangeInclusive<usize>) -> Piece {
    Piece { bytes, plans }
}

#[test]
fn steps_are_cut_for_what_is_worth_it() {
    // The second plan has more of a layer than the first; the third has none.
    let all = [holdings(&[16]), holdings(&[48]), holdings(&[])];
    let common = 16 * PANEL;
    let found = |least, passing| shared(&all, Sharing { least, passing });
    assert_eq!(found(common, true), [piece(0..common, 0..=1)]);
    assert_eq!(found(common + 1, true), []);
    assert_eq!(found(common, false), [], "a larger budget has it no more");
    // What is the same in both is cut from nothing.
    let all = [holdings(&[16]), holdings(&[16])];
    assert_eq!(
        shared(&all, Sharing { least: u64::MAX, passing: false }),
        [piece(0..common, 0..=1)]
    );
}

#[test]
fn steps_that_cannot_be_two_are_not_cut() {
    let mut all = [holdings(&[16]), holdings(&[48])];
    all[1].items[0].steps[0].panel = None;
    assert_eq!(shared(&all, Sharing { least: 0, passing: true }), []);
    // Nor within a panel.
    let item = item(0, 0, 4);
    assert_eq!(item.cut_before(3 * PANEL), 3 * PANEL);
    assert_eq!(item.cut_before(3 * PANEL + 32), 3 * PANEL);
    assert_eq!(item.cut_before(PANEL - 32), 0);
}

#[test]
fn what_all_larger_budgets_have_lies_below() {
    let all = [holdings(&[8, 8]), holdings(&[0, 64])];
    let shared = shared(&all, Sharing { least: 0, passing: true });
    let slots = Slots::new(&all, &shared, 0);
    let first: Vec<_> = slots.of_plan(0).collect();
    let own = all[0].items[1].bytes.clone();
    assert!(first.contains(&(own, 0)), "{first:?}");
    let second: Vec<_> = slots.of_plan(1).collect();
    assert_eq!(second.len(), 2);
}

proptest! {
    /// Every plan has all of its residents, each byte at one place that is nobody else's; and what plans share lies at one place.
    #[test]
    fn all_residents_have_places_of_their_own(
        plans in prop::collection::vec(prop::collection::vec(0u64..=64, 5), 1..5),
        (least, passing, start) in (0u64..(2 << 20), any::<bool>(), 0u64..4),
    ) {
        let all: Vec<Holdings> = plans.iter().map(|panels| holdings(panels)).collect();
        let shared = shared(&all, Sharing { least, passing });
        let start = start << 12;
        let slots = Slots::new(&all, &shared, start);
        for (plan, holdings) in all.iter().enumerate() {
            let mut places: Vec<(Range<u64>, u64)> = slots.of_plan(plan).collect();
            if !shared.iter().any(|piece| piece.plans.contains(&plan)) {
                prop_assert!(places.is_empty());
                continue;
            }
            for piece in shared.iter().filter(|piece| piece.plans.contains(&plan)) {
                // In one part or in several, which are the same in all of its plans.
                let inside = |range: &Range<u64>| piece.bytes.start <= range.start && range.end <= piece.bytes.end;
                let here = |of: usize| -> Vec<_> { slots.of_plan(of).filter(|(range, _)| inside(range)).collect() };
                prop_assert_eq!(here(plan), here(*piece.plans.start()));
            }
            places.sort_by_key(|(_, address)| *address);
            let mut free = start;
            for (range, address) in &places {
                prop_assert!(*address >= free && address % 4096 == 0, "{:?} at {}, {} is free", range, address, free);
                free = address + pages(range).1;
            }
            places.sort_by_key(|(range, _)| range.start);
            for item in &holdings.items {
                let mut at = item.bytes.start;
                for (range, _) in &places {
                    if item.bytes.contains(&range.start) {
                        prop_assert_eq!(range.start, at);
                        prop_assert_eq!(item.cut_before(range.end), range.end, "within a panel");
                        at = range.end;
                    }
                }
                prop_assert_eq!(at, item.bytes.end);
            }
        }
    }
}
