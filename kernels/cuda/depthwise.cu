/* Depthwise convolution, scale and shift of channels, and convolution in groups of which a panel holds several.
 *
 * A thread makes one or four channels of PIXELS adjacent outputs of a line, so that weights, and the columns that
 * neighbouring windows share, are loaded once for all of them; neighbouring threads make the channels of a panel. Every
 * output is one chain of fused multiply-adds: the bias, then the taps in order, of each the channels of the group. Taps
 * beside the image are zeros that are multiplied as all others are. */
#include "activation.cuh"
#include "weights.cuh"

namespace dwconv {

enum { PIXELS = 4 };

struct DepthwiseRecord {
    const float *in;
    const float *residual; /* null where there is none; may be `out` */
    const void *panels;    /* of each panel the biases, then [taps][channels of a group][32] */
    float *out;
    unsigned lines; /* of the output, of all images */
    unsigned cols;  /* channels */
    unsigned first_panel;
    unsigned end_panel; /* behind the last one */
    unsigned panel_bytes;
    unsigned encoding;
    unsigned in_pitch; /* floats from one pixel to the next */
    unsigned residual_pitch;
    unsigned out_pitch;
    unsigned group;    /* channels that an output reads of each tap: below 32 */
    unsigned input[2]; /* height, width; and so are the others */
    unsigned output[2];
    unsigned kernel[2];
    unsigned stride[2];
    unsigned dilation[2];
    unsigned pad[2];
    Activation activation;
    unsigned wide; /* 1: a thread makes four channels, the group is 1 */
};

/* N channels of a pixel if it is inside the image, zeros otherwise. */
template <int N> EYELET_INLINE void get_inside(float (&x)[N], bool inside, const float *p)
{
    if (inside) {
        get_constant(x, p);
    } else {
#pragma unroll
        for (int n = 0; n < N; n++)
            x[n] = 0.0f;
    }
}

template <int N> EYELET_INLINE void add_products(float (&acc)[N], const float (&x)[N], const float (&w)[N])
{
#pragma unroll
    for (int n = 0; n < N; n++)
        acc[n] = fused(x[n], w[n], acc[n]);
}

/* A line of taps. */
struct Line {
    const float *first; /* the first tap of the first pixel, in the first channel that is read; it may be outside */
    const void *weights;
    size_t tap;       /* of the line the first */
    long long column; /* that of the first tap of the first pixel: negative in the padding */
    bool inside;      /* whether the image has the line */
};

EYELET_INLINE bool is_inside(const DepthwiseRecord &r, const Line &line, long long column)
{
    return line.inside && column >= 0 && column < r.input[1];
}

/* Adds a line of taps whose columns lie side by side and overlap: each is loaded once. */
template <int TAPS, int STRIDE, int N>
EYELET_INLINE void add_line(float (&acc)[PIXELS][N], const DepthwiseRecord &r, const Line &line, unsigned lane)
{
    enum { COLUMNS = (PIXELS - 1) * STRIDE + TAPS };
    float w[TAPS][N], x[COLUMNS][N];
    panels::weights_at(w, line.weights, r.encoding, line.tap, lane);
    const float *p = line.first;
#pragma unroll
    for (int i = 0; i < COLUMNS; i++, p += r.in_pitch)
        get_inside(x[i], is_inside(r, line, line.column + i), p);
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
        for (int i = 0; i < PIXELS; i++)
            add_products(acc[i], x[i * STRIDE + tap], w[tap]);
}

/* The same for any window and, of single channels, any group. */
template <int N>
EYELET_INLINE void add_line_of_any(
    float (&acc)[PIXELS][N], const DepthwiseRecord &r, const Line &line, unsigned lane)
{
    const long long tap_pitch = (long long)r.dilation[1] * r.in_pitch;
    const long long pixel_pitch = (long long)r.stride[1] * r.in_pitch;
    const float *first = line.first;
    long long column = line.column;
    size_t at = line.tap * r.group;
    for (unsigned tap = 0; tap < r.kernel[1]; tap++, first += tap_pitch, column += r.dilation[1]) {
        for (unsigned k = 0; k < r.group; k++, at++) {
            float w[1][N];
            panels::weights_at(w, line.weights, r.encoding, at, lane);
            const float *p = first + k;
            long long own = column;
#pragma unroll
            for (int i = 0; i < PIXELS; i++, p += pixel_pitch, own += r.stride[1]) {
                float x[N];
                get_inside(x, is_inside(r, line, own), p);
                add_products(acc[i], x, w[0]);
            }
        }
    }
}

/* What is done to finished sums. Functions other than a clamp are applied to what the thread has just written, pixel by
 * pixel: their text is long. */
template <int N>
EYELET_INLINE void finish(float (&acc)[PIXELS][N], const DepthwiseRecord &r, size_t row, size_t channel, unsigned left)
{
    float *const out = r.out + row * r.out_pitch + channel;
    const float *const residual = r.residual ? r.residual + row * r.residual_pitch + channel : nullptr;
    const bool clamps = r.activation.function == EYELET_CLAMP;
#pragma unroll
    for (unsigned i = 0; i < PIXELS; i++) {
        if (i >= left)
            break;
        if (residual) {
            float x[N];
            get(x, residual + (size_t)i * r.residual_pitch);
#pragma unroll
            for (int n = 0; n < N; n++)
                acc[i][n] = add(acc[i][n], x[n]);
        }
        if (clamps)
            each<map_clamp>(r.activation, acc[i]);
        put(out + (size_t)i * r.out_pitch, acc[i]);
    }
    if (r.activation.function <= EYELET_CLAMP)
        return;
#pragma unroll 1
    for (unsigned i = 0; i < PIXELS && i < left; i++) {
        float x[N];
        get(x, out + (size_t)i * r.out_pitch);
        activate(r.activation, x);
        put(out + (size_t)i * r.out_pitch, x);
    }
}

/* TAPS and STRIDE along a line; any where TAPS is 0. N channels. */
template <int TAPS, int STRIDE, int N> EYELET_INLINE void depthwise(const DepthwiseRecord &r)
{
    const unsigned lane = threadIdx.x * N;
    const unsigned runs = (r.output[1] - 1) / PIXELS + 1;
    const size_t item = (size_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (item >= (size_t)r.lines * runs)
        return;
    /* As many as pixels at most: 32 bits. */
    const unsigned line = (unsigned)item / runs;
    const unsigned pixel = (unsigned)item % runs * PIXELS;
    const unsigned image = line / r.output[0];
    const long long y0 = (long long)(line % r.output[0]) * r.stride[0] - r.pad[0];
    const long long x0 = (long long)pixel * r.stride[1] - r.pad[1];
    const long long start = (((long long)image * r.input[0] + y0) * r.input[1] + x0) * r.in_pitch;
    const long long line_pitch = (long long)r.dilation[0] * r.input[1] * r.in_pitch;
    for (size_t panel = (size_t)r.first_panel + blockIdx.y; panel < r.end_panel; panel += gridDim.y) {
        const size_t channel = panel * panels::WIDTH + lane;
        if (channel >= r.cols)
            return;
        const char *stored = (const char *)r.panels + (panel - r.first_panel) * r.panel_bytes;
        float acc[PIXELS][N];
        get_constant(acc[0], (const float *)stored + lane);
#pragma unroll
        for (int i = N; i < PIXELS * N; i++)
            acc[i / N][i % N] = acc[0][i % N];
        Line taps = {r.in + (start + (long long)(channel - lane % r.group)),
                     stored + panels::WIDTH * sizeof(float), 0, x0, false};
        long long y = y0;
        for (unsigned tap = 0; tap < r.kernel[0]; tap++) {
            taps.inside = y >= 0 && y < r.input[0];
            if (TAPS)
                add_line<TAPS ? TAPS : 1, STRIDE, N>(acc, r, taps, lane);
            else
                add_line_of_any<N>(acc, r, taps, lane);
            taps.tap += r.kernel[1];
            taps.first += line_pitch;
            y += r.dilation[0];
        }
        finish(acc, r, (size_t)line * r.output[1] + pixel, channel, r.output[1] - pixel);
    }
}

#define EYELET_DEPTHWISE(name, taps, stride)                                                           \
    extern "C" __global__ void __launch_bounds__(256, 2) name(const DepthwiseRecord r)                 \
    {                                                                                                  \
        if (r.wide)                                                                                    \
            depthwise<taps, stride, 4>(r);                                                             \
        else                                                                                           \
            depthwise<taps, stride, 1>(r);                                                             \
    }                                                                                                  \
    EYELET_EXPORT(name);
EYELET_DEPTHWISE(eyelet_depthwise, 0, 0)
EYELET_DEPTHWISE(eyelet_depthwise_3s1, 3, 1)
EYELET_DEPTHWISE(eyelet_depthwise_3s2, 3, 2)
EYELET_DEPTHWISE(eyelet_depthwise_5s1, 5, 1)
EYELET_DEPTHWISE(eyelet_depthwise_5s2, 5, 2)

} // namespace dwconv
