/* f32 elementwise functions and arithmetic, AVX2 with FMA. */
#include "vector-avx2.h"

#include "../elementwise-loops.h"

void eyelet_f32_map__avx2(const struct eyelet_map *t) { elementwise_map(t); }
void eyelet_f32_binary__avx2(const struct eyelet_binary *t) { elementwise_binary(t); }
