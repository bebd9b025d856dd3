/* What the examples share: the input that `eyelet run` makes up, and its digest of the outputs. */
#ifndef MADE_UP_H
#define MADE_UP_H

#include <stdint.h>

/* Sums of four uniform values (SplitMix64), with mean 0 and variance 1. */
static inline void make_up(uint64_t seed, float *values, uint64_t count)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u ^ 0x6579656c65742121u;
    for (uint64_t i = 0; i < count; i++) {
        state += 0x9e3779b97f4a7c15u;
        uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
        mixed ^= mixed >> 31;
        int32_t sum = 0;
        for (int part = 0; part < 4; part++)
            sum += (int32_t)(mixed >> (16 * part) & 0xffff);
        values[i] = (float)(sum - 131070) * (1.7320508f / 65536.0f);
    }
}

/* FNV-1a, 64 bits: where it starts, and further bytes. */
#define DIGEST 0xcbf29ce484222325u
static inline uint64_t digest_of_bytes(uint64_t digest, const void *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return digest;
}

#endif
