//! From the graph to the network: fusion, layout, concatenation by strided write.
