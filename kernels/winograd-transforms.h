/* The bodies of the f32_winograd kernels, for whichever vectors the including source defines (`vector.h`).
 *
 * Points of F(2,3): 0, 1, -1, infinity. Points of F(4,3): 0, +-A, +-B, infinity with A = 3/4, B = 3/2, which
 * loses a third of what the usual 1 and 2 lose; all constants are exact. `kernels/portable/winograd.rs` is
 * the same arithmetic, operation by operation. */
#include "vector.h"
#include "winograd.h"

#define EYELET_A 0.75f
#define EYELET_B 1.5f
#define EYELET_AA (EYELET_A * EYELET_A)
#define EYELET_BB (EYELET_B * EYELET_B)

EYELET_INLINE void input_1d_2(const vec d[4], vec v[4])
{
    v[0] = sub(d[2], d[0]);
    v[1] = add(d[1], d[2]);
    v[2] = sub(d[2], d[1]);
    v[3] = sub(d[3], d[1]);
}

EYELET_INLINE void output_1d_2(const vec x[4], vec y[2])
{
    y[0] = add(x[0], add(x[1], x[2]));
    y[1] = add(x[3], sub(x[1], x[2]));
}

EYELET_INLINE void input_1d_4(const vec d[6], vec v[6])
{
    const vec even_a = fused(all(-EYELET_BB), d[2], d[4]);
    const vec odd_a = fused(all(-EYELET_BB), d[1], d[3]);
    const vec even_b = fused(all(-EYELET_AA), d[2], d[4]);
    const vec odd_b = fused(all(-EYELET_AA), d[1], d[3]);
    v[0] = fused(all(EYELET_AA * EYELET_BB), d[0], fused(all(-(EYELET_AA + EYELET_BB)), d[2], d[4]));
    v[1] = fused(all(EYELET_A), odd_a, even_a);
    v[2] = fused(all(-EYELET_A), odd_a, even_a);
    v[3] = fused(all(EYELET_B), odd_b, even_b);
    v[4] = fused(all(-EYELET_B), odd_b, even_b);
    v[5] = fused(all(EYELET_AA * EYELET_BB), d[1], fused(all(-(EYELET_AA + EYELET_BB)), d[3], d[5]));
}

EYELET_INLINE void output_1d_4(const vec x[6], vec y[4])
{
    const vec sum_a = add(x[1], x[2]);
    const vec diff_a = sub(x[1], x[2]);
    const vec sum_b = add(x[3], x[4]);
    const vec diff_b = sub(x[3], x[4]);
    y[0] = add(x[0], add(sum_a, sum_b));
    y[1] = fused(all(EYELET_B), diff_b, mul(all(EYELET_A), diff_a));
    y[2] = fused(all(EYELET_BB), sum_b, mul(all(EYELET_AA), sum_a));
    y[3] = fused(all(EYELET_BB * EYELET_B), diff_b, fused(all(EYELET_AA * EYELET_A), diff_a, x[5]));
}

/* A filter at each point, over the product of the point's distances to the others, which is rounded. */
EYELET_INLINE void weights_1d_2(const vec g[3], vec v[4])
{
    const vec even = add(g[0], g[2]);
    v[0] = sub(all(0.0f), g[0]);
    v[1] = mul(all(0.5f), add(even, g[1]));
    v[2] = mul(all(0.5f), sub(even, g[1]));
    v[3] = g[2];
}

EYELET_INLINE void weights_1d_4(const vec g[3], vec v[6])
{
    const vec even_a = fused(all(EYELET_AA), g[2], g[0]);
    const vec even_b = fused(all(EYELET_BB), g[2], g[0]);
    const vec over_0 = all(1.0f / (EYELET_AA * EYELET_BB));
    const vec over_a = all(1.0f / (2.0f * EYELET_AA * (EYELET_AA - EYELET_BB)));
    const vec over_b = all(1.0f / (2.0f * EYELET_BB * (EYELET_BB - EYELET_AA)));
    v[0] = mul(over_0, g[0]);
    v[1] = mul(over_a, fused(all(EYELET_A), g[1], even_a));
    v[2] = mul(over_a, fused(all(-EYELET_A), g[1], even_a));
    v[3] = mul(over_b, fused(all(EYELET_B), g[1], even_b));
    v[4] = mul(over_b, fused(all(-EYELET_B), g[1], even_b));
    v[5] = g[2];
}

/* The transforms of one vector of channels in two dimensions, from channel `c` on; `n` floats of it. The
 * output's stores M x M pixels if `whole`. Offsets and addresses are kept, or they would be computed anew
 * for each load and store. */
#define EYELET_WINOGRAD(M, N)                                                                          \
    EYELET_INLINE void input_##M(const struct eyelet_winograd_input *t, size_t c, size_t n)            \
    {                                                                                                  \
        vec half[N][N];                                                                                \
        _Pragma("GCC unroll 6") for (size_t x = 0; x < N; x++)                                         \
        {                                                                                              \
            vec d[N], v[N];                                                                            \
            _Pragma("GCC unroll 6") for (size_t y = 0; y < N; y++)                                     \
            {                                                                                          \
                const float *from = t->pixels[y * N + x] + c;                                          \
                d[y] = n == LANES ? load(from) : load_some(from, n);                                   \
            }                                                                                          \
            input_1d_##M(d, v);                                                                        \
            _Pragma("GCC unroll 6") for (size_t y = 0; y < N; y++) half[y][x] = v[y];                  \
        }                                                                                              \
        float *out = t->out + c;                                                                       \
        const size_t stride = t->stride;                                                               \
        _Pragma("GCC unroll 6") for (size_t y = 0; y < N; y++)                                         \
        {                                                                                              \
            vec v[N];                                                                                  \
            input_1d_##M(half[y], v);                                                                  \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < N; x++)                                     \
            {                                                                                          \
                if (n == LANES)                                                                        \
                    store(out, v[x]);                                                                  \
                else                                                                                   \
                    store_some(out, v[x], n);                                                          \
                out += stride;                                                                         \
                EYELET_KEEP(out);                                                                      \
            }                                                                                          \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void weights_##M(const struct eyelet_winograd_weights *t, size_t c, size_t end, int y)\
    {                                                                                                  \
        float *out = t->out + y * N * t->stride;                                                       \
        for (; c < end; c += LANES) {                                                                  \
            vec half[3], v[N];                                                                         \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < 3; x++)                                     \
            {                                                                                          \
                vec g[3];                                                                              \
                _Pragma("GCC unroll 6") for (size_t tap = 0; tap < 3; tap++)                           \
                    g[tap] = load(t->in + (tap * 3 + x) * t->in_stride + c);                           \
                weights_1d_##M(g, v);                                                                  \
                half[x] = v[y];                                                                        \
            }                                                                                          \
            weights_1d_##M(half, v);                                                                   \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < N; x++) store(out + x * t->stride + c, v[x]);\
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void output_##M(const struct eyelet_winograd_output *t, size_t c, size_t n,          \
                                  const int whole)                                                     \
    {                                                                                                  \
        const size_t lines = whole ? M : t->lines;                                                     \
        const size_t cols = whole ? M : t->cols;                                                       \
        vec half[M][N];                                                                                \
        size_t below[N];                                                                               \
        _Pragma("GCC unroll 6") for (size_t i = 0; i < N; i++)                                         \
        {                                                                                              \
            below[i] = i * N * t->stride;                                                              \
            EYELET_KEEP(below[i]);                                                                     \
        }                                                                                              \
        const float *in = t->in + c;                                                                   \
        _Pragma("GCC unroll 6") for (size_t x = 0; x < N; x++)                                         \
        {                                                                                              \
            vec v[N], y[M];                                                                            \
            _Pragma("GCC unroll 6") for (size_t i = 0; i < N; i++)                                     \
                v[i] = load(in + below[i]);                                                            \
            in += t->stride;                                                                           \
            EYELET_KEEP(in);                                                                           \
            output_1d_##M(v, y);                                                                       \
            _Pragma("GCC unroll 6") for (size_t i = 0; i < M; i++) half[i][x] = y[i];                  \
        }                                                                                              \
        const vec bias = load(t->bias + c);                                                            \
        const vec min = all(t->min);                                                                   \
        const vec max = all(t->max);                                                                   \
        const int bounded = t->max < EYELET_INFINITY;                                                 \
        const float *residual = t->residual ? t->residual + c : NULL;                                  \
        float *line = t->c + c;                                                                        \
        _Pragma("GCC unroll 6") for (size_t y = 0; y < M; y++)                                         \
        {                                                                                              \
            if (y >= lines)                                                                            \
                return;                                                                                \
            vec v[M];                                                                                  \
            output_1d_##M(half[y], v);                                                                 \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < M; x++) v[x] = add(v[x], bias);             \
            if (residual) {                                                                            \
                const float *r = residual;                                                             \
                _Pragma("GCC unroll 6") for (size_t x = 0; x < M; x++)                                 \
                {                                                                                      \
                    if (x >= cols)                                                                     \
                        break;                                                                         \
                    v[x] = add(v[x], n == LANES ? load(r) : load_some(r, n));                          \
                    r += t->residual_pitch;                                                            \
                    EYELET_KEEP(r);                                                                    \
                }                                                                                      \
                residual += t->residual_line;                                                          \
            }                                                                                          \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < M; x++) v[x] = larger(min, v[x]);           \
            if (bounded) {                                                                             \
                _Pragma("GCC unroll 6") for (size_t x = 0; x < M; x++) v[x] = smaller(max, v[x]);      \
            }                                                                                          \
            float *to = line;                                                                          \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < M; x++)                                     \
            {                                                                                          \
                if (x >= cols)                                                                         \
                    break;                                                                             \
                if (n == LANES)                                                                        \
                    store(to, v[x]);                                                                   \
                else                                                                                   \
                    store_some(to, v[x], n);                                                           \
                to += t->c_pitch;                                                                      \
                EYELET_KEEP(to);                                                                       \
            }                                                                                          \
            line += t->c_line;                                                                         \
        }                                                                                              \
    }

EYELET_WINOGRAD(2, 4)
EYELET_WINOGRAD(4, 6)

#define EYELET_WINOGRAD_LOOP(count, transform, ...)                                                    \
    do {                                                                                               \
        for (; c + LANES <= (count); c += LANES)                                                       \
            transform(t, c, LANES, ##__VA_ARGS__);                                                     \
    } while (0)

EYELET_INLINE void winograd_input(const struct eyelet_winograd_input *t)
{
    size_t c = 0;
    if (t->tile == 4) {
        EYELET_WINOGRAD_LOOP(t->channels, input_4);
        if (c < t->channels)
            input_4(t, c, t->channels - c);
    } else {
        EYELET_WINOGRAD_LOOP(t->channels, input_2);
        if (c < t->channels)
            input_2(t, c, t->channels - c);
    }
}

EYELET_INLINE void winograd_output(const struct eyelet_winograd_output *t)
{
    const int whole = t->lines == t->tile && t->cols == t->tile;
    size_t c = 0;
    if (t->tile == 4) {
        if (whole)
            EYELET_WINOGRAD_LOOP(t->nr, output_4, 1);
        EYELET_WINOGRAD_LOOP(t->nr, output_4, 0);
        if (c < t->nr)
            output_4(t, c, t->nr - c, 0);
    } else {
        if (whole)
            EYELET_WINOGRAD_LOOP(t->nr, output_2, 1);
        EYELET_WINOGRAD_LOOP(t->nr, output_2, 0);
        if (c < t->nr)
            output_2(t, c, t->nr - c, 0);
    }
}

/* Frequencies lie so far apart, often by a power of two, that lines of many of them meet in a cache's sets: some
 * filters at a time, one line of frequencies after the other. */
enum { EYELET_FILTERS = 1024 };

EYELET_INLINE void winograd_weights(const struct eyelet_winograd_weights *t)
{
    for (size_t c = 0; c < t->count; c += EYELET_FILTERS) {
        const size_t end = t->count - c < EYELET_FILTERS ? t->count : c + EYELET_FILTERS;
        if (t->tile == 4) {
            weights_4(t, c, end, 0);
            weights_4(t, c, end, 1);
            weights_4(t, c, end, 2);
            weights_4(t, c, end, 3);
            weights_4(t, c, end, 4);
            weights_4(t, c, end, 5);
        } else {
            weights_2(t, c, end, 0);
            weights_2(t, c, end, 1);
            weights_2(t, c, end, 2);
            weights_2(t, c, end, 3);
        }
    }
}
