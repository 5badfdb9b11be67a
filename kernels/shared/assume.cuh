// Options that every kernel may get when it is compiled.
//
// ASSUME   what is known about the parameters, such as count==64: the compiler folds it in
// INDEX    the type of element indices; unsigned where there are fewer than 2^31 elements
#pragma once

#ifndef ASSUME
#define ASSUME true
#endif
#ifndef INDEX
#define INDEX long long
#endif
typedef INDEX Index;
