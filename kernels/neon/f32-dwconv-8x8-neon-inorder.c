/* f32 depthwise convolution, 8 pixels by 8 channels, NEON, for processors that do not reorder
 * instructions: each column is loaded while the one before it is multiplied, in the order of the text. */
#include "f32-dwconv-8x8-neon.h"

/* COLUMNS: how many columns have registers. */
enum { COLUMNS = 2 };

/* Statements that stay where they are. A load only reads. */
#define LOAD(v, p, half)                                                                               \
    __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(v) : "r"(p), "i"(16 * (half)))
#define MULTIPLY(acc, a, b) __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(acc) : "w"(a), "w"(b))

EYELET_INLINE const float *adjacent(float32x4_t acc[MR][2], const float *const *line, size_t offset,
                                    const float *w, const size_t n, const size_t taps,
                                    const size_t stride)
{
    float32x4_t v[5][2], x[COLUMNS][2];
    const size_t last = (n - 1) * stride + taps - 1;
    const float *at = line[0] + offset;
    const float *next = line[1] + offset;
    const float *const end = line[last] + offset;
    const ptrdiff_t step = line[2] - line[1];
#pragma GCC unroll 21
    for (size_t col = 0; col <= last + 1; col++) {
        /* The column before, and its multiplications by tap and half. */
        const size_t now = col - 1;
#pragma GCC unroll 10
        for (size_t m = 0; m < 2 * taps; m++) {
            const size_t kx = m / 2, half = m % 2;
            if (col < taps && m < 2)
                LOAD(v[col][half], w + col * NR, half);
            if (col <= last && m % 3 == 0 && m < 6)
                LOAD(x[col % COLUMNS][m / 3], at, m / 3);
            if (col != 0 && now >= kx && (now - kx) % stride == 0 && (now - kx) / stride < n) {
                const size_t i = (now - kx) / stride;
                MULTIPLY(acc[i][half], x[now % COLUMNS][half], v[kx][half]);
            }
        }
        if (taps == 5) {
            at = col < last ? line[col + 1] + offset : at;
        } else {
            at = col + 1 == last ? end : next;
            next += step;
        }
    }
    return w + taps * NR;
}

void eyelet_f32_dwconv_8x8__neon_inorder(const struct eyelet_dwconv *t) { dwconv(t); }
