/* A kernel for testing what runs kernels: one that is right, and with as many mistakes as there are kinds of them. */
#include "../../kernels/cuda/common.cuh"

struct MistakeRecord {
    float *out; /* as many as threads, of which there are 64 */
    unsigned mistake;
    unsigned reserved;
};

template <int N> static __device__ float reversed(float x)
{
    __shared__ float all[N];
    all[threadIdx.x] = x;
    __syncthreads();
    const float y = all[N - 1 - threadIdx.x];
    __syncthreads();
    return y;
}

extern "C" __global__ void __launch_bounds__(64) eyelet_mistake(const MistakeRecord r)
{
    EYELET_DYNAMIC_SHARED(float, dynamic);
    __shared__ float fresh;
    const unsigned thread = threadIdx.x;
    float x = (float)thread;
    /* What nobody has written is NaN. */
    const bool poisoned = !(fresh == fresh) && !(dynamic[thread] == dynamic[thread]);
    __syncthreads();
    fresh = 0.0f;
    dynamic[thread] = x;
    switch (r.mistake) {
    case 1:
        if (thread == 5)
            return;
        break;
    case 2:
        if (thread == 5)
            x += __shfl_sync(0xffffffffu, x, 0);
        break;
    case 3: x += __shfl_sync(thread < 40 ? 0xffffffffu : 0xff00u, x, 0); break;
    case 4:
        if (thread == 7)
            __syncthreads();
        break;
    case 5: dynamic[thread + 1] = x; break;
    case 6: r.out[thread + 4096] = x; break;
    }
    __syncthreads();
    float sum = x;
    for (int half = 16; half > 0; half /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, half);
    const float after = __shfl_down_sync(0xffffffffu, x, 1), before = __shfl_up_sync(0xffffffffu, x, 1, 8);
    const unsigned odd = __ballot_sync(0xffffffffu, thread & 1);
    /* The lower half of each warp on its own. */
    float first = 0.0f;
    if (thread % 32 < 16)
        first = __shfl_sync(0xffffu, x, 3);
    const bool right = poisoned && sum == (thread < 32 ? 496.0f : 1520.0f) && odd == 0xaaaaaaaau &&
                       after == (thread % 32 == 31 ? x : x + 1.0f) && before == (thread % 8 ? x - 1.0f : x) &&
                       first == (thread % 32 < 16 ? (float)(thread / 32 * 32 + 3) : 0.0f) &&
                       __all_sync(0xffffffffu, 1) && !__any_sync(0xffffffffu, 0);
    r.out[thread] = right ? reversed<64>(x) : reversed<64>(-1.0f);
}
EYELET_EXPORT(eyelet_mistake);
