/* f32 implicit GEMM, 8 pixels by 8 channels, NEON with lane multiplies, for processors that reorder
 * instructions.
 *
 * Activations are loaded 128 bits at a time where they lie: 8 vectors of four adjacent k, two to eight
 * vectors of the panel. */
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
            row[i] = a[i] + t->offset;
        a += mr;

        size_t k = t->seg_len;
        for (; k >= 4; k -= 4) {
            float32x4_t x[MR];
#pragma GCC unroll 8
            for (size_t i = 0; i < mr; i++) {
                x[i] = vld1q_f32(row[i]);
                row[i] += 4;
            }
            __builtin_prefetch((const char *)w + AHEAD);
            __builtin_prefetch((const char *)w + AHEAD + 64);
#pragma GCC unroll 4
            for (size_t u = 0; u < 4; u++) {
                const float32x4_t b0 = vld1q_f32(w + u * NR);
                const float32x4_t b1 = vld1q_f32(w + u * NR + 4);
#pragma GCC unroll 8
                for (size_t i = 0; i < mr; i++) {
                    MULTIPLY(acc[i][0], b0, x[i], u);
                    MULTIPLY(acc[i][1], b1, x[i], u);
                }
            }
            w += 4 * NR;
        }
        w = rest(acc, row, w, k, mr);
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
