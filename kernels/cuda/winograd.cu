/* The transforms of Winograd's algorithm, before and after the products of frequencies, which are `conv.cu`'s: to it,
 * frequencies are lines of an image, [frequency][tile][channel], under a kernel that is one column high as there are
 * frequencies, cut into as many chains, whose sums are [frequency][tile][column of the step].
 *
 * A thread transforms one channel of one tile; neighbouring threads are neighbouring channels. A launch is for
 * some of the tiles of a layer. Frequencies that a tile at the edge does not have are zeros, and are multiplied as all
 * others are: one shape of products serves all. */
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
    u32 output[2]; /* height and width */
    u32 down;      /* tiles of an image */
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
    static EYELET_MEMBER void input(u32 r, const float (&d)[4], float (&v)[4]) { input_1d_2(r, d, v); }
    static EYELET_MEMBER void output(u32 r, const float (&x)[4], float (&y)[2]) { output_1d_2(r, x, y); }
};
template <> struct Points<4> {
    static EYELET_MEMBER void input(u32 r, const float (&d)[6], float (&v)[6]) { input_1d_4(r, d, v); }
    static EYELET_MEMBER void output(u32 r, const float (&x)[6], float (&y)[4]) { output_1d_4(r, x, y); }
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

/* Of a tile's outputs, how many the map has. */
template <u32 M> EYELET_INLINE u32 outputs(u32 extent, u32 first)
{
    return extent - first < M ? extent - first : M;
}

/* Of a tile with so many outputs, down and across: those of whole tiles are constants. */
template <u32 M>
EYELET_INLINE void input_of(const WinogradInput &r, const Corner &tile, u32 channel, u64 at, u64 all,
                            u32 lines, u32 cols)
{
    const u32 N = M + 2;
    const float *image = r.in + size_t(tile.image) * r.height * r.width * r.pitch + channel;
    float half[N][N];
#pragma unroll
    for (u32 x = 0; x < N; x++) {
        const long long column = (long long)tile.column + x - r.pad[1];
        const bool inside = column >= 0 && column < r.width && x < cols + 2;
        float d[N], v[N];
#pragma unroll
        for (u32 y = 0; y < N; y++) {
            const long long line = (long long)tile.line + y - r.pad[0];
            d[y] = v[y] = 0.0f;
            if (inside && line >= 0 && line < r.height && y < lines + 2)
                d[y] = __ldg(image + (size_t(line) * r.width + size_t(column)) * r.pitch);
        }
        Points<M>::input(lines, d, v);
#pragma unroll
        for (u32 y = 0; y < N; y++)
            half[y][x] = v[y];
    }
    float *out = r.out + at;
#pragma unroll
    for (u32 y = 0; y < N; y++) {
        float v[N];
#pragma unroll
        for (u32 x = 0; x < N; x++)
            v[x] = 0.0f;
        Points<M>::input(cols, half[y], v);
#pragma unroll
        for (u32 x = 0; x < N; x++) {
            *out = v[x];
            out += all;
        }
    }
}

template <u32 M> EYELET_INLINE void transform_input(const WinogradInput &r)
{
    const u64 all = u64(r.tiles) * r.channels;
    const u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= all)
        return;
    const u32 channel = u32(at % r.channels);
    const Corner tile = corner<M>(r.first + u32(at / r.channels), r.down, r.across);
    const u32 lines = outputs<M>(r.output[0], tile.line);
    const u32 cols = outputs<M>(r.output[1], tile.column);
    if (lines == M && cols == M)
        input_of<M>(r, tile, channel, at, all, M, M);
    else
        input_of<M>(r, tile, channel, at, all, lines, cols);
}

/* As `input_of`, of one column of the step's. */
template <u32 M>
EYELET_INLINE void output_of(const WinogradOutput &r, const Corner &tile, u32 own, u64 at, u64 all, u32 lines,
                             u32 cols)
{
    const u32 N = M + 2;
    const u32 column = r.first_panel * PANEL + own;
    const float *in = r.sums + at;
    float half[M][N];
#pragma unroll
    for (u32 x = 0; x < N; x++) {
        float v[N], y[M];
#pragma unroll
        for (u32 i = 0; i < M; i++)
            y[i] = 0.0f;
#pragma unroll
        for (u32 i = 0; i < N; i++)
            v[i] = in[(i * N + x) * all];
        Points<M>::output(lines, v, y);
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
#pragma unroll
        for (u32 x = 0; x < M; x++)
            v[x] = 0.0f;
        Points<M>::output(cols, half[y], v);
        const size_t row = (size_t(tile.image) * r.height + tile.line + y) * r.width + tile.column;
#pragma unroll
        for (u32 x = 0; x < M; x++) {
            if (y < lines && x < cols)
                f.out[(row + x) * f.out_pitch + column] = added(f, add(v[x], bias), row + x, column);
        }
    }
    if (clamps(f))
        return;
    /* As `activate_written`. */
#pragma unroll 1
    for (u32 i = 0; i < M * M; i++) {
        const u32 line = tile.line + i / M;
        const size_t row = (size_t(tile.image) * r.height + line) * r.width + tile.column + i % M;
        float *out = f.out + row * f.out_pitch + column;
        if (i / M < lines && i % M < cols)
            *out = apart(f.activation, *out);
    }
}

template <u32 M> EYELET_INLINE void transform_output(const WinogradOutput &r)
{
    const u64 columns = u64(r.panels) * PANEL;
    const u64 all = r.tiles * columns;
    const u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= all)
        return;
    const u32 own = u32(at % columns);
    if (r.first_panel * PANEL + own >= r.columns)
        return;
    const Corner tile = corner<M>(r.first + u32(at / columns), r.down, r.across);
    const u32 lines = outputs<M>(r.height, tile.line);
    const u32 cols = outputs<M>(r.width, tile.column);
    if (lines == M && cols == M)
        output_of<M>(r, tile, own, at, all, M, M);
    else
        output_of<M>(r, tile, own, at, all, lines, cols);
}

/* Three blocks of the last on a multiprocessor: left alone, compilers give it registers for four, and spill on sm_90. */
#define EYELET_WINOGRAD_KERNELS(M)                                                                     \
    extern "C" __global__ void __launch_bounds__(256) eyelet_winograd_input_##M(const WinogradInput r)  \
    {                                                                                                  \
        transform_input<M>(r);                                                                         \
    }                                                                                                  \
    EYELET_EXPORT(eyelet_winograd_input_##M);                                                          \
    extern "C" __global__ void __launch_bounds__(256, 3)                                               \
        eyelet_winograd_output_##M(const WinogradOutput r)                                             \
    {                                                                                                  \
        transform_output<M>(r);                                                                        \
    }                                                                                                  \
    EYELET_EXPORT(eyelet_winograd_output_##M);

EYELET_WINOGRAD_KERNELS(2)
EYELET_WINOGRAD_KERNELS(4)
