/* Products of two activations. The left operand is read as a convolution of one tap reads its pixels; the right one is
 * given by strides and scaled on its way to shared memory.
 *
 * Blocks: (rectangles of rows, of columns, products). */
#include "finish.cuh"
#include "window.cuh"

/* `runtime/ops/cuda/matmul.rs` fills it. */
struct MatmulRecord {
    WindowRecord window; /* of the first product: m pixels of k channels */
    FinishRecord finish; /* of the first product */
    const float *right;
    u64 left_apart; /* floats from one product to the next */
    u64 right_apart;
    u32 row_stride; /* of the right operand: from one k to the next */
    u32 column_stride;
    u32 columns;
    float scale;
};

/* The right operand. What is beyond the last k is -0 and is not scaled, so that it stays so; what is beyond the last column
 * is never stored, and may be anything. */

/* Four columns at a time: they are neighbours, and everything is a multiple of four floats. */
template <class S> struct RightRows {
    static const u32 EACH = DEPTH * S::COLUMNS / 4 / S::THREADS;
    static const u32 ACROSS = S::COLUMNS / 4;
    static const u32 APART = S::THREADS / ACROSS; /* k */
    const MatmulRecord &r;
    const float *from;
    bool exists;
    u32 place; /* in shared memory */
    float scale[EACH];
    float4 held[EACH];

    EYELET_MEMBER RightRows(const MatmulRecord &r, const float *right, u32 first) : r(r)
    {
        const u32 column = threadIdx.x % ACROSS * 4;
        from = right + first + column + size_t(k()) * r.row_stride;
        exists = column < r.columns - first;
        place = k() * S::RIGHT + column;
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            held[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    static EYELET_MEMBER u32 k() { return threadIdx.x / ACROSS; }

    template <bool Whole> EYELET_MEMBER void fetch(u32 left)
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            scale[i] = r.scale;
            if (!Whole && k() + i * APART >= left) {
                scale[i] = 1.0f;
                held[i] = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
            } else if (exists) {
                held[i] = __ldg(reinterpret_cast<const float4 *>(from + size_t(i * APART) * r.row_stride));
            }
        }
        from += size_t(DEPTH) * r.row_stride;
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            *reinterpret_cast<float4 *>(to + place + i * APART * S::RIGHT) =
                make_float4(mul(held[i].x, scale[i]), mul(held[i].y, scale[i]), mul(held[i].z, scale[i]),
                            mul(held[i].w, scale[i]));
    }
};

/* Four k at a time, where they are neighbours: a transposed operand. */
template <class S> struct RightColumns {
    static const u32 EACH = DEPTH * S::COLUMNS / 4 / S::THREADS;
    static const u32 APART = S::THREADS / 2; /* columns */
    const MatmulRecord &r;
    const float *from;
    u32 exist; /* a bit for each column that does */
    u32 place; /* in shared memory */
    float scale;
    float4 held[EACH];

    EYELET_MEMBER RightColumns(const MatmulRecord &r, const float *right, u32 first) : r(r), exist(0)
    {
        const u32 column = threadIdx.x / 2;
        from = right + size_t(first + column) * r.column_stride + k();
        place = k() * S::RIGHT + column;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            exist |= u32(column + i * APART < r.columns - first) << i;
            held[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }

    static EYELET_MEMBER u32 k() { return threadIdx.x % 2 * 4; }

    template <bool Whole> EYELET_MEMBER void fetch(u32 left)
    {
        const bool here = Whole || k() < left;
        scale = here ? r.scale : 1.0f;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            if (!here)
                held[i] = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
            else if (exist >> i & 1)
                held[i] = __ldg(reinterpret_cast<const float4 *>(from + size_t(i * APART) * r.column_stride));
        }
        from += DEPTH;
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            float *own = to + place + i * APART;
            own[0] = mul(held[i].x, scale);
            own[S::RIGHT] = mul(held[i].y, scale);
            own[2 * S::RIGHT] = mul(held[i].z, scale);
            own[3 * S::RIGHT] = mul(held[i].w, scale);
        }
    }
};

/* One float at a time, any strides: neighbouring threads go the way of the shorter one, along columns or k. */
template <class S> struct RightOnes {
    static const u32 EACH = DEPTH * S::COLUMNS / S::THREADS;
    const MatmulRecord &r;
    const float *from;
    size_t apart; /* floats from one to the next of a thread */
    u32 exist;    /* a bit for each column that does */
    u32 k;        /* of the first; the next is `down` further */
    u32 down;
    u32 place; /* in shared memory; the next is `place_apart` further */
    u32 place_apart;
    float scale[EACH];
    float held[EACH];

    EYELET_MEMBER RightOnes(const MatmulRecord &r, const float *right, u32 first) : r(r), exist(0)
    {
        const bool along = r.column_stride <= r.row_stride;
        const u32 column = along ? threadIdx.x % S::COLUMNS : threadIdx.x / DEPTH;
        const u32 across = along ? 0 : S::THREADS / DEPTH;
        k = along ? threadIdx.x / S::COLUMNS : threadIdx.x % DEPTH;
        down = along ? S::THREADS / S::COLUMNS : 0;
        from = right + size_t(first + column) * r.column_stride + size_t(k) * r.row_stride;
        apart = size_t(across) * r.column_stride + size_t(down) * r.row_stride;
        place = k * S::RIGHT + column;
        place_apart = down * S::RIGHT + across;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            exist |= u32(column + i * across < r.columns - first) << i;
            held[i] = 0.0f;
        }
    }

    template <bool Whole> EYELET_MEMBER void fetch(u32 left)
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            scale[i] = r.scale;
            if (!Whole && k + i * down >= left) {
                scale[i] = 1.0f;
                held[i] = -0.0f;
            } else if (exist >> i & 1) {
                held[i] = __ldg(from + i * apart);
            }
        }
        from += size_t(DEPTH) * r.row_stride;
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            to[place + i * place_apart] = mul(held[i], scale[i]);
    }
};

template <class S, class Left, class Right>
EYELET_INLINE void product(MatmulRecord r, Chunks<S> &chunks, Pixel (&pixels)[S::ROWS])
{
    const u32 first_row = blockIdx.x * S::ROWS;
    const u32 first = blockIdx.y * S::COLUMNS;
    const u32 columns = r.columns - first;
    r.window.in += blockIdx.z * r.left_apart;
    r.finish.out += blockIdx.z * u64(r.window.rows) * r.finish.out_pitch;
    /* What chains before have left. */
    if (r.finish.residual)
        r.finish.residual = r.finish.out;

    find_pixels<S>(r.window, first_row, 0, pixels);
    Left left(r.window, pixels, 0);
    Right right(r, r.right + blockIdx.z * r.right_apart, first);
    float sums[S::TM][S::TN];
#pragma unroll
    for (u32 i = 0; i < S::TM; i++) {
#pragma unroll
        for (u32 j = 0; j < S::TN; j++)
            sums[i][j] = 0.0f;
    }
    accumulate<S>(chunks, left, right, r.window.channels, sums);

    Places<S> places;
#pragma unroll
    for (u32 j = 0; j < S::TN / 4; j++) {
        const u32 column = own_column<S>(j * 4);
        places.columns[j] = first + column;
        places.count[j] = columns < column ? 0 : columns - column < 4 ? columns - column : 4;
    }
    finish<S>(r.finish, chunks, sums, first_row, r.window.rows - first_row, places);
}

#define EYELET_MATMUL(name, Tile, Left, Right, blocks)                                                 \
    extern "C" __global__ void __launch_bounds__(Tile::THREADS, blocks) name(const MatmulRecord r)     \
    {                                                                                                  \
        __shared__ Chunks<Tile> chunks;                                                                \
        __shared__ Pixel pixels[Tile::ROWS];                                                           \
        product<Tile, Left<Tile>, Right<Tile>>(r, chunks, pixels);                                     \
    }                                                                                                  \
    EYELET_EXPORT(name);

EYELET_MATMUL(eyelet_matmul_64x64_rows, Tile64x64, Fours, RightRows, 6)
EYELET_MATMUL(eyelet_matmul_64x64_columns, Tile64x64, Fours, RightColumns, 6)
EYELET_MATMUL(eyelet_matmul_64x64_ones, Tile64x64, Ones, RightOnes, 6)
EYELET_MATMUL(eyelet_matmul_32x32_rows, Tile32x32, Fours, RightRows, 12)
EYELET_MATMUL(eyelet_matmul_32x32_columns, Tile32x32, Fours, RightColumns, 12)
EYELET_MATMUL(eyelet_matmul_32x32_ones, Tile32x32, Ones, RightOnes, 8)
