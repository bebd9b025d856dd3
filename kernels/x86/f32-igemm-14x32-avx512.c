/* f32 implicit GEMM, 14 pixels by 32 channels, AVX-512 F.
 *
 * Registers: 28 accumulators (14 rows of two vectors), two vectors of the panel, two for the
 * broadcasts. A broadcast is a separate instruction: embedded ones would be loaded twice per k and
 * bind the loop to the load ports. The panel is prefetched into L2 one page ahead, past its end into
 * the next panel: cold weights arrive while the arithmetic runs. */
#include "../igemm.h"
#include <immintrin.h>

enum { MR = 14, NR = 32, AHEAD = 4096 };

EYELET_INLINE void tile(const struct eyelet_igemm *t, const size_t mr)
{
    __m512 acc[MR][2];
    const float *w = t->bias;
    const __m512 bias0 = _mm512_loadu_ps(w);
    const __m512 bias1 = _mm512_loadu_ps(w + 16);
#pragma GCC unroll 14
    for (size_t i = 0; i < mr; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    w = t->panel;

    const float *const *a = t->a;
    const size_t len = t->seg_len;
    for (size_t s = t->segments; s != 0; s--) {
        const float *row[MR];
#pragma GCC unroll 14
        for (size_t i = 0; i < mr; i++)
            row[i] = a[i] + t->offset;
        a += mr;

        size_t k = 0;
        for (; k + 4 <= len; k += 4) {
#pragma GCC unroll 4
            for (size_t u = 0; u < 4; u++) {
                _mm_prefetch((const char *)w + AHEAD, _MM_HINT_T1);
                _mm_prefetch((const char *)w + AHEAD + 64, _MM_HINT_T1);
                const __m512 b0 = _mm512_loadu_ps(w);
                const __m512 b1 = _mm512_loadu_ps(w + 16);
                w += NR;
#pragma GCC unroll 14
                for (size_t i = 0; i < mr; i++) {
                    const __m512 x = _mm512_set1_ps(row[i][k + u]);
                    acc[i][0] = _mm512_fmadd_ps(x, b0, acc[i][0]);
                    acc[i][1] = _mm512_fmadd_ps(x, b1, acc[i][1]);
                }
            }
        }
        for (; k < len; k++) {
            _mm_prefetch((const char *)w + AHEAD, _MM_HINT_T1);
            _mm_prefetch((const char *)w + AHEAD + 64, _MM_HINT_T1);
            const __m512 b0 = _mm512_loadu_ps(w);
            const __m512 b1 = _mm512_loadu_ps(w + 16);
            w += NR;
#pragma GCC unroll 14
            for (size_t i = 0; i < mr; i++) {
                const __m512 x = _mm512_set1_ps(row[i][k]);
                acc[i][0] = _mm512_fmadd_ps(x, b0, acc[i][0]);
                acc[i][1] = _mm512_fmadd_ps(x, b1, acc[i][1]);
            }
        }
    }

    const unsigned keep = t->nr >= NR ? 0xffffffffu : (1u << t->nr) - 1;
    const __mmask16 m0 = (__mmask16)keep;
    const __mmask16 m1 = (__mmask16)(keep >> 16);
    const __m512 min = _mm512_set1_ps(t->min);
    const __m512 max = _mm512_set1_ps(t->max);
    const float *r = t->residual;
    float *c = t->c;
#pragma GCC unroll 14
    for (size_t i = 0; i < mr; i++) {
        __m512 v0 = acc[i][0];
        __m512 v1 = acc[i][1];
        if (r) {
            v0 = _mm512_add_ps(v0, _mm512_maskz_loadu_ps(m0, r));
            v1 = _mm512_add_ps(v1, _mm512_maskz_loadu_ps(m1, r + 16));
            r += t->residual_pitch;
        }
        v0 = _mm512_min_ps(max, _mm512_max_ps(min, v0));
        v1 = _mm512_min_ps(max, _mm512_max_ps(min, v1));
        _mm512_mask_storeu_ps(c, m0, v0);
        _mm512_mask_storeu_ps(c + 16, m1, v1);
        c += t->c_pitch;
    }
}

void eyelet_f32_igemm_14x32__avx512(const struct eyelet_igemm *t)
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
        EYELET_ROWS_CASE(9)
        EYELET_ROWS_CASE(10)
        EYELET_ROWS_CASE(11)
        EYELET_ROWS_CASE(12)
        EYELET_ROWS_CASE(13)
        EYELET_ROWS_CASE(14)
    }
}
