/* f32 convolution in groups of 2, 4, 8 or 16 channels, up to 7 pixels by 32 channels at a time,
 * AVX-512 F.
 *
 * A group's input channel is spread over the group's lanes by a permutation, or, where the group is a
 * whole vector, by a broadcast from memory.
 *
 * Registers: 14 accumulators and as many vectors of the pixels' taps, two of weights, the permutation. */
#include "../gconv.h"
#include <immintrin.h>

enum { MR = 7, NR = 32, LANES = 16 };

EYELET_INLINE __m512 load(const float *p, __mmask16 m, const size_t whole)
{
    return whole ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(m, p);
}

EYELET_INLINE void store(float *p, __mmask16 m, __m512 v, const size_t whole)
{
    if (whole)
        _mm512_storeu_ps(p, v);
    else
        _mm512_mask_storeu_ps(p, m, v);
}

/* `n` pixels from `p` on. `whole` where all channels of the panel are there, `lone` where a group is a
 * vector. */
EYELET_INLINE void body(const struct eyelet_dwconv *t, const size_t n, const float *w, size_t channel,
                        size_t p, const __m512i *spread, const size_t whole, const size_t lone)
{
    const size_t left = t->channels - channel;
    const unsigned keep = left >= NR ? 0xffffffffu : (1u << left) - 1;
    const __mmask16 m0 = (__mmask16)keep;
    const __mmask16 m1 = (__mmask16)(keep >> 16);
    const size_t offset = t->offset + channel;

    __m512 acc[MR][2];
    const __m512 bias0 = _mm512_loadu_ps(w);
    const __m512 bias1 = _mm512_loadu_ps(w + LANES);
#pragma GCC unroll 7
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
            __m512 x0[MR], x1[MR];
#pragma GCC unroll 7
            for (size_t i = 0; i < n; i++) {
                x[i] = tap[i * t->stride] + offset;
                if (!lone) {
                    x0[i] = load(x[i], m0, whole);
                    x1[i] = load(x[i] + LANES, m1, whole);
                }
            }
            const size_t group = lone ? LANES : t->group;
#pragma GCC unroll 2
            for (size_t k = 0; k < group; k++) {
                const __m512 b0 = _mm512_loadu_ps(w);
                const __m512 b1 = _mm512_loadu_ps(w + LANES);
                w += NR;
#pragma GCC unroll 7
                for (size_t i = 0; i < n; i++) {
                    if (!lone) {
                        const __m512i s = spread[k];
                        acc[i][0] = _mm512_fmadd_ps(_mm512_permutexvar_ps(s, x0[i]), b0, acc[i][0]);
                        acc[i][1] = _mm512_fmadd_ps(_mm512_permutexvar_ps(s, x1[i]), b1, acc[i][1]);
                        continue;
                    }
                    acc[i][0] = _mm512_fmadd_ps(_mm512_set1_ps(x[i][k]), b0, acc[i][0]);
                    if (whole)
                        acc[i][1] = _mm512_fmadd_ps(_mm512_set1_ps(x[i][LANES + k]), b1, acc[i][1]);
                }
            }
            tap += t->col_pitch;
        }
        line += t->line_pitch;
    }

    const __m512 min = _mm512_set1_ps(t->min);
    const __m512 max = _mm512_set1_ps(t->max);
    const float *r = t->residual ? t->residual + p * t->residual_pitch + channel : NULL;
    float *c = t->c + p * t->c_pitch + channel;
#pragma GCC unroll 7
    for (size_t i = 0; i < n; i++) {
        __m512 v0 = acc[i][0];
        __m512 v1 = acc[i][1];
        if (r) {
            v0 = _mm512_add_ps(v0, load(r, m0, whole));
            v1 = _mm512_add_ps(v1, load(r + LANES, m1, whole));
            r += t->residual_pitch;
        }
        store(c, m0, _mm512_min_ps(max, _mm512_max_ps(min, v0)), whole);
        store(c + LANES, m1, _mm512_min_ps(max, _mm512_max_ps(min, v1)), whole);
        c += t->c_pitch;
    }
}

EYELET_INLINE void tile(const struct eyelet_dwconv *t, const size_t n, const float *w, size_t channel,
                        size_t p, const __m512i *spread)
{
    const size_t whole = t->channels - channel >= NR;
    if (t->group == LANES && whole)
        body(t, n, w, channel, p, spread, 1, 1);
    else if (t->group == LANES)
        body(t, n, w, channel, p, spread, 0, 1);
    else if (whole)
        body(t, n, w, channel, p, spread, 1, 0);
    else
        body(t, n, w, channel, p, spread, 0, 0);
}

void eyelet_f32_gconv_7x32__avx512(const struct eyelet_dwconv *t)
{
    const size_t panel = (1 + t->tap_lines * t->tap_cols * t->group) * NR;
    /* For each k of a group, which lane every lane takes. */
    __m512i spread[LANES / 2];
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i first = _mm512_and_si512(lanes, _mm512_set1_epi32(-(int)t->group));
    for (size_t k = 0; k < LANES / 2; k++)
        spread[k] = _mm512_add_epi32(first, _mm512_set1_epi32((int)k));
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
                EYELET_ROWS_CASE(7, w, channel, p, spread)
            }
            w += panel;
        }
    }
}
