/* f32 Winograd transforms, F(2,3), F(4,3) and F(6,3), AVX-512: sixteen channels at a time. */
#include "vector-avx512.h"

#include "../winograd-transforms.h"

void eyelet_f32_winograd_input__avx512(const struct eyelet_winograd_input *t) { winograd_input(t); }
void eyelet_f32_winograd_output__avx512(const struct eyelet_winograd_output *t) { winograd_output(t); }
void eyelet_f32_winograd_weights__avx512(const struct eyelet_winograd_weights *t) { winograd_weights(t); }
