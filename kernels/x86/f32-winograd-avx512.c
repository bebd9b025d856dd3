/* f32 Winograd transforms, F(2,3) and F(4,3), AVX-512: sixteen channels at a time. */
#include <immintrin.h>
#include <stddef.h>

#include "../kernel.h"

enum { LANES = 16 };
typedef __m512 vec;

EYELET_INLINE vec load(const float *p) { return _mm512_loadu_ps(p); }
EYELET_INLINE void store(float *p, vec v) { _mm512_storeu_ps(p, v); }
EYELET_INLINE __mmask16 lanes(size_t n) { return (__mmask16)((1u << n) - 1); }
EYELET_INLINE vec load_some(const float *p, size_t n) { return _mm512_maskz_loadu_ps(lanes(n), p); }
EYELET_INLINE void store_some(float *p, vec v, size_t n) { _mm512_mask_storeu_ps(p, lanes(n), v); }
EYELET_INLINE vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
EYELET_INLINE vec sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
EYELET_INLINE vec mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
EYELET_INLINE vec fused(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
EYELET_INLINE vec all(float x) { return _mm512_set1_ps(x); }
EYELET_INLINE vec larger(vec a, vec b) { return _mm512_max_ps(a, b); }
EYELET_INLINE vec smaller(vec a, vec b) { return _mm512_min_ps(a, b); }

#include "../winograd-transforms.h"

void eyelet_f32_winograd_input__avx512(const struct eyelet_winograd_input *t) { winograd_input(t); }
void eyelet_f32_winograd_output__avx512(const struct eyelet_winograd_output *t) { winograd_output(t); }
