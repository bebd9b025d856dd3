/* The body of the f32_pool kernels, for whichever vectors the including source defines (`vector.h`).
 *
 * A block of channels stays in registers over all taps. Blocks of eight vectors have enough chains to hide the
 * latency of an addition; the last ones are smaller. Where windows of maxima share a column with the next, its maximum
 * is taken once for both. */
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
        const vec y = average ? over(acc[v], all(t->count)) : add(acc[v], all(0.0f));
        if (n == LANES || v + 1 < vectors)
            store(out + v * LANES, y);
        else
            store_some(out + v * LANES, y, n);
    }
}

/* The pixels' channels from `start` on. */
EYELET_INLINE void pool_pixels(const struct eyelet_pool *t, int average, const size_t start)
{
    for (size_t pixel = 0; pixel < t->pixels; pixel++) {
        const float *in = t->in + pixel * t->pixel_pitch;
        float *out = t->out + pixel * t->out_pitch;
        size_t c = start;
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

enum { EYELET_POOL_LINES = 3, EYELET_POOL_VECTORS = 4 };

/* The maxima of a column of taps and of `acc`; the next column. */
EYELET_INLINE void pool_column(const float *line[], const size_t lines, const size_t pitch, const int vectors, vec acc[])
{
    _Pragma("GCC unroll 3") for (size_t l = 0; l < lines; l++)
    {
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
            acc[v] = larger(load(line[l] + v * LANES), acc[v]);
        line[l] += pitch;
        EYELET_KEEP(line[l]);
    }
}

/* Maxima of all pixels' channels `c` to `c + vectors * LANES`, where each window's last column is the next one's first. */
EYELET_INLINE void pool_sharing(const struct eyelet_pool *t, const size_t lines, const int vectors, size_t c)
{
    const float *line[EYELET_POOL_LINES];
    _Pragma("GCC unroll 3") for (size_t l = 0, at = t->line; l < lines; l++)
    {
        line[l] = t->in + at + c;
        at += t->line_pitch;
        at -= at < t->ring ? 0 : t->ring;
    }
    const size_t pitch = t->col_pitch;
    vec first[EYELET_POOL_VECTORS];
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) first[v] = all(-EYELET_INFINITY);
    pool_column(line, lines, pitch, vectors, first);
    float *out = t->out + c;
    for (size_t pixels = t->pixels; pixels != 0; pixels--) {
        vec last[EYELET_POOL_VECTORS];
        for (size_t cols = t->tap_cols; cols > 2; cols--)
            pool_column(line, lines, pitch, vectors, first);
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) last[v] = all(-EYELET_INFINITY);
        pool_column(line, lines, pitch, vectors, last);
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
        {
            store(out + v * LANES, add(larger(last[v], first[v]), all(0.0f)));
            first[v] = last[v];
        }
        out += t->out_pitch;
    }
}

/* The channels of which there are whole vectors; returns their number. */
EYELET_INLINE size_t pool_all_sharing(const struct eyelet_pool *t, const size_t lines)
{
    size_t c = 0;
    for (; c + EYELET_POOL_VECTORS * LANES <= t->channels; c += EYELET_POOL_VECTORS * LANES)
        pool_sharing(t, lines, EYELET_POOL_VECTORS, c);
    for (; c + LANES <= t->channels; c += LANES)
        pool_sharing(t, lines, 1, c);
    return c;
}

EYELET_INLINE void pool(const struct eyelet_pool *t)
{
    size_t done = 0;
    if (t->average) {
        pool_pixels(t, 1, 0);
        return;
    }
    if (t->pixels > 1 && t->tap_cols > 1 && t->pixel_pitch == (t->tap_cols - 1) * t->col_pitch) {
        if (t->tap_lines == 2)
            done = pool_all_sharing(t, 2);
        else if (t->tap_lines == 3)
            done = pool_all_sharing(t, 3);
    }
    if (done < t->channels)
        pool_pixels(t, 0, done);
}

#endif
