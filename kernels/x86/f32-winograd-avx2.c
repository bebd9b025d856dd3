/* f32 Winograd transforms, F(2,3) and F(4,3), AVX2 with FMA: eight channels at a time. */
#include <immintrin.h>
#include <stddef.h>

#include "../kernel.h"

enum { LANES = 8 };
typedef __m256 vec;

EYELET_INLINE vec load(const float *p) { return _mm256_loadu_ps(p); }
EYELET_INLINE void store(float *p, vec v) { _mm256_storeu_ps(p, v); }
EYELET_INLINE __m256i lanes(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
EYELET_INLINE vec load_some(const float *p, size_t n) { return _mm256_maskload_ps(p, lanes(n)); }
EYELET_INLINE void store_some(float *p, vec v, size_t n) { _mm256_maskstore_ps(p, lanes(n), v); }
EYELET_INLINE vec add(vec a, vec b) { return _mm256_add_ps(a, b); }
EYELET_INLINE vec sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
EYELET_INLINE vec mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
EYELET_INLINE vec fused(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
EYELET_INLINE vec all(float x) { return _mm256_set1_ps(x); }
EYELET_INLINE vec larger(vec a, vec b) { return _mm256_max_ps(a, b); }
EYELET_INLINE vec smaller(vec a, vec b) { return _mm256_min_ps(a, b); }

#include "../winograd-transforms.h"

void eyelet_f32_winograd_input__avx2(const struct eyelet_winograd_input *t) { winograd_input(t); }
void eyelet_f32_winograd_output__avx2(const struct eyelet_winograd_output *t) { winograd_output(t); }
