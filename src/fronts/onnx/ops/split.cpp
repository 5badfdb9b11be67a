// Split: parts of a tensor along an axis.
#include "fronts/onnx/call.h"

namespace cugrt::onnx {

namespace {

/// Begin and length of a part along the axis.
struct Part {
  E at, size;
};

/// The parts of a Split without a list of their sizes: equal ones, which the dimension has to have.
std::vector<E> even_sections(Call &c, E whole) {
  const auto parts = static_cast<int64_t>(c.node.outputs.size());
  const E each = c.w.exprs().floordiv(whole, c.constant(parts));
  if (c.known(whole) && *c.known(whole) % parts)
    c.w.fail(Code::parse_error, "a dimension of " + std::to_string(*c.known(whole)) + " has no " +
                                    std::to_string(parts) + " equal parts");
  return std::vector<E>(size_t(parts), each);
}

/// With num_outputs (opset 18): each part is the quotient rounded up, and the last ones are the
/// rest. Each ends within the dimension, whatever that is.
std::vector<Part> uneven_parts(Call &c, E whole) {
  const auto parts = static_cast<int64_t>(c.node.outputs.size());
  ir::ExprPool &exprs = c.w.exprs();
  const E each = exprs.ceildiv(whole, c.constant(parts)), zero = c.constant(0);
  if (parts == 2) { // the same as below, of fewer terms
    const E less = exprs.floordiv(whole, c.constant(2)), more = exprs.sub(whole, less);
    return {{zero, more}, {more, less}};
  }
  std::vector<Part> out = {{zero, exprs.min(each, whole)}};
  for (int64_t i = 1; i < parts; ++i) {
    const E left = exprs.max(exprs.sub(whole, exprs.mul(each, c.constant(i))), zero);
    out.push_back({exprs.sub(whole, left), exprs.min(each, left)});
  }
  return out;
}

void split(Call &c) {
  V x = c.value(0);
  const size_t axis = c.axis(c.integer("axis", 0), c.rank(x)), parts = c.node.outputs.size();
  c.expect("num_outputs", int64_t(parts));
  if (parts == 0)
    return;
  auto give = [&](size_t i, E at, E size) {
    if (c.wants(i))
      c.result(parts == 1 ? x : c.slice(x, axis, at, size), i);
  };
  std::vector<E> sections;
  const bool given = c.has(1) || c.attribute("split");
  if (c.has(1))
    sections = c.exprs(1);
  else
    for (int64_t size : c.integers("split", {}))
      sections.push_back(c.constant(size));
  Dims wanted = c.dims(x);
  if (!given && c.attribute("num_outputs")) {
    const std::vector<Part> uneven = uneven_parts(c, wanted[axis]);
    for (size_t i = 0; i < parts; ++i)
      give(i, uneven[i].at, uneven[i].size);
    return;
  }
  if (!given)
    sections = even_sections(c, wanted[axis]);
  if (sections.size() != parts)
    return c.w.fail(Code::parse_error, "there are " + std::to_string(sections.size()) +
                                           " sizes of parts for " + std::to_string(parts) +
                                           " outputs");
  E all = c.constant(0);
  for (E size : sections) {
    if (c.w.range(size).upper < 0)
      return c.w.fail(Code::parse_error, "the size of a part is negative");
    all = c.w.exprs().add(all, size);
  }
  if (const auto sum = c.known(all), whole = c.known(wanted[axis]); sum && whole && *sum != *whole)
    return c.w.fail(Code::parse_error, "the sizes of the parts come to " + std::to_string(*sum) +
                                           ", and the dimension is " + std::to_string(*whole));
  // Sizes that are the host's, and a symbol: the run sees whether they are one another's.
  wanted[axis] = all;
  V matched = c.w.match(x, wanted);
  // Parts that lie together are parts of something whose size is known to be theirs: of a copy.
  x = matched != x && c.known(c.product(wanted.first(axis))) == 1
          ? c.gather(matched, c.counting(all), axis)
          : matched;
  E at = c.constant(0);
  for (size_t i = 0; i < parts; ++i) {
    give(i, at, sections[i]);
    at = c.w.exprs().add(at, sections[i]);
  }
}

} // namespace

void add_splits(HandlerTable &table) { table["Split"] = split; }

} // namespace cugrt::onnx
