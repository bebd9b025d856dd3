/* The contract of the f32_winograd kernels: the transforms of one tile of a 3x3 convolution, F(m x m, 3 x 3).
 *
 * The input transform takes the (m+2)^2 input pixels of a tile to as many frequencies, the output transform
 * takes frequencies to m x m output pixels; both run over channels, which are the vectors' lanes. Between
 * them lies one matrix product for each frequency. One-dimensional transforms are applied down the columns,
 * then along the rows, in the order of operations written in `winograd-points.h`, which says too what frequencies a tile
 * of fewer outputs has: `kept_m` of its lines, down, and of its columns, across. Others are neither written nor read.
 * `kernels/table/winograd.rs` has the same records and calls with bounds checked. */
#ifndef EYELET_WINOGRAD_H
#define EYELET_WINOGRAD_H

#include "kernel.h"

struct eyelet_winograd_input {
    size_t tile;                /* m: 2 or 4 */
    size_t lines;               /* of outputs: 1 to m */
    size_t cols;                /* outputs of each: 1 to m */
    const float *const *pixels; /* [(m+2)^2], row by row, of which (lines+2) x (cols+2) are read: `channels` floats each */
    size_t channels;            /* at least 1 */
    float *out;                 /* `channels` floats of the first frequency */
    size_t stride;              /* floats from one frequency to the next */
    size_t ahead;               /* floats from a pixel to that of the next tile of its line */
};

struct eyelet_winograd_output {
    size_t tile;           /* m: 2 or 4 */
    const float *in;       /* NR floats of the first frequency */
    size_t stride;         /* floats from one frequency to the next */
    const float *bias;     /* NR floats */
    size_t nr;             /* columns that are stored: 1 to NR */
    size_t lines;          /* of outputs: 1 to m */
    size_t cols;           /* outputs of each: 1 to m */
    float *c;              /* the first pixel */
    size_t c_pitch;        /* floats from one pixel of a line to the next */
    size_t c_line;         /* floats from one line to the next */
    const float *residual; /* added before the clamp; may be `c`; null when there is none */
    size_t residual_pitch; /* as `c_pitch` */
    size_t residual_line;  /* as `c_line` */
    float min;             /* the clamp; infinite where there is none, never a positive zero */
    float max;
};

/* The transform of weights when they are loaded. Filters lie apart, tap by tap, as a direct convolution's
 * panel has them: [9][count]; their frequencies too: [(m+2)^2][count]. */
struct eyelet_winograd_weights {
    size_t tile;      /* m: 2 or 4 */
    const float *in;  /* `count` floats of the first tap */
    size_t in_stride; /* floats from one tap to the next */
    size_t count;     /* a multiple of LANES */
    float *out;       /* `count` floats of the first frequency */
    size_t stride;    /* floats from one frequency to the next */
};

#endif
