/* f32 implicit GEMM, 6 pixels by 16 channels, AVX2 and FMA.
 *
 * Registers: 12 accumulators (6 rows of two vectors), two vectors of the panel, two for the
 * broadcasts. */
#include "../igemm.h"
#include <immintrin.h>

enum { MR = 6, NR = 16 };

/* A mask of the first `n` of eight lanes. */
EYELET_INLINE __m256i lanes(size_t n)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), index);
}

/* Adds to a sum in the register where it is. Compilers choose among three forms of the instruction, and the other two write
 * to a factor's register: sums then move, and of 16 registers some end up on the stack, in the middle of their chains. */
EYELET_INLINE void add_product(__m256 *sum, __m256 a, __m256 b)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
}

EYELET_INLINE void tile(const struct eyelet_igemm *t, const size_t mr, const size_t whole)
{
    const size_t width = whole ? NR : t->width;
    __m256 acc[MR][2];
    const float *w = t->bias;
#pragma GCC unroll 6
    for (size_t i = 0; i < mr; i++) {
        acc[i][0] = _mm256_loadu_ps(w);
        acc[i][1] = _mm256_loadu_ps(w + 8);
        w += t->bias_pitch;
    }
    w = t->panel;

    const char *next = t->next;
    const size_t step = t->next_step;
    const float *const *a = t->a;
    const size_t len = t->seg_len;
    for (size_t s = t->segments; s != 0; s--) {
        const float *row[MR];
#pragma GCC unroll 6
        for (size_t i = 0; i < mr; i++)
            row[i] = a[i] + t->offset;
        a += mr;

        size_t k = 0;
        for (; k + 4 <= len; k += 4) {
#pragma GCC unroll 4
            for (size_t u = 0; u < 4; u++) {
                EYELET_KEEP(next);
                _mm_prefetch(next, _MM_HINT_T1);
                next += step;
                const __m256 b0 = _mm256_loadu_ps(w);
                const __m256 b1 = _mm256_loadu_ps(w + 8);
                w += width;
#pragma GCC unroll 6
                for (size_t i = 0; i < mr; i++) {
                    const __m256 x = _mm256_broadcast_ss(row[i] + k + u);
                    add_product(&acc[i][0], x, b0);
                    add_product(&acc[i][1], x, b1);
                }
            }
        }
        for (; k < len; k++) {
            _mm_prefetch(next, _MM_HINT_T1);
            next += step;
            const __m256 b0 = _mm256_loadu_ps(w);
            const __m256 b1 = _mm256_loadu_ps(w + 8);
            w += width;
#pragma GCC unroll 6
            for (size_t i = 0; i < mr; i++) {
                const __m256 x = _mm256_broadcast_ss(row[i] + k);
                add_product(&acc[i][0], x, b0);
                add_product(&acc[i][1], x, b1);
            }
        }
    }

    const size_t nr = t->nr;
    const __m256i m0 = lanes(nr);
    const __m256i m1 = lanes(nr > 8 ? nr - 8 : 0);
    const __m256 min = _mm256_set1_ps(t->min);
    const __m256 max = _mm256_set1_ps(t->max);
    const float *r = t->residual;
    float *c = t->c;
#pragma GCC unroll 6
    for (size_t i = 0; i < mr; i++) {
        __m256 v0 = acc[i][0];
        __m256 v1 = acc[i][1];
        if (nr >= NR) {
            if (r) {
                v0 = _mm256_add_ps(v0, _mm256_loadu_ps(r));
                v1 = _mm256_add_ps(v1, _mm256_loadu_ps(r + 8));
                r += t->residual_pitch;
            }
            _mm256_storeu_ps(c, _mm256_min_ps(max, _mm256_max_ps(min, v0)));
            _mm256_storeu_ps(c + 8, _mm256_min_ps(max, _mm256_max_ps(min, v1)));
        } else {
            if (r) {
                v0 = _mm256_add_ps(v0, _mm256_maskload_ps(r, m0));
                v1 = _mm256_add_ps(v1, _mm256_maskload_ps(r + 8, m1));
                r += t->residual_pitch;
            }
            _mm256_maskstore_ps(c, m0, _mm256_min_ps(max, _mm256_max_ps(min, v0)));
            _mm256_maskstore_ps(c + 8, m1, _mm256_min_ps(max, _mm256_max_ps(min, v1)));
        }
        c += t->c_pitch;
    }
}

#define CASE(n) EYELET_STRIPS_CASE(n, whole)
EYELET_INLINE void strips(const struct eyelet_igemm *call, const size_t whole)
{
    EYELET_STRIPS(call, CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6));
}

static __attribute__((noinline)) void all(const struct eyelet_igemm *call) { strips(call, 1); }
static __attribute__((noinline)) void fewer(const struct eyelet_igemm *call) { strips(call, 0); }

void eyelet_f32_igemm_6x16__avx2(const struct eyelet_igemm *call)
{
    /* Panels that hold fewer channels than there is room for have bodies that step from k to k by as many. */
    if (call->width == NR)
        all(call);
    else
        fewer(call);
}
