/* f32 implicit GEMM, 8 pixels by 8 channels, NEON with lane multiplies, for processors that reorder
 * instructions.
 *
 * Activations are loaded where they lie, eight adjacent k of a row in one instruction: that makes 16 vectors,
 * beside 16 accumulators. Half of them are used four k later than the others, so the rows take turns: at each
 * step of four k half of the rows load eight k, while the other half still has four. Then there are 12
 * vectors at a time, and four are left for the panel, of which an instruction loads two k.
 *
 * A panel that several strips meet stays in the first-level cache; the one after it is fetched meanwhile. */
#include "f32-igemm-8x8-neon.h"

/* MOST: bytes of the next panel that a strip fetches, at most: its own loads wait behind them. Strips whose share
 * is less than a line are many, and leave the panel to the first of them that meets it. */
enum { LINE = 64, LINES = 4, MOST = 32 * LINE };

/* Operands of a row: `x[0]` of an even step, `x[1]` of an odd one. */
struct row {
    float32x4_t x[2];
};

/* Four k of all rows: the first `turn` rows are at their vector `first`, the others at the other one. Returns
 * the rest of the panel. */
EYELET_INLINE const float *four(float32x4_t acc[MR][2], const struct row rows[MR], const float *w,
                                const size_t first, const size_t turn, const size_t mr)
{
#pragma GCC unroll 2
    for (size_t k = 0; k < 4; k += 2) {
        const float32x4x4_t b = vld1q_f32_x4(w);
        w += 2 * NR;
        EYELET_KEEP(w);
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++) {
            const float32x4_t x = rows[i].x[i < turn ? first : 1 - first];
            MULTIPLY(acc[i][0], b.val[0], x, k);
            MULTIPLY(acc[i][1], b.val[1], x, k);
        }
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++) {
            const float32x4_t x = rows[i].x[i < turn ? first : 1 - first];
            MULTIPLY(acc[i][0], b.val[2], x, k + 1);
            MULTIPLY(acc[i][1], b.val[3], x, k + 1);
        }
    }
    return w;
}

/* `fours` steps of a run, at least one. Returns the rest of the panel. */
EYELET_INLINE const float *fours(float32x4_t acc[MR][2], const float *row[MR], const float *w,
                                 const size_t fours, const size_t mr)
{
    const size_t turn = (mr + 1) / 2;
    struct row rows[MR];
#pragma GCC unroll 8
    for (size_t i = turn; i < mr; i++)
        rows[i].x[1] = load_four(&row[i]);
    /* Behind the second step of each passage is a third, whose operands half of the rows load. */
    for (size_t pairs = (fours - 1) / 2; pairs != 0; pairs--) {
#pragma GCC unroll 8
        for (size_t i = 0; i < turn; i++)
            load_next_eight(&row[i], &rows[i].x[0], &rows[i].x[1]);
        w = four(acc, rows, w, 0, turn, mr);
#pragma GCC unroll 8
        for (size_t i = turn; i < mr; i++)
            load_next_eight(&row[i], &rows[i].x[0], &rows[i].x[1]);
        w = four(acc, rows, w, 1, turn, mr);
    }
    if (fours % 2 != 0) {
#pragma GCC unroll 8
        for (size_t i = 0; i < turn; i++)
            rows[i].x[0] = load_four(&row[i]);
        return four(acc, rows, w, 0, turn, mr);
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < turn; i++)
        load_next_eight(&row[i], &rows[i].x[0], &rows[i].x[1]);
    w = four(acc, rows, w, 0, turn, mr);
#pragma GCC unroll 8
    for (size_t i = turn; i < mr; i++)
        rows[i].x[0] = load_four(&row[i]);
    return four(acc, rows, w, 1, turn, mr);
}

/* Where a strip's rows are. */
struct place {
    const float *const *a;
    const float *bias;
    float *c;
    const float *residual;
    const char *next;
};

/* `count` strips of `mr` rows from `at` on. What a strip needs is stepped, not computed: with few k, what is beside
 * the multiplications is much of the time. */
EYELET_INLINE void strips(const struct eyelet_igemm *t, struct place *at, size_t count, const enum bounds bounds,
                          const size_t mr)
{
    const size_t share = t->next_share >= LINE ? t->next_share : 0;
    const size_t fetched = share < MOST ? share : MOST;
    const size_t width = t->width;
    const size_t fours_of = width < NR ? 0 : t->seg_len / 4, rest_of = t->seg_len - 4 * fours_of;
    const size_t offset = sizeof(float) * t->offset;
    const size_t pitch = sizeof(float) * t->c_pitch;
    for (; count != 0; count--) {
        if (fetched != 0) {
            const char *const end = at->next + fetched;
            for (const char *line = at->next; line < end; line += LINES * LINE) {
#pragma GCC unroll 4
                for (size_t i = 0; i < LINES; i++)
                    __builtin_prefetch(line + i * LINE, 0, 2);
            }
            at->next += share;
        }

        float32x4_t acc[MR][2];
        start(at->bias, t->bias_pitch, acc, mr);
        at->bias += mr * t->bias_pitch;
        const float *w = t->panel;
        for (size_t s = t->segments; s != 0; s--) {
            const float *row[MR];
            next_rows(&at->a, row, mr);
            if (offset != 0) {
#pragma GCC unroll 8
                for (size_t i = 0; i < mr; i++)
                    row[i] = (const float *)((const char *)row[i] + offset);
            }
            if (fours_of != 0)
                w = fours(acc, row, w, fours_of, mr);
            if (rest_of != 0)
                w = rest(acc, row, w, width, rest_of, mr);
        }

        if (t->nr < NR) {
            at->c = store_columns(t, acc, mr, at->c, at->residual);
            if (at->residual)
                at->residual += mr * t->residual_pitch;
            continue;
        }
        if (at->residual)
            at->residual = add_next_rows(acc, mr, at->residual, sizeof(float) * t->residual_pitch);
        at->c = store_next_rows(acc, mr, at->c, pitch, &t->min, &t->max, bounds);
    }
}

#define STRIPS(n)                                                                                      \
    case n:                                                                                            \
        strips(t, &at, count, clamped, n);                                                             \
        break;

void eyelet_f32_igemm_8x8__neon(const struct eyelet_igemm *t)
{
    struct place at = {t->a, t->bias, t->c, t->residual, t->next};
    const enum bounds clamped = bounds(t->min, t->max);
    const size_t rows = t->rows / t->strips, longer = t->rows % t->strips;
    for (int pass = longer != 0 ? 0 : 1; pass < 2; pass++) {
        const size_t count = pass == 0 ? longer : t->strips - longer;
        switch (rows + (pass == 0)) {
            STRIPS(1)
            STRIPS(2)
            STRIPS(3)
            STRIPS(4)
            STRIPS(5)
            STRIPS(6)
            STRIPS(7)
            STRIPS(8)
        }
    }
}
