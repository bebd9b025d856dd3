/* The left operand of an implicit GEMM: output pixels times (tap row, tap column, channel), read where the activations
 * lie. What a block needs to know of its pixels is a table in shared memory, read when a thread comes to another tap. */
#ifndef EYELET_WINDOW_CUH
#define EYELET_WINDOW_CUH

#include "gemm.cuh"

/* `runtime/ops/cuda/gemm.rs` has the same record. */
struct WindowRecord {
    const float *in; /* the first channel of the first group */
    u32 height;      /* of the input */
    u32 width;
    u32 pitch;    /* floats */
    u32 channels; /* of a group */
    u32 out_height;
    u32 out_width;
    u32 kernel_width;
    u32 stride[2];
    u32 dilation[2];
    u32 pad[2];
    u32 rows; /* output pixels, of all images */
};

/* A pixel of the output: where its image begins (null: there is no such pixel), and its window's first line and column,
 * counted from the padding's. */
struct alignas(16) Pixel {
    const float *image;
    u32 line;
    u32 column;
};

template <class S> EYELET_INLINE void find_pixels(const WindowRecord &w, u32 first, u32 group, Pixel (&pixels)[S::ROWS])
{
    for (u32 i = threadIdx.x; i < S::ROWS; i += S::THREADS) {
        Pixel pixel = {nullptr, 0, 0};
        if (i < w.rows - first) {
            const u32 line = (first + i) / w.out_width;
            const u32 image = line / w.out_height;
            pixel.image = w.in + size_t(image) * w.height * w.width * w.pitch + size_t(group) * w.channels;
            pixel.line = line % w.out_height * w.stride[0];
            pixel.column = (first + i) % w.out_width * w.stride[1];
        }
        pixels[i] = pixel;
    }
    __syncthreads();
}

/* The first float of a pixel's input under a tap; null beside the image. */
EYELET_INLINE const float *under(const WindowRecord &w, const Pixel &pixel, u32 down, u32 across)
{
    const u32 line = pixel.line + down;
    const u32 column = pixel.column + across;
    const bool inside = pixel.image && line >= w.pad[0] && line - w.pad[0] < w.height && column >= w.pad[1] &&
                        column - w.pad[1] < w.width;
    const size_t at = size_t(line - w.pad[0]) * w.width + (column - w.pad[1]);
    return inside ? pixel.image + at * w.pitch : nullptr;
}

/* A place in the reduction. */
struct Tap {
    u32 line;
    u32 column;
    u32 channel;

    /* Before k: `next` comes to it. */
    EYELET_MEMBER void start(const WindowRecord &w, u32 k)
    {
        const u32 tap = k / w.channels;
        channel = k % w.channels - DEPTH;
        line = tap / w.kernel_width;
        column = tap % w.kernel_width;
    }

    /* Goes on by DEPTH; whether to another tap. */
    EYELET_MEMBER bool next(const WindowRecord &w)
    {
        channel += DEPTH;
        if (channel < w.channels)
            return false;
        do {
            channel -= w.channels;
            if (++column == w.kernel_width) {
                column = 0;
                line++;
            }
        } while (channel >= w.channels);
        return true;
    }
};

/* Four channels at a time: channels, pitch and the first address are multiples of four floats. Two lanes read 32 bytes
 * of a pixel. */
template <class S> struct Fours {
    static const u32 EACH = S::ROWS * DEPTH / 4 / S::THREADS;
    static const u32 APART = S::THREADS / 2;

    const WindowRecord &w;
    const Pixel (&pixels)[S::ROWS];
    Tap tap;
    const float *from[EACH]; /* the first channel under the tap */
    u32 inside;              /* a bit for each that exists; the others' floats stay zeros */
    float4 held[EACH];
    u32 place; /* in shared memory */

    EYELET_MEMBER Fours(const WindowRecord &w, const Pixel (&pixels)[S::ROWS], u32 begin) : w(w), pixels(pixels)
    {
        tap.start(w, begin + k());
        seek();
        place = k() * S::LEFT + threadIdx.x / 2;
        EYELET_KEEP(place);
    }

    static EYELET_MEMBER u32 k() { return threadIdx.x % 2 * 4; }

    EYELET_MEMBER void seek()
    {
        inside = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            const Pixel &pixel = pixels[threadIdx.x / 2 + i * APART];
            from[i] = under(w, pixel, tap.line * w.dilation[0], tap.column * w.dilation[1]);
            inside |= u32(from[i] != nullptr) << i;
            held[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }

    template <bool Whole> EYELET_MEMBER void fetch(u32 left)
    {
        if (tap.next(w))
            seek();
        if (!Whole && k() >= left) {
            inside = 0;
#pragma unroll
            for (u32 i = 0; i < EACH; i++)
                held[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            if (inside >> i & 1)
                held[i] = __ldg(reinterpret_cast<const float4 *>(from[i] + tap.channel));
        }
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            float *own = to + place + i * APART;
            own[0] = held[i].x;
            own[S::LEFT] = held[i].y;
            own[2 * S::LEFT] = held[i].z;
            own[3 * S::LEFT] = held[i].w;
        }
    }
};

/* Any channels and pitch: one float at a time. Eight lanes read neighbouring k of a pixel, which with few channels are
 * neighbouring taps. */
template <class S> struct Ones {
    static const u32 EACH = S::ROWS * DEPTH / S::THREADS;
    static const u32 APART = S::THREADS / DEPTH;

    const WindowRecord &w;
    const Pixel (&pixels)[S::ROWS];
    Tap tap;
    float held[EACH];
    u32 place; /* in shared memory */

    EYELET_MEMBER Ones(const WindowRecord &w, const Pixel (&pixels)[S::ROWS], u32 begin) : w(w), pixels(pixels)
    {
        tap.start(w, begin + k());
        place = k() * S::LEFT + threadIdx.x / DEPTH;
        EYELET_KEEP(place);
    }

    static EYELET_MEMBER u32 k() { return threadIdx.x % DEPTH; }

    template <bool Whole> EYELET_MEMBER void fetch(u32 left)
    {
        tap.next(w);
        const bool exists = Whole || k() < left;
        const u32 down = tap.line * w.dilation[0];
        const u32 across = tap.column * w.dilation[1];
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            held[i] = 0.0f;
            if (exists) {
                const float *found = under(w, pixels[threadIdx.x / DEPTH + i * APART], down, across);
                if (found)
                    held[i] = __ldg(found + tap.channel);
            }
        }
    }

    EYELET_MEMBER void put(float *to) const
    {
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
            to[place + i * APART] = held[i];
    }
};

#endif
