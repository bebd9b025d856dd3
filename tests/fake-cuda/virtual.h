/* Addresses apart from memory: reserved ranges, and chunks of memory that are mapped into them. */
#ifndef EYELET_VIRTUAL_H
#define EYELET_VIRTUAL_H

#include <stddef.h>
#include <stdint.h>

/* Chunks, ranges and addresses are multiples of it. */
enum : size_t { GRANULARITY = 2 << 20 };

/* All return 0, or CUDA_ERROR_INVALID_VALUE, or CUDA_ERROR_OUT_OF_MEMORY. */
int reserve_addresses(uint64_t *address, size_t bytes, size_t alignment);
int free_addresses(uint64_t address, size_t bytes);
int create_chunk(uint64_t *handle, size_t bytes);
int release_chunk(uint64_t handle);
int map_chunk(uint64_t address, size_t bytes, uint64_t handle);
int unmap_chunks(uint64_t address, size_t bytes);
int set_access(uint64_t address, size_t bytes, bool readable, bool writable);

/* Whether these bytes are of chunks that are mapped and can be accessed. */
bool is_mapped(const void *memory, size_t bytes);
/* Bytes of chunks, mapped or not. */
size_t chunk_bytes();

#endif
