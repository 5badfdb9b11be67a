// Options as values: IS_SET(OPTION) is true where -DOPTION is given, and false where it is not.
// Both sides of a choice by it must compile.
#pragma once

#define IS_SET(option) IS_SET_PASTE(option)
#define IS_SET_PASTE(value) IS_SET_BEHIND(IS_SET_##value)
#define IS_SET_BEHIND(comma) IS_SET_SECOND(comma true, false, )
#define IS_SET_SECOND(first, second, ...) second
#define IS_SET_1 ,

template <bool kFirst, class First, class Second> struct Chosen { typedef First type; };
template <class First, class Second> struct Chosen<false, First, Second> { typedef Second type; };
