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

/* `n` pixels from `p` on, 8 channels. `shared` says how neighbours share columns. */
EYELET_INLINE void tile(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, const enum eyelet_shared shared)
{
    const size_t offset = t->offset + channel;
    float32x4_t acc[MR][2];
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++)
        load_eight(w, &acc[i][0], &acc[i][1]);
    w += NR;

    const float *const *line = t->a + p * t->stride;
    for (size_t ky = t->tap_lines; ky != 0; ky--) {
        if (shared != EYELET_OWN) {
            w = adjacent(acc, line, offset, w, n, eyelet_taps(shared), eyelet_stride(shared));
        } else {
            const float *const *tap = line;
            for (size_t kx = t->tap_cols; kx != 0; kx--) {
                const float32x4_t v0 = vld1q_f32(w);
                const float32x4_t v1 = vld1q_f32(w + 4);
                w += NR;
#pragma GCC unroll 8
                for (size_t i = 0; i < n; i++) {
                    const float *x = tap[i * t->stride] + offset;
                    float32x4_t x0, x1;
                    load_eight(x, &x0, &x1);
                    acc[i][0] = vfmaq_f32(acc[i][0], x0, v0);
                    acc[i][1] = vfmaq_f32(acc[i][1], x1, v1);
                }
                tap += t->col_pitch;
            }
        }
        line += t->line_pitch;
    }

    const float *r = t->residual ? t->residual + p * t->residual_pitch + channel : NULL;
    add_rows(acc, n, r, t->residual_pitch);
    store_rows(acc, n, t->c + p * t->c_pitch + channel, t->c_pitch, t->min, t->max);
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
    const float *w = t->panels;
    size_t channel = 0;
    for (; channel + NR <= t->channels; channel += NR) {
        for (size_t p = 0; p < t->pixels; p += MR) {
            const size_t n = t->pixels - p;
            switch (n < MR ? n : MR) {
                EYELET_PIXELS_CASE(1)
                EYELET_PIXELS_CASE(2)
                EYELET_PIXELS_CASE(3)
                EYELET_PIXELS_CASE(4)
                EYELET_PIXELS_CASE(5)
                EYELET_PIXELS_CASE(6)
                EYELET_PIXELS_CASE(7)
                EYELET_PIXELS_CASE(8)
            }
        }
        w += (1 + t->tap_lines * t->tap_cols) * NR;
    }
    for (; channel < t->channels; channel++)
        one(t, w++, channel);
}
