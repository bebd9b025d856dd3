use super::*;
use proptest::prelude::*;

/// Problems that are small enough to try every order.
fn small() -> impl Strategy<Value = Vec<Buffer>> {
    let align = prop_oneof![4 => Just(1u64), 1 => Just(4u64)];
    let buffer = (0i64..8, 1i64..5, 0u64..9, align).prop_map(|(lower, life, size, align)| Buffer {
        align,
        ..Buffer::new(lower, lower + life, size)
    });
    prop::collection::vec(buffer, 0..7)
}

/// The lowest height there is: some order of placing each buffer as low as it can lie reaches it.
fn optimum(buffers: &[Buffer]) -> u64 {
    fn rest(buffers: &[Buffer], offsets: &mut Vec<Option<u64>>, height: u64, best: &mut u64) {
        if height >= *best {
            return;
        }
        let left: Vec<usize> = (0..buffers.len()).filter(|&b| offsets[b].is_none()).collect();
        if left.is_empty() {
            *best = height;
        }
        for b in left {
            let buffer = buffers[b];
            // On top of all placed before: those placed later lie above those placed earlier.
            let mut tops = vec![0];
            for (other, offset) in buffers.iter().zip(offsets.iter()) {
                tops.extend(
                    offset.filter(|_| other.meets(&buffer)).map(|offset| offset + other.size),
                );
            }
            let offset = tops.into_iter().max().unwrap().next_multiple_of(buffer.align);
            offsets[b] = Some(offset);
            rest(buffers, offsets, height.max(offset + buffer.size), best);
            offsets[b] = None;
        }
    }
    let mut best = u64::MAX;
    let placed: Vec<Buffer> = buffers.iter().copied().filter(|buffer| buffer.size > 0).collect();
    rest(&placed, &mut vec![None; placed.len()], 0, &mut best);
    best
}

proptest! {
    #[test]
    fn small_problems_are_solved_to_the_optimum(buffers in small()) {
        let optimum = optimum(&buffers);
        let minimum = minimise(&buffers, Limit::default());
        prop_assert_eq!(minimum.placement.height, optimum);
        prop_assert_eq!(minimum.lower_bound, optimum);
        validate(&buffers, &minimum.placement.offsets, optimum).unwrap();
        prop_assert!(matches!(solve(&buffers, optimum, Limit::default()), Outcome::Fits(_)));
        if optimum > 0 {
            let Outcome::Best { placement, lower_bound } = solve(&buffers, optimum - 1, Limit::default())
            else { panic!("fits below the optimum") };
            prop_assert_eq!((placement.height, lower_bound), (optimum, optimum));
        }
    }

    #[test]
    fn the_search_alone_agrees(buffers in small()) {
        let optimum = optimum(&buffers);
        match Search::new(&buffers, optimum, None, None).run().0 {
            Found::Placed(offsets) => validate(&buffers, &offsets, optimum).unwrap(),
            other => panic!("{other:?} at the optimum"),
        }
        if optimum > 0 {
            prop_assert_eq!(Search::new(&buffers, optimum - 1, None, None).run().0, Found::Nothing);
        }
    }

    #[test]
    fn answers_validate_and_repeat(
        buffers in prop::collection::vec((0i64..60, 1i64..30, 1u64..1000), 1..60),
        tightness in 0u64..4,
    ) {
        let buffers: Vec<Buffer> =
            buffers.into_iter().map(|(lower, life, size)| Buffer::new(lower, lower + life, size)).collect();
        let capacity = peak(&buffers).bytes + tightness * 100;
        let outcome = solve(&buffers, capacity, Limit::work(3000));
        prop_assert_eq!(&outcome, &solve(&buffers, capacity, Limit::work(3000)));
        match outcome {
            Outcome::Fits(placement) => {
                prop_assert!(placement.height <= capacity);
                validate(&buffers, &placement.offsets, placement.height).unwrap();
            }
            Outcome::Best { placement, lower_bound } => {
                prop_assert!(placement.height > capacity && lower_bound <= placement.height);
                validate(&buffers, &placement.offsets, placement.height).unwrap();
            }
        }
    }

    #[test]
    fn perfect_packings_are_found(seed in 0u64..1000) {
        let buffers = cut(seed, 24, 200, 4096);
        prop_assert_eq!(peak(&buffers).bytes, 4096);
        let Outcome::Fits(placement) = solve(&buffers, 4096, Limit::default()) else { panic!("none found") };
        validate(&buffers, &placement.offsets, 4096).unwrap();
    }
}

/// A rectangle of so much time and height, cut into buffers by cuts from side to side: without gaps.
fn cut(seed: u64, count: usize, time: i64, height: u64) -> Vec<Buffer> {
    use rand::prelude::*;
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut buffers = vec![Buffer::new(0, time, height)];
    while buffers.len() < count {
        let at = random.random_range(0..buffers.len());
        let Buffer { lower, upper, size, .. } = buffers[at];
        if upper - lower > 1 && random.random() {
            let middle = random.random_range(lower + 1..upper);
            buffers[at].upper = middle;
            buffers.push(Buffer::new(middle, upper, size));
        } else if size > 1 {
            let part = random.random_range(1..size);
            buffers[at].size = part;
            buffers.push(Buffer::new(lower, upper, size - part));
        }
    }
    buffers.shuffle(&mut random);
    buffers
}

#[test]
fn more_than_a_capacity_live_is_known_at_once() {
    let buffers = [Buffer::new(0, 4, 6), Buffer::new(2, 6, 6), Buffer::new(5, 9, 6)];
    let outcome = solve(&buffers, 11, Limit::default());
    let Outcome::Best { placement, lower_bound } = outcome else { panic!("{outcome:?}") };
    assert_eq!((placement.height, lower_bound), (12, 12));
    assert_eq!(peak(&buffers), Peak { bytes: 12, time: 2 });
}

#[test]
fn what_greedy_misses_the_search_finds_or_refutes() {
    let wall = cut(3, 40, 1000, 1 << 20);
    let greedy = greedy::place(&wall, 1 << 20, None).height;
    assert!(greedy > 1 << 20, "choose another seed: greedy is enough");
    assert!(matches!(solve(&wall, 1 << 20, Limit::default()), Outcome::Fits(_)));
    // A limit of nothing leaves what greedy found.
    let none = solve(&wall, 1 << 20, Limit::work(0));
    let Outcome::Best { placement, lower_bound } = none else { panic!("{none:?}") };
    assert_eq!((placement.height, lower_bound), (greedy, 1 << 20));
    let late = solve(&wall, 1 << 20, Limit::time(Duration::ZERO));
    assert!(matches!(late, Outcome::Best { .. }));
}

#[test]
fn a_gap_between_peak_and_optimum_is_proven() {
    let buffers = [
        Buffer::new(0, 2, 2),
        Buffer::new(1, 4, 1),
        Buffer::new(3, 6, 2),
        Buffer::new(5, 7, 1),
        Buffer::new(0, 1, 1),
        Buffer::new(2, 3, 2),
        Buffer::new(4, 5, 1),
        Buffer::new(6, 7, 2),
    ];
    let minimum = minimise(&buffers, Limit::default());
    assert_eq!(minimum.lower_bound, minimum.placement.height);
    assert_eq!(minimum.placement.height, optimum(&buffers));
}

#[test]
fn parts_of_time_are_independent() {
    let mut buffers = cut(5, 12, 100, 4096);
    for part in 1..40 {
        let later = |b: &Buffer| Buffer::new(b.lower + part * 100, b.upper + part * 100, b.size);
        let more: Vec<Buffer> = buffers[..12].iter().map(later).collect();
        buffers.extend(more);
    }
    let Outcome::Fits(placement) = solve(&buffers, 4096, Limit::work(100_000)) else {
        panic!("not found")
    };
    validate(&buffers, &placement.offsets, 4096).unwrap();
}
