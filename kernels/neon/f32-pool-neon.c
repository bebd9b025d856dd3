/* f32 pooling, maximum and average, NEON: channels are the lanes. */
#include "vector-neon.h"

#include "../pool-loops.h"

void eyelet_f32_pool__neon(const struct eyelet_pool *t) { pool(t); }
