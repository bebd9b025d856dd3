/* fp16 and bf16 to f32, AVX-512 F: thirty-two weights at a time. */
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
