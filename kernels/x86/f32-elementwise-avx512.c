/* f32 elementwise functions and arithmetic, AVX-512. */
#include "vector-avx512.h"

#include "../elementwise-loops.h"

void eyelet_f32_map__avx512(const struct eyelet_map *t) { elementwise_map(t); }
void eyelet_f32_binary__avx512(const struct eyelet_binary *t) { elementwise_binary(t); }
