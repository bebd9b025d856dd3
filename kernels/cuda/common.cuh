/* What all GPU kernels share. The text compiles three ways: with nvcc, with NVRTC, and as host C++ for the tests, where
 * `cuda-host.h` stands in for CUDA.
 *
 * A kernel takes one record by value. Its record is declared here or in its source, and beside the operator that
 * fills it in `runtime/ops/cuda/`; addresses are 64 bits (`float *` is that on both sides). A kernel looks so:
 *
 *     extern "C" __global__ void __launch_bounds__(256) eyelet_map(const MapRecord r) { ... }
 *     EYELET_EXPORT(eyelet_map);
 *
 * C++14, and nothing that CUDA 10.2 lacks. Nothing is fused but by `fmaf`: compilers are told so, and so is g++.
 *
 * Dynamic shared memory is EYELET_DYNAMIC_SHARED(float, tile); static shared memory is plain `__shared__`. */
#ifndef EYELET_COMMON_CUH
#define EYELET_COMMON_CUH

#ifdef __CUDACC__
#define EYELET_EXPORT(kernel)
#define EYELET_DYNAMIC_SHARED(type, name)                                                              \
    extern __shared__ __align__(16) unsigned char eyelet_dynamic_shared[];                             \
    type *const name = reinterpret_cast<type *>(eyelet_dynamic_shared)
#else
#include "cuda-host.h"
#endif

#include "../kernel.h"

/* A weight of 16 bits as a float, exactly. */
EYELET_INLINE float from_bf16(unsigned short h) { return __int_as_float((int)((unsigned)h << 16)); }

EYELET_INLINE float from_fp16(unsigned short h)
{
#ifdef __CUDA_ARCH__
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
#else
    const unsigned sign = (unsigned)(h & 0x8000) << 16;
    const unsigned magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00) /* infinite, or NaN */
        return __int_as_float((int)(sign | 0x7f800000u | (magnitude & 0x3ff) << 13));
    if (magnitude < 0x400) { /* zero, or subnormal: a whole number of 2^-24 */
        const float f = (float)(int)magnitude * 5.9604644775390625e-8f;
        return sign ? -f : f;
    }
    return __int_as_float((int)(sign | ((magnitude << 13) + 0x38000000u)));
#endif
}

#endif
