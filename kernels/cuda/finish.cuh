/* What is done to finished sums: residual, clamp, activation, and the way to memory. */
#ifndef EYELET_FINISH_CUH
#define EYELET_FINISH_CUH

#include "activation.cuh"
#include "gemm.cuh"

/* `runtime/ops/cuda/gemm.rs` has the same record. */
struct FinishRecord {
    float *out;            /* first row, first column of the tensor */
    const float *residual; /* of the same extents; may be `out`; null when there is none */
    u32 out_pitch;         /* floats */
    u32 residual_pitch;
    Activation activation;
    u32 fours; /* whether four columns from a multiple of four on can be read and written at once */
};

/* A function other than the clamp: called, not copied into each kernel. */
static __device__ __noinline__ float apart(const Activation a, float x) { return activated(a, x); }

EYELET_INLINE bool clamps(const FinishRecord &f) { return f.activation.function <= EYELET_CLAMP; }

/* The sum with the residual. */
EYELET_INLINE float joined(const FinishRecord &f, float sum, size_t row, size_t column)
{
    return f.residual ? add(sum, f.residual[row * f.residual_pitch + column]) : sum;
}

/* Residual and clamp of one element. */
EYELET_INLINE float added(const FinishRecord &f, float sum, size_t row, size_t column)
{
    sum = joined(f, sum, row, column);
    return f.activation.function == EYELET_CLAMP ? clamp(sum, f.activation.alpha, f.activation.beta) : sum;
}

/* What a part's sums are added to, and whether a function follows: the first one is added to the residual, others to what
 * is in memory already. */
EYELET_INLINE void of_part(FinishRecord &f, u32 part, u32 count)
{
    if (part != 0) {
        f.residual = f.out;
        f.residual_pitch = f.out_pitch;
    }
    if (part + 1 != count)
        f.activation.function = 0;
}

/* One element, whole. */
EYELET_INLINE void finish_one(const FinishRecord &f, float sum, size_t row, size_t column)
{
    const float x = added(f, sum, row, column);
    f.out[row * f.out_pitch + column] = clamps(f) ? x : apart(f.activation, x);
}

/* Where the sums of a thread go: its group of columns `j` begins at `columns[j]`, `count[j]` of them exist, up to four. */
template <class S> struct Places {
    u32 columns[S::TN / 4];
    u32 count[S::TN / 4];
};

/* Writes the sums of a thread, with residual and clamp, four columns at a time; four such groups are under way at once. */
template <class S>
EYELET_INLINE void write_fours(const FinishRecord &f, const float (&sums)[S::TM][S::TN], size_t first_row, u32 rows,
                               const Places<S> &places)
{
    const u32 groups = S::TN / 4;
    const float min = f.activation.alpha;
    const float max = f.activation.beta;
#pragma unroll
    for (u32 part = 0; part < S::TM * groups; part += 4) {
        float4 beside[4];
        if (f.residual) {
#pragma unroll
            for (u32 n = 0; n < 4; n++) {
                const u32 row = own_row<S>((part + n) / groups);
                const u32 j = (part + n) % groups;
                const float *from = f.residual + (first_row + row) * f.residual_pitch + places.columns[j];
                if (row < rows && places.count[j])
                    beside[n] = *reinterpret_cast<const float4 *>(from);
            }
        }
#pragma unroll
        for (u32 n = 0; n < 4; n++) {
            const u32 i = (part + n) / groups;
            const u32 j = (part + n) % groups;
            const float *own = &sums[i][j * 4];
            float4 x = make_float4(own[0], own[1], own[2], own[3]);
            if (f.residual)
                x = make_float4(add(x.x, beside[n].x), add(x.y, beside[n].y), add(x.z, beside[n].z),
                                add(x.w, beside[n].w));
            if (f.activation.function == EYELET_CLAMP)
                x = make_float4(clamp(x.x, min, max), clamp(x.y, min, max), clamp(x.z, min, max), clamp(x.w, min, max));
            const u32 row = own_row<S>(i);
            if (row < rows && places.count[j])
                *reinterpret_cast<float4 *>(f.out + (first_row + row) * f.out_pitch + places.columns[j]) = x;
        }
    }
}

/* The same, a column at a time, by way of shared memory, so that the loops need not be unrolled to know their registers. */
template <class S>
EYELET_INLINE void write_ones(const FinishRecord &f, const float (&sums)[S::TM][S::TN], float4 *parked,
                              size_t first_row, u32 rows, const Places<S> &places)
{
    const u32 groups = S::TN / 4;
#pragma unroll
    for (u32 part = 0; part < S::TM * groups; part += 4) {
#pragma unroll
        for (u32 n = 0; n < 4; n++) {
            const float *own = &sums[(part + n) / groups][(part + n) % groups * 4];
            parked[n * S::THREADS] = make_float4(own[0], own[1], own[2], own[3]);
        }
#pragma unroll 1
        for (u32 n = 0; n < 16; n++) {
            const u32 row = own_row<S>((part + n / 4) / groups);
            const u32 second = groups > 1 && n / 4 % groups;
            const u32 column = second ? places.columns[groups - 1] : places.columns[0];
            const u32 count = second ? places.count[groups - 1] : places.count[0];
            if (row >= rows || n % 4 >= count)
                continue;
            const float sum = reinterpret_cast<const float *>(parked + n / 4 * S::THREADS)[n % 4];
            f.out[(first_row + row) * f.out_pitch + column + n % 4] =
                added(f, sum, first_row + row, column + n % 4);
        }
    }
}

/* Other functions than a clamp are applied to what the thread has just written, in a loop that is not unrolled: the
 * sums' registers are free then. */
template <class S>
EYELET_INLINE void activate_written(const FinishRecord &f, size_t first_row, u32 rows, const Places<S> &places)
{
#pragma unroll 1
    for (u32 i = 0; i < S::TM; i++) {
        const u32 row = own_row<S>(i);
        if (row >= rows)
            break;
#pragma unroll
        for (u32 j = 0; j < S::TN / 4; j++) {
            float *out = f.out + (first_row + row) * f.out_pitch + places.columns[j];
#pragma unroll 1
            for (u32 lane = 0; lane < places.count[j]; lane++)
                out[lane] = apart(f.activation, out[lane]);
        }
    }
}

template <class S>
EYELET_INLINE void finish(const FinishRecord &f, Chunks<S> &chunks, const float (&sums)[S::TM][S::TN], size_t first_row,
                          u32 rows, const Places<S> &places)
{
    static_assert(S::TN <= 8 && sizeof(chunks) >= 64 * S::THREADS, "sixteen sums of each thread fit in");
    bool whole = f.fours;
#pragma unroll
    for (u32 j = 0; j < S::TN / 4; j++)
        whole = whole && places.count[j] % 4 == 0;
    /* Chunks are read no more. */
    __syncthreads();
    if (whole)
        write_fours<S>(f, sums, first_row, rows, places);
    else
        write_ones<S>(f, sums, reinterpret_cast<float4 *>(&chunks) + threadIdx.x, first_row, rows, places);
    if (!clamps(f))
        activate_written<S>(f, first_row, rows, places);
}

#endif
