/* Convolution as implicit GEMM, output pixels times output channels, and its sum of chains.
 *
 * Blocks: (rectangles of rows, of columns, chains). A rectangle's columns are whole panels of one group. A block of a
 * layer without chains of its own finishes its outputs. Otherwise it writes its sums, [chain][row][column of the step], and a second
 * kernel adds them up. */
#include "finish.cuh"
#include "window.cuh"

/* `runtime/ops/cuda/conv.rs` fills it. */
struct ConvRecord {
    WindowRecord window;
    FinishRecord finish;
    const char *weights; /* the step's first panel */
    float *sums;         /* [chain][row][panels * 32]; null where there is one chain */
    u32 panel_bytes;
    u32 first;          /* panel of the layer that is the step's first */
    u32 panels;         /* of the step */
    u32 panels_a_group; /* of the layer; the last one of each group may be filled in part */
    u32 width;          /* columns that a panel holds, of the 32 that there is room for */
    u32 columns;        /* of a group */
    ChainsRecord chains;
    TermsRecord terms;
    u32 biased; /* 1: the first chain starts from the bias; 0: from zero, as the others */
};

/* The columns of the tensor that a panel of the layer holds. */
EYELET_INLINE u32 panel_column(const ConvRecord &r, u32 panel)
{
    return panel / r.panels_a_group * r.columns + panel % r.panels_a_group * r.width;
}

EYELET_INLINE u32 panel_width(const ConvRecord &r, u32 panel)
{
    const u32 rest = r.columns - panel % r.panels_a_group * r.width;
    return rest < r.width ? rest : r.width;
}

template <class S, class Left, class W>
EYELET_INLINE void convolve(const ConvRecord &r, Chunks<S> &chunks, Pixel (&pixels)[S::ROWS])
{
    const u32 first_row = blockIdx.x * S::ROWS;
    const u32 rows = r.window.rows - first_row;
    const u32 first = blockIdx.y * (S::COLUMNS / PANEL); /* panel of the step */
    const u32 panels = r.panels - first;
    const u32 group = (r.first + first) / r.panels_a_group;
    const u32 chain = blockIdx.z;
    const u32 begin = chain_begin(r.chains, chain) + r.terms.from;
    const u32 end = terms_end(r.chains, r.terms, chain);
    const char *weights = r.weights + size_t(first) * r.panel_bytes;

    find_pixels<S>(r.window, first_row, group, pixels);
    Left left(r.window, pixels, begin);
    Panels<S, W> right(weights, r.panel_bytes, panels, begin, r.width);

    float sums[S::TM][S::TN];
    const bool biased = r.biased && chain == 0;
#pragma unroll
    for (u32 j = 0; j < S::TN; j++) {
        const u32 column = own_column<S>(j);
        const u32 panel = column / PANEL < panels ? column / PANEL : panels - 1;
        const float *bias = reinterpret_cast<const float *>(weights + size_t(panel) * r.panel_bytes);
        const float start = biased ? bias[column % PANEL] : 0.0f;
#pragma unroll
        for (u32 i = 0; i < S::TM; i++)
            sums[i][j] = start;
    }
    accumulate<S>(chunks, left, right, end - begin, sums);

    FinishRecord target = r.finish;
    if (r.sums) {
        const u32 pitch = r.panels * PANEL;
        float *own = r.sums + size_t(chain) * r.window.rows * pitch;
        target = FinishRecord{own, r.terms.from ? own : nullptr, pitch, pitch, {0, 0.0f, 0.0f}, 1};
    }
    Places<S> places;
#pragma unroll
    for (u32 j = 0; j < S::TN / 4; j++) {
        const u32 column = own_column<S>(j * 4);
        const u32 panel = first + column / PANEL; /* of the step */
        const u32 before = column % PANEL;
        const u32 width = panel >= r.panels ? 0 : r.sums ? PANEL : panel_width(r, r.first + panel);
        places.columns[j] = r.sums ? panel * PANEL + before : panel_column(r, r.first + panel) + before;
        places.count[j] = width < before ? 0 : width - before < 4 ? width - before : 4;
    }
    finish<S>(target, chunks, sums, first_row, rows, places);
}

#define EYELET_CONV(name, Tile, Left, Weights, blocks)                                                 \
    extern "C" __global__ void __launch_bounds__(Tile::THREADS, blocks) name(const ConvRecord r)       \
    {                                                                                                  \
        __shared__ Chunks<Tile> chunks;                                                                \
        __shared__ Pixel pixels[Tile::ROWS];                                                           \
        convolve<Tile, Left<Tile>, Weights>(r, chunks, pixels);                                        \
    }                                                                                                  \
    EYELET_EXPORT(name);

#define EYELET_CONVS(encoding, Weights)                                                                \
    EYELET_CONV(eyelet_conv_128x128_##encoding, Tile128x128, Fours, Weights, 2)                        \
    EYELET_CONV(eyelet_conv_128x64_##encoding, Tile128x64, Fours, Weights, 3)                          \
    EYELET_CONV(eyelet_conv_64x64_##encoding, Tile64x64, Fours, Weights, 6)                            \
    EYELET_CONV(eyelet_conv_64x32_##encoding, Tile64x32, Fours, Weights, 8)                           \
    EYELET_CONV(eyelet_conv_32x32_##encoding, Tile32x32, Fours, Weights, 12)                           \
    EYELET_CONV(eyelet_conv_64x64_ones_##encoding, Tile64x64, Ones, Weights, 6)                        \
    EYELET_CONV(eyelet_conv_64x32_ones_##encoding, Tile64x32, Ones, Weights, 8)                       \
    EYELET_CONV(eyelet_conv_32x32_ones_##encoding, Tile32x32, Ones, Weights, 12)

EYELET_CONVS(f32, F32)
EYELET_CONVS(f16, F16)
EYELET_CONVS(bf16, Bf16)

/* Adds up the chains of a step, an element a thread: threads of a block go along the columns of the step, of which
 * there are `panels * 32`, row by row. */
extern "C" __global__ void __launch_bounds__(256) eyelet_conv_sum(const ConvRecord r)
{
    const u64 columns = u64(r.panels) * PANEL;
    const u64 all = columns * r.window.rows;
    const u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += step) {
        const u64 row = at / columns;
        const u32 column = u32(at % columns);
        const u32 panel = r.first + column / PANEL;
        if (column % PANEL >= panel_width(r, panel))
            continue;
        const u32 place = panel_column(r, panel) + column % PANEL;
        FinishRecord f = r.finish;
        float sum = joined(f, r.sums[at], row, place);
        for (u32 chain = 1; chain < r.chains.chains; chain++)
            sum = add(sum, r.sums[chain * all + at]);
        f.residual = nullptr;
        finish_one(f, sum, row, place);
    }
}
EYELET_EXPORT(eyelet_conv_sum);
