/* A libcuda.so.1 without a GPU: the functions of CUDA's driver that eyelet calls, over the emulator. It is found the
 * way the real one is. Names and numbers are those of the driver's interface (`cuda.h`), which is stable.
 *
 * EYELET_FAKE_CUDA, or `eyelet_fake_cuda(text)` before a context is made, says what GPU there is; see `config.h`. */
#include "config.h"
#include "emulator.h"
#include "memory.h"
#include "streams.h"
#include "virtual.h"

#include "../../kernels/cuda/cuda-host.h"

#include <algorithm>
#include <stdio.h>
#include <string.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    NOT_SUPPORTED = 801,
};

struct Module {
    Kind kind = MODULE;
};

bool initialised;
/* The thread's contexts, each over the one before; what calls work on is the last. */
thread_local std::vector<Context *> contexts;
thread_local Context *current;

void set_current(Context *context)
{
    if (contexts.empty())
        contexts.push_back(context);
    else
        contexts.back() = context;
    current = context;
}

void push(Context *context)
{
    contexts.push_back(context);
    current = context;
}

void pop()
{
    contexts.pop_back();
    current = contexts.empty() ? nullptr : contexts.back();
}

/* The stream that has no name, which copies go through that are not asynchronous. */
Stream *legacy()
{
    if (!current->legacy)
        current->legacy = new_stream(current, true);
    return current->legacy;
}

bool stays(int error) { return error >= 700 && error < 720; }

/* What every call on a context begins with. */
int begin()
{
    if (!initialised)
        return NOT_INITIALIZED;
    if (!is(current, CONTEXT))
        return INVALID_CONTEXT;
    return current->sticky;
}

int begin(const char *function)
{
    if (const int error = begin())
        return error;
    const int error = injected(function);
    if (stays(error))
        current->sticky = error;
    return error;
}

/* Adds work to a stream. An error that was asked for and would stay comes from the work. */
int begin(const char *function, Stream *stream, int &late)
{
    if (const int error = begin())
        return error;
    if (!is(stream, STREAM) || stream->context != current)
        return INVALID_HANDLE;
    late = injected(function);
    return stays(late) ? SUCCESS : late;
}

#define CALL()                                                                                         \
    Lock lock(driver_lock);                                                                            \
    if (const int error = begin(__func__))                                                             \
    return error
#define CALL_ASYNC()                                                                                   \
    Lock lock(driver_lock);                                                                            \
    int late = SUCCESS;                                                                                \
    if (const int error = begin(__func__, stream, late))                                               \
    return error

const unsigned ON_DEVICE = 1u << DEVICE | 1u << HOST_MAPPED;

template <typename T = void> T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

bool on_device(uint64_t address, size_t bytes) { return within(pointer(address), bytes, ON_DEVICE); }

} // namespace

API int cuInit(unsigned flags)
{
    Lock lock(driver_lock);
    if (flags)
        return INVALID_VALUE;
    if (config().devices == 0)
        return NO_DEVICE;
    initialised = true;
    return SUCCESS;
}

API int cuDriverGetVersion(int *version)
{
    *version = (int)config().driver;
    return SUCCESS;
}

/* Asked for by NVRTC, which a build may run with this library in its path. */
API int cuGetExportTable(const void **table, const void *)
{
    *table = nullptr;
    return NOT_FOUND;
}

API int cuDeviceGetCount(int *count)
{
    if (!initialised)
        return NOT_INITIALIZED;
    *count = (int)config().devices;
    return SUCCESS;
}

static bool is_device(int device) { return device >= 0 && device < (int)config().devices; }

API int cuDeviceGet(int *device, int ordinal)
{
    if (!initialised)
        return NOT_INITIALIZED;
    if (!is_device(ordinal))
        return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

API int cuDeviceGetName(char *name, int length, int device)
{
    if (!is_device(device) || length < 1)
        return INVALID_DEVICE;
    snprintf(name, (size_t)length, "no GPU: kernels run as host code");
    return SUCCESS;
}

API int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    if (!is_device(device))
        return INVALID_DEVICE;
    *bytes = config().memory;
    return SUCCESS;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const Config &c = config();
    if (!is_device(device))
        return INVALID_DEVICE;
    switch (attribute) {
    case 16: *value = (int)c.multiprocessors; return SUCCESS;
    case 18: *value = c.integrated; return SUCCESS;
    case 19: *value = 1; return SUCCESS; /* maps host memory */
    case 40: *value = c.integrated ? 1 : 2; return SUCCESS; /* copy engines */
    case 41: *value = 1; return SUCCESS;                    /* one address space */
    case 75: *value = (int)c.capability / 10; return SUCCESS;
    case 76: *value = (int)c.capability % 10; return SUCCESS;
    case 83: *value = 1; return SUCCESS; /* managed memory */
    case 102: *value = c.virtual_memory; return SUCCESS;
    default: return INVALID_VALUE;
    }
}

API int cuCtxCreate_v2(Context **context, unsigned flags, int device)
{
    Lock lock(driver_lock);
    if (!initialised)
        return NOT_INITIALIZED;
    if (const int error = injected(__func__))
        return error;
    if (!is_device(device))
        return INVALID_DEVICE;
    if (flags & ~0x1fu)
        return INVALID_VALUE;
    *context = new Context;
    push(*context);
    return SUCCESS;
}

API int cuCtxDestroy_v2(Context *context)
{
    Lock lock(driver_lock);
    if (!is(context, CONTEXT))
        return INVALID_CONTEXT;
    finish(lock, context, false);
    if (current == context)
        pop();
    free_all(context);
    context->kind = DEAD;
    return context->sticky;
}

API int cuCtxSetCurrent(Context *context)
{
    Lock lock(driver_lock);
    if (context && !is(context, CONTEXT))
        return INVALID_CONTEXT;
    set_current(context);
    return SUCCESS;
}

API int cuCtxPushCurrent_v2(Context *context)
{
    Lock lock(driver_lock);
    if (!is(context, CONTEXT))
        return INVALID_CONTEXT;
    push(context);
    return SUCCESS;
}

API int cuCtxPopCurrent_v2(Context **context)
{
    Lock lock(driver_lock);
    if (contexts.empty())
        return INVALID_CONTEXT;
    *context = current;
    pop();
    return SUCCESS;
}

API int cuCtxGetCurrent(Context **context)
{
    *context = current;
    return SUCCESS;
}

API int cuCtxSynchronize(void)
{
    CALL();
    finish(lock, current, false);
    return current->sticky;
}

API int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    CALL();
    *total = config().memory;
    *free = config().memory - device_bytes();
    return SUCCESS;
}

API int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    CALL();
    if (!bytes)
        return INVALID_VALUE;
    if (bytes > config().memory - device_bytes())
        return OUT_OF_MEMORY;
    void *memory = allocate(current, DEVICE, bytes);
    *address = reinterpret_cast<uint64_t>(memory);
    return memory ? SUCCESS : OUT_OF_MEMORY;
}

/* Memory is freed when nothing runs any more. */
API int cuMemFree_v2(uint64_t address)
{
    CALL();
    if (!address)
        return SUCCESS;
    finish(lock, current, false);
    return release(pointer(address), DEVICE) ? current->sticky : INVALID_VALUE;
}

API int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    CALL();
    if (!bytes || flags & ~7u)
        return INVALID_VALUE;
    *memory = allocate(current, flags & 2 ? HOST_MAPPED : HOST, bytes);
    return *memory ? SUCCESS : OUT_OF_MEMORY;
}

/* Nothing says that it waits for anything. */
API int cuMemFreeHost(void *memory)
{
    CALL();
    return release(memory, HOST) || release(memory, HOST_MAPPED) ? current->sticky : INVALID_VALUE;
}

API int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags)
{
    CALL();
    if (flags || !within(memory, 1, 1u << HOST_MAPPED))
        return INVALID_VALUE;
    *address = reinterpret_cast<uint64_t>(memory);
    return SUCCESS;
}

/* What is not pinned has been read when this returns, but may not have arrived. */
API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    CALL();
    if (!on_device(to, bytes))
        return INVALID_VALUE;
    finish(lock, current, true);
    const auto *first = static_cast<const unsigned char *>(from);
    const std::vector<unsigned char> copy(first, first + bytes);
    submit(legacy(), [=] { return memcpy(pointer(to), copy.data(), copy.size()), (int)SUCCESS; });
    if (within(from, bytes, 1u << HOST | 1u << HOST_MAPPED))
        finish(lock, legacy());
    return current->sticky;
}

API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    CALL();
    if (!on_device(from, bytes))
        return INVALID_VALUE;
    finish(lock, current, true);
    memcpy(to, pointer(from), bytes);
    return current->sticky;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Stream *stream)
{
    CALL_ASYNC();
    if (!on_device(to, bytes))
        return INVALID_VALUE;
    submit(stream, [=] { return memcpy(pointer(to), from, bytes), late; });
    return SUCCESS;
}

API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Stream *stream)
{
    CALL_ASYNC();
    if (!on_device(from, bytes))
        return INVALID_VALUE;
    submit(stream, [=] { return memcpy(to, pointer(from), bytes), late; });
    return SUCCESS;
}

API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream *stream)
{
    CALL_ASYNC();
    if (!on_device(to, bytes) || !on_device(from, bytes))
        return INVALID_VALUE;
    submit(stream, [=] { return memcpy(pointer(to), pointer(from), bytes), late; });
    return SUCCESS;
}

API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream *stream)
{
    CALL_ASYNC();
    if (!on_device(to, bytes))
        return INVALID_VALUE;
    submit(stream, [=] { return memset(pointer(to), value, bytes), late; });
    return SUCCESS;
}

API int cuStreamCreate(Stream **stream, unsigned flags)
{
    CALL();
    if (flags > 1)
        return INVALID_VALUE;
    *stream = new_stream(current, flags == 0);
    return SUCCESS;
}

/* What is in it is done all the same. */
API int cuStreamDestroy_v2(Stream *stream)
{
    Lock lock(driver_lock);
    if (!is(stream, STREAM))
        return INVALID_HANDLE;
    stream->kind = DEAD;
    return SUCCESS;
}

API int cuStreamSynchronize(Stream *stream)
{
    CALL();
    if (!stream)
        stream = legacy();
    if (!is(stream, STREAM))
        return INVALID_HANDLE;
    finish(lock, stream);
    return stream->context->sticky;
}

API int cuStreamQuery(Stream *stream)
{
    CALL();
    if (!is(stream, STREAM))
        return INVALID_HANDLE;
    return stream->idle() ? SUCCESS : NOT_READY;
}

API int cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags)
{
    CALL();
    if (!is(stream, STREAM) || !is(event, EVENT) || stream->context != current)
        return INVALID_HANDLE;
    if (flags)
        return INVALID_VALUE;
    wait_for(stream, event);
    return SUCCESS;
}

API int cuEventCreate(Event **event, unsigned flags)
{
    CALL();
    if (flags & ~7u)
        return INVALID_VALUE;
    *event = new Event;
    (*event)->context = current;
    (*event)->timed = !(flags & 2);
    return SUCCESS;
}

API int cuEventDestroy_v2(Event *event)
{
    Lock lock(driver_lock);
    if (!is(event, EVENT))
        return INVALID_HANDLE;
    event->kind = DEAD;
    return SUCCESS;
}

API int cuEventRecord(Event *event, Stream *stream)
{
    CALL();
    if (!is(event, EVENT) || !is(stream, STREAM) || event->context != current || stream->context != current)
        return INVALID_HANDLE;
    record(stream, event);
    return SUCCESS;
}

API int cuEventQuery(Event *event)
{
    CALL();
    if (!is(event, EVENT))
        return INVALID_HANDLE;
    return event->done == event->issued ? SUCCESS : NOT_READY;
}

API int cuEventSynchronize(Event *event)
{
    CALL();
    if (!is(event, EVENT))
        return INVALID_HANDLE;
    finish(lock, event, event->issued);
    return event->context->sticky;
}

API int cuEventElapsedTime(float *ms, Event *start, Event *end)
{
    CALL();
    if (!is(start, EVENT) || !is(end, EVENT) || !start->timed || !end->timed || !start->issued || !end->issued)
        return INVALID_HANDLE;
    if (start->done < start->issued || end->done < end->issued)
        return NOT_READY;
    *ms = (float)(end->ms - start->ms);
    return SUCCESS;
}

/* Every image has all kernels: they are compiled in. */
API int cuModuleLoadData(Module **module, const void *image)
{
    CALL();
    if (!image)
        return INVALID_VALUE;
    *module = new Module;
    return SUCCESS;
}

API int cuModuleUnload(Module *module)
{
    Lock lock(driver_lock);
    if (!is(module, MODULE))
        return INVALID_HANDLE;
    module->kind = DEAD;
    return SUCCESS;
}

API int cuModuleGetFunction(const eyelet_host::Kernel **function, Module *module, const char *name)
{
    CALL();
    if (!is(module, MODULE))
        return INVALID_HANDLE;
    *function = find_kernel(name);
    return *function ? SUCCESS : NOT_FOUND;
}

API int cuLaunchKernel(const eyelet_host::Kernel *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       Stream *stream, void **params, void **extra)
{
    CALL_ASYNC();
    if (!kernel)
        return INVALID_HANDLE;
    const unsigned long long threads = 1ull * block_x * block_y * block_z;
    if (!grid_x || !grid_y || !grid_z || grid_y > 65535 || grid_z > 65535 || grid_x > 0x7fffffff || !threads ||
        threads > 1024 || block_z > 64 || shared_bytes > 48 << 10 || (!params && !extra))
        return INVALID_VALUE;
    const void *from = params ? params[0] : nullptr;
    size_t bytes = kernel->record_bytes;
    for (; !params && *extra; extra += 2) {
        if (extra[0] == reinterpret_cast<void *>(1))
            from = extra[1];
        else if (extra[0] == reinterpret_cast<void *>(2))
            bytes = *static_cast<size_t *>(extra[1]);
        else
            return INVALID_VALUE;
    }
    if (bytes != kernel->record_bytes)
        die("%s: its record has %zu bytes, the launch %zu", kernel->name, kernel->record_bytes, bytes);
    const auto *first = static_cast<const unsigned char *>(from);
    const std::vector<unsigned char> record(first, first + bytes);
    const Extent grid = {grid_x, grid_y, grid_z}, block = {block_x, block_y, block_z};
    submit(stream, [=] {
        if (!late)
            run_kernel(*kernel, grid, block, shared_bytes, record.data());
        return late;
    });
    return SUCCESS;
}

/* Virtual memory, since CUDA 10.2. Structures as in cuda.h. */
namespace {

struct Location {
    int type; /* 1: a device */
    int id;
};
struct ChunkProperties {
    int type; /* 1: pinned */
    int handle_types;
    Location location;
    void *unused;
    unsigned char flags[8];
};
struct Access {
    Location location;
    int flags; /* 1: read, 3: read and write */
};

bool is_usual(const ChunkProperties *p)
{
    return p && p->type == 1 && p->location.type == 1 && is_device(p->location.id);
}

} // namespace

#define CALL_VIRTUAL()                                                                                 \
    CALL();                                                                                            \
    if (!config().virtual_memory)                                                                      \
    return NOT_SUPPORTED

API int cuMemGetAllocationGranularity(size_t *bytes, const ChunkProperties *properties, int)
{
    CALL_VIRTUAL();
    if (!is_usual(properties))
        return INVALID_VALUE;
    *bytes = GRANULARITY;
    return SUCCESS;
}

API int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t, unsigned long long flags)
{
    CALL_VIRTUAL();
    return flags ? (int)INVALID_VALUE : reserve_addresses(address, bytes, alignment);
}

API int cuMemAddressFree(uint64_t address, size_t bytes)
{
    CALL_VIRTUAL();
    return free_addresses(address, bytes);
}

API int cuMemCreate(uint64_t *handle, size_t bytes, const ChunkProperties *properties, unsigned long long flags)
{
    CALL_VIRTUAL();
    return flags || !is_usual(properties) ? (int)INVALID_VALUE : create_chunk(handle, bytes);
}

API int cuMemRelease(uint64_t handle)
{
    CALL_VIRTUAL();
    return release_chunk(handle);
}

API int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
    CALL_VIRTUAL();
    return offset || flags ? (int)INVALID_VALUE : map_chunk(address, bytes, handle);
}

API int cuMemUnmap(uint64_t address, size_t bytes)
{
    CALL_VIRTUAL();
    return unmap_chunks(address, bytes);
}

API int cuMemSetAccess(uint64_t address, size_t bytes, const Access *access, size_t count)
{
    CALL_VIRTUAL();
    if (count != 1 || access->location.type != 1 || !is_device(access->location.id))
        return INVALID_VALUE;
    return set_access(address, bytes, access->flags & 1, access->flags == 3);
}

API int eyelet_fake_cuda(const char *text)
{
    Lock lock(driver_lock);
    return configure(text) ? SUCCESS : INVALID_VALUE;
}
