/* fp16 and bf16 to f32, AVX2 with F16C: sixteen weights at a time. */
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
