/* Vectors of AVX2 with FMA, for the bodies that all instruction sets share. `../vector.h` says what each
 * name means. */
#include <immintrin.h>
#include <stddef.h>

#include "../kernel.h"

enum { LANES = 8 };
typedef __m256 vec;
typedef __m256i ints;
typedef __m256 mask;
typedef __m256i lanes; /* which of them are loaded or stored */

#define EYELET_FETCH(p, writes) __builtin_prefetch(p, writes, 3)

/* In lane l the number l. */
EYELET_INLINE ints lane_numbers(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
EYELET_INLINE lanes lanes_below(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane_numbers());
}
EYELET_INLINE vec load(const float *p) { return _mm256_loadu_ps(p); }
EYELET_INLINE void store(float *p, vec v) { _mm256_storeu_ps(p, v); }
EYELET_INLINE vec load_where(const float *p, lanes m) { return _mm256_maskload_ps(p, m); }
EYELET_INLINE void store_where(float *p, vec v, lanes m) { _mm256_maskstore_ps(p, m, v); }
EYELET_INLINE vec load_some(const float *p, size_t n) { return load_where(p, lanes_below(n)); }
EYELET_INLINE void store_some(float *p, vec v, size_t n) { store_where(p, v, lanes_below(n)); }
EYELET_INLINE vec first(vec v, size_t n, vec rest)
{
    return _mm256_blendv_ps(rest, v, _mm256_castsi256_ps(lanes_below(n)));
}

EYELET_INLINE vec all(float x) { return _mm256_set1_ps(x); }
EYELET_INLINE vec add(vec a, vec b) { return _mm256_add_ps(a, b); }
EYELET_INLINE vec sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
EYELET_INLINE vec mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
EYELET_INLINE vec over(vec a, vec b) { return _mm256_div_ps(a, b); }
EYELET_INLINE vec root(vec a) { return _mm256_sqrt_ps(a); }
EYELET_INLINE vec fused(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
EYELET_INLINE vec larger(vec a, vec b) { return _mm256_max_ps(a, b); }
EYELET_INLINE vec smaller(vec a, vec b) { return _mm256_min_ps(a, b); }
EYELET_INLINE vec largest_of(vec x, vec y, vec acc)
{
    /* Bits that are all ones are a NaN. */
    return _mm256_or_ps(_mm256_max_ps(y, _mm256_max_ps(x, acc)), _mm256_cmp_ps(x, y, _CMP_UNORD_Q));
}
EYELET_INLINE vec largest(vec x, vec acc)
{
    return _mm256_or_ps(_mm256_max_ps(x, acc), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

EYELET_INLINE mask less(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
EYELET_INLINE mask less_or_equal(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
EYELET_INLINE vec choose(mask m, vec yes, vec no) { return _mm256_blendv_ps(no, yes, m); }
EYELET_INLINE vec magnitude(vec v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
EYELET_INLINE vec with_sign(vec v, vec sign)
{
    return _mm256_or_ps(magnitude(v), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

EYELET_INLINE vec lanes_from(vec v, int at)
{
    return at == 4 ? _mm256_permute2f128_ps(v, v, 1)
           : at == 2 ? _mm256_permute_ps(v, 0x4e)
                     : _mm256_permute_ps(v, 0xb1);
}
EYELET_INLINE vec lanes_at(vec v, ints at) { return _mm256_permutevar8x32_ps(v, at); }
EYELET_INLINE float first_lane(vec v) { return _mm256_cvtss_f32(v); }

EYELET_INLINE ints bits(vec v) { return _mm256_castps_si256(v); }
EYELET_INLINE vec from_bits(ints i) { return _mm256_castsi256_ps(i); }
EYELET_INLINE ints all_ints(int x) { return _mm256_set1_epi32(x); }
EYELET_INLINE ints add_ints(ints a, ints b) { return _mm256_add_epi32(a, b); }
EYELET_INLINE ints sub_ints(ints a, ints b) { return _mm256_sub_epi32(a, b); }
EYELET_INLINE ints and_ints(ints a, ints b) { return _mm256_and_si256(a, b); }
#define shift_left(i, n) _mm256_slli_epi32(i, n)
#define shift_right(i, n) _mm256_srai_epi32(i, n)
EYELET_INLINE vec to_float(ints i) { return _mm256_cvtepi32_ps(i); }
