/* fp16, bf16 and int8 to f32, AVX2 with F16C: sixteen weights at a time. */
#include <immintrin.h>

#include "../widen.h"

void eyelet_f16_widen__avx2(const uint16_t *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i += 16) {
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
        _mm256_storeu_ps(to + i + 8, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i + 8))));
    }
}

EYELET_INLINE __m256 bf16(const uint16_t *from)
{
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}

void eyelet_bf16_widen__avx2(const uint16_t *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i += 16) {
        _mm256_storeu_ps(to + i, bf16(from + i));
        _mm256_storeu_ps(to + i + 8, bf16(from + i + 8));
    }
}

EYELET_INLINE __m256i i8(const int8_t *from)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
}

void eyelet_i8_widen__avx2(const struct eyelet_widen8 *t)
{
    const __m256 scale[2] = {_mm256_loadu_ps(t->scale), _mm256_loadu_ps(t->scale + 8)};
    const __m256i zero[2] = {i8(t->zero), i8(t->zero + 8)};
    for (size_t row = 0; row < t->rows; row++) {
        const int8_t *from = t->from + row * t->width;
        float *to = t->to + row * t->width;
        for (int half = 0; half < 2; half++) {
            const __m256 q = _mm256_cvtepi32_ps(_mm256_sub_epi32(i8(from + 8 * half), zero[half]));
            _mm256_storeu_ps(to + 8 * half, _mm256_mul_ps(q, scale[half]));
        }
    }
}
