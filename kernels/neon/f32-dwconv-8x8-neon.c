/* f32 depthwise convolution, 8 pixels by 8 channels, NEON, for processors that reorder instructions. */
#include "store-neon.h"

#define LOAD_EIGHT load_eight
#include "f32-dwconv-8x8-neon.h"

void eyelet_f32_dwconv_8x8__neon(const struct eyelet_dwconv *t) { dwconv(t); }
