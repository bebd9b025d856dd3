//! Tables that are also the matrix of a product: the embedding of a language model, with which its
//! last product takes tokens to their scores. They are stored once, as the product's panels, and the
//! lookup reads these ([`OpKind::Lookup`]).
//!
//! Exporters write such a table as one initializer that two nodes read, through a transposition, or
//! as two initializers with the same numbers. So numbers are compared, and not names.

use super::{Operator, conv, gather};
use crate::network::{Dense, Network};
use eyelet::kernels::Isa;
use eyelet::pack::{GatherParams, Layer, LookupParams, OpKind, params, params_words};

/// Entries and columns that are compared together: blocks of both orders that stay in a cache.
const BLOCK: usize = 64;

/// Rows from all over the table.
pub(super) const ROW: Operator = Operator { shares_weights: true, ..Operator::new(OpKind::Lookup) };

/// Lets lookups read the weights of products with the same table, of at least so many bytes. GPUs have no
/// kernel for that.
pub(crate) fn share(network: &mut Network, least: u64) {
    if network.isa == Isa::Cuda {
        return;
    }
    for at in 0..network.layers.len() {
        let Some((table, scale)) = gather::table(network, at) else { continue };
        let of_product = |other: &usize| {
            conv::matrix(network, *other, least).is_some_and(|product| same(table, product))
        };
        let Some(other) = (0..network.layers.len()).find(of_product) else { continue };
        log::info!(
            "layer `{}` looks rows up in the weights of `{}`, which are stored once",
            network.names[at],
            network.names[other]
        );
        let Layer { panels, panel_bytes, width, encoding, .. } = network.layers[other];
        let GatherParams { entries } = params(&network.layers[at]);
        let kind = OpKind::Lookup as u32;
        let params = params_words(&LookupParams { entries, scale });
        network.layers[at] =
            Layer { kind, panels, panel_bytes, width, encoding, params, ..network.layers[at] };
        network.weights[at] = network.weights[other].clone();
    }
}

/// Whether the outputs of a product have the rows of a table for weights, bit for bit.
fn same(table: &Dense, product: &Dense) -> bool {
    let (entries, columns) = (table.k, table.out_channels);
    if (product.out_channels, product.k) != (entries, columns) {
        return false;
    }
    let equal = |entry: usize, column: usize| {
        let found = table.data.get(column * table.row + table.offset(entry));
        let other = product.data.get(entry * product.row + product.offset(column));
        found.to_bits() == other.to_bits()
    };
    (0..entries).step_by(BLOCK).all(|entry| {
        (0..columns).step_by(BLOCK).all(|column| {
            (entry..entries.min(entry + BLOCK)).all(|entry| {
                (column..columns.min(column + BLOCK)).all(|column| equal(entry, column))
            })
        })
    })
}
