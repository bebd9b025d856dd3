/* How the kernels of NEON finish their outputs: rows of eight floats in two vectors. */
#ifndef EYELET_STORE_NEON_H
#define EYELET_STORE_NEON_H

#include "../kernel.h"
#include <arm_neon.h>

/* What the clamp does: an infinite bound does nothing. */
enum bounds { NONE, LOWER, BOTH, RARE };

EYELET_INLINE enum bounds bounds(float min, float max)
{
    if (max < __builtin_inff())
        return max > 0 ? BOTH : RARE;
    return min > -__builtin_inff() ? LOWER : NONE;
}

EYELET_INLINE float32x4_t clamp(float32x4_t v, float32x4_t min, float32x4_t max,
                                const enum bounds bounds)
{
    if (bounds != NONE)
        v = vbslq_f32(vcgtq_f32(min, v), min, v);
    /* The instruction differs from `max < v ? max : v` only in the sign of a zero. */
    if (bounds == BOTH)
        v = vminq_f32(max, v);
    else if (bounds == RARE)
        v = vbslq_f32(vcltq_f32(max, v), max, v);
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
        case RARE:
            store_bounded(acc, n, c, pitch, lower, upper, RARE);
            break;
    }
}

#endif
