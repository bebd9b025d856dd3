/* Vectors of AVX-512 F, for the bodies that all instruction sets share. `../vector.h` says what each name
 * means. */
#include <immintrin.h>
#include <stddef.h>

#include "../kernel.h"

enum { LANES = 16 };
typedef __m512 vec;
typedef __m512i ints;
typedef __mmask16 mask;
typedef __mmask16 lanes; /* which of them are loaded or stored */

#define EYELET_FETCH(p, writes) __builtin_prefetch(p, writes, 3)

/* In lane l the number l. */
EYELET_INLINE ints lane_numbers(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
EYELET_INLINE lanes lanes_below(size_t n) { return (lanes)((1u << n) - 1); }
EYELET_INLINE vec load(const float *p) { return _mm512_loadu_ps(p); }
EYELET_INLINE void store(float *p, vec v) { _mm512_storeu_ps(p, v); }
EYELET_INLINE vec load_where(const float *p, lanes m) { return _mm512_maskz_loadu_ps(m, p); }
EYELET_INLINE void store_where(float *p, vec v, lanes m) { _mm512_mask_storeu_ps(p, m, v); }
EYELET_INLINE vec load_some(const float *p, size_t n) { return load_where(p, lanes_below(n)); }
EYELET_INLINE void store_some(float *p, vec v, size_t n) { store_where(p, v, lanes_below(n)); }
EYELET_INLINE vec first(vec v, size_t n, vec rest) { return _mm512_mask_mov_ps(rest, lanes_below(n), v); }

EYELET_INLINE vec all(float x) { return _mm512_set1_ps(x); }
EYELET_INLINE vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
EYELET_INLINE vec sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
EYELET_INLINE vec mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
EYELET_INLINE vec over(vec a, vec b) { return _mm512_div_ps(a, b); }
EYELET_INLINE vec root(vec a) { return _mm512_sqrt_ps(a); }
EYELET_INLINE vec fused(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
EYELET_INLINE vec larger(vec a, vec b) { return _mm512_max_ps(a, b); }
EYELET_INLINE vec smaller(vec a, vec b) { return _mm512_min_ps(a, b); }
EYELET_INLINE vec largest_of(vec x, vec y, vec acc)
{
    /* Bits that are all ones are a NaN. */
    const __m512i v = _mm512_castps_si512(_mm512_max_ps(y, _mm512_max_ps(x, acc)));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q);
    return _mm512_castsi512_ps(_mm512_mask_ternarylogic_epi32(v, nan, v, v, 0xff));
}
EYELET_INLINE vec largest(vec x, vec acc)
{
    return _mm512_mask_max_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x, acc);
}

EYELET_INLINE mask less(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
EYELET_INLINE mask less_or_equal(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
EYELET_INLINE vec choose(mask m, vec yes, vec no) { return _mm512_mask_mov_ps(no, m, yes); }
EYELET_INLINE vec magnitude(vec v) { return _mm512_abs_ps(v); }
EYELET_INLINE vec with_sign(vec v, vec sign)
{
    /* Bit by bit, the sign where the mask has a 1, the value elsewhere. */
    const __m512i at = _mm512_set1_epi32((int)0x80000000u);
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(at, _mm512_castps_si512(sign), _mm512_castps_si512(v), 0xca));
}

EYELET_INLINE vec lanes_from(vec v, int at)
{
    return at == 8   ? _mm512_shuffle_f32x4(v, v, 0x4e)
           : at == 4 ? _mm512_shuffle_f32x4(v, v, 0xb1)
           : at == 2 ? _mm512_permute_ps(v, 0x4e)
                     : _mm512_permute_ps(v, 0xb1);
}
EYELET_INLINE vec lanes_at(vec v, ints at) { return _mm512_permutexvar_ps(at, v); }
EYELET_INLINE float first_lane(vec v) { return _mm512_cvtss_f32(v); }

EYELET_INLINE ints bits(vec v) { return _mm512_castps_si512(v); }
EYELET_INLINE vec from_bits(ints i) { return _mm512_castsi512_ps(i); }
EYELET_INLINE ints all_ints(int x) { return _mm512_set1_epi32(x); }
EYELET_INLINE ints add_ints(ints a, ints b) { return _mm512_add_epi32(a, b); }
EYELET_INLINE ints sub_ints(ints a, ints b) { return _mm512_sub_epi32(a, b); }
EYELET_INLINE ints and_ints(ints a, ints b) { return _mm512_and_si512(a, b); }
#define shift_left(i, n) _mm512_slli_epi32(i, n)
#define shift_right(i, n) _mm512_srai_epi32(i, n)
EYELET_INLINE vec to_float(ints i) { return _mm512_cvtepi32_ps(i); }
/* v * 2^n for whole n, rounded once. */
#define EYELET_TIMES_POWER(v, n) _mm512_scalef_ps(v, n)
