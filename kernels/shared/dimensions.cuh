// Lists of parameters and arguments that have one entry a dimension, outermost first:
// EACH(long long stride) is long long stride0, long long stride1, ... of MAX_RANK dimensions;
// INNER leaves out the first, whose size is implied by a count.
//
// Options: MAX_RANK 4, 6 or 8.
#pragma once

#if MAX_RANK == 4
#define INNER(name) name##1, name##2, name##3
#elif MAX_RANK == 6
#define INNER(name) name##1, name##2, name##3, name##4, name##5
#else
#define INNER(name) name##1, name##2, name##3, name##4, name##5, name##6, name##7
#endif
#define EACH(name) name##0, INNER(name)
