/* f32 depthwise convolution, up to 8 pixels by 8 channels at a time, NEON.
 *
 * Registers: 16 accumulators, two vectors of weights, the rest for activations. A short last panel
 * goes by four channels and then one by one. */
#include "../dwconv.h"
#include <arm_neon.h>

enum { MR = 8, NR = 8 };

EYELET_INLINE float32x4_t clamp(float32x4_t v, float32x4_t min, float32x4_t max)
{
    v = vbslq_f32(vcgtq_f32(min, v), min, v);
    return vbslq_f32(vcltq_f32(max, v), max, v);
}

/* All taps of `mr` pixels for eight channels from `channel` on, whose panel is `w`. */
EYELET_INLINE void eight(const struct eyelet_dwconv *t, const size_t mr, const float *w, size_t channel)
{
    float32x4_t acc[MR][2];
    const float32x4_t bias0 = vld1q_f32(w);
    const float32x4_t bias1 = vld1q_f32(w + 4);
#pragma GCC unroll 8
    for (size_t i = 0; i < mr; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    const float *const *a = t->a;
    const size_t offset = t->offset + channel;
    for (size_t tap = t->taps; tap != 0; tap--) {
        w += NR;
        const float32x4_t w0 = vld1q_f32(w);
        const float32x4_t w1 = vld1q_f32(w + 4);
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++) {
            const float *x = a[i] + offset;
            acc[i][0] = vfmaq_f32(acc[i][0], vld1q_f32(x), w0);
            acc[i][1] = vfmaq_f32(acc[i][1], vld1q_f32(x + 4), w1);
        }
        a += mr;
    }

    const float32x4_t min = vdupq_n_f32(t->min);
    const float32x4_t max = vdupq_n_f32(t->max);
    const float *r = t->residual ? t->residual + channel : NULL;
    float *c = t->c + channel;
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
}

/* The same for four channels. */
EYELET_INLINE void four(const struct eyelet_dwconv *t, const size_t mr, const float *w, size_t channel)
{
    float32x4_t acc[MR];
    const float32x4_t bias = vld1q_f32(w);
#pragma GCC unroll 8
    for (size_t i = 0; i < mr; i++)
        acc[i] = bias;
    const float *const *a = t->a;
    const size_t offset = t->offset + channel;
    for (size_t tap = t->taps; tap != 0; tap--) {
        w += NR;
        const float32x4_t w0 = vld1q_f32(w);
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++)
            acc[i] = vfmaq_f32(acc[i], vld1q_f32(a[i] + offset), w0);
        a += mr;
    }
    const float32x4_t min = vdupq_n_f32(t->min);
    const float32x4_t max = vdupq_n_f32(t->max);
#pragma GCC unroll 8
    for (size_t i = 0; i < mr; i++) {
        float32x4_t v = acc[i];
        if (t->residual)
            v = vaddq_f32(v, vld1q_f32(t->residual + i * t->residual_pitch + channel));
        vst1q_f32(t->c + i * t->c_pitch + channel, clamp(v, min, max));
    }
}

/* The same for one channel. */
EYELET_INLINE void one(const struct eyelet_dwconv *t, const float *w, size_t channel)
{
    for (size_t i = 0; i < t->pixels; i++) {
        float v = w[0];
        for (size_t tap = 0; tap < t->taps; tap++) {
            const float x = t->a[tap * t->pixels + i][t->offset + channel];
            v = __builtin_fmaf(x, w[(1 + tap) * NR], v);
        }
        if (t->residual)
            v = v + t->residual[i * t->residual_pitch + channel];
        v = t->min > v ? t->min : v;
        v = t->max < v ? t->max : v;
        t->c[i * t->c_pitch + channel] = v;
    }
}

EYELET_INLINE void tile(const struct eyelet_dwconv *t, const size_t mr)
{
    const float *w = t->panels;
    size_t channel = 0;
    for (; channel + NR <= t->channels; channel += NR) {
        eight(t, mr, w, channel);
        w += (1 + t->taps) * NR;
    }
    if (channel + 4 <= t->channels) {
        four(t, mr, w, channel);
        w += 4;
        channel += 4;
    }
    for (; channel < t->channels; channel++)
        one(t, w++, channel);
}

void eyelet_f32_dwconv_8x8__neon(const struct eyelet_dwconv *t)
{
    switch (t->pixels) {
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
