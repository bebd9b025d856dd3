/* Maximum and average pooling. A thread makes some channels of one pixel: their taps one after the other, line by line. */
#include "activation.cuh"
#include "rectangle.cuh"

namespace pooling {

/* Windows along the height or the width. */
struct Axis {
    unsigned extent; /* of the input */
    unsigned outputs;
    unsigned kernel;
    unsigned stride;
    unsigned dilation;
    unsigned pad;
    unsigned pad_end; /* padding at the end that counts in an average */
};

struct PoolRecord {
    const float *in;
    float *out;
    unsigned rows; /* pixels of the output */
    unsigned cols;
    unsigned in_pitch; /* floats from one pixel to the next */
    unsigned out_pitch;
    unsigned average;           /* 2: the sum; 1: the mean; 0: the maximum, as pool.h has them */
    unsigned count_include_pad; /* 1: padded positions count in a mean */
    Axis down;
    Axis along;
    unsigned wide;
    Activation activation;
};

/* The part of one window along one axis that lies inside the image: `count` taps from position `first` on. */
struct Window {
    long long first;
    unsigned count;
    unsigned padded; /* taps that count with the padding */
};

/* Taps of a window that lie before a position which is so far from its first tap. */
EYELET_INLINE unsigned taps_before(const Axis &axis, long long distance)
{
    if (distance <= 0)
        return 0;
    const long long taps = axis.dilation == 1 ? distance : (distance - 1) / axis.dilation + 1;
    return taps < axis.kernel ? (unsigned)taps : axis.kernel;
}

EYELET_INLINE Window window(const Axis &axis, unsigned output)
{
    const long long start = (long long)output * axis.stride - axis.pad;
    const unsigned before = taps_before(axis, -start);
    const long long extent = axis.extent;
    Window w;
    w.first = start + (long long)before * axis.dilation;
    w.count = taps_before(axis, extent - start) - before;
    w.padded = taps_before(axis, extent + axis.pad_end - start);
    return w;
}

/* Means of one block, and of several. */
enum Pooling { MAXIMUM, MEAN, LONG_MEAN };

template <Pooling POOLING, int N> EYELET_INLINE void pool_all(const PoolRecord &r)
{
    const size_t col = EYELET_COLUMN(N);
    if (col >= r.cols)
        return;
    EYELET_EACH_ROW(row, r.rows)
    {
        const unsigned line = (unsigned)row / r.along.outputs;
        const unsigned image = line / r.down.outputs;
        const Window y = window(r.down, line % r.down.outputs);
        const Window x = window(r.along, (unsigned)row % r.along.outputs);
        float v[N], total[N], lost[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] = POOLING == MAXIMUM ? -EYELET_INFINITY : 0.0f;
            total[i] = lost[i] = 0.0f;
        }
        size_t left = EYELET_BLOCK;
        if (y.count && x.count) {
            const size_t first = ((size_t)image * r.down.extent + y.first) * r.along.extent + x.first;
            const float *start = r.in + first * r.in_pitch + col;
            const size_t line_pitch = (size_t)r.down.dilation * r.along.extent * r.in_pitch;
            const size_t tap_pitch = (size_t)r.along.dilation * r.in_pitch;
            /* Lines that are taken whole follow each other: their taps are one run, of which several are loaded at once. */
            size_t lines = y.count, taps = x.count;
            if (x.count == r.along.extent && r.down.dilation == 1 && r.along.dilation == 1) {
                taps *= lines;
                lines = 1;
            }
            for (; lines > 0; lines--, start += line_pitch) {
                const float *tap = start;
                for (size_t done = 0; done < taps;) {
                    const size_t some = POOLING == LONG_MEAN && left < taps - done ? left : taps - done;
#pragma unroll(N == 1 ? 8 : 4)
                    for (size_t j = 0; j < some; j++, tap += tap_pitch) {
                        float t[N];
                        get_constant(t, tap);
#pragma unroll
                        for (int i = 0; i < N; i++)
                            v[i] = POOLING == MAXIMUM ? largest(t[i], v[i]) : add(v[i], t[i]);
                    }
                    done += some;
                    left -= some;
                    if (POOLING == LONG_MEAN && left == 0) {
#pragma unroll
                        for (int i = 0; i < N; i++) {
                            join(&total[i], &lost[i], v[i]);
                            v[i] = 0.0f;
                        }
                        left = EYELET_BLOCK;
                    }
                }
            }
        }
        if (POOLING == LONG_MEAN) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                join(&total[i], &lost[i], v[i]);
                v[i] = joined(total[i], lost[i]);
            }
        }
        if (POOLING != MAXIMUM) {
            const unsigned long long inside = (unsigned long long)y.count * x.count;
            const unsigned long long padded = (unsigned long long)y.padded * x.padded;
            const unsigned long long positions = r.count_include_pad ? padded : inside;
            const float count = (float)(positions && r.average == 1 ? positions : 1);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = over(v[i], count);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = add(v[i], 0.0f);
        }
        activate(r.activation, v);
        put(r.out + row * r.out_pitch + col, v);
    }
}

extern "C" __global__ void __launch_bounds__(256, 4) eyelet_pool(const PoolRecord r)
{
    const unsigned long long taps = (unsigned long long)r.down.kernel * r.along.kernel;
    if (!r.average)
        r.wide ? pool_all<MAXIMUM, 4>(r) : pool_all<MAXIMUM, 1>(r);
    else if (taps <= EYELET_BLOCK)
        r.wide ? pool_all<MEAN, 4>(r) : pool_all<MEAN, 1>(r);
    else
        r.wide ? pool_all<LONG_MEAN, 4>(r) : pool_all<LONG_MEAN, 1>(r);
}
EYELET_EXPORT(eyelet_pool);

} // namespace pooling
