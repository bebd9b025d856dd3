/* Weights of panels, as they are stored. */
#ifndef EYELET_CUDA_WEIGHTS_H
#define EYELET_CUDA_WEIGHTS_H

#include "rectangle.cuh"

namespace panels {

/* Output channels of a panel. */
enum { WIDTH = 32 };

/* As in a pack: how weights are stored. */
enum { ENCODING_F32 = 0, ENCODING_F16 = 1, ENCODING_BF16 = 2 };

EYELET_INLINE void get_bits(unsigned short (&v)[1], const unsigned short *p) { v[0] = __ldg(p); }
EYELET_INLINE void get_bits(unsigned short (&v)[4], const unsigned short *p)
{
    const uint2 q = __ldg((const uint2 *)p);
    v[0] = (unsigned short)q.x;
    v[1] = (unsigned short)(q.x >> 16);
    v[2] = (unsigned short)q.y;
    v[3] = (unsigned short)(q.y >> 16);
}

/* N adjacent channels of the weights `first` and those that follow it, as many as `w` has room for. The encoding is the same
 * for all threads: it is asked for once. */
template <int COUNT, int N>
EYELET_INLINE void weights_at(
    float (&w)[COUNT][N], const void *weights, unsigned encoding, size_t first, unsigned channel)
{
    const size_t at = first * WIDTH + channel;
    if (encoding == ENCODING_F32) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            get_constant(w[i], (const float *)weights + at + i * WIDTH);
        return;
    }
    unsigned short bits[COUNT][N];
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        get_bits(bits[i], (const unsigned short *)weights + at + i * WIDTH);
    if (encoding == ENCODING_F16) {
#pragma unroll
        for (int i = 0; i < COUNT * N; i++)
            w[i / N][i % N] = from_fp16(bits[i / N][i % N]);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT * N; i++)
            w[i / N][i % N] = from_bf16(bits[i / N][i % N]);
    }
}

EYELET_INLINE float weight_at(const void *weights, unsigned encoding, size_t at)
{
    float w[1][1];
    weights_at(w, (const char *)weights + at * (encoding == ENCODING_F32 ? 4 : 2), encoding, 0, 0);
    return w[0][0];
}

} // namespace panels

#endif
