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

/* Begins the chains of a strip. */
EYELET_INLINE void start(const float *bias, const size_t pitch, float32x4_t acc[MR][2], const size_t mr)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < mr; i++) {
        load_eight(bias, &acc[i][0], &acc[i][1]);
        bias += pitch;
    }
}

/* The addresses of a segment's runs. */
EYELET_INLINE void next_rows(const float *const **a, const float *row[MR], const size_t mr)
{
#pragma GCC unroll 4
    for (size_t i = 0; i + 1 < mr; i += 2)
        __asm__ volatile("ldp %0, %1, [%2], #16" : "=r"(row[i]), "=r"(row[i + 1]), "+r"(*a));
    if (mr % 2 != 0)
        row[mr - 1] = *(*a)++;
}

/* A run's last one to three k, or all of them where panels hold fewer than eight channels, one by one: nothing past a run is
 * read. Returns the rest of the panel. */
EYELET_INLINE const float *rest(float32x4_t acc[MR][2], const float *row[MR], const float *w, size_t width, size_t k,
                                const size_t mr)
{
    for (; k != 0; k--) {
        float32x4_t b0, b1;
        load_eight(w, &b0, &b1);
        w += width;
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++) {
            const float32x4_t x = load_one(&row[i]);
            MULTIPLY(acc[i][0], b0, x, 0);
            MULTIPLY(acc[i][1], b1, x, 0);
        }
    }
    return w;
}

/* Stores the first columns of tiles at the end of the channels; returns the row after them. */
static __attribute__((noinline)) float *store_buffer(const struct eyelet_igemm *t, const float *full, size_t mr,
                                                     float *c, const float *residual)
{
    for (; mr != 0; mr--) {
        for (size_t j = 0; j < t->nr; j++) {
            float v = full[j];
            if (residual)
                v = v + residual[j];
            v = t->min > v ? t->min : v;
            v = t->max < v ? t->max : v;
            c[j] = v;
        }
        full += NR;
        c += t->c_pitch;
        residual += residual ? t->residual_pitch : 0;
    }
    return c;
}

EYELET_INLINE float *store_columns(const struct eyelet_igemm *t, float32x4_t acc[MR][2], const size_t mr, float *c,
                                   const float *residual)
{
    float full[MR * NR];
#pragma GCC unroll 8
    for (size_t i = 0; i < mr; i++)
        store_eight(full + i * NR, acc[i][0], acc[i][1]);
    return store_buffer(t, full, mr, c, residual);
}

EYELET_INLINE void finish(const struct eyelet_igemm *t, float32x4_t acc[MR][2], const size_t mr)
{
    if (t->nr >= NR) {
        add_rows(acc, mr, t->residual, t->residual_pitch);
        store_rows(acc, mr, t->c, t->c_pitch, t->min, t->max);
    } else {
        store_columns(t, acc, mr, t->c, t->residual);
    }
}

#endif
