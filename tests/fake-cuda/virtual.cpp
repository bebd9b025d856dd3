/* A chunk is a file in memory: mapped at an address that stays the same, unmapped, and mapped elsewhere, it keeps what is
 * in it. New chunks are full of NaN. */
#include "virtual.h"

#include "config.h"
#include "memory.h"

#include <iterator>
#include <map>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2 };

struct Chunk {
    int file;
    size_t bytes;
    size_t users; /* mappings, and the handle itself */
    bool released;
};
struct Mapping {
    size_t bytes;
    uint64_t chunk;
    bool accessible;
};

struct Space {
    std::map<uint64_t, size_t> ranges;
    std::map<uint64_t, Mapping> mappings;
    std::map<uint64_t, Chunk> chunks;
    uint64_t last_handle = 0;
    size_t bytes = 0;
};

Space &space()
{
    static Space *space = new Space;
    return *space;
}

bool fits(uint64_t value) { return value && value % GRANULARITY == 0; }

void drop(uint64_t handle)
{
    Chunk &chunk = space().chunks[handle];
    if (--chunk.users)
        return;
    close(chunk.file);
    space().bytes -= chunk.bytes;
    space().chunks.erase(handle);
}

void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

/* Whether the mappings from here on are whole ones, side by side, to the end. */
template <typename F> bool each_mapping(uint64_t address, size_t bytes, F f)
{
    auto &all = space().mappings;
    auto at = all.find(address);
    uint64_t next = address;
    for (; at != all.end() && at->first == next && next < address + bytes; ++at)
        next += at->second.bytes;
    if (next != address + bytes)
        return false;
    at = all.find(address);
    while (at != all.end() && at->first < address + bytes) {
        auto after = std::next(at);
        f(at->first, at->second);
        at = after;
    }
    return true;
}

} // namespace

int reserve_addresses(uint64_t *address, size_t bytes, size_t alignment)
{
    if (!fits(bytes) || (alignment & (alignment - 1)))
        return INVALID_VALUE;
    if (alignment < GRANULARITY)
        alignment = GRANULARITY;
    void *map = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return OUT_OF_MEMORY;
    /* The rest stays nobody's. */
    *address = (reinterpret_cast<uint64_t>(map) + alignment - 1) / alignment * alignment;
    space().ranges[*address] = bytes;
    return SUCCESS;
}

int free_addresses(uint64_t address, size_t bytes)
{
    auto range = space().ranges.find(address);
    if (range == space().ranges.end() || range->second != bytes)
        return INVALID_VALUE;
    auto mapping = space().mappings.lower_bound(address);
    if (mapping != space().mappings.end() && mapping->first < address + bytes)
        return INVALID_VALUE;
    munmap(pointer(address), bytes);
    space().ranges.erase(range);
    return SUCCESS;
}

int create_chunk(uint64_t *handle, size_t bytes)
{
    if (!fits(bytes))
        return INVALID_VALUE;
    if (bytes > config().memory - device_bytes())
        return OUT_OF_MEMORY;
    const int file = memfd_create("chunk", MFD_CLOEXEC);
    if (file < 0)
        return OUT_OF_MEMORY;
    void *map = MAP_FAILED;
    if (!ftruncate(file, (off_t)bytes))
        map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) {
        close(file);
        return OUT_OF_MEMORY;
    }
    memset(map, 0xff, bytes);
    munmap(map, bytes);
    *handle = ++space().last_handle;
    space().chunks[*handle] = {file, bytes, 1, false};
    space().bytes += bytes;
    return SUCCESS;
}

int release_chunk(uint64_t handle)
{
    auto chunk = space().chunks.find(handle);
    if (chunk == space().chunks.end() || chunk->second.released)
        return INVALID_VALUE;
    chunk->second.released = true;
    drop(handle);
    return SUCCESS;
}

int map_chunk(uint64_t address, size_t bytes, uint64_t handle)
{
    auto chunk = space().chunks.find(handle);
    auto range = space().ranges.upper_bound(address);
    if (chunk == space().chunks.end() || chunk->second.released || chunk->second.bytes != bytes ||
        !fits(address) || range == space().ranges.begin())
        return INVALID_VALUE;
    --range;
    if (address + bytes > range->first + range->second)
        return INVALID_VALUE;
    auto after = space().mappings.lower_bound(address + bytes);
    if (after != space().mappings.begin()) {
        --after;
        if (after->first + after->second.bytes > address)
            return INVALID_VALUE;
    }
    if (mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, chunk->second.file, 0) == MAP_FAILED)
        return OUT_OF_MEMORY;
    chunk->second.users++;
    space().mappings[address] = {bytes, handle, false};
    return SUCCESS;
}

int unmap_chunks(uint64_t address, size_t bytes)
{
    return each_mapping(address, bytes,
                        [](uint64_t at, const Mapping &mapping) {
                            const uint64_t chunk = mapping.chunk;
                            mmap(pointer(at), mapping.bytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
                            space().mappings.erase(at);
                            drop(chunk);
                        })
               ? SUCCESS
               : INVALID_VALUE;
}

int set_access(uint64_t address, size_t bytes, bool readable, bool writable)
{
    const int protection = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);
    return each_mapping(address, bytes,
                        [&](uint64_t at, Mapping &mapping) {
                            mprotect(pointer(at), mapping.bytes, protection);
                            mapping.accessible = readable;
                        })
               ? SUCCESS
               : INVALID_VALUE;
}

bool is_mapped(const void *memory, size_t bytes)
{
    const uint64_t address = reinterpret_cast<uint64_t>(memory), end = address + bytes;
    auto &all = space().mappings;
    auto at = all.upper_bound(address);
    if (at == all.begin())
        return false;
    uint64_t next = (--at)->first;
    for (; at != all.end() && at->first == next && at->second.accessible; ++at) {
        next += at->second.bytes;
        if (next >= end)
            return end >= address;
    }
    return false;
}

size_t chunk_bytes() { return space().bytes; }
