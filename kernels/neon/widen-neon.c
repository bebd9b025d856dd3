/* fp16, bf16 and int8 to f32, NEON: eight weights at a time. */
#include <arm_neon.h>

#include "../widen.h"

void eyelet_f16_widen__neon(const uint16_t *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i += 8) {
        const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(from + i));
        vst1q_f32(to + i, vcvt_f32_f16(vget_low_f16(halves)));
        vst1q_f32(to + i + 4, vcvt_high_f32_f16(halves));
    }
}

void eyelet_bf16_widen__neon(const uint16_t *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i += 8) {
        const uint16x8_t halves = vld1q_u16(from + i);
        vst1q_f32(to + i, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(halves), 16)));
        vst1q_f32(to + i + 4, vreinterpretq_f32_u32(vshll_high_n_u16(halves, 16)));
    }
}

void eyelet_i8_widen__neon(const struct eyelet_widen8 *t)
{
    const float32x4_t low = vld1q_f32(t->scale);
    const float32x4_t high = vld1q_f32(t->scale + 4);
    const int8x8_t zero = vld1_s8(t->zero);
    for (size_t row = 0; row < t->rows; row++) {
        const int16x8_t q = vsubl_s8(vld1_s8(t->from + row * t->width), zero);
        float *to = t->to + row * t->width;
        vst1q_f32(to, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(q))), low));
        vst1q_f32(to + 4, vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(q)), high));
    }
}
