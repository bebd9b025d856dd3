#include "memory.h"

#include "emulator.h"
#include "virtual.h"

#include <map>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

enum { ALIGNMENT = 256, POISON = 0xff };
/* Addresses on either side that are nobody's. */
enum : size_t { GUARD = 1 << 20 };

struct Allocation {
    const void *owner;
    MemoryKind kind;
    size_t bytes;
    unsigned char *map;
    size_t map_bytes;
};

std::map<uintptr_t, Allocation> &all()
{
    static auto *map = new std::map<uintptr_t, Allocation>;
    return *map;
}

size_t in_use;

/* The bytes behind an allocation that guard pages do not cover, since its end is not aligned, must be as they were. */
void unmap(uintptr_t at, const Allocation &a)
{
    const unsigned char *end = reinterpret_cast<unsigned char *>(at) + a.bytes;
    const unsigned char *guard = a.map + a.map_bytes - GUARD;
    for (const unsigned char *p = end; p < guard; p++)
        if (*p != POISON)
            die("something wrote %zu bytes behind an allocation of %zu", (size_t)(p - end), a.bytes);
    munmap(a.map, a.map_bytes);
    if (a.kind == DEVICE)
        in_use -= a.bytes;
}

} // namespace

void *allocate(const void *owner, MemoryKind kind, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t aligned = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    /* The host's is for direct reads, which want whole pages. */
    const size_t alignment = kind == DEVICE ? (size_t)ALIGNMENT : page;
    const size_t used = (aligned + alignment - 1) / alignment * alignment;
    const size_t pages = (used + page - 1) / page * page;
    void *map = mmap(nullptr, pages + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return nullptr;
    unsigned char *first = static_cast<unsigned char *>(map) + GUARD;
    if (mprotect(first, pages, PROT_READ | PROT_WRITE)) {
        munmap(map, pages + 2 * GUARD);
        return nullptr;
    }
    memset(first, POISON, pages);
    unsigned char *memory = first + pages - used;
    all()[reinterpret_cast<uintptr_t>(memory)] = {owner, kind, bytes, static_cast<unsigned char *>(map),
                                                  pages + 2 * GUARD};
    if (kind == DEVICE)
        in_use += bytes;
    return memory;
}

bool release(void *memory, MemoryKind kind)
{
    const auto found = all().find(reinterpret_cast<uintptr_t>(memory));
    if (found == all().end() || found->second.kind != kind)
        return false;
    unmap(found->first, found->second);
    all().erase(found);
    return true;
}

void free_all(const void *owner)
{
    for (auto at = all().begin(); at != all().end();) {
        if (at->second.owner == owner) {
            unmap(at->first, at->second);
            at = all().erase(at);
        } else {
            ++at;
        }
    }
}

bool within(const void *memory, size_t bytes, unsigned kinds)
{
    if (kinds >> DEVICE & 1 && is_mapped(memory, bytes))
        return true;
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory);
    auto after = all().upper_bound(at);
    if (after == all().begin())
        return false;
    --after;
    const Allocation &a = after->second;
    return kinds >> a.kind & 1 && at - after->first <= a.bytes && bytes <= a.bytes - (at - after->first);
}

size_t device_bytes() { return in_use + chunk_bytes(); }
