/* Vectors of one lane, for the bodies that all instruction sets share: a thread of a GPU is a lane. `../vector.h` says
 * what each name means. The intrinsics round once, whatever flags the compiler is given. */
#ifndef EYELET_VECTOR_CUDA_H
#define EYELET_VECTOR_CUDA_H

#include "common.cuh"

enum { LANES = 1 };
typedef float vec;
typedef int ints;
typedef bool mask;

EYELET_INLINE vec load(const float *p) { return *p; }
EYELET_INLINE void store(float *p, vec v) { *p = v; }
/* There is no number from 1 to LANES - 1: these are never called. */
EYELET_INLINE vec load_some(const float *p, size_t n) { return n ? *p : 0.0f; }
EYELET_INLINE void store_some(float *p, vec v, size_t n)
{
    if (n)
        *p = v;
}
EYELET_INLINE vec first(vec v, size_t n, vec rest) { return n ? v : rest; }

EYELET_INLINE vec all(float x) { return x; }
EYELET_INLINE vec add(vec a, vec b) { return __fadd_rn(a, b); }
EYELET_INLINE vec sub(vec a, vec b) { return __fsub_rn(a, b); }
EYELET_INLINE vec mul(vec a, vec b) { return __fmul_rn(a, b); }
EYELET_INLINE vec over(vec a, vec b) { return __fdiv_rn(a, b); }
EYELET_INLINE vec root(vec a) { return __fsqrt_rn(a); }
EYELET_INLINE vec fused(vec a, vec b, vec c) { return __fmaf_rn(a, b, c); }
EYELET_INLINE vec larger(vec a, vec b) { return a > b ? a : b; }
EYELET_INLINE vec smaller(vec a, vec b) { return a < b ? a : b; }
EYELET_INLINE vec largest(vec x, vec acc) { return x > acc || x != x ? x : acc; }

EYELET_INLINE mask less(vec a, vec b) { return a < b; }
EYELET_INLINE mask less_or_equal(vec a, vec b) { return a <= b; }
EYELET_INLINE vec choose(mask m, vec yes, vec no) { return m ? yes : no; }

EYELET_INLINE ints bits(vec v) { return __float_as_int(v); }
EYELET_INLINE vec from_bits(ints i) { return __int_as_float(i); }
EYELET_INLINE ints all_ints(int x) { return x; }
EYELET_INLINE ints add_ints(ints a, ints b) { return (int)((unsigned)a + (unsigned)b); }
EYELET_INLINE ints sub_ints(ints a, ints b) { return (int)((unsigned)a - (unsigned)b); }
EYELET_INLINE ints and_ints(ints a, ints b) { return a & b; }
EYELET_INLINE ints shift_left(ints i, int n) { return (int)((unsigned)i << n); }
EYELET_INLINE ints shift_right(ints i, int n) { return i >> n; }
EYELET_INLINE vec to_float(ints i) { return __int2float_rn(i); }

EYELET_INLINE vec magnitude(vec v) { return from_bits(bits(v) & 0x7fffffff); }
EYELET_INLINE vec with_sign(vec v, vec sign)
{
    return from_bits((bits(v) & 0x7fffffff) | (bits(sign) & (int)0x80000000u));
}

/* No lane has another beside it. */
EYELET_INLINE vec lanes_from(vec v, int at)
{
    (void)at;
    return v;
}
EYELET_INLINE float first_lane(vec v) { return v; }

#endif
