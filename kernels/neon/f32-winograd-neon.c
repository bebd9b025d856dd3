/* f32 Winograd transforms, F(2,3) and F(4,3), NEON: four channels at a time. */
#include <arm_neon.h>
#include <stddef.h>

#include "../kernel.h"

enum { LANES = 4 };
typedef float32x4_t vec;

EYELET_INLINE vec load(const float *p) { return vld1q_f32(p); }
EYELET_INLINE void store(float *p, vec v) { vst1q_f32(p, v); }
EYELET_INLINE vec load_some(const float *p, size_t n)
{
    float full[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        full[i] = p[i];
    return vld1q_f32(full);
}
EYELET_INLINE void store_some(float *p, vec v, size_t n)
{
    float full[LANES];
    vst1q_f32(full, v);
    for (size_t i = 0; i < n; i++)
        p[i] = full[i];
}
EYELET_INLINE vec add(vec a, vec b) { return vaddq_f32(a, b); }
EYELET_INLINE vec sub(vec a, vec b) { return vsubq_f32(a, b); }
EYELET_INLINE vec mul(vec a, vec b) { return vmulq_f32(a, b); }
EYELET_INLINE vec fused(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
EYELET_INLINE vec all(float x) { return vdupq_n_f32(x); }
EYELET_INLINE vec larger(vec a, vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
EYELET_INLINE vec smaller(vec a, vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }

#include "../winograd-transforms.h"

void eyelet_f32_winograd_input__neon(const struct eyelet_winograd_input *t) { winograd_input(t); }
void eyelet_f32_winograd_output__neon(const struct eyelet_winograd_output *t) { winograd_output(t); }
