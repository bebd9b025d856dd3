/* Functions of one tensor, and arithmetic of two: every element for itself. The output may be an input. */
#include "activation.cuh"
#include "rectangle.cuh"

namespace elementwise {

struct MapRecord {
    const float *in;
    float *out;
    unsigned rows;
    unsigned cols;
    unsigned in_pitch; /* floats from one row to the next */
    unsigned out_pitch;
    unsigned wide; /* 1: all is in fours at multiples of 16 bytes */
    Activation activation;
};

/* All functions that GPUs compute. */
template <int N> EYELET_INLINE void apply(const Activation &a, float (&v)[N])
{
    switch (a.function) {
    case EYELET_LOG: each<map_logarithm>(a, v); break;
    case EYELET_ABS: each<map_magnitude>(a, v); break;
    case EYELET_FLOOR: each<map_whole_below>(a, v); break;
    case EYELET_CEIL: each<map_whole_above>(a, v); break;
    case EYELET_ROUND_EVEN: each<map_nearest_whole>(a, v); break;
    case EYELET_SIGN: each<map_sign_of>(a, v); break;
    case EYELET_SOFTSIGN: each<map_softsign>(a, v); break;
    case EYELET_SHRINK: each<map_shrink>(a, v); break;
    case EYELET_THRESHOLDED_RELU: each<map_above>(a, v); break;
    default: activate(a, v);
    }
}

template <int N> EYELET_INLINE void map_all(const MapRecord &r)
{
    const size_t col = EYELET_COLUMN(N);
    if (col >= r.cols)
        return;
    EYELET_EACH_ROW(row, r.rows)
    {
        float v[N];
        get(v, r.in + row * r.in_pitch + col);
        apply(r.activation, v);
        put(r.out + row * r.out_pitch + col, v);
    }
}

extern "C" __global__ void __launch_bounds__(256) eyelet_map(const MapRecord r)
{
    if (r.wide)
        map_all<4>(r);
    else
        map_all<1>(r);
}
EYELET_EXPORT(eyelet_map);

/* An operand as seen from the output. */
struct Operand {
    const float *first;
    unsigned strides[3]; /* rows from one image, line, pixel of the output to the next: 0 where there is one for all */
    unsigned pitch;
    unsigned step; /* floats from one column to the next: 1, or 0 where there is one for all */
    unsigned reserved;
};

struct BinaryRecord {
    Operand a;
    Operand b;
    float *out;
    unsigned op; /* enum eyelet_binary_op */
    unsigned rows;
    unsigned cols;
    unsigned lines;  /* of an image */
    unsigned pixels; /* of a line */
    unsigned out_pitch;
    unsigned wide;
    Activation activation;
};

template <int N> EYELET_INLINE void operand(float (&v)[N], const Operand &o, const unsigned (&at)[3], size_t col)
{
    const size_t row = (size_t)at[0] * o.strides[0] + (size_t)at[1] * o.strides[1] + (size_t)at[2] * o.strides[2];
    const float *p = o.first + row * o.pitch;
    if (o.step) {
        get(v, p + col);
    } else {
        const float x = *p;
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = x;
    }
}

template <vec (*F)(vec, vec), int N> EYELET_INLINE void pairs(float (&a)[N], const float (&b)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        a[i] = F(a[i], b[i]);
}

template <int N> EYELET_INLINE void binary_all(const BinaryRecord &r)
{
    const size_t col = EYELET_COLUMN(N);
    if (col >= r.cols)
        return;
    EYELET_EACH_ROW(row, r.rows)
    {
        const unsigned line = (unsigned)row / r.pixels;
        const unsigned at[3] = {line / r.lines, line % r.lines, (unsigned)row % r.pixels};
        float a[N], b[N];
        operand(a, r.a, at, col);
        operand(b, r.b, at, col);
        switch (r.op) {
        case EYELET_ADD: pairs<add>(a, b); break;
        case EYELET_SUB: pairs<sub>(a, b); break;
        case EYELET_MUL: pairs<mul>(a, b); break;
        case EYELET_DIV: pairs<over>(a, b); break;
        case EYELET_PRELU: pairs<prelu>(a, b); break;
        case EYELET_MASK: pairs<masked>(a, b); break;
        case EYELET_MAX: pairs<maximum>(a, b); break;
        case EYELET_MIN: pairs<minimum>(a, b); break;
        }
        activate(r.activation, a);
        put(r.out + row * r.out_pitch + col, a);
    }
}

extern "C" __global__ void __launch_bounds__(256) eyelet_binary(const BinaryRecord r)
{
    if (r.wide)
        binary_all<4>(r);
    else
        binary_all<1>(r);
}
EYELET_EXPORT(eyelet_binary);

} // namespace elementwise
