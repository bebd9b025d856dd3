/* A libcuda.so.1 without a GPU: the functions of CUDA's driver that eyelet calls, over the emulator. It is found the
 * way the real one is. Names and numbers are those of the driver's interface (`cuda.h`), which is stable.
 *
 * EYELET_FAKE_CUDA, or `eyelet_fake_cuda(text)` before a context is made, says what GPU there is; see `config.h`. */
#include "config.h"
#include "emulator.h"
#include "memory.h"

#include "../../kernels/cuda/cuda-host.h"

#include <atomic>
#include <mutex>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
};

/* Objects begin with what they are, so that a handle of another kind, or of something destroyed, is seen. */
enum Kind : unsigned { DEAD = 0xdead, CONTEXT = 0xc0de1, MODULE, FUNCTION, STREAM, EVENT };

struct Context {
    Kind kind;
    int sticky; /* an error after which the context does nothing any more */
    size_t objects;
};
struct Module {
    Kind kind;
    Context *context;
};
struct Stream {
    Kind kind;
    Context *context;
};
struct Event {
    Kind kind;
    Context *context;
    bool recorded;
    double ms;
};

std::recursive_mutex lock; /* held by every call */
bool initialised;
thread_local Context *current;

struct Locked {
    std::lock_guard<std::recursive_mutex> guard;
    Locked() : guard(lock) {}
};

template <typename T> bool is(const T *object, Kind kind) { return object && object->kind == kind; }

double now_ms()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* What every call on a context begins with. */
int ready()
{
    if (!initialised)
        return NOT_INITIALIZED;
    if (!is(current, CONTEXT))
        return INVALID_CONTEXT;
    return current->sticky;
}
#define READY()                                                                                        \
    Locked locked;                                                                                     \
    if (const int error = ready())                                                                     \
        return error

} // namespace

API int cuInit(unsigned flags)
{
    Locked locked;
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
    Locked locked;
    if (!initialised)
        return NOT_INITIALIZED;
    if (!is_device(device))
        return INVALID_DEVICE;
    if (flags & ~0x1fu)
        return INVALID_VALUE;
    *context = current = new Context{CONTEXT, SUCCESS, 0};
    return SUCCESS;
}

API int cuCtxDestroy_v2(Context *context)
{
    Locked locked;
    if (!is(context, CONTEXT))
        return INVALID_CONTEXT;
    if (current == context)
        current = nullptr;
    free_all(context);
    /* Kept, so that a handle to it stays one to something dead. */
    context->kind = DEAD;
    return SUCCESS;
}

API int cuCtxSetCurrent(Context *context)
{
    Locked locked;
    if (context && !is(context, CONTEXT))
        return INVALID_CONTEXT;
    current = context;
    return SUCCESS;
}

API int cuCtxGetCurrent(Context **context)
{
    *context = current;
    return SUCCESS;
}

API int cuCtxSynchronize(void)
{
    READY();
    return SUCCESS;
}

API int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    READY();
    *total = config().memory;
    *free = config().memory - device_bytes();
    return SUCCESS;
}

API int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    READY();
    if (!bytes)
        return INVALID_VALUE;
    if (bytes > config().memory - device_bytes())
        return OUT_OF_MEMORY;
    void *memory = allocate(current, DEVICE, bytes);
    *address = reinterpret_cast<uint64_t>(memory);
    return memory ? SUCCESS : OUT_OF_MEMORY;
}

API int cuMemFree_v2(uint64_t address)
{
    READY();
    if (!address)
        return SUCCESS;
    return release(reinterpret_cast<void *>(address), DEVICE) ? SUCCESS : INVALID_VALUE;
}

API int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    READY();
    if (!bytes || flags & ~7u)
        return INVALID_VALUE;
    *memory = allocate(current, flags & 2 ? HOST_MAPPED : HOST, bytes);
    return *memory ? SUCCESS : OUT_OF_MEMORY;
}

API int cuMemFreeHost(void *memory)
{
    READY();
    return release(memory, HOST) || release(memory, HOST_MAPPED) ? SUCCESS : INVALID_VALUE;
}

API int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags)
{
    READY();
    if (flags || !within(memory, 1, 1u << HOST_MAPPED))
        return INVALID_VALUE;
    *address = reinterpret_cast<uint64_t>(memory);
    return SUCCESS;
}

static const unsigned ON_DEVICE = 1u << DEVICE | 1u << HOST_MAPPED;

static int copy_now(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return SUCCESS;
}

API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    READY();
    void *address = reinterpret_cast<void *>(to);
    return within(address, bytes, ON_DEVICE) ? copy_now(address, from, bytes) : INVALID_VALUE;
}

API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    READY();
    const void *address = reinterpret_cast<const void *>(from);
    return within(address, bytes, ON_DEVICE) ? copy_now(to, address, bytes) : INVALID_VALUE;
}

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Stream *stream)
{
    READY();
    if (!is(stream, STREAM) || stream->context != current)
        return INVALID_HANDLE;
    return cuMemcpyHtoD_v2(to, from, bytes);
}

API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Stream *stream)
{
    READY();
    if (!is(stream, STREAM) || stream->context != current)
        return INVALID_HANDLE;
    return cuMemcpyDtoH_v2(to, from, bytes);
}

API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream *stream)
{
    READY();
    if (!is(stream, STREAM) || stream->context != current)
        return INVALID_HANDLE;
    void *target = reinterpret_cast<void *>(to);
    void *source = reinterpret_cast<void *>(from);
    if (!within(target, bytes, ON_DEVICE) || !within(source, bytes, ON_DEVICE))
        return INVALID_VALUE;
    memmove(target, source, bytes);
    return SUCCESS;
}

API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream *stream)
{
    READY();
    if (!is(stream, STREAM) || stream->context != current)
        return INVALID_HANDLE;
    void *address = reinterpret_cast<void *>(to);
    if (!within(address, bytes, ON_DEVICE))
        return INVALID_VALUE;
    memset(address, value, bytes);
    return SUCCESS;
}

API int cuStreamCreate(Stream **stream, unsigned flags)
{
    READY();
    if (flags > 1)
        return INVALID_VALUE;
    *stream = new Stream{STREAM, current};
    return SUCCESS;
}

API int cuStreamDestroy_v2(Stream *stream)
{
    Locked locked;
    if (!is(stream, STREAM))
        return INVALID_HANDLE;
    stream->kind = DEAD;
    return SUCCESS;
}

API int cuStreamSynchronize(Stream *stream)
{
    READY();
    return is(stream, STREAM) ? SUCCESS : INVALID_HANDLE;
}

API int cuStreamQuery(Stream *stream)
{
    READY();
    return is(stream, STREAM) ? SUCCESS : INVALID_HANDLE;
}

API int cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags)
{
    READY();
    return is(stream, STREAM) && is(event, EVENT) && !flags ? SUCCESS : INVALID_HANDLE;
}

API int cuEventCreate(Event **event, unsigned flags)
{
    READY();
    if (flags & ~7u)
        return INVALID_VALUE;
    *event = new Event{EVENT, current, false, 0};
    return SUCCESS;
}

API int cuEventDestroy_v2(Event *event)
{
    Locked locked;
    if (!is(event, EVENT))
        return INVALID_HANDLE;
    event->kind = DEAD;
    return SUCCESS;
}

API int cuEventRecord(Event *event, Stream *stream)
{
    READY();
    if (!is(event, EVENT) || !is(stream, STREAM))
        return INVALID_HANDLE;
    event->recorded = true;
    event->ms = now_ms();
    return SUCCESS;
}

API int cuEventQuery(Event *event)
{
    READY();
    return is(event, EVENT) ? SUCCESS : INVALID_HANDLE;
}

API int cuEventSynchronize(Event *event)
{
    READY();
    return is(event, EVENT) ? SUCCESS : INVALID_HANDLE;
}

API int cuEventElapsedTime(float *ms, Event *start, Event *end)
{
    READY();
    if (!is(start, EVENT) || !is(end, EVENT) || !start->recorded || !end->recorded)
        return INVALID_HANDLE;
    *ms = (float)(end->ms - start->ms);
    return SUCCESS;
}

/* Every image has all kernels: they are compiled in. */
API int cuModuleLoadData(Module **module, const void *image)
{
    READY();
    if (!image)
        return INVALID_VALUE;
    *module = new Module{MODULE, current};
    return SUCCESS;
}

API int cuModuleUnload(Module *module)
{
    Locked locked;
    if (!is(module, MODULE))
        return INVALID_HANDLE;
    module->kind = DEAD;
    return SUCCESS;
}

API int cuModuleGetFunction(const eyelet_host::Kernel **function, Module *module, const char *name)
{
    READY();
    if (!is(module, MODULE))
        return INVALID_HANDLE;
    *function = find_kernel(name);
    return *function ? SUCCESS : NOT_FOUND;
}

API int cuLaunchKernel(const eyelet_host::Kernel *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       Stream *stream, void **params, void **extra)
{
    READY();
    if (!kernel || !is(stream, STREAM) || stream->context != current)
        return INVALID_HANDLE;
    const unsigned long long threads = 1ull * block_x * block_y * block_z;
    if (!grid_x || !grid_y || !grid_z || grid_y > 65535 || grid_z > 65535 || grid_x > 0x7fffffff || !threads ||
        threads > 1024 || block_z > 64 || shared_bytes > 48 << 10)
        return INVALID_VALUE;
    alignas(16) unsigned char record[4096];
    if (kernel->record_bytes > sizeof record || (!params && !extra))
        return INVALID_VALUE;
    if (params) {
        memcpy(record, params[0], kernel->record_bytes);
    } else {
        const void *buffer = nullptr;
        size_t bytes = 0;
        for (; *extra; extra += 2) {
            if (extra[0] == reinterpret_cast<void *>(1))
                buffer = extra[1];
            else if (extra[0] == reinterpret_cast<void *>(2))
                bytes = *static_cast<size_t *>(extra[1]);
            else
                return INVALID_VALUE;
        }
        if (bytes != kernel->record_bytes)
            die("%s: its record has %zu bytes, the launch %zu", kernel->name, kernel->record_bytes, bytes);
        memcpy(record, buffer, bytes);
    }
    run_kernel(*kernel, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, record);
    return SUCCESS;
}

API int eyelet_fake_cuda(const char *text)
{
    Locked locked;
    return configure(text) ? SUCCESS : INVALID_VALUE;
}
