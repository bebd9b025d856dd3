/* What all kernels share. */
#ifndef EYELET_KERNEL_H
#define EYELET_KERNEL_H

#include <stddef.h>

/* The clamp is `min > x ? min : x`, then `max < x ? max : x`: the same bits for NaN and for negative
 * zero on every instruction set. */

#define EYELET_INLINE static inline __attribute__((always_inline))

/* Dispatches on the number of rows, so that each count has a body of its own with all accumulators in
 * registers. */
#define EYELET_ROWS_CASE(n, ...)                                                                       \
    case n:                                                                                            \
        tile(t, n, ##__VA_ARGS__);                                                                     \
        break;

#endif
