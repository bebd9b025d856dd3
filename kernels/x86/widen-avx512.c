/* fp16, bf16 and int8 to f32, AVX-512 F: thirty-two weights at a time. */
#include <immintrin.h>

#include "../widen.h"

EYELET_INLINE __m512 f16(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

void eyelet_f16_widen__avx512(const uint16_t *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i += 32) {
        _mm512_storeu_ps(to + i, f16(from + i));
        _mm512_storeu_ps(to + i + 16, f16(from + i + 16));
    }
}

EYELET_INLINE __m512 bf16(const uint16_t *from)
{
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}

void eyelet_bf16_widen__avx512(const uint16_t *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i += 32) {
        _mm512_storeu_ps(to + i, bf16(from + i));
        _mm512_storeu_ps(to + i + 16, bf16(from + i + 16));
    }
}

EYELET_INLINE __m512i i8(const int8_t *from)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
}

void eyelet_i8_widen__avx512(const struct eyelet_widen8 *t)
{
    const __m512 scale[2] = {_mm512_loadu_ps(t->scale), _mm512_loadu_ps(t->scale + 16)};
    const __m512i zero[2] = {i8(t->zero), i8(t->zero + 16)};
    for (size_t row = 0; row < t->rows; row++) {
        const int8_t *from = t->from + row * t->width;
        float *to = t->to + row * t->width;
        for (int half = 0; half < 2; half++) {
            const __m512 q = _mm512_cvtepi32_ps(_mm512_sub_epi32(i8(from + 16 * half), zero[half]));
            _mm512_storeu_ps(to + 16 * half, _mm512_mul_ps(q, scale[half]));
        }
    }
}
