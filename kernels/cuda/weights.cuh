/* Weights of panels, as they are stored. */
#ifndef EYELET_CUDA_WEIGHTS_H
#define EYELET_CUDA_WEIGHTS_H

#include "common.cuh"

namespace panels {

/* Output channels of a panel. */
enum { WIDTH = 32 };

/* As in a pack: how weights are stored. */
enum { ENCODING_F32 = 0, ENCODING_F16 = 1, ENCODING_BF16 = 2 };

EYELET_INLINE float weight_at(const void *weights, unsigned encoding, size_t at)
{
    if (encoding == ENCODING_F32)
        return __ldg((const float *)weights + at);
    const unsigned short bits = __ldg((const unsigned short *)weights + at);
    return encoding == ENCODING_F16 ? from_fp16(bits) : from_bf16(bits);
}

} // namespace panels

#endif
