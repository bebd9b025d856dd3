/* Depthwise convolution, scale and shift of channels, and convolution in groups of which a panel holds several.
 *
 * A warp's lanes are the channels of a panel; a thread makes PIXELS adjacent outputs of a line, so that weights, and
 * the columns that neighbouring windows share, are loaded once for all of them. Every output is one chain of fused
 * multiply-adds: the bias, then the taps in order, of each the channels of the group. Taps beside the image are zeros
 * that are multiplied as all others are. */
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
    unsigned group; /* channels that an output reads of each tap: below 32 */
    unsigned input[2]; /* height, width; and so are the others */
    unsigned output[2];
    unsigned kernel[2];
    unsigned stride[2];
    unsigned dilation[2];
    unsigned pad[2];
    Activation activation;
    unsigned reserved;
};

/* What a thread reads of a line of taps. */
struct Line {
    const float *start;   /* the image line's pixel 0, in the first channel of the group; null beside the image */
    long long column;     /* that of the first tap of the first pixel: negative in the padding */
    long long pitch;      /* floats from one pixel to the next */
    unsigned width;       /* pixels */
};

/* The element of a column; 0 beside the image. `offset` is the column times the pitch. */
EYELET_INLINE float tap_at(const Line &line, long long column, long long offset)
{
    return line.start && column >= 0 && column < line.width ? __ldg(line.start + offset) : 0.0f;
}

/* Adds a line of taps whose columns lie side by side and overlap: each is loaded once. */
template <int TAPS, int STRIDE, class W>
EYELET_INLINE void add_line(float (&acc)[PIXELS], const Line &line, const W &weight)
{
    enum { COLUMNS = (PIXELS - 1) * STRIDE + TAPS };
    float x[COLUMNS];
    long long offset = line.column * line.pitch;
#pragma unroll
    for (int i = 0; i < COLUMNS; i++, offset += line.pitch)
        x[i] = tap_at(line, line.column + i, offset);
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        const float w = weight(tap);
#pragma unroll
        for (int p = 0; p < PIXELS; p++)
            acc[p] = fused(x[p * STRIDE + tap], w, acc[p]);
    }
}

/* The same for any window and group. */
template <class W>
EYELET_INLINE void add_line_of_any(
    float (&acc)[PIXELS], const DepthwiseRecord &r, const Line &line, const W &weight)
{
    long long column = line.column;
    for (unsigned tap = 0; tap < r.kernel[1]; tap++, column += r.dilation[1]) {
        const long long offset = column * line.pitch;
        for (unsigned k = 0; k < r.group; k++) {
            const float w = weight((size_t)tap * r.group + k);
#pragma unroll
            for (int p = 0; p < PIXELS; p++) {
                const long long beyond = (long long)p * r.stride[1];
                const float x = tap_at(line, column + beyond, offset + beyond * line.pitch + k);
                acc[p] = fused(x, w, acc[p]);
            }
        }
    }
}

/* TAPS and STRIDE along a line; any where TAPS is 0. */
template <int TAPS, int STRIDE> EYELET_INLINE void depthwise(const DepthwiseRecord &r)
{
    const unsigned lane = threadIdx.x;
    const unsigned runs = (r.output[1] - 1) / PIXELS + 1;
    const size_t item = (size_t)blockIdx.x * blockDim.y + threadIdx.y;
    const size_t line = item / runs;
    if (line >= r.lines)
        return;
    const unsigned pixel = (unsigned)(item % runs) * PIXELS;
    const unsigned image = (unsigned)line / r.output[0];
    const long long y0 = (long long)((unsigned)line % r.output[0]) * r.stride[0] - r.pad[0];
    const long long x0 = (long long)pixel * r.stride[1] - r.pad[1];
    for (size_t panel = (size_t)r.first_panel + blockIdx.y; panel < r.end_panel; panel += gridDim.y) {
        const size_t channel = panel * panels::WIDTH + lane;
        if (channel >= r.cols)
            return;
        const char *stored = (const char *)r.panels + (panel - r.first_panel) * r.panel_bytes;
        const float bias = __ldg((const float *)stored + lane);
        const void *weights = stored + panels::WIDTH * sizeof(float);
        const float *in = r.in + (channel - lane % r.group);
        float acc[PIXELS];
#pragma unroll
        for (int p = 0; p < PIXELS; p++)
            acc[p] = bias;
        const size_t line_taps = (size_t)r.kernel[1] * r.group;
        for (unsigned tap = 0; tap < r.kernel[0]; tap++) {
            const long long y = y0 + (long long)tap * r.dilation[0];
            const bool inside = y >= 0 && y < r.input[0];
            const size_t before = ((size_t)image * r.input[0] + y) * r.input[1];
            const float *start = inside ? in + before * r.in_pitch : nullptr;
            const Line taps = {start, x0, r.in_pitch, r.input[1]};
            const auto weight = [&](size_t i) {
                return panels::weight_at(weights, r.encoding, (tap * line_taps + i) * panels::WIDTH + lane);
            };
            if (TAPS)
                add_line<TAPS ? TAPS : 1, STRIDE>(acc, taps, weight);
            else
                add_line_of_any(acc, r, taps, weight);
        }
        const size_t row = line * r.output[1] + pixel;
        const float *residual = r.residual ? r.residual + row * r.residual_pitch + channel : nullptr;
        float *out = r.out + row * r.out_pitch + channel;
        const unsigned left = r.output[1] - pixel;
        if (residual)
#pragma unroll
            for (unsigned p = 0; p < PIXELS; p++)
                if (p < left)
                    acc[p] = add(acc[p], residual[(size_t)p * r.residual_pitch]);
        activate(r.activation, acc);
#pragma unroll
        for (unsigned p = 0; p < PIXELS; p++)
            if (p < left)
                out[(size_t)p * r.out_pitch] = acc[p];
    }
}

#define EYELET_DEPTHWISE(name, taps, stride)                                                           \
    extern "C" __global__ void __launch_bounds__(256, 3) name(const DepthwiseRecord r)                 \
    {                                                                                                  \
        depthwise<taps, stride>(r);                                                                    \
    }                                                                                                  \
    EYELET_EXPORT(name);
EYELET_DEPTHWISE(eyelet_depthwise, 0, 0)
EYELET_DEPTHWISE(eyelet_depthwise_3s1, 3, 1)
EYELET_DEPTHWISE(eyelet_depthwise_3s2, 3, 2)
EYELET_DEPTHWISE(eyelet_depthwise_5s1, 5, 1)
EYELET_DEPTHWISE(eyelet_depthwise_5s2, 5, 2)

} // namespace dwconv
