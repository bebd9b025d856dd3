/* The contract of the f32_dwconv kernels: adjacent output pixels of one line of a depthwise convolution,
 * or for kernels of several lines (dwconv3x3.h) the same pixels of adjacent ones.
 *
 * Each output channel reads one input channel; channels are the vector dimension. Input pixels are
 * found through a grid of pointers, one for each column and line that the window passes over, padding
 * included. Every output is one chain of fused multiply-adds: bias first, then the taps in order.
 * Where the taps of a line are three or five adjacent columns, neighbouring pixels share their columns: each
 * is loaded once. `kernels/table/dwconv.rs` has the same record and calls with bounds checked. */
#ifndef EYELET_DWCONV_H
#define EYELET_DWCONV_H

#include "kernel.h"

struct eyelet_dwconv {
    const float *const *a; /* the first tap of the first pixel, in the grid */
    size_t stride;         /* pointers from one pixel to the next */
    size_t tap_lines;      /* taps: height, at least 1 */
    size_t tap_cols;       /* taps: width, at least 1 */
    size_t line_pitch;     /* pointers from one line of taps to the next */
    size_t col_pitch;      /* pointers from one tap of a line to the next */
    size_t offset;         /* floats, added to each of these pointers: the first channel */
    size_t pixels;         /* at least 1 */
    size_t lines;          /* output lines; 1 but for the kernels of several */
    size_t lines_apart;    /* pointers from one output line to the next */
    size_t c_lines_apart;  /* floats from the rows of one output line to those of the next */
    size_t channels;       /* at least 1 */
    size_t regular;        /* of adjacent columns of the grid all but the first and the last are one step
                            * of addresses apart from each other; 0 where that is not so everywhere */
    size_t group;          /* channels that an output reads of each tap: 1; see also gconv.h */
    const float *panels;   /* for every NR channels: bias[NR], then [taps][NR] */
    float *c;              /* the output: a row of `channels` for each pixel */
    size_t c_pitch;        /* floats from one of its rows to the next */
    const float *residual; /* added before the clamp; may be `c`; null when there is none */
    size_t residual_pitch; /* floats from one of its rows to the next */
    float min;             /* the clamp; infinite where there is none, never a positive zero */
    float max;
};

/* How neighbouring pixels share columns: taps of a line, where they are as the bodies for them want it, else 0; and
 * their stride. */
enum eyelet_shared { EYELET_OWN, EYELET_THREE_1, EYELET_THREE_2, EYELET_FIVE_1, EYELET_FIVE_2 };

EYELET_INLINE size_t eyelet_taps(const enum eyelet_shared s)
{
    return s == EYELET_OWN ? 0 : s <= EYELET_THREE_2 ? 3 : 5;
}

EYELET_INLINE size_t eyelet_stride(const enum eyelet_shared s)
{
    return s == EYELET_THREE_2 || s == EYELET_FIVE_2 ? 2 : 1;
}

EYELET_INLINE enum eyelet_shared eyelet_shared(const struct eyelet_dwconv *t)
{
    if (t->col_pitch != 1 || t->stride > 2)
        return EYELET_OWN;
    if (t->tap_cols == 3 && t->regular)
        return t->stride == 1 ? EYELET_THREE_1 : EYELET_THREE_2;
    if (t->tap_cols == 5)
        return t->stride == 1 ? EYELET_FIVE_1 : EYELET_FIVE_2;
    return EYELET_OWN;
}

/* A body of `tile` for a count of pixels, from pixel `p` on. */
#define EYELET_PIXELS_CASE(n)                                                                          \
    case n:                                                                                            \
        switch (shared) {                                                                              \
            case EYELET_OWN: tile(t, w, channel, p, n, EYELET_OWN); break;                             \
            case EYELET_THREE_1: tile(t, w, channel, p, n, EYELET_THREE_1); break;                     \
            case EYELET_THREE_2: tile(t, w, channel, p, n, EYELET_THREE_2); break;                     \
            case EYELET_FIVE_1: tile(t, w, channel, p, n, EYELET_FIVE_1); break;                       \
            case EYELET_FIVE_2: tile(t, w, channel, p, n, EYELET_FIVE_2); break;                       \
        }                                                                                              \
        break;

#endif
