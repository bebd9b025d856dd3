/* The contract of the f32_igemm kernels: one output tile of an implicit GEMM.
 *
 * Rows of the tile are output pixels, columns are output channels of one panel of packed weights. The
 * reduction of a pixel is `segments` runs of `seg_len` adjacent floats, each found through a pointer,
 * so activations are read where they lie. Every output is one chain of fused multiply-adds: bias first,
 * then k in order. `kernels/table/igemm.rs` has the same record and calls with bounds checked. */
#ifndef EYELET_IGEMM_H
#define EYELET_IGEMM_H

#include "kernel.h"

struct eyelet_igemm {
    const float *const *a; /* [segments][mr]: the runs of each pixel */
    size_t offset;         /* floats, added to each of these pointers: the group's first channel */
    size_t mr;             /* rows of the tile: 1 to MR */
    size_t nr;             /* columns that are stored: 1 to NR */
    size_t segments;       /* at least 1 */
    size_t seg_len;        /* floats in a run, at least 1 */
    const float *bias;     /* [NR] */
    const float *panel;    /* [segments * seg_len][NR] */
    float *c;              /* the output tile */
    size_t c_pitch;        /* floats from one of its rows to the next */
    const float *residual; /* added before the clamp; may be `c`; null when there is none */
    size_t residual_pitch; /* floats from one of its rows to the next */
    float min;             /* the clamp; infinite where there is none */
    float max;
    const char *next; /* fetched into the second-level cache on the way: weights that are used soon */
    size_t next_step; /* bytes of it for each k; at most two lines of 64 bytes */
};

#endif
