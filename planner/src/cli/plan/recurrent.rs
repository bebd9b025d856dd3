//! Recurrent networks whose weights a budget does not hold.

use super::pack::least;
use crate::cli::Error;
use eyelet_planner::graph::Graph;
use eyelet_planner::passes::unrolled;
use eyelet_planner::search::PackRequest;
use eyelet_planner::size;
use std::path::Path;

/// The two forms of a graph with recurrent networks. Any other graph has one form.
pub struct Forms<'a> {
    /// Reads recurrent weights once a sequence.
    whole: &'a Graph,
    apart: Option<Apart>,
}

/// A graph that reads recurrent weights again at each time.
struct Apart {
    graph: Graph,
    min_budget_bytes: u64,
    /// From this budget on the whole graph can be planned.
    whole_bytes: u64,
}

impl<'a> Forms<'a> {
    /// The forms that budgets from `smallest` on may need, with the strategy of the request.
    pub fn new(
        request: &PackRequest<'_>,
        model: &Path,
        whole: &'a Graph,
        smallest: u64,
    ) -> Result<Self, Error> {
        let Some(graph) = unrolled(whole, request.exact) else {
            return Ok(Self { whole, apart: None });
        };
        let whole_bytes = least(request, model, whole)?.min_budget_bytes;
        if smallest >= whole_bytes {
            return Ok(Self { whole, apart: None });
        }
        let min_budget_bytes = least(request, model, &graph)?.min_budget_bytes;
        let apart = Apart { graph, min_budget_bytes, whole_bytes };
        Ok(Self { whole, apart: Some(apart).filter(|_| min_budget_bytes < whole_bytes) })
    }

    /// The graph that reads recurrent weights at each time, if it can be planned for less.
    pub fn apart(&self) -> Option<&Graph> {
        self.apart.as_ref().map(|apart| &apart.graph)
    }

    /// Whether this budget needs the graph that [`Self::apart`] returns.
    pub fn is_apart(&self, budget: u64) -> bool {
        self.apart.as_ref().is_some_and(|apart| budget < apart.whole_bytes)
    }

    /// The smallest budget of either form, if there are two.
    pub fn min_budget_bytes(&self) -> Option<u64> {
        self.apart.as_ref().map(|apart| apart.min_budget_bytes)
    }

    /// The graph for budgets from this one on. If it reads weights at each time, a note says so.
    pub fn of_budget(self, smallest: u64) -> Graph {
        match self.apart {
            Some(mut apart) if smallest < apart.whole_bytes => {
                apart.graph.notes.push(format!(
                    "recurrent networks read their weights again at each time; from {} on they read them once a sequence",
                    size::exact(apart.whole_bytes)
                ));
                apart.graph
            }
            _ => self.whole.clone(),
        }
    }
}

/// The shapes of a model, in the forms that the smallest budget needs. Without budgets that is the least there is.
pub(super) fn fitting(
    request: &PackRequest<'_>,
    model: &Path,
    shapes: &[(String, Graph)],
) -> Result<Vec<(String, Graph)>, Error> {
    let smallest = request.budgets.first().copied().unwrap_or(0);
    let fit = |(name, graph): &(String, Graph)| {
        let forms = Forms::new(request, model, graph, smallest)?;
        Ok((name.clone(), forms.of_budget(smallest)))
    };
    shapes.iter().map(fit).collect()
}
