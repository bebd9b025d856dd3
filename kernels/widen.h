/* The contract of the widen kernels.
 *
 * Of 16 bits: `count` weights, a multiple of the panel's NR, to floats. Every one has an exact float; of the NaNs,
 * fp16's become quiet.
 *
 * Of 8 bits: `rows` times NR weights, each row `width` (1 to NR) after the one before, there and in what is made. A
 * weight is the difference to its channel's zero, which is exact, times its channel's scale, rounded once. Rows are
 * made in order, so that of what two rows make the later one stays.
 *
 * `kernels/table/widen.rs` calls them with bounds checked. */
#ifndef EYELET_WIDEN_H
#define EYELET_WIDEN_H

#include <stddef.h>
#include <stdint.h>

#include "kernel.h"

struct eyelet_widen8 {
    const int8_t *from;
    size_t rows;
    size_t width;
    const float *scale; /* NR, one a channel */
    const int8_t *zero; /* NR, one a channel */
    float *to;
};

#endif
