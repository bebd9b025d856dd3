/* The bodies of the f32_winograd kernels, for whichever vectors the including source defines (`vector.h`). */
#include "vector.h"
#include "winograd-points.h"
#include "winograd.h"

#ifndef EYELET_STEPS
/* Kept, or each address would be computed anew. */
EYELET_INLINE vec load_next(const float **p, size_t bytes)
{
    const vec v = load(*p);
    *p = (const float *)((const char *)*p + bytes);
    EYELET_KEEP(*p);
    return v;
}
EYELET_INLINE void store_next(float **p, vec v, size_t bytes)
{
    store(*p, v);
    *p = (float *)((char *)*p + bytes);
    EYELET_KEEP(*p);
}
#endif

/* What an output transform does with finished sums. */
struct finish {
    vec bias;
    vec min;
    vec max;
    int bounded;  /* above */
    int residual; /* there is one */
};

EYELET_INLINE struct finish finish_of(const struct eyelet_winograd_output *t, size_t c, int bounded, int residual)
{
    return (struct finish){ load(t->bias + c), all(t->min), all(t->max), bounded, residual };
}

/* `function` with a last argument of so many outputs, which is a constant of its body. */
#define EYELET_EACH_2(outputs, function, ...)                                                          \
    switch (outputs) {                                                                                 \
    case 1: function(__VA_ARGS__, 1); break;                                                           \
    default: function(__VA_ARGS__, 2); break;                                                          \
    }
#define EYELET_EACH_4(outputs, function, ...)                                                          \
    switch (outputs) {                                                                                 \
    case 1: function(__VA_ARGS__, 1); break;                                                           \
    case 2: function(__VA_ARGS__, 2); break;                                                           \
    case 3: function(__VA_ARGS__, 3); break;                                                           \
    default: function(__VA_ARGS__, 4); break;                                                          \
    }

/* The transforms of one vector of channels in two dimensions, from channel `c` on. Those of whole tiles have all their
 * steps written out; `_edge` are those of tiles with fewer outputs, and of the last `n` channels where these are no
 * vector: loops over one-dimensional transforms, a loop for each number of outputs. Offsets and addresses are kept, or
 * they would be computed anew for each load and store. Pixels of a line's next tile are fetched: processors' own
 * prefetching loses its way among so many runs as short as a pixel. */
#define EYELET_WINOGRAD(M, N)                                                                          \
    EYELET_INLINE void input_##M(const struct eyelet_winograd_input *t, size_t c)                      \
    {                                                                                                  \
        vec half[N][N];                                                                                \
        _Pragma("GCC unroll 6") for (size_t x = 0; x < N; x++)                                         \
        {                                                                                              \
            vec d[N], v[N];                                                                            \
            _Pragma("GCC unroll 6") for (size_t y = 0; y < N; y++)                                     \
            {                                                                                          \
                const float *from = t->pixels[y * N + x] + c;                                          \
                d[y] = load(from);                                                                     \
                if (x >= 2)                                                                            \
                    EYELET_FETCH(from + t->ahead, 0);                                                  \
            }                                                                                          \
            input_1d_##M(M, d, v);                                                                     \
            _Pragma("GCC unroll 6") for (size_t y = 0; y < N; y++) half[y][x] = v[y];                  \
        }                                                                                              \
        float *out = t->out + c;                                                                       \
        const size_t stride = sizeof(float) * t->stride;                                               \
        _Pragma("GCC unroll 6") for (size_t y = 0; y < N; y++)                                         \
        {                                                                                              \
            vec v[N];                                                                                  \
            input_1d_##M(M, half[y], v);                                                               \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < N; x++) store_next(&out, v[x], stride);     \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void input_down_##M(const struct eyelet_winograd_input *t, size_t c, size_t n,       \
                                      vec half[N][N], const size_t r)                                  \
    {                                                                                                  \
        for (size_t x = 0; x < t->cols + 2; x++) {                                                     \
            vec d[N], v[N];                                                                            \
            _Pragma("GCC unroll 6") for (size_t y = 0; y < r + 2; y++)                                 \
            {                                                                                          \
                const float *from = t->pixels[y * N + x] + c;                                          \
                d[y] = n == LANES ? load(from) : load_some(from, n);                                   \
            }                                                                                          \
            input_1d_##M(r, d, v);                                                                     \
            _Pragma("GCC unroll 6") for (size_t y = 0; y < N; y++)                                     \
            {                                                                                          \
                if (kept_##M(r) >> y & 1)                                                              \
                    half[y][x] = v[y];                                                                 \
            }                                                                                          \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void input_across_##M(const struct eyelet_winograd_input *t, size_t c, size_t n,     \
                                        vec half[N][N], const size_t r)                                \
    {                                                                                                  \
        const unsigned lines = kept_##M(t->lines);                                                     \
        const size_t stride = t->stride;                                                               \
        for (size_t y = 0; y < N; y++) {                                                               \
            if (!(lines >> y & 1))                                                                     \
                continue;                                                                              \
            vec v[N];                                                                                  \
            input_1d_##M(r, half[y], v);                                                               \
            float *out = t->out + y * N * stride + c;                                                  \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < N; x++)                                     \
            {                                                                                          \
                if (kept_##M(r) >> x & 1) {                                                            \
                    if (n == LANES)                                                                    \
                        store(out, v[x]);                                                              \
                    else                                                                               \
                        store_some(out, v[x], n);                                                      \
                }                                                                                      \
                out += stride;                                                                         \
                EYELET_KEEP(out);                                                                      \
            }                                                                                          \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void input_edge_##M(const struct eyelet_winograd_input *t, size_t c, size_t n)       \
    {                                                                                                  \
        vec half[N][N];                                                                                \
        EYELET_EACH_##M(t->lines, input_down_##M, t, c, n, half)                                       \
        EYELET_EACH_##M(t->cols, input_across_##M, t, c, n, half)                                      \
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
    /* A line of r outputs. */                                                                         \
    EYELET_INLINE void output_line_##M(const struct eyelet_winograd_output *t, size_t n, const size_t r,\
                                       const struct finish *f, const vec *half, const float *residual, \
                                       float *to)                                                      \
    {                                                                                                  \
        const size_t c_pitch = sizeof(float) * t->c_pitch;                                             \
        const size_t residual_pitch = sizeof(float) * t->residual_pitch;                               \
        vec v[M];                                                                                      \
        output_1d_##M(r, half, v);                                                                     \
        _Pragma("GCC unroll 6") for (size_t x = 0; x < r; x++) v[x] = add(v[x], f->bias);              \
        if (f->residual) {                                                                             \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < r; x++)                                     \
            {                                                                                          \
                if (n == LANES) {                                                                      \
                    v[x] = add(v[x], load_next(&residual, residual_pitch));                            \
                } else {                                                                               \
                    v[x] = add(v[x], load_some(residual, n));                                          \
                    residual += t->residual_pitch;                                                     \
                }                                                                                      \
            }                                                                                          \
        }                                                                                              \
        _Pragma("GCC unroll 6") for (size_t x = 0; x < r; x++) v[x] = larger(f->min, v[x]);            \
        if (f->bounded) {                                                                              \
            _Pragma("GCC unroll 6") for (size_t x = 0; x < r; x++) v[x] = smaller(f->max, v[x]);       \
        }                                                                                              \
        _Pragma("GCC unroll 6") for (size_t x = 0; x < r; x++)                                         \
        {                                                                                              \
            if (r == M)                                                                                \
                EYELET_FETCH(to + M * t->c_pitch, 1);                                                  \
            if (n == LANES) {                                                                          \
                store_next(&to, v[x], c_pitch);                                                        \
            } else {                                                                                   \
                store_some(to, v[x], n);                                                               \
                to += t->c_pitch;                                                                      \
            }                                                                                          \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void output_##M(const struct eyelet_winograd_output *t, size_t c, const int bounded, \
                                  const int added)                                                     \
    {                                                                                                  \
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
            output_1d_##M(M, v, y);                                                                    \
            _Pragma("GCC unroll 6") for (size_t i = 0; i < M; i++) half[i][x] = y[i];                  \
        }                                                                                              \
        const struct finish finish = finish_of(t, c, bounded, added);                                  \
        const float *residual = added ? t->residual + c : NULL;                                        \
        float *line = t->c + c;                                                                        \
        _Pragma("GCC unroll 6") for (size_t y = 0; y < M; y++)                                         \
        {                                                                                              \
            output_line_##M(t, LANES, M, &finish, half[y], residual, line);                            \
            if (added)                                                                                 \
                residual += t->residual_line;                                                          \
            line += t->c_line;                                                                         \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void output_down_##M(const struct eyelet_winograd_output *t, size_t c,               \
                                       vec half[M][N], const size_t r)                                 \
    {                                                                                                  \
        const unsigned cols = kept_##M(t->cols);                                                       \
        for (size_t x = 0; x < N; x++) {                                                               \
            if (!(cols >> x & 1))                                                                      \
                continue;                                                                              \
            const float *in = t->in + x * t->stride + c;                                               \
            vec v[N], y[M];                                                                            \
            _Pragma("GCC unroll 6") for (size_t i = 0; i < N; i++)                                     \
            {                                                                                          \
                if (kept_##M(r) >> i & 1)                                                              \
                    v[i] = load(in);                                                                   \
                in += N * t->stride;                                                                   \
                EYELET_KEEP(in);                                                                       \
            }                                                                                          \
            output_1d_##M(r, v, y);                                                                    \
            _Pragma("GCC unroll 6") for (size_t i = 0; i < r; i++) half[i][x] = y[i];                  \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void output_across_##M(const struct eyelet_winograd_output *t, size_t c, size_t n,   \
                                         vec half[M][N], const size_t r)                               \
    {                                                                                                  \
        const struct finish finish = finish_of(t, c, t->max < EYELET_INFINITY, t->residual != NULL);   \
        const float *residual = t->residual ? t->residual + c : NULL;                                  \
        float *line = t->c + c;                                                                        \
        for (size_t y = 0; y < t->lines; y++) {                                                        \
            output_line_##M(t, n, r, &finish, half[y], residual, line);                                \
            if (residual)                                                                              \
                residual += t->residual_line;                                                          \
            line += t->c_line;                                                                         \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    EYELET_INLINE void output_edge_##M(const struct eyelet_winograd_output *t, size_t c, size_t n)     \
    {                                                                                                  \
        vec half[M][N];                                                                                \
        EYELET_EACH_##M(t->lines, output_down_##M, t, c, half)                                         \
        EYELET_EACH_##M(t->cols, output_across_##M, t, c, n, half)                                     \
    }

EYELET_WINOGRAD(2, 4)
EYELET_WINOGRAD(4, 6)

/* For each of the vectors that are left. */
#define EYELET_VECTORS(count) for (; c + LANES <= (count); c += LANES)

EYELET_INLINE void winograd_input(const struct eyelet_winograd_input *t)
{
    const int whole = t->lines == t->tile && t->cols == t->tile;
    size_t c = 0;
    if (t->tile == 4) {
        if (whole)
            EYELET_VECTORS(t->channels) input_4(t, c);
        EYELET_VECTORS(t->channels) input_edge_4(t, c, LANES);
        if (c < t->channels)
            input_edge_4(t, c, t->channels - c);
    } else {
        if (whole)
            EYELET_VECTORS(t->channels) input_2(t, c);
        EYELET_VECTORS(t->channels) input_edge_2(t, c, LANES);
        if (c < t->channels)
            input_edge_2(t, c, t->channels - c);
    }
}

/* Whole tiles, with what there is to their finish written out. */
#define EYELET_OUTPUT_WHOLE(M)                                                                         \
    EYELET_INLINE size_t output_whole_##M(const struct eyelet_winograd_output *t)                      \
    {                                                                                                  \
        size_t c = 0;                                                                                  \
        const int bounded = t->max < EYELET_INFINITY;                                                  \
        if (!bounded && !t->residual)                                                                  \
            EYELET_VECTORS(t->nr) output_##M(t, c, 0, 0);                                              \
        else if (!bounded)                                                                             \
            EYELET_VECTORS(t->nr) output_##M(t, c, 0, 1);                                              \
        else if (!t->residual)                                                                         \
            EYELET_VECTORS(t->nr) output_##M(t, c, 1, 0);                                              \
        else                                                                                           \
            EYELET_VECTORS(t->nr) output_##M(t, c, 1, 1);                                              \
        return c;                                                                                      \
    }

EYELET_OUTPUT_WHOLE(2)
EYELET_OUTPUT_WHOLE(4)

EYELET_INLINE void winograd_output(const struct eyelet_winograd_output *t)
{
    const int whole = t->lines == t->tile && t->cols == t->tile;
    size_t c = 0;
    if (t->tile == 4) {
        if (whole)
            c = output_whole_4(t);
        EYELET_VECTORS(t->nr) output_edge_4(t, c, LANES);
        if (c < t->nr)
            output_edge_4(t, c, t->nr - c);
    } else {
        if (whole)
            c = output_whole_2(t);
        EYELET_VECTORS(t->nr) output_edge_2(t, c, LANES);
        if (c < t->nr)
            output_edge_2(t, c, t->nr - c);
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
