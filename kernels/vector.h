/* What the bodies that all instruction sets share expect of an instruction set's vectors. The including source
 * includes its `vector-ISA.h` first; what follows from its operations is here.
 *
 * Types: `vec` of LANES floats, `ints` of as many 32-bit integers, `mask` of as many truths.
 *
 *   load, store            LANES floats
 *   load_some, store_some  the first n, 1 to LANES - 1; nothing else is touched; the others are zeros
 *   first(v, n, rest)      the first n lanes of v, the others of rest
 *   all, all_ints          one value in all lanes
 *   add, sub, mul, over, root  rounded once each; over is the quotient
 *   fused(a, b, c)         a * b + c, rounded once
 *   larger(a, b)           a > b ? a : b, so that b stays where one is NaN
 *   smaller(a, b)          a < b ? a : b
 *   largest(x, acc), largest_of(x, y, acc)  the largest; NaN where one of them is; of zeros any
 *   less, less_or_equal    a < b, a <= b; false for NaN
 *   choose(m, yes, no)     lane by lane
 *   magnitude, with_sign   bits: without the sign; with that of the second
 *   lanes_from(v, at)      in lane l < at lane l + at, for at a power of two below LANES; what is in the others is
 *                          not said
 *   first_lane             lane 0
 *   bits, from_bits        the same bits as the other type
 *   add_ints, sub_ints, and_ints, shift_left, shift_right (arithmetic), to_float
 *   load_next, store_next     where EYELET_STEPS is defined: load, store, and the pointer so many bytes on, in one
 *                             instruction
 *   EYELET_TIMES_POWER(v, n)  where there is an instruction for it: v * 2^n for whole n, rounded once
 *   EYELET_FETCH(p, writes)   where it was measured to help: fetches what is soon read, or written; p may be
 *                             any address */
#ifndef EYELET_VECTOR_H
#define EYELET_VECTOR_H

#ifndef EYELET_FETCH
#define EYELET_FETCH(p, writes) ((void)(p))
#endif

/* See `kernel.h`. */
EYELET_INLINE vec clamp(vec v, vec min, vec max) { return smaller(max, larger(min, v)); }

/* larger and smaller, but NaN where either is. */
EYELET_INLINE vec maximum(vec a, vec b) { return choose(less_or_equal(a, a), larger(a, b), a); }
EYELET_INLINE vec minimum(vec a, vec b) { return choose(less_or_equal(a, a), smaller(a, b), a); }

/* Long sums are those of blocks (EYELET_BLOCK): adds a block's sum to the total, and to `lost` what rounding took from
 * it, exactly. */
EYELET_INLINE void join(vec *total, vec *lost, vec block)
{
    const vec sum = add(*total, block);
    const vec added = sub(sum, *total);
    *lost = add(*lost, add(sub(*total, sub(sum, added)), sub(block, added)));
    *total = sum;
}

/* Total and what was lost. Of infinities nothing is lost that is a number. */
EYELET_INLINE vec joined(vec total, vec lost)
{
    return choose(less_or_equal(lost, lost), add(total, lost), total);
}

#endif
