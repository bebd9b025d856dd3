/* The contract of the elementwise kernels: functions of one tensor, arithmetic of two.
 *
 * Each computes a rectangle, row by row; every element is computed for itself, so that nothing depends on how a
 * tensor is cut into rectangles. An input may be the output, element on element; no other overlap is allowed.
 * `kernels/table/elementwise.rs` has the same records and calls with bounds checked. */
#ifndef EYELET_ELEMENTWISE_H
#define EYELET_ELEMENTWISE_H

#include "kernel.h"

struct eyelet_map {
    size_t function; /* the pack format's code of an activation: enum eyelet_function */
    size_t rows;
    size_t cols;
    const float *in;
    size_t in_pitch; /* floats from one row to the next */
    float *out;
    size_t out_pitch;
    float alpha;
    float beta;
};

enum eyelet_function {
    EYELET_CLAMP = 1,
    EYELET_LEAKY_RELU = 2,
    EYELET_SIGMOID = 3,
    EYELET_HARD_SIGMOID = 4,
    EYELET_HARD_SWISH = 5,
    EYELET_TANH = 6,
    EYELET_SILU = 7,
    EYELET_GELU = 8,
    EYELET_GELU_TANH = 9,
    EYELET_ERF = 10,
    EYELET_SQRT = 11,
    EYELET_EXP = 12,
    EYELET_ELU = 13,
    EYELET_SOFTPLUS = 14,
    EYELET_MISH = 15,
    EYELET_SWISH = 16,
    EYELET_LOG = 17,
    EYELET_ABS = 18,
    EYELET_FLOOR = 19,
    EYELET_CEIL = 20,
    EYELET_ROUND_EVEN = 21,
    EYELET_SIGN = 22,
    EYELET_SOFTSIGN = 23,
    EYELET_SHRINK = 24,
    EYELET_THRESHOLDED_RELU = 25,
    /* Functions from here to 36 are the portable kernels' alone. */
    EYELET_QUANTISE = 37,
    EYELET_FAKE_QUANTISE = 38,
};

struct eyelet_binary {
    size_t op; /* the pack format's code: enum eyelet_binary_op */
    size_t rows;
    size_t cols;
    const float *a;
    size_t a_pitch; /* floats from one row to the next: 0 where all have the same */
    size_t a_step;  /* floats from one column to the next: 1, or 0 where all have the same */
    const float *b;
    size_t b_pitch;
    size_t b_step;
    float *out;
    size_t out_pitch;
    float min; /* the clamp; infinite where there is none, never a positive zero */
    float max;
};

enum eyelet_binary_op {
    EYELET_ADD = 0,
    EYELET_SUB = 1,
    EYELET_MUL = 2,
    EYELET_DIV = 3,
    EYELET_PRELU = 4, /* a where it is not less than 0, a * b elsewhere */
    EYELET_MASK = 5,  /* b, but a where b is NaN */
    EYELET_MAX = 6,   /* a > b ? a : b; NaN where either is */
    EYELET_MIN = 7,   /* a < b ? a : b; NaN where either is */
    /* Operations after these are the portable kernels' alone. */
};

#endif
