/* f32 implicit GEMM, 14 pixels by 32 channels, AVX-512 F.
 *
 * Registers: 28 accumulators (14 rows of two vectors), two vectors of the panel, two for the
 * broadcasts. A broadcast is a separate instruction: embedded ones would be loaded twice per k and
 * bind the loop to the load ports. Panels of up to 16 channels have a body with one vector a row,
 * and those that hold fewer channels than there is room for bodies that step from k to k by as many.
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

EYELET_INLINE void tile(const struct eyelet_igemm *t, const size_t mr, const size_t vectors, const size_t whole)
{
    const size_t width = whole ? NR : t->width;
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
                w += width;
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
            w += width;
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

#define CASE(n) EYELET_STRIPS_CASE(n, vectors, whole)
EYELET_INLINE void strips(const struct eyelet_igemm *call, const size_t vectors, const size_t whole)
{
    EYELET_STRIPS(call,
                  CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
                  CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14));
}

static __attribute__((noinline)) void two(const struct eyelet_igemm *call) { strips(call, 2, 1); }
static __attribute__((noinline)) void one(const struct eyelet_igemm *call) { strips(call, 1, 1); }
static __attribute__((noinline)) void two_of_fewer(const struct eyelet_igemm *call) { strips(call, 2, 0); }
static __attribute__((noinline)) void one_of_fewer(const struct eyelet_igemm *call) { strips(call, 1, 0); }

void eyelet_f32_igemm_14x32__avx512(const struct eyelet_igemm *call)
{
    const int whole = call->width == NR;
    if (call->nr > 16)
        (whole ? two : two_of_fewer)(call);
    else
        (whole ? one : one_of_fewer)(call);
}
