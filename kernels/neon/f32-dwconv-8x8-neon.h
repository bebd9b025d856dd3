/* The body of the f32_dwconv kernels of NEON, up to 8 pixels by 8 channels at a time, for the including
 * source's `adjacent`.
 *
 * Registers: 16 accumulators; for adjacent taps their weights, 6 or 10 vectors, and those of columns, each of
 * which serves up to as many pixels. The channels of a short last panel go one by one. */
#include "../dwconv.h"
#include "store-neon.h"

enum { MR = 8, NR = 8 };

/* Adds a line of three or five adjacent taps of `n` pixels, `stride` columns apart: the columns at `line`, from
 * channel `offset` on, by the weights at `w`. Of three taps the first and the last column may lie beside the image,
 * those between them are a step apart. Returns the rest of the weights. */
EYELET_INLINE const float *adjacent(float32x4_t acc[MR][2], const float *const *line, size_t offset,
                                    const float *w, const size_t n, const size_t taps,
                                    const size_t stride);

/* The same of any window: each pixel has its own columns. */
EYELET_INLINE const float *own(float32x4_t acc[MR][2], const struct eyelet_dwconv *t, const float *const *line,
                               size_t offset, const float *w, const size_t n)
{
    for (size_t kx = t->tap_cols; kx != 0; kx--) {
        float32x4_t v0, v1;
        load_next_eight(&w, &v0, &v1);
#pragma GCC unroll 8
        for (size_t i = 0; i < n; i++) {
            float32x4_t x0, x1;
            load_eight(line[i * t->stride] + offset, &x0, &x1);
            acc[i][0] = vfmaq_f32(acc[i][0], x0, v0);
            acc[i][1] = vfmaq_f32(acc[i][1], x1, v1);
        }
        line += t->col_pitch;
    }
    return w;
}

#define EYELET_LINES(make)                                                                             \
    for (size_t ky = t->tap_lines; ky != 0; ky--) {                                                    \
        w = make;                                                                                      \
        line += t->line_pitch;                                                                         \
    }                                                                                                  \
    break;

/* `n` pixels from `p` on, 8 channels. `shared` says how neighbours share columns; what is done with sums is the same. */
EYELET_INLINE void tile(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, enum eyelet_shared shared, enum bounds bounded)
{
    const size_t offset = t->offset + channel;
    float32x4_t acc[MR][2];
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++)
        load_eight(w, &acc[i][0], &acc[i][1]);
    w += NR;

    const float *const *line = t->a + p * t->stride;
    switch (shared) {
        case EYELET_OWN: EYELET_LINES(own(acc, t, line, offset, w, n))
        case EYELET_THREE_1: EYELET_LINES(adjacent(acc, line, offset, w, n, 3, 1))
        case EYELET_THREE_2: EYELET_LINES(adjacent(acc, line, offset, w, n, 3, 2))
        case EYELET_FIVE_1: EYELET_LINES(adjacent(acc, line, offset, w, n, 5, 1))
        case EYELET_FIVE_2: EYELET_LINES(adjacent(acc, line, offset, w, n, 5, 2))
    }

    const size_t row = sizeof(float);
    if (t->residual)
        add_next_rows(acc, n, t->residual + p * t->residual_pitch + channel, row * t->residual_pitch);
    float *c = t->c + p * t->c_pitch + channel;
    switch (bounded) {
        case NONE: store_next_rows(acc, n, c, row * t->c_pitch, &t->min, &t->max, NONE); break;
        case LOWER: store_next_rows(acc, n, c, row * t->c_pitch, &t->min, &t->max, LOWER); break;
        case BOTH: store_next_rows(acc, n, c, row * t->c_pitch, &t->min, &t->max, BOTH); break;
    }
}

/* All pixels of one channel, the first lane of `w`. */
static void one(const struct eyelet_dwconv *t, const float *w, size_t channel)
{
    for (size_t p = 0; p < t->pixels; p++) {
        const float *v = w;
        float sum = *v;
        for (size_t ky = 0; ky < t->tap_lines; ky++) {
            const float *const *tap = t->a + p * t->stride + ky * t->line_pitch;
            for (size_t kx = 0; kx < t->tap_cols; kx++) {
                v += NR;
                sum = __builtin_fmaf(tap[kx * t->col_pitch][t->offset + channel], *v, sum);
            }
        }
        if (t->residual)
            sum = sum + t->residual[p * t->residual_pitch + channel];
        sum = t->min > sum ? t->min : sum;
        sum = t->max < sum ? t->max : sum;
        t->c[p * t->c_pitch + channel] = sum;
    }
}

EYELET_INLINE void dwconv(const struct eyelet_dwconv *t)
{
    const enum eyelet_shared shared = eyelet_shared(t);
    const enum bounds bounded = bounds(t->min, t->max);
    const float *w = t->panels;
    size_t channel = 0;
    for (; channel + NR <= t->channels; channel += NR) {
        for (size_t p = 0; p < t->pixels; p += MR) {
            const size_t n = t->pixels - p;
            switch (n < MR ? n : MR) {
                case 1: tile(t, w, channel, p, 1, shared, bounded); break;
                case 2: tile(t, w, channel, p, 2, shared, bounded); break;
                case 3: tile(t, w, channel, p, 3, shared, bounded); break;
                case 4: tile(t, w, channel, p, 4, shared, bounded); break;
                case 5: tile(t, w, channel, p, 5, shared, bounded); break;
                case 6: tile(t, w, channel, p, 6, shared, bounded); break;
                case 7: tile(t, w, channel, p, 7, shared, bounded); break;
                case 8: tile(t, w, channel, p, 8, shared, bounded); break;
            }
        }
        w += (1 + t->tap_lines * t->tap_cols) * NR;
    }
    for (; channel < t->channels; channel++)
        one(t, w++, channel);
}
