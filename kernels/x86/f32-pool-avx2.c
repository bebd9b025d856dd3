/* f32 pooling, maximum and average, AVX2 with FMA: channels are the lanes. */
#include "vector-avx2.h"

#include "../pool-loops.h"

void eyelet_f32_pool__avx2(const struct eyelet_pool *t) { pool(t); }
