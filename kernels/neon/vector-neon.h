/* Vectors of NEON, for the bodies that all instruction sets share. `../vector.h` says what each name means. */
#include <arm_neon.h>
#include <stddef.h>

#include "../kernel.h"

enum { LANES = 4 };
typedef float32x4_t vec;
typedef int32x4_t ints;
typedef uint32x4_t mask;

EYELET_INLINE mask lanes_below(size_t n)
{
    const uint32_t at[LANES] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(at), vdupq_n_u32((uint32_t)n));
}
EYELET_INLINE vec load(const float *p) { return vld1q_f32(p); }
EYELET_INLINE void store(float *p, vec v) { vst1q_f32(p, v); }
/* In one instruction. */
#define EYELET_STEPS
EYELET_INLINE vec load_next(const float **p, size_t bytes)
{
    vec v;
    __asm__ volatile("ld1 {%0.4s}, [%1], %2" : "=w"(v), "+r"(*p) : "r"(bytes), "Q"(*(const float(*)[LANES])*p));
    return v;
}
EYELET_INLINE void store_next(float **p, vec v, size_t bytes)
{
    __asm__ volatile("st1 {%2.4s}, [%0], %3" : "+r"(*p), "=Q"(*(float(*)[LANES])*p) : "w"(v), "r"(bytes));
}
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
EYELET_INLINE vec first(vec v, size_t n, vec rest) { return vbslq_f32(lanes_below(n), v, rest); }

EYELET_INLINE vec all(float x) { return vdupq_n_f32(x); }
EYELET_INLINE vec add(vec a, vec b) { return vaddq_f32(a, b); }
EYELET_INLINE vec sub(vec a, vec b) { return vsubq_f32(a, b); }
EYELET_INLINE vec mul(vec a, vec b) { return vmulq_f32(a, b); }
EYELET_INLINE vec over(vec a, vec b) { return vdivq_f32(a, b); }
EYELET_INLINE vec root(vec a) { return vsqrtq_f32(a); }
EYELET_INLINE vec fused(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
EYELET_INLINE vec larger(vec a, vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
EYELET_INLINE vec smaller(vec a, vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
EYELET_INLINE vec largest(vec x, vec acc) { return vmaxq_f32(x, acc); }
EYELET_INLINE vec largest_of(vec x, vec y, vec acc) { return vmaxq_f32(y, vmaxq_f32(x, acc)); }

EYELET_INLINE mask less(vec a, vec b) { return vcltq_f32(a, b); }
EYELET_INLINE mask less_or_equal(vec a, vec b) { return vcleq_f32(a, b); }
EYELET_INLINE vec choose(mask m, vec yes, vec no) { return vbslq_f32(m, yes, no); }
EYELET_INLINE vec magnitude(vec v) { return vabsq_f32(v); }
EYELET_INLINE vec with_sign(vec v, vec sign) { return vbslq_f32(vdupq_n_u32(0x80000000u), sign, v); }

EYELET_INLINE vec lanes_from(vec v, int at) { return at == 2 ? vextq_f32(v, v, 2) : vextq_f32(v, v, 1); }
EYELET_INLINE float first_lane(vec v) { return vgetq_lane_f32(v, 0); }

EYELET_INLINE ints bits(vec v) { return vreinterpretq_s32_f32(v); }
EYELET_INLINE vec from_bits(ints i) { return vreinterpretq_f32_s32(i); }
EYELET_INLINE ints all_ints(int x) { return vdupq_n_s32(x); }
EYELET_INLINE ints add_ints(ints a, ints b) { return vaddq_s32(a, b); }
EYELET_INLINE ints sub_ints(ints a, ints b) { return vsubq_s32(a, b); }
EYELET_INLINE ints and_ints(ints a, ints b) { return vandq_s32(a, b); }
#define shift_left(i, n) vshlq_n_s32(i, n)
#define shift_right(i, n) vshrq_n_s32(i, n)
EYELET_INLINE vec to_float(ints i) { return vcvtq_f32_s32(i); }
