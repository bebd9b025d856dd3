/* f32 implicit GEMM, 8 pixels by 8 channels, NEON with lane multiplies.
 *
 * Registers: 16 accumulators (8 rows of two vectors), 8 vectors of four adjacent k of each row, two to
 * eight vectors of the panel. Activations are loaded 128 bits at a time where they lie; a run's last
 * one to three k go one by one, so nothing past a run is read. */
#include "../igemm.h"
#include <arm_neon.h>

enum { MR = 8, NR = 8, AHEAD = 1024 };

/* Rows `mr` times one k: lane `u` of each row's four. */
#define STEP(u)                                                                                        \
    do {                                                                                               \
        const float32x4_t b0 = vld1q_f32(w + (u) * NR);                                                \
        const float32x4_t b1 = vld1q_f32(w + (u) * NR + 4);                                            \
        _Pragma("GCC unroll 8") for (size_t i = 0; i < mr; i++)                                        \
        {                                                                                              \
            acc[i][0] = vfmaq_laneq_f32(acc[i][0], b0, x[i], u);                                       \
            acc[i][1] = vfmaq_laneq_f32(acc[i][1], b1, x[i], u);                                       \
        }                                                                                              \
    } while (0)

EYELET_INLINE float32x4_t clamp(float32x4_t v, float32x4_t min, float32x4_t max)
{
    v = vbslq_f32(vcgtq_f32(min, v), min, v);
    return vbslq_f32(vcltq_f32(max, v), max, v);
}

EYELET_INLINE void tile(const struct eyelet_igemm *t, const size_t mr)
{
    float32x4_t acc[MR][2];
    const float *w = t->bias;
    const float32x4_t bias0 = vld1q_f32(w);
    const float32x4_t bias1 = vld1q_f32(w + 4);
#pragma GCC unroll 8
    for (size_t i = 0; i < mr; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    w = t->panel;

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
            STEP(0);
            STEP(1);
            STEP(2);
            STEP(3);
            w += 4 * NR;
        }
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
    }

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
