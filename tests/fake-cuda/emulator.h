/* Runs kernels that were compiled against `kernels/cuda/cuda-host.h`. */
#ifndef EYELET_EMULATOR_H
#define EYELET_EMULATOR_H

#include <stddef.h>

namespace eyelet_host {
struct Kernel;
}

const eyelet_host::Kernel *find_kernel(const char *name);

struct Extent {
    unsigned x, y, z;
};

/* One launch, to its end. The caller sees to it that there is one at a time. */
void run_kernel(const eyelet_host::Kernel &kernel, Extent grid, Extent block, size_t shared_bytes,
                const void *record);

/* Dies with a message, as for every mistake of a kernel. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
