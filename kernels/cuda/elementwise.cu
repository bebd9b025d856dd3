/* Functions of one tensor, an element a thread: the bodies are those of every instruction set. */
#include "vector-cuda.h"

#include "../elementwise-loops.h"

/* `runtime/ops/cuda/` fills it. Pitches are floats; `in` may be `out`. */
struct MapRecord {
    const float *in;
    float *out;
    unsigned rows;
    unsigned cols;
    unsigned in_pitch;
    unsigned out_pitch;
    unsigned function; /* enum eyelet_function */
    float alpha;
    float beta;
    unsigned zero;
};

/* Threads go along the channels: block (cols / 32 rounded up, rows / 8 rounded up) of 32 by 8. */
extern "C" __global__ void __launch_bounds__(256) eyelet_map(const MapRecord r)
{
    const unsigned col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= r.cols)
        return;
    for (size_t row = blockIdx.y * blockDim.y + threadIdx.y; row < r.rows; row += gridDim.y * blockDim.y) {
        const struct eyelet_map one = {r.function, 1, 1, r.in + row * r.in_pitch + col, 0,
                                       r.out + row * r.out_pitch + col, 0, r.alpha, r.beta};
        elementwise_map(&one);
    }
}
EYELET_EXPORT(eyelet_map);
