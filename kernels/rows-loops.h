/* The bodies of the kernels over rows, for whichever vectors the including source defines (`vector.h`). */
#ifndef EYELET_ROWS_LOOPS_H
#define EYELET_ROWS_LOOPS_H

#include "math.h"
#include "rows.h"

/* Sixteen lanes, in as many vectors as that takes. */
enum { PARTS = EYELET_PARTIAL / LANES };

#define EYELET_EACH_PART(part) _Pragma("GCC unroll 4") for (int part = 0; part < PARTS; part++)

/* How many of the `n` floats behind the last whole sixteen a part has: 0 to LANES. */
EYELET_INLINE size_t in_part(size_t n, int part)
{
    const size_t before = (size_t)part * LANES;
    return n <= before ? 0 : n - before < LANES ? n - before : LANES;
}

/* The floats of a part, behind them `rest`. */
EYELET_INLINE vec load_part(const float *x, size_t n, vec rest)
{
    return n == LANES ? load(x) : n ? first(load_some(x, n), n, rest) : rest;
}

/* Partial results by halves: first whole vectors, then lanes. */
#define EYELET_COMBINED(name, f)                                                                       \
    EYELET_INLINE float name(vec acc[PARTS])                                                           \
    {                                                                                                  \
        _Pragma("GCC unroll 4") for (int half = PARTS / 2; half > 0; half /= 2)                        \
            _Pragma("GCC unroll 4") for (int part = 0; part < half; part++)                            \
                acc[part] = f(acc[part + half], acc[part]);                                            \
        _Pragma("GCC unroll 4") for (int half = LANES / 2; half > 0; half /= 2)                        \
            acc[0] = f(lanes_from(acc[0], half), acc[0]);                                              \
        return first_lane(acc[0]);                                                                     \
    }
EYELET_COMBINED(combined_sum, add)
EYELET_COMBINED(combined_max, larger)

/* A row that is summed, and the function that makes the chains of `n` of its floats from `at` on. */
struct row {
    const float *x;
    float *out;
    float middle;
};
typedef void (*row_chains)(const struct row *row, size_t at, size_t n, vec acc[PARTS]);

/* What chains of EYELET_BLOCK terms have in all: of a row of so many floats. */
enum { ROW_BLOCK = EYELET_PARTIAL * EYELET_BLOCK };

EYELET_INLINE float summed(const struct row *row, size_t n, row_chains chains)
{
    vec total[PARTS], lost[PARTS];
    EYELET_EACH_PART(part) total[part] = lost[part] = all(0.0f);
    for (size_t at = 0; at < n; at += ROW_BLOCK) {
        vec acc[PARTS];
        EYELET_EACH_PART(part) acc[part] = all(0.0f);
        chains(row, at, n - at < ROW_BLOCK ? n - at : ROW_BLOCK, acc);
        if (at == 0)
            EYELET_EACH_PART(part) total[part] = acc[part];
        else
            EYELET_EACH_PART(part) join(&total[part], &lost[part], acc[part]);
    }
    if (n > ROW_BLOCK)
        EYELET_EACH_PART(part) total[part] = joined(total[part], lost[part]);
    return combined_sum(total);
}

EYELET_INLINE void chains_of_floats(const struct row *row, size_t at, size_t n, vec acc[PARTS])
{
    const float *x = row->x + at;
    for (; n >= EYELET_PARTIAL; n -= EYELET_PARTIAL, x += EYELET_PARTIAL)
        EYELET_EACH_PART(part) acc[part] = add(acc[part], load(x + part * LANES));
    /* No partial sum is -0, so that adding 0 changes none. */
    if (n)
        EYELET_EACH_PART(part)
            acc[part] = add(acc[part], load_part(x + part * LANES, in_part(n, part), all(0.0f)));
}

EYELET_INLINE float row_sum(const float *x, size_t n)
{
    const struct row row = {x, 0, 0.0f};
    return summed(&row, n, chains_of_floats);
}

EYELET_INLINE float row_max(const float *x, size_t n)
{
    const vec lowest = all(-EYELET_INFINITY);
    vec acc[PARTS];
    EYELET_EACH_PART(part) acc[part] = lowest;
    for (; n >= EYELET_PARTIAL; n -= EYELET_PARTIAL, x += EYELET_PARTIAL)
        EYELET_EACH_PART(part) acc[part] = larger(load(x + part * LANES), acc[part]);
    if (n)
        EYELET_EACH_PART(part)
            acc[part] = larger(load_part(x + part * LANES, in_part(n, part), lowest), acc[part]);
    return combined_max(acc);
}

EYELET_INLINE void chains_of_squares(const struct row *row, size_t at, size_t n, vec acc[PARTS])
{
    const float *x = row->x + at;
    const vec middle = all(row->middle);
    for (; n >= EYELET_PARTIAL; n -= EYELET_PARTIAL, x += EYELET_PARTIAL)
        EYELET_EACH_PART(part)
        {
            const vec d = sub(load(x + part * LANES), middle);
            acc[part] = fused(d, d, acc[part]);
        }
    if (n)
        EYELET_EACH_PART(part)
        {
            const size_t some = in_part(n, part);
            const vec d = sub(load_part(x + part * LANES, some, middle), middle);
            const vec kept = first(d, some, all(0.0f));
            acc[part] = fused(kept, kept, acc[part]);
        }
}

EYELET_INLINE float row_square_differences(const float *x, size_t n, float mean)
{
    const struct row row = {x, 0, mean};
    return summed(&row, n, chains_of_squares);
}

/* Stores the exponentials. */
EYELET_INLINE void chains_of_exponentials(const struct row *row, size_t at, size_t n, vec acc[PARTS])
{
    const float *x = row->x + at;
    float *out = row->out + at;
    const vec largest = all(row->middle);
    size_t i = 0;
    for (; i + EYELET_PARTIAL <= n; i += EYELET_PARTIAL)
        EYELET_EACH_PART(part)
        {
            const size_t of = i + (size_t)part * LANES;
            const vec e = exponential(sub(load(x + of), largest));
            acc[part] = add(acc[part], e);
            store(out + of, e);
        }
    if (i < n)
        EYELET_EACH_PART(part)
        {
            const size_t of = i + (size_t)part * LANES;
            const size_t some = in_part(n - i, part);
            if (!some)
                break;
            const vec e = exponential(sub(load_part(x + of, some, largest), largest));
            acc[part] = add(acc[part], first(e, some, all(0.0f)));
            if (some == LANES)
                store(out + of, e);
            else
                store_some(out + of, e, some);
        }
}

EYELET_INLINE void row_softmax(const float *x, float *out, size_t n)
{
    const struct row row = {x, out, row_max(x, n)};
    const vec scale = all(1.0f / summed(&row, n, chains_of_exponentials));
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(out + i, mul(load(out + i), scale));
    if (i < n)
        store_some(out + i, mul(load_some(out + i, n - i), scale), n - i);
}

EYELET_INLINE vec standardised(const struct eyelet_standardise *t, vec x, vec gamma, vec beta)
{
    return fused(mul(sub(x, all(t->mean)), all(t->scale)), gamma, beta);
}

EYELET_INLINE void row_standardise(const struct eyelet_standardise *t)
{
    size_t i = 0;
    for (; i + LANES <= t->n; i += LANES)
        store(t->out + i, standardised(t, load(t->x + i), load(t->gamma + i), load(t->beta + i)));
    if (i < t->n) {
        const size_t n = t->n - i;
        const vec gamma = load_some(t->gamma + i, n);
        const vec beta = load_some(t->beta + i, n);
        store_some(t->out + i, standardised(t, load_some(t->x + i, n), gamma, beta), n);
    }
}

EYELET_INLINE vec lrn(const struct eyelet_lrn *t, vec x, vec squares)
{
    return mul(x, power(fused(all(t->alpha), squares, all(t->bias)), all(-t->beta)));
}

EYELET_INLINE void row_lrn(const struct eyelet_lrn *t)
{
    size_t i = 0;
    for (; i + LANES <= t->n; i += LANES)
        store(t->out + i, lrn(t, load(t->x + i), load(t->out + i)));
    if (i < t->n) {
        const size_t n = t->n - i;
        store_some(t->out + i, lrn(t, load_some(t->x + i, n), load_some(t->out + i, n)), n);
    }
}

#endif
