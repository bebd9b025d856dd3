/* f32 convolution in groups of 2 or 4 channels, up to 8 pixels by 8 channels at a time, NEON.
 *
 * A vector holds one group of four, whose channels are multiplied by lane, or two groups of two, whose
 * channels are first spread over their lanes. The channels of a short last panel go one by one.
 *
 * Registers: 16 accumulators, 8 vectors of all pixels' taps, up to 4 of weights. */
#include "../gconv.h"
#include "store-neon.h"

enum { MR = 8, NR = 8 };

/* `acc += b * a[lane]`, as its instruction: from the intrinsic gcc makes copies of accumulators. */
#define MULTIPLY(acc, b, a, lane)                                                                      \
    __asm__("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(acc) : "w"(b), "w"(a), "i"(lane))

/* `n` pixels from `p` on, 8 channels. */
EYELET_INLINE void tile(const struct eyelet_dwconv *t, const float *w, size_t channel, size_t p,
                        const size_t n, const size_t group)
{
    const size_t offset = t->offset + channel;
    float32x4_t acc[MR][2];
    const float32x4_t bias0 = vld1q_f32(w);
    const float32x4_t bias1 = vld1q_f32(w + 4);
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
    w += NR;

    const float *const *line = t->a + p * t->stride;
    for (size_t ky = t->tap_lines; ky != 0; ky--) {
        const float *const *tap = line;
        for (size_t kx = t->tap_cols; kx != 0; kx--) {
#pragma GCC unroll 2
            for (size_t v = 0; v < 2; v++) {
                float32x4_t x[MR];
#pragma GCC unroll 8
                for (size_t i = 0; i < n; i++)
                    x[i] = vld1q_f32(tap[i * t->stride] + offset + 4 * v);
#pragma GCC unroll 4
                for (size_t k = 0; k < group; k++) {
                    const float32x4_t b = vld1q_f32(w + k * NR + 4 * v);
#pragma GCC unroll 8
                    for (size_t i = 0; i < n; i++) {
                        if (group == 4) {
                            MULTIPLY(acc[i][v], b, x[i], k);
                        } else {
                            const float32x4_t y =
                                k == 0 ? vtrn1q_f32(x[i], x[i]) : vtrn2q_f32(x[i], x[i]);
                            acc[i][v] = vfmaq_f32(acc[i][v], y, b);
                        }
                    }
                }
            }
            w += group * NR;
            tap += t->col_pitch;
        }
        line += t->line_pitch;
    }

    const float *r = t->residual ? t->residual + p * t->residual_pitch + channel : NULL;
    add_rows(acc, n, r, t->residual_pitch);
    store_rows(acc, n, t->c + p * t->c_pitch + channel, t->c_pitch, t->min, t->max);
}

/* All pixels of one channel, the first lane of `w`. */
static void one(const struct eyelet_dwconv *t, const float *w, size_t channel)
{
    const size_t first = t->offset + channel - channel % t->group;
    for (size_t p = 0; p < t->pixels; p++) {
        const float *v = w;
        float sum = *v;
        for (size_t ky = 0; ky < t->tap_lines; ky++) {
            const float *const *tap = t->a + p * t->stride + ky * t->line_pitch;
            for (size_t kx = 0; kx < t->tap_cols; kx++) {
                for (size_t k = 0; k < t->group; k++) {
                    v += NR;
                    sum = __builtin_fmaf(tap[kx * t->col_pitch][first + k], *v, sum);
                }
            }
        }
        if (t->residual)
            sum = sum + t->residual[p * t->residual_pitch + channel];
        sum = t->min > sum ? t->min : sum;
        sum = t->max < sum ? t->max : sum;
        t->c[p * t->c_pitch + channel] = sum;
    }
}

#define GROUP_CASE(n)                                                                                  \
    case n:                                                                                            \
        if (t->group == 4)                                                                             \
            tile(t, w, channel, p, n, 4);                                                              \
        else                                                                                           \
            tile(t, w, channel, p, n, 2);                                                              \
        break;

void eyelet_f32_gconv_8x8__neon(const struct eyelet_dwconv *t)
{
    const float *w = t->panels;
    size_t channel = 0;
    for (; channel + NR <= t->channels; channel += NR) {
        for (size_t p = 0; p < t->pixels; p += MR) {
            const size_t n = t->pixels - p;
            switch (n < MR ? n : MR) {
                GROUP_CASE(1)
                GROUP_CASE(2)
                GROUP_CASE(3)
                GROUP_CASE(4)
                GROUP_CASE(5)
                GROUP_CASE(6)
                GROUP_CASE(7)
                GROUP_CASE(8)
            }
        }
        w += (1 + t->tap_lines * t->tap_cols * t->group) * NR;
    }
    for (; channel < t->channels; channel++)
        one(t, w++, channel);
}
