// LayOutImages: modules give what they give without it, in f16 and in f32 with tf32. Elements are
// whole numbers, and so few that sums are exact in f16: results are equal.
#include "support/catch.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"
#include "support/launch_runner.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

struct Case {
  const char *name, *params, *results, *body; // params: besides %x and %w, weights
  const char *border;                         // that the result has
  const char *x = "2, 6, 8, 9";               // its dimensions; symbols are 2
};

// %x is [2, 6, 8, 9], %w [16, 6, 3, 3], %conv of 16 channels, %i what a pool makes of it, and so
// has channels last, and %p of one pixel each.
constexpr Case kCases[] = {
    {"pad", "", "tensor<[2, 16, 11, 12], f16>",
     "%y = pad(%i) {before = [0, 0, 1, 0], after = [0, 0, 2, 3], value = 1}",
     "pad, for the function's result"},
    {"pad at the edge", "", "tensor<[2, 16, 11, 12], f16>",
     "%y = pad(%i) {before = [0, 0, 1, 0], after = [0, 0, 2, 3], mode = \"edge\"}",
     "pad, for the function's result"},
    {"slice", "", "tensor<[2, 5, 4, 9], f16>",
     "%y = slice(%i) {starts = [3, 7], ends = [8, -9], axes = [1, -2], steps = [1, -2]}",
     "slice, for the function's result"},
    {"slice of the first axes", "", "tensor<[1, 3, 8, 9], f16>",
     "%y = slice(%i) {starts = [1, 2], ends = [2, 5]}", "slice, for the function's result"},
    {"channels for convolutions",
     ", %v: tensor<[16, 8, 1, 1], f16>, %u: tensor<[4, 1, 3, 3], f16>, %t: tensor<[8, 5, 1, 1], "
     "f16>",
     "tensor<[2, 28, 8, 9], f16>",
     "%a, %b = split(%i) {axis = 1, sections = [8, 8]}\n  %c = conv2d(%b, %v)\n"
     "  %at = shape [0, 4, 0, 0]\n  %few = shape [2, 4, 8, 9]\n  %d = slice(%i, %at, %few)\n"
     "  %e = conv2d(%d, %u) {groups = 4, padding = [1, 1]}\n"
     "  %from = shape [0, 3, 0, 0]\n  %size = shape [2, 5, 8, 9]\n"
     "  %f = slice(%i, %from, %size)\n  %g = conv2d(%f, %t)\n"
     "  %y = concat(%c, %e, %g) {axis = 1}",
     "concat, for the function's result"},
    {"groups normed", "", "tensor<[2, 16, 8, 9], f16>",
     "%a = reshape(%i) {shape = [2, 4, 288]}\n  %b = layer_norm(%a)\n"
     "  %c = reshape(%b) {shape = [2, 16, 8, 9]}\n  %y = sign(%c)",
     "sign, for the function's result"},
    {"groups normed in another dtype", "", "tensor<[2, 16, 8, 9], f32>",
     "%a = reshape(%i) {shape = [2, 4, 288]}\n  %t = cast(%a) {dtype = f32}\n"
     "  %b = layer_norm(%t)\n  %c = reshape(%b) {shape = [2, 16, 8, 9]}\n  %y = sign(%c)",
     "sign, for the function's result"},
    {"groups of some channels normed", "", "tensor<[2, 9, 8, 9], f32>",
     "%few = slice(%i) {starts = [4], ends = [13], axes = [1]}\n"
     "  %a = reshape(%few) {shape = [2, 3, 216]}\n  %t = cast(%a) {dtype = f32}\n"
     "  %b = layer_norm(%t)\n  %c = reshape(%b) {shape = [2, 9, 8, 9]}\n  %y = sign(%c)",
     "sign, for the function's result"},
    {"rows of pixels normed", "", "tensor<[2, 16, 8, 9], f16>",
     "%b = layer_norm(%i)\n  %y = sign(%b)", "max_pool2d, for layer_norm"},
    {"signals normed", ", %v: tensor<[16, 6, 3], f16>", "tensor<[2, 16, 36], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1], strides = [2]}\n"
     "  %b = layer_norm(%a)\n  %y = sign(%b)",
     "sign, for the function's result"},
    {"resize", "", "tensor<[2, 16, 16, 27], f16>",
     "%o = max_pool2d(%i) {kernel = [1, 1]}\n  %s = shape [2, 16, 16, 27]\n"
     "  %r = resize(%o, %s) {axes = [2, 3]}\n  %y = max_pool2d(%r) {kernel = [1, 1]}",
     "max_pool2d, for the function's result"},
    {"resize of all axes", "", "tensor<[2, 16, 16, 18], f16>",
     "%o = max_pool2d(%i) {kernel = [1, 1]}\n  %s = shape [2, 16, 16, 18]\n"
     "  %r = resize(%o, %s)\n  %y = max_pool2d(%r) {kernel = [1, 1]}",
     "max_pool2d, for the function's result"},
    {"resize of what is returned", "", "tensor<[2, 16, 16, 27], f16>",
     "%o = max_pool2d(%i) {kernel = [1, 1]}\n  %s = shape [2, 16, 16, 27]\n"
     "  %r = resize(%o, %s) {axes = [2, 3]}\n  %y = relu(%r)",
     "max_pool2d, for resize"},
    {"resize of what is stored as it is returned", "", "tensor<[2, 16, 16, 27], f16>",
     "%a = sign(%conv)\n  %s = shape [2, 16, 16, 27]\n  %y = resize(%a, %s) {axes = [2, 3]}", ""},
    {"heads", ", %v: tensor<[24, 16, 1, 1], f16>, %u: tensor<[8, 16, 3, 3], f16>",
     "tensor<[2, 32, 72], f16>",
     "%o = max_pool2d(%i) {kernel = [1, 1]}\n  %a = conv2d(%o, %v)\n"
     "  %b = conv2d(%o, %u) {padding = [1, 1]}\n  %c = concat(%a, %b) {axis = 1}\n"
     "  %y = reshape(%c) {shape = [2, 32, 72]}",
     ""},
    {"a head beside what has channels last", ", %v: tensor<[16, 16, 1, 1], f16>",
     "tensor<[2, 16, 8, 9], f16>",
     "%o = max_pool2d(%i) {kernel = [1, 1]}\n  %a = conv2d(%o, %v)\n  %y = sub(%a, %o)",
     "sub, for the function's result"},
    {"a head times pixels", ", %v: tensor<[16, 16, 1, 1], f16>, %u: tensor<[16, 16, 1, 1], f16>",
     "tensor<[2, 16, 8, 9], f16>",
     "%o = max_pool2d(%i) {kernel = [1, 1]}\n  %a = conv2d(%o, %v)\n  %q = sign(%p)\n"
     "  %b = conv2d(%q, %u)\n  %c = sign(%b)\n  %y = mul(%a, %c)",
     ""},
    {"a head and what is made of it", "", "tensor<[2, 16, 8, 9], f16>",
     "%a = reduce_max(%conv) {axes = [1], keep_dims = true}\n  %b = sub(%conv, %a)\n"
     "  %c = slice(%b) {starts = [-1], ends = [-17], axes = [1], steps = [-1]}\n"
     "  %y = cumsum(%c) {axis = 1}",
     ""},
    {"products of pixels as they are", ", %v: tensor<[32, 16, 1, 1], f16>",
     "tensor<[2, 2, 8, 8], f16>",
     "%c = conv2d(%i, %v)\n  %s = sign(%c)\n"
     "  %q, %k = split(%s) {axis = 1, sections = [16, 16]}\n"
     "  %q4 = reshape(%q) {shape = [2, 2, 8, 72]}\n  %k4 = reshape(%k) {shape = [2, 2, 8, 72]}\n"
     "  %l = reduce_max(%k4) {axes = [3], keep_dims = true}\n  %m = sub(%k4, %l)\n"
     "  %n = matmul(%q4, %m) {transpose_b = true}\n  %y = sign(%n)",
     ""},
    {"products of pixels with channels last",
     ", %v: tensor<[16, 16, 1, 1], f16>, %u: tensor<[16, 16, 2, 2], f16>, %b: tensor<[72], f16>",
     "tensor<[2, 16, 7, 8], f16>",
     "%s = sign(%i)\n  %c = conv2d(%s, %v)\n  %d = sign(%c)\n"
     "  %q = reshape(%d) {shape = [2, 16, 72]}\n  %k = transpose(%q) {axes = [0, 2, 1]}\n"
     "  %e = matmul(%k, %q, %b)\n  %f = sign(%e)\n"
     "  %g = matmul(%q, %f) {transpose_b = true}\n  %h = reshape(%g) {shape = [2, 16, 8, 9]}\n"
     "  %j = sign(%h)\n  %l = add(%j, %s)\n  %y = conv2d(%l, %u)",
     ""},
    {"products with pixels", ", %v: tensor<[16, 5, 1, 1], f16>, %u: tensor<[2, 5, 16], f16>",
     "tensor<[2, 16, 8, 9], f16>",
     "%s = sign(%i)\n  %q = reshape(%s) {shape = [2, 16, 72]}\n  %a = matmul(%u, %q)\n"
     "  %b = reshape(%a) {shape = [2, 5, 8, 9]}\n  %y = conv2d(%b, %v)",
     ""},
    {"products of both", ", %v: tensor<[16, 16, 1, 1], f16>", "tensor<[2, 16, 8, 9], f16>",
     "%s = sign(%i)\n  %q = reshape(%s) {shape = [2, 16, 72]}\n"
     "  %a = matmul(%q, %q) {transpose_b = true}\n  %e = sign(%a)\n  %b = matmul(%e, %q)\n"
     "  %c = reshape(%b) {shape = [2, 16, 8, 9]}\n  %d = add(%c, %s)\n  %y = conv2d(%d, %v)",
     "sign, for matmul"},
    {"an image in both layouts", ", %v: tensor<[16, 16, 1, 1], f16>", "tensor<[2, 16, 8, 9], f16>",
     "%s = sign(%i)\n  %q = reshape(%s) {shape = [2, 16, 72]}\n"
     "  %r = reshape(%q) {shape = [2, 8, 144]}\n  %a = matmul(%r, %r) {transpose_b = true}\n"
     "  %m = reduce_max(%a)\n  %d = add(%s, %m)\n  %y = conv2d(%d, %v)",
     "sign, for reshape"},
    {"a column of pixels", ", %v: tensor<[16, 16, 1, 1], f16>, %u: tensor<[72, 1], f16>",
     "tensor<[2, 16, 8, 9], f16>",
     "%s = sign(%i)\n  %q = reshape(%s) {shape = [2, 16, 72]}\n  %a = matmul(%q, %u)\n"
     "  %b = reshape(%a) {shape = [2, 16, 1, 1]}\n  %d = maximum(%s, %b)\n  %y = conv2d(%d, %v)",
     ""},
    {"columns of a transposed image", ", %v: tensor<[5, 16], f16>", "tensor<[2, 8, 5, 9], f16>",
     "%s = sign(%i)\n  %a = transpose(%s) {axes = [0, 2, 1, 3]}\n  %y = matmul(%v, %a)", ""},
    {"heads of pixels back",
     ", %v: tensor<[24, 32, 1, 1], f16>, %u: tensor<[2, 4, 8, 6], f16>, %r: tensor<[24, 16, 1, 1], "
     "f16>",
     "tensor<[2, 24, 8, 8], f16>",
     "%p8 = slice(%i) {starts = [0], ends = [8], axes = [3]}\n  %s = sign(%p8)\n"
     "  %c = conv2d(%s, %r)\n  %t = sign(%c)\n  %q = reshape(%t) {shape = [2, 4, 6, 64]}\n"
     "  %a = matmul(%u, %q)\n  %b = reshape(%a) {shape = [2, 32, 8, 8]}\n"
     "  %y = conv2d(%b, %v)",
     ""},
    {"channels, rows and columns repeated", "", "tensor<[2, 32, 24, 18], f16>",
     "%a = reshape(%i) {shape = [2, 16, 1, 8, 1, 9]}\n  %s = shape [2, 16, 2, 8, 3, 9]\n"
     "  %b = broadcast_to(%a, %s)\n  %c = reshape(%b) {shape = [2, 32, 24, 9]}\n"
     "  %d = reshape(%c) {shape = [2, 32, 24, 9, 1]}\n  %t = shape [2, 32, 24, 9, 2]\n"
     "  %e = broadcast_to(%d, %t)\n  %y = reshape(%e) {shape = [2, 32, 24, 18]}",
     "reshape, for the function's result"},
    {"pixels stretched", "", "tensor<[2, 16, 8, 9], f16>",
     "%a = sign(%i)\n  %q = neg(%p)\n  %s = shape [2, 16, 8, 9]\n  %b = broadcast_to(%q, %s)\n"
     "  %c = sub(%a, %b)\n  %y = max_pool2d(%c) {kernel = [1, 1]}",
     "max_pool2d, for the function's result"},
    {"signals whose channels have long taps each",
     ", %v: tensor<[16, 6, 3], f16>, %u: tensor<[16, 1, 33], f16>, %t: tensor<[8, 16, 1], f16>",
     "tensor<[2, 8, 36], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n"
     "  %b = sign(%a)\n  %c = conv1d(%b, %u) {groups = 16, strides = [2], padding = [16]}\n"
     "  %d = sign(%c)\n  %y = conv1d(%d, %t)",
     ""},
    {"columns chosen", "", "tensor<[2, 16, 8, 4], f16>",
     "%j = range() {length = 4, start = 1, step = 2, dtype = i64}\n  %y = gather(%i, %j) {axis = "
     "3}",
     "gather, for the function's result"},
    {"resize of channels", "", "tensor<[2, 32, 8, 9], f16>",
     "%o = max_pool2d(%i) {kernel = [1, 1]}\n  %s = shape [2, 32, 8, 9]\n  %y = resize(%o, %s) "
     "{axes = [1]}",
     "max_pool2d, for resize"},
    {"running sums", "", "tensor<[2, 16, 8, 9], f16>",
     "%a = sign(%i)\n  %y = cumsum(%a) {axis = 1}", "cumsum, for the function's result"},
    {"the largest channel", "", "tensor<[2, 8, 9], i64>", "%y = argmax(%i) {axis = 1}", ""},
    {"the largest row", "", "tensor<[2, 16, 9], i64>", "%y = argmax(%i) {axis = 2}",
     "max_pool2d, for argmax"},
    {"the largest row, kept", "", "tensor<[2, 16, 1, 9], i64>",
     "%y = argmax(%i) {axis = 2, keep_dims = true}", "argmax, for the function's result"},
    {"least of channels", "", "tensor<[2, 8, 9], f16>", "%y = reduce_min(%i) {axes = [1]}", ""},
    {"least of rows", "", "tensor<[2, 16, 9], f16>", "%y = reduce_min(%i) {axes = [2]}",
     "max_pool2d, for reduce_min"},
    {"least of all", "", "tensor<[], f16>", "%y = reduce_min(%i)", ""},
    {"least of rows, kept", "", "tensor<[2, 16, 1, 9], f16>",
     "%y = reduce_min(%i) {axes = [2], keep_dims = true}", "reduce_min, for the function's result"},
    {"what stretches",
     ", %v: tensor<[8, 1], f16>, %u: tensor<[16, 8, 9], f16>, %t: tensor<[9], f16>",
     "tensor<[2, 16, 8, 9], f16>",
     "%a = add(%i, %v)\n  %b = sub(%a, %u)\n  %c = maximum(%b, %t)\n  %y = minimum(%c, %p)",
     "minimum, for the function's result"},
    {"transposed, each pixel apart", ", %v: tensor<[16, 5, 2, 2], f16>, %b: tensor<[5], f16>",
     "tensor<[2, 5, 16, 18], f16>",
     "%a = sign(%i)\n  %c = conv_transpose(%a, %v, %b) {strides = [2, 2]}\n"
     "  %y = max_pool2d(%c) {kernel = [1, 1]}",
     "max_pool2d, for the function's result"},
    {"transposed, four taps a phase", ", %v: tensor<[16, 16, 4, 3], f16>",
     "tensor<[2, 16, 16, 9], f16>",
     "%a = sign(%i)\n"
     "  %y = conv_transpose(%a, %v) {strides = [2, 1], padding = [1, 1]}",
     ""},
    {"transposed, padded behind", ", %v: tensor<[16, 9, 3, 5], f16>, %b: tensor<[9], f16>",
     "tensor<[2, 9, 16, 28], f16>",
     "%a = sign(%i)\n  %y = conv_transpose(%a, %v, %b) {strides = [2, 3], padding = [1, 0, 1, 2], "
     "output_padding = [1, 1]}",
     ""},
    {"transposed, more behind than there is", ", %v: tensor<[16, 16, 2, 2], f16>",
     "tensor<[2, 16, 17, 18], f16>",
     "%a = sign(%i)\n  %y = conv_transpose(%a, %v) {strides = [2, 2], output_padding = [1, 0]}",
     ""},
    {"transposed by groups", ", %v: tensor<[16, 8, 2, 2], f16>", "tensor<[2, 16, 16, 18], f16>",
     "%a = sign(%i)\n  %y = conv_transpose(%a, %v) {strides = [2, 2], groups = 2}",
     "sign, for conv_transpose"},
    {"signals",
     ", %v: tensor<[16, 6, 3], f16>, %b: tensor<[16], f16>, %u: tensor<[16, 16, 3], f16>, %t: "
     "tensor<[16, 1], f16>",
     "tensor<[2, 16, 36], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v, %b) {padding = [1, 1]}\n"
     "  %c = sign(%a)\n"
     "  %d = conv1d(%c, %u) {strides = [2], padding = [2, 1], dilation = [2]}\n"
     "  %e = add(%d, %t)\n  %m = reduce_max(%e) {axes = [2], keep_dims = true}\n"
     "  %y = sub(%e, %m)",
     "sub, for the function's result"},
    {"signals as rows", ", %v: tensor<[16, 6, 3], f16>", "tensor<[2, 72, 16], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n  %c = "
     "sign(%a)\n  %y = transpose(%c) {axes = [0, 2, 1]}",
     ""},
    {"signals of rows", ", %v: tensor<[16, 6, 3], f16>", "tensor<[2, 16, 70], f16>",
     "%q = reshape(%x) {shape = [2, 72, 6]}\n  %r = transpose(%q) {axes = [0, 2, 1]}\n"
     "  %y = conv1d(%r, %v)",
     ""},
    {"least of signals", ", %v: tensor<[16, 6, 3], f16>", "tensor<[2, 16], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n  %c = "
     "sign(%a)\n  %y = reduce_min(%c) {axes = [2]}",
     ""},
    {"least of signals' channels", ", %v: tensor<[16, 6, 3], f16>", "tensor<[2, 72], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n  %c = "
     "sign(%a)\n  %y = reduce_min(%c) {axes = [1]}",
     ""},
    {"the largest of signals' channels", ", %v: tensor<[16, 6, 3], f16>", "tensor<[2, 1, 72], i64>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n  %c = "
     "sign(%a)\n  %y = argmax(%c) {axis = 1, keep_dims = true}",
     "argmax, for the function's result"},
    {"parts of signals", ", %v: tensor<[16, 6, 3], f16>", "tensor<[2, 17, 75], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n  %c = "
     "sign(%a)\n  %d = concat(%c, %c) {axis = 1}\n"
     "  %e = slice(%d) {starts = [3], ends = [20], axes = [-2]}\n"
     "  %y = pad(%e) {before = [0, 0, 1], after = [0, 0, 2]}",
     "pad, for the function's result"},
    {"signals transposed", ", %v: tensor<[16, 6, 3], f16>, %u: tensor<[16, 16, 4], f16>",
     "tensor<[2, 16, 144], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n  %c = "
     "sign(%a)\n  %y = conv_transpose(%c, %u) {strides = [2], padding = [1, 1]}",
     "conv_transpose, for the function's result"},
    {"signals transposed, longer behind, and cut unevenly",
     ", %v: tensor<[16, 6, 3], f16>, %u: tensor<[16, 16, 5], f16>, %t: tensor<[16, 9, 4], f16>, "
     "%b: tensor<[9], f16>",
     "tensor<[2, 9, 433], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n"
     "  %c = conv_transpose(%a, %u) {strides = [3], padding = [1], output_padding = [0]}\n"
     "  %d = slice(%c) {starts = [0], ends = [216], axes = [2]}\n  %e = sign(%d)\n"
     "  %y = conv_transpose(%e, %t, %b) {strides = [2], padding = [0, 1], output_padding = [0]}",
     "conv_transpose, for the function's result"},
    {"volumes",
     ", %v: tensor<[16, 6, 3, 3, 3], f16>, %b: tensor<[16], f16>, %u: tensor<[32, 16, 2, 1, 3], "
     "f16>, %t: tensor<[32, 1, 1, 1], f16>",
     "tensor<[2, 32, 1, 4, 7], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n"
     "  %a = conv3d(%q, %v, %b) {padding = [1, 1, 1]}\n  %c = sign(%a)\n"
     "  %d = conv3d(%c, %u)\n  %e = add(%d, %t)\n"
     "  %m = reduce_max(%e) {axes = [2, 3, 4], keep_dims = true}\n  %y = sub(%e, %m)",
     ""},
    {"parts of volumes", ", %v: tensor<[16, 6, 3, 3, 3], f16>, %u: tensor<[16, 1, 1, 1, 1], f16>",
     "tensor<[2, 17, 2, 4, 12], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n"
     "  %a = conv3d(%q, %v) {padding = [1, 1, 1]}\n"
     "  %c = conv3d(%a, %u) {groups = 16}\n  %d = concat(%c, %c) {axis = 1}\n"
     "  %e = slice(%d) {starts = [3], ends = [20], axes = [-4]}\n"
     "  %y = pad(%e) {before = [0, 0, 0, 0, 1], after = [0, 0, 0, 0, 2]}",
     "pad, for the function's result"},
    {"least of volumes", ", %v: tensor<[16, 6, 1, 1, 1], f16>", "tensor<[2, 16], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n  %a = conv3d(%q, %v)\n"
     "  %y = reduce_min(%a) {axes = [2, 3, 4]}",
     ""},
    {"least of volumes' planes", ", %v: tensor<[16, 6, 1, 1, 1], f16>",
     "tensor<[2, 16, 4, 9], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n  %a = conv3d(%q, %v)\n"
     "  %y = reduce_min(%a) {axes = [2]}",
     ""},
    {"the largest of volumes' channels", ", %v: tensor<[16, 6, 1, 1, 1], f16>",
     "tensor<[2, 2, 4, 9], i64>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n  %a = conv3d(%q, %v)\n"
     "  %y = argmax(%a) {axis = 1}",
     ""},
    {"volumes of other layouts", ", %v: tensor<[16, 6, 1, 1, 1], f16>",
     "tensor<[2, 16, 2, 4, 9], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n"
     "  %p3 = transpose(%q) {axes = [0, 2, 3, 4, 1]}\n"
     "  %r = transpose(%p3) {axes = [0, 4, 1, 2, 3]}\n  %a = conv3d(%r, %v)\n"
     "  %b = transpose(%a) {axes = [0, 2, 3, 4, 1]}\n  %c = neg(%b)\n"
     "  %y = transpose(%c) {axes = [0, 4, 1, 2, 3]}",
     ""},
    {"volumes a channel each",
     ", %v: tensor<[16, 6, 1, 1, 1], f16>, %u: tensor<[16, 1, 3, 3, 3], f16>",
     "tensor<[2, 16, 2, 4, 9], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n  %a = conv3d(%q, %v)\n  %c = sign(%a)\n"
     "  %y = conv3d(%c, %u) {groups = 16, padding = [1, 1, 1]}",
     "conv3d, for the function's result"},
    {"volumes transposed", ", %v: tensor<[16, 6, 1, 1, 1], f16>, %u: tensor<[16, 4, 2, 2, 2], f16>",
     "tensor<[2, 4, 4, 8, 18], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n  %a = conv3d(%q, %v)\n  %c = sign(%a)\n"
     "  %d = conv_transpose(%c, %u) {strides = [2, 2, 2]}\n"
     "  %y = cumsum(%d) {axis = 1}",
     ""},
    {"volumes transposed, cut",
     ", %v: tensor<[16, 6, 1, 1, 1], f16>, %u: tensor<[16, 3, 3, 2, 4], f16>, %b: tensor<[3], f16>",
     "tensor<[2, 3, 3, 8, 10], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n  %a = conv3d(%q, %v)\n  %c = sign(%a)\n"
     "  %y = conv_transpose(%c, %u, %b) {strides = [2, 2, 1], padding = [1, 0, 1]}",
     ""},
    {"pools of volumes", ", %v: tensor<[16, 6, 1, 1, 1], f16>", "tensor<[2, 16, 1, 3, 5], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n  %a = conv3d(%q, %v)\n"
     "  %b = reshape(%a) {shape = [2, 32, 4, 9]}\n"
     "  %c = max_pool2d(%b) {kernel = [2, 3], padding = [0, 1], strides = [1, 2]}\n"
     "  %d = reshape(%c) {shape = [2, 16, 2, 15]}\n  %e = max_pool2d(%d) {kernel = [2, 1]}\n"
     "  %y = reshape(%e) {shape = [2, 16, 1, 3, 5]}",
     "reshape, for the function's result"},
    {"pools of signals", ", %v: tensor<[16, 6, 3], f16>", "tensor<[2, 16, 35], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n"
     "  %b = reshape(%a) {shape = [2, 16, 1, 72]}\n"
     "  %c = max_pool2d(%b) {kernel = [1, 4], strides = [1, 2]}\n"
     "  %y = reshape(%c) {shape = [2, 16, 35]}",
     "reshape, for the function's result"},
    {"an image of other layouts", "", "tensor<[2, 16, 8, 9], f16>",
     "%a = transpose(%i) {axes = [0, 2, 3, 1]}\n  %b = neg(%a)\n"
     "  %c = transpose(%b) {axes = [0, 3, 1, 2]}\n  %d = relu(%c)\n  %y = add(%d, %i)",
     "add, for the function's result"},
    {"bytes of few channels", ", %v: tensor<[16, 6, 3, 3], i8>", "tensor<[2, 16, 8, 9], i32>",
     "%a = abs(%x)\n  %b = cast(%a) {dtype = u8}\n  %m = reduce_max(%a)\n"
     "  %z = cast(%m) {dtype = u8}\n  %y = conv_integer(%b, %v, %z) {padding = [1, 1]}",
     "conv_integer, for the function's result"},
    {"odd channels between convolutions",
     ", %v: tensor<[17, 16, 1, 1], f16>, %b: tensor<[17], f16>, %u: tensor<[16, 17, 3, 3], f16>, "
     "%t: tensor<[16, 33, 1, 1], f16>, %o: tensor<[1], f16>",
     "tensor<[2, 16, 8, 9], f16>",
     "%a = sign(%i)\n  %c = conv2d(%a, %v, %b)\n  %d = sign(%c)\n"
     "  %e = hard_sigmoid(%d) {alpha = 1, beta = 1}\n  %f = mul(%e, %d)\n  %g = sub(%d, %o)\n"
     "  %h = conv2d(%f, %u) {padding = [1, 1]}\n  %j = conv2d(%e, %u) {padding = [1, 1]}\n"
     "  %k = conv2d(%g, %u) {padding = [1, 1]}\n  %l = concat(%d, %a) {axis = 1}\n"
     "  %m = conv2d(%l, %t)\n  %n = slice(%l) {starts = [0], ends = [17], axes = [1]}\n"
     "  %q = add(%n, %e)\n  %r = conv2d(%q, %u) {padding = [1, 1]}\n"
     "  %s = add(%h, %j)\n  %z = add(%k, %m)\n  %z1 = sub(%s, %r)\n  %y = sub(%z, %z1)",
     ""},
    {"few channels", ", %v: tensor<[3, 16, 3, 3], f16>, %b: tensor<[3], f16>",
     "tensor<[2, 3, 8, 9], f16>", "%a = sign(%i)\n  %y = conv2d(%a, %v, %b) {padding = [1, 1]}",
     ""},
    {"groups of four channels", ", %v: tensor<[16, 4, 3, 3], f16>, %b: tensor<[16], f16>",
     "tensor<[2, 16, 8, 9], f16>",
     "%a = sign(%i)\n  %y = conv2d(%a, %v, %b) {padding = [1, 1], groups = 4}",
     "conv2d, for the function's result"},
    {"groups of two channels to four", ", %v: tensor<[32, 2, 3, 2], f16>",
     "tensor<[2, 32, 4, 4], f16>",
     "%a = sign(%i)\n  %y = conv2d(%a, %v) {padding = [1, 0], strides = [2, 2], groups = 8}",
     "conv2d, for the function's result"},
    {"17 groups of eight channels",
     ", %v: tensor<[136, 6, 1, 1], f16>, %u: tensor<[136, 8, 3, 1], f16>",
     "tensor<[2, 136, 6, 9], f16>",
     "%a = conv2d(%x, %v)\n  %b = sign(%a)\n  %y = conv2d(%b, %u) {groups = 17}",
     "conv2d, for the function's result"},
    {"eight channels of what is transposed", ", %v: tensor<[8, 3, 3, 3], f16>",
     "tensor<[2, 8, 6, 7], f16>",
     "%q = slice(%x) {starts = [0], ends = [3], axes = [1]}\n  %y = conv2d(%q, %v)", ""},
    {"groups of a channel to two", ", %v: tensor<[32, 1, 3, 3], f16>", "tensor<[2, 32, 6, 7], f16>",
     "%a = sign(%i)\n  %y = conv2d(%a, %v) {groups = 16}", "conv2d, for the function's result"},
    {"groups of signals", ", %v: tensor<[16, 6, 3], f16>, %u: tensor<[16, 4, 5], f16>",
     "tensor<[2, 16, 68], f16>",
     "%q = reshape(%x) {shape = [2, 6, 72]}\n  %a = conv1d(%q, %v) {padding = [1]}\n"
     "  %c = sign(%a)\n  %y = conv1d(%c, %u) {groups = 4}",
     "conv1d, for the function's result"},
    {"groups of volumes", ", %v: tensor<[16, 6, 1, 1, 1], f16>, %u: tensor<[24, 2, 2, 3, 1], f16>",
     "tensor<[2, 24, 1, 2, 9], f16>",
     "%q = reshape(%x) {shape = [2, 6, 2, 4, 9]}\n  %a = conv3d(%q, %v)\n  %c = sign(%a)\n"
     "  %y = conv3d(%c, %u) {groups = 8}",
     "conv3d, for the function's result"},
    {"channels shuffled", "", "tensor<[2, 5, 8, 9], f16>",
     "%a = reshape(%i) {shape = [2, 2, 8, 8, 9]}\n  %b = transpose(%a) {axes = [0, 2, 1, 3, 4]}\n"
     "  %c = reshape(%b) {shape = [2, 16, 8, 9]}\n  %from = shape [0, 3, 0, 0]\n"
     "  %size = shape [2, 5, 8, 9]\n  %y = slice(%c, %from, %size)",
     "slice, for the function's result"},
    {"channels put between places", ", %v: tensor<[16, 4, 1, 1], f16>",
     "tensor<[2, 16, 16, 18], f16>",
     "%a = reshape(%i) {shape = [2, 4, 2, 2, 8, 9]}\n"
     "  %b = transpose(%a) {axes = [0, 1, 4, 2, 5, 3]}\n"
     "  %c = reshape(%b) {shape = [2, 4, 16, 18]}\n  %y = conv2d(%c, %v)",
     ""},
    {"places made channels", ", %v: tensor<[16, 96, 1, 1], f16>", "tensor<[2, 16, 4, 3], f16>",
     "%a = reshape(%i) {shape = [2, 16, 4, 2, 3, 3]}\n"
     "  %b = transpose(%a) {axes = [0, 3, 5, 1, 2, 4]}\n"
     "  %c = reshape(%b) {shape = [2, 96, 4, 3]}\n  %y = conv2d(%c, %v)",
     ""},
    {"windows of rows", "", "tensor<[24, 6, 16], f16>",
     "%a = reshape(%i) {shape = [2, 16, 4, 2, 3, 3]}\n"
     "  %b = transpose(%a) {axes = [0, 2, 4, 3, 5, 1]}\n  %y = reshape(%b) {shape = [24, 6, 16]}",
     ""},
    {"windows back", ", %v: tensor<[16, 16, 3, 3], f16>", "tensor<[2, 16, 6, 7], f16>",
     "%a = transpose(%i) {axes = [0, 2, 3, 1]}\n  %t = reshape(%a) {shape = [2, 8, 3, 3, 16]}\n"
     "  %b = transpose(%t) {axes = [0, 4, 1, 2, 3]}\n  %c = reshape(%b) {shape = [2, 16, 8, 9]}\n"
     "  %y = conv2d(%c, %v)",
     ""},
    {"windows back beside an image", ", %v: tensor<[16, 16, 3, 3], f16>",
     "tensor<[2, 16, 6, 7], f16>",
     "%a = transpose(%i) {axes = [0, 2, 3, 1]}\n  %t = reshape(%a) {shape = [2, 8, 3, 3, 16]}\n"
     "  %b = transpose(%t) {axes = [0, 4, 1, 2, 3]}\n  %c = reshape(%b) {shape = [2, 16, 8, 9]}\n"
     "  %d = sub(%c, %i)\n  %y = conv2d(%d, %v)",
     ""},
    {"windows back to a pool and a norm",
     ", %v: tensor<[16, 16, 3, 3], f16>, %s: tensor<[16, 1, 1], f16>", "tensor<[2, 16, 5, 6], f16>",
     "%a = transpose(%i) {axes = [0, 2, 3, 1]}\n  %t = reshape(%a) {shape = [2, 8, 3, 3, 16]}\n"
     "  %b = transpose(%t) {axes = [0, 4, 1, 2, 3]}\n  %c = reshape(%b) {shape = [2, 16, 8, 9]}\n"
     "  %d = max_pool2d(%c) {kernel = [2, 2]}\n  %e = mul(%c, %s)\n"
     "  %f = max_pool2d(%e) {kernel = [2, 2]}\n  %g = conv2d(%d, %v)\n"
     "  %h = conv2d(%f, %v)\n  %y = sub(%g, %h)",
     ""},
    {"rows of pixels", "", "tensor<[2, 72, 16], f16>",
     "%a = reshape(%i) {shape = [2, 16, 72]}\n  %y = transpose(%a) {axes = [0, 2, 1]}", ""},
    {"windows of any number of images", ", %v: tensor<[16, 16, 1, 1], f16>",
     "tensor<[n, 16, 8, 9], f16>",
     "%s = shape [64*n, 2, 3, 3]\n  %a = reshape(%i, %s)\n"
     "  %b = transpose(%a) {axes = [0, 2, 1, 3]}\n  %t = shape [n, 16, 12, 6]\n"
     "  %c = reshape(%b, %t)\n  %d = transpose(%c) {axes = [0, 3, 2, 1]}\n"
     "  %u = shape [6*n, 12, 16]\n  %e = reshape(%d, %u)\n  %f = neg(%e)\n"
     "  %q = shape [n, 6, 12, 16]\n  %g = reshape(%f, %q)\n"
     "  %h = transpose(%g) {axes = [0, 3, 2, 1]}\n  %r = shape [64*n, 3, 2, 3]\n  %j = reshape(%h, "
     "%r)\n"
     "  %k = transpose(%j) {axes = [0, 2, 1, 3]}\n  %m = shape [n, 16, 8, 9]\n"
     "  %l = reshape(%k, %m)\n  %y = conv2d(%l, %v)",
     "", "n, 6, 8, 9"},
    {"rows of any number transposed", ", %v: tensor<[16, 5, 4, 3], f16>, %b: tensor<[5], f16>",
     "tensor<[2, 5, 2*n, 25], f16>",
     "%a = sign(%i)\n"
     "  %y = conv_transpose(%a, %v, %b) {strides = [2, 3], padding = [1, 1]}",
     "", "2, 6, n, 9"},
    {"heads of pixels", "", "tensor<[2, 4, 72, 4], f16>",
     "%a = reshape(%i) {shape = [2, 4, 4, 72]}\n  %y = transpose(%a) {axes = [0, 1, 3, 2]}", ""},
    {"columns first", "", "tensor<[2, 16, 9, 8], f16>", "%y = transpose(%i) {axes = [0, 1, 3, 2]}",
     ""},
    {"taken apart for two", "", "tensor<[2, 2, 8, 8, 9], f16>",
     "%a = reshape(%i) {shape = [2, 2, 8, 8, 9]}\n  %b = transpose(%a) {axes = [0, 2, 1, 3, 4]}\n"
     "  %c = reshape(%b) {shape = [2, 2, 8, 8, 9]}\n  %y = add(%a, %c)",
     "max_pool2d, for reshape"},
    {"transposed for two", "", "tensor<[2, 9, 16, 8], f16>",
     "%a = transpose(%i) {axes = [0, 2, 3, 1]}\n  %b = transpose(%a) {axes = [0, 3, 1, 2]}\n"
     "  %c = transpose(%b) {axes = [0, 3, 1, 2]}\n  %y = neg(%c)",
     "neg, for the function's result; transpose, for transpose"},
};

constexpr int64_t kSymbols[] = {2, 2};

std::string text_of(const Case &c) {
  return std::string("cugrt 1\nfunc @main(%x: tensor<[") + c.x +
         "], f16>, %w: tensor<[16, 6, 3, 3], f16>" + c.params + ") -> (" + c.results +
         ") attributes {num_inputs = 1} {\n" +
         "  %conv = conv2d(%x, %w) {padding = [1, 1]}\n"
         "  %i = max_pool2d(%conv) {kernel = [1, 1]}\n"
         "  %p = reduce_max(%i) {axes = [2, 3], keep_dims = true}\n  " +
         c.body + "\n  return %y\n}\n";
}

/// `text` with elements of f32.
std::string in_f32(std::string text) {
  for (size_t at = 0; (at = text.find("f16>", at)) != std::string::npos;)
    text.replace(at, 4, "f32>");
  return text;
}

std::vector<double> run(ir::Module module, bool lays_out, bool rounds,
                        std::vector<std::string> *notes) {
  passes::PassContext context;
  context.collect_notes(notes);
  REQUIRE(context.set("mixed.dtype", rounds ? "tf32" : "none").ok());
  for (const char *name : {"EliminateDeadBindings", "LayOutImages", "LegalizeOps"}) {
    if (!lays_out && std::string(name) == "LayOutImages")
      continue;
    Result<ir::Module> next = passes::find_pass(name)->run(module, context);
    INFO((next.ok() ? "" : next.status().to_string()));
    REQUIRE(next.ok());
    Result<ir::Module> verified = ir::parse_and_verify(ir::print(*next), name);
    INFO((verified.ok() ? "" : verified.status().to_string()));
    REQUIRE(verified.ok());
    module = std::move(*verified);
  }
  std::vector<Array> inputs;
  for (const ir::Parameter &param : module.functions[0].params) {
    const ir::Type type = module.types[module.functions[0].value(param.value).type];
    std::vector<int64_t> dims;
    for (ir::ExprId dim : type.dims)
      dims.push_back(*module.exprs.evaluate(dim, kSymbols));
    Array array = Array::of(dims);
    for (size_t i = 0; i < array.values.size(); ++i)
      array.values[i] = double(int64_t(i * 37 % 5) - 2);
    inputs.push_back(std::move(array));
  }
  static LaunchRunner runner;
  const auto results = runner.run(module, module.functions[0], inputs);
  INFO((results.ok() ? "" : results.status().to_string()));
  REQUIRE(results.ok());
  return (*results)[0].values;
}

} // namespace

TEST_CASE("Ops on images with channels last give what they give with channels second") {
  std::vector<double> expected; // the same in f32 and in f16
  for (size_t i = 0; i < 2 * std::size(kCases); ++i) {
    const Case &c = kCases[i / 2];
    const bool rounds = i % 2; // f32, of which tf32 has all numbers here
    const std::string text = rounds ? in_f32(text_of(c)) : text_of(c);
    INFO(c.name);
    INFO(text);
    Result<ir::Module> module = ir::parse_and_verify(text, c.name);
    INFO((module.ok() ? "" : module.status().to_string()));
    REQUIRE(module.ok());
    std::vector<std::string> notes;
    if (!rounds)
      expected = run(*module, false, rounds, nullptr);
    CHECK(run(*module, true, rounds, &notes) == expected);
    std::string borders;
    for (const std::string &note : notes)
      if (const size_t at = note.find("transposed back: "); at != std::string::npos)
        borders += (borders.empty() ? "" : "; ") +
                   note.substr(at + std::string("transposed back: ").size());
    CHECK(borders == c.border);
  }
}
