/* The bodies of the f32_winograd kernels, for whichever vectors the including source defines (`vector.h`). */
#include "vector.h"
#include "winograd-points.h"
#include "winograd.h"

/* The transforms of one vector of channels in two dimensions, from channel `c` on; `n` floats of it. The
 * output's stores M x M pixels if `whole`. Offsets and addresses are kept, or they would be computed anew
 * for each load and store. Pixels of the next tile of a line are fetched where the processor's own prefetching
 * loses its way among so many: a map beyond the cache then takes a fifth less time. */
#define EYELET_WINOGRAD(M, N)                                                                          \
    EYELET_INLINE void input_##M(const struct eyelet_winograd_input *t, size_t c, size_t n)            \
    {                                                                                                  \
        vec half[N][N];                                                                                \
        _Pragma("GCC unroll 8") for (size_t x = 0; x < N; x++)                                         \
        {                                                                                              \
            vec d[N], v[N];                                                                            \
            _Pragma("GCC unroll 8") for (size_t y = 0; y < N; y++)                                     \
            {                                                                                          \
                const float *from = t->pixels[y * N + x] + c;                                          \
                d[y] = n == LANES ? load(from) : load_some(from, n);                                   \
                if (x >= 2)                                                                            \
                    EYELET_FETCH(from + t->ahead, 0);                                                  \
            }                                                                                          \
            input_1d_##M(d, v);                                                                        \
            _Pragma("GCC unroll 8") for (size_t y = 0; y < N; y++) half[y][x] = v[y];                  \
        }                                                                                              \
        float *out = t->out + c;                                                                       \
        const size_t stride = t->stride;                                                               \
        _Pragma("GCC unroll 8") for (size_t y = 0; y < N; y++)                                         \
        {                                                                                              \
            vec v[N];                                                                                  \
            input_1d_##M(half[y], v);                                                                  \
            _Pragma("GCC unroll 8") for (size_t x = 0; x < N; x++)                                     \
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
            _Pragma("GCC unroll 8") for (size_t x = 0; x < 3; x++)                                     \
            {                                                                                          \
                vec g[3];                                                                              \
                _Pragma("GCC unroll 8") for (size_t tap = 0; tap < 3; tap++)                           \
                    g[tap] = load(t->in + (tap * 3 + x) * t->in_stride + c);                           \
                weights_1d_##M(g, v);                                                                  \
                half[x] = v[y];                                                                        \
            }                                                                                          \
            weights_1d_##M(half, v);                                                                   \
            _Pragma("GCC unroll 8") for (size_t x = 0; x < N; x++) store(out + x * t->stride + c, v[x]);\
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
        _Pragma("GCC unroll 8") for (size_t i = 0; i < N; i++)                                         \
        {                                                                                              \
            below[i] = i * N * t->stride;                                                              \
            EYELET_KEEP(below[i]);                                                                     \
        }                                                                                              \
        const float *in = t->in + c;                                                                   \
        _Pragma("GCC unroll 8") for (size_t x = 0; x < N; x++)                                         \
        {                                                                                              \
            vec v[N], y[M];                                                                            \
            _Pragma("GCC unroll 8") for (size_t i = 0; i < N; i++)                                     \
                v[i] = load(in + below[i]);                                                            \
            in += t->stride;                                                                           \
            EYELET_KEEP(in);                                                                           \
            output_1d_##M(v, y);                                                                       \
            _Pragma("GCC unroll 8") for (size_t i = 0; i < M; i++) half[i][x] = y[i];                  \
        }                                                                                              \
        const vec bias = load(t->bias + c);                                                            \
        const vec min = all(t->min);                                                                   \
        const vec max = all(t->max);                                                                   \
        const int bounded = t->max < EYELET_INFINITY;                                                 \
        const float *residual = t->residual ? t->residual + c : NULL;                                  \
        float *line = t->c + c;                                                                        \
        _Pragma("GCC unroll 8") for (size_t y = 0; y < M; y++)                                         \
        {                                                                                              \
            if (y >= lines)                                                                            \
                return;                                                                                \
            vec v[M];                                                                                  \
            output_1d_##M(half[y], v);                                                                 \
            _Pragma("GCC unroll 8") for (size_t x = 0; x < M; x++) v[x] = add(v[x], bias);             \
            if (residual) {                                                                            \
                const float *r = residual;                                                             \
                _Pragma("GCC unroll 8") for (size_t x = 0; x < M; x++)                                 \
                {                                                                                      \
                    if (x >= cols)                                                                     \
                        break;                                                                         \
                    v[x] = add(v[x], n == LANES ? load(r) : load_some(r, n));                          \
                    r += t->residual_pitch;                                                            \
                    EYELET_KEEP(r);                                                                    \
                }                                                                                      \
                residual += t->residual_line;                                                          \
            }                                                                                          \
            _Pragma("GCC unroll 8") for (size_t x = 0; x < M; x++) v[x] = larger(min, v[x]);           \
            if (bounded) {                                                                             \
                _Pragma("GCC unroll 8") for (size_t x = 0; x < M; x++) v[x] = smaller(max, v[x]);      \
            }                                                                                          \
            float *to = line;                                                                          \
            _Pragma("GCC unroll 8") for (size_t x = 0; x < M; x++)                                     \
            {                                                                                          \
                if (x >= cols)                                                                         \
                    break;                                                                             \
                if (n == LANES)                                                                        \
                    store(to, v[x]);                                                                   \
                else                                                                                   \
                    store_some(to, v[x], n);                                                           \
                if (whole)                                                                             \
                    EYELET_FETCH(to + M * t->c_pitch, 1);                                              \
                to += t->c_pitch;                                                                      \
                EYELET_KEEP(to);                                                                       \
            }                                                                                          \
            line += t->c_line;                                                                         \
        }                                                                                              \
    }

EYELET_WINOGRAD(2, 4)
EYELET_WINOGRAD(4, 6)
EYELET_WINOGRAD(6, 8)

#define EYELET_WINOGRAD_LOOP(count, transform, ...)                                                    \
    do {                                                                                               \
        for (; c + LANES <= (count); c += LANES)                                                       \
            transform(t, c, LANES, ##__VA_ARGS__);                                                     \
    } while (0)

#define EYELET_WINOGRAD_INPUT(M)                                                                       \
    do {                                                                                               \
        EYELET_WINOGRAD_LOOP(t->channels, input_##M);                                                  \
        if (c < t->channels)                                                                           \
            input_##M(t, c, t->channels - c);                                                          \
    } while (0)

EYELET_INLINE void winograd_input(const struct eyelet_winograd_input *t)
{
    size_t c = 0;
    if (t->tile == 6)
        EYELET_WINOGRAD_INPUT(6);
    else if (t->tile == 4)
        EYELET_WINOGRAD_INPUT(4);
    else
        EYELET_WINOGRAD_INPUT(2);
}

#define EYELET_WINOGRAD_OUTPUT(M)                                                                      \
    do {                                                                                               \
        if (whole)                                                                                     \
            EYELET_WINOGRAD_LOOP(t->nr, output_##M, 1);                                                \
        EYELET_WINOGRAD_LOOP(t->nr, output_##M, 0);                                                    \
        if (c < t->nr)                                                                                 \
            output_##M(t, c, t->nr - c, 0);                                                            \
    } while (0)

EYELET_INLINE void winograd_output(const struct eyelet_winograd_output *t)
{
    const int whole = t->lines == t->tile && t->cols == t->tile;
    size_t c = 0;
    if (t->tile == 6)
        EYELET_WINOGRAD_OUTPUT(6);
    else if (t->tile == 4)
        EYELET_WINOGRAD_OUTPUT(4);
    else
        EYELET_WINOGRAD_OUTPUT(2);
}

/* Frequencies lie so far apart, often by a power of two, that lines of many of them meet in a cache's sets: some
 * filters at a time, one line of frequencies after the other. */
enum { EYELET_FILTERS = 1024 };

EYELET_INLINE void winograd_weights(const struct eyelet_winograd_weights *t)
{
    for (size_t c = 0; c < t->count; c += EYELET_FILTERS) {
        const size_t end = t->count - c < EYELET_FILTERS ? t->count : c + EYELET_FILTERS;
        if (t->tile == 6) {
            _Pragma("GCC unroll 8") for (int y = 0; y < 8; y++) weights_6(t, c, end, y);
        } else if (t->tile == 4) {
            _Pragma("GCC unroll 8") for (int y = 0; y < 6; y++) weights_4(t, c, end, y);
        } else {
            _Pragma("GCC unroll 8") for (int y = 0; y < 4; y++) weights_2(t, c, end, y);
        }
    }
}
