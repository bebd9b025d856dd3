/* f32 Winograd transforms, F(2,3), F(4,3) and F(6,3), AVX2 with FMA: eight channels at a time. */
#include "vector-avx2.h"

#include "../winograd-transforms.h"

void eyelet_f32_winograd_input__avx2(const struct eyelet_winograd_input *t) { winograd_input(t); }
void eyelet_f32_winograd_output__avx2(const struct eyelet_winograd_output *t) { winograd_output(t); }
void eyelet_f32_winograd_weights__avx2(const struct eyelet_winograd_weights *t) { winograd_weights(t); }
