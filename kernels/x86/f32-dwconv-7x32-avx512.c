/* f32 depthwise convolution, up to 7 pixels by 32 channels at a time, AVX-512 F. */
#include "vector-avx512.h"

enum { MR = 7 };

#include "f32-dwconv.h"

void eyelet_f32_dwconv_7x32__avx512(const struct eyelet_dwconv *t)
{
    EYELET_DWCONV(t, EYELET_PIXELS_CASE(1)
                     EYELET_PIXELS_CASE(2)
                     EYELET_PIXELS_CASE(3)
                     EYELET_PIXELS_CASE(4)
                     EYELET_PIXELS_CASE(5)
                     EYELET_PIXELS_CASE(6)
                     EYELET_PIXELS_CASE(7))
}
