/* How the kernels of NEON finish their outputs: rows of eight floats in two vectors. */
#ifndef EYELET_STORE_NEON_H
#define EYELET_STORE_NEON_H

#include "../kernel.h"
#include <arm_neon.h>

/* What the clamp does: an infinite bound does nothing. */
enum bounds { NONE, LOWER, BOTH };

EYELET_INLINE enum bounds bounds(float min, float max)
{
    if (max < __builtin_inff())
        return BOTH;
    return min > -__builtin_inff() ? LOWER : NONE;
}

EYELET_INLINE float32x4_t clamp(float32x4_t v, float32x4_t min, float32x4_t max,
                                const enum bounds bounds)
{
    /* The instructions differ from `min > v ? min : v` and `max < v ? max : v` only in the sign of a zero: `min` is no
     * positive one, `max` no negative one. */
    if (bounds != NONE)
        v = vmaxq_f32(min, v);
    if (bounds == BOTH)
        v = vminq_f32(max, v);
    return v;
}

/* Eight adjacent floats in one instruction: gcc would make two, and compute the address of the second. */
EYELET_INLINE void load_eight(const float *p, float32x4_t *v0, float32x4_t *v1)
{
    __asm__("ldp %q0, %q1, %2" : "=w"(*v0), "=w"(*v1) : "Q"(*(const float(*)[8])p));
}

/* The same, and `p` to the next eight. It only reads, and stays in the order of other such statements. */
EYELET_INLINE void load_next_eight(const float **p, float32x4_t *v0, float32x4_t *v1)
{
    __asm__ volatile("ldp %q0, %q1, [%2], #32" : "=w"(*v0), "=w"(*v1), "+r"(*p));
}

EYELET_INLINE void store_eight(float *p, float32x4_t v0, float32x4_t v1)
{
    __asm__("stp %q1, %q2, %0" : "=Q"(*(float(*)[8])p) : "w"(v0), "w"(v1));
}

/* Adds the residual, if there is one, to `n` rows. */
EYELET_INLINE void add_rows(float32x4_t acc[][2], const size_t n, const float *residual, size_t pitch)
{
    if (!residual)
        return;
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) {
        acc[i][0] = vaddq_f32(acc[i][0], vld1q_f32(residual));
        acc[i][1] = vaddq_f32(acc[i][1], vld1q_f32(residual + 4));
        residual += pitch;
    }
}

EYELET_INLINE void store_bounded(float32x4_t acc[][2], const size_t n, float *c, size_t pitch,
                                 float32x4_t min, float32x4_t max, const enum bounds bounds)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) {
        store_eight(c, clamp(acc[i][0], min, max, bounds), clamp(acc[i][1], min, max, bounds));
        c += pitch;
    }
}

/* Stores `n` rows, clamped. */
EYELET_INLINE void store_rows(float32x4_t acc[][2], const size_t n, float *c, size_t pitch, float min,
                              float max)
{
    const float32x4_t lower = vdupq_n_f32(min);
    const float32x4_t upper = vdupq_n_f32(max);
    switch (bounds(min, max)) {
        case NONE:
            store_bounded(acc, n, c, pitch, lower, upper, NONE);
            break;
        case LOWER:
            store_bounded(acc, n, c, pitch, lower, upper, LOWER);
            break;
        case BOTH:
            store_bounded(acc, n, c, pitch, lower, upper, BOTH);
            break;
    }
}

/* Adds `n` rows of the residual, `pitch` bytes apart; returns the one after them. */
EYELET_INLINE const float *add_next_rows(float32x4_t acc[][2], const size_t n, const float *residual, size_t pitch)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) {
        register float32x4_t r0 __asm__("v30");
        register float32x4_t r1 __asm__("v31");
        __asm__ volatile("ld1 {%0.4s, %1.4s}, [%2], %3"
                         : "=w"(r0), "=w"(r1), "+r"(residual)
                         : "r"(pitch)
                         : "memory");
        acc[i][0] = vaddq_f32(acc[i][0], r0);
        acc[i][1] = vaddq_f32(acc[i][1], r1);
    }
    return residual;
}

/* A float in all lanes, loaded where this stands: outside a loop it would take a register from accumulators. */
EYELET_INLINE float32x4_t load_all(const float *p)
{
    float32x4_t v;
    __asm__ volatile("ld1r {%0.4s}, %1" : "=w"(v) : "Q"(*p));
    return v;
}

/* Row `i`, in two adjacent registers, which an instruction stores that also steps the address. Of a pair of vectors gcc
 * would make copies; for variables that are said to be in these registers it keeps sums there from the start. */
#define STORE_ROW(i, even, odd)                                                                        \
    do {                                                                                               \
        if (i < n) {                                                                                   \
            register float32x4_t v0 __asm__(even) = acc[i][0];                                         \
            register float32x4_t v1 __asm__(odd) = acc[i][1];                                          \
            __asm__ volatile("st1 {%1.4s, %2.4s}, [%0], %3"                                            \
                             : "+r"(c)                                                                 \
                             : "w"(v0), "w"(v1), "r"(pitch)                                            \
                             : "memory");                                                              \
        }                                                                                              \
    } while (0)

/* The same for sums that are in registers: from intrinsics gcc makes copies. */
EYELET_INLINE float32x4_t clamp_sum(float32x4_t v, float32x4_t min, float32x4_t max, const enum bounds bounds)
{
    __asm__("fmax %0.4s, %1.4s, %0.4s" : "+w"(v) : "w"(min));
    if (bounds == BOTH)
        v = vminq_f32(max, v);
    return v;
}

/* Stores up to eight rows, `pitch` bytes apart, clamped; returns the one after them. */
EYELET_INLINE float *store_next_rows(float32x4_t acc[][2], const size_t n, float *c, size_t pitch,
                                     const float *min_at, const float *max_at, const enum bounds bounds)
{
    if (bounds != NONE) {
        const float32x4_t min = load_all(min_at);
        if (bounds == LOWER) {
#pragma GCC unroll 16
            for (size_t i = 0; i < 2 * n; i++)
                acc[i / 2][i % 2] = clamp_sum(acc[i / 2][i % 2], min, min, LOWER);
        } else {
            const float32x4_t max = load_all(max_at);
#pragma GCC unroll 16
            for (size_t i = 0; i < 2 * n; i++)
                acc[i / 2][i % 2] = clamp_sum(acc[i / 2][i % 2], min, max, BOTH);
        }
    }
    STORE_ROW(0, "v0", "v1");
    STORE_ROW(1, "v2", "v3");
    STORE_ROW(2, "v4", "v5");
    STORE_ROW(3, "v6", "v7");
    STORE_ROW(4, "v8", "v9");
    STORE_ROW(5, "v10", "v11");
    STORE_ROW(6, "v12", "v13");
    STORE_ROW(7, "v14", "v15");
    return c;
}

#endif
