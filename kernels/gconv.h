/* The contract of the f32_gconv kernels: adjacent output pixels of one line of a grouped convolution
 * whose groups are small and equal, as many channels in as out.
 *
 * As f32_dwconv, whose record this is, but a panel of NR output channels holds NR / group whole groups,
 * and lane l multiplies, for each tap, the channels (l / group) * group + k of the panel's input
 * channels: panels are bias[NR], then [taps][k of the group][NR]. The group is a power of two, at least
 * 2 and at most NR / 2, and divides the number of channels. Every output is one chain of fused
 * multiply-adds: bias first, then the taps in order, of each its k in order. */
#ifndef EYELET_GCONV_H
#define EYELET_GCONV_H

#include "dwconv.h"

#endif
