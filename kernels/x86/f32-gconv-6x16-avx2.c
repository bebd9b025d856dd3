/* f32 convolution in groups of 2, 4 or 8 channels, up to 6 pixels by 16 channels at a time, AVX2 and FMA.
 *
 * A group's input channel is spread over the group's lanes by a permutation, or, where the group is a
 * whole vector, by a broadcast from memory.
 *
 * Registers: 12 accumulators, two vectors of weights, the permutation, and what it makes of the taps,
 * which are loaded anew for each k. */
#include "../gconv.h"
#include <immintrin.h>

enum { MR = 6, NR = 16, LANES = 8 };

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

/* `n` pixels from `p` on. `whole` where all channels of the panel are there, `lone` where a group is a
 * vector. */
EYELET_INLINE void body(const struct eyelet_dwconv *t, const size_t n, const float *w, size_t channel,
                        size_t p, const __m256i *spread, const int whole, const int lone)
{
    const size_t left = t->channels - channel;
    const __m256i m0 = lanes(left < LANES ? left : LANES);
    const __m256i m1 = lanes(left < LANES ? 0 : left < NR ? left - LANES : LANES);
    const size_t offset = t->offset + channel;

    __m256 acc[MR][2];
    const __m256 bias0 = _mm256_loadu_ps(w);
    const __m256 bias1 = _mm256_loadu_ps(w + LANES);
#pragma GCC unroll 6
    for (size_t i = 0; i < n; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    w += NR;

    const float *const *line = t->a + p * t->stride;
    for (size_t ky = t->tap_lines; ky != 0; ky--) {
        const float *const *tap = line;
        for (size_t kx = t->tap_cols; kx != 0; kx--) {
            const float *x[MR];
#pragma GCC unroll 6
            for (size_t i = 0; i < n; i++)
                x[i] = tap[i * t->stride] + offset;
            const size_t group = lone ? LANES : t->group;
#pragma GCC unroll 2
            for (size_t k = 0; k < group; k++) {
                const __m256 b0 = _mm256_loadu_ps(w);
                const __m256 b1 = _mm256_loadu_ps(w + LANES);
                w += NR;
#pragma GCC unroll 6
                for (size_t i = 0; i < n; i++) {
                    if (!lone) {
                        const __m256 x0 = load(x[i], whole, m0);
                        const __m256 x1 = load(x[i] + LANES, whole, m1);
                        const __m256i s = spread[k];
                        acc[i][0] =
                            _mm256_fmadd_ps(_mm256_permutevar8x32_ps(x0, s), b0, acc[i][0]);
                        acc[i][1] =
                            _mm256_fmadd_ps(_mm256_permutevar8x32_ps(x1, s), b1, acc[i][1]);
                        continue;
                    }
                    acc[i][0] = _mm256_fmadd_ps(_mm256_broadcast_ss(x[i] + k), b0, acc[i][0]);
                    if (whole)
                        acc[i][1] = _mm256_fmadd_ps(_mm256_broadcast_ss(x[i] + LANES + k), b1,
                                                    acc[i][1]);
                }
            }
            tap += t->col_pitch;
        }
        line += t->line_pitch;
    }

    const __m256 min = _mm256_set1_ps(t->min);
    const __m256 max = _mm256_set1_ps(t->max);
    const float *r = t->residual ? t->residual + p * t->residual_pitch + channel : NULL;
    float *c = t->c + p * t->c_pitch + channel;
#pragma GCC unroll 6
    for (size_t i = 0; i < n; i++) {
        __m256 v0 = acc[i][0];
        __m256 v1 = acc[i][1];
        if (r) {
            v0 = _mm256_add_ps(v0, load(r, whole, m0));
            v1 = _mm256_add_ps(v1, load(r + LANES, whole, m1));
            r += t->residual_pitch;
        }
        v0 = _mm256_min_ps(max, _mm256_max_ps(min, v0));
        v1 = _mm256_min_ps(max, _mm256_max_ps(min, v1));
        if (whole) {
            _mm256_storeu_ps(c, v0);
            _mm256_storeu_ps(c + LANES, v1);
        } else {
            _mm256_maskstore_ps(c, m0, v0);
            _mm256_maskstore_ps(c + LANES, m1, v1);
        }
        c += t->c_pitch;
    }
}

EYELET_INLINE void tile(const struct eyelet_dwconv *t, const size_t n, const float *w, size_t channel,
                        size_t p, const __m256i *spread)
{
    const int whole = t->channels - channel >= NR;
    if (t->group == LANES && whole)
        body(t, n, w, channel, p, spread, 1, 1);
    else if (t->group == LANES)
        body(t, n, w, channel, p, spread, 0, 1);
    else if (whole)
        body(t, n, w, channel, p, spread, 1, 0);
    else
        body(t, n, w, channel, p, spread, 0, 0);
}

void eyelet_f32_gconv_6x16__avx2(const struct eyelet_dwconv *t)
{
    const size_t panel = (1 + t->tap_lines * t->tap_cols * t->group) * NR;
    /* For each k of a group, which lane every lane takes. */
    __m256i spread[LANES / 2];
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i first = _mm256_and_si256(index, _mm256_set1_epi32(-(int)t->group));
    for (size_t k = 0; k < LANES / 2; k++)
        spread[k] = _mm256_add_epi32(first, _mm256_set1_epi32((int)k));
    for (size_t p = 0; p < t->pixels; p += MR) {
        const size_t n = t->pixels - p;
        const float *w = t->panels;
        for (size_t channel = 0; channel < t->channels; channel += NR) {
            switch (n < MR ? n : MR) {
                EYELET_ROWS_CASE(1, w, channel, p, spread)
                EYELET_ROWS_CASE(2, w, channel, p, spread)
                EYELET_ROWS_CASE(3, w, channel, p, spread)
                EYELET_ROWS_CASE(4, w, channel, p, spread)
                EYELET_ROWS_CASE(5, w, channel, p, spread)
                EYELET_ROWS_CASE(6, w, channel, p, spread)
            }
            w += panel;
        }
    }
}
