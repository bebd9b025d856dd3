/* f32 convolution in groups of 2, 4, 8 or 16 channels, up to 7 pixels by 32 channels at a time, AVX-512 F. */
#include "vector-avx512.h"

enum { MR = 7, KEPT = 1 };

#include "f32-gconv.h"

void eyelet_f32_gconv_7x32__avx512(const struct eyelet_dwconv *t)
{
    EYELET_GCONV(t, EYELET_GCONV_CASE(1)
                    EYELET_GCONV_CASE(2)
                    EYELET_GCONV_CASE(3)
                    EYELET_GCONV_CASE(4)
                    EYELET_GCONV_CASE(5)
                    EYELET_GCONV_CASE(6)
                    EYELET_GCONV_CASE(7))
}
