/* The core of the kernels that multiply matrices: one block computes a rectangle of rows times columns.
 *
 * Chunks of DEPTH k of both operands lie in shared memory, twice: while one is multiplied the next is on its way from
 * memory in registers, so that there is one barrier a chunk. A thread has TM times TN sums, in groups of four: its
 * rows are 16 apart, its columns 32, so that the lanes of a warp (8 across, 4 down) read shared memory without
 * conflicts.
 *
 * Every sum is one chain of fused multiply-adds in the order of k; a launch computes one of a processor's, of each output,
 * and adds it to what those before have left. What a chunk has beyond the last k is +0 on the
 * left and -0 on the right: their product is -0, which leaves every sum as it is, a negative zero too.
 *
 * A left operand has `fetch<Whole>(left)`, which starts loading the next DEPTH k, of which `left` exist (`Whole`: all),
 * and `put`, which stores them as [k][row]; a right operand the same as [k][column]. What the loop needs in each
 * passage (places in shared memory, addresses) is computed before and kept in registers by EYELET_KEEP: compilers
 * would compute it anew. */
#ifndef EYELET_GEMM_CUH
#define EYELET_GEMM_CUH

#include "common.cuh"

typedef unsigned u32;
typedef unsigned long long u64;

/* As EYELET_INLINE, of functions that belong to a type. */
#define EYELET_MEMBER __device__ __forceinline__

/* As EYELET_KEEP, of a pointer. */
#ifdef __CUDACC__
#define EYELET_KEEP_POINTER(variable) asm("" : "+l"(variable))
#else
#define EYELET_KEEP_POINTER(variable) EYELET_KEEP(variable)
#endif

/* k of a chunk. */
static const u32 DEPTH = 8;

/* A rectangle, and what of it is a thread's. */
template <u32 Rows, u32 Columns, u32 Tm, u32 Tn> struct Shape {
    static const u32 ROWS = Rows;
    static const u32 COLUMNS = Columns;
    static const u32 TM = Tm;
    static const u32 TN = Tn;
    static const u32 THREADS = Rows / Tm * (Columns / Tn);
    /* Floats from one k to the next in shared memory: four lanes that store DEPTH / 2 k apart meet in no bank. */
    static const u32 LEFT = Rows + 4;
    static const u32 RIGHT = Columns + 4;
    /* Warps above each other. */
    static const u32 DOWN = Rows / (4 * Tm);
};

template <class S> struct alignas(16) Chunks {
    float left[2][DEPTH][S::LEFT];
    float right[2][DEPTH][S::RIGHT];
};

/* This thread's rows and columns. */
template <class S> EYELET_INLINE u32 own_row(u32 i)
{
    const u32 warp = threadIdx.x / 32 % S::DOWN;
    return warp * 4 * S::TM + i / 4 * 16 + threadIdx.x % 32 / 8 * 4 + i % 4;
}

template <class S> EYELET_INLINE u32 own_column(u32 j)
{
    const u32 warp = threadIdx.x / 32 / S::DOWN;
    return warp * 8 * S::TN + j / 4 * 32 + threadIdx.x % 8 * 4 + j % 4;
}

template <class S> EYELET_INLINE void multiply(const float *left, const float *right, float (&sums)[S::TM][S::TN])
{
#pragma unroll
    for (u32 k = 0; k < DEPTH; k++) {
        float x[S::TM], w[S::TN];
#pragma unroll
        for (u32 i = 0; i < S::TM; i += 4) {
            const float4 four = *reinterpret_cast<const float4 *>(left + k * S::LEFT + i * 4);
            x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
        }
#pragma unroll
        for (u32 j = 0; j < S::TN; j += 4) {
            const float4 four = *reinterpret_cast<const float4 *>(right + k * S::RIGHT + j * 8);
            w[j] = four.x, w[j + 1] = four.y, w[j + 2] = four.z, w[j + 3] = four.w;
        }
#pragma unroll
        for (u32 i = 0; i < S::TM; i++) {
#pragma unroll
            for (u32 j = 0; j < S::TN; j++)
                sums[i][j] = __fmaf_rn(x[i], w[j], sums[i][j]);
        }
    }
}

/* Adds `count` k to the sums. */
template <class S, class Left, class Right>
EYELET_INLINE void accumulate(Chunks<S> &chunks, Left &left, Right &right, u32 count, float (&sums)[S::TM][S::TN])
{
    if (count == 0)
        return;
    left.template fetch<false>(count);
    right.template fetch<false>(count);
    left.put(&chunks.left[0][0][0]);
    right.put(&chunks.right[0][0][0]);
    __syncthreads();
    u32 row = own_row<S>(0);
    u32 column = own_column<S>(0);
    EYELET_KEEP(row);
    EYELET_KEEP(column);
    for (u32 stage = 0;; stage ^= 1) {
        const bool more = count > DEPTH;
        if (more) {
            count -= DEPTH;
            if (count >= DEPTH) {
                left.template fetch<true>(count);
                right.template fetch<true>(count);
            } else {
                left.template fetch<false>(count);
                right.template fetch<false>(count);
            }
        }
        multiply<S>(&chunks.left[stage][0][row], &chunks.right[stage][0][column], sums);
        if (!more)
            break;
        left.put(&chunks.left[stage ^ 1][0][0]);
        right.put(&chunks.right[stage ^ 1][0][0]);
        __syncthreads();
    }
}

/* The chains of a reduction. */
struct ChainsRecord {
    u32 k;
    u32 chains;
    u32 unit; /* k that chains do not cut */
};

/* First k of a chain, or behind the last one's: units are shared out as evenly as may be. */
EYELET_INLINE u32 chain_begin(const ChainsRecord &c, u32 chain)
{
    const u64 units = (c.k + u64(c.unit) - 1) / c.unit;
    const u64 k = units * chain / c.chains * c.unit;
    return k < c.k ? u32(k) : c.k;
}

/* Which k of each of these chains a launch computes. */
struct TermsRecord {
    u32 from;
    u32 to;
};

EYELET_INLINE u32 terms_end(const ChainsRecord &c, const TermsRecord &t, u32 chain)
{
    const u32 end = chain_begin(c, chain) + t.to;
    const u32 last = chain_begin(c, chain + 1);
    return end < last ? end : last;
}

/* Weights as they are stored: four of them at a time, also where they are not at a multiple of four (`apart`). */
struct F32 {
    typedef float4 Four;
    typedef float One;
    static EYELET_MEMBER float4 apart(const float *p)
    {
        return make_float4(__ldg(p), __ldg(p + 1), __ldg(p + 2), __ldg(p + 3));
    }
    static EYELET_MEMBER float4 nothing() { return make_float4(-0.0f, -0.0f, -0.0f, -0.0f); }
    static EYELET_MEMBER float4 widened(float4 four) { return four; }
    static EYELET_MEMBER float one(const void *from, size_t at)
    {
        return __ldg(static_cast<const float *>(from) + at);
    }
};

template <float (*Widen)(unsigned short)> struct Half {
    typedef uint2 Four;
    typedef unsigned short One;
    static EYELET_MEMBER uint2 apart(const unsigned short *p)
    {
        return make_uint2(__ldg(p) | u32(__ldg(p + 1)) << 16, __ldg(p + 2) | u32(__ldg(p + 3)) << 16);
    }
    static EYELET_MEMBER uint2 nothing() { return make_uint2(0x80008000, 0x80008000); }
    static EYELET_MEMBER float4 widened(uint2 four)
    {
        return make_float4(Widen((unsigned short)four.x), Widen((unsigned short)(four.x >> 16)),
                           Widen((unsigned short)four.y), Widen((unsigned short)(four.y >> 16)));
    }
    static EYELET_MEMBER float one(const void *from, size_t at)
    {
        return Widen(__ldg(static_cast<const unsigned short *>(from) + at));
    }
};
typedef Half<from_fp16> F16;
typedef Half<from_bf16> Bf16;

/* Output channels that a panel of packed weights has room for, and bytes of their biases. */
static const u32 PANEL = 32;
static const u32 BIAS_BYTES = 4 * PANEL;

/* Weights of neighbouring panels, [bias 32][k][width] each, of which each k is read as if it had 32. DEPTH k of a panel are
 * one run of memory. */
template <class S, class W> struct Panels {
    typedef typename W::Four Four;
    typedef typename W::One One;
    static const u32 RUN = DEPTH * PANEL / 4; /* fours in a panel's chunk */
    static const u32 EACH = DEPTH * S::COLUMNS / 4 / S::THREADS;
    static_assert(S::THREADS % RUN == 0 && EACH > 0, "a thread has the same place in all its panels");

    const One *from[EACH];
    Four held[EACH];
    u32 at;           /* weights, from there */
    const u32 &width; /* the kernel's parameter, which takes no register */
    u32 place;        /* in shared memory */

    /* From k `begin` on. Panels that do not exist are the last one again. */
    EYELET_MEMBER Panels(const char *panels, u32 panel_bytes, u32 count, u32 begin, const u32 &width)
        : at((begin + k()) * width + threadIdx.x % (PANEL / 4) * 4), width(width)
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            const u32 panel = threadIdx.x / RUN + i * (S::THREADS / RUN);
            const char *own = panels + size_t(panel < count ? panel : count - 1) * panel_bytes;
            from[i] = reinterpret_cast<const One *>(own + BIAS_BYTES);
            EYELET_KEEP_POINTER(from[i]);
        }
        place = k() * S::RIGHT + threadIdx.x / RUN * PANEL + threadIdx.x % (PANEL / 4) * 4;
        EYELET_KEEP(place);
    }

    static EYELET_MEMBER u32 k() { return threadIdx.x % RUN / (PANEL / 4); }

    template <bool Whole> EYELET_MEMBER void fetch(u32 left)
    {
        const bool exists = Whole || k() < left;
        const bool fours = width % 4 == 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            held[i] = !exists ? W::nothing() : fours ? __ldg(reinterpret_cast<const Four *>(from[i] + at)) : W::apart(from[i] + at);
        at += DEPTH * width;
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            *reinterpret_cast<float4 *>(to + place + i * (S::THREADS / RUN * PANEL)) = W::widened(held[i]);
    }
};

/* The rectangles that there are. */
typedef Shape<128, 128, 8, 8> Tile128x128;
typedef Shape<128, 64, 8, 8> Tile128x64;
typedef Shape<64, 64, 8, 8> Tile64x64;
typedef Shape<64, 32, 8, 4> Tile64x32;
typedef Shape<32, 32, 4, 4> Tile32x32;

#endif
