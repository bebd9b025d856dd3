/* f32 depthwise convolution with 3x3 taps, several lines at a time, 4 pixels by 16 channels, AVX-512 F.
 *
 * Registers: 12 accumulators, 9 vectors of the filter; what is loaded of a line serves up to nine multiplications.
 * Loads and stores are masked for the last channels only. */
#include <immintrin.h>
#include <stddef.h>

typedef __m512 vec;
enum { COLS = 4, STRIDE = 2, LANES = 16, NR = 32 };

/* Bodies: for all channels of a vector, and for some. */
enum { WHOLE, MASKED };

struct walk {
    const float *const *at; /* the next input line */
    size_t left;
    size_t line_pitch, offset;
    float *c; /* the next output line */
    size_t c_pitch, c_lines_apart;
    __mmask16 mask;
    vec bias, min, max;
    vec filter[3][3];
};

#define MOVE(to, from) ((to) = (from))

#include "../dwconv3x3.h"

EYELET_INLINE void begin(struct walk *k, const struct eyelet_dwconv *t, const float *w, size_t channel,
                         size_t p, const size_t n, const int kind)
{
    (void)n;
    k->at = t->a + p * t->stride;
    k->line_pitch = t->line_pitch;
    k->offset = t->offset + channel;
    k->c = t->c + p * t->c_pitch + channel;
    k->c_pitch = t->c_pitch;
    k->c_lines_apart = t->c_lines_apart;
    k->mask = kind == MASKED ? (__mmask16)((1u << (t->channels - channel)) - 1) : 0;
    k->bias = _mm512_loadu_ps(w);
    k->min = _mm512_set1_ps(t->min);
    k->max = _mm512_set1_ps(t->max);
#pragma GCC unroll 9
    for (size_t i = 0; i < 9; i++)
        k->filter[i / 3][i % 3] = _mm512_loadu_ps(w + (1 + i) * NR);
}

EYELET_INLINE vec column(const struct walk *k, const size_t col, const int kind)
{
    const float *x = k->at[col] + k->offset;
    return kind == WHOLE ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(k->mask, x);
}

EYELET_INLINE void finish(const struct walk *k, const vec acc, const size_t i, const int kind)
{
    const vec v = _mm512_min_ps(k->max, _mm512_max_ps(k->min, acc));
    if (kind == WHOLE)
        _mm512_storeu_ps(k->c + i * k->c_pitch, v);
    else
        _mm512_mask_storeu_ps(k->c + i * k->c_pitch, k->mask, v);
}

/* With stride 2 a line that ends outputs begins the next ones: in the same registers, one pixel after the other. */
EYELET_INLINE void end_and_begin(const struct walk *k, vec first[COLS], vec third[COLS], const size_t n, const int kind)
{
    vec x[3];
#pragma GCC unroll 4
    for (size_t i = 0; i < n; i++) {
        x[0] = i == 0 ? column(k, 0, kind) : x[2];
        x[1] = column(k, 2 * i + 1, kind);
        x[2] = column(k, 2 * i + 2, kind);
#pragma GCC unroll 3
        for (size_t kx = 0; kx < 3; kx++)
            first[i] = _mm512_fmadd_ps(x[kx], k->filter[2][kx], first[i]);
        finish(k, first[i], i, kind);
        third[i] = k->bias;
#pragma GCC unroll 3
        for (size_t kx = 0; kx < 3; kx++)
            third[i] = _mm512_fmadd_ps(x[kx], k->filter[0][kx], third[i]);
    }
}

EYELET_INLINE void step(struct walk *k, vec first[COLS], vec second[COLS], vec third[COLS],
                        const unsigned lines, const size_t n, const size_t stride, const int kind)
{
    if (stride == 2 && lines == (ENDS | BEGINS)) {
        end_and_begin(k, first, third, n, kind);
    } else {
        if (lines & BEGINS) {
#pragma GCC unroll 4
            for (size_t i = 0; i < n; i++)
                third[i] = k->bias;
        }
#pragma GCC unroll 9
        for (size_t col = 0; col < (n - 1) * stride + 3; col++) {
            const vec x = column(k, col, kind);
#pragma GCC unroll 3
            for (size_t kx = 0; kx < 3; kx++) {
                if (col >= kx && (col - kx) % stride == 0 && (col - kx) / stride < n) {
                    const size_t i = (col - kx) / stride;
                    if (lines & ENDS)
                        first[i] = _mm512_fmadd_ps(x, k->filter[2][kx], first[i]);
                    if (lines & GOES_ON)
                        second[i] = _mm512_fmadd_ps(x, k->filter[1][kx], second[i]);
                    if (lines & BEGINS)
                        third[i] = _mm512_fmadd_ps(x, k->filter[0][kx], third[i]);
                }
            }
        }
        if (lines & ENDS) {
#pragma GCC unroll 4
            for (size_t i = 0; i < n; i++)
                finish(k, first[i], i, kind);
        }
    }
    if (lines & ENDS)
        k->c += k->c_lines_apart;
    if (lines & BEGINS)
        k->left--;
    k->at += k->line_pitch;
}

EYELET_INLINE void pair(struct walk *k, vec first[COLS], vec third[COLS], const size_t n, const int kind)
{
    step(k, first, first, third, ENDS | BEGINS, n, 2, kind);
    step(k, third, third, third, GOES_ON, n, 2, kind);
}

EYELET_INLINE void enter(struct walk *k, const vec other[COLS], vec third[COLS], const size_t n, const size_t stride)
{
    (void)k, (void)other, (void)third, (void)n, (void)stride;
}

EYELET_INLINE void leave(struct walk *k, vec first[COLS], const size_t n, const size_t stride, const int kind)
{
    (void)k, (void)first, (void)n, (void)stride, (void)kind;
}

EYELET_INLINE void several(const struct eyelet_dwconv *t, size_t from, size_t end, const int kind)
{
    EYELET_STRIPS_OF_LINES(t, from, end, kind,
                           EYELET_STRIP_CASE(1)
                           EYELET_STRIP_CASE(2)
                           EYELET_STRIP_CASE(3)
                           EYELET_STRIP_CASE(4))
}

void eyelet_f32_dwconv3x3_4x16__avx512(const struct eyelet_dwconv *t)
{
    const size_t whole = t->channels / LANES * LANES;
    several(t, 0, whole, WHOLE);
    if (whole != t->channels)
        several(t, whole, t->channels, MASKED);
}
