/* f32 elementwise functions and arithmetic, NEON. */
#include "vector-neon.h"

#include "../elementwise-loops.h"

void eyelet_f32_map__neon(const struct eyelet_map *t) { elementwise_map(t); }
void eyelet_f32_binary__neon(const struct eyelet_binary *t) { elementwise_binary(t); }
