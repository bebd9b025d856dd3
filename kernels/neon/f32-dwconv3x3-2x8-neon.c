/* f32 depthwise convolution with 3x3 taps, several lines at a time, 2 pixels by 8 channels, NEON, for processors
 * that reorder instructions.
 *
 * Registers: 12 accumulators and 18 vectors of the filter leave two, for a column of a line, which serves up to 18
 * multiplications, and between lines for the clamp. Two vectors in an instruction are what keeps the instructions
 * few: loads and stores are those with the fewest micro-operations. */
#include "store-neon.h"

typedef struct {
    float32x4_t v[2];
} vec;
enum { COLS = 2, STRIDE = 2, LANES = 8, NR = 8 };

struct walk {
    const float *const *at; /* the next input line */
    size_t left;
    size_t line_pitch;
    size_t offset;
    const float *bias;
    float *c; /* the next output line */
    size_t c_pitch;       /* bytes, from the second vector of a pixel to the first of the next */
    size_t c_lines_apart; /* floats, from behind its last pixel */
    const float *bounds; /* of the clamp */
    vec filter[3][3];
};

/* A copy that stays one where it is written: gcc would otherwise share registers, and copy in the loops. */
#define MOVE(to, from)                                                                                 \
    __asm__ volatile("mov %0.16b, %2.16b\n\tmov %1.16b, %3.16b"                                       \
                     : "=&w"((to).v[0]), "=w"((to).v[1])                                                \
                     : "w"((from).v[0]), "w"((from).v[1]))
#include "../dwconv3x3.h"

/* `acc += a * b`, as its instruction: from the intrinsic gcc makes copies of accumulators. */
#define MULTIPLY(acc, x0, x1, b)                                                                       \
    __asm__("fmla %0.4s, %2.4s, %4.4s\n\tfmla %1.4s, %3.4s, %5.4s"                                     \
            : "+w"((acc).v[0]), "+w"((acc).v[1])                                                       \
            : "w"(x0), "w"(x1), "w"((b).v[0]), "w"((b).v[1]))

EYELET_INLINE void begin(struct walk *k, const struct eyelet_dwconv *t, const float *w, size_t channel,
                         size_t p, const size_t n, const int kind)
{
    (void)n, (void)kind;
    k->at = t->a + p * t->stride;
    k->line_pitch = t->line_pitch;
    k->offset = t->offset + channel;
    k->bias = w;
    k->c = t->c + p * t->c_pitch + channel;
    k->c_pitch = 4 * t->c_pitch - 16;
    k->c_lines_apart = t->c_lines_apart - n * t->c_pitch;
    k->bounds = &t->min;
#pragma GCC unroll 9
    for (size_t i = 0; i < 9; i++)
        load_eight(w + (1 + i) * NR, &k->filter[i / 3][i % 3].v[0], &k->filter[i / 3][i % 3].v[1]);
}

/* The bias into an output. From memory each time: copies of a register would take turns with the multiplications. */
EYELET_INLINE void start(const struct walk *k, vec *acc)
{
    __asm__ volatile("ldp %q0, %q1, [%2]" : "=&w"(acc->v[0]), "=w"(acc->v[1]) : "r"(k->bias));
}

/* Stores an output, and steps to the next pixel. */
EYELET_INLINE void finish(struct walk *k, vec *acc, const int kind)
{
    if (kind != NONE) {
        float32x4_t bound;
        __asm__ volatile("ld1r {%0.4s}, [%1]" : "=w"(bound) : "r"(k->bounds));
        acc->v[0] = clamp(acc->v[0], bound, bound, LOWER);
        acc->v[1] = clamp(acc->v[1], bound, bound, LOWER);
    }
    if (kind == BOTH) {
        float32x4_t bound;
        __asm__ volatile("ld1r {%0.4s}, [%1]" : "=w"(bound) : "r"(k->bounds + 1));
        acc->v[0] = vminq_f32(bound, acc->v[0]);
        acc->v[1] = vminq_f32(bound, acc->v[1]);
    }
    __asm__ volatile("st1 {%1.4s}, [%0], #16\n\tst1 {%2.4s}, [%0], %3"
                     : "+r"(k->c)
                     : "w"(acc->v[0]), "w"(acc->v[1]), "r"(k->c_pitch)
                     : "memory");
}

/* A column of a line, in two registers that follow each other, as `ld1` wants them. */
#define COLUMN(k, col)                                                                                 \
    register float32x4_t x0 __asm__("v0");                                                             \
    register float32x4_t x1 __asm__("v1");                                                             \
    __asm__ volatile("ld1 {v0.4s, v1.4s}, [%2]"                                                        \
                     : "=w"(x0), "=w"(x1)                                                              \
                     : "r"((k)->at[col] + (k)->offset))

/* With stride 2 a line that ends outputs begins the next ones: in the same registers, one pixel after the other. */
EYELET_INLINE void end_and_begin(struct walk *k, vec acc[COLS], const size_t n, const int kind)
{
    vec x[3];
#pragma GCC unroll 2
    for (size_t i = 0; i < n; i++) {
        if (i != 0)
            x[0] = x[2];
#pragma GCC unroll 3
        for (size_t kx = i == 0 ? 0 : 1; kx < 3; kx++)
            __asm__ volatile("ldp %q0, %q1, [%2]"
                             : "=w"(x[kx].v[0]), "=w"(x[kx].v[1])
                             : "r"(k->at[2 * i + kx] + k->offset));
#pragma GCC unroll 3
        for (size_t kx = 0; kx < 3; kx++)
            MULTIPLY(acc[i], x[kx].v[0], x[kx].v[1], k->filter[2][kx]);
        finish(k, &acc[i], kind);
        start(k, &acc[i]);
#pragma GCC unroll 3
        for (size_t kx = 0; kx < 3; kx++)
            MULTIPLY(acc[i], x[kx].v[0], x[kx].v[1], k->filter[0][kx]);
    }
    k->c += k->c_lines_apart;
}

EYELET_INLINE void step(struct walk *k, vec first[COLS], vec second[COLS], vec third[COLS],
                        const unsigned lines, const size_t n, const size_t stride, const int kind)
{
    if (lines & BEGINS)
        k->left--;
    if (stride == 2 && lines == (ENDS | BEGINS)) {
        end_and_begin(k, first, n, kind);
        k->at += k->line_pitch;
        return;
    }
    if (lines & BEGINS) {
#pragma GCC unroll 2
        for (size_t i = 0; i < n; i++)
            start(k, &third[i]);
    }
#pragma GCC unroll 5
    for (size_t col = 0; col < (n - 1) * stride + 3; col++) {
        COLUMN(k, col);
#pragma GCC unroll 3
        for (size_t kx = 0; kx < 3; kx++) {
            if (col >= kx && (col - kx) % stride == 0 && (col - kx) / stride < n) {
                const size_t i = (col - kx) / stride;
                if (lines & ENDS)
                    MULTIPLY(first[i], x0, x1, k->filter[2][kx]);
                if (lines & GOES_ON)
                    MULTIPLY(second[i], x0, x1, k->filter[1][kx]);
                if (lines & BEGINS)
                    MULTIPLY(third[i], x0, x1, k->filter[0][kx]);
            }
        }
    }
    if (lines & ENDS) {
#pragma GCC unroll 2
        for (size_t i = 0; i < n; i++)
            finish(k, &first[i], kind);
        k->c += k->c_lines_apart;
    }
    k->at += k->line_pitch;
}

EYELET_INLINE void enter(struct walk *k, const vec other[COLS], vec third[COLS], const size_t n)
{
    (void)k, (void)other, (void)third, (void)n;
}

EYELET_INLINE void leave(struct walk *k, vec first[COLS], const size_t n, const int kind)
{
    (void)k, (void)first, (void)n, (void)kind;
}

EYELET_INLINE void several(const struct eyelet_dwconv *t, const int kind)
{
    EYELET_STRIPS_OF_LINES(t, 0, t->channels, kind, EYELET_STRIP_CASE(1) EYELET_STRIP_CASE(2))
}

void eyelet_f32_dwconv3x3_2x8__neon(const struct eyelet_dwconv *t)
{
    switch (bounds(t->min, t->max)) {
        case NONE:
            several(t, NONE);
            break;
        case LOWER:
            several(t, LOWER);
            break;
        default:
            several(t, BOTH);
            break;
    }
}
