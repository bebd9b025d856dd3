/* f32 implicit GEMM, 8 pixels by 8 channels, NEON with lane multiplies, for processors that reorder
 * instructions.
 *
 * Activations are loaded 128 bits at a time where they lie: 8 vectors of four adjacent k; the panel four
 * vectors, two k, at a time. */
#include "f32-igemm-8x8-neon.h"

EYELET_INLINE void tile(const struct eyelet_igemm *t, const size_t mr)
{
    float32x4_t acc[MR][2];
    start(t, acc, mr);

    const float *w = t->panel;
    const float *const *a = t->a;
    for (size_t s = t->segments; s != 0; s--) {
        const float *row[MR];
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++)
            row[i] = a[i];
        a += mr;

        size_t at = t->offset * sizeof(float);
        const size_t end = at + t->seg_len / 4 * sizeof(float32x4_t);
        while (at != end) {
            float32x4_t x[MR];
#pragma GCC unroll 8
            for (size_t i = 0; i < mr; i++)
                x[i] = vld1q_f32(float_at(row[i], at));
            at += sizeof(float32x4_t);
            EYELET_KEEP(at);
#pragma GCC unroll 2
            for (size_t u = 0; u < 4; u += 2) {
                const float32x4x4_t b = vld1q_f32_x4(w);
                w += 2 * NR;
                EYELET_KEEP(w);
                __builtin_prefetch((const char *)w + AHEAD);
#pragma GCC unroll 8
                for (size_t i = 0; i < mr; i++) {
                    MULTIPLY(acc[i][0], b.val[0], x[i], u);
                    MULTIPLY(acc[i][1], b.val[1], x[i], u);
                }
#pragma GCC unroll 8
                for (size_t i = 0; i < mr; i++) {
                    MULTIPLY(acc[i][0], b.val[2], x[i], u + 1);
                    MULTIPLY(acc[i][1], b.val[3], x[i], u + 1);
                }
            }
        }
        w = rest(acc, row, at, w, t->seg_len % 4, mr);
    }
    finish(t, acc, mr);
}

void eyelet_f32_igemm_8x8__neon(const struct eyelet_igemm *t)
{
    switch (t->mr) {
        EYELET_ROWS_CASE(1)
        EYELET_ROWS_CASE(2)
        EYELET_ROWS_CASE(3)
        EYELET_ROWS_CASE(4)
        EYELET_ROWS_CASE(5)
        EYELET_ROWS_CASE(6)
        EYELET_ROWS_CASE(7)
        EYELET_ROWS_CASE(8)
    }
}
