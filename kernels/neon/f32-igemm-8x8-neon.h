/* What the 8x8 f32_igemm kernels of NEON share: all but the loop over four k at a time.
 *
 * Registers: 16 accumulators, 8 rows of two vectors. A multiplication is written as its instruction: from
 * the intrinsic gcc makes copies of accumulators, as it may keep sum and addend in two registers. */
#ifndef EYELET_F32_IGEMM_8X8_NEON_H
#define EYELET_F32_IGEMM_8X8_NEON_H

#include "../igemm.h"
#include "store-neon.h"

enum { MR = 8, NR = 8 };

/* `acc += b * a[lane]`; `lane` is constant once loops are unrolled. */
#define MULTIPLY(acc, b, a, lane)                                                                      \
    __asm__("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(acc) : "w"(b), "w"(a), "i"(lane))

/* Loads are volatile statements, which stay in the order of the text, and step the pointer. They only read
 * memory that nothing here writes. */
EYELET_INLINE float32x4_t load_one(const float **p)
{
    float32x4_t v;
    __asm__ volatile("ldr %s0, [%1], #4" : "=w"(v), "+r"(*p));
    return v;
}

EYELET_INLINE float32x4_t load_four(const float **p)
{
    float32x4_t v;
    __asm__ volatile("ldr %q0, [%1], #16" : "=w"(v), "+r"(*p));
    return v;
}

EYELET_INLINE void start(const struct eyelet_igemm *t, float32x4_t acc[MR][2], const size_t mr)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < mr; i++)
        load_eight(t->bias, &acc[i][0], &acc[i][1]);
}

/* A run's last one to three k, one by one: nothing past a run is read. Returns the rest of the panel. */
EYELET_INLINE const float *rest(float32x4_t acc[MR][2], const float *row[MR], const float *w, size_t k,
                                const size_t mr)
{
    for (; k != 0; k--) {
        float32x4_t b0, b1;
        load_next_eight(&w, &b0, &b1);
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++) {
            const float32x4_t x = load_one(&row[i]);
            MULTIPLY(acc[i][0], b0, x, 0);
            MULTIPLY(acc[i][1], b1, x, 0);
        }
    }
    return w;
}

EYELET_INLINE void finish(const struct eyelet_igemm *t, float32x4_t acc[MR][2], const size_t mr)
{
    if (t->nr >= NR) {
        add_rows(acc, mr, t->residual, t->residual_pitch);
        store_rows(acc, mr, t->c, t->c_pitch, t->min, t->max);
    } else {
        float full[MR][NR];
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++) {
            vst1q_f32(full[i], acc[i][0]);
            vst1q_f32(full[i] + 4, acc[i][1]);
        }
        for (size_t i = 0; i < mr; i++) {
            for (size_t j = 0; j < t->nr; j++) {
                float v = full[i][j];
                if (t->residual)
                    v = v + t->residual[i * t->residual_pitch + j];
                v = t->min > v ? t->min : v;
                v = t->max < v ? t->max : v;
                t->c[i * t->c_pitch + j] = v;
            }
        }
    }
}

#endif
