/* The body of the f32_pool kernels, for whichever vectors the including source defines (`vector.h`).
 *
 * A block of channels stays in registers over all taps. Blocks of eight vectors have enough chains to hide the
 * latency of an addition; the last ones are smaller. Where windows of maxima share a column with the next, its maximum
 * is taken once for both. */
#ifndef EYELET_POOL_LOOPS_H
#define EYELET_POOL_LOOPS_H

#include "pool.h"
#include "vector.h"

/* Sums of one block, and of several. */
enum pooling { MAXIMUM, MEAN, LONG_MEAN };

/* Vector `v` of the `vectors` of a tap; the last one has `n` floats. */
EYELET_INLINE vec load_tap(const float *tap, int v, int vectors, size_t n)
{
    const float *from = tap + v * LANES;
    return n == LANES || v + 1 < vectors ? load(from) : load_some(from, n);
}

/* The maxima of a line of taps and of `acc`. */
EYELET_INLINE void pool_line_max(const struct eyelet_pool *t, const float *tap, int vectors, size_t n, vec acc[])
{
    size_t col = 0;
    for (; col + 2 <= t->tap_cols; col += 2) {
        const float *next = tap + t->col_pitch;
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
            acc[v] = largest_of(load_tap(tap, v, vectors, n), load_tap(next, v, vectors, n), acc[v]);
        tap = next + t->col_pitch;
    }
    if (col < t->tap_cols)
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
            acc[v] = largest(load_tap(tap, v, vectors, n), acc[v]);
}

/* `vectors` vectors of channels of one pixel; of the last one `n` floats. */
EYELET_INLINE void pool_block(
    const struct eyelet_pool *t, const enum pooling pooling, int vectors, const float *in, float *out, size_t n)
{
    vec acc[8], total[8], lost[8];
    _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
    {
        acc[v] = all(pooling == MAXIMUM ? -EYELET_INFINITY : 0.0f);
        total[v] = lost[v] = all(0.0f);
    }
    size_t left = EYELET_BLOCK;
    for (size_t line = 0, at = t->line; line < t->tap_lines; line++) {
        const float *tap = in + at;
        at += t->line_pitch;
        at -= at < t->ring ? 0 : t->ring;
        if (pooling == MAXIMUM) {
            pool_line_max(t, tap, vectors, n, acc);
            continue;
        }
        for (size_t col = 0; col < t->tap_cols; col++) {
            vec x[8];
            _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) x[v] = load_tap(tap, v, vectors, n);
            _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) acc[v] = add(acc[v], x[v]);
            tap += t->col_pitch;
            if (pooling == LONG_MEAN && --left == 0) {
                _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
                {
                    join(&total[v], &lost[v], acc[v]);
                    acc[v] = all(0.0f);
                }
                left = EYELET_BLOCK;
            }
        }
    }
    _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
    {
        if (pooling == LONG_MEAN) {
            join(&total[v], &lost[v], acc[v]);
            acc[v] = joined(total[v], lost[v]);
        }
        const vec y = pooling == MAXIMUM ? add(acc[v], all(0.0f)) : over(acc[v], all(t->count));
        if (n == LANES || v + 1 < vectors)
            store(out + v * LANES, y);
        else
            store_some(out + v * LANES, y, n);
    }
}

/* The pixels' channels from `start` on. */
EYELET_INLINE void pool_pixels(const struct eyelet_pool *t, const enum pooling pooling, const size_t start)
{
    for (size_t pixel = 0; pixel < t->pixels; pixel++) {
        const float *in = t->in + pixel * t->pixel_pitch;
        float *out = t->out + pixel * t->out_pitch;
        size_t c = start;
        for (; c + 8 * LANES <= t->channels; c += 8 * LANES)
            pool_block(t, pooling, 8, in + c, out + c, LANES);
        if (c + 4 * LANES <= t->channels) {
            pool_block(t, pooling, 4, in + c, out + c, LANES);
            c += 4 * LANES;
        }
        for (; c + LANES <= t->channels; c += LANES)
            pool_block(t, pooling, 1, in + c, out + c, LANES);
        if (c < t->channels)
            pool_block(t, pooling, 1, in + c, out + c, t->channels - c);
    }
}

enum { EYELET_POOL_LINES = 3, EYELET_POOL_VECTORS = 4 };

/* The maxima of a column of taps, of two or three lines, and of `acc`; the next column. */
EYELET_INLINE void pool_column(const float *line[], const size_t lines, const size_t pitch, const int vectors, vec acc[])
{
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++)
    {
        acc[v] = largest_of(load(line[0] + v * LANES), load(line[1] + v * LANES), acc[v]);
        if (lines == 3)
            acc[v] = largest(load(line[2] + v * LANES), acc[v]);
    }
    _Pragma("GCC unroll 3") for (size_t l = 0; l < lines; l++)
    {
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
            store(out + v * LANES, add(largest(last[v], first[v]), all(0.0f)));
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
        if (t->tap_lines > EYELET_BLOCK || t->tap_lines * t->tap_cols > EYELET_BLOCK)
            pool_pixels(t, LONG_MEAN, 0);
        else
            pool_pixels(t, MEAN, 0);
        return;
    }
    if (t->pixels > 1 && t->tap_cols > 1 && t->pixel_pitch == (t->tap_cols - 1) * t->col_pitch) {
        if (t->tap_lines == 2)
            done = pool_all_sharing(t, 2);
        else if (t->tap_lines == 3)
            done = pool_all_sharing(t, 3);
    }
    if (done < t->channels)
        pool_pixels(t, MAXIMUM, done);
}

#endif
