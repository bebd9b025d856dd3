/* Memory of the device, and pinned memory of the host: each allocation a mapping of its own between a megabyte
 * on either side that nobody may touch, filled with a pattern, unmapped when freed. */
#ifndef EYELET_MEMORY_H
#define EYELET_MEMORY_H

#include <stddef.h>

enum MemoryKind { DEVICE, HOST, HOST_MAPPED };

/* Aligned to 256 bytes; null where the system has no more. */
void *allocate(const void *owner, MemoryKind kind, size_t bytes);
/* False where it is not the start of an allocation of this kind. */
bool release(void *memory, MemoryKind kind);
/* All that an owner has left. */
void free_all(const void *owner);
/* Whether these bytes are inside one allocation of the kinds, whose bits are set. */
bool within(const void *memory, size_t bytes, unsigned kinds);
/* Bytes of the device that are allocated. */
size_t device_bytes();

#endif
