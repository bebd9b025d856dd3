/* Rectangles of floats: rows at a pitch, threads along the columns.
 *
 * A block has as many threads along the columns as there are (fours of) columns, up to all of its threads, and the rest
 * along the rows; `runtime/ops/cuda/launch.rs` chooses. Blocks along y go on by the grid's height: there may be more rows
 * than a grid has. */
#ifndef EYELET_CUDA_RECTANGLE_H
#define EYELET_CUDA_RECTANGLE_H

#include "common.cuh"

/* A thread's column, for a step of `n` columns; and the rows that it goes over. 64 bits: rows and columns may be as many
 * as 32 bits hold, and steps go beyond. */
#define EYELET_COLUMN(n) (((size_t)blockIdx.x * blockDim.x + threadIdx.x) * (n))
#define EYELET_EACH_ROW(row, rows)                                                                     \
    for (size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y; row < (rows);                     \
         row += (size_t)gridDim.y * blockDim.y)

/* N adjacent floats: one access of 16 bytes where there are 4, which lie at a multiple of that. */
EYELET_INLINE void get(float (&v)[1], const float *p) { v[0] = *p; }
EYELET_INLINE void get(float (&v)[4], const float *p)
{
    const float4 q = *(const float4 *)p;
    v[0] = q.x;
    v[1] = q.y;
    v[2] = q.z;
    v[3] = q.w;
}
/* The same of memory that the kernel does not write: through the cache that some GPUs have for such memory alone. */
EYELET_INLINE void get_constant(float (&v)[1], const float *p) { v[0] = __ldg(p); }
EYELET_INLINE void get_constant(float (&v)[4], const float *p)
{
    const float4 q = __ldg((const float4 *)p);
    v[0] = q.x;
    v[1] = q.y;
    v[2] = q.z;
    v[3] = q.w;
}
EYELET_INLINE void put(float *p, const float (&v)[1]) { *p = v[0]; }
EYELET_INLINE void put(float *p, const float (&v)[4])
{
    float4 q;
    q.x = v[0];
    q.y = v[1];
    q.z = v[2];
    q.w = v[3];
    *(float4 *)p = q;
}

#endif
