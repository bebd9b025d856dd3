//! Memory as a pool of objects of a few sizes, and such pools as chromosomes (section 5.3).

use super::graph::Graph;
use rand::Rng;

/// Which size class serves each size of a tensor, and how many objects each class has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// CLS: for each size of a tensor, in ascending order, its class. Classes count from 1, and each size has the
    /// class of the size before it or the next one.
    pub classes: Vec<usize>,
    /// CNT: objects of each class.
    pub counts: Vec<u64>,
}

impl Pool {
    /// A pool in which each size has a class of its own, or shares that of the size before it, at random, and each
    /// class has a random share of the memory, weighed by the tensors that it serves.
    pub fn random(sizes: &[u64], tensors: &[u64], capacity: u64, random: &mut impl Rng) -> Self {
        let mut classes = vec![1; sizes.len()];
        for at in 1..sizes.len() {
            classes[at] = classes[at - 1] + usize::from(random.random_bool(0.5));
        }
        let mut pool = Self { counts: Vec::new(), classes };
        let objects = pool.object_bytes(sizes);
        let mut weights = vec![0.0; objects.len()];
        for (&class, &tensors) in pool.classes.iter().zip(tensors) {
            weights[class - 1] += tensors as f64;
        }
        let weights = weights.iter().zip(&objects);
        let weights = weights.map(|(w, bytes)| w * *bytes as f64 * random.random_range(0.2..1.0));
        let weights: Vec<f64> = weights.collect();
        let all: f64 = weights.iter().sum();
        let count = |(weight, &bytes): (&f64, &u64)| {
            ((capacity as f64 * weight / all / bytes as f64) as u64).max(1)
        };
        pool.counts = weights.iter().zip(&objects).map(count).collect();
        pool.repair(sizes, capacity);
        pool
    }

    /// A class for each size. Each has the objects that the hungriest operator needs, and an even share of the rest of
    /// its tensors.
    pub fn plain(graph: &Graph, capacity: u64) -> Self {
        let sizes = graph.sizes();
        let class =
            |tensor: usize| sizes.partition_point(|&size| size < graph.tensors[tensor].bytes);
        let count = |tensors: &mut dyn Iterator<Item = usize>| {
            let mut counts = vec![0u64; sizes.len()];
            tensors.for_each(|tensor| counts[class(tensor)] += 1);
            counts
        };
        let mut needed = vec![0; sizes.len()];
        for operator in 0..graph.operators.len() {
            let own = count(&mut graph.touched[operator].iter().copied());
            needed.iter_mut().zip(own).for_each(|(needed, own)| *needed = own.max(*needed));
        }
        let all = count(&mut (0..graph.tensors.len()));
        let bytes =
            |counts: &[u64]| -> u64 { counts.iter().zip(&sizes).map(|(n, size)| n * size).sum() };
        let (least, most) = (bytes(&needed), bytes(&all));
        let share = capacity.saturating_sub(least) as f64 / (most - least).max(1) as f64;
        let rest = |(&needed, &all): (&u64, &u64)| {
            needed + ((all - needed) as f64 * share.min(1.0)) as u64
        };
        let counts = needed.iter().zip(&all).map(rest).collect();
        Self { classes: (1..=sizes.len()).collect(), counts }
    }

    /// The bytes of an object of each class: those of the largest tensor that it serves.
    pub fn object_bytes(&self, sizes: &[u64]) -> Vec<u64> {
        let mut bytes = vec![0; self.classes.last().copied().unwrap_or(0)];
        self.classes.iter().zip(sizes).for_each(|(&class, &size)| bytes[class - 1] = size);
        bytes
    }

    /// The bytes of all objects.
    pub fn bytes(&self, sizes: &[u64]) -> u64 {
        self.object_bytes(sizes).iter().zip(&self.counts).map(|(bytes, count)| bytes * count).sum()
    }

    /// CNT extended: the objects that each size of a tensor can use.
    pub fn extended(&self) -> Vec<u64> {
        self.classes.iter().map(|&class| self.counts[class - 1]).collect()
    }

    /// The pool of these classes. Each has the mean of what its sizes can use.
    pub fn averaged(classes: Vec<usize>, extended: &[u64]) -> Self {
        let mut sums = vec![(0, 0); classes.last().copied().unwrap_or(0)];
        for (&class, count) in classes.iter().zip(extended) {
            sums[class - 1].0 += count;
            sums[class - 1].1 += 1;
        }
        Self { classes, counts: sums.into_iter().map(|(sum, sizes)| sum / sizes).collect() }
    }

    /// A child of two pools: the first `cut` sizes as one has them, and the others as the other.
    pub fn crossed(first: &Self, others: &Self, cut: usize) -> Self {
        let join = |a: &[usize], b: &[usize]| [&a[..cut], &b[cut..]].concat();
        let classes = repaired(join(&first.classes, &others.classes));
        let extended = [&first.extended()[..cut], &others.extended()[cut..]].concat();
        Self::averaged(classes, &extended)
    }

    /// Changes each class with the probability `share` by one, and with it all after it; then each count to one near
    /// it.
    pub fn mutate(&mut self, share: f64, random: &mut impl Rng) {
        let extended = self.extended();
        for at in 1..self.classes.len() {
            if random.random_bool(share) {
                let up = self.classes[at] == self.classes[at - 1];
                let tail = self.classes[at..].iter_mut();
                tail.for_each(|class| *class = if up { *class + 1 } else { *class - 1 });
            }
        }
        *self = Self::averaged(std::mem::take(&mut self.classes), &extended);
        for count in &mut self.counts {
            if random.random_bool(share) {
                let mean = *count as f64;
                *count = (mean + normal(random) * (mean / 4.0).max(1.0)).round().max(1.0) as u64;
            }
        }
    }

    /// Takes objects away until the pool fits: each of the k classes gives up excess/(k · size) of them, but keeps
    /// one.
    pub fn repair(&mut self, sizes: &[u64], capacity: u64) {
        let objects = self.object_bytes(sizes);
        while self.bytes(sizes) > capacity && self.counts.iter().any(|&count| count > 1) {
            let excess = self.bytes(sizes) - capacity;
            for (count, bytes) in self.counts.iter_mut().zip(&objects) {
                let given = excess.div_ceil(objects.len() as u64 * bytes);
                *count = count.saturating_sub(given).max(1);
            }
        }
    }
}

/// The least increase after which each class is that of the size before it or the next one.
pub fn repaired(mut classes: Vec<usize>) -> Vec<usize> {
    for at in 1..classes.len() {
        let least = classes[at - 1];
        if classes[at] < least {
            let missing = least - classes[at];
            classes[at..].iter_mut().for_each(|class| *class += missing);
        }
        // A gap in the numbers of classes is none: the next number stands for the next class.
        if classes[at] > least + 1 {
            let beyond = classes[at] - least - 1;
            classes[at..].iter_mut().for_each(|class| *class -= beyond.min(*class - 1));
        }
    }
    classes
}

/// A number of the normal distribution, by the sum of twelve uniform ones.
fn normal(random: &mut impl Rng) -> f64 {
    (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
}
