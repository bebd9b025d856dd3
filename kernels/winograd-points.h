/* Winograd's transforms in one dimension, for whichever vectors the including source defines (`vector.h`).
 *
 * Points of F(2,3): 0, 1, -1, infinity. Points of F(4,3): 0, +-A, +-B, infinity with A = 3/4, B = 3/2, which
 * loses a third of what the usual 1 and 2 lose; all constants are exact. `kernels/portable/winograd.rs` is
 * the same arithmetic, operation by operation.
 *
 * A tile at the edge of a map may have only r outputs, fewer than m. These take r + 2 points, the same ones less -B, then
 * B, then 0 (or 0 of F(2,3)), so that filters serve as they are: their values at the points are divided by the
 * distances to all others, those left out too, and the input's transform, which has factors left out, multiplies by the
 * distances to these. Frequencies of points left out are neither written nor read. */
#ifndef EYELET_WINOGRAD_POINTS_H
#define EYELET_WINOGRAD_POINTS_H

#include "vector.h"

#define EYELET_A 0.75f
#define EYELET_B 1.5f
#define EYELET_AA (EYELET_A * EYELET_A)
#define EYELET_BB (EYELET_B * EYELET_B)

/* The frequencies of r outputs, as bits. */
EYELET_INLINE unsigned kept_2(size_t r) { return r == 2 ? 0xf : 0xe; }
EYELET_INLINE unsigned kept_4(size_t r) { return r == 4 ? 0x3f : r == 3 ? 0x2f : r == 2 ? 0x27 : 0x26; }

/* Of r + 2 inputs. */
EYELET_INLINE void input_1d_2(size_t r, const vec d[4], vec v[4])
{
    if (r == 2) {
        v[0] = sub(d[2], d[0]);
        v[1] = add(d[1], d[2]);
        v[2] = sub(d[2], d[1]);
        v[3] = sub(d[3], d[1]);
    } else {
        v[1] = add(d[0], d[1]);
        v[2] = sub(d[0], d[1]);
        v[3] = sub(d[2], d[0]);
    }
}

/* To r outputs. */
EYELET_INLINE void output_1d_2(size_t r, const vec x[4], vec y[2])
{
    if (r == 2) {
        y[0] = add(x[0], add(x[1], x[2]));
        y[1] = add(x[3], sub(x[1], x[2]));
    } else {
        y[0] = add(x[3], add(x[1], x[2]));
    }
}

EYELET_INLINE void input_1d_4(size_t r, const vec d[6], vec v[6])
{
    if (r == 4) {
        const vec even_a = fused(all(-EYELET_BB), d[2], d[4]);
        const vec odd_a = fused(all(-EYELET_BB), d[1], d[3]);
        const vec even_b = fused(all(-EYELET_AA), d[2], d[4]);
        const vec odd_b = fused(all(-EYELET_AA), d[1], d[3]);
        v[0] = fused(all(EYELET_AA * EYELET_BB), d[0], fused(all(-(EYELET_AA + EYELET_BB)), d[2], d[4]));
        v[1] = fused(all(EYELET_A), odd_a, even_a);
        v[2] = fused(all(-EYELET_A), odd_a, even_a);
        v[3] = fused(all(EYELET_B), odd_b, even_b);
        v[4] = fused(all(-EYELET_B), odd_b, even_b);
        v[5] = fused(all(EYELET_AA * EYELET_BB), d[1], fused(all(-(EYELET_AA + EYELET_BB)), d[3], d[5]));
    } else if (r == 3) {
        const vec even = fused(all(-EYELET_AA), d[0], d[2]);
        const vec odd = fused(all(-EYELET_AA), d[1], d[3]);
        const vec low = fused(all(-EYELET_B), d[1], d[2]);
        const vec high = fused(all(-EYELET_B), d[2], d[3]);
        v[0] = fused(all(-EYELET_BB), even, mul(all(EYELET_B), odd));
        v[1] = mul(all(EYELET_B + EYELET_A), fused(all(EYELET_A), low, high));
        v[2] = mul(all(EYELET_B - EYELET_A), fused(all(-EYELET_A), low, high));
        v[3] = mul(all(2.0f * EYELET_B), odd);
        v[5] = fused(all(-EYELET_B), odd, fused(all(-EYELET_AA), d[2], d[4]));
    } else if (r == 2) {
        v[0] = mul(all(-EYELET_BB), fused(all(-EYELET_AA), d[0], d[2]));
        v[1] = mul(all(EYELET_AA - EYELET_BB), fused(all(EYELET_A), d[1], d[2]));
        v[2] = mul(all(EYELET_AA - EYELET_BB), fused(all(-EYELET_A), d[1], d[2]));
        v[5] = fused(all(-EYELET_AA), d[1], d[3]);
    } else {
        v[1] = mul(all(EYELET_A * (EYELET_AA - EYELET_BB)), fused(all(EYELET_A), d[0], d[1]));
        v[2] = mul(all(EYELET_A * (EYELET_BB - EYELET_AA)), fused(all(-EYELET_A), d[0], d[1]));
        v[5] = fused(all(-EYELET_AA), d[0], d[2]);
    }
}

EYELET_INLINE void output_1d_4(size_t r, const vec x[6], vec y[4])
{
    const vec sum_a = add(x[1], x[2]);
    const vec diff_a = sub(x[1], x[2]);
    if (r == 4) {
        const vec sum_b = add(x[3], x[4]);
        const vec diff_b = sub(x[3], x[4]);
        y[0] = add(x[0], add(sum_a, sum_b));
        y[1] = fused(all(EYELET_B), diff_b, mul(all(EYELET_A), diff_a));
        y[2] = fused(all(EYELET_BB), sum_b, mul(all(EYELET_AA), sum_a));
        y[3] = fused(all(EYELET_BB * EYELET_B), diff_b, fused(all(EYELET_AA * EYELET_A), diff_a, x[5]));
    } else if (r == 3) {
        y[0] = add(x[0], add(sum_a, x[3]));
        y[1] = fused(all(EYELET_B), x[3], mul(all(EYELET_A), diff_a));
        y[2] = fused(all(EYELET_BB), x[3], fused(all(EYELET_AA), sum_a, x[5]));
    } else if (r == 2) {
        y[0] = add(x[0], sum_a);
        y[1] = fused(all(EYELET_A), diff_a, x[5]);
    } else {
        y[0] = add(sum_a, x[5]);
    }
}

/* A filter at each point, over the product of the point's distances to the others, which is rounded. */
EYELET_INLINE void weights_1d_2(const vec g[3], vec v[4])
{
    const vec even = add(g[0], g[2]);
    v[0] = sub(all(0.0f), g[0]);
    v[1] = mul(all(0.5f), add(even, g[1]));
    v[2] = mul(all(0.5f), sub(even, g[1]));
    v[3] = g[2];
}

EYELET_INLINE void weights_1d_4(const vec g[3], vec v[6])
{
    const vec even_a = fused(all(EYELET_AA), g[2], g[0]);
    const vec even_b = fused(all(EYELET_BB), g[2], g[0]);
    const vec over_0 = all(1.0f / (EYELET_AA * EYELET_BB));
    const vec over_a = all(1.0f / (2.0f * EYELET_AA * (EYELET_AA - EYELET_BB)));
    const vec over_b = all(1.0f / (2.0f * EYELET_BB * (EYELET_BB - EYELET_AA)));
    v[0] = mul(over_0, g[0]);
    v[1] = mul(over_a, fused(all(EYELET_A), g[1], even_a));
    v[2] = mul(over_a, fused(all(-EYELET_A), g[1], even_a));
    v[3] = mul(over_b, fused(all(EYELET_B), g[1], even_b));
    v[4] = mul(over_b, fused(all(-EYELET_B), g[1], even_b));
    v[5] = g[2];
}

#endif
