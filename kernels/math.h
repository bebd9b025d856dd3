/* Elementary functions on vectors. `kernels/portable/math.rs` is the same arithmetic, operation by operation, and
 * says what the numbers are and how large the errors. */
#ifndef EYELET_MATH_H
#define EYELET_MATH_H

#include "vector.h"

#define EYELET_ROUND 12582912.0f
#define EYELET_ROUND_BITS 0x4b400000
#define EYELET_LOG2_E 1.44269504f
#define EYELET_LN2 0.693147182f
#define EYELET_LN2_LOW -1.9046543e-9f
#define EYELET_SQRT_2 1.41421356f

/* 2^n from n + ROUND: the shift drops what the sum has above n. */
EYELET_INLINE vec power_of_two(ints rounded)
{
    return from_bits(shift_left(add_ints(rounded, all_ints(127)), 23));
}

EYELET_INLINE vec exp_minus_one_near_zero(vec r)
{
    vec q = all(1.3926204e-3f);
    q = fused(q, r, all(8.363195e-3f));
    q = fused(q, r, all(4.1666556e-2f));
    q = fused(q, r, all(1.6666576e-1f));
    q = fused(q, r, all(0.5f));
    return fused(q, mul(r, r), r);
}

EYELET_INLINE vec without_powers(vec x, vec n)
{
    return fused(n, all(-EYELET_LN2_LOW), fused(n, all(-EYELET_LN2), x));
}

/* p * 2^n, rounded once. */
EYELET_INLINE vec scale(vec p, vec rounded)
{
#ifdef EYELET_TIMES_POWER
    return EYELET_TIMES_POWER(p, sub(rounded, all(EYELET_ROUND)));
#else
    const ints n = sub_ints(bits(rounded), all_ints(EYELET_ROUND_BITS));
    const ints half = shift_right(n, 1);
    return mul(mul(p, power_of_two(half)), power_of_two(sub_ints(n, half)));
#endif
}

EYELET_INLINE vec exponential(vec x)
{
    x = clamp(x, all(-104.0f), all(89.0f));
    const vec rounded = fused(x, all(EYELET_LOG2_E), all(EYELET_ROUND));
    const vec r = without_powers(x, sub(rounded, all(EYELET_ROUND)));
    return scale(add(exp_minus_one_near_zero(r), all(1.0f)), rounded);
}

EYELET_INLINE vec exponential2(vec x)
{
    x = clamp(x, all(-151.0f), all(129.0f));
    const vec rounded = add(x, all(EYELET_ROUND));
    const vec r = mul(sub(x, sub(rounded, all(EYELET_ROUND))), all(EYELET_LN2));
    return scale(add(exp_minus_one_near_zero(r), all(1.0f)), rounded);
}

EYELET_INLINE vec exp_minus_one(vec y)
{
    y = larger(all(-20.0f), y);
    const vec rounded = fused(y, all(EYELET_LOG2_E), all(EYELET_ROUND));
    const vec r = without_powers(y, sub(rounded, all(EYELET_ROUND)));
    const vec power = power_of_two(bits(rounded));
    return fused(exp_minus_one_near_zero(r), power, sub(power, all(1.0f)));
}

EYELET_INLINE vec sigmoid(vec x)
{
    const vec e = exponential(with_sign(x, all(-0.0f)));
    return over(choose(less(x, all(0.0f)), e, all(1.0f)), add(all(1.0f), e));
}

EYELET_INLINE vec hyperbolic_tangent(vec x)
{
    const vec u = exp_minus_one(mul(magnitude(x), all(-2.0f)));
    return with_sign(over(u, add(all(2.0f), u)), x);
}

EYELET_INLINE vec normal_above_half(vec x)
{
    x = clamp(x, all(-5.6f), all(5.6f));
    const vec z = mul(x, x);
    vec p = all(2.2299988e-8f);
    p = fused(p, z, all(6.2890035e-6f));
    p = fused(p, z, all(1.6886476e-4f));
    p = fused(p, z, all(4.6769534e-3f));
    p = fused(p, z, all(3.392307e-2f));
    p = fused(p, z, all(3.9894227e-1f));
    vec q = all(1.179675e-6f);
    q = fused(q, z, all(7.33218e-5f));
    q = fused(q, z, all(1.8851278e-3f));
    q = fused(q, z, all(2.8674064e-2f));
    q = fused(q, z, all(2.5169886e-1f));
    q = fused(q, z, all(1.0f));
    return clamp(over(mul(x, p), q), all(-0.5f), all(0.5f));
}

EYELET_INLINE vec error_function(vec x)
{
    return mul(normal_above_half(mul(x, all(EYELET_SQRT_2))), all(2.0f));
}

EYELET_INLINE vec silu(vec x)
{
    x = larger(all(-128.0f), x);
    return mul(x, sigmoid(x));
}

EYELET_INLINE vec gelu(vec x)
{
    x = larger(all(-128.0f), x);
    return mul(x, add(normal_above_half(x), all(0.5f)));
}

EYELET_INLINE vec gelu_tanh(vec x)
{
    x = larger(all(-128.0f), x);
    return mul(x, sigmoid(mul(x, fused(all(7.1354816e-2f), mul(x, x), all(1.5957692f)))));
}

EYELET_INLINE vec hard_sigmoid(vec x, vec alpha, vec beta)
{
    return clamp(fused(alpha, x, beta), all(0.0f), all(1.0f));
}

EYELET_INLINE vec hard_swish(vec x)
{
    x = larger(all(-3.0f), x);
    return mul(x, hard_sigmoid(x, all(1.0f / 6.0f), all(0.5f)));
}

EYELET_INLINE vec negative(vec x) { return from_bits(sub_ints(bits(x), all_ints((int)0x80000000u))); }

EYELET_INLINE vec elu(vec x, vec alpha, vec beta)
{
    return choose(less(x, all(0.0f)), mul(alpha, exp_minus_one(x)), mul(beta, x));
}

EYELET_INLINE vec log_of_one_and(vec u)
{
    const vec s = over(u, add(all(2.0f), u));
    const vec z = mul(s, s);
    vec r = all(1.1764706e-1f);
    r = fused(r, z, all(1.3333334e-1f));
    r = fused(r, z, all(1.5384615e-1f));
    r = fused(r, z, all(1.8181818e-1f));
    r = fused(r, z, all(2.2222222e-1f));
    r = fused(r, z, all(2.857143e-1f));
    r = fused(r, z, all(4e-1f));
    r = fused(r, z, all(6.666667e-1f));
    return fused(negative(s), sub(u, mul(r, z)), u);
}

EYELET_INLINE vec softplus(vec x)
{
    return add(larger(all(0.0f), x), log_of_one_and(exponential(with_sign(x, all(-0.0f)))));
}

EYELET_INLINE vec mish(vec x)
{
    const vec e = exponential(smaller(all(20.0f), x));
    const vec n = mul(e, add(e, all(2.0f)));
    return mul(larger(all(-128.0f), x), over(n, add(n, all(2.0f))));
}

EYELET_INLINE vec swish(vec x, vec alpha)
{
    x = larger(all(-3.40282347e38f), x);
    return mul(x, sigmoid(mul(alpha, x)));
}

EYELET_INLINE vec softsign(vec x)
{
    x = clamp(x, all(-3.40282347e38f), all(3.40282347e38f));
    return over(x, add(all(1.0f), magnitude(x)));
}

EYELET_INLINE vec nearest_whole(vec x)
{
    const vec a = magnitude(x);
    const vec rounded = with_sign(sub(add(a, all(8388608.0f)), all(8388608.0f)), x);
    return choose(less(a, all(8388608.0f)), rounded, x);
}

EYELET_INLINE vec whole_below(vec x)
{
    const vec rounded = nearest_whole(x);
    return choose(less(x, rounded), sub(rounded, all(1.0f)), rounded);
}

EYELET_INLINE vec quantise(vec x, vec step, vec bounds)
{
    const vec low = whole_below(mul(bounds, all(1.0f / 256.0f)));
    const vec high = add(low, sub(bounds, mul(low, all(256.0f))));
    return sub(add(clamp(over(x, step), low, high), all(EYELET_ROUND)), all(EYELET_ROUND));
}

EYELET_INLINE vec whole_above(vec x) { return negative(whole_below(negative(x))); }

EYELET_INLINE vec sign_of(vec x)
{
    return choose(less(all(0.0f), x), all(1.0f), choose(less(x, all(0.0f)), all(-1.0f), x));
}

EYELET_INLINE vec shrink(vec x, vec lambda, vec bias)
{
    const vec lowest = negative(lambda);
    const vec moved = choose(less(x, lowest), add(x, bias), sub(x, bias));
    const vec upper = choose(less_or_equal(x, lambda), all(0.0f), moved);
    return choose(less_or_equal(lowest, x), upper, moved);
}

EYELET_INLINE vec above(vec x, vec alpha) { return choose(less_or_equal(x, alpha), all(0.0f), x); }

EYELET_INLINE vec mantissa_and_exponent(vec x, vec *exponent)
{
    const mask subnormal = less(x, all(1.17549435e-38f));
    const vec normal = choose(subnormal, mul(x, all(16777216.0f)), x);
    const ints moved = add_ints(bits(normal), all_ints(0x3f800000 - 0x3f3504f3));
    const ints biased = sub_ints(shift_right(moved, 23), all_ints(127));
    *exponent = sub(to_float(biased), choose(subnormal, all(24.0f), all(0.0f)));
    return from_bits(add_ints(and_ints(moved, all_ints(0x007fffff)), all_ints(0x3f3504f3)));
}

EYELET_INLINE vec logarithm(vec x)
{
    vec n;
    const vec f = sub(mantissa_and_exponent(x, &n), all(1.0f));
    const vec s = over(f, add(all(2.0f), f));
    const vec z = mul(s, s);
    vec r = all(2.2222222e-1f);
    r = fused(r, z, all(2.857143e-1f));
    r = fused(r, z, all(4e-1f));
    r = fused(r, z, all(6.666667e-1f));
    const vec rest = fused(negative(s), sub(f, mul(r, z)), f);
    const vec finite = fused(n, all(EYELET_LN2), fused(n, all(EYELET_LN2_LOW), rest));
    const vec positive = choose(less(all(3.40282347e38f), x), x, finite);
    const vec nan = from_bits(all_ints(0x7fc00000));
    const vec other = choose(less_or_equal(all(0.0f), x), all(-EYELET_INFINITY), nan);
    return choose(less(all(0.0f), x), positive, other);
}

EYELET_INLINE vec logarithm2(vec x)
{
    vec exponent;
    const vec m = mantissa_and_exponent(x, &exponent);
    const vec s = over(sub(m, all(1.0f)), add(m, all(1.0f)));
    const vec z = mul(s, s);
    vec p = all(4.3171957e-1f);
    p = fused(p, z, all(5.767151e-1f));
    p = fused(p, z, all(9.6179885e-1f));
    p = fused(p, z, all(2.88539f));
    const vec finite = fused(s, p, exponent);
    const vec positive = choose(less(all(3.40282347e38f), x), x, finite);
    return choose(less(all(0.0f), x), positive, from_bits(all_ints(0x7fc00000)));
}

EYELET_INLINE vec power(vec x, vec p) { return exponential2(mul(p, logarithm2(x))); }

#endif
