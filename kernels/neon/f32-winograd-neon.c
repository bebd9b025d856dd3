/* f32 Winograd transforms, F(2,3), F(4,3) and F(6,3), NEON: four channels at a time. */
#include "vector-neon.h"

#include "../winograd-transforms.h"

void eyelet_f32_winograd_input__neon(const struct eyelet_winograd_input *t) { winograd_input(t); }
void eyelet_f32_winograd_output__neon(const struct eyelet_winograd_output *t) { winograd_output(t); }
void eyelet_f32_winograd_weights__neon(const struct eyelet_winograd_weights *t) { winograd_weights(t); }
