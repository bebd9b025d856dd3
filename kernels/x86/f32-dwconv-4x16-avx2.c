/* f32 depthwise convolution, up to 4 pixels by 16 channels at a time, AVX2 and FMA. */
#include "vector-avx2.h"

enum { MR = 4 };

#include "f32-dwconv.h"

void eyelet_f32_dwconv_4x16__avx2(const struct eyelet_dwconv *t)
{
    EYELET_DWCONV(t, EYELET_PIXELS_CASE(1)
                     EYELET_PIXELS_CASE(2)
                     EYELET_PIXELS_CASE(3)
                     EYELET_PIXELS_CASE(4))
}
