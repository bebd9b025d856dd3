/* The transforms of Winograd's algorithm, before and after the products of frequencies, which are `conv.cu`'s: to it,
 * frequencies are lines of an image, [frequency][tile][channel], under a kernel that is one column high as there are
 * frequencies, cut into as many chains, whose sums are [frequency][tile][column of the step].
 *
 * A thread transforms one channel of one tile; neighbouring threads are neighbouring channels. A launch is for
 * some of the tiles of a layer. */
#include "finish.cuh"

#include "../winograd-points.h"

/* `runtime/ops/cuda/winograd.rs` fills it. */
struct WinogradInput {
    const float *in;
    float *out;
    u32 height; /* of the input */
    u32 width;
    u32 pitch;
    u32 channels;
    u32 down;   /* tiles of an image */
    u32 across;
    u32 pad[2];
    u32 first; /* tile */
    u32 tiles;
};

struct WinogradOutput {
    FinishRecord finish;
    const float *sums;
    const char *weights; /* the step's first panel, for its bias */
    u32 panel_bytes;
    u32 first_panel;
    u32 panels;  /* of the step */
    u32 columns; /* of the layer */
    u32 height;  /* of the output */
    u32 width;
    u32 down;
    u32 across;
    u32 first;
    u32 tiles;
};

template <u32 M> struct Points;
template <> struct Points<2> {
    static EYELET_MEMBER void input(const float (&d)[4], float (&v)[4]) { input_1d_2(d, v); }
    static EYELET_MEMBER void output(const float (&x)[4], float (&y)[2]) { output_1d_2(x, y); }
};
template <> struct Points<4> {
    static EYELET_MEMBER void input(const float (&d)[6], float (&v)[6]) { input_1d_4(d, v); }
    static EYELET_MEMBER void output(const float (&x)[6], float (&y)[4]) { output_1d_4(x, y); }
};
template <> struct Points<6> {
    static EYELET_MEMBER void input(const float (&d)[8], float (&v)[8]) { input_1d_6(d, v); }
    static EYELET_MEMBER void output(const float (&x)[8], float (&y)[6]) { output_1d_6(x, y); }
};

/* An image, and the line and column of a tile's first output in it. */
struct Corner {
    u32 image;
    u32 line;
    u32 column;
};

template <u32 M> EYELET_INLINE Corner corner(u32 tile, u32 down, u32 across)
{
    const u32 line = tile / across;
    return {line / down, line % down * M, tile % across * M};
}

template <u32 M> EYELET_INLINE void transform_input(const WinogradInput &r)
{
    const u32 N = M + 2;
    const u64 all = u64(r.tiles) * r.channels;
    const u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= all)
        return;
    const u32 channel = u32(at % r.channels);
    const Corner tile = corner<M>(r.first + u32(at / r.channels), r.down, r.across);
    const float *image = r.in + size_t(tile.image) * r.height * r.width * r.pitch + channel;
    float half[N][N];
#pragma unroll
    for (u32 x = 0; x < N; x++) {
        const long long column = (long long)tile.column + x - r.pad[1];
        const bool inside = column >= 0 && column < r.width;
        float d[N], v[N];
#pragma unroll
        for (u32 y = 0; y < N; y++) {
            const long long line = (long long)tile.line + y - r.pad[0];
            d[y] = 0.0f;
            if (inside && line >= 0 && line < r.height)
                d[y] = __ldg(image + (size_t(line) * r.width + size_t(column)) * r.pitch);
        }
        Points<M>::input(d, v);
#pragma unroll
        for (u32 y = 0; y < N; y++)
            half[y][x] = v[y];
    }
    float *out = r.out + at;
#pragma unroll
    for (u32 y = 0; y < N; y++) {
        float v[N];
        Points<M>::input(half[y], v);
#pragma unroll
        for (u32 x = 0; x < N; x++) {
            *out = v[x];
            out += all;
        }
    }
}

template <u32 M> EYELET_INLINE void transform_output(const WinogradOutput &r)
{
    const u32 N = M + 2;
    const u64 columns = u64(r.panels) * PANEL;
    const u64 all = r.tiles * columns;
    const u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= all)
        return;
    const u32 own = u32(at % columns);
    const u32 column = r.first_panel * PANEL + own;
    if (column >= r.columns)
        return;
    const Corner tile = corner<M>(r.first + u32(at / columns), r.down, r.across);
    const float *in = r.sums + at;
    float half[M][N];
#pragma unroll
    for (u32 x = 0; x < N; x++) {
        float v[N], y[M];
#pragma unroll
        for (u32 i = 0; i < N; i++)
            v[i] = in[(i * N + x) * all];
        Points<M>::output(v, y);
#pragma unroll
        for (u32 i = 0; i < M; i++)
            half[i][x] = y[i];
    }
    const char *panel = r.weights + size_t(own / PANEL) * r.panel_bytes;
    const float bias = reinterpret_cast<const float *>(panel)[own % PANEL];
    const FinishRecord &f = r.finish;
#pragma unroll
    for (u32 y = 0; y < M; y++) {
        float v[M];
        Points<M>::output(half[y], v);
        const u32 line = tile.line + y;
        const size_t row = (size_t(tile.image) * r.height + line) * r.width + tile.column;
#pragma unroll
        for (u32 x = 0; x < M; x++) {
            if (line < r.height && x < r.width - tile.column)
                f.out[(row + x) * f.out_pitch + column] = added(f, add(v[x], bias), row + x, column);
        }
    }
    if (clamps(f))
        return;
    /* As `activate_written`. */
#pragma unroll 1
    for (u32 i = 0; i < M * M; i++) {
        const u32 line = tile.line + i / M;
        const u32 x = i % M;
        const size_t row = (size_t(tile.image) * r.height + line) * r.width + tile.column + x;
        float *out = f.out + row * f.out_pitch + column;
        if (line < r.height && x < r.width - tile.column)
            *out = apart(f.activation, *out);
    }
}

/* BLOCKS of the last on a multiprocessor: left alone, compilers give F(4,3) registers for four, and spill on sm_90. */
#define EYELET_WINOGRAD_KERNELS(M, BLOCKS)                                                             \
    extern "C" __global__ void __launch_bounds__(256) eyelet_winograd_input_##M(const WinogradInput r)  \
    {                                                                                                  \
        transform_input<M>(r);                                                                         \
    }                                                                                                  \
    EYELET_EXPORT(eyelet_winograd_input_##M);                                                          \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                         \
        eyelet_winograd_output_##M(const WinogradOutput r)                                             \
    {                                                                                                  \
        transform_output<M>(r);                                                                        \
    }                                                                                                  \
    EYELET_EXPORT(eyelet_winograd_output_##M);

EYELET_WINOGRAD_KERNELS(2, 3)
EYELET_WINOGRAD_KERNELS(4, 3)
EYELET_WINOGRAD_KERNELS(6, 2)
