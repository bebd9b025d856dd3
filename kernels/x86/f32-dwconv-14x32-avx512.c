/* f32 depthwise convolution, up to 14 pixels by 32 channels at a time, AVX-512 F.
 *
 * Registers: 28 accumulators, two vectors of weights; activations are memory operands. */
#include "../dwconv.h"
#include <immintrin.h>

enum { MR = 14, NR = 32 };

EYELET_INLINE __m512 clamp(__m512 v, __m512 min, __m512 max)
{
    return _mm512_min_ps(max, _mm512_max_ps(min, v));
}

/* All taps of `mr` pixels for the channels from `channel` on, as many as the masks say. */
EYELET_INLINE void panel(const struct eyelet_dwconv *t, const size_t mr, const float *w, size_t channel,
                         const int whole, __mmask16 m0, __mmask16 m1)
{
    __m512 acc[MR][2];
    const __m512 bias0 = _mm512_loadu_ps(w);
    const __m512 bias1 = _mm512_loadu_ps(w + 16);
#pragma GCC unroll 14
    for (size_t i = 0; i < mr; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    const float *const *a = t->a;
    const size_t offset = t->offset + channel;
    for (size_t tap = t->taps; tap != 0; tap--) {
        w += NR;
        const __m512 w0 = _mm512_loadu_ps(w);
        const __m512 w1 = _mm512_loadu_ps(w + 16);
#pragma GCC unroll 14
        for (size_t i = 0; i < mr; i++) {
            const float *x = a[i] + offset;
            if (whole) {
                acc[i][0] = _mm512_fmadd_ps(_mm512_loadu_ps(x), w0, acc[i][0]);
                acc[i][1] = _mm512_fmadd_ps(_mm512_loadu_ps(x + 16), w1, acc[i][1]);
            } else {
                acc[i][0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m0, x), w0, acc[i][0]);
                acc[i][1] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m1, x + 16), w1, acc[i][1]);
            }
        }
        a += mr;
    }

    const __m512 min = _mm512_set1_ps(t->min);
    const __m512 max = _mm512_set1_ps(t->max);
    const float *r = t->residual ? t->residual + channel : NULL;
    float *c = t->c + channel;
#pragma GCC unroll 14
    for (size_t i = 0; i < mr; i++) {
        __m512 v0 = acc[i][0];
        __m512 v1 = acc[i][1];
        if (r) {
            v0 = _mm512_add_ps(v0, _mm512_maskz_loadu_ps(m0, r));
            v1 = _mm512_add_ps(v1, _mm512_maskz_loadu_ps(m1, r + 16));
            r += t->residual_pitch;
        }
        _mm512_mask_storeu_ps(c, m0, clamp(v0, min, max));
        _mm512_mask_storeu_ps(c + 16, m1, clamp(v1, min, max));
        c += t->c_pitch;
    }
}

EYELET_INLINE void tile(const struct eyelet_dwconv *t, const size_t mr)
{
    const float *w = t->panels;
    size_t channel = 0;
    for (; channel + NR <= t->channels; channel += NR) {
        panel(t, mr, w, channel, 1, 0xffff, 0xffff);
        w += (1 + t->taps) * NR;
    }
    if (channel < t->channels) {
        const unsigned keep = (1u << (t->channels - channel)) - 1;
        panel(t, mr, w, channel, 0, (__mmask16)keep, (__mmask16)(keep >> 16));
    }
}

void eyelet_f32_dwconv_14x32__avx512(const struct eyelet_dwconv *t)
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
        EYELET_ROWS_CASE(9)
        EYELET_ROWS_CASE(10)
        EYELET_ROWS_CASE(11)
        EYELET_ROWS_CASE(12)
        EYELET_ROWS_CASE(13)
        EYELET_ROWS_CASE(14)
    }
}
