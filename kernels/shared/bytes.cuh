// The element type of kernels that move elements and do not read them, T: only the width matters.
//
// BYTES of an element: 1, 2, 4 or 8.
#pragma once

#ifndef BYTES
#define BYTES 4
#endif
#if BYTES == 1
typedef unsigned char T;
#elif BYTES == 2
typedef unsigned short T;
#elif BYTES == 4
typedef unsigned int T;
#else
typedef unsigned long long T;
#endif
