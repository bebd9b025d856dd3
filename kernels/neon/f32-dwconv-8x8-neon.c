/* f32 depthwise convolution, 8 pixels by 8 channels, NEON, for processors that reorder instructions: of three
 * taps a column is one instruction, with the step to the next. */
#include "f32-dwconv-8x8-neon.h"

/* `acc += a * b`, as its instruction: from the intrinsic gcc makes copies of accumulators. */
#define MULTIPLY(acc, a, b) __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(acc) : "w"(a), "w"(b))

EYELET_INLINE const float *adjacent(float32x4_t acc[MR][2], const float *const *line, size_t offset,
                                    const float *w, const size_t n, const size_t taps,
                                    const size_t stride)
{
    float32x4_t v[5][2];
    const size_t last = (n - 1) * stride + taps - 1;
    const float *x = line[1] + offset;
    const ptrdiff_t step = (const char *)line[2] - (const char *)line[1];
#pragma GCC unroll 20
    for (size_t col = 0; col <= last; col++) {
        if (col < taps)
            load_next_eight(&w, &v[col][0], &v[col][1]);
        /* Two registers that follow each other, as `ld1` wants them. */
        register float32x4_t x0 __asm__("v30");
        register float32x4_t x1 __asm__("v31");
        if (taps == 5 || col == 0 || col == last)
            __asm__ volatile("ldp %q0, %q1, [%2]" : "=w"(x0), "=w"(x1) : "r"(line[col] + offset));
        else
            __asm__ volatile("ld1 {v30.4s, v31.4s}, [%2], %3"
                             : "=w"(x0), "=w"(x1), "+r"(x)
                             : "r"(step));
#pragma GCC unroll 5
        for (size_t kx = 0; kx < taps; kx++) {
            if (col >= kx && (col - kx) % stride == 0 && (col - kx) / stride < n) {
                const size_t i = (col - kx) / stride;
                MULTIPLY(acc[i][0], x0, v[kx][0]);
                MULTIPLY(acc[i][1], x1, v[kx][1]);
            }
        }
    }
    return w;
}

void eyelet_f32_dwconv_8x8__neon(const struct eyelet_dwconv *t) { dwconv(t); }
