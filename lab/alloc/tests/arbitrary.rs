//! Any text as a problem of static allocation: an error, or a placement that is right.

use eyelet_alloc::csv::Table;
use eyelet_alloc::{Limit, Outcome, peak, solve, validate};

#[cfg(test)]
#[path = "../../../planner/tests/fuzz/mutate.rs"]
mod mutate;

/// Returns whether the text is a problem.
pub fn run(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Ok(table) = Table::parse(text) else { return false };
    let buffers = &table.buffers;
    let outcome = solve(buffers, peak(buffers).bytes, Limit::work(1000));
    let (Outcome::Fits(placement) | Outcome::Best { placement, .. }) = outcome;
    validate(buffers, &placement.offsets, placement.height).unwrap();
    assert_eq!(table.with_offsets(&placement.offsets).lines().count(), buffers.len() + 1);
    true
}

/// Inputs that are made from short problems: what is refused and what is placed has been tried.
#[test]
fn texts_made_from_problems() {
    const INPUTS: usize = 200_000;
    // What a forged size asks for must not be had.
    let most = libc::rlimit { rlim_cur: 8 << 30, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: sets a limit of this process to a valid record.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &most) }, 0);
    let problem = |name: &str| {
        let file = format!("{}/tests/data/{name}.1048576.csv", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().take(24).flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
    };
    let columns = "id,lower,upper,size,alignment,name\n0,0,3,16,8,a\n1,1,2,7,1,b\n2,-4,9,64,64,c\n";
    let seeds = vec![problem("A"), problem("K"), columns.into()];
    assert!(seeds.iter().all(|seed| run(seed)));
    let mut mutator = mutate::Mutator::new(seeds);
    let mut accepted = 0;
    for _ in 0..INPUTS {
        let input = mutator.input();
        if run(&input) {
            accepted += 1;
            mutator.keep(input);
        }
    }
    assert!(accepted > INPUTS / 50 && accepted < INPUTS, "{accepted} of {INPUTS}");
}
