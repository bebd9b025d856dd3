/* Panels of two vectors of channels, of which the last one of a layer may have fewer. The including source includes its
 * `vector-ISA.h` first. */
#ifndef EYELET_X86_PANEL_H
#define EYELET_X86_PANEL_H

enum { NR = 2 * LANES };

/* The channels of each vector that are there. */
struct ends {
    lanes low, high;
};

/* Of a panel with so many channels left, or more. */
EYELET_INLINE struct ends ends(size_t left)
{
    return (struct ends){
        lanes_below(left < LANES ? left : LANES),
        lanes_below(left < LANES ? 0 : left < NR ? left - LANES : LANES),
    };
}

/* Masks cost time, at the stores most: `whole` where all channels of the panel are there. */
EYELET_INLINE vec load_end(const float *p, lanes m, const size_t whole)
{
    return whole ? load(p) : load_where(p, m);
}

EYELET_INLINE void store_end(float *p, vec v, lanes m, const size_t whole)
{
    if (whole)
        store(p, v);
    else
        store_where(p, v, m);
}

/* The sums of `n` pixels begin with the panel's biases, at `w`. */
EYELET_INLINE void begin_pixels(vec (*acc)[2], const size_t n, const float *w)
{
    const vec bias0 = load(w), bias1 = load(w + LANES);
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) {
        acc[i][0] = bias0;
        acc[i][1] = bias1;
    }
}

/* Clamps the rows of `n` pixels, with a residual's added where there is one, and stores them at `c`. */
EYELET_INLINE void store_pixels(vec (*acc)[2], const size_t n, const float *r, size_t r_pitch, float *c, size_t c_pitch,
                                const struct ends m, float lowest, float highest, const size_t whole)
{
    const vec min = all(lowest), max = all(highest);
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) {
        vec v0 = acc[i][0], v1 = acc[i][1];
        if (r) {
            v0 = add(v0, load_end(r, m.low, whole));
            v1 = add(v1, load_end(r + LANES, m.high, whole));
            r += r_pitch;
        }
        store_end(c, smaller(max, larger(min, v0)), m.low, whole);
        store_end(c + LANES, smaller(max, larger(min, v1)), m.high, whole);
        c += c_pitch;
    }
}

#endif
