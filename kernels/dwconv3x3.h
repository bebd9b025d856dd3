/* The body of the f32_dwconv3x3 kernels: several lines of a depthwise convolution with 3x3 taps, some pixels by one
 * vector of channels at a time, with stride 1 or 2.
 *
 * The lines of the input pass by once, from the top. What is loaded of one is multiplied into all outputs
 * whose windows it is in: with stride 1 the output line that it begins, the one that it is the middle of, and
 * the one that it ends, which is then stored. So three lines of accumulators take turns (two with stride 2); the nine
 * vectors of the filter stay in registers. Each output is still one chain: its bias, then the taps line by line.
 *
 * The including source has defined
 *   vec             a vector of LANES floats
 *   COLS, NR        pixels at most, channels of a panel
 *   STRIDE          the largest stride, 1 or 2
 *   struct walk     begun by `begin`: where the walk down the lines is, and the filter; `left`: output lines that are
 *                   not begun
 *   step            an input line's work: see below. Where outputs begin there is one `left` less
 *   enter, leave    what goes before and behind the lines that begin, go on with and end outputs
 *   pair            with stride 2, a line that ends outputs and begins others, and the one that goes on with those
 *   MOVE            a copy of a vector
 * and calls `several` with each `kind` of body it has. */
#ifndef EYELET_DWCONV3X3_H
#define EYELET_DWCONV3X3_H

#include "dwconv.h"

/* Which lines of the filter an input line meets: it begins the output line `third`, goes on with `second`, ends
 * `first`, and stores that. */
enum { BEGINS = 1, GOES_ON = 2, ENDS = 4 };

EYELET_INLINE void begin(struct walk *k, const struct eyelet_dwconv *t, const float *w, size_t channel,
                         size_t p, const size_t n, const int kind);

EYELET_INLINE void step(struct walk *k, vec first[COLS], vec second[COLS], vec third[COLS],
                        const unsigned lines, const size_t n, const size_t stride, const int kind);

EYELET_INLINE void pair(struct walk *k, vec first[COLS], vec third[COLS], const size_t n, const int kind);

EYELET_INLINE void enter(struct walk *k, const vec other[COLS], vec third[COLS], const size_t n, const size_t stride);

EYELET_INLINE void leave(struct walk *k, vec first[COLS], const size_t n, const size_t stride, const int kind);

EYELET_INLINE void take(vec to[COLS], const vec from[COLS], const size_t n)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++)
        MOVE(to[i], from[i]);
}

/* All lines of `n` pixels from `p` on and one vector of channels, whose bias is at `w`. */
EYELET_INLINE void strip(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                         const size_t n, const size_t stride, const int kind)
{
    struct walk k;
    vec a[COLS], b[COLS], c[COLS];
    begin(&k, t, w, channel, p, n, kind);
    k.left = t->lines;
    step(&k, a, a, a, BEGINS, n, stride, kind);
    if (stride == 2) {
        step(&k, a, a, a, GOES_ON, n, 2, kind);
        if (k.left != 0) {
            enter(&k, a, b, n, 2);
            for (;;) {
                pair(&k, a, b, n, kind);
                if (k.left == 0) {
                    leave(&k, a, n, 2, kind);
                    take(a, b, n);
                    break;
                }
                pair(&k, b, a, n, kind);
                if (k.left == 0) {
                    leave(&k, b, n, 2, kind);
                    break;
                }
            }
        }
        step(&k, a, a, a, ENDS, n, 2, kind);
        return;
    }
    step(&k, a, a, b, GOES_ON | BEGINS, n, 1, kind);
    if (k.left != 0) {
        enter(&k, b, c, n, 1);
        for (;;) {
            step(&k, a, b, c, ENDS | GOES_ON | BEGINS, n, 1, kind);
            if (k.left == 0) {
                leave(&k, a, n, 1, kind);
                take(a, b, n);
                take(b, c, n);
                break;
            }
            step(&k, b, c, a, ENDS | GOES_ON | BEGINS, n, 1, kind);
            if (k.left == 0) {
                leave(&k, b, n, 1, kind);
                take(b, a, n);
                take(a, c, n);
                break;
            }
            step(&k, c, a, b, ENDS | GOES_ON | BEGINS, n, 1, kind);
            if (k.left == 0) {
                leave(&k, c, n, 1, kind);
                break;
            }
        }
    }
    step(&k, a, b, b, ENDS | GOES_ON, n, 1, kind);
    step(&k, b, b, b, ENDS, n, 1, kind);
}

/* The channels of a cache line, strip by strip: no other part of the call reads that line. */
enum { TOGETHER = 16 };

#define EYELET_STRIP_CASE(n)                                                                           \
    case n:                                                                                            \
        if (STRIDE == 1 || t->stride == 1)                                                             \
            strip(t, w, channel, p, n, 1, kind);                                                       \
        else                                                                                           \
            strip(t, w, channel, p, n, 2, kind);                                                       \
        break;

/* Every strip of the channels `from` to `end`, whole vectors unless the kind says otherwise. */
#define EYELET_STRIPS_OF_LINES(t, from, end, kind, ...)                                                \
    for (size_t first = from; first < end; first += TOGETHER) {                                        \
        const size_t last = end - first < TOGETHER ? end : first + TOGETHER;                           \
        for (size_t p = 0; p < t->pixels; p += COLS) {                                                 \
            for (size_t channel = first; channel < last; channel += LANES) {                           \
                const float *w = t->panels + channel / NR * (10 * NR) + channel % NR;                  \
                const size_t n = t->pixels - p;                                                        \
                switch (n < COLS ? n : COLS) { __VA_ARGS__ }                                           \
            }                                                                                          \
        }                                                                                              \
    }

#endif
