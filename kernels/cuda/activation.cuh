/* The activation of a layer, on a thread's own floats. */
#ifndef EYELET_CUDA_ACTIVATION_H
#define EYELET_CUDA_ACTIVATION_H

#include "common.cuh"
#include "vector-cuda.h"

#include "../elementwise-loops.h"

/* As in a pack: the code of the function (0: none; enum eyelet_function) and its parameters. */
struct Activation {
    unsigned function;
    float alpha;
    float beta;
};

template <vec (*F)(vec, vec, vec), int N>
EYELET_INLINE void each(const Activation &a, float (&v)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = F(v[i], a.alpha, a.beta);
}

/* The functions that layers of all operators have. The function is the same for all threads: one branch, and then N
 * chains of operations side by side. */
template <int N> EYELET_INLINE void activate(const Activation &a, float (&v)[N])
{
    switch (a.function) {
    case EYELET_CLAMP: each<map_clamp>(a, v); break;
    case EYELET_LEAKY_RELU: each<map_leaky_relu>(a, v); break;
    case EYELET_SIGMOID: each<map_sigmoid>(a, v); break;
    case EYELET_HARD_SIGMOID: each<map_hard_sigmoid>(a, v); break;
    case EYELET_HARD_SWISH: each<map_hard_swish>(a, v); break;
    case EYELET_TANH: each<map_hyperbolic_tangent>(a, v); break;
    case EYELET_SILU: each<map_silu>(a, v); break;
    case EYELET_GELU: each<map_gelu>(a, v); break;
    case EYELET_GELU_TANH: each<map_gelu_tanh>(a, v); break;
    case EYELET_ERF: each<map_error_function>(a, v); break;
    case EYELET_SQRT: each<map_root>(a, v); break;
    case EYELET_EXP: each<map_exponential>(a, v); break;
    case EYELET_ELU: each<map_elu>(a, v); break;
    case EYELET_SOFTPLUS: each<map_softplus>(a, v); break;
    case EYELET_MISH: each<map_mish>(a, v); break;
    case EYELET_SWISH: each<map_swish>(a, v); break;
    case EYELET_QUANTISE: each<map_quantise>(a, v); break;
    case EYELET_FAKE_QUANTISE: each<map_fake_quantise>(a, v); break;
    }
}

EYELET_INLINE float activated(const Activation &a, float x)
{
    float v[1] = {x};
    activate(a, v);
    return v[0];
}

#endif
