/* The body of the f32_dwconv kernels of AVX2 and AVX-512: up to MR pixels by two vectors of channels at a time.
 *
 * Registers: 2 MR accumulators; for adjacent taps their weights, 6 vectors of three taps, and 2 of a column,
 * which serves up to as many pixels. Loads and stores are masked for the last channels only. */
#include "../dwconv.h"
#include "panel.h"

/* `n` pixels from `p` on. `shared` says how neighbours share columns; `whole`
 * where all channels of the panel are there. */
EYELET_INLINE void body(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, const enum eyelet_shared shared, const size_t whole)
{
    const struct ends m = ends(t->channels - channel);
    const size_t offset = t->offset + channel;

    vec acc[MR][2];
    begin_pixels(acc, n, w);
    w += NR;

    const size_t taps = eyelet_taps(shared), stride = eyelet_stride(shared);
    const float *const *line = t->a + p * t->stride;
    for (size_t ky = t->tap_lines; ky != 0; ky--) {
        if (taps) {
            vec v[5][2];
#pragma GCC unroll 5
            for (size_t kx = 0; kx < taps; kx++) {
                v[kx][0] = load(w + kx * NR);
                v[kx][1] = load(w + kx * NR + LANES);
            }
            w += taps * NR;
#pragma GCC unroll 20
            for (size_t col = 0; col < (n - 1) * stride + taps; col++) {
                const float *x = line[col] + offset;
                const vec x0 = load_end(x, m.low, whole);
                const vec x1 = load_end(x + LANES, m.high, whole);
#pragma GCC unroll 5
                for (size_t kx = 0; kx < taps; kx++) {
                    if (col >= kx && (col - kx) % stride == 0 && (col - kx) / stride < n) {
                        const size_t i = (col - kx) / stride;
                        acc[i][0] = fused(x0, v[kx][0], acc[i][0]);
                        acc[i][1] = fused(x1, v[kx][1], acc[i][1]);
                    }
                }
            }
        } else {
            const float *const *tap = line;
            for (size_t kx = t->tap_cols; kx != 0; kx--) {
                const vec v0 = load(w), v1 = load(w + LANES);
                w += NR;
#pragma GCC unroll 8
                for (size_t i = 0; i < n; i++) {
                    const float *x = tap[i * t->stride] + offset;
                    acc[i][0] = fused(load_end(x, m.low, whole), v0, acc[i][0]);
                    acc[i][1] = fused(load_end(x + LANES, m.high, whole), v1, acc[i][1]);
                }
                tap += t->col_pitch;
            }
        }
        line += t->line_pitch;
    }

    const float *r = t->residual ? t->residual + p * t->residual_pitch + channel : NULL;
    store_pixels(acc, n, r, t->residual_pitch, t->c + p * t->c_pitch + channel, t->c_pitch, m, t->min, t->max, whole);
}

EYELET_INLINE void tile(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, const enum eyelet_shared shared)
{
    if (t->channels - channel >= NR)
        body(t, w, channel, p, n, shared, 1);
    else
        body(t, w, channel, p, n, shared, 0);
}

/* All channels of some pixels, then the next ones: activations are read once, from end to end. The cases are
 * EYELET_PIXELS_CASE of every number up to MR. */
#define EYELET_DWCONV(t, ...)                                                                          \
    const enum eyelet_shared shared = eyelet_shared(t);                                                \
    const size_t panel = (1 + (t)->tap_lines * (t)->tap_cols) * NR;                                    \
    for (size_t p = 0; p < (t)->pixels; p += MR) {                                                     \
        const size_t n = (t)->pixels - p;                                                              \
        const float *w = (t)->panels;                                                                  \
        for (size_t channel = 0; channel < (t)->channels; channel += NR) {                             \
            switch (n < MR ? n : MR) { __VA_ARGS__ }                                                   \
            w += panel;                                                                                \
        }                                                                                              \
    }
