/* The bodies of the elementwise kernels, for whichever vectors the including source defines (`vector.h`).
 *
 * Two vectors go side by side, both loaded before either is stored: processors that execute in order then have
 * two chains of operations to interleave, and `out` may be `in` without the compiler having to know. */
#ifndef EYELET_ELEMENTWISE_LOOPS_H
#define EYELET_ELEMENTWISE_LOOPS_H

#include "elementwise.h"
#include "math.h"

typedef vec (*map_function)(vec x, vec alpha, vec beta);

EYELET_INLINE vec map_clamp(vec x, vec alpha, vec beta) { return clamp(x, alpha, beta); }
EYELET_INLINE vec map_leaky_relu(vec x, vec alpha, vec beta)
{
    (void)beta;
    return choose(less_or_equal(all(0.0f), x), x, mul(x, alpha));
}
EYELET_INLINE vec map_hard_sigmoid(vec x, vec alpha, vec beta) { return hard_sigmoid(x, alpha, beta); }
EYELET_INLINE vec map_elu(vec x, vec alpha, vec beta) { return elu(x, alpha, beta); }
EYELET_INLINE vec map_shrink(vec x, vec alpha, vec beta) { return shrink(x, alpha, beta); }
EYELET_INLINE vec map_swish(vec x, vec alpha, vec beta)
{
    (void)beta;
    return swish(x, alpha);
}
EYELET_INLINE vec map_quantise(vec x, vec alpha, vec beta) { return quantise(x, alpha, beta); }
EYELET_INLINE vec map_fake_quantise(vec x, vec alpha, vec beta)
{
    return mul(quantise(x, alpha, beta), alpha);
}
EYELET_INLINE vec map_above(vec x, vec alpha, vec beta)
{
    (void)beta;
    return above(x, alpha);
}

#define EYELET_MAP_PLAIN(name)                                                                         \
    EYELET_INLINE vec map_##name(vec x, vec alpha, vec beta)                                           \
    {                                                                                                  \
        (void)alpha;                                                                                   \
        (void)beta;                                                                                    \
        return name(x);                                                                                \
    }
EYELET_MAP_PLAIN(sigmoid)
EYELET_MAP_PLAIN(hard_swish)
EYELET_MAP_PLAIN(hyperbolic_tangent)
EYELET_MAP_PLAIN(silu)
EYELET_MAP_PLAIN(gelu)
EYELET_MAP_PLAIN(gelu_tanh)
EYELET_MAP_PLAIN(error_function)
EYELET_MAP_PLAIN(root)
EYELET_MAP_PLAIN(exponential)
EYELET_MAP_PLAIN(softplus)
EYELET_MAP_PLAIN(mish)
EYELET_MAP_PLAIN(logarithm)
EYELET_MAP_PLAIN(magnitude)
EYELET_MAP_PLAIN(whole_below)
EYELET_MAP_PLAIN(whole_above)
EYELET_MAP_PLAIN(nearest_whole)
EYELET_MAP_PLAIN(sign_of)
EYELET_MAP_PLAIN(softsign)

EYELET_INLINE void map_rows(const struct eyelet_map *t, map_function f)
{
    const vec alpha = all(t->alpha);
    const vec beta = all(t->beta);
    for (size_t row = 0; row < t->rows; row++) {
        const float *in = t->in + row * t->in_pitch;
        float *out = t->out + row * t->out_pitch;
        size_t c = 0;
        for (; c + 2 * LANES <= t->cols; c += 2 * LANES) {
            const vec x = load(in + c);
            const vec y = load(in + c + LANES);
            const vec fx = f(x, alpha, beta);
            const vec fy = f(y, alpha, beta);
            store(out + c, fx);
            store(out + c + LANES, fy);
        }
        if (c + LANES <= t->cols) {
            store(out + c, f(load(in + c), alpha, beta));
            c += LANES;
        }
        if (c < t->cols)
            store_some(out + c, f(load_some(in + c, t->cols - c), alpha, beta), t->cols - c);
    }
}

EYELET_INLINE void elementwise_map(const struct eyelet_map *t)
{
    switch (t->function) {
    case EYELET_CLAMP: map_rows(t, map_clamp); break;
    case EYELET_LEAKY_RELU: map_rows(t, map_leaky_relu); break;
    case EYELET_SIGMOID: map_rows(t, map_sigmoid); break;
    case EYELET_HARD_SIGMOID: map_rows(t, map_hard_sigmoid); break;
    case EYELET_HARD_SWISH: map_rows(t, map_hard_swish); break;
    case EYELET_TANH: map_rows(t, map_hyperbolic_tangent); break;
    case EYELET_SILU: map_rows(t, map_silu); break;
    case EYELET_GELU: map_rows(t, map_gelu); break;
    case EYELET_GELU_TANH: map_rows(t, map_gelu_tanh); break;
    case EYELET_ERF: map_rows(t, map_error_function); break;
    case EYELET_SQRT: map_rows(t, map_root); break;
    case EYELET_EXP: map_rows(t, map_exponential); break;
    case EYELET_ELU: map_rows(t, map_elu); break;
    case EYELET_SOFTPLUS: map_rows(t, map_softplus); break;
    case EYELET_MISH: map_rows(t, map_mish); break;
    case EYELET_SWISH: map_rows(t, map_swish); break;
    case EYELET_LOG: map_rows(t, map_logarithm); break;
    case EYELET_ABS: map_rows(t, map_magnitude); break;
    case EYELET_FLOOR: map_rows(t, map_whole_below); break;
    case EYELET_CEIL: map_rows(t, map_whole_above); break;
    case EYELET_ROUND_EVEN: map_rows(t, map_nearest_whole); break;
    case EYELET_SIGN: map_rows(t, map_sign_of); break;
    case EYELET_SOFTSIGN: map_rows(t, map_softsign); break;
    case EYELET_SHRINK: map_rows(t, map_shrink); break;
    case EYELET_THRESHOLDED_RELU: map_rows(t, map_above); break;
    case EYELET_QUANTISE: map_rows(t, map_quantise); break;
    case EYELET_FAKE_QUANTISE: map_rows(t, map_fake_quantise); break;
    }
}

typedef vec (*binary_function)(vec a, vec b);

EYELET_INLINE vec masked(vec a, vec b) { return choose(less_or_equal(b, b), b, a); }
EYELET_INLINE vec prelu(vec a, vec b) { return choose(less_or_equal(all(0.0f), a), a, mul(a, b)); }

/* `a_step` and `b_step` are known when this is compiled. */
EYELET_INLINE void binary_rows(const struct eyelet_binary *t, binary_function f, int a_step, int b_step)
{
    const vec min = all(t->min);
    const vec max = all(t->max);
    for (size_t row = 0; row < t->rows; row++) {
        const float *a = t->a + row * t->a_pitch;
        const float *b = t->b + row * t->b_pitch;
        float *out = t->out + row * t->out_pitch;
        const vec one_a = a_step ? min : all(*a);
        const vec one_b = b_step ? max : all(*b);
        size_t c = 0;
        for (; c + 2 * LANES <= t->cols; c += 2 * LANES) {
            const vec ax = a_step ? load(a + c) : one_a;
            const vec ay = a_step ? load(a + c + LANES) : one_a;
            const vec bx = b_step ? load(b + c) : one_b;
            const vec by = b_step ? load(b + c + LANES) : one_b;
            const vec x = clamp(f(ax, bx), min, max);
            const vec y = clamp(f(ay, by), min, max);
            store(out + c, x);
            store(out + c + LANES, y);
        }
        if (c + LANES <= t->cols) {
            const vec ax = a_step ? load(a + c) : one_a;
            const vec bx = b_step ? load(b + c) : one_b;
            store(out + c, clamp(f(ax, bx), min, max));
            c += LANES;
        }
        if (c < t->cols) {
            const size_t n = t->cols - c;
            const vec ax = a_step ? load_some(a + c, n) : one_a;
            const vec bx = b_step ? load_some(b + c, n) : one_b;
            store_some(out + c, clamp(f(ax, bx), min, max), n);
        }
    }
}

EYELET_INLINE void binary_steps(const struct eyelet_binary *t, binary_function f)
{
    if (t->a_step && t->b_step)
        binary_rows(t, f, 1, 1);
    else if (t->a_step)
        binary_rows(t, f, 1, 0);
    else if (t->b_step)
        binary_rows(t, f, 0, 1);
    else
        binary_rows(t, f, 0, 0);
}

EYELET_INLINE void elementwise_binary(const struct eyelet_binary *t)
{
    switch (t->op) {
    case EYELET_ADD: binary_steps(t, add); break;
    case EYELET_SUB: binary_steps(t, sub); break;
    case EYELET_MUL: binary_steps(t, mul); break;
    case EYELET_DIV: binary_steps(t, over); break;
    case EYELET_PRELU: binary_steps(t, prelu); break;
    case EYELET_MASK: binary_steps(t, masked); break;
    case EYELET_MAX: binary_steps(t, maximum); break;
    case EYELET_MIN: binary_steps(t, minimum); break;
    }
}

#endif
