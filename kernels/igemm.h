/* The contract of the f32_igemm kernels: some output pixels by one panel of an implicit GEMM.
 *
 * Rows are output pixels, columns are output channels of one panel of packed weights. Rows are computed in
 * strips, a tile each: the first `rows % strips` strips have one row more than the others. The
 * reduction of a pixel is `segments` runs of `seg_len` adjacent floats, each found through a pointer,
 * so activations are read where they lie. Every output is one chain of fused multiply-adds, bias first,
 * then k in order, and the residual; longer reductions are several calls (`kernels/table/chains.rs`). A chain
 * can be computed by several calls, too: those after the first have what is there already for a bias.
 * `kernels/table/igemm.rs` has the same record and calls with bounds checked.
 *
 * A kernel goes through the strips on a copy of the record, in which `a`, `c`, `residual` and `next` are those
 * of the strip at hand. */
#ifndef EYELET_IGEMM_H
#define EYELET_IGEMM_H

#include "kernel.h"

struct eyelet_igemm {
    const float *const *a; /* strip by strip [segments][rows of the strip]: the runs of each pixel */
    size_t offset;         /* floats, added to each of these pointers: the group's first channel */
    size_t rows;           /* at least 1 */
    size_t strips;         /* so many that each has 1 to MR rows */
    size_t nr;             /* columns that are stored: 1 to NR */
    size_t width;          /* floats from the weights of a k to those of the next: 1 to NR */
    size_t segments;       /* at least 1 */
    size_t seg_len;        /* floats in a run, at least 1 */
    const float *bias;     /* [NR] for each row; may be `c` */
    size_t bias_pitch;     /* floats from the bias of a row to that of the next; 0 where all have the same */
    const float *panel;    /* [segments * seg_len][width], of which each k is read as if it had NR: the last one has */
    float *c;              /* the output */
    size_t c_pitch;        /* floats from one of its rows to the next */
    const float *residual; /* added before the clamp; may be `c`; null when there is none */
    size_t residual_pitch; /* floats from one of its rows to the next */
    float min;             /* the clamp; infinite where there is none, never a positive zero */
    float max;
    /* Hints, of which a kernel may follow less or nothing. */
    const char *next;  /* fetched into the second-level cache on the way: weights that are used soon */
    size_t next_step;  /* bytes of it for each k of a strip; at most two lines of 64 bytes */
    size_t next_share; /* bytes of it from one strip's part to the next's; 0: only the first strip fetches */
};

/* Steps over a strip of `mr` rows. */
EYELET_INLINE void eyelet_next_strip(struct eyelet_igemm *t, const size_t mr)
{
    t->a += mr * t->segments;
    t->bias += mr * t->bias_pitch;
    t->c += mr * t->c_pitch;
    if (t->residual)
        t->residual += mr * t->residual_pitch;
    t->next += t->next_share;
    if (t->next_share == 0)
        t->next_step = 0;
}

/* `count` strips of `n` rows, each by `tile`, in a body of its own with all accumulators in registers. What a tile
 * needs of the record is read when it is needed: kept over strips, it would take registers from accumulators. */
#define EYELET_STRIPS_CASE(n, ...)                                                                     \
    case n:                                                                                            \
        for (; count != 0; count--, eyelet_next_strip(t, n)) {                                         \
            EYELET_KEEP(t);                                                                            \
            tile(t, n, ##__VA_ARGS__);                                                                 \
        }                                                                                              \
        break;

/* All strips of a call: those that have a row more, then the others. What follows are the cases. */
#define EYELET_STRIPS(call, ...)                                                                       \
    do {                                                                                               \
        struct eyelet_igemm own = *(call), *t = &own;                                                  \
        const size_t longer = own.rows % own.strips;                                                   \
        for (int pass = 0; pass < 2; pass++) {                                                         \
            size_t count = pass == 0 ? longer : own.strips - longer;                                   \
            switch (own.rows / own.strips + (pass == 0)) {                                             \
                __VA_ARGS__                                                                            \
            }                                                                                          \
        }                                                                                              \
    } while (0)

#endif
