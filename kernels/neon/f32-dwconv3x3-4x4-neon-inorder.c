/* f32 depthwise convolution with 3x3 taps, several lines at a time, 4 pixels by 4 channels, NEON with 64-bit loads,
 * for processors that do not reorder instructions: Cortex-A53 and Cortex-A55.
 *
 * With stride 1. Registers: 12 accumulators, 9 vectors of the filter, 6 of a line; what is loaded of it serves up to nine
 * multiplications. `f32-igemm-8x8-neon-inorder.c` says how such processors load: a vector in halves, in every fourth
 * cycle the lower half of one and `ins` for the upper half of the one before. So a line of four pixels has twelve
 * places beside its 36 multiplications, and its ten vectors, six columns and four biases, have each their own in `slot`:
 * after the last use of what was in their register, before their first. Columns are those of the next line
 * where this one's are done with. What ends is stored (and clamped) as late as in the line that follows.
 *
 * With stride 2. Registers: 8 accumulators, 9 vectors of the filter, the bias, 7 of two lines, of which 18 vectors serve 36
 * multiplications: on the line that ends outputs and begins others one place after every three, on the other before each. A
 * load issues in no fourth cycle after an `fmla`, so the second of two loads in four cycles begins with a copy of the bias in
 * its place. The upper half of a vector takes two cycles, so `ins` comes two places after the load. */
#include "store-neon.h"

typedef float32x4_t vec;
enum { COLS = 4, STRIDE = 2, LANES = 4, NR = 8 };

struct walk {
    const float *const *at; /* the input line */
    size_t left;
    size_t line_pitch;
    size_t lower, upper; /* bytes, added to each pointer: where halves of vectors are */
    const float *bias;
    float *c;              /* the pixel that is stored next */
    size_t c_pitch;        /* bytes to the next one of its line */
    size_t c_wrap;         /* bytes from the last one of the line that is stored to the first of the next */
    size_t c_lines_wrap;   /* the same where lines go on */
    vec min, max;
    vec begun;             /* the bias */
    vec filter[3][3];
    vec x[COLS + 3];       /* columns */
    const float *at_x[2 * COLS + 1], *at_y[2 * COLS + 1]; /* where those to be loaded next are */
    uint64_t half[2];        /* the upper half of what is being loaded */
};

#define MOVE(to, from) __asm__ volatile("mov %0.16b, %1.16b" : "=w"(to) : "w"(from))

#include "../dwconv3x3.h"

/* Statements that stay where they are. */
#define MULTIPLY(acc, a, b) __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(acc) : "w"(a), "w"(b))
#define LOAD(v, p, offset) __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(v) : "r"(p), "r"(offset))
/* As if it read the vector, so that that keeps its register. */
#define LOAD_LOWER(v, p, offset) __asm__ volatile("ldr %d0, [%1, %2]" : "+w"(v) : "r"(p), "rI"(offset))
#define LOAD_UPPER(half, p, offset) __asm__ volatile("ldr %0, [%1, %2]" : "=r"(half) : "r"(p), "rI"(offset))
#define INSERT(v, half) __asm__ volatile("ins %0.d[1], %1" : "+w"(v) : "r"(half))
#define LOAD_POINTERS(p, q, at, i)                                                                     \
    __asm__ volatile("ldp %0, %1, [%2, %3]" : "=&r"(p), "=r"(q) : "r"(at), "i"(8 * (i)))
#define LOAD_POINTER(p, at, i) __asm__ volatile("ldr %0, [%1, %2]" : "=r"(p) : "r"(at), "i"(8 * (i)))
/* A pixel, with the step to the next. */
#define STORE(v, k, bytes)                                                                             \
    __asm__ volatile("st1 {%1.4s}, [%0], %2" : "+r"((k)->c) : "w"(v), "r"(bytes) : "memory")

EYELET_INLINE void begin(struct walk *k, const struct eyelet_dwconv *t, const float *w, size_t channel,
                         size_t p, const size_t n, const int kind)
{
    (void)kind;
    k->at = t->a + p * t->stride;
    k->line_pitch = t->line_pitch;
    k->lower = 4 * (t->offset + channel);
    k->upper = k->lower + 8;
    k->bias = w;
    k->c = t->c + p * t->c_pitch + channel;
    k->c_pitch = 4 * t->c_pitch;
    k->c_lines_wrap = 4 * t->c_lines_apart - (n - 1) * k->c_pitch;
    k->c_wrap = k->c_lines_wrap;
    k->begun = vld1q_f32(w);
    k->min = vdupq_n_f32(t->min);
    k->max = vdupq_n_f32(t->max);
#pragma GCC unroll 9
    for (size_t i = 0; i < 9; i++)
        k->filter[i / 3][i % 3] = vld1q_f32(w + (1 + i) * NR);
}

/* Half of the clamp. */
EYELET_INLINE void bound(struct walk *k, vec *acc, const size_t part, const int kind)
{
    if (part == 0 && kind != NONE)
        __asm__ volatile("fmax %0.4s, %1.4s, %0.4s" : "+w"(*acc) : "w"(k->min));
    if (part == 1 && kind == BOTH)
        __asm__ volatile("fmin %0.4s, %1.4s, %0.4s" : "+w"(*acc) : "w"(k->max));
}

EYELET_INLINE void bound_two(struct walk *k, vec acc[2], const size_t part, const int kind)
{
    bound(k, &acc[0], part, kind);
    bound(k, &acc[1], part, kind);
}

/* The vector that is loaded in a place: of the columns of this line 4 and 5, and of the next the first four; the biases
 * of the outputs that this line begins, 1 to 3, and of the first that the next does. */
enum { NOTHING, COLUMN = 16, NEXT = 32, BIAS = 48, NEXT_BIAS = 64 };

EYELET_INLINE int slot(const size_t i)
{
    switch (i) {
        case 0: return COLUMN + 4;
        case 1: return BIAS + 1;
        case 2: return COLUMN + 5;
        case 3: return NEXT + 0;
        case 4: return BIAS + 2;
        case 5: return NEXT + 1;
        case 6: return NEXT + 2;
        case 7: return BIAS + 3;
        case 9: return NEXT + 3;
        case 10: return NEXT_BIAS + 0;
        default: return NOTHING;
    }
}

/* The register of such a vector. */
EYELET_INLINE vec *target(struct walk *k, vec *first, vec *third, const int what)
{
    const int i = what % 16;
    return what >= NEXT_BIAS ? &first[i] : what >= BIAS ? &third[i] : &k->x[i];
}

/* A line of four pixels with stride 1 in the middle: those that it finds in registers are columns 0 to 3 and the
 * bias of the first output that it begins. */
EYELET_INLINE void inner(struct walk *k, vec first[COLS], vec second[COLS], vec third[COLS], const int kind)
{
    size_t m = 0;
#pragma GCC unroll 6
    for (size_t col = 0; col < 6; col++) {
#pragma GCC unroll 3
        for (size_t row = 0; row < 3; row++) {
            /* The same accumulator comes after at least four others. */
            const size_t ky = 2 - row;
#pragma GCC unroll 3
            for (size_t turn = 0; turn < 3; turn++) {
                const size_t kx = ky == 0 && col < 4 ? 2 - turn : turn;
                if (col < kx || col - kx >= 4)
                    continue;
                const int what = slot(m / 3), before = m < 3 ? NOTHING : slot(m / 3 - 1);
                if (m % 3 == 0) {
                    if (what >= BIAS)
                        LOAD_LOWER(*target(k, first, third, what), k->bias, 0);
                    else if (what)
                        LOAD_LOWER(k->x[what % 16], k->at_x[what % 16], k->lower);
                    if (before)
                        INSERT(*target(k, first, third, before), k->half[0]);
                    /* Here a step of the clamp does not put the next load into the fourth cycle after an `fmla`. */
                    bound(k, m < 18 ? &third[2 + m / 9] : &first[m / 9 - 2], m / 3 % 3, kind);
                }
                vec *acc = ky == 2 ? first : ky == 1 ? second : third;
                MULTIPLY(acc[col - kx], k->x[col], k->filter[ky][kx]);
                if (m % 3 == 0 && what >= BIAS)
                    LOAD_UPPER(k->half[0], k->bias, 8);
                else if (m % 3 == 0 && what)
                    LOAD_UPPER(k->half[0], k->at_x[what % 16], k->upper);
                switch (m) {
                    case 1: STORE(third[1], k, k->c_pitch); break;
                    case 4: LOAD_POINTERS(k->at_x[0], k->at_x[1], k->at, 0); break;
                    case 7: __asm__ volatile("sub %0, %0, #1" : "+r"(k->left)); break;
                    case 10: STORE(third[2], k, k->c_pitch); break;
                    case 13: LOAD_POINTERS(k->at_x[2], k->at_x[3], k->at, 2); break;
                    case 19: STORE(third[3], k, k->c_wrap); break;
                    case 25: LOAD_POINTERS(k->at_x[4], k->at_x[5], k->at, 4); break;
                    case 28: STORE(first[0], k, k->c_pitch); break;
                    case 31: __asm__ volatile("add %0, %0, %1, lsl #3" : "+r"(k->at) : "r"(k->line_pitch)); break;
                    case 34: __asm__ volatile("mov %0, %1" : "=r"(k->c_wrap) : "r"(k->c_lines_wrap)); break;
                }
                m++;
            }
        }
    }
}

/* A place of `pair`: what it loads, of the columns of the line that ends and begins, of the one that goes on, or
 * of the next one that ends and begins. */
enum { ENDING = 16, GOING = 32, NEXT_ENDING = 48 };

EYELET_INLINE int place(const size_t m)
{
    switch (m) {
        case 0: return ENDING + 6;
        case 3: return ENDING + 5;
        case 6: return ENDING + 7;
        case 9: return ENDING + 8;
        case 12: return GOING + 0;
        case 15: return GOING + 2;
        case 18: return GOING + 4;
        case 21: return GOING + 6;
        case 24: return GOING + 1;
        case 26: return GOING + 3;
        case 27: return GOING + 5;
        case 28: return GOING + 7;
        case 29: return NEXT_ENDING + 0;
        case 30: return NEXT_ENDING + 2;
        case 31: return NEXT_ENDING + 1;
        case 32: return GOING + 8;
        case 33: return NEXT_ENDING + 3;
        case 34: return NEXT_ENDING + 4;
        default: return NOTHING;
    }
}

/* The registers that hold these columns in turn: seven, as no more are needed at a time. */
EYELET_INLINE vec *held(struct walk *k, const int what)
{
    static const unsigned char ending[] = {0, 2, 1, 3, 4, 0, 5, 6, 2};
    static const unsigned char going[] = {1, 0, 3, 1, 4, 2, 6, 5, 5};
    return &k->x[(what & ~15) == GOING ? going[what % 16] : ending[what % 16]];
}

/* Two lines of four pixels with stride 2: one that ends outputs and begins others, pixel 0 and 1 and then 2 and 3,
 * and one that goes on with those. It finds columns 0 to 3 in registers, and the biases of
 * pixels 0 and 1. */
EYELET_INLINE void inner_pair(struct walk *k, vec first[COLS], vec third[COLS], const int kind)
{
    int before = place(33), last = place(34);
    size_t turn = 0;
#pragma GCC unroll 36
    for (size_t m = 0; m < 36; m++) {
        const int what = place(m);
        const float *at = (what & ~15) == GOING ? k->at_y[what % 16] : k->at_x[what % 16];
        if (what) {
            LOAD_LOWER(*held(k, what), at, k->lower);
            INSERT(*held(k, before), k->half[turn % 2]);
            before = last;
            last = what;
        }
        switch (m) {
            case 3: MOVE(third[2], k->begun); break;
            case 6: MOVE(third[3], k->begun); break;
            case 25: MOVE(first[0], k->begun); break;
            case 35:
                MOVE(first[1], k->begun);
                LOAD_POINTERS(k->at_x[6], k->at_x[7], k->at, 6);
                break;
            default: break;
        }
        /* As late as an `fmla` takes that is not followed by one of the same sum. */
        switch (m) {
            case 15: bound_two(k, &first[0], 0, kind); break;
            case 18: bound_two(k, &first[0], 1, kind); break;
            case 35: bound_two(k, &first[2], 0, kind); break;
            case 0: bound_two(k, &third[2], 1, kind); break;
            default: break;
        }
        const size_t kx = m % 12 / 4;
        if (m >= 24) {
            MULTIPLY(third[m % 4], *held(k, GOING + (int)(m % 4 * 2 + kx)), k->filter[1][kx]);
        } else {
            const size_t i = m / 12 * 2 + m % 2;
            if (m % 4 < 2)
                MULTIPLY(first[i], *held(k, ENDING + (int)(2 * i + kx)), k->filter[2][kx]);
            else
                MULTIPLY(third[i], *held(k, ENDING + (int)(2 * i + kx)), k->filter[0][kx]);
        }
        if (what)
            LOAD_UPPER(k->half[turn++ % 2], at, k->upper);
        switch (m) {
            case 1: LOAD_POINTER(k->at_x[8], k->at, 8); break;
            case 2: STORE(third[2], k, k->c_pitch); break;
            case 4: STORE(third[3], k, k->c_wrap); break;
            case 5: __asm__ volatile("add %0, %0, %1, lsl #3" : "+r"(k->at) : "r"(k->line_pitch)); break;
            case 7: __asm__ volatile("mov %0, %1" : "=r"(k->c_wrap) : "r"(k->c_lines_wrap)); break;
            case 8: __asm__ volatile("sub %0, %0, #1" : "+r"(k->left)); break;
            case 10: LOAD_POINTERS(k->at_y[0], k->at_y[1], k->at, 0); break;
            case 11: LOAD_POINTERS(k->at_y[2], k->at_y[3], k->at, 2); break;
            case 13: LOAD_POINTERS(k->at_y[4], k->at_y[5], k->at, 4); break;
            case 14: LOAD_POINTERS(k->at_y[6], k->at_y[7], k->at, 6); break;
            case 16: LOAD_POINTER(k->at_y[8], k->at, 8); break;
            case 17: __asm__ volatile("add %0, %0, %1, lsl #3" : "+r"(k->at) : "r"(k->line_pitch)); break;
            case 22: STORE(first[0], k, k->c_pitch); break;
            case 23: STORE(first[1], k, k->c_pitch); break;
            case 19: LOAD_POINTERS(k->at_x[0], k->at_x[1], k->at, 0); break;
            case 20: LOAD_POINTERS(k->at_x[2], k->at_x[3], k->at, 2); break;
            case 25: LOAD_POINTERS(k->at_x[4], k->at_x[5], k->at, 4); break;
            default: break;
        }
    }
}

/* What the lines in the middle find, for the first that they make. Outputs of the line before it, which ends
 * none, go where its own ones go later. */
EYELET_INLINE void enter(struct walk *k, const vec other[COLS], vec third[COLS], const size_t n, const size_t stride)
{
    if (n != 4)
        return;
    k->c_wrap = -3 * k->c_pitch;
    if (stride == 2) {
        k->c = (float *)((char *)k->c + 2 * k->c_pitch);
#pragma GCC unroll 5
        for (size_t col = 0; col < 5; col++)
            LOAD(*held(k, ENDING + (int)col), k->at[col], k->lower);
        MOVE(k->x[5], k->begun);
        MOVE(k->x[6], k->begun);
        LOAD_UPPER(k->half[0], k->at[3], k->upper);
        LOAD_UPPER(k->half[1], k->at[4], k->upper);
        LOAD_POINTERS(k->at_x[4], k->at_x[5], k->at, 4);
        LOAD_POINTERS(k->at_x[6], k->at_x[7], k->at, 6);
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            MOVE(third[i], i < 2 ? k->begun : other[i]);
        return;
    }
    k->c = (float *)((char *)k->c + k->c_pitch);
#pragma GCC unroll 6
    for (size_t col = 0; col < 6; col++)
        LOAD(k->x[col], k->at[col], k->lower);
    LOAD_POINTERS(k->at_x[4], k->at_x[5], k->at, 4);
    k->at += k->line_pitch;
    LOAD(third[0], k->bias, 0ul);
#pragma GCC unroll 4
    for (size_t i = 1; i < n; i++)
        MOVE(third[i], other[i]);
}

/* Stores what the last of these lines has ended and not stored. */
EYELET_INLINE void leave(struct walk *k, vec first[COLS], const size_t n, const size_t stride, const int kind)
{
    if (n != 4)
        return;
    if (stride == 1) {
        STORE(first[1], k, k->c_pitch);
        bound_two(k, &first[2], 0, kind);
        k->at -= k->line_pitch;
    }
    bound_two(k, &first[2], 1, kind);
    STORE(first[2], k, k->c_pitch);
    STORE(first[3], k, k->c_wrap);
}

/* Any other line. Columns are loaded one after the other: in every fourth cycle after an `fmla` none could be. What the
 * line begins comes last, beside what remains to be done with what it has ended. */
EYELET_INLINE void outer(struct walk *k, vec first[COLS], vec second[COLS], vec third[COLS],
                         const unsigned lines, const size_t n, const size_t stride, const int kind)
{
    const size_t cols = (n - 1) * stride + 3;
    const float *at[2 * COLS + 2];
    vec x[2 * COLS + 1];
#pragma GCC unroll 5
    for (size_t i = 0; i < COLS + 1; i++) {
        if ((lines & BEGINS) && i < n)
            MOVE(third[i], k->begun);
        if (2 * i + 1 < cols)
            LOAD_POINTERS(at[2 * i], at[2 * i + 1], k->at, 2 * i);
        else if (2 * i < cols)
            LOAD_POINTER(at[2 * i], k->at, 2 * i);
    }
#pragma GCC unroll 9
    for (size_t col = 0; col < cols; col++)
        LOAD(x[col], at[col], k->lower);
#pragma GCC unroll 3
    for (size_t kx = 0; kx < 3; kx++) {
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++) {
            if (lines & ENDS)
                MULTIPLY(first[i], x[i * stride + kx], k->filter[2][kx]);
            if (lines & GOES_ON)
                MULTIPLY(second[i], x[i * stride + kx], k->filter[1][kx]);
        }
    }
#pragma GCC unroll 3
    for (size_t kx = 0; kx < 3; kx++) {
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++) {
            if (lines & BEGINS)
                MULTIPLY(third[i], x[i * stride + kx], k->filter[0][kx]);
            if ((lines & ENDS) && kx != 0)
                bound(k, &first[i], kx - 1, kind);
        }
    }
    if (lines & ENDS) {
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            STORE(first[i], k, i + 1 < n ? k->c_pitch : k->c_lines_wrap);
    }
    if (lines & BEGINS)
        k->left--;
    k->at += k->line_pitch;
}

EYELET_INLINE void step(struct walk *k, vec first[COLS], vec second[COLS], vec third[COLS],
                        const unsigned lines, const size_t n, const size_t stride, const int kind)
{
    if (lines == (ENDS | GOES_ON | BEGINS) && n == 4)
        inner(k, first, second, third, kind);
    else
        outer(k, first, second, third, lines, n, stride, kind);
}

EYELET_INLINE void pair(struct walk *k, vec first[COLS], vec third[COLS], const size_t n, const int kind)
{
    if (n == 4) {
        inner_pair(k, first, third, kind);
    } else {
        outer(k, first, first, third, ENDS | BEGINS, n, 2, kind);
        outer(k, third, third, third, GOES_ON, n, 2, kind);
    }
}

EYELET_INLINE void several(const struct eyelet_dwconv *t, const int kind)
{
    EYELET_STRIPS_OF_LINES(t, 0, t->channels, kind,
                           EYELET_STRIP_CASE(1)
                           EYELET_STRIP_CASE(2)
                           EYELET_STRIP_CASE(3)
                           EYELET_STRIP_CASE(4))
}

void eyelet_f32_dwconv3x3_4x4__neon_inorder(const struct eyelet_dwconv *t)
{
    switch (bounds(t->min, t->max)) {
        case NONE:
            several(t, NONE);
            break;
        case LOWER:
            several(t, LOWER);
            break;
        case BOTH:
            several(t, BOTH);
            break;
    }
}
