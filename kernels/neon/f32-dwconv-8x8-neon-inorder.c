/* f32 depthwise convolution, 8 pixels by 8 channels, NEON, for processors that do not reorder
 * instructions: the two loads of a pixel are left to the compiler, to keep them away from their use. */
#include "store-neon.h"

#define LOAD_EIGHT(p, v0, v1) (*(v0) = vld1q_f32(p), *(v1) = vld1q_f32((p) + 4))
#include "f32-dwconv-8x8-neon.h"

void eyelet_f32_dwconv_8x8__neon_inorder(const struct eyelet_dwconv *t) { dwconv(t); }
