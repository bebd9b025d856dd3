/* f32 convolution in groups of 2, 4 or 8 channels, up to 6 pixels by 16 channels at a time, AVX2 and FMA. */
#include "vector-avx2.h"

enum { MR = 6, KEPT = 0 };

#include "f32-gconv.h"

void eyelet_f32_gconv_6x16__avx2(const struct eyelet_dwconv *t)
{
    EYELET_GCONV(t, EYELET_GCONV_CASE(1)
                    EYELET_GCONV_CASE(2)
                    EYELET_GCONV_CASE(3)
                    EYELET_GCONV_CASE(4)
                    EYELET_GCONV_CASE(5)
                    EYELET_GCONV_CASE(6))
}
