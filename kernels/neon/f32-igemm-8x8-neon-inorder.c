/* f32 implicit GEMM, 8 pixels by 8 channels, NEON with 64-bit loads, for processors that do not reorder
 * instructions: Cortex-A53 and Cortex-A55.
 *
 * There a 128-bit load issues beside nothing. Vectors are therefore loaded in two halves: the lower by
 * `ldr d`, the upper through an integer register and `ins`. A vector of activations holds two adjacent k
 * of two rows, so that two k of a whole tile take eight such loads; they are spread between the 32
 * multiplications of the two k before, for which a second set of registers is there.
 *
 * On an A53 `ldr d` and `ins` issue beside each other but not beside `fmla`; nor may a vector load issue
 * in the fourth cycle after an `fmla`. So there is one pair of them every fourth cycle: that lies four
 * cycles after the pair before. On an A55 each of the three issues beside an `fmla`.
 *
 * The order is that of the text: each instruction is a volatile statement of its own. They only read
 * memory, which nothing here writes before all are done. */
#include "f32-igemm-8x8-neon.h"

/* Bytes of the panel that are fetched into the cache before they are needed. */
enum { AHEAD = 1024 };

/* The operands of two k: of rows 2p and 2p + 1 in `a[p]`, and of both vectors of each k in `b`. */
struct operands {
    float32x4_t a[MR / 2];
    float32x4_t b[4];
};

/* Where operands come from. */
struct source {
    const float *row[MR]; /* the last two k that the loop loads */
    int64_t at;           /* bytes from there to the next two k */
    const float *w;       /* the panel, from the next k on */
    uint64_t upper;       /* the upper half of the vector that is being loaded */
};

/* Vectors of a tile of `mr` rows for two k, in the order in which they are needed: the first two rows,
 * the first of the panel, the other rows, the rest of the panel. */
EYELET_INLINE size_t vectors(const size_t mr) { return (mr + 1) / 2 + 4; }

/* Vector `j` is of rows 2p and 2p + 1, or number p - 4 of the panel. */
EYELET_INLINE size_t which(const size_t j, const size_t mr)
{
    const size_t pairs = (mr + 1) / 2;
    if (j == 0)
        return 0;
    if (j == 1)
        return 4;
    return j <= pairs ? j - 1 : j - pairs + 4;
}

EYELET_INLINE void load_lower(struct operands *to, struct source *from, const size_t j, const size_t mr)
{
    const size_t p = which(j, mr);
    if (p < 4)
        __asm__ volatile("ldr %d0, [%1, %2]" : "=w"(to->a[p]) : "r"(from->row[2 * p]), "r"(from->at));
    else
        __asm__ volatile("ldr %d0, [%1, %2]" : "=w"(to->b[p - 4]) : "r"(from->w), "i"(16 * (p - 4)));
}

EYELET_INLINE void load_upper(struct source *from, const size_t j, const size_t mr)
{
    const size_t p = which(j, mr);
    if (p < 4 && 2 * p + 1 < mr)
        __asm__ volatile("ldr %0, [%1, %2]"
                         : "=r"(from->upper)
                         : "r"(from->row[2 * p + 1]), "r"(from->at));
    else if (p >= 4)
        __asm__ volatile("ldr %0, [%1, %2]"
                         : "=r"(from->upper)
                         : "r"(from->w), "i"(16 * (p - 4) + 8));
}

EYELET_INLINE void insert_upper(struct operands *to, const struct source *from, const size_t j,
                                const size_t mr)
{
    const size_t p = which(j, mr);
    if (p < 4 && 2 * p + 1 < mr)
        __asm__ volatile("ins %0.d[1], %1" : "+w"(to->a[p]) : "r"(from->upper));
    else if (p >= 4)
        __asm__ volatile("ins %0.d[1], %1" : "+w"(to->b[p - 4]) : "r"(from->upper));
}

/* Multiplies by the operands of two k and, where there is a `next`, loads those of the two k that follow. */
EYELET_INLINE void two_k(float32x4_t acc[MR][2], const struct operands *now, struct operands *next,
                         struct source *from, const size_t mr)
{
    const size_t count = vectors(mr), multiplications = 4 * mr;
    /* The last `ins` stands alone, in the fourth cycle before the first load of the next two k. */
    const size_t last = multiplications < 3 * count + 3 ? 3 * count : multiplications - 3;
#pragma GCC unroll 40
    for (size_t m = 0; m < multiplications || m <= last; m++) {
        const size_t j = m / 3;
        const int loads = next && j < count && m % 3 == 0;
        if (loads)
            load_lower(next, from, j, mr);
        if (loads && j != 0)
            insert_upper(next, from, j - 1, mr);
        if (next && m == last)
            insert_upper(next, from, count - 1, mr);
        if (m < multiplications) {
            const size_t k = m / (2 * mr), half = m / mr % 2, i = m % mr;
            __asm__ volatile("fmla %0.4s, %1.4s, %2.s[%3]"
                             : "+w"(acc[i][half])
                             : "w"(now->b[2 * k + half]), "w"(now->a[i / 2]), "i"(2 * (i % 2) + k));
        }
        if (loads)
            load_upper(from, j, mr);
        if (next && m == last - 1)
            __asm__ volatile("prfm pldl1keep, [%0, %1]" : : "r"(from->w), "i"(AHEAD));
        if (next && m == last)
            __asm__ volatile("add %0, %0, #8" : "+r"(from->at));
        if (next && m == (last < multiplications - 1 ? last + 1 : last))
            __asm__ volatile("add %0, %0, #64" : "+r"(from->w));
    }
}

EYELET_INLINE void tile(const struct eyelet_igemm *t, const size_t mr)
{
    float32x4_t acc[MR][2];
    start(t->bias, t->bias_pitch, acc, mr);

    struct source from;
    from.w = t->panel;
    const float *const *a = t->a;
    for (size_t s = t->segments; s != 0; s--) {
        const size_t fours = t->width < NR ? 0 : t->seg_len / 4;
        const float *row[MR];
#pragma GCC unroll 8
        for (size_t i = 0; i < mr; i++)
            row[i] = a[i] + t->offset;
        a += mr;
        if (fours != 0) {
            struct operands even, odd;
            const size_t count = vectors(mr);
            from.at = 8 - 16 * (int64_t)fours;
#pragma GCC unroll 8
            for (size_t i = 0; i < mr; i++) {
                row[i] += 4 * fours;
                from.row[i] = row[i] - 2;
            }
#pragma GCC unroll 8
            for (size_t j = 0; j < count; j++) {
                load_lower(&even, &from, j, mr);
                load_upper(&from, j, mr);
                insert_upper(&even, &from, j, mr);
            }
            from.at += 8;
            from.w += 2 * NR;
            while (from.at != 0) {
                two_k(acc, &even, &odd, &from, mr);
                two_k(acc, &odd, &even, &from, mr);
            }
            two_k(acc, &even, &odd, &from, mr);
            two_k(acc, &odd, NULL, &from, mr);
        }
        from.w = rest(acc, row, from.w, t->width, t->seg_len - 4 * fours, mr);
    }
    finish(t, acc, mr);
}

void eyelet_f32_igemm_8x8__neon_inorder(const struct eyelet_igemm *call)
{
    EYELET_STRIPS(call,
                  EYELET_STRIPS_CASE(1)
                  EYELET_STRIPS_CASE(2)
                  EYELET_STRIPS_CASE(3)
                  EYELET_STRIPS_CASE(4)
                  EYELET_STRIPS_CASE(5)
                  EYELET_STRIPS_CASE(6)
                  EYELET_STRIPS_CASE(7)
                  EYELET_STRIPS_CASE(8));
}
