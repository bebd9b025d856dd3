/* f32 pooling, maximum and average, AVX-512: channels are the lanes. */
#include "vector-avx512.h"

#include "../pool-loops.h"

void eyelet_f32_pool__avx512(const struct eyelet_pool *t) { pool(t); }
