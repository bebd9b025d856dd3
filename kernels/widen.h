/* The contract of the widen kernels: `count` weights of 16 bits, a multiple of the panel's NR, to floats. Every
 * one has an exact float; of the NaNs, fp16's become quiet. `kernels/table/widen.rs` calls them with bounds
 * checked. */
#ifndef EYELET_WIDEN_H
#define EYELET_WIDEN_H

#include <stddef.h>
#include <stdint.h>

#include "kernel.h"

#endif
