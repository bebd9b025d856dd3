/* f32 depthwise convolution, up to 7 pixels by 32 channels at a time, AVX-512 F.
 *
 * Registers: 14 accumulators; for adjacent taps their weights, 6 vectors of three taps, and 2 of a column,
 * which serves up to as many pixels. Loads and stores
 * are masked for the last channels only: masks cost time at the stores. */
#include "../dwconv.h"
#include <immintrin.h>

enum { MR = 7, NR = 32 };

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

/* `n` pixels from `p` on. `shared` says how neighbours share columns; `whole`
 * where all channels of the panel are there. */
EYELET_INLINE void body(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, const enum eyelet_shared shared, const size_t whole)
{
    const size_t left = t->channels - channel;
    const unsigned keep = left >= NR ? 0xffffffffu : (1u << left) - 1;
    const __mmask16 m0 = (__mmask16)keep;
    const __mmask16 m1 = (__mmask16)(keep >> 16);
    const size_t offset = t->offset + channel;

    __m512 acc[MR][2];
    const __m512 bias0 = _mm512_loadu_ps(w);
    const __m512 bias1 = _mm512_loadu_ps(w + 16);
#pragma GCC unroll 7
    for (size_t i = 0; i < n; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    w += NR;

    const size_t taps = eyelet_taps(shared), stride = eyelet_stride(shared);
    const float *const *line = t->a + p * t->stride;
    for (size_t ky = t->tap_lines; ky != 0; ky--) {
        if (taps) {
            __m512 v[5][2];
#pragma GCC unroll 5
            for (size_t kx = 0; kx < taps; kx++) {
                v[kx][0] = _mm512_loadu_ps(w + kx * NR);
                v[kx][1] = _mm512_loadu_ps(w + kx * NR + 16);
            }
            w += taps * NR;
#pragma GCC unroll 20
            for (size_t col = 0; col < (n - 1) * stride + taps; col++) {
                const float *x = line[col] + offset;
                const __m512 x0 = load(x, m0, whole);
                const __m512 x1 = load(x + 16, m1, whole);
#pragma GCC unroll 5
                for (size_t kx = 0; kx < taps; kx++) {
                    if (col >= kx && (col - kx) % stride == 0 && (col - kx) / stride < n) {
                        const size_t i = (col - kx) / stride;
                        acc[i][0] = _mm512_fmadd_ps(x0, v[kx][0], acc[i][0]);
                        acc[i][1] = _mm512_fmadd_ps(x1, v[kx][1], acc[i][1]);
                    }
                }
            }
        } else {
            const float *const *tap = line;
            for (size_t kx = t->tap_cols; kx != 0; kx--) {
                const __m512 v0 = _mm512_loadu_ps(w);
                const __m512 v1 = _mm512_loadu_ps(w + 16);
                w += NR;
#pragma GCC unroll 7
                for (size_t i = 0; i < n; i++) {
                    const float *x = tap[i * t->stride] + offset;
                    acc[i][0] = _mm512_fmadd_ps(load(x, m0, whole), v0, acc[i][0]);
                    acc[i][1] = _mm512_fmadd_ps(load(x + 16, m1, whole), v1, acc[i][1]);
                }
                tap += t->col_pitch;
            }
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
            v1 = _mm512_add_ps(v1, load(r + 16, m1, whole));
            r += t->residual_pitch;
        }
        store(c, m0, _mm512_min_ps(max, _mm512_max_ps(min, v0)), whole);
        store(c + 16, m1, _mm512_min_ps(max, _mm512_max_ps(min, v1)), whole);
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

void eyelet_f32_dwconv_7x32__avx512(const struct eyelet_dwconv *t)
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
                EYELET_PIXELS_CASE(5)
                EYELET_PIXELS_CASE(6)
                EYELET_PIXELS_CASE(7)
            }
            w += panel;
        }
    }
}
