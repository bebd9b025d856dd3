//! The search: schedules and pools evolve together (section 5.1).

use super::graph::Graph;
use super::pool::Pool;
use super::schedule;
use super::simulate::{Link, seconds};
use super::swap::{Scheduled, SwapPlan, Victim};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;
use std::time::{Duration, Instant};

/// The parts of an individual that evolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searched {
    Both,
    /// All individuals have the first schedule.
    Pools,
    /// All individuals have the first pool.
    Schedules,
}

/// How the search goes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of memory.
    pub capacity: u64,
    pub link: Link,
    /// Individuals that survive a generation.
    pub population: usize,
    /// The probability of a mutation.
    pub mutation: f64,
    pub victim: Victim,
    pub searched: Searched,
    pub seed: u64,
    /// The most generations.
    pub generations: usize,
    /// The search ends after this number of generations without a faster individual.
    pub stagnation: usize,
    /// The search ends after the generation in which this time is over. Then it is not repeatable.
    pub limit: Option<Duration>,
}

impl Options {
    /// The paper's: 144 individuals and 10 % mutations.
    pub fn new(capacity: u64, link: Link) -> Self {
        Self {
            capacity,
            link,
            population: 144,
            mutation: 0.1,
            victim: Victim::Belady { recent: 2 },
            searched: Searched::Both,
            seed: 1,
            generations: 200,
            stagnation: 25,
            limit: None,
        }
    }
}

/// A schedule, a pool, and the time of an iteration with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Individual {
    pub schedule: Vec<usize>,
    pub pool: Pool,
    /// Infinite if the graph does not run so.
    pub seconds: f64,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    pub best: Individual,
    /// The best time after each generation.
    pub history: Vec<f64>,
    /// Individuals whose time was predicted.
    pub evaluations: usize,
    pub took: Duration,
}

/// A search over one graph.
struct Search<'a> {
    graph: &'a Graph,
    options: Options,
    sizes: Vec<u64>,
    /// Tensors of each size.
    tensors: Vec<u64>,
}

/// The plan of an individual; `None` if the graph does not run so.
pub fn plan(graph: &Graph, individual: &Individual, victim: Victim) -> Option<SwapPlan> {
    Scheduled::new(graph, &individual.schedule, &individual.pool, victim).plan()
}

/// Searches schedules and pools. The result depends on the options and the seed, not on the number of threads.
/// `progress` is called after each generation, with its number and the best time so far.
pub fn search(graph: &Graph, options: Options, mut progress: impl FnMut(usize, f64)) -> Found {
    let (begin, sizes) = (Instant::now(), graph.sizes());
    let mut tensors = vec![0; sizes.len()];
    for tensor in &graph.tensors {
        tensors[sizes.partition_point(|&size| size < tensor.bytes)] += 1;
    }
    let search = Search { graph, options, sizes, tensors };
    let mut population = search.first();
    let mut found = Found {
        best: fastest(&population).clone(),
        history: Vec::new(),
        evaluations: population.len(),
        took: Duration::ZERO,
    };
    let (mut random, mut unchanged) = (search.random(0, 0), 0);
    for generation in 1..=options.generations {
        let children = search.children(&mut population, generation, &mut random);
        found.evaluations += children.len();
        population.extend(children);
        let best = fastest(&population);
        unchanged = if best.seconds < found.best.seconds { 0 } else { unchanged + 1 };
        if unchanged == 0 {
            found.best = best.clone();
        }
        population = search.survivors(population, found.best.seconds, &mut random);
        found.history.push(found.best.seconds);
        progress(generation, found.best.seconds);
        let late = options.limit.is_some_and(|limit| begin.elapsed() >= limit);
        if unchanged >= options.stagnation || late {
            break;
        }
    }
    found.took = begin.elapsed();
    found
}

fn fastest(population: &[Individual]) -> &Individual {
    let mut fastest = &population[0];
    population.iter().for_each(|other| {
        if other.seconds < fastest.seconds {
            fastest = other;
        }
    });
    fastest
}

impl Search<'_> {
    /// Numbers of their own for an individual of a generation.
    fn random(&self, generation: usize, individual: usize) -> StdRng {
        let number = (generation as u64) << 32 | individual as u64;
        StdRng::seed_from_u64(self.options.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn evaluated(&self, schedule: Vec<usize>, pool: Pool) -> Individual {
        let Options { capacity, victim, link, .. } = self.options;
        let mut made = Individual { schedule, pool, seconds: f64::INFINITY };
        if made.pool.bytes(&self.sizes) <= capacity
            && let Some(plan) = plan(self.graph, &made, victim)
            && let Some(time) = seconds(self.graph, &made.schedule, &plan, link)
        {
            made.seconds = time;
        }
        made
    }

    /// The first generation: random, but for what is not searched.
    fn first(&self) -> Vec<Individual> {
        let Options { capacity, searched, population, .. } = self.options;
        let make = |index: usize| {
            let mut own = self.random(0, index + 1);
            let mut pool = Pool::random(&self.sizes, &self.tensors, capacity, &mut own);
            let mut order = schedule::random(self.graph, &mut own);
            if searched == Searched::Pools {
                order = (0..order.len()).collect();
            }
            if searched == Searched::Schedules {
                pool = Pool::plain(self.graph, capacity);
            }
            self.evaluated(order, pool)
        };
        (0..population).into_par_iter().map(make).collect()
    }

    /// Pairs cross: each makes two schedules and two pools, and four children of them. Then these mutate.
    fn children(
        &self,
        population: &mut [Individual],
        generation: usize,
        random: &mut StdRng,
    ) -> Vec<Individual> {
        population.shuffle(random);
        let pairs: Vec<_> = population.chunks_exact(2).collect();
        let make = |(index, pair): (usize, &&[Individual])| {
            let (a, b) = (&pair[0], &pair[1]);
            let mut own = self.random(generation, index + 1);
            let cut = own.random_range(0..=a.schedule.len());
            let orders = [
                schedule::crossed(&b.schedule, &a.schedule, cut),
                schedule::crossed(&a.schedule, &b.schedule, cut),
            ];
            let cut = own.random_range(0..=self.sizes.len());
            let pools =
                [Pool::crossed(&b.pool, &a.pool, cut), Pool::crossed(&a.pool, &b.pool, cut)];
            let mut children = Vec::with_capacity(4);
            for order in &orders {
                for pool in &pools {
                    children.push(self.mutated(order, pool.clone(), &mut own));
                }
            }
            children
        };
        pairs.par_iter().enumerate().flat_map_iter(make).collect()
    }

    fn mutated(&self, order: &[usize], mut pool: Pool, own: &mut StdRng) -> Individual {
        let Options { capacity, searched, mutation, .. } = self.options;
        pool.repair(&self.sizes, capacity);
        if searched != Searched::Schedules {
            pool.mutate(mutation, own);
            pool.repair(&self.sizes, capacity);
        }
        let order = match searched {
            Searched::Pools => order.to_vec(),
            _ => schedule::mutated(self.graph, order, mutation, own),
        };
        self.evaluated(order, pool)
    }

    /// As many as the population has, drawn without putting back, by the softmax of how near their times are to the
    /// best one seen (equation 1). Those that do not run survive only where there are too few others.
    fn survivors(
        &self,
        population: Vec<Individual>,
        best: f64,
        random: &mut StdRng,
    ) -> Vec<Individual> {
        // The largest of u^(1/w) are such a draw.
        let key = |individual: &Individual, random: &mut StdRng| {
            let weight = ((best - individual.seconds) / best).exp();
            let drawn: f64 = random.random_range(0.0..1.0);
            if weight > 0.0 { drawn.ln() / weight } else { f64::NEG_INFINITY }
        };
        let mut drawn: Vec<(f64, Individual)> =
            population.into_iter().map(|one| (key(&one, random), one)).collect();
        drawn.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        drawn.into_iter().take(self.options.population).map(|(_, one)| one).collect()
    }
}
