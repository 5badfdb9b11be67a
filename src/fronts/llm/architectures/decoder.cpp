// Writes a decoder's module; see decoder.h.
//
//   x = embedding(tokens)
//   each layer:  q, k, v = products of norm(x), with positions turned in
//                caches <- k, v
//                x += product of attention(q, caches, lengths)
//                h = norm(x);  x += product of silu(gate of h) * (up of h)
//   logits = product of norm(last row of x)
#include "fronts/llm/architectures/decoder.h"
#include "base/check.h"
#include "fronts/llm/architectures/graph.h"
#include "fronts/llm/architectures/lora_layout.h"
#include "ir/module/names.h"
#include "ir/text/text.h"

#include <algorithm>

namespace cugrt::llm {

namespace {

using ir::Op;
using ir::Operand;
using ir::ValueId;

struct Architecture {
  std::string_view name;
  Result<Decoder> (*read)(const gguf::File &);
};
constexpr Architecture kArchitectures[] = {
    {"llama", read_llama}, {"qwen2", read_qwen2}, {"qwen3", read_qwen3}, {"gemma3", read_gemma3}};

/// Tables of layers that see all positions, and of those that see a window.
struct LayerTables {
  RotaryTables whole, local;
};

class FunctionWriter {
public:
  FunctionWriter(ir::Module &module, WeightList &weights, const Decoder &decoder,
                 const DecoderOptions &options, const LayerTables &tables, int64_t vocabulary,
                 bool is_prefill, const LoraLayout *lora)
      : d_(decoder), options_(options), tables_(tables), vocabulary_(vocabulary),
        is_prefill_(is_prefill), lora_(lora),
        places_(is_prefill ? 1 : options.places * options.rows),
        g_(module, weights, std::string(is_prefill ? "prefill" : "decode") + (lora ? "_lora" : ""),
           options.dtype) {}

  /// `other` has the same weights: a loop has their forms made before it begins.
  Status write(const FunctionWriter *other = nullptr);

private:
  ir::ExprId c(int64_t value) { return g_.constant(value); }
  Operand size(int64_t value) { return Operand::of(c(value)); }
  void inputs();
  void positions();
  bool has_drafts() const { return options_.rows > 1; }
  void drafts();
  ValueId step();
  void sample(ValueId logits, ValueId told);
  void loop(const FunctionWriter &other);
  ValueId product(ValueId x, const std::string &name, int64_t out, int64_t in,
                  bool has_bias = false);
  ValueId adapted(ValueId y, ValueId x, const std::string &name);
  ValueId low_rank(ValueId x, size_t group, bool is_looked_up);
  ValueId embedding_factor();
  ValueId embedding();
  ValueId looked_up();
  ValueId attention(ValueId x, int64_t layer);
  ValueId turned(ValueId x, int64_t heads, const std::string &norm, const RotaryTables &tables);
  ValueId added(ValueId x, ValueId more, const std::string &norm);
  /// Whether a layer sees all positions, as far as the model says.
  bool is_whole(int64_t layer) const {
    return d_.whole_every > 0 && (layer + 1) % d_.whole_every == 0;
  }
  ValueId feed_forward(ValueId x, int64_t layer);
  ValueId last_row(ValueId x);

  const Decoder &d_;
  const DecoderOptions &options_;
  const LayerTables &tables_;
  const int64_t vocabulary_;
  const bool is_prefill_;
  const LoraLayout *const lora_; // of the adapter that products have added; null: of none
  const int64_t places_;         // that attention sees: of a decode, rows of one or more each
  GraphBuilder g_;
  ir::ExprId rows_;                                 // of x: tokens of one sequence, or one of each
  ValueId ids_;                                     // of the embedded tokens, [rows]
  ValueId tokens_, next_positions_, state_lengths_; // the state, [places]
  ValueId samplers_, counts_;                       // [places, ..]
  ValueId texts_;                                   // with drafts: [places, context]
  ValueId limits_, ends_, steps_;                   // of a decode: what ends it
  ValueId heard_, ring_, published_;                // pinned: what the host says, and hears
  ValueId goes_on_;                                 // [1]; of a decode
  ValueId embedding_factor_;                        // where embeddings are scaled
  ValueId request_, place_, last_;                  // of a prefill
  ValueId row_positions_;                           // [rows]
  ValueId lengths_;                                 // [places_], with this step's rows
  /// [places_]: the first row's position, and the length without rows that are not real.
  ValueId first_positions_, taken_lengths_;
  std::vector<ValueId> caches_;         // keys and values of each layer
  ValueId adapter_;                     // its memory, [bytes]
  std::map<size_t, ValueId> low_ranks_; // A x of a group, scaled
};

void FunctionWriter::inputs() {
  using ir::Access;
  rows_ = c(places_); // of a decode
  if (is_prefill_) {
    ir::Symbol symbol;
    symbol.name = "n";
    symbol.bounds = {1, options_.chunk};
    rows_ = g_.exprs().symbol(g_.builder().symbol(std::move(symbol)));
    ids_ = g_.input("ids", ir::DType::i32, {rows_}, Access::in);
    request_ = g_.input("request", ir::DType::i32, {c(4)}, Access::in);
  }
  const ir::ExprId places = c(options_.places);
  tokens_ = g_.input("tokens", ir::DType::i32, {places}, Access::inout);
  next_positions_ = g_.input("positions", ir::DType::i32, {places}, Access::inout);
  state_lengths_ = g_.input("lengths", ir::DType::i32, {places}, Access::inout);
  samplers_ = g_.input("samplers", ir::DType::i32, {places, c(8)}, Access::in);
  counts_ = g_.input("counts", ir::DType::i32, {places, c(vocabulary_)}, Access::inout);
  if (has_drafts())
    texts_ = g_.input("texts", ir::DType::i32, {places, c(options_.context)}, Access::inout);
  for (int64_t layer = 0; layer < d_.layers; ++layer)
    for (const char *name : {"keys.", "values."})
      caches_.push_back(g_.input(name + std::to_string(layer), options_.cache,
                                 {places, c(options_.context), c(d_.kv_heads), c(d_.head_width)},
                                 Access::inout));
  const auto adapter = [&] { // last of all
    if (lora_)
      adapter_ =
          g_.input("adapter", ir::DType::u8, {c(static_cast<int64_t>(lora_->bytes))}, Access::in);
  };
  if (is_prefill_)
    return adapter();
  limits_ = g_.input("limits", ir::DType::i32, {places}, Access::in);
  ends_ = g_.input("ends", ir::DType::i32, {places, c((vocabulary_ + 31) / 32)}, Access::in);
  steps_ = g_.input("steps", ir::DType::i32, {c(kStepWords)}, Access::inout);
  heard_ = g_.input("heard", ir::DType::i32, {c(kHostWords + options_.places)}, Access::in);
  ring_ = g_.input("ring", ir::DType::i32, {c(options_.ring), rows_}, Access::inout);
  published_ = g_.input("published", ir::DType::i32, {c(1)}, Access::inout);
  adapter();
}

// Row i of a prefill stands at the request's position + i.
void FunctionWriter::positions() {
  if (!is_prefill_) {
    ids_ = tokens_;
    row_positions_ = first_positions_ = next_positions_;
    lengths_ = taken_lengths_ = state_lengths_;
    return;
  }
  const auto made = [&](ir::ExprId size, std::string_view hint) {
    return g_.alloc(ir::DType::i32, {size}, hint);
  };
  row_positions_ = made(rows_, "row_positions");
  place_ = made(c(1), "place");
  lengths_ = made(c(1), "sequence_length");
  taken_lengths_ = made(c(1), "own_length");
  first_positions_ = g_.op(Op::slice, {request_},
                           {{"starts", std::vector<int64_t>{1}}, {"ends", std::vector<int64_t>{2}}},
                           "first_position");
  last_ = made(c(1), "last");
  g_.launch("prompt_rows", {Operand::of(request_), Operand::of(ids_), Operand::of(counts_),
                            Operand::of(row_positions_), Operand::of(place_), Operand::of(lengths_),
                            Operand::of(taken_lengths_), Operand::of(last_), Operand::of(rows_),
                            size(vocabulary_)});
  if (has_drafts())
    g_.launch("prompt_text", {Operand::of(request_), Operand::of(ids_), Operand::of(texts_),
                              Operand::of(rows_), size(options_.context)});
}

// The rows of a decode: each is as a place of its own, whose caches are those of its text's place.
void FunctionWriter::drafts() {
  const auto made = [&](std::string_view hint) { return g_.alloc(ir::DType::i32, {rows_}, hint); };
  ids_ = made("drafted");
  row_positions_ = first_positions_ = made("row_positions");
  place_ = made("row_places");
  lengths_ = taken_lengths_ = made("row_lengths");
  g_.launch("draft_rows",
            {Operand::of(tokens_), Operand::of(next_positions_), Operand::of(state_lengths_),
             Operand::of(limits_), Operand::of(texts_), Operand::of(ids_),
             Operand::of(row_positions_), Operand::of(place_), Operand::of(lengths_),
             size(options_.places), size(options_.rows), size(options_.context)});
}

ValueId FunctionWriter::product(ValueId x, const std::string &name, int64_t out, int64_t in,
                                bool has_bias) {
  return adapted(g_.product(x, name, out, in, has_bias), x, name);
}

// y plus the adapter's part of the product of x with that name.
ValueId FunctionWriter::adapted(ValueId y, ValueId x, const std::string &name) {
  const LoraSite *site = lora_ ? lora_->find(name) : nullptr;
  if (!site)
    return y;
  const ValueId t = low_rank(x, site->group, site->target == LoraTarget::embedding);
  const ValueId b = g_.view("lora_b", adapter_, site->b_at, options_.dtype,
                            {c(site->out), c(lora_->groups[site->group].columns)});
  return g_.op(Op::add, {y, g_.op(Op::matmul, {t, b}, {{"transpose_b", true}})});
}

// The scale times A x, or times the rows of A that x, tokens, choose: [rows, columns of the group].
ValueId FunctionWriter::low_rank(ValueId x, size_t group, bool is_looked_up) {
  ValueId &t = low_ranks_[group];
  if (t.valid())
    return t;
  const LoraGroup &known = lora_->groups[group];
  const std::vector<ir::ExprId> dims = is_looked_up ? std::vector{c(known.in), c(known.columns)}
                                                    : std::vector{c(known.columns), c(known.in)};
  const ValueId a = g_.view("lora_a", adapter_, known.a_at, options_.dtype, dims);
  t = is_looked_up ? g_.op(Op::embedding, {a, x})
                   : g_.op(Op::matmul, {x, a}, {{"transpose_b", true}});
  const ValueId scale = g_.view("lora_scale", adapter_, 0, ir::DType::f32, {c(1)});
  t = g_.cast(g_.op(Op::mul, {g_.cast(t, ir::DType::f32), scale}), options_.dtype);
  return t;
}

ValueId FunctionWriter::embedding_factor() {
  const auto scale = static_cast<float>(d_.embedding_scale);
  const ValueId factor =
      g_.made_weight({"token_embd.scale", ir::DType::f32, {1}, {}, [scale] {
                        return std::string(reinterpret_cast<const char *>(&scale), sizeof scale);
                      }});
  return g_.cast(factor, options_.dtype);
}

ValueId FunctionWriter::embedding() {
  const ValueId x = looked_up();
  return embedding_factor_.valid() ? g_.op(Op::mul, {x, embedding_factor_}) : x;
}

ValueId FunctionWriter::looked_up() {
  const ValueId table = g_.weight("token_embd.weight", {vocabulary_, d_.width});
  const bool is_blocks = ir::info(g_.dtype_of(table)).kind == ir::DTypeKind::block;
  const ValueId x = is_blocks ? g_.op(Op::embedding_blocks, {table, ids_},
                                      {{"dtype", ir::DTypeLiteral(options_.dtype)}})
                              : g_.cast(g_.op(Op::embedding, {table, ids_}), options_.dtype);
  return adapted(x, ids_, "token_embd");
}

// Heads, normalised where the architecture says so, turned by their positions in f32.
ValueId FunctionWriter::turned(ValueId x, int64_t heads, const std::string &norm,
                               const RotaryTables &tables) {
  x = g_.reshape(x, {rows_, c(heads), c(d_.head_width)});
  if (d_.has_head_norms)
    x = g_.norm(x, norm + ".weight", d_.head_width, d_.epsilon);
  x = g_.op(Op::rotary,
            {g_.cast(x, ir::DType::f32), row_positions_, g_.made_weight(tables.cosines),
             g_.made_weight(tables.sines)},
            {{"dims", d_.turned}, {"interleaved", d_.rope_interleaved}});
  return g_.cast(x, options_.dtype);
}

ValueId FunctionWriter::attention(ValueId x, int64_t layer) {
  const std::string name = "blk." + std::to_string(layer) + ".";
  const int64_t q_width = d_.heads * d_.head_width, kv_width = d_.kv_heads * d_.head_width;
  const ValueId h = g_.norm(x, name + "attn_norm.weight", d_.width, d_.epsilon);
  ValueId q = product(h, name + "attn_q", q_width, d_.width, d_.has_bias);
  ValueId k = product(h, name + "attn_k", kv_width, d_.width, d_.has_bias);
  const ValueId v = product(h, name + "attn_v", kv_width, d_.width, d_.has_bias);
  const RotaryTables &tables = is_whole(layer) ? tables_.whole : tables_.local;
  q = turned(q, d_.heads, name + "attn_q_norm", tables);
  k = turned(k, d_.kv_heads, name + "attn_k_norm", tables);

  const auto at = static_cast<size_t>(2 * layer);
  const ir::ExprId each = is_prefill_ ? rows_ : c(1);
  const auto written = [&](ValueId cache, ValueId x) {
    x = g_.reshape(x, {c(places_), each, c(d_.kv_heads), c(d_.head_width)});
    return g_.op(Op::cache_write, {cache, x, place_, first_positions_, taken_lengths_});
  };
  const ValueId keys = written(caches_[at], k), values = written(caches_[at + 1], v);
  q = g_.reshape(q, {c(places_), each, c(d_.heads), c(d_.head_width)});
  const ValueId seen = g_.op(Op::attention, {q, keys, values, lengths_, ValueId(), place_},
                             {{"causal", true},
                              {"window", is_whole(layer) ? int64_t(0) : d_.window},
                              {"scale", d_.attention_scale}});
  const ValueId out =
      product(g_.reshape(seen, {rows_, c(q_width)}), name + "attn_output", d_.width, q_width);
  return added(x, out, name + "post_attention_norm.weight");
}

ValueId FunctionWriter::added(ValueId x, ValueId more, const std::string &norm) {
  return g_.op(Op::add, {x, d_.has_post_norms ? g_.norm(more, norm, d_.width, d_.epsilon) : more});
}

ValueId FunctionWriter::feed_forward(ValueId x, int64_t layer) {
  const std::string name = "blk." + std::to_string(layer) + ".";
  const ValueId h = g_.norm(x, name + "ffn_norm.weight", d_.width, d_.epsilon);
  const ValueId before = product(h, name + "ffn_gate", d_.inner, d_.width);
  const ValueId gate = d_.activation == Activation::gelu
                           ? g_.op(Op::gelu, {before}, {{"approximate", std::string("tanh")}})
                           : g_.op(Op::silu, {before});
  const ValueId up = product(h, name + "ffn_up", d_.inner, d_.width);
  const ValueId down = product(g_.op(Op::mul, {gate, up}), name + "ffn_down", d_.width, d_.inner);
  return added(x, down, name + "post_ffw_norm.weight");
}

ValueId FunctionWriter::last_row(ValueId x) {
  if (!is_prefill_)
    return x;
  return g_.op(Op::gather, {x, last_}, {{"axis", int64_t(0)}});
}

// Takes tokens in, up to the state that the next step begins with; returns the logits.
ValueId FunctionWriter::step() {
  ValueId told;
  if (!is_prefill_) { // comes from the host while the step is computed
    const int64_t count = kHostWords + options_.places;
    told = g_.alloc(ir::DType::i32, {c(count)}, "told");
    g_.launch("decode_hear", {Operand::of(heard_), Operand::of(told), size(count)});
    if (has_drafts())
      drafts();
  }
  ValueId x = embedding();
  for (int64_t layer = 0; layer < d_.layers; ++layer)
    x = feed_forward(attention(x, layer), layer);
  if (!options_.all_logits)
    x = last_row(x);
  x = g_.norm(x, "output_norm.weight", d_.width, d_.epsilon);
  const bool is_tied = !g_.has_tensor("output.weight");
  const ValueId head = g_.product(x, is_tied ? "token_embd" : "output", vocabulary_, d_.width);
  const ValueId logits = g_.cast(adapted(head, x, "output"), ir::DType::f32);
  sample(options_.all_logits ? last_row(logits) : logits, told);
  return logits;
}

void FunctionWriter::sample(ValueId logits, ValueId told) {
  std::vector<Operand> sampled;
  const auto add = [&](std::initializer_list<ValueId> values) {
    for (const ValueId value : values)
      sampled.push_back(Operand::of(value));
  };
  const bool verifies = !is_prefill_ && has_drafts();
  if (is_prefill_)
    add({request_});
  add({logits, samplers_, counts_, tokens_, next_positions_, state_lengths_});
  if (!is_prefill_)
    add({limits_, ends_, told, steps_, ring_, published_, goes_on_});
  if (verifies)
    add({ids_, lengths_, texts_, g_.alloc(ir::DType::i32, {rows_}, "chosen")});
  sampled.push_back(size(options_.places));
  sampled.push_back(size(vocabulary_));
  if (!is_prefill_)
    sampled.push_back(size(options_.ring));
  if (verifies) {
    sampled.push_back(size(options_.rows));
    sampled.push_back(size(options_.context));
  }
  g_.launch(is_prefill_ ? "sample_prompt"
            : verifies  ? "verify_step"
                        : "sample_step",
            std::move(sampled));
}

// Steps, one after the other, as long as sample_step says so.
void FunctionWriter::loop(const FunctionWriter &other) {
  g_.launch("decode_begin", {Operand::of(goes_on_)});
  std::vector<ValueId> seen = {goes_on_};
  for (const auto &[form, value] : other.g_.forms())
    seen.push_back(g_.form(form));
  if (embedding_factor_.valid())
    seen.push_back(embedding_factor_);

  ir::FunctionBuilder &builder = g_.builder();
  ir::Binding loop{};
  loop.kind = ir::BindingKind::while_;
  loop.blocks = {builder.begin_block(), 2};
  const Operand condition = Operand::of(goes_on_);
  builder.end_block(std::span(&condition, 1));
  builder.begin_block();
  step();
  builder.end_block({});

  for (const ir::Parameter &param : builder.function().params)
    seen.push_back(param.value);
  std::ranges::sort(seen, {}, &ValueId::index);
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  std::vector<Operand> captured;
  for (const ValueId value : seen)
    captured.push_back(Operand::of(value));
  builder.bind(loop, captured, {}, {}, {}, {});
}

Status FunctionWriter::write(const FunctionWriter *other) {
  inputs();
  positions();
  if (d_.embedding_scale != 1)
    embedding_factor_ = embedding_factor();
  if (!is_prefill_)
    goes_on_ = g_.alloc(ir::DType::i32, {c(1)}, "goes_on");
  if (!other || !options_.device_loop)
    return g_.finish({step()});
  loop(*other);
  return g_.finish({});
}

} // namespace

Result<Decoder> read_decoder(const gguf::File &file) {
  CUGRT_ASSIGN(const std::string_view name, file.choice("general.architecture"));
  for (const Architecture &architecture : kArchitectures)
    if (architecture.name == name)
      return architecture.read(file);
  return Status::error(Code::unsupported, "'" + file.name() + "': architecture '" +
                                              std::string(name) + "' is not known; known are " +
                                              ir::joined(kArchitectures, &Architecture::name));
}

uint64_t cache_row_bytes(const Decoder &decoder, ir::DType cache) {
  const ir::DTypeInfo &row = ir::info(cache);
  return uint64_t(decoder.kv_heads) *
         (uint64_t(decoder.head_width) / row.elements_per_block * row.bytes_per_block);
}

Result<int64_t> vocabulary_of(const gguf::File &file) {
  const gguf::Tensor *table = file.find_tensor("token_embd.weight");
  if (!table || table->dims.size() != 2 || table->dims[0] < 1 || table->dims[0] > INT32_MAX)
    return Status::error(Code::parse_error,
                         "'" + file.name() +
                             "' has no tensor 'token_embd.weight' of two dimensions");
  return table->dims[0];
}

Result<DecoderModule> build_decoder(const gguf::File &file, const Decoder &decoder,
                                    const DecoderOptions &options) {
  if (decoder.head_width % ir::info(options.cache).elements_per_block != 0)
    return Status::error(Code::unsupported,
                         "'" + file.name() + "': caches in " +
                             std::string(ir::info(options.cache).name) +
                             " take heads of a multiple of 32 elements; these have " +
                             std::to_string(decoder.head_width));
  DecoderModule built;
  CUGRT_ASSIGN(built.vocabulary, vocabulary_of(file));
  WeightList weights(file);
  const gguf::Tensor *divisors = file.find_tensor("rope_freqs.weight");
  if (divisors) { // read here, used nowhere else
    CUGRT_ASSIGN(const Weight *found, weights.tensor("rope_freqs.weight", {decoder.turned / 2}));
    if (found->dtype != ir::DType::f32)
      return Status::error(Code::unsupported,
                           "'" + file.name() + "': tensor 'rope_freqs.weight' is not f32");
  }
  LayerTables tables;
  tables.whole = rotary_tables(decoder.rope, decoder.turned, options.context, divisors, "rope");
  tables.local = decoder.whole_every > 0 ? rotary_tables(decoder.local_rope, decoder.turned,
                                                         options.context, nullptr, "rope.local")
                                         : tables.whole;
  Diagnostics diagnostics;
  const std::string kernels =
      options.rows > 1 ? std::string(kStateKernels) + kDraftKernels : kStateKernels;
  ir::Module module = ir::parse(kernels, diagnostics);
  CUGRT_CHECK(diagnostics.empty());
  const auto write_pair = [&](const LoraLayout *lora) -> Status {
    FunctionWriter prefill(module, weights, decoder, options, tables, built.vocabulary, true, lora);
    CUGRT_TRY(prefill.write());
    FunctionWriter decode(module, weights, decoder, options, tables, built.vocabulary, false, lora);
    return decode.write(&prefill);
  };
  CUGRT_TRY(write_pair(nullptr));
  if (options.lora)
    CUGRT_TRY(write_pair(options.lora.get()));
  CUGRT_TRY(weights.check_all_used());
  built.module = std::move(module);
  built.weights = weights.take();
  built.lora = options.lora;
  if (divisors)
    std::erase_if(built.weights, [](const Weight &w) { return w.name == "rope_freqs.weight"; });
  built.cache_bytes_per_place = uint64_t(options.context) * cache_row_bytes(decoder, options.cache);
  return built;
}

} // namespace cugrt::llm
