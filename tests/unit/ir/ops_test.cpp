// What the rules of ops give and refuse, by way of the text form.
#include "support/catch.h"

#include "ir/text/text.h"
#include "ops/table/ops.h"

using namespace cugrt;
using namespace cugrt::ir;

namespace {

struct Outcome {
  std::string type;  // of the first result, as printed
  std::string error; // the first message
};

/// The op call `call` over %x: tensor<X>, %y: tensor<Y> with symbols n in [2, 64] and p in [0, 7].
Outcome infer(const std::string &call, const std::string &x, const std::string &y = "[4], f32") {
  const std::string text =
      "cugrt 1\nfunc @f(%x: tensor<" + x + ">, %y: tensor<" + y +
      ">, %n: tensor<[n], i8>, %p: int<p>) attributes {lower_bounds = {n = 2}, "
      "upper_bounds = {n = 64, p = 7}} {\n" +
      call + "\n  return\n}\n";
  Diagnostics diagnostics;
  const Module module = parse(text, diagnostics);
  if (diagnostics.empty())
    verify(module, diagnostics);
  if (!diagnostics.empty())
    return {"", diagnostics.list()[0].message};
  // What is printed parses again to the same text.
  const std::string printed = print(module);
  const Module again = parse(printed, diagnostics);
  CHECK(print(again) == printed);
  const Function &function = module.functions[0];
  for (const Binding &binding : function.body().bindings)
    if (binding.kind == BindingKind::op)
      return {print_type(module, &function, function.value(binding.result()).type), ""};
  return {"no op", ""};
}

} // namespace

TEST_CASE("ops on numbers give the types that their rules say") {
  CHECK(infer("%r = add(%x, %y)", "[3, 4], i32", "[4], i32").type == "tensor<[3, 4], i32>");
  CHECK(infer("%r = less(%x, %y)", "[3, 1], u8", "[4], u8").type == "tensor<[3, 4], bool>");
  CHECK(infer("%r = where(%x, %y, %y)", "[n, 1], bool").type == "tensor<[n, 4], f32>");
  CHECK(infer("%r = is_nan(%x)", "[n], f16").type == "tensor<[n], bool>");
  CHECK(infer("%r, %i = top_k(%x) {k = 2, axis = 0}", "[5, n], bf16").type ==
        "tensor<[2, n], bf16>");
  CHECK(infer("%r = cumsum(%x)", "[n, 3], i64").type == "tensor<[n, 3], i64>");
  CHECK(infer("%r = matmul_blocks(%x, %y)", "[n, 3, 64], f16", "[8, 64], q4_1").type ==
        "tensor<[n, 3, 8], f16>");
  CHECK(infer("%r = matmul_blocks(%x, %y)", "[n, 512], f32", "[8, 512], q6_k").type ==
        "tensor<[n, 8], f32>");
  CHECK(infer("%r = matmul(%x, %y) {transpose_b = true}", "[n, 64], f16", "[8, 64], iq4_nl").type ==
        "tensor<[n, 8], f16>"); // matmul_blocks
  CHECK(
      infer("%r = embedding_blocks(%x, %y) {dtype = bf16}", "[8, 64], q4_1", "[n, 2], i32").type ==
      "tensor<[n, 2, 64], bf16>");
  const std::string places = "%i = range() {dtype = i32, length = 3}\n";
  CHECK(infer(places + "%r = attention(%x, %y, %y, none, none, %i) {causal = true, window = 4}",
              "[3, 2, 8, 16], f16", "[5, n, 4, 16], f16")
            .error == "");
  CHECK(infer("%r = reduce_min(%x) {axes = [0]}", "[n, 3], u16").type == "tensor<[3], u16>");
}

TEST_CASE("ops that choose elements give the types that their rules say") {
  CHECK(infer("%r = gather(%x, %y) {axis = 1}", "[2, n, 5], i8", "[3, 4], i64").type ==
        "tensor<[2, 3, 4, 5], i8>");
  CHECK(infer("%r = gather_elements(%x, %y) {axis = 1}", "[2, n], i8", "[2, 3], i32").type ==
        "tensor<[2, 3], i8>");
  CHECK(infer("%r = one_hot(%x) {depth = 7, axis = 0}", "[n], i32").type == "tensor<[7, n], f32>");
  CHECK(infer("%r = pad(%x) {before = [1, 0], after = [2, 0]}", "[n, 3], f32").type ==
        "tensor<[n + 3, 3], f32>");
  CHECK(infer("%s = shape [n]\n%r = range(%s) {dtype = i64}", "[1], f32").type ==
        "tensor<[n], i64>");
  CHECK(infer("%s = shape [3, n]\n%r = broadcast_to(%x, %s)", "[n], bool").type ==
        "tensor<[3, n], bool>");
}

TEST_CASE("pools are dilated and round their sizes up, but begin no window behind the image") {
  auto pool = [](const std::string &attributes, const std::string &x) {
    return infer("  %r = max_pool2d(%x) {" + attributes + "}", x);
  };
  CHECK(pool("kernel = [2, 3], dilation = [3, 2]", "[1, 2, 9, 9], u8").type ==
        "tensor<[1, 2, 6, 5], u8>");
  CHECK(pool("kernel = [2, 2], strides = [2, 2], ceil_mode = true", "[1, 2, 5, 4], f32").type ==
        "tensor<[1, 2, 3, 2], f32>");
  CHECK(pool("kernel = [2, 2], strides = [3, 3], padding = [1, 1], ceil_mode = true",
             "[1, 1, 4, 4], f32")
            .type == "tensor<[1, 1, 2, 2], f32>");
  CHECK(pool("kernel = [2, 2], padding = [3, 0], dilation = [2, 1]", "[1, 1, 4, 4], f32")
            .error.find("padding of a pool is smaller than its kernel") != std::string::npos);
  CHECK(pool("kernel = [2, 2], channels_last = true, first_channel = 3, channels = 2",
             "[1, 4, 4, 4], f32")
            .error.find("are a range of the input's channels") != std::string::npos);
  CHECK(infer("  %r = avg_pool2d(%x) {kernel = [2, 2]}", "[1, 2, 4, 4], i32")
            .error.find("a float dtype is needed") != std::string::npos);
}

TEST_CASE("slices of symbolic dimensions are expressions of them") {
  auto slice = [](const std::string &attributes) {
    return infer("%r = slice(%x) {" + attributes + "}", "[n, 10], f32").type;
  };
  CHECK(slice("starts = [1], ends = [9], axes = [1]") == "tensor<[n, 8], f32>");
  CHECK(slice("starts = [-1], ends = [9223372036854775807]") == "tensor<[min(n, 1), 10], f32>");
  CHECK(slice("starts = [0], ends = [5]") == "tensor<[min(n, 5), 10], f32>");
  CHECK(slice("starts = [9], ends = [-9223372036854775808], axes = [-1], steps = [-2]") ==
        "tensor<[n, 5], f32>");
}

TEST_CASE(
    "ops between elements, recurrent ones and products of bytes give the types of their rules") {
  CHECK(infer("%s = shape [n, 2*k]\n%r = resize(%x, %s) {axes = [1]}", "[n, k], u8").type ==
        "tensor<[n, 2*k], u8>");
  CHECK(infer("%r = grid_sample(%x, %y)", "[n, 3, 5, 6], f16", "[n, 7, 8, 2], f16").type ==
        "tensor<[n, 3, 7, 8], f16>");
  CHECK(infer("%r = grid_sample(%x, %y)", "[n, 3, 5, 6], f16", "[n, 7, 8, 2], f32").type ==
        "tensor<[n, 3, 7, 8], f16>");
  CHECK(infer("%r, %h, %c = lstm(%x, %y)", "[n, 2, 1, 20], f32", "[1, 5, 20], f32").type ==
        "tensor<[n, 1, 2, 5], f32>");
  CHECK(infer("%r, %h = gru(%x, %y)", "[4, n, 2, 15], f16", "[2, 5, 15], f16").type ==
        "tensor<[4, 2, n, 5], f16>");
  CHECK(infer("%r = matmul_integer(%x, %y)", "[n, 3, 64], u8", "[64, 8], i8").type ==
        "tensor<[n, 3, 8], i32>");
  CHECK(infer("%r = matmul_integer(%x, %y) {transpose_b = true}", "[3, 64], u8", "[8, 64], i8")
            .type == "tensor<[3, 8], i32>");
  CHECK(infer("%r = conv_integer(%x, %y) {padding = [1]}", "[n, 3, 9], u8", "[4, 3, 3], i8").type ==
        "tensor<[n, 4, 9], i32>");
  CHECK(infer("%r = conv_transpose(%x, %y) {strides = [2, 2]}", "[n, 3, 9, k], f32",
              "[3, 4, 2, 2], f32")
            .type == "tensor<[n, 4, 18, 2*k], f32>");
  CHECK(infer("%r = conv3d(%x, %y)", "[n, 3, 9, 8, 7], f32", "[4, 3, 3, 3, 3], f32").type ==
        "tensor<[n, 4, 7, 6, 5], f32>");
  CHECK(infer("%r = gather_nd(%x, %y) {batch_dims = 1}", "[n, 4, 5], i8", "[n, 3, 1], i64").type ==
        "tensor<[n, 3, 5], i8>");
  CHECK(infer("%r = scatter_nd(%x, %y, %x)", "[n, 4], f32", "[n, 1], i64").type ==
        "tensor<[n, 4], f32>");
  CHECK(infer("%r, %i = top_k(%x) {k = 2}", "[n], f32").type == "tensor<[2], f32>");
  CHECK(infer("%r, %s, %z = dynamic_quantize(%x)", "[n, 3], f32").type == "tensor<[n, 3], u8>");
  CHECK(infer("%r = shift_left(%x, %x)", "[n], u8").type == "tensor<[n], u8>");
}

TEST_CASE("a slice at a symbol is taken where its bounds show that it lies in the tensor") {
  const std::string at_p = "%b = shape [0, p]\n%s = shape [n, 1]\n%r = slice(%x, %b, %s)";
  INFO(infer(at_p, "[n, 8], f32").error);
  CHECK(infer(at_p, "[n, 8], f32").type == "tensor<[n, 1], f32>");
  CHECK(infer(at_p, "[n, 7], f32").error.find("cannot be shown to lie in") != std::string::npos);
  // The least of several, where one is the dimension; the greatest, where all are within it.
  auto rows = [](const std::string &count) {
    return infer("%b = shape [0, 0]\n%s = shape [" + count + ", 8]\n%r = slice(%x, %b, %s)",
                 "[n, 8], f32");
  };
  CHECK(rows("min(n, 4*p)").error.empty());
  CHECK(rows("max(min(n, 4*p), min(n, p + 1))").error.empty());
  CHECK_FALSE(rows("max(n, 4*p)").error.empty());
  CHECK_FALSE(rows("min(n + 1, 4*p)").error.empty());
}

TEST_CASE("what a rule refuses is said with what is needed") {
  auto error = [](const std::string &call, const std::string &x,
                  const std::string &y = "[4], f32") { return infer(call, x, y).error; };
  auto says = [](const std::string &message, const std::string &part) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
  };
  says(error("%r = exp(%x)", "[3], i32"), "a float dtype is needed");
  says(error("%r = add(%x, %x)", "[3], bool"), "a float or an integer");
  says(error("%r = add(%x, %y)", "[4], i32"), "insert a cast");
  says(error("%r = logical_and(%x, %x)", "[4], u8"), "bool is needed");
  says(error("%r = where(%x, %y, %y)", "[4], u8"), "bool is needed");
  says(error("%r = less(%x, %x)", "[4], bool"), "a float or an integer");
  says(error("%r = reduce_mean(%x)", "[4], i32"), "a float dtype is needed");
  says(error("%r, %i = top_k(%x) {k = 5}", "[4], f32"), "attribute 'k' is 5");
  says(error("%r, %i = top_k(%x) {k = 3}", "[n], f32"), "cannot be shown to have k elements");
  says(error("%r = shift_left(%x, %x)", "[4], f32"), "an integer of whole bytes");
  says(error("%r = conv3d(%x, %y)", "[1, 2, 3, 4, 5], f32", "[2, 2, 4, 1, 1], f32"), "larger than");
  says(error("%r = conv_transpose(%x, %y)", "[1, 2], f32", "[2, 2], f32"), "rank 3 to 5");
  says(error("%r = conv_transpose(%x, %y) {output_padding = [1]}", "[1, 2, 3], f32",
             "[2, 2, 3], f32"),
       "less than the stride");
  says(error("%r = matmul_integer(%x, %y)", "[2, 3], i8", "[3, 2], i32"), "i8 or u8 is needed");
  says(error("%r, %s, %z = dynamic_quantize(%x)", "[2, 3], f16"), "f32 is needed");
  says(error("%r = matmul_integer(%x, %y, %y)", "[2, 3], i8", "[3, 2], u8"), "i8 is needed");
  says(error("%r = conv_integer(%x, %y, none, %x)", "[1, 2, 3], i8", "[2, 2, 3], i8"), "rank 3");
  says(error("%r = gather_nd(%x, %y)", "[4, 3], f32", "[2, 3], i64"), "at most the rank");
  says(error("%r = gather_nd(%x, %y)", "[4, 3], f32", "[2, n], i64"), "is a constant");
  says(error("%r = scatter_elements(%x, %y, %x)", "[4, 3], f32", "[5, 3], i64"), "differ");
  says(error("%r = scatter_elements(%x, %y, %x) {reduction = \"add\"}", "[4], u8", "[4], i64"),
       "one byte");
  says(error("%r = scatter_elements(%x, %y, %x) {reduction = \"sum\"}", "[4], f32", "[4], i64"),
       "is \"none\"");
  says(error("%s = shape [8]\n%r = resize(%x, %s) {mode = \"area\"}", "[4], f32"), "\"cubic\"");
  says(error("%s = shape [8]\n%r = resize(%x, %s) {mode = \"linear\"}", "[4], i32"), "a float");
  says(error("%s = shape [8, 4]\n%r = resize(%x, %s) {axes = [1, 0]}", "[4, 2], f32"), "in order");
  says(error("%s = shape [8, 4]\n%r = resize(%x, %s) {axes = [0]}", "[4, 2], f32"), "not resized");
  says(error("%s = shape [8]\n%r = resize(%x, %s) {coordinates = \"tf_crop_and_resize\"}",
             "[4], f32"),
       "takes a region");
  says(error("%r = grid_sample(%x, %y)", "[1, 2, 3, 4], f32", "[1, 5, 5, 3], f32"), "coordinates");
  says(error("%r, %h, %c = lstm(%x, %y)", "[n, 2, 1, 20], f32", "[1, 5, 21], f32"), "differ");
  says(error("%r, %h = gru(%x, %y) {wide_states = true}", "[n, 2, 1, 15], f32", "[1, 5, 15], f32"),
       "of gates of f16 or bf16");
  says(error("%r, %h, %c = lstm_integer(%x, %y, %x)", "[n, 2, 1, 20], f32", "[1, 5, 20], f32"),
       "i8 or u8");
  says(error("%r, %h = gru(%x, %y)", "[n, 2, 1, 3072], f32", "[1, 1025, 3075], f32"), "1 to 1024");
  says(error("%r, %h = rnn(%x, %y)", "[n, 2, 3, 5], f32", "[3, 5, 5], f32"), "two directions");
  says(error("%r, %h = rnn(%x, %y) {reverse = true}", "[n, 2, 2, 5], f32", "[2, 5, 5], f32"),
       "the second is reversed");
  says(error("%r, %h = rnn(%x, %y) {activation = \"elu\"}", "[n, 2, 1, 5], f32", "[1, 5, 5], f32"),
       "\"relu\"");
  says(error("%r = gather(%x, %y)", "[4], f32", "[2], u8"), "i32 or i64 is needed");
  says(error("%r = gather_elements(%x, %y)", "[4, 3], f32", "[2, 2], i64"), "beside the axis");
  says(error("%r = one_hot(%x) {depth = 3, axis = 2}", "[4], i32"), "outside of the result's rank");
  says(error("%r = slice(%x) {starts = [1], ends = [2], steps = [0]}", "[4], f32"), "has no 0");
  says(error("%r = slice(%x) {starts = [1], ends = [2, 3]}", "[4], f32"), "one number for each");
  says(error("%r = slice(%x) {starts = [1, 2], ends = [3, 4], axes = [0, 0]}", "[4, 4], f32"),
       "given twice");
  says(error("%r = pad(%x) {before = [4], after = [0], mode = \"reflect\"}", "[4], f32"),
       "is less than the 5");
  says(error("%r = pad(%x) {before = [3], after = [0], mode = \"reflect\"}", "[n], f32"),
       "cannot be shown");
  says(error("%r = pad(%x) {before = [1], after = [0], mode = \"wrap\"}", "[4], f32"), "reflect");
  says(error("%s = shape [3, 5]\n%r = broadcast_to(%x, %s)", "[4], f32"), "differ");
  says(error("%r = range() {dtype = bool, length = 3}", "[4], f32"), "a float or an integer");
  says(error("%r = range()", "[4], f32"), "either a shape");
  says(error("%r = matmul_blocks(%x, %y)", "[2, 32], f32", "[8, 32], f16"), "a block format");
  says(error("%r = matmul_blocks(%x, %y)", "[2, 40], f32", "[8, 40], q4_0"), "multiple of the 32");
  says(error("%r = matmul(%x, %y)", "[2, 32], f32", "[32, 64], q4_0"), "has dtype q4_0");
  says(error("%r = matmul_blocks(%x, %y)", "[2, 288], f32", "[8, 288], q4_k"),
       "multiple of the 256");
  says(error("%r = embedding_blocks(%x, %y)", "[8, 64], f32", "[3], i32"), "a block format");
  says(error("%r = embedding_blocks(%x, %y)", "[8, 40], q4_0", "[3], i32"), "multiple of the 32");
  says(error("%r = embedding_blocks(%x, %y)", "[8, 32], q4_0", "[3], u8"), "i32 or i64 is needed");
  says(error("%r = embedding_blocks(%x, %y) {dtype = i32}", "[8, 32], q4_0", "[3], i32"),
       "floating-point");
  says(error("%r = repack_blocks(%x)", "[8, 256], f16"), "a block format");
  says(error("%r = attention(%x, %y, %y) {window = 4}", "[3, 2, 8, 16], f16", "[3, 5, 4, 16], f16"),
       "goes with 'causal'");
  says(error("%r = attention(%x, %y, %y)", "[3, 2, 8, 16], f16", "[5, 5, 4, 16], f16"), "differ");
  says(error("%i = range() {dtype = i32, length = 2}\n%r = attention(%x, %y, %y, none, none, %i)",
             "[3, 2, 8, 16], f16", "[5, 5, 4, 16], f16"),
       "differ");
  says(error("%r = clip(%x) {min = 2, max = 1}", "[4], f32"), "not above 'max'");
}

TEST_CASE("cache_write takes rows for the sequences of a cache that may be written") {
  const std::string cache = "%c = alloc : tensor<[3, 8, 2, 16], f32>\n",
                    ids = "%i = range() {dtype = i32, length = 3}\n",
                    wide = "%w = range() {dtype = i64, length = 3}\n";
  const std::string x = "[3, 5, 2, 16], f32";
  CHECK(infer(cache + "%r = cache_write(%c, %x, none, %y)", x, "[3], i32").type ==
        "tensor<[3, 8, 2, 16], f32>");
  CHECK(infer(cache + ids + "%r = cache_write(%c, %x, %i, %i, %i)", x).error.empty());
  CHECK(
      infer(cache + ids + "%r = cache_write(%c, %x, %i, %i)", "[3, n, 2, 16], f32").error.empty());
  const auto refused = [&](const std::string &call, const std::string &of, const char *what) {
    const std::string message = infer(cache + ids + wide + call, of).error;
    INFO(message);
    CHECK(message.find(what) != std::string::npos);
  };
  refused("%r = cache_write(%x, %x, none, %i)", x, "cache_write writes %x");
  refused("%r = cache_write(%c, %x, none, none)", x, "operand 4 may not be absent");
  refused("%r = cache_write(%c, %x, none, %i)", "[2, 5, 2, 16], f32", "differ");
  refused("%r = cache_write(%c, %x, %i, %i)", "[3, 5, 1, 16], f32", "heads");
  refused("%r = cache_write(%c, %x, %i, %i)", "[3, 5, 2, 8], f32", "elements of a head");
  refused("%r = cache_write(%c, %x, %i, %i)", "[3, 5, 2, 16], f64", "do not go with f64");
  refused("%r = cache_write(%c, %x, %i, %w)", x, "of one dtype");
  refused("%r = cache_write(%c, %x, %x, %i)", x, "i32 or i64");
  CHECK(infer("%c = alloc : tensor<[p, 8, 2, 16], f32>\n%i = alloc : tensor<[p], i32>\n"
              "%z = alloc : tensor<[p, 1, 2, 16], f32>\n%r = cache_write(%c, %z, none, %i)",
              "[4], f32")
            .error.find("at least one sequence") != std::string::npos);
  CHECK(
      infer("%c = alloc : tensor<[3, 8, 2, 16], f32>\nkill %c\n%r = cache_write(%c, %x, none, %y)",
            x, "[3], i32")
          .error.find("kill") != std::string::npos);
  // Its result is the cache.
  CHECK(infer(cache + "%r = cache_write(%c, %x, none, %y)\nkill %c\n%k = alias %r", x, "[3], i32")
            .error.find("kill") != std::string::npos);
}

TEST_CASE("keys and values may be of a dtype of their own") {
  const std::string call = "%r = attention(%x, %y, %y)", rows = "[3, 2, 8, 32], ";
  for (const char *cache : {"f32", "f16", "bf16", "q8_0"})
    CHECK(infer(call, rows + "f32", std::string("[3, 5, 4, 32], ") + cache).type ==
          "tensor<[3, 2, 8, 32], f32>");
  const auto refused = [&](const std::string &x, const std::string &y, const char *what) {
    const std::string message = infer(call, x, y).error;
    INFO(message);
    CHECK(message.find(what) != std::string::npos);
  };
  refused(rows + "f64", "[3, 5, 4, 32], f32", "do not go with f64");
  refused(rows + "f16", "[3, 5, 4, 32], q4_0", "they are of its dtype, f32, f16, bf16 or q8_0");
  refused("[3, 2, 8, 48], f32", "[3, 5, 4, 48], q8_0", "a multiple of 32");
  CHECK(infer("%k = alloc : tensor<[3, 5, 4, 32], f16>\n%r = attention(%x, %y, %k)", rows + "f32",
              "[3, 5, 4, 32], f32")
            .error.find("of one dtype") != std::string::npos);
}

TEST_CASE("an op's pattern follows from the dimensions that it spreads, not from its dtypes") {
  Module m;
  const TypeId integers = m.types.tensor(DType::i32, {m.exprs.constant(4)});
  const TypeId flags = m.types.tensor(DType::boolean, {m.exprs.constant(4)});
  const TypeId one = m.types.tensor(DType::i32, {m.exprs.constant(1)});
  const TypeId shape = m.types.shape(std::vector{m.exprs.constant(4)});
  const TypeId pair[] = {integers, integers}, spread[] = {one, one}, choice[] = {flags, one, one};
  const TypeId stretched[] = {one, shape};
  CHECK(op_pattern(m, Op::add, pair, integers) == OpPattern::elementwise);
  CHECK(op_pattern(m, Op::add, spread, integers) == OpPattern::broadcast);
  CHECK(op_pattern(m, Op::where, choice, integers) == OpPattern::elementwise);
  CHECK(op_pattern(m, Op::broadcast_to, stretched, integers) == OpPattern::broadcast);
  CHECK(op_pattern(m, Op::reduce_sum, {pair, 1}, integers) == OpPattern::reduction);
  CHECK(op_pattern(m, Op::concat, pair, integers) == OpPattern::injective);
  CHECK(op_pattern(m, Op::cumsum, {pair, 1}, integers) == OpPattern::opaque);
}
