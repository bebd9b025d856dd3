/* The driver's virtual memory management over the host's: a physical allocation is a memory file, a reserved range of
 * addresses a mapping that nobody may touch, mapping one into the other a shared mapping. So two ranges that have the same
 * chunk one after the other really have the same bytes, addresses that are not mapped fault, and the driver's rules
 * (whole mappings, granularity, access after mapping) are checked as it checks them.
 *
 * `eyelet_fake_cuda_fail("cuMemMap", 2, 3)` has the fourth call of that function from then on return 2, once. */
#include "virtual.h"

#include "config.h"
#include "memory.h"

#include <map>
#include <mutex>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Result { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2 };
enum { POISON = 0xee };
const size_t GRANULARITY = (size_t)2 << 20;

struct Physical {
    int file;
    size_t bytes;
    size_t maps;
    bool released;
};
struct Mapping {
    uint64_t handle;
    size_t bytes;
    bool access;
};
struct Location {
    int type, id;
};
struct Properties {
    int type, handle_types;
    Location location;
    void *windows;
    unsigned char flags[8];
};
struct Access {
    Location location;
    int flags;
};

struct Failure {
    char call[64];
    int code;
    int after;
};
Failure failure;

std::recursive_mutex lock; /* held by every call; they need no context */
std::map<uint64_t, Physical> physical;
std::map<uint64_t, size_t> reserved;
std::map<uint64_t, Mapping> mapped;
uint64_t next_handle = 0x1000;

bool whole(uint64_t value) { return value % GRANULARITY == 0; }

bool on_device(const Location &l) { return l.type == 1 && l.id >= 0 && l.id < (int)config().devices; }

bool is_good(const Properties *p)
{
    return p && p->type == 1 && p->handle_types == 0 && on_device(p->location) && !p->windows;
}

bool is_reserved(uint64_t at, size_t bytes)
{
    auto after = reserved.upper_bound(at);
    if (after == reserved.begin())
        return false;
    --after;
    return at - after->first <= after->second && bytes <= after->second - (at - after->first);
}

/* The mappings that make up exactly this range, without a gap, as first and one behind the last. */
bool whole_mappings(uint64_t at, size_t bytes, std::map<uint64_t, Mapping>::iterator range[2])
{
    range[0] = range[1] = mapped.find(at);
    uint64_t next = at;
    for (; range[1] != mapped.end() && range[1]->first == next && next < at + bytes; ++range[1])
        next += range[1]->second.bytes;
    return bytes && next == at + bytes;
}

void drop_unused(uint64_t handle)
{
    const Physical &p = physical[handle];
    if (p.released && p.maps == 0) {
        close(p.file);
        physical.erase(handle);
    }
}

/* Whether this call fails on request, and how. */
int fails(const char *call)
{
    if (strcmp(failure.call, call) || failure.after-- > 0)
        return SUCCESS;
    failure.call[0] = 0;
    return failure.code;
}

} // namespace

#define LOCKED() const std::lock_guard<std::recursive_mutex> guard(lock)
#define CALL()                                                                                         \
    LOCKED();                                                                                          \
    if (const int code = fails(__func__))                                                              \
        return code

API void eyelet_fake_cuda_fail(const char *call, int code, int after)
{
    LOCKED();
    snprintf(failure.call, sizeof failure.call, "%s", call);
    failure.code = code;
    failure.after = after;
}

bool is_mapped(const void *memory, size_t bytes)
{
    LOCKED();
    const uint64_t start = reinterpret_cast<uint64_t>(memory);
    uint64_t at = start;
    while (at < start + bytes) {
        auto after = mapped.upper_bound(at);
        if (after == mapped.begin())
            return false;
        --after;
        const uint64_t end = after->first + after->second.bytes;
        if (at >= end || !after->second.access)
            return false;
        at = end;
    }
    return true;
}

size_t physical_bytes()
{
    LOCKED();
    size_t bytes = 0;
    for (const auto &p : physical)
        bytes += p.second.bytes;
    return bytes;
}

API int cuMemGetAllocationGranularity(size_t *granularity, const Properties *properties, int option)
{
    CALL();
    if (!is_good(properties) || option < 0 || option > 1)
        return INVALID_VALUE;
    *granularity = GRANULARITY;
    return SUCCESS;
}

API int cuMemCreate(uint64_t *handle, size_t bytes, const Properties *properties, unsigned long long flags)
{
    CALL();
    if (!is_good(properties) || !bytes || !whole(bytes) || flags)
        return INVALID_VALUE;
    if (bytes > config().memory - device_bytes())
        return OUT_OF_MEMORY;
    const int file = memfd_create("eyelet-fake-cuda", MFD_CLOEXEC);
    if (file < 0)
        return OUT_OF_MEMORY;
    void *memory = ftruncate(file, (off_t)bytes) ? MAP_FAILED : mmap(nullptr, bytes, PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        close(file);
        return OUT_OF_MEMORY;
    }
    memset(memory, POISON, bytes);
    munmap(memory, bytes);
    *handle = next_handle++;
    physical[*handle] = {file, bytes, 0, false};
    return SUCCESS;
}

API int cuMemRelease(uint64_t handle)
{
    CALL();
    const auto found = physical.find(handle);
    if (found == physical.end() || found->second.released)
        return INVALID_VALUE;
    found->second.released = true;
    drop_unused(handle);
    return SUCCESS;
}

API int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wish, unsigned long long flags)
{
    CALL();
    if (!bytes || !whole(bytes) || !whole(alignment) || wish || flags)
        return INVALID_VALUE;
    void *map = mmap(nullptr, bytes + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return OUT_OF_MEMORY;
    const uint64_t start = reinterpret_cast<uint64_t>(map);
    const uint64_t at = (start + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    if (at > start)
        munmap(map, at - start);
    if (at < start + GRANULARITY)
        munmap(reinterpret_cast<void *>(at + bytes), start + GRANULARITY - at);
    reserved[at] = bytes;
    *address = at;
    return SUCCESS;
}

API int cuMemAddressFree(uint64_t address, size_t bytes)
{
    CALL();
    const auto found = reserved.find(address);
    if (found == reserved.end() || found->second != bytes)
        return INVALID_VALUE;
    const auto next = mapped.lower_bound(address);
    if (next != mapped.end() && next->first < address + bytes)
        return INVALID_VALUE;
    munmap(reinterpret_cast<void *>(address), bytes);
    reserved.erase(found);
    return SUCCESS;
}

API int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
    CALL();
    const auto found = physical.find(handle);
    if (found == physical.end() || found->second.released || offset || flags || bytes != found->second.bytes)
        return INVALID_VALUE;
    if (!whole(address) || !is_reserved(address, bytes))
        return INVALID_VALUE;
    const auto next = mapped.lower_bound(address);
    if (next != mapped.end() && next->first < address + bytes)
        return INVALID_VALUE;
    if (next != mapped.begin()) {
        const auto &before = *std::prev(next);
        if (before.first + before.second.bytes > address)
            return INVALID_VALUE;
    }
    void *to = reinterpret_cast<void *>(address);
    if (mmap(to, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.file, 0) == MAP_FAILED)
        return OUT_OF_MEMORY;
    found->second.maps++;
    mapped[address] = {handle, bytes, false};
    return SUCCESS;
}

API int cuMemSetAccess(uint64_t address, size_t bytes, const Access *access, size_t count)
{
    CALL();
    std::map<uint64_t, Mapping>::iterator range[2];
    if (count != 1 || !on_device(access->location) || access->flags != 3 || !whole_mappings(address, bytes, range))
        return INVALID_VALUE;
    if (mprotect(reinterpret_cast<void *>(address), bytes, PROT_READ | PROT_WRITE))
        return OUT_OF_MEMORY;
    for (auto at = range[0]; at != range[1]; ++at)
        at->second.access = true;
    return SUCCESS;
}

API int cuMemUnmap(uint64_t address, size_t bytes)
{
    CALL();
    std::map<uint64_t, Mapping>::iterator range[2];
    if (!whole_mappings(address, bytes, range))
        return INVALID_VALUE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(reinterpret_cast<void *>(address), bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED)
        return OUT_OF_MEMORY;
    for (auto at = range[0]; at != range[1]; ++at) {
        physical[at->second.handle].maps--;
        drop_unused(at->second.handle);
    }
    mapped.erase(range[0], range[1]);
    return SUCCESS;
}
