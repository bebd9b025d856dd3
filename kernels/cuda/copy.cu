/* Strided copies: layout changes, transposes, concatenation, padding. */
#include "rectangle.cuh"

namespace copying {

enum { MOST_DIMS = 6 };

struct Dim {
    unsigned long long len;
    unsigned long long src; /* strides in floats */
    unsigned long long dst;
};

struct CopyRecord {
    const float *in;
    float *out;
    unsigned long long elements; /* of all dimensions, in steps of `width` floats */
    Dim dims[MOST_DIMS];         /* outermost first, the last `count` of them */
    int count;
    unsigned width; /* floats that an element has: 4 where all runs are fours at multiples of 16 bytes */
};

/* Every element for itself, in the order of the dimensions. T is wide enough for their number. */
template <class T, int N> EYELET_INLINE void copy_elements(const CopyRecord &r)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < r.elements; i += step) {
        T rest = (T)i;
        size_t src = 0, dst = 0;
#pragma unroll
        for (int dim = MOST_DIMS - 1; dim >= 0; dim--) {
            if (MOST_DIMS - dim > r.count)
                break;
            const T len = (T)r.dims[dim].len;
            const T at = rest % len;
            rest /= len;
            src += at * r.dims[dim].src;
            dst += at * r.dims[dim].dst;
        }
        float v[N];
        get_constant(v, r.in + src);
        put(r.out + dst, v);
    }
}

extern "C" __global__ void __launch_bounds__(256) eyelet_copy(const CopyRecord r)
{
    const bool narrow = r.elements <= 0xffffffffu;
    if (r.width == 4) {
        if (narrow)
            copy_elements<unsigned, 4>(r);
        else
            copy_elements<unsigned long long, 4>(r);
    } else {
        if (narrow)
            copy_elements<unsigned, 1>(r);
        else
            copy_elements<unsigned long long, 1>(r);
    }
}
EYELET_EXPORT(eyelet_copy);

/* Edge of a tile of a transposition. A line of it is one float longer, so that a column's floats lie in different banks. */
enum { TILE = 32 };

struct TransposeRecord {
    const float *in;
    float *out;
    unsigned long long tiles;   /* of all planes */
    Dim planes[MOST_DIMS - 2];  /* what is around the planes */
    Dim outer;                  /* adjacent in the input */
    Dim inner;                  /* adjacent in the output */
};

/* Two dimensions of which one is adjacent in the input and the other in the output, by square tiles. */
extern "C" __global__ void __launch_bounds__(256) eyelet_transpose(const TransposeRecord r)
{
    __shared__ float tile[TILE][TILE + 1];
    const size_t across = (r.outer.len - 1) / TILE + 1;
    const size_t down = (r.inner.len - 1) / TILE + 1;
    for (size_t t = blockIdx.x; t < r.tiles; t += gridDim.x) {
        size_t rest = t / across;
        const size_t outer = t % across * TILE;
        const size_t inner = rest % down * TILE;
        rest /= down;
        size_t src = outer + inner * r.inner.src;
        size_t dst = inner + outer * r.outer.dst;
#pragma unroll
        for (int dim = MOST_DIMS - 3; dim >= 0; dim--) {
            const size_t at = rest % r.planes[dim].len;
            rest /= r.planes[dim].len;
            src += at * r.planes[dim].src;
            dst += at * r.planes[dim].dst;
        }
        for (unsigned y = threadIdx.y; y < TILE; y += blockDim.y)
            if (outer + threadIdx.x < r.outer.len && inner + y < r.inner.len)
                tile[y][threadIdx.x] = __ldg(r.in + src + y * r.inner.src + threadIdx.x);
        __syncthreads();
        for (unsigned y = threadIdx.y; y < TILE; y += blockDim.y)
            if (inner + threadIdx.x < r.inner.len && outer + y < r.outer.len)
                r.out[dst + y * r.outer.dst + threadIdx.x] = tile[threadIdx.x][y];
        /* The next tile is not written before all have read this one. */
        __syncthreads();
    }
}
EYELET_EXPORT(eyelet_transpose);

struct FillRecord {
    float *out;
    unsigned rows;
    unsigned cols;
    unsigned out_pitch;
    float value;
};

extern "C" __global__ void __launch_bounds__(256) eyelet_fill(const FillRecord r)
{
    const size_t col = EYELET_COLUMN(1);
    if (col >= r.cols)
        return;
    EYELET_EACH_ROW(row, r.rows)
        r.out[row * r.out_pitch + col] = r.value;
}
EYELET_EXPORT(eyelet_fill);

} // namespace copying
