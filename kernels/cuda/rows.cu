/* What goes over rows of adjacent floats: softmax, layer normalisation, means, and local response normalisation.
 *
 * A warp makes a row. Sums are those of `../rows.h`: sixteen chains, element i in the one numbered i mod 16. So the lower
 * half of the warp has them: it adds first its own element, then the upper half's, which is the next of the same
 * chain. All lanes load and compute. Maxima are the same in any order (but for the sign of zero, which no difference
 * from them shows). */
#include "activation.cuh"
#include "rectangle.cuh"

namespace rows {

#define EYELET_ALL_LANES 0xffffffffu

/* Elements that are loaded before the first of them is added: what hides the latency of memory. */
enum { BATCH = 4 };
static_assert(16 * EYELET_BLOCK % (32 * BATCH) == 0, "blocks of chains end where a batch does");

EYELET_INLINE float entered(float sum, float x) { return add(sum, x); }
EYELET_INLINE float square_entered(float sum, float x) { return fused(x, x, sum); }

/* The chains of f(0), f(1), ... f(n - 1), combined, in all lanes. What enters a chain is a sum's term, or what is squared in
 * a fused multiply-add. */
template <float (*ENTER)(float, float), class F>
EYELET_INLINE float ordered_sum(unsigned n, unsigned lane, const F &f)
{
    float total = 0.0f, lost = 0.0f, sum = 0.0f;
    for (size_t i = 0; i < n; i += 32 * BATCH) {
        float v[BATCH];
        /* A block of each chain. */
        if (i > 0 && i % (16 * EYELET_BLOCK) == 0) {
            join(&total, &lost, sum);
            sum = 0.0f;
        }
        /* No chain's sum is -0, so that adding 0 changes none. */
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const size_t at = i + b * 32 + lane;
            v[b] = at < n ? f(at) : 0.0f;
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            sum = ENTER(sum, v[b]);
            sum = ENTER(sum, __shfl_down_sync(EYELET_ALL_LANES, v[b], 16));
        }
    }
    join(&total, &lost, sum);
    sum = joined(total, lost);
#pragma unroll
    for (int half = 8; half > 0; half /= 2)
        sum = add(sum, __shfl_down_sync(EYELET_ALL_LANES, sum, half));
    return __shfl_sync(EYELET_ALL_LANES, sum, 0);
}

/* The largest element of a row, NaN passed over, in all lanes. */
EYELET_INLINE float row_largest(const float *x, unsigned n, unsigned lane)
{
    float largest = -EYELET_INFINITY;
#pragma unroll 4
    for (size_t i = lane; i < n; i += 32)
        largest = larger(x[i], largest);
#pragma unroll
    for (int half = 16; half > 0; half /= 2)
        largest = larger(__shfl_xor_sync(EYELET_ALL_LANES, largest, half), largest);
    return largest;
}

/* The row of a warp: all of its lanes have the same. */
EYELET_INLINE size_t warp_row() { return (size_t)blockIdx.x * blockDim.y + threadIdx.y; }

struct SoftmaxRecord {
    const float *in;
    float *out; /* may be `in` */
    unsigned rows;
    unsigned cols;
    unsigned in_pitch; /* floats from one row to the next */
    unsigned out_pitch;
    unsigned reserved;
    Activation activation;
};

extern "C" __global__ void __launch_bounds__(256) eyelet_softmax(const SoftmaxRecord r)
{
    const unsigned lane = threadIdx.x;
    const size_t row = warp_row();
    if (row >= r.rows)
        return;
    const float *x = r.in + row * r.in_pitch;
    float *out = r.out + row * r.out_pitch;
    const float largest = row_largest(x, r.cols, lane);
    const auto term = [&](size_t i) {
        const float e = exponential(sub(x[i], largest));
        out[i] = e;
        return e;
    };
    const float scale = over(1.0f, ordered_sum<entered>(r.cols, lane, term));
    for (size_t i = lane; i < r.cols; i += 32)
        out[i] = activated(r.activation, mul(out[i], scale));
}
EYELET_EXPORT(eyelet_softmax);

struct LayerNormRecord {
    const float *in;
    float *out;           /* may be `in` */
    const float *weights; /* a scale for each column, then a shift for each */
    unsigned rows;
    unsigned cols;
    unsigned in_pitch;
    unsigned out_pitch;
    float epsilon;
    unsigned about_zero; /* 1: zero stands in place of the mean */
    Activation activation;
    unsigned reserved;
};

extern "C" __global__ void __launch_bounds__(256) eyelet_layernorm(const LayerNormRecord r)
{
    const unsigned lane = threadIdx.x;
    const float count = (float)r.cols;
    const size_t row = warp_row();
    if (row >= r.rows)
        return;
    const float *x = r.in + row * r.in_pitch;
    float *out = r.out + row * r.out_pitch;
    const auto element = [&](size_t i) { return x[i]; };
    const float mean = r.about_zero ? 0.0f : over(ordered_sum<entered>(r.cols, lane, element), count);
    const auto difference = [&](size_t i) { return sub(x[i], mean); };
    const float variance = over(ordered_sum<square_entered>(r.cols, lane, difference), count);
    const float scale = over(1.0f, root(add(variance, r.epsilon)));
    for (size_t i = lane; i < r.cols; i += 32) {
        const float normal = mul(sub(x[i], mean), scale);
        out[i] = activated(r.activation, fused(normal, r.weights[i], r.weights[r.cols + i]));
    }
}
EYELET_EXPORT(eyelet_layernorm);

struct MeanRecord {
    const float *in; /* rows without gaps */
    float *out;
    unsigned rows;
    unsigned cols;
    unsigned out_pitch;
    float count; /* what the sum is divided by */
    Activation activation;
    unsigned reserved;
};

/* The mean, or the sum, of each row. */
extern "C" __global__ void __launch_bounds__(256) eyelet_mean(const MeanRecord r)
{
    const unsigned lane = threadIdx.x;
    const size_t row = warp_row();
    if (row >= r.rows)
        return;
    const float *x = r.in + row * r.cols;
    const auto element = [&](size_t i) { return __ldg(x + i); };
    const float sum = ordered_sum<entered>(r.cols, lane, element);
    if (lane == 0)
        r.out[row * r.out_pitch] = activated(r.activation, over(sum, r.count));
}
EYELET_EXPORT(eyelet_mean);

struct LrnRecord {
    const float *in;
    float *out;
    unsigned rows;
    unsigned cols;
    unsigned in_pitch;
    unsigned out_pitch;
    unsigned before; /* channels of the window before an element's own, and after it */
    unsigned after;
    float alpha; /* over the window's size */
    float beta;
    float bias;
    Activation activation;
};

EYELET_INLINE float square(float x) { return mul(x, x); }

/* Every element for itself: the squares of its window, in ascending order. */
extern "C" __global__ void __launch_bounds__(256) eyelet_lrn(const LrnRecord r)
{
    const size_t col = EYELET_COLUMN(1);
    if (col >= r.cols)
        return;
    const size_t start = col > r.before ? col - r.before : 0;
    const size_t end = col + r.after < r.cols ? col + r.after + 1 : r.cols;
    EYELET_EACH_ROW(row, r.rows)
    {
        const float *x = r.in + row * r.in_pitch;
        float squares = 0.0f;
        for (size_t i = start; i < end; i++)
            squares = add(squares, square(__ldg(x + i)));
        const float y = mul(x[col], power(fused(r.alpha, squares, r.bias), -r.beta));
        r.out[row * r.out_pitch + col] = activated(r.activation, y);
    }
}
EYELET_EXPORT(eyelet_lrn);

} // namespace rows
