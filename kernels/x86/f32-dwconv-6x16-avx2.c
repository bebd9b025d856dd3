/* f32 depthwise convolution, up to 6 pixels by 16 channels at a time, AVX2 and FMA.
 *
 * Registers: 12 accumulators, two vectors of weights; activations are memory operands. */
#include "../dwconv.h"
#include <immintrin.h>

enum { MR = 6, NR = 16 };

EYELET_INLINE __m256 clamp(__m256 v, __m256 min, __m256 max)
{
    return _mm256_min_ps(max, _mm256_max_ps(min, v));
}

/* A mask of the first `n` of eight lanes. */
EYELET_INLINE __m256i lanes(size_t n)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), index);
}

/* All taps of `mr` pixels for the `nr` channels from `channel` on. */
EYELET_INLINE void panel(const struct eyelet_dwconv *t, const size_t mr, const float *w, size_t channel,
                         const int whole, size_t nr)
{
    __m256 acc[MR][2];
    const __m256 bias0 = _mm256_loadu_ps(w);
    const __m256 bias1 = _mm256_loadu_ps(w + 8);
#pragma GCC unroll 6
    for (size_t i = 0; i < mr; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    const __m256i m0 = lanes(nr);
    const __m256i m1 = lanes(nr > 8 ? nr - 8 : 0);
    const float *const *a = t->a;
    const size_t offset = t->offset + channel;
    for (size_t tap = t->taps; tap != 0; tap--) {
        w += NR;
        const __m256 w0 = _mm256_loadu_ps(w);
        const __m256 w1 = _mm256_loadu_ps(w + 8);
#pragma GCC unroll 6
        for (size_t i = 0; i < mr; i++) {
            const float *x = a[i] + offset;
            if (whole) {
                acc[i][0] = _mm256_fmadd_ps(_mm256_loadu_ps(x), w0, acc[i][0]);
                acc[i][1] = _mm256_fmadd_ps(_mm256_loadu_ps(x + 8), w1, acc[i][1]);
            } else {
                acc[i][0] = _mm256_fmadd_ps(_mm256_maskload_ps(x, m0), w0, acc[i][0]);
                acc[i][1] = _mm256_fmadd_ps(_mm256_maskload_ps(x + 8, m1), w1, acc[i][1]);
            }
        }
        a += mr;
    }

    const __m256 min = _mm256_set1_ps(t->min);
    const __m256 max = _mm256_set1_ps(t->max);
    const float *r = t->residual ? t->residual + channel : NULL;
    float *c = t->c + channel;
#pragma GCC unroll 6
    for (size_t i = 0; i < mr; i++) {
        __m256 v0 = acc[i][0];
        __m256 v1 = acc[i][1];
        if (whole) {
            if (r) {
                v0 = _mm256_add_ps(v0, _mm256_loadu_ps(r));
                v1 = _mm256_add_ps(v1, _mm256_loadu_ps(r + 8));
                r += t->residual_pitch;
            }
            _mm256_storeu_ps(c, clamp(v0, min, max));
            _mm256_storeu_ps(c + 8, clamp(v1, min, max));
        } else {
            if (r) {
                v0 = _mm256_add_ps(v0, _mm256_maskload_ps(r, m0));
                v1 = _mm256_add_ps(v1, _mm256_maskload_ps(r + 8, m1));
                r += t->residual_pitch;
            }
            _mm256_maskstore_ps(c, m0, clamp(v0, min, max));
            _mm256_maskstore_ps(c + 8, m1, clamp(v1, min, max));
        }
        c += t->c_pitch;
    }
}

EYELET_INLINE void tile(const struct eyelet_dwconv *t, const size_t mr)
{
    const float *w = t->panels;
    size_t channel = 0;
    for (; channel + NR <= t->channels; channel += NR) {
        panel(t, mr, w, channel, 1, NR);
        w += (1 + t->taps) * NR;
    }
    if (channel < t->channels)
        panel(t, mr, w, channel, 0, t->channels - channel);
}

void eyelet_f32_dwconv_6x16__avx2(const struct eyelet_dwconv *t)
{
    switch (t->pixels) {
        EYELET_ROWS_CASE(1)
        EYELET_ROWS_CASE(2)
        EYELET_ROWS_CASE(3)
        EYELET_ROWS_CASE(4)
        EYELET_ROWS_CASE(5)
        EYELET_ROWS_CASE(6)
    }
}
