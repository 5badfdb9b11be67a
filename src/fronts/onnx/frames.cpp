// Frames in the place of an image; see import.h. kernels/sampling/frames.cu does the work.
#include "fronts/onnx/importer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cugrt::onnx {

/// Largest side of a frame if neither a run nor --bounds gives one.
constexpr int64_t kMostSide = 8192;

static bool read_numbers(const std::string &text, std::vector<double> &out) {
  out.clear();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    double number = 0;
    auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (error != std::errc() || stop != text.data() + end || !std::isfinite(number))
      return false;
    out.push_back(number);
    begin = end + 1;
  }
  return true;
}

static bool read_size(const std::string &text, Frames &out) {
  int64_t rows = 0, columns = 0;
  const char *begin = text.data(), *end = begin + text.size();
  auto [by, first] = std::from_chars(begin, end, rows);
  if (first != std::errc() || by == end || *by != 'x')
    return false;
  auto [stop, second] = std::from_chars(by + 1, end, columns);
  out.rows = rows, out.columns = columns;
  return second == std::errc() && stop == end && rows > 0 && columns > 0 && rows <= 1 << 16 &&
         columns <= 1 << 16;
}

Result<Frames> parse_frames(const std::string &text) {
  Frames out;
  auto wrong = [&](const std::string &what) {
    return Status::error(Code::invalid_argument,
                         "--preprocess: " + what +
                             "; as in x=hwc,size=720x1280,"
                             "mean=0.485:0.456:0.406,std=0.229:0.224:0.225");
  };
  size_t number = 0;
  for (size_t begin = 0; begin <= text.size(); ++number) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals),
                      value = equals == part.npos ? "" : part.substr(equals + 1);
    std::vector<double> scale;
    bool fine = true;
    if (number == 0) {
      out.nv12 = part == "nv12";
      if (!out.nv12 && part != "hwc")
        return wrong("frames are hwc or nv12, not '" + part + "'");
    } else if (part == "swap") {
      out.swap = true;
    } else if (key == "size") {
      fine = read_size(value, out);
    } else if (key == "scale") {
      fine = read_numbers(value, scale) && scale.size() == 1;
      out.scale = fine ? scale[0] : 1;
    } else if (key == "mean") {
      fine = read_numbers(value, out.mean);
    } else if (key == "std") {
      fine =
          read_numbers(value, out.deviation) &&
          std::none_of(out.deviation.begin(), out.deviation.end(), [](double d) { return d == 0; });
    } else {
      return wrong("there is no '" + part + "'");
    }
    if (!fine)
      return wrong("'" + part + "' cannot be");
  }
  if (out.nv12 && out.rows && (*out.rows % 2 || *out.columns % 2))
    return wrong("NV12 frames have even numbers of rows and columns");
  return out;
}

Status Importer::frames(const ValueInfo &info, const Frames &wanted, const HostTensor *given) {
  const std::string name(info.name);
  auto wrong = [&](const std::string &what) {
    return Status::error(Code::unsupported, "--preprocess: input '" + name + "' " + what);
  };
  const std::optional<DType> dtype = dtype_of(info.data_type);
  if (!info.has_shape || info.dims.size() != 4 || !dtype ||
      (*dtype != DType::f32 && *dtype != DType::f16))
    return wrong("is no image of f32 or f16 with four dimensions");
  auto channels_at = [&](size_t i) {
    const Dimension &dim = info.dims[i];
    return dim.known && (dim.value == 1 || dim.value == 3 || dim.value == 4);
  };
  const bool last = !channels_at(1) && channels_at(3);
  if (!last && !channels_at(1))
    return wrong("has no axis of 1, 3 or 4 channels");
  const auto channels = static_cast<size_t>(info.dims[last ? 3 : 1].value);
  if (wanted.nv12 && channels != 3)
    return wrong("takes " + std::to_string(channels) + " channels, NV12 frames have 3");
  for (const auto *list : {&wanted.mean, &wanted.deviation})
    if (list->size() != 1 && list->size() != channels)
      return wrong("has " + std::to_string(channels) + " channels, and " +
                   std::to_string(list->size()) + " numbers are given for them");

  const size_t row_axis = last ? 1 : 2, column_axis = row_axis + 1;
  CUGRT_ASSIGN(const E count, dimension(info, 0, given));
  // Frames of a model's own size have its dimensions; others are resized to its numbers.
  const auto y_rows = number_of(info, row_axis), y_columns = number_of(info, column_axis);
  const bool resized = y_rows && y_columns;
  if (!resized && (wanted.nv12 || wanted.rows))
    return wrong("takes images of any size; which, --dim must say, as in --dim height=480");
  E rows, columns, stored_rows;
  if (wanted.rows) {
    rows = constant(*wanted.rows), columns = constant(*wanted.columns);
    stored_rows = constant(wanted.nv12 ? *wanted.rows / 2 * 3 : *wanted.rows);
  } else if (resized) {
    ValueInfo frame;
    frame.name = info.name;
    frame.dims.resize(3);
    const std::string row_name = name + (wanted.nv12 ? "_lines" : "_rows"),
                      column_name = name + "_columns";
    frame.dims[1].name = row_name, frame.dims[2].name = column_name;
    for (auto [axis, to] : {std::pair{size_t(1), &stored_rows}, std::pair{size_t(2), &columns}}) {
      CUGRT_ASSIGN(*to, dimension(frame, axis, given));
      std::vector<ir::SymbolId> symbols;
      exprs().collect_symbols(*to, symbols);
      for (ir::SymbolId s : symbols) // an input needs no storage
        if (ir::Symbol &symbol = builder_.function().symbols[s.index];
            !given && !options_.bounds.count(symbol.name))
          symbol.bounds.upper = kMostSide;
    }
    rows = wanted.nv12 ? exprs().floordiv(exprs().mul(constant(2), stored_rows), constant(3))
                       : stored_rows;
  } else {
    CUGRT_ASSIGN(rows, dimension(info, row_axis, nullptr));
    CUGRT_ASSIGN(columns, dimension(info, column_axis, nullptr));
    stored_rows = rows;
  }

  Dims x_dims = {count, stored_rows, columns};
  if (!wanted.nv12)
    x_dims.push_back(constant(int64_t(channels)));
  const V x = builder_.param(name, result_.module.types.tensor(DType::u8, x_dims));
  result_.inputs.push_back({name, builder_.function().value(x).name, InputKind::tensor});
  Dims y_dims = {count, resized ? constant(*y_rows) : rows,
                 resized ? constant(*y_columns) : columns};
  y_dims.insert(y_dims.begin() + (last ? 3 : 1), constant(int64_t(channels)));
  KernelCall call;
  call.source = "frames.cu", call.entry = "frames";
  std::string factors, shifts;
  for (size_t c = 0; c < channels; ++c) {
    const double deviation = wanted.deviation[wanted.deviation.size() > 1 ? c : 0],
                 mean = wanted.mean[wanted.mean.size() > 1 ? c : 0];
    auto add = [&](std::string &list, double number) {
      list += (c ? "," : "") + float_text(number);
    };
    add(factors, wanted.scale / deviation);
    add(shifts, -mean / deviation);
  }
  call.options = {"-DCHANNELS=" + std::to_string(channels), "-DFACTORS=" + factors,
                  "-DSHIFTS=" + shifts};
  for (auto [is, option] : {std::pair{wanted.nv12, "-DNV12"}, std::pair{wanted.swap, "-DSWAP"},
                            std::pair{last, "-DLAST"}, std::pair{*dtype == DType::f16, "-DHALF"}})
    if (is)
      call.options.push_back(option);
  call.inputs = {x};
  call.outputs = {tensor_type(*dtype, y_dims)};
  call.sizes = {rows, columns, y_dims[row_axis], y_dims[column_axis], count};
  call.grid[0] = 3, call.each[0] = call.block[0] = 32;
  call.grid[1] = 2, call.each[1] = call.block[1] = 8;
  call.grid[2] = 4;
  hint = name + "_image";
  find(info.name)->device = launch(call)[0];
  return {};
}

} // namespace cugrt::onnx
