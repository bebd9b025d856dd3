/* Winograd's transforms in one dimension, for whichever vectors the including source defines (`vector.h`).
 *
 * Points of F(2,3): 0, 1, -1, infinity. Points of F(4,3): 0, +-A, +-B, infinity with A = 3/4, B = 3/2, which
 * loses a third of what the usual 1 and 2 lose. Points of F(6,3): 0, +-1/2, +-1, +-2, infinity, the usual
 * ones, and the best of all triples in steps of an eighth. All constants are exact. `kernels/portable/winograd.rs` is
 * the same arithmetic, operation by operation. */
#ifndef EYELET_WINOGRAD_POINTS_H
#define EYELET_WINOGRAD_POINTS_H

#include "vector.h"

#define EYELET_A 0.75f
#define EYELET_B 1.5f
#define EYELET_AA (EYELET_A * EYELET_A)
#define EYELET_BB (EYELET_B * EYELET_B)

EYELET_INLINE void input_1d_2(const vec d[4], vec v[4])
{
    v[0] = sub(d[2], d[0]);
    v[1] = add(d[1], d[2]);
    v[2] = sub(d[2], d[1]);
    v[3] = sub(d[3], d[1]);
}

EYELET_INLINE void output_1d_2(const vec x[4], vec y[2])
{
    y[0] = add(x[0], add(x[1], x[2]));
    y[1] = add(x[3], sub(x[1], x[2]));
}

EYELET_INLINE void input_1d_4(const vec d[6], vec v[6])
{
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
}

EYELET_INLINE void output_1d_4(const vec x[6], vec y[4])
{
    const vec sum_a = add(x[1], x[2]);
    const vec diff_a = sub(x[1], x[2]);
    const vec sum_b = add(x[3], x[4]);
    const vec diff_b = sub(x[3], x[4]);
    y[0] = add(x[0], add(sum_a, sum_b));
    y[1] = fused(all(EYELET_B), diff_b, mul(all(EYELET_A), diff_a));
    y[2] = fused(all(EYELET_BB), sum_b, mul(all(EYELET_AA), sum_a));
    y[3] = fused(all(EYELET_BB * EYELET_B), diff_b, fused(all(EYELET_AA * EYELET_A), diff_a, x[5]));
}

EYELET_INLINE void input_1d_6(const vec d[8], vec v[8])
{
    const vec even_half = fused(all(4.0f), d[2], fused(all(-5.0f), d[4], d[6]));
    const vec odd_half = fused(all(4.0f), d[1], fused(all(-5.0f), d[3], d[5]));
    const vec even_1 = fused(all(-4.25f), d[4], add(d[2], d[6]));
    const vec odd_1 = fused(all(-4.25f), d[3], add(d[1], d[5]));
    const vec even_2 = fused(all(0.25f), d[2], fused(all(-1.25f), d[4], d[6]));
    const vec odd_2 = fused(all(0.25f), d[1], fused(all(-1.25f), d[3], d[5]));
    v[0] = fused(all(5.25f), sub(d[4], d[2]), sub(d[0], d[6]));
    v[1] = fused(all(0.5f), odd_half, even_half);
    v[2] = fused(all(-0.5f), odd_half, even_half);
    v[3] = add(even_1, odd_1);
    v[4] = sub(even_1, odd_1);
    v[5] = fused(all(2.0f), odd_2, even_2);
    v[6] = fused(all(-2.0f), odd_2, even_2);
    v[7] = fused(all(5.25f), sub(d[3], d[5]), sub(d[7], d[1]));
}

EYELET_INLINE void output_1d_6(const vec x[8], vec y[6])
{
    const vec sum_half = add(x[1], x[2]);
    const vec diff_half = sub(x[1], x[2]);
    const vec sum_1 = add(x[3], x[4]);
    const vec diff_1 = sub(x[3], x[4]);
    const vec sum_2 = add(x[5], x[6]);
    const vec diff_2 = sub(x[5], x[6]);
    y[0] = add(add(x[0], sum_half), add(sum_1, sum_2));
    y[1] = fused(all(2.0f), diff_2, fused(all(0.5f), diff_half, diff_1));
    y[2] = fused(all(4.0f), sum_2, fused(all(0.25f), sum_half, sum_1));
    y[3] = fused(all(8.0f), diff_2, fused(all(0.125f), diff_half, diff_1));
    y[4] = fused(all(16.0f), sum_2, fused(all(0.0625f), sum_half, sum_1));
    y[5] = fused(all(32.0f), diff_2, fused(all(0.03125f), diff_half, add(x[7], diff_1)));
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

EYELET_INLINE void weights_1d_6(const vec g[3], vec v[8])
{
    const vec even_half = fused(all(0.25f), g[2], g[0]);
    const vec even_1 = add(g[0], g[2]);
    const vec even_2 = fused(all(4.0f), g[2], g[0]);
    const vec over_half = all(1.0f / 1.40625f);
    const vec over_1 = all(1.0f / -4.5f);
    const vec over_2 = all(1.0f / 90.0f);
    v[0] = g[0];
    v[1] = mul(over_half, fused(all(0.5f), g[1], even_half));
    v[2] = mul(over_half, fused(all(-0.5f), g[1], even_half));
    v[3] = mul(over_1, add(even_1, g[1]));
    v[4] = mul(over_1, sub(even_1, g[1]));
    v[5] = mul(over_2, fused(all(2.0f), g[1], even_2));
    v[6] = mul(over_2, fused(all(-2.0f), g[1], even_2));
    v[7] = g[2];
}

#endif
