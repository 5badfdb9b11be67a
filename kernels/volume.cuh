// Lists of parameters and arguments with one entry for each of the three dimensions of a volume,
// outermost first: SIDES(long long stride) is long long stride_d, long long stride_h, long long
// stride_w. What has fewer dimensions has 1s in front.
#pragma once

#define SIDES(name) name##_d, name##_h, name##_w
