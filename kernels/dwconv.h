/* The contract of the f32_dwconv kernels: a few output pixels of a depthwise convolution.
 *
 * Each output channel reads one input channel. Channels are the vector dimension; the taps of a pixel
 * are found through pointers, as in the implicit GEMM. Every output is one chain of fused
 * multiply-adds: bias first, then the taps in order. `kernels/table/dwconv.rs` has the same record and
 * calls with bounds checked. */
#ifndef EYELET_DWCONV_H
#define EYELET_DWCONV_H

#include "kernel.h"

struct eyelet_dwconv {
    const float *const *a; /* [taps][pixels] */
    size_t offset;         /* floats, added to each of these pointers: the first channel */
    size_t pixels;         /* 1 to MR */
    size_t channels;       /* at least 1 */
    size_t taps;           /* at least 1 */
    const float *panels;   /* for every NR channels: bias[NR], then [taps][NR] */
    float *c;              /* the output: a row of `channels` for each pixel */
    size_t c_pitch;        /* floats from one of its rows to the next */
    const float *residual; /* added before the clamp; may be `c`; null when there is none */
    size_t residual_pitch; /* floats from one of its rows to the next */
    float min;             /* the clamp; infinite where there is none */
    float max;
};

#endif
