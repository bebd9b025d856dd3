//! Pieces and their places, of residents made up.

use super::pieces::{Holdings, Item, Piece, Use, in_order, joined, pages, shared};
use proptest::prelude::*;
use std::ops::Range;

const PANEL: u64 = 32 << 10;

/// Bytes of a layer of 64 panels. Layers do not begin at pages.
const LAYER: u64 = 64 * PANEL + 96;

/// A resident of `panels` panels of a layer whose weights begin at `start`, used by one step.
fn item(load: usize, start: u64, panels: u64) -> Item {
    let bytes = start..start + panels * PANEL;
    let panel = (panels > 1).then_some(PANEL);
    let using = Use { step: load, layer: load as u32, bytes: bytes.clone(), panel };
    Item { loads: vec![load], steps: vec![using], bytes }
}

/// Residents: panels of some layers, each of 64, the first ones.
fn holdings(panels: &[u64]) -> Holdings {
    let each = panels.iter().enumerate().filter(|(_, panels)| **panels > 0);
    let items = each.map(|(layer, panels)| item(layer, layer as u64 * LAYER, *panels));
    Holdings { items: items.collect(), ..Holdings::default() }
}

fn piece(bytes: Range<u64>, from: usize) -> Piece {
    Piece { bytes, from }
}

#[test]
fn steps_are_cut_for_what_is_worth_it() {
    let all = [holdings(&[16]), holdings(&[48])];
    let both = 16 * PANEL;
    assert_eq!(shared(&all, both), [piece(0..both, 0)]);
    assert_eq!(shared(&all, both + 1), []);
    // Nothing is cut if both plans are the same.
    let all = [holdings(&[16]), holdings(&[16])];
    assert_eq!(shared(&all, u64::MAX), [piece(0..both, 0)]);
    // The largest plan has it no more.
    let all = [holdings(&[16]), holdings(&[48]), holdings(&[])];
    assert_eq!(shared(&all, 0), []);
}

#[test]
fn steps_that_cannot_be_two_are_not_cut() {
    let mut all = [holdings(&[16]), holdings(&[48])];
    all[1].items[0].steps[0].panel = None;
    assert_eq!(shared(&all, 0), []);
    // Nor within a panel.
    let item = item(0, 0, 4);
    assert_eq!(item.cut_before(3 * PANEL), 3 * PANEL);
    assert_eq!(item.cut_before(3 * PANEL + 32), 3 * PANEL);
    assert_eq!(item.cut_before(PANEL - 32), 0);
}

/// Two steps that keep some of the same weights, each by a load of its own, keep them once.
#[test]
fn residents_with_the_same_bytes_are_one() {
    let items = vec![item(0, 0, 16), item(1, LAYER, 8), item(2, 0, 48), item(3, 16 * PANEL, 4)];
    let items = joined(items);
    let loads: Vec<_> = items.iter().map(|item| item.loads.clone()).collect();
    assert_eq!(loads, [vec![0, 2, 3], vec![1]]);
    assert_eq!(items[0].bytes, 0..48 * PANEL);
    assert_eq!(items[0].steps.len(), 3);
    let all = [Holdings { items, ..Holdings::default() }];
    let places = in_order(&all[0], &shared(&all, 0), 0, 0);
    assert_eq!(places.iter().map(|(bytes, _)| bytes.start).collect::<Vec<_>>(), [0, LAYER]);
}

#[test]
fn what_more_plans_share_lies_below() {
    let all = [holdings(&[8, 8]), holdings(&[64, 8, 4]), holdings(&[64, 0, 4])];
    let pieces = shared(&all, 0);
    let [first, third] = [0..8 * PANEL, 2 * LAYER..2 * LAYER + 4 * PANEL];
    let rest = first.end..64 * PANEL;
    let expected = [piece(first.clone(), 0), piece(rest.clone(), 1), piece(third.clone(), 1)];
    assert_eq!(pieces, expected);
    let ranges = |plan: usize| -> Vec<Range<u64>> {
        in_order(&all[plan], &pieces, plan, 0).into_iter().map(|(bytes, _)| bytes).collect()
    };
    let own = LAYER..LAYER + 8 * PANEL;
    assert_eq!(ranges(0), [first.clone(), own.clone()]);
    assert_eq!(ranges(1), [first.clone(), rest.clone(), third.clone(), own]);
    assert_eq!(ranges(2), [first, rest, third]);
}

/// Where a byte of the weights section lies.
fn address(places: &[(Range<u64>, u64)], byte: u64) -> Option<u64> {
    let (bytes, address) = places.iter().find(|(bytes, _)| bytes.contains(&byte))?;
    Some(address + byte - pages(bytes).0)
}

proptest! {
    /// The claim, whatever the plans keep: what a plan and all larger ones keep lies at one address
    /// in all of them.
    #[test]
    fn what_all_larger_plans_keep_lies_at_one_address(
        plans in prop::collection::vec(prop::collection::vec(0u64..=64, 5), 2..6),
        start in 0u64..4,
    ) {
        let all: Vec<Holdings> = plans.iter().map(|panels| holdings(panels)).collect();
        let pieces = shared(&all, 0);
        let places = |plan: usize| in_order(&all[plan], &pieces, plan, start << 12);
        let places: Vec<_> = (0..all.len()).map(places).collect();
        for from in 0..plans.len() - 1 {
            for layer in 0..5 {
                let panels = plans[from..].iter().map(|panels| panels[layer]).min().unwrap();
                for panel in 0..panels {
                    let byte = layer as u64 * LAYER + panel * PANEL;
                    let here = address(&places[from], byte);
                    prop_assert!(here.is_some());
                    for larger in &places[from + 1..] {
                        prop_assert_eq!(address(larger, byte), here);
                    }
                }
            }
        }
    }

    /// Every plan has all of its residents, one after the other, each byte at one place, and panels
    /// as a whole.
    #[test]
    fn all_residents_have_places_of_their_own(
        plans in prop::collection::vec(prop::collection::vec(0u64..=64, 5), 1..5),
        (least, start) in (0u64..(2 << 20), 0u64..4),
    ) {
        let all: Vec<Holdings> = plans.iter().map(|panels| holdings(panels)).collect();
        let pieces = shared(&all, least);
        for (plan, holdings) in all.iter().enumerate() {
            let mut places = in_order(holdings, &pieces, plan, start << 12);
            let mut free = start << 12;
            for (bytes, address) in &places {
                prop_assert_eq!(*address, free);
                free += pages(bytes).1;
            }
            places.sort_by_key(|(bytes, _)| bytes.start);
            let mut places = places.into_iter().map(|(bytes, _)| bytes).peekable();
            for item in &holdings.items {
                let mut at = item.bytes.start;
                while let Some(bytes) = places.next_if(|bytes| bytes.start < item.bytes.end) {
                    prop_assert_eq!(bytes.start, at);
                    prop_assert_eq!(item.cut_before(bytes.end), bytes.end, "within a panel");
                    at = bytes.end;
                }
                prop_assert_eq!(at, item.bytes.end);
            }
            prop_assert_eq!(places.next(), None);
        }
    }
}
