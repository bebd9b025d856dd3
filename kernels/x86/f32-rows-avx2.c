/* f32 reductions of rows, softmax, and the power of local response normalisation, AVX2 with FMA. */
#include "vector-avx2.h"

#include "../rows-loops.h"

float eyelet_f32_sum__avx2(const float *x, size_t n) { return row_sum(x, n); }
float eyelet_f32_max__avx2(const float *x, size_t n) { return row_max(x, n); }
float eyelet_f32_square_differences__avx2(const float *x, size_t n, float mean)
{
    return row_square_differences(x, n, mean);
}
void eyelet_f32_softmax__avx2(const float *x, float *out, size_t n) { row_softmax(x, out, n); }
void eyelet_f32_standardise__avx2(const struct eyelet_standardise *t) { row_standardise(t); }
void eyelet_f32_lrn__avx2(const struct eyelet_lrn *t) { row_lrn(t); }
