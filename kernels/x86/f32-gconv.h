/* The body of the f32_gconv kernels of AVX2 and AVX-512: up to MR pixels by two vectors of channels at a time.
 *
 * A group's input channel is spread over the group's lanes by a permutation, or, where the group is a
 * whole vector, by a broadcast from memory.
 *
 * Registers: 2 MR accumulators, two vectors of weights, the permutation; where KEPT, the pixels' taps, which are else loaded anew
 * for each channel of a group, and what the permutation makes of them. */
#include "../gconv.h"
#include "panel.h"

/* `n` pixels from `p` on. `whole` where all channels of the panel are there, `lone` where a group is a
 * vector. */
EYELET_INLINE void body(const struct eyelet_dwconv *t, const size_t n, const float *w, size_t channel,
                        size_t p, const ints *spread, const size_t whole, const size_t lone)
{
    const struct ends m = ends(t->channels - channel);
    const size_t offset = t->offset + channel;

    vec acc[MR][2];
    begin_pixels(acc, n, w);
    w += NR;

    const float *const *line = t->a + p * t->stride;
    for (size_t ky = t->tap_lines; ky != 0; ky--) {
        const float *const *tap = line;
        for (size_t kx = t->tap_cols; kx != 0; kx--) {
            const float *x[MR];
            vec kept[MR][2];
#pragma GCC unroll 8
            for (size_t i = 0; i < n; i++) {
                x[i] = tap[i * t->stride] + offset;
                if (KEPT && !lone) {
                    kept[i][0] = load_end(x[i], m.low, whole);
                    kept[i][1] = load_end(x[i] + LANES, m.high, whole);
                }
            }
            const size_t group = lone ? LANES : t->group;
#pragma GCC unroll 2
            for (size_t k = 0; k < group; k++) {
                const vec b0 = load(w), b1 = load(w + LANES);
                w += NR;
#pragma GCC unroll 8
                for (size_t i = 0; i < n; i++) {
                    if (!lone) {
                        const vec x0 = KEPT ? kept[i][0] : load_end(x[i], m.low, whole);
                        const vec x1 = KEPT ? kept[i][1] : load_end(x[i] + LANES, m.high, whole);
                        acc[i][0] = fused(lanes_at(x0, spread[k]), b0, acc[i][0]);
                        acc[i][1] = fused(lanes_at(x1, spread[k]), b1, acc[i][1]);
                        continue;
                    }
                    acc[i][0] = fused(all(x[i][k]), b0, acc[i][0]);
                    if (whole)
                        acc[i][1] = fused(all(x[i][LANES + k]), b1, acc[i][1]);
                }
            }
            tap += t->col_pitch;
        }
        line += t->line_pitch;
    }

    const float *r = t->residual ? t->residual + p * t->residual_pitch + channel : NULL;
    store_pixels(acc, n, r, t->residual_pitch, t->c + p * t->c_pitch + channel, t->c_pitch, m, t->min, t->max, whole);
}

EYELET_INLINE void tile(const struct eyelet_dwconv *t, const size_t n, const float *w, size_t channel,
                        size_t p, const ints *spread)
{
    const size_t whole = t->channels - channel >= NR;
    if (t->group == LANES && whole)
        body(t, n, w, channel, p, spread, 1, 1);
    else if (t->group == LANES)
        body(t, n, w, channel, p, spread, 0, 1);
    else if (whole)
        body(t, n, w, channel, p, spread, 1, 0);
    else
        body(t, n, w, channel, p, spread, 0, 0);
}

#define EYELET_GCONV_CASE(n) EYELET_ROWS_CASE(n, w, channel, p, spread)

/* The cases are EYELET_GCONV_CASE of every number up to MR. */
#define EYELET_GCONV(t, ...)                                                                           \
    const size_t panel = (1 + (t)->tap_lines * (t)->tap_cols * (t)->group) * NR;                       \
    /* For each k of a group, which lane every lane takes. */                                          \
    ints spread[LANES / 2];                                                                            \
    const ints start = and_ints(lane_numbers(), all_ints(-(int)(t)->group));                           \
    for (size_t k = 0; k < LANES / 2; k++)                                                             \
        spread[k] = add_ints(start, all_ints((int)k));                                                 \
    for (size_t p = 0; p < (t)->pixels; p += MR) {                                                     \
        const size_t n = (t)->pixels - p;                                                              \
        const float *w = (t)->panels;                                                                  \
        for (size_t channel = 0; channel < (t)->channels; channel += NR) {                             \
            switch (n < MR ? n : MR) { __VA_ARGS__ }                                                   \
            w += panel;                                                                                \
        }                                                                                              \
    }
