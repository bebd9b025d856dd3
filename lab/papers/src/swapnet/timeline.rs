//! Runs blocks in time: what Eq. 4 predicts, event by event.
//!
//! Each network has two threads, as published: one computes blocks in order, one swaps. The
//! swapping thread reads blocks 1 and 2; after block `i` has computed it swaps that out and reads
//! block `i + 2`. It does one thing after the other, where Eq. 4 lets the read of one block go on
//! next to that of another.
//!
//! The publication lets networks run side by side as if each were alone ([`Storage::Own`]). In fact
//! they have one drive ([`Storage::Shared`]): then reads of all networks are served in the order in
//! which they are asked for.

use eyelet_tasks::swapnet::chain::Block;

/// From when to when something lasts, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start_ns: i64,
    pub end_ns: i64,
}

/// One inference of one network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Of each block.
    pub swap_in: Vec<Span>,
    pub execute: Vec<Span>,
    pub swap_out: Vec<Span>,
}

/// Who reads from a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// One network: each has a drive of its own.
    Own,
    /// All networks.
    Shared,
}

impl Run {
    /// When the last block has computed.
    pub fn latency_ns(&self) -> i64 {
        self.execute.last().map_or(0, |span| span.end_ns)
    }

    /// Most bytes of blocks in memory at once: a block is there from when it is read until it is
    /// swapped out.
    pub fn most_bytes(&self, blocks: &[Block]) -> u64 {
        let held = |at: i64| -> u64 {
            let spans = self.swap_in.iter().zip(&self.swap_out).zip(blocks);
            let there = spans.filter(|((read, out), _)| read.start_ns <= at && at < out.end_ns);
            there.map(|(_, block)| block.bytes).sum()
        };
        // It only grows when a read begins. Blocks that take no time are there for a moment.
        self.swap_in.iter().map(|read| held(read.start_ns)).max().unwrap_or(0)
    }
}

/// A network under way.
struct Course<'a> {
    blocks: &'a [Block],
    run: Run,
    /// When the swapping thread has nothing to do.
    idle_ns: i64,
}

impl Course<'_> {
    fn is_done(&self) -> bool {
        self.run.swap_in.len() == self.blocks.len()
    }

    /// Before the next read, swaps out the block whose memory it takes; says when it can begin.
    fn make_room(&mut self) -> i64 {
        let next = self.run.swap_in.len();
        while self.run.swap_out.len() + 2 <= next {
            self.swap_out();
        }
        self.idle_ns
    }

    fn swap_out(&mut self) {
        let block = self.run.swap_out.len();
        let start_ns = self.idle_ns.max(self.run.execute[block].end_ns);
        let end_ns = start_ns + self.blocks[block].times.out_ns;
        self.run.swap_out.push(Span { start_ns, end_ns });
        self.idle_ns = end_ns;
    }

    /// Reads the next block from `start_ns` on, and computes it as soon as it can.
    fn read(&mut self, start_ns: i64) {
        let times = self.blocks[self.run.swap_in.len()].times;
        let end_ns = start_ns + times.in_ns;
        self.run.swap_in.push(Span { start_ns, end_ns });
        self.idle_ns = end_ns;
        let start_ns = end_ns.max(self.run.latency_ns());
        self.run.execute.push(Span { start_ns, end_ns: start_ns + times.ex_ns });
    }
}

/// Runs one inference of each network; all begin at time 0.
pub fn run(networks: &[Vec<Block>], storage: Storage) -> Vec<Run> {
    let course = |blocks| Course { blocks, run: Run::default(), idle_ns: 0 };
    let mut courses: Vec<Course<'_>> =
        networks.iter().map(|blocks| course(blocks.as_slice())).collect();
    let mut free_ns = 0;
    loop {
        // The read that is asked for first. When that is depends on no other network's reads to
        // come.
        let open = courses.iter_mut().enumerate().filter(|(_, course)| !course.is_done());
        let next = open.map(|(at, course)| (course.make_room(), at)).min();
        let Some((asked_ns, at)) = next else { break };
        let start_ns = match storage {
            Storage::Own => asked_ns,
            Storage::Shared => asked_ns.max(free_ns),
        };
        courses[at].read(start_ns);
        free_ns = courses[at].idle_ns;
    }
    let finish = |mut course: Course<'_>| {
        while course.run.swap_out.len() < course.blocks.len() {
            course.swap_out();
        }
        course.run
    };
    courses.into_iter().map(finish).collect()
}

/// Runs one inference of a network that is alone.
pub fn alone(blocks: &[Block]) -> Run {
    run(&[blocks.to_vec()], Storage::Own).swap_remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet_tasks::swapnet::delays::Times;

    fn block(bytes: u64, in_ns: i64, ex_ns: i64, out_ns: i64) -> Block {
        Block { bytes, times: Times { in_ns, ex_ns, out_ns } }
    }

    /// Drawn by hand.
    #[test]
    fn a_block_comes_when_the_one_before_the_last_has_gone() {
        let blocks = [block(4, 10, 20, 1), block(3, 5, 30, 1), block(5, 40, 8, 1)];
        let run = alone(&blocks);
        let span = |start_ns, end_ns| Span { start_ns, end_ns };
        assert_eq!(run.swap_in, [span(0, 10), span(10, 15), span(31, 71)]);
        assert_eq!(run.execute, [span(10, 30), span(30, 60), span(71, 79)]);
        assert_eq!(run.swap_out, [span(30, 31), span(71, 72), span(79, 80)]);
        assert_eq!(run.latency_ns(), 79);
        assert_eq!(run.most_bytes(&blocks), 8);
    }

    #[test]
    fn networks_wait_for_a_shared_drive() {
        let one = vec![block(1, 10, 5, 0)];
        let networks = [one.clone(), one];
        let latencies = |storage| {
            let runs = run(&networks, storage);
            runs.iter().map(Run::latency_ns).collect::<Vec<_>>()
        };
        assert_eq!(latencies(Storage::Own), [15, 15]);
        assert_eq!(latencies(Storage::Shared), [15, 25]);
        assert_eq!(run(&[], Storage::Shared), []);
        assert_eq!(alone(&[]).latency_ns(), 0);
    }
}
