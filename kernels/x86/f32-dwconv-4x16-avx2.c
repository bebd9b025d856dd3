/* f32 depthwise convolution, up to 4 pixels by 16 channels at a time, AVX2 and FMA.
 *
 * Registers: 8 accumulators; for adjacent taps their weights, 6 vectors of three taps, and 2 of a column,
 * which serves up to as many pixels. */
#include "../dwconv.h"
#include <immintrin.h>

enum { MR = 4, NR = 16 };

/* A mask of the first `n` of eight lanes. */
EYELET_INLINE __m256i lanes(size_t n)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), index);
}

EYELET_INLINE __m256 load(const float *x, const int whole, __m256i mask)
{
    return whole ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, mask);
}

/* `n` pixels from `p` on. `shared` says how neighbours share columns; `whole`
 * says that there are at least NR channels. */
EYELET_INLINE void body(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, const enum eyelet_shared shared, const int whole)
{
    const size_t left = t->channels - channel;
    const __m256i m0 = lanes(left < 8 ? left : 8);
    const __m256i m1 = lanes(left < 8 ? 0 : left < NR ? left - 8 : 8);
    const size_t offset = t->offset + channel;

    __m256 acc[MR][2];
    const __m256 bias0 = _mm256_loadu_ps(w);
    const __m256 bias1 = _mm256_loadu_ps(w + 8);
#pragma GCC unroll 4
    for (size_t i = 0; i < n; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    w += NR;

    const size_t taps = eyelet_taps(shared), stride = eyelet_stride(shared);
    const float *const *line = t->a + p * t->stride;
    for (size_t ky = t->tap_lines; ky != 0; ky--) {
        if (taps) {
            __m256 v[5][2];
#pragma GCC unroll 5
            for (size_t kx = 0; kx < taps; kx++) {
                v[kx][0] = _mm256_loadu_ps(w + kx * NR);
                v[kx][1] = _mm256_loadu_ps(w + kx * NR + 8);
            }
            w += taps * NR;
#pragma GCC unroll 20
            for (size_t col = 0; col < (n - 1) * stride + taps; col++) {
                const float *x = line[col] + offset;
                const __m256 x0 = load(x, whole, m0);
                const __m256 x1 = load(x + 8, whole, m1);
#pragma GCC unroll 5
                for (size_t kx = 0; kx < taps; kx++) {
                    if (col >= kx && (col - kx) % stride == 0 && (col - kx) / stride < n) {
                        const size_t i = (col - kx) / stride;
                        acc[i][0] = _mm256_fmadd_ps(x0, v[kx][0], acc[i][0]);
                        acc[i][1] = _mm256_fmadd_ps(x1, v[kx][1], acc[i][1]);
                    }
                }
            }
        } else {
            const float *const *tap = line;
            for (size_t kx = t->tap_cols; kx != 0; kx--) {
                const __m256 v0 = _mm256_loadu_ps(w);
                const __m256 v1 = _mm256_loadu_ps(w + 8);
                w += NR;
#pragma GCC unroll 4
                for (size_t i = 0; i < n; i++) {
                    const float *x = tap[i * t->stride] + offset;
                    acc[i][0] = _mm256_fmadd_ps(load(x, whole, m0), v0, acc[i][0]);
                    acc[i][1] = _mm256_fmadd_ps(load(x + 8, whole, m1), v1, acc[i][1]);
                }
                tap += t->col_pitch;
            }
        }
        line += t->line_pitch;
    }

    const __m256 min = _mm256_set1_ps(t->min);
    const __m256 max = _mm256_set1_ps(t->max);
    const float *r = t->residual ? t->residual + p * t->residual_pitch + channel : NULL;
    float *c = t->c + p * t->c_pitch + channel;
#pragma GCC unroll 4
    for (size_t i = 0; i < n; i++) {
        __m256 v0 = acc[i][0];
        __m256 v1 = acc[i][1];
        if (r) {
            v0 = _mm256_add_ps(v0, load(r, whole, m0));
            v1 = _mm256_add_ps(v1, load(r + 8, whole, m1));
            r += t->residual_pitch;
        }
        v0 = _mm256_min_ps(max, _mm256_max_ps(min, v0));
        v1 = _mm256_min_ps(max, _mm256_max_ps(min, v1));
        if (whole) {
            _mm256_storeu_ps(c, v0);
            _mm256_storeu_ps(c + 8, v1);
        } else {
            _mm256_maskstore_ps(c, m0, v0);
            _mm256_maskstore_ps(c + 8, m1, v1);
        }
        c += t->c_pitch;
    }
}

EYELET_INLINE void tile(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, const enum eyelet_shared shared)
{
    if (t->channels - channel >= NR)
        body(t, w, channel, p, n, shared, 1);
    else
        body(t, w, channel, p, n, shared, 0);
}

void eyelet_f32_dwconv_4x16__avx2(const struct eyelet_dwconv *t)
{
    const enum eyelet_shared shared = eyelet_shared(t);
    const size_t panel = (1 + t->tap_lines * t->tap_cols) * NR;
    /* All channels of some pixels, then the next ones: activations are read once, from end to end. */
    for (size_t p = 0; p < t->pixels; p += MR) {
        const size_t n = t->pixels - p;
        const float *w = t->panels;
        for (size_t channel = 0; channel < t->channels; channel += NR) {
            switch (n < MR ? n : MR) {
                EYELET_PIXELS_CASE(1)
                EYELET_PIXELS_CASE(2)
                EYELET_PIXELS_CASE(3)
                EYELET_PIXELS_CASE(4)
            }
            w += panel;
        }
    }
}
