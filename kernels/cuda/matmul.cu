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

/* The right operand, four columns at a time: they are neighbours, and everything is a multiple of four floats. */
template <class S> struct RightRows {
    static const u32 EACH = DEPTH * S::COLUMNS / 4 / S::THREADS;
    static const u32 ACROSS = S::COLUMNS / 4;
    const MatmulRecord &r;
    const float *from;
    u32 left;
    float4 held[EACH];

    EYELET_MEMBER RightRows(const MatmulRecord &r, const float *right, u32 first) : r(r), from(right + first), left(0) {}

    static EYELET_MEMBER u32 k(u32 i) { return (threadIdx.x + i * S::THREADS) / ACROSS; }
    static EYELET_MEMBER u32 column() { return threadIdx.x % ACROSS * 4; }

    EYELET_MEMBER void fetch(u32 count, u32 columns)
    {
        left = column() < columns ? count : 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            held[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k(i) < left)
                held[i] = __ldg(reinterpret_cast<const float4 *>(from + size_t(k(i)) * r.row_stride + column()));
        }
        from += size_t(DEPTH) * r.row_stride;
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            /* What does not exist stays +0, whatever the scale's sign. */
            const float4 x = held[i];
            *reinterpret_cast<float4 *>(to + k(i) * S::RIGHT + column()) =
                k(i) < left ? make_float4(mul(x.x, r.scale), mul(x.y, r.scale), mul(x.z, r.scale), mul(x.w, r.scale))
                            : x;
        }
    }
};

/* The same, four k at a time, where they are neighbours: a transposed operand. */
template <class S> struct RightColumns {
    static const u32 EACH = DEPTH * S::COLUMNS / 4 / S::THREADS;
    static const u32 APART = S::THREADS / 2;
    const MatmulRecord &r;
    const float *from;
    u32 left;
    u32 exist; /* columns */
    float4 held[EACH];

    EYELET_MEMBER RightColumns(const MatmulRecord &r, const float *right, u32 first)
        : r(r), from(right + size_t(first) * r.column_stride), left(0), exist(0)
    {
    }

    static EYELET_MEMBER u32 k() { return threadIdx.x % 2 * 4; }
    static EYELET_MEMBER u32 column(u32 i) { return threadIdx.x / 2 + i * APART; }

    EYELET_MEMBER void fetch(u32 count, u32 columns)
    {
        left = count;
        exist = columns;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            held[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k() < left && column(i) < exist)
                held[i] = __ldg(reinterpret_cast<const float4 *>(from + size_t(column(i)) * r.column_stride + k()));
        }
        from += DEPTH;
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            const float scale = k() < left && column(i) < exist ? r.scale : 1.0f;
            float *own = to + k() * S::RIGHT + column(i);
            own[0] = mul(held[i].x, scale);
            own[S::RIGHT] = mul(held[i].y, scale);
            own[2 * S::RIGHT] = mul(held[i].z, scale);
            own[3 * S::RIGHT] = mul(held[i].w, scale);
        }
    }
};

/* The same, one float at a time, any strides: neighbouring threads go the way of the shorter one. */
template <class S> struct RightOnes {
    static const u32 EACH = DEPTH * S::COLUMNS / S::THREADS;
    const MatmulRecord &r;
    const float *from;
    u32 left;
    u32 exist;
    bool along; /* neighbours are columns */
    float held[EACH];

    EYELET_MEMBER RightOnes(const MatmulRecord &r, const float *right, u32 first)
        : r(r), from(right + size_t(first) * r.column_stride), left(0), exist(0), along(r.column_stride <= r.row_stride)
    {
    }

    EYELET_MEMBER u32 k(u32 i) const
    {
        const u32 index = threadIdx.x + i * S::THREADS;
        return along ? index / S::COLUMNS : index % DEPTH;
    }
    EYELET_MEMBER u32 column(u32 i) const
    {
        const u32 index = threadIdx.x + i * S::THREADS;
        return along ? index % S::COLUMNS : index / DEPTH;
    }

    EYELET_MEMBER void fetch(u32 count, u32 columns)
    {
        left = count;
        exist = columns;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            held[i] = 0.0f;
            if (k(i) < left && column(i) < exist)
                held[i] = __ldg(from + size_t(k(i)) * r.row_stride + size_t(column(i)) * r.column_stride);
        }
        from += size_t(DEPTH) * r.row_stride;
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            to[k(i) * S::RIGHT + column(i)] = k(i) < left && column(i) < exist ? mul(held[i], r.scale) : held[i];
    }
};

/* A right operand of which so many columns exist. */
template <class Right> struct Bounded {
    Right right;
    u32 columns;

    EYELET_MEMBER void fetch(u32 left) { right.fetch(left, columns); }
    EYELET_MEMBER void put(float *to) const { right.put(to); }
};

template <class S, class Left, class Right>
EYELET_INLINE void product(MatmulRecord r, Chunks<S> &chunks, Pixel (&pixels)[S::ROWS])
{
    const u32 first_row = blockIdx.x * S::ROWS;
    const u32 first = blockIdx.y * S::COLUMNS;
    const u32 columns = r.columns - first;
    r.window.in += blockIdx.z * r.left_apart;
    r.finish.out += blockIdx.z * u64(r.window.rows) * r.finish.out_pitch;

    find_pixels<S>(r.window, first_row, 0, pixels);
    Left left(r.window, pixels, 0);
    Bounded<Right> right = {Right(r, r.right + blockIdx.z * r.right_apart, first), columns};
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

EYELET_MATMUL(eyelet_matmul_64x64_rows, Tile64x64, Fours, RightRows, 8)
EYELET_MATMUL(eyelet_matmul_64x64_columns, Tile64x64, Fours, RightColumns, 8)
EYELET_MATMUL(eyelet_matmul_64x64_ones, Tile64x64, Ones, RightOnes, 7)
EYELET_MATMUL(eyelet_matmul_32x32_rows, Tile32x32, Fours, RightRows, 16)
EYELET_MATMUL(eyelet_matmul_32x32_columns, Tile32x32, Fours, RightColumns, 16)
EYELET_MATMUL(eyelet_matmul_32x32_ones, Tile32x32, Ones, RightOnes, 14)
