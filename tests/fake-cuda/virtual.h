/* Virtual memory management: physical memory and addresses apart. */
#ifndef EYELET_VIRTUAL_H
#define EYELET_VIRTUAL_H

#include <stddef.h>

/* Whether these bytes are mapped, and may be read and written. */
bool is_mapped(const void *memory, size_t bytes);
/* Bytes of physical memory that are made and not released, or still mapped. */
size_t physical_bytes();

#endif
