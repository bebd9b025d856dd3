/* The contract of the kernels that go over one row of adjacent floats: sums, the largest element, softmax.
 *
 * Sums and maxima have sixteen partial results: element i goes to the one numbered i mod 16, the elements behind
 * the last whole sixteen too; then l and l + 8 are combined, l and l + 4, l and l + 2, and the last two. The
 * order suits vectors of up to sixteen lanes and depends on none. A partial sum is a chain of up to EYELET_BLOCK terms;
 * longer ones are joined from such chains before they are combined.
 * `kernels/table/rows.rs` has the same records and calls with bounds checked. */
#ifndef EYELET_ROWS_H
#define EYELET_ROWS_H

#include "kernel.h"

enum { EYELET_PARTIAL = 16 };

/* out = (x - mean) * scale * gamma + beta, the last multiplication and the addition fused. */
struct eyelet_standardise {
    size_t n;
    const float *x;
    float *out; /* may be x */
    const float *gamma;
    const float *beta;
    float mean;
    float scale;
};

/* out = x * (bias + alpha * out)^-beta, where `out` holds the sums of squares; bias and product fused. */
struct eyelet_lrn {
    size_t n;
    const float *x;
    float *out;
    float alpha;
    float beta;
    float bias;
};

#endif
