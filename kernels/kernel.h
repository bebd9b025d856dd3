/* What all kernels share. */
#ifndef EYELET_KERNEL_H
#define EYELET_KERNEL_H

/* NVRTC has no headers, and knows size_t without. */
#ifndef __CUDACC_RTC__
#include <stddef.h>
#endif

/* The clamp is `min > x ? min : x`, then `max < x ? max : x`: the same bits for NaN and for negative
 * zero on every instruction set. */

#ifdef __CUDACC__
#define EYELET_INLINE static __device__ __forceinline__
#define EYELET_INFINITY __int_as_float(0x7f800000)
#else
#define EYELET_INLINE static inline __attribute__((always_inline))
#define EYELET_INFINITY __builtin_inff()
#endif

/* Floats that a chain of a sum adds. Longer sums are made in two levels: those of blocks of so many terms, each a chain, and
 * their total, which is kept with what rounding took from it (`join` in `vector.h`). */
enum { EYELET_BLOCK = 256 };

/* Keeps a variable that loops step, or that many addresses are made of: compilers would otherwise make
 * several of it that differ by constants. */
#ifdef __CUDACC__
#define EYELET_KEEP(variable) asm("" : "+r"(variable))
#else
#define EYELET_KEEP(variable) __asm__("" : "+r"(variable))
#endif

/* Dispatches on the number of rows, so that each count has a body of its own with all accumulators in
 * registers. */
#define EYELET_ROWS_CASE(n, ...)                                                                       \
    case n:                                                                                            \
        tile(t, n, ##__VA_ARGS__);                                                                     \
        break;

#endif
