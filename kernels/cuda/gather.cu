/* Rows of a table, chosen by the input. A warp's lanes are the channels of a panel of one row. */
#include "activation.cuh"
#include "weights.cuh"

namespace gathering {

struct GatherRecord {
    const int *indices;
    const void *panels; /* of each panel the biases, then [entries][width] */
    float *out;
    unsigned rows;
    unsigned cols;
    unsigned first_panel;
    unsigned end_panel; /* behind the last one */
    unsigned panel_bytes;
    unsigned width; /* channels that a panel holds */
    unsigned encoding;
    unsigned entries;
    unsigned index_pitch; /* integers from one index to the next */
    unsigned out_pitch;
    Activation activation;
    unsigned zero;
};

/* The entry that an index stands for, counted from the end where it is negative; none where there is no such one. */
EYELET_INLINE long long entry_of(int index, unsigned entries)
{
    const long long entry = index < 0 ? (long long)index + entries : index;
    return entry < entries ? entry : -1;
}

extern "C" __global__ void __launch_bounds__(256) eyelet_gather(const GatherRecord r)
{
    const unsigned lane = threadIdx.x;
    const size_t row = (size_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= r.rows)
        return;
    const long long entry = entry_of(r.indices[row * r.index_pitch], r.entries);
    for (size_t panel = (size_t)r.first_panel + blockIdx.y; panel < r.end_panel; panel += gridDim.y) {
        const size_t channel = panel * r.width + lane;
        if (lane >= r.width || channel >= r.cols)
            return;
        const char *stored = (const char *)r.panels + (panel - r.first_panel) * r.panel_bytes;
        const void *weights = stored + panels::WIDTH * sizeof(float);
        float x = from_bits(0x7fc00000);
        if (entry >= 0)
            x = add(
            panels::weight_at(weights, r.encoding, (size_t)entry * r.width + lane), __ldg((const float *)stored + lane));
        r.out[row * r.out_pitch + channel] = activated(r.activation, x);
    }
}
EYELET_EXPORT(eyelet_gather);

} // namespace gathering
