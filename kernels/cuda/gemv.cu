/* Few rows times panels of weights: fully connected layers. What takes the time is reading weights, so a warp reads a
 * panel, 32 columns of one k at a time, with AHEAD of them on their way while those before are multiplied; the rows lie
 * in shared memory. The chains are those of `conv.cu`, as are the sums, so that either may compute a layer.
 *
 * Blocks: (groups of WARPS panels, chains). */
#include "finish.cuh"

static const u32 WARPS = 4;
static const u32 AHEAD = 16;
/* k of the rows that are in shared memory at a time. */
static const u32 SPAN = 256;

/* `runtime/ops/cuda/conv.rs` fills it. */
struct GemvRecord {
    FinishRecord finish;
    const float *in;
    const char *weights; /* the step's first panel */
    float *sums;         /* [chain][row][panels * 32]; null where there is one chain */
    u32 pitch;           /* of the input, floats */
    u32 rows;            /* at most as many as the kernel is for */
    u32 panel_bytes;
    u32 first;   /* panel of the layer that is the step's first */
    u32 panels;  /* of the step */
    u32 columns; /* of the layer */
    u32 width;   /* as in `ConvRecord` */
    ChainsRecord chains;
    TermsRecord terms;
    u32 biased; /* as in `ConvRecord` */
    u32 zero;
};

template <class W> EYELET_INLINE void take(float (&w)[AHEAD], const char *panel, u32 width, u32 from, u32 end)
{
#pragma unroll
    for (u32 i = 0; i < AHEAD; i++)
        w[i] = from + i < end ? W::one(panel, (from + i) * width + threadIdx.x % 32) : -0.0f;
}

template <u32 Rows, class W> EYELET_INLINE void gemv(const GemvRecord &r, float (&x)[Rows][SPAN])
{
    const u32 panel = blockIdx.x * WARPS + threadIdx.x / 32;
    const u32 column = (r.first + panel) * r.width + threadIdx.x % 32;
    const u32 chain = blockIdx.y;
    const u32 begin = chain_begin(r.chains, chain) + r.terms.from;
    const u32 end = terms_end(r.chains, r.terms, chain);
    /* A warp beyond the last panel computes that one again. */
    const char *own = r.weights + size_t(panel < r.panels ? panel : r.panels - 1) * r.panel_bytes;
    const float bias = reinterpret_cast<const float *>(own)[threadIdx.x % 32];
    own += BIAS_BYTES;

    float sums[Rows];
#pragma unroll
    for (u32 row = 0; row < Rows; row++)
        sums[row] = r.biased && chain == 0 ? bias : 0.0f;
    float next[AHEAD];
    take<W>(next, own, r.width, begin, end);
    for (u32 at = begin; at < end; at += SPAN) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < Rows * SPAN; i += WARPS * 32) {
            const u32 row = i / SPAN, k = at + i % SPAN;
            /* Zeros, with weights of -0: no sum changes. */
            x[row][i % SPAN] = k < end && row < r.rows ? __ldg(r.in + size_t(row) * r.pitch + k) : 0.0f;
        }
        __syncthreads();
        const u32 here = end - at < SPAN ? end - at : SPAN;
#pragma unroll 1
        for (u32 k = 0; k < here; k += AHEAD) {
            float w[AHEAD];
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++)
                w[i] = next[i];
            take<W>(next, own, r.width, at + k + AHEAD, end);
#pragma unroll
            for (u32 i = 0; i < AHEAD; i += 4) {
#pragma unroll
                for (u32 row = 0; row < Rows; row++) {
                    const float4 four = *reinterpret_cast<const float4 *>(&x[row][k + i]);
                    sums[row] = __fmaf_rn(four.x, w[i], sums[row]);
                    sums[row] = __fmaf_rn(four.y, w[i + 1], sums[row]);
                    sums[row] = __fmaf_rn(four.z, w[i + 2], sums[row]);
                    sums[row] = __fmaf_rn(four.w, w[i + 3], sums[row]);
                }
            }
        }
    }
    if (panel >= r.panels)
        return;
#pragma unroll
    for (u32 row = 0; row < Rows; row++) {
        if (row >= r.rows)
            return;
        if (r.sums) {
            const size_t at = (size_t(chain) * r.rows + row) * r.panels + panel;
            r.sums[at * PANEL + threadIdx.x % 32] = sums[row];
        } else if (threadIdx.x % 32 < r.width && column < r.columns) {
            finish_one(r.finish, sums[row], row, column);
        }
    }
}

#define EYELET_GEMV(rows, encoding, Weights)                                                           \
    extern "C" __global__ void __launch_bounds__(WARPS * 32) eyelet_gemv_##rows##_##encoding(const GemvRecord r) \
    {                                                                                                  \
        __shared__ __align__(16) float x[rows][SPAN];                                                  \
        gemv<rows, Weights>(r, x);                                                                     \
    }                                                                                                  \
    EYELET_EXPORT(eyelet_gemv_##rows##_##encoding);

#define EYELET_GEMVS(encoding, Weights)                                                                \
    EYELET_GEMV(1, encoding, Weights)                                                                  \
    EYELET_GEMV(4, encoding, Weights)                                                                  \
    EYELET_GEMV(8, encoding, Weights)

EYELET_GEMVS(f32, F32)
EYELET_GEMVS(f16, F16)
EYELET_GEMVS(bf16, Bf16)
