/* f32 depthwise convolution, up to 7 pixels by 32 channels at a time, AVX-512 F.
 *
 * Registers: 14 accumulators; for three adjacent taps 6 vectors of weights and 2 of a column, which
 * serves up to three pixels. All loads of activations are masked: it costs nothing and ends rows. */
#include "../dwconv.h"
#include <immintrin.h>

enum { MR = 7, NR = 32 };

/* `n` pixels from `p` on. `three` is the stride where neighbours share columns, 0 in general. */
EYELET_INLINE void tile(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, const size_t three)
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

    const float *const *line = t->a + p * t->stride;
    for (size_t ky = t->tap_lines; ky != 0; ky--) {
        if (three) {
            __m512 v[3][2];
#pragma GCC unroll 3
            for (size_t kx = 0; kx < 3; kx++) {
                v[kx][0] = _mm512_loadu_ps(w + kx * NR);
                v[kx][1] = _mm512_loadu_ps(w + kx * NR + 16);
            }
            w += 3 * NR;
#pragma GCC unroll 16
            for (size_t col = 0; col < (n - 1) * three + 3; col++) {
                const float *x = line[col] + offset;
                const __m512 x0 = _mm512_maskz_loadu_ps(m0, x);
                const __m512 x1 = _mm512_maskz_loadu_ps(m1, x + 16);
#pragma GCC unroll 3
                for (size_t kx = 0; kx < 3; kx++) {
                    if (col >= kx && (col - kx) % three == 0 && (col - kx) / three < n) {
                        const size_t i = (col - kx) / three;
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
                    acc[i][0] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m0, x), v0, acc[i][0]);
                    acc[i][1] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m1, x + 16), v1, acc[i][1]);
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
            v0 = _mm512_add_ps(v0, _mm512_maskz_loadu_ps(m0, r));
            v1 = _mm512_add_ps(v1, _mm512_maskz_loadu_ps(m1, r + 16));
            r += t->residual_pitch;
        }
        _mm512_mask_storeu_ps(c, m0, _mm512_min_ps(max, _mm512_max_ps(min, v0)));
        _mm512_mask_storeu_ps(c + 16, m1, _mm512_min_ps(max, _mm512_max_ps(min, v1)));
        c += t->c_pitch;
    }
}

void eyelet_f32_dwconv_7x32__avx512(const struct eyelet_dwconv *t)
{
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
