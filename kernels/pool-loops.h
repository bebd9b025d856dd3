/* The body of the f32_pool kernels, for whichever vectors the including source defines (`vector.h`).
 *
 * A block of channels stays in registers over all taps. Blocks of eight vectors have enough chains to hide the
 * latency of an addition; the last ones are smaller. */
#ifndef EYELET_POOL_LOOPS_H
#define EYELET_POOL_LOOPS_H

#include "pool.h"
#include "vector.h"

/* `vectors` vectors of channels of one pixel; of the last one `n` floats. */
EYELET_INLINE void pool_block(
    const struct eyelet_pool *t, int average, int vectors, const float *in, float *out, size_t n)
{
    vec acc[8];
    _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
        acc[v] = all(average ? 0.0f : -EYELET_INFINITY);
    for (size_t line = 0, at = t->line; line < t->tap_lines; line++) {
        const float *tap = in + at;
        at += t->line_pitch;
        at -= at < t->ring ? 0 : t->ring;
        for (size_t col = 0; col < t->tap_cols; col++) {
            vec x[8];
            _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
            {
                const float *from = tap + v * LANES;
                x[v] = n == LANES || v + 1 < vectors ? load(from) : load_some(from, n);
            }
            _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
                acc[v] = average ? add(acc[v], x[v]) : larger(x[v], acc[v]);
            tap += t->col_pitch;
        }
    }
    _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
    {
        const vec y = average ? over(acc[v], all(t->count)) : acc[v];
        if (n == LANES || v + 1 < vectors)
            store(out + v * LANES, y);
        else
            store_some(out + v * LANES, y, n);
    }
}

EYELET_INLINE void pool_pixels(const struct eyelet_pool *t, int average)
{
    for (size_t pixel = 0; pixel < t->pixels; pixel++) {
        const float *in = t->in + pixel * t->pixel_pitch;
        float *out = t->out + pixel * t->out_pitch;
        size_t c = 0;
        for (; c + 8 * LANES <= t->channels; c += 8 * LANES)
            pool_block(t, average, 8, in + c, out + c, LANES);
        if (c + 4 * LANES <= t->channels) {
            pool_block(t, average, 4, in + c, out + c, LANES);
            c += 4 * LANES;
        }
        for (; c + LANES <= t->channels; c += LANES)
            pool_block(t, average, 1, in + c, out + c, LANES);
        if (c < t->channels)
            pool_block(t, average, 1, in + c, out + c, t->channels - c);
    }
}

EYELET_INLINE void pool(const struct eyelet_pool *t)
{
    if (t->average)
        pool_pixels(t, 1);
    else
        pool_pixels(t, 0);
}

#endif
