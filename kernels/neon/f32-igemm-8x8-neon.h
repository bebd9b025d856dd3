/* What the 8x8 f32_igemm kernels of NEON share: all but the loop over four k at a time.
 *
 * Registers: 16 accumulators, 8 rows of two vectors. A multiplication is written as its instruction: from
 * the intrinsic gcc makes copies of accumulators, as it may keep sum and addend in two registers. */
#ifndef EYELET_F32_IGEMM_8X8_NEON_H
#define EYELET_F32_IGEMM_8X8_NEON_H

#include "../igemm.h"
#include <arm_neon.h>

/* AHEAD: bytes of the panel that are fetched into the cache before they are needed. */
enum { MR = 8, NR = 8, AHEAD = 1024 };

/* `acc += b * a[lane]`; `lane` is constant once loops are unrolled. */
#define MULTIPLY(acc, b, a, lane)                                                                      \
    __asm__("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(acc) : "w"(b), "w"(a), "i"(lane))

EYELET_INLINE void start(const struct eyelet_igemm *t, float32x4_t acc[MR][2], const size_t mr)
{
    const float32x4_t bias0 = vld1q_f32(t->bias);
    const float32x4_t bias1 = vld1q_f32(t->bias + 4);
#pragma GCC unroll 8
    for (size_t i = 0; i < mr; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
}

/* A run's last one to three k, one by one: nothing past a run is read. Returns the rest of the panel. */
EYELET_INLINE const float *rest(float32x4_t acc[MR][2], const float *row[MR], const float *w, size_t k,
                                const size_t mr)
{
    for (; k != 0; k--) {
        const float32x4_t b0 = vld1q_f32(w);
        const float32x4_t b1 = vld1q_f32(w + 4);
        w += NR;
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++) {
            const float32x4_t x = vld1q_dup_f32(row[i]);
            row[i]++;
            acc[i][0] = vfmaq_f32(acc[i][0], b0, x);
            acc[i][1] = vfmaq_f32(acc[i][1], b1, x);
        }
    }
    return w;
}

EYELET_INLINE float32x4_t clamp(float32x4_t v, float32x4_t min, float32x4_t max)
{
    v = vbslq_f32(vcgtq_f32(min, v), min, v);
    return vbslq_f32(vcltq_f32(max, v), max, v);
}

EYELET_INLINE void finish(const struct eyelet_igemm *t, float32x4_t acc[MR][2], const size_t mr)
{
    const float32x4_t min = vdupq_n_f32(t->min);
    const float32x4_t max = vdupq_n_f32(t->max);
    const float *r = t->residual;
    float *c = t->c;
    if (t->nr >= NR) {
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++) {
            float32x4_t v0 = acc[i][0];
            float32x4_t v1 = acc[i][1];
            if (r) {
                v0 = vaddq_f32(v0, vld1q_f32(r));
                v1 = vaddq_f32(v1, vld1q_f32(r + 4));
                r += t->residual_pitch;
            }
            vst1q_f32(c, clamp(v0, min, max));
            vst1q_f32(c + 4, clamp(v1, min, max));
            c += t->c_pitch;
        }
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
                if (r)
                    v = v + r[i * t->residual_pitch + j];
                v = t->min > v ? t->min : v;
                v = t->max < v ? t->max : v;
                c[i * t->c_pitch + j] = v;
            }
        }
    }
}

#endif
