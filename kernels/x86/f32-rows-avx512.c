/* f32 reductions of rows, softmax, and the power of local response normalisation, AVX-512. */
#include "vector-avx512.h"

#include "../rows-loops.h"

float eyelet_f32_sum__avx512(const float *x, size_t n) { return row_sum(x, n); }
float eyelet_f32_max__avx512(const float *x, size_t n) { return row_max(x, n); }
float eyelet_f32_square_differences__avx512(const float *x, size_t n, float mean)
{
    return row_square_differences(x, n, mean);
}
void eyelet_f32_softmax__avx512(const float *x, float *out, size_t n) { row_softmax(x, out, n); }
void eyelet_f32_standardise__avx512(const struct eyelet_standardise *t) { row_standardise(t); }
void eyelet_f32_lrn__avx512(const struct eyelet_lrn *t) { row_lrn(t); }
