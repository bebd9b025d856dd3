/* f32 implicit GEMM, 14 pixels by 32 channels, AVX-512 F.
 *
 * Registers: 28 accumulators (14 rows of two vectors), two vectors of the panel, two for the
 * broadcasts. A broadcast is a separate instruction: embedded ones would be loaded twice per k and
 * bind the loop to the load ports. Panels of up to 16 channels have a body with one vector a row.
 *
 * With few k, a tile waits for memory at its end: what is written, or added to, is fetched at its start. */
#include "../igemm.h"
#include <immintrin.h>

enum { MR = 14, NR = 32 };

/* Fetches two lines of the weights that come next. */
EYELET_INLINE const char *fetch(const char *next, size_t step)
{
    _mm_prefetch(next, _MM_HINT_T1);
    _mm_prefetch(next + 64, _MM_HINT_T1);
    return next + step;
}

EYELET_INLINE void tile(const struct eyelet_igemm *t, const size_t mr, const size_t vectors)
{
    const float *r = t->residual;
    float *c = t->c;
#pragma GCC unroll 14
    for (size_t i = 0; i < mr; i++) {
        for (size_t v = 0; v < vectors; v++)
            __builtin_prefetch(c + i * t->c_pitch + 16 * v, 1, 3);
    }
    if (r && r != c) {
#pragma GCC unroll 14
        for (size_t i = 0; i < mr; i++) {
            for (size_t v = 0; v < vectors; v++)
                __builtin_prefetch(r + i * t->residual_pitch + 16 * v, 0, 3);
        }
    }

    __m512 acc[MR][2];
    const float *w = t->bias;
#pragma GCC unroll 14
    for (size_t i = 0; i < mr; i++) {
        for (size_t v = 0; v < vectors; v++)
            acc[i][v] = _mm512_loadu_ps(w + 16 * v);
        w += t->bias_pitch;
    }
    w = t->panel;
    __m512 b[2];

    const char *next = t->next;
    const size_t step = t->next_step;
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
                next = fetch(next, step);
                for (size_t v = 0; v < vectors; v++)
                    b[v] = _mm512_loadu_ps(w + 16 * v);
                w += NR;
#pragma GCC unroll 14
                for (size_t i = 0; i < mr; i++) {
                    const __m512 x = _mm512_set1_ps(row[i][k + u]);
                    for (size_t v = 0; v < vectors; v++)
                        acc[i][v] = _mm512_fmadd_ps(x, b[v], acc[i][v]);
                }
            }
        }
        for (; k < len; k++) {
            next = fetch(next, step);
            for (size_t v = 0; v < vectors; v++)
                b[v] = _mm512_loadu_ps(w + 16 * v);
            w += NR;
#pragma GCC unroll 14
            for (size_t i = 0; i < mr; i++) {
                const __m512 x = _mm512_set1_ps(row[i][k]);
                for (size_t v = 0; v < vectors; v++)
                    acc[i][v] = _mm512_fmadd_ps(x, b[v], acc[i][v]);
            }
        }
    }

    const __m512 min = _mm512_set1_ps(t->min);
    const __m512 max = _mm512_set1_ps(t->max);
    if (t->nr == 16 * vectors) {
#pragma GCC unroll 14
        for (size_t i = 0; i < mr; i++) {
            for (size_t v = 0; v < vectors; v++) {
                __m512 z = acc[i][v];
                if (r)
                    z = _mm512_add_ps(z, _mm512_loadu_ps(r + 16 * v));
                _mm512_storeu_ps(c + 16 * v, _mm512_min_ps(max, _mm512_max_ps(min, z)));
            }
            if (r)
                r += t->residual_pitch;
            c += t->c_pitch;
        }
        return;
    }
    const unsigned keep = t->nr >= NR ? 0xffffffffu : (1u << t->nr) - 1;
    const __mmask16 mask[2] = { (__mmask16)keep, (__mmask16)(keep >> 16) };
#pragma GCC unroll 14
    for (size_t i = 0; i < mr; i++) {
        for (size_t v = 0; v < vectors; v++) {
            __m512 z = acc[i][v];
            if (r)
                z = _mm512_add_ps(z, _mm512_maskz_loadu_ps(mask[v], r + 16 * v));
            z = _mm512_min_ps(max, _mm512_max_ps(min, z));
            _mm512_mask_storeu_ps(c + 16 * v, mask[v], z);
        }
        if (r)
            r += t->residual_pitch;
        c += t->c_pitch;
    }
}

#define STRIPS(vectors)                                                                                \
    EYELET_STRIPS(call,                                                                                \
                  EYELET_STRIPS_CASE(1, vectors)                                                       \
                  EYELET_STRIPS_CASE(2, vectors)                                                       \
                  EYELET_STRIPS_CASE(3, vectors)                                                       \
                  EYELET_STRIPS_CASE(4, vectors)                                                       \
                  EYELET_STRIPS_CASE(5, vectors)                                                       \
                  EYELET_STRIPS_CASE(6, vectors)                                                       \
                  EYELET_STRIPS_CASE(7, vectors)                                                       \
                  EYELET_STRIPS_CASE(8, vectors)                                                       \
                  EYELET_STRIPS_CASE(9, vectors)                                                       \
                  EYELET_STRIPS_CASE(10, vectors)                                                      \
                  EYELET_STRIPS_CASE(11, vectors)                                                      \
                  EYELET_STRIPS_CASE(12, vectors)                                                      \
                  EYELET_STRIPS_CASE(13, vectors)                                                      \
                  EYELET_STRIPS_CASE(14, vectors))

static __attribute__((noinline)) void wide(const struct eyelet_igemm *call) { STRIPS(2); }
static __attribute__((noinline)) void narrow(const struct eyelet_igemm *call) { STRIPS(1); }

void eyelet_f32_igemm_14x32__avx512(const struct eyelet_igemm *call)
{
    if (call->nr > 16)
        wide(call);
    else
        narrow(call);
}
