/* As much of CUDA as the kernels use, for a host's C++ compiler: so their very text runs where there is no GPU.
 * `tests/fake-cuda/emulator.cpp` runs them, one block at a time, each thread of it on a stack of its own.
 *
 * Barriers and shuffles are followed to the letter: one that not all threads reach, at the same line, ends the
 * process with the kernel's name, the thread and the line. Shared memory is poison (bytes 0xff: NaN) when a block
 * begins, and so is what a shuffle takes from a lane that is not there. The order of threads between two barriers
 * differs from block to block. What cannot be seen so: races inside one thread order, time, and what a GPU's compiler makes
 * of the text. */
#ifndef EYELET_CUDA_HOST_H
#define EYELET_CUDA_HOST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __constant__ static const
/* tools/fake-cuda.sh has the linker lay a source's together, so that it can be poisoned. */
#define __shared__ static __attribute__((aligned(16)))
#define __restrict__ __restrict

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};

/* Set for the thread that runs. */
#define EYELET_HOST_HIDDEN __attribute__((visibility("hidden")))
extern EYELET_HOST_HIDDEN uint3 threadIdx, blockIdx;
extern EYELET_HOST_HIDDEN dim3 blockDim, gridDim;
static const int warpSize = 32;

struct __align__(8) float2 {
    float x, y;
};
struct __align__(16) float4 {
    float x, y, z, w;
};
struct __align__(8) uint2 {
    unsigned x, y;
};
struct __align__(16) uint4 {
    unsigned x, y, z, w;
};
struct __align__(8) int2 {
    int x, y;
};
struct __align__(16) int4 {
    int x, y, z, w;
};
struct __align__(4) ushort2 {
    unsigned short x, y;
};
struct __align__(8) ushort4 {
    unsigned short x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

#define EYELET_HOST_INLINE static inline __attribute__((always_inline))

EYELET_HOST_INLINE float __int_as_float(int i)
{
    float f;
    memcpy(&f, &i, sizeof f);
    return f;
}
EYELET_HOST_INLINE int __float_as_int(float f)
{
    int i;
    memcpy(&i, &f, sizeof i);
    return i;
}
EYELET_HOST_INLINE float __uint_as_float(unsigned i) { return __int_as_float((int)i); }
EYELET_HOST_INLINE unsigned __float_as_uint(float f) { return (unsigned)__float_as_int(f); }
EYELET_HOST_INLINE float __fadd_rn(float a, float b) { return a + b; }
EYELET_HOST_INLINE float __fsub_rn(float a, float b) { return a - b; }
EYELET_HOST_INLINE float __fmul_rn(float a, float b) { return a * b; }
EYELET_HOST_INLINE float __fdiv_rn(float a, float b) { return a / b; }
EYELET_HOST_INLINE float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
EYELET_HOST_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EYELET_HOST_INLINE float __int2float_rn(int i) { return (float)i; }
EYELET_HOST_INLINE float __uint2float_rn(unsigned i) { return (float)i; }
EYELET_HOST_INLINE unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
EYELET_HOST_INLINE int min(int a, int b) { return a < b ? a : b; }
EYELET_HOST_INLINE int max(int a, int b) { return a > b ? a : b; }
EYELET_HOST_INLINE unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
EYELET_HOST_INLINE unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

template <typename T> EYELET_HOST_INLINE T __ldg(const T *p) { return *p; }
template <typename T> EYELET_HOST_INLINE T __ldcg(const T *p) { return *p; }
template <typename T> EYELET_HOST_INLINE T __ldcs(const T *p) { return *p; }
template <typename T> EYELET_HOST_INLINE void __stcs(T *p, T v) { *p = v; }
template <typename T> EYELET_HOST_INLINE void __stcg(T *p, T v) { *p = v; }

EYELET_HOST_INLINE void __threadfence() {}
EYELET_HOST_INLINE void __threadfence_block() {}
/* Of integers only: a sum of floats in any order would have any bits. */
EYELET_HOST_INLINE unsigned atomicAdd(unsigned *p, unsigned v)
{
    const unsigned before = *p;
    *p = before + v;
    return before;
}
EYELET_HOST_INLINE int atomicAdd(int *p, int v)
{
    const int before = *p;
    *p = before + v;
    return before;
}

namespace eyelet_host {

enum Meeting { SYNC_WARP, SHUFFLE, BALLOT };

/* Waits for all threads of the block. */
EYELET_HOST_HIDDEN void barrier(const char *file, int line);
/* Waits for the lanes of `mask`. A shuffle: the value of lane `from`. A ballot: whose value is not 0. */
EYELET_HOST_HIDDEN uint64_t meet(Meeting kind, unsigned mask, uint64_t value, unsigned from,
                                 const char *file, int line);
EYELET_HOST_HIDDEN unsigned lane();
EYELET_HOST_HIDDEN void *dynamic_shared();

/* Makes a kernel known by its name. */
struct Kernel {
    const char *name;
    size_t record_bytes;
    void (*call)(void (*function)(), const void *record);
    void (*function)();
    unsigned char *shared, *shared_end;
    const Kernel *next;
    Kernel(const char *name, size_t record_bytes, void (*call)(void (*)(), const void *),
           void (*function)(), unsigned char *shared, unsigned char *shared_end);
};

template <typename R> void call(void (*function)(), const void *record)
{
    reinterpret_cast<void (*)(R)>(function)(*static_cast<const R *>(record));
}
template <typename R>
Kernel kernel(const char *name, void (*function)(R), unsigned char *shared, unsigned char *shared_end)
{
    static_assert(alignof(R) <= 16, "a record is aligned to 16 bytes at most");
    return Kernel(name, sizeof(R), call<R>, reinterpret_cast<void (*)()>(function), shared, shared_end);
}

template <typename T> T shuffle(unsigned mask, T v, unsigned from, const char *file, int line)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 32 or 64 bits");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = meet(SHUFFLE, mask, bits, from, file, line);
    memcpy(&v, &bits, sizeof v);
    return v;
}

} // namespace eyelet_host

#define EYELET_HOST_PASTE(a, b) a##b
#define EYELET_HOST_JOIN(a, b) EYELET_HOST_PASTE(a, b)
#ifdef EYELET_SHARED
/* Where the source's static shared memory begins and ends, from the linker. */
extern "C" EYELET_HOST_HIDDEN unsigned char EYELET_HOST_JOIN(EYELET_SHARED, _start)[];
extern "C" EYELET_HOST_HIDDEN unsigned char EYELET_HOST_JOIN(EYELET_SHARED, _end)[];

/* In a section of its own: it is no shared memory. */
#define EYELET_EXPORT(name)                                                                            \
    __attribute__((section("eyelet_kernels"))) static eyelet_host::Kernel name##_known =               \
        eyelet_host::kernel(#name, name, EYELET_HOST_JOIN(EYELET_SHARED, _start),                      \
                            EYELET_HOST_JOIN(EYELET_SHARED, _end))
#endif

#define EYELET_DYNAMIC_SHARED(type, name)                                                              \
    type *const name = static_cast<type *>(eyelet_host::dynamic_shared())

#define EYELET_HOST_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

EYELET_HOST_INLINE void __syncthreads(EYELET_HOST_HERE) { eyelet_host::barrier(file, line); }
EYELET_HOST_INLINE void __syncwarp(unsigned mask = 0xffffffffu, EYELET_HOST_HERE)
{
    eyelet_host::meet(eyelet_host::SYNC_WARP, mask, 0, 0, file, line);
}
template <typename T>
EYELET_HOST_INLINE T __shfl_sync(unsigned mask, T v, int from, int width = 32, EYELET_HOST_HERE)
{
    const unsigned lane = eyelet_host::lane(), first = lane & ~(unsigned)(width - 1);
    return eyelet_host::shuffle(mask, v, first + ((unsigned)from & (unsigned)(width - 1)), file, line);
}
template <typename T>
EYELET_HOST_INLINE T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, EYELET_HOST_HERE)
{
    const unsigned lane = eyelet_host::lane(), last = lane | (unsigned)(width - 1);
    return eyelet_host::shuffle(mask, v, lane + delta <= last ? lane + delta : lane, file, line);
}
template <typename T>
EYELET_HOST_INLINE T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, EYELET_HOST_HERE)
{
    const unsigned lane = eyelet_host::lane(), first = lane & ~(unsigned)(width - 1);
    return eyelet_host::shuffle(mask, v, lane >= first + delta ? lane - delta : lane, file, line);
}
template <typename T>
EYELET_HOST_INLINE T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, EYELET_HOST_HERE)
{
    const unsigned lane = eyelet_host::lane(), from = lane ^ (unsigned)with;
    const unsigned last = lane | (unsigned)(width - 1);
    return eyelet_host::shuffle(mask, v, from <= last ? from : lane, file, line);
}
EYELET_HOST_INLINE unsigned __ballot_sync(unsigned mask, int truth, EYELET_HOST_HERE)
{
    return (unsigned)eyelet_host::meet(eyelet_host::BALLOT, mask, truth != 0, 0, file, line);
}
EYELET_HOST_INLINE int __any_sync(unsigned mask, int truth, EYELET_HOST_HERE)
{
    return eyelet_host::meet(eyelet_host::BALLOT, mask, truth != 0, 0, file, line) != 0;
}
EYELET_HOST_INLINE int __all_sync(unsigned mask, int truth, EYELET_HOST_HERE)
{
    return eyelet_host::meet(eyelet_host::BALLOT, mask, truth == 0, 0, file, line) == 0;
}

#endif
