/* The contract of the f32_pool kernels: adjacent pixels of an output line whose windows cover equally many taps,
 * equally far from each other. Every channel adds its taps one after the other, line by line, in blocks of
 * EYELET_BLOCK; of maxima the order does not matter.
 * `kernels/table/pool.rs` has the same record and calls with bounds checked. */
#ifndef EYELET_POOL_H
#define EYELET_POOL_H

#include "kernel.h"

struct eyelet_pool {
    size_t average;     /* 1: the mean; 0: the maximum, NaN where a tap is; of zeros the positive one */
    const float *in;    /* the input's first line, at the column of the first tap of the first pixel */
    size_t tap_lines;   /* taps of a window; where there are none: minus infinity, or 0 */
    size_t tap_cols;
    size_t line;        /* floats from `in` to the first line of taps: below `ring` */
    size_t line_pitch;  /* floats from one line of taps to the next: below `ring` */
    size_t ring;        /* floats of all lines of the input, behind which the first one follows again */
    size_t col_pitch;   /* floats from one tap of a line to the next */
    size_t pixels;      /* pixels of the output */
    size_t pixel_pitch; /* floats from the window of one to the next */
    size_t channels;
    float *out;
    size_t out_pitch;   /* floats from one pixel to the next */
    float count;        /* what the sum is divided by; at least 1 */
};

#endif
