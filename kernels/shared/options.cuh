// Options as values: IS_SET(OPTION) is true where -DOPTION is given or the option is defined as
// nothing, and false where neither is.
// Both sides of a choice by it must compile.
#pragma once

#define IS_SET(option) IS_SET_PASTE(option)
#define IS_SET_PASTE(value) IS_SET_BEHIND(IS_SET_##value)
#define IS_SET_BEHIND(comma) IS_SET_SECOND(comma true, false, )
#define IS_SET_SECOND(first, second, ...) second
#define IS_SET_1 ,
#define IS_SET_ ,

template <bool kFirst, class First, class Second> struct Chosen { typedef First type; };
template <class First, class Second> struct Chosen<false, First, Second> { typedef Second type; };
