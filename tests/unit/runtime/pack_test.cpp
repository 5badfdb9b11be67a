// runtime: packs are read back as they were written; whatever is changed in one is refused.
#include "fixture.h"

#include "device/pack/pack_open.h"
#include "ir/text/text.h"
#include "library/compile/module_plan.h"
#include "library/report/module_report.h"
#include "library/report/plan_report.h"
#include "plan/bytes/serialize.h"
#include "support/reseal_pack.h"

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

constexpr const char *kModule = R"(cugrt 1
func @main(%x: tensor<[n, 4], f32>) -> (tensor<[n, 4], f32>, tensor<[n, 4], f32>)
    attributes {upper_bounds = {n = 8}} {
  %y = relu(%x)
  %z = exp(%x)
  return %y, %z
}
)";

// Eight bytes of length, the header, one float.
const std::string kWeights = [] {
  std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string file(1, static_cast<char>(header.size()));
  return file + std::string(7, '\0') + header + std::string(4, '\x11');
}();

/// What a pack for sm_87, sm_90 and compute_75 is made of; tests change it before it is written.
struct Made {
  std::string plan;
  PackContents contents;

  Made() {
    ir::Module module = must(ir::parse_and_verify(kModule, "m.cugrt"));
    plan::Plan planned = must(plan_module(module, "m.cugrt", {}, nullptr));
    REQUIRE(planned.kernels.size() == 2);
    plan = plan::to_bytes(planned);
    contents.module_name = "m.cugrt";
    contents.plans = {plan};
    contents.images = {{"relu", true, "cubin 87"},     {"exp", true, "another 87"},
                       {"relu", true, "cubin 90"},     {"exp", true, "another 90"},
                       {"relu", false, "// relu ptx"}, {"exp", false, "// exp ptx"}};
    contents.targets = {{"sm_87", 0, UINT32_MAX, UINT32_MAX, {0, 1}, {0, 3}},
                        {"sm_90", 0, UINT32_MAX, UINT32_MAX, {2, 3}, {1, 2}},
                        {"compute_75", 0, UINT32_MAX, UINT32_MAX, {4, 5}, {0, 0}}};
  }
  Made(const Made &) = delete;
};

Result<Pack> read(const std::string &file) {
  return read_pack(std::make_shared<const std::string>(file), "m.pack");
}

std::string refusal(const std::string &file) {
  Result<Pack> pack = read(file);
  REQUIRE(!pack.ok());
  return pack.take_status().message();
}

/// The device's number that a target is chosen for, and what is chosen; "" for an error.
std::string chosen(const Pack &pack, int device, bool only_ptx = false) {
  Result<uint32_t> target = choose_target(pack, device, only_ptx);
  return target.ok() ? std::string(pack.contents.targets[*target].architecture) : "";
}

} // namespace

TEST_CASE("a pack is read back as it was written, and has one form") {
  Made made;
  made.contents.weights.kind = PackWeights::Kind::inside;
  made.contents.weights.parts = {kWeights};
  std::string file = write_pack(made.contents);
  Pack pack = must(read(file));
  CHECK(pack.contents.module_name == "m.cugrt");
  REQUIRE(pack.plans.size() == 1);
  CHECK(plan::to_bytes(pack.plans[0]) == made.plan);
  REQUIRE(pack.contents.images.size() == 6);
  CHECK(pack.contents.images[3].name == "exp");
  CHECK(pack.contents.images[3].bytes == "another 90");
  CHECK(pack.contents.images[3].cubin);
  CHECK_FALSE(pack.contents.images[4].cubin);
  REQUIRE(pack.contents.targets.size() == 3);
  CHECK(pack.contents.targets[1].architecture == "sm_90");
  CHECK(pack.contents.targets[1].kernel_images == std::vector<uint32_t>{2, 3});
  CHECK(pack.contents.targets[1].transfer_image == UINT32_MAX);
  CHECK(pack.contents.targets[1].control_image == UINT32_MAX);
  CHECK(pack.contents.targets[1].variant_flags == std::vector<uint8_t>{1, 2});
  const HostTensor *weight = pack.weights.find("w");
  REQUIRE(weight);
  CHECK(std::string(weight->data(), weight->size_bytes) == std::string(4, '\x11'));
  CHECK(weight->data() >= pack.file.view.data()); // read in place
  CHECK(weight->data() < pack.file.view.data() + pack.file.view.size());
  CHECK(write_pack(pack.contents) == file);
}

TEST_CASE("weights are written alike in one part and in several") {
  Made made;
  made.contents.weights.kind = PackWeights::Kind::inside;
  made.contents.weights.parts = {kWeights};
  const std::string file = write_pack(made.contents);
  const std::string_view bytes = kWeights;
  made.contents.weights.parts = {bytes.substr(0, 1), "", bytes.substr(1, 40), bytes.substr(41)};
  CHECK(write_pack(made.contents) == file);
}

TEST_CASE("sections lie at multiples of 64") {
  Made made;
  std::string file = write_pack(made.contents);
  Pack pack = must(read(file));
  for (const PackImage &image : pack.contents.images)
    CHECK((image.bytes.data() - pack.file.view.data()) % 64 == 0);
}

TEST_CASE("a change of any byte of a pack is refused") {
  Made made;
  made.contents.weights.kind = PackWeights::Kind::inside;
  made.contents.weights.parts = {kWeights};
  const std::string file = write_pack(made.contents);
  for (size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    if (read(changed).ok())
      FAIL("byte " << i);
  }
}

TEST_CASE("a pack that is cut short or longer is refused") {
  Made made;
  const std::string file = write_pack(made.contents);
  for (size_t size = 0; size < file.size(); ++size)
    if (read(file.substr(0, size)).ok())
      FAIL("first " << size << " bytes");
  CHECK(contains(refusal(file + '\0'), "copy it again"));
}

TEST_CASE("a damaged pack's error names the section and the offset") {
  Made made;
  std::string file = write_pack(made.contents);
  Pack pack = must(read(file));
  auto at = static_cast<size_t>(pack.contents.images[2].bytes.data() - pack.file.view.data());
  file[at] ^= 1;
  // The manifest and the plan come before the images.
  CHECK(contains(refusal(file), "pack m.pack: section 4 (image) at offset " + std::to_string(at) +
                                    ": the digest does not agree"));
}

TEST_CASE("a pack of another version says to make it again") {
  Made made;
  std::string file = write_pack(made.contents);
  file[8] = 2;
  Result<Pack> pack = read(file);
  REQUIRE(!pack.ok());
  CHECK(pack.status().code() == Code::unsupported);
  CHECK(contains(pack.status().message(), "make the pack again"));
}

TEST_CASE("a table of sections that has no room is refused before anything is allocated") {
  Made made;
  std::string file = write_pack(made.contents);
  for (int i = 12; i < 16; ++i)
    file[i] = '\xff';
  reseal_pack(file);
  CHECK(contains(refusal(file), "has no room in the file"));
}

TEST_CASE("with digests that agree, each wrong field is still refused") {
  struct Row {
    const char *what;
    void (*change)(PackContents &);
    const char *message;
  };
  const Row rows[] = {
      {"no target", [](PackContents &c) { c.targets.clear(); }, "there is no target"},
      {"unknown architecture", [](PackContents &c) { c.targets[0].architecture = "sm_1"; },
       "cugrt does not compile for 'sm_1'"},
      {"no architecture", [](PackContents &c) { c.targets[0].architecture = "fast"; },
       "'fast' is no architecture"},
      {"same target twice", [](PackContents &c) { c.targets[1].architecture = "sm_87"; },
       "target sm_87 is there twice"},
      {"plan that is not there", [](PackContents &c) { c.targets[0].plan = 1; },
       "a target's plan is 1, there are 1"},
      {"image that is not there", [](PackContents &c) { c.targets[0].kernel_images[1] = 6; },
       "image 6 is named, there are 6"},
      {"transfer image that is not there", [](PackContents &c) { c.targets[0].transfer_image = 9; },
       "image 9 is named, there are 6"},
      {"too few kernels", [](PackContents &c) { c.targets[0].kernel_images.pop_back(); },
       "a target has 1 kernels, its plan 2"},
      {"control image that is not there", [](PackContents &c) { c.targets[0].control_image = 9; },
       "image 9 is named, there are 6"},
      {"too many variants", [](PackContents &c) { c.targets[0].variant_flags.push_back(0); },
       "a target has 3 variants, its plan 2"},
      {"unknown flags", [](PackContents &c) { c.targets[0].variant_flags[1] = 4; },
       "a variant's flags is 4, there are 4"},
      {"cubin for compute_", [](PackContents &c) { c.targets[2].kernel_images[0] = 0; },
       "image 0 is a cubin, but its target is compute_75"},
      {"NUL in PTX", [](PackContents &c) { c.images[4].bytes = std::string_view("a\0b", 3); },
       "there is a zero byte in PTX"},
      {"NUL in a name", [](PackContents &c) { c.images[4].name = std::string_view("a\0b", 3); },
       "an image's name holds a zero byte"},
      {"plan with a count in more bytes than it takes",
       [](PackContents &c) {
         REQUIRE((c.plans[0][0] & 0xe0) == 0xa0); // a map of fewer than 24 members
         static std::string longer;
         longer = "\xb8" + std::string(1, char(c.plans[0][0] & 0x1f));
         longer += c.plans[0].substr(1);
         c.plans[0] = longer;
       },
       "the plan is not in the binary form"},
      {"broken plan", [](PackContents &c) { c.plans[0] = "not a plan"; }, "plan is malformed"},
      {"no plan", [](PackContents &c) { c.plans.clear(); }, "a target's plan is 0, there are 0"},
      {"weights that are none",
       [](PackContents &c) {
         c.weights.kind = PackWeights::Kind::inside;
         c.weights.parts = {"abc"};
       },
       "shorter than a safetensors header"},
      {"weights elsewhere",
       [](PackContents &c) {
         c.weights.kind = PackWeights::Kind::file;
         c.weights.file_name = "../w.safetensors";
       },
       "is not the name of a file beside the pack"},
      {"a file without a name", [](PackContents &c) { c.weights.kind = PackWeights::Kind::file; },
       "is not the name of a file beside the pack"},
      {"a digest without a file", [](PackContents &c) { c.weights.file_digest[0] = 1; },
       "but no file"},
  };
  for (const Row &row : rows) {
    INFO(row.what);
    Made made;
    row.change(made.contents);
    CHECK(contains(refusal(write_pack(made.contents)), row.message));
  }
}

TEST_CASE("every byte of a pack's header, table and manifest is checked also behind its digest") {
  Made made;
  const std::string file = write_pack(made.contents);
  Pack pack = must(read(file));
  auto end = static_cast<size_t>(pack.contents.plans[0].data() - pack.file.view.data());
  size_t other = 0;
  for (size_t i = 0; i < end; ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    reseal_pack(changed);
    Result<Pack> again = read(changed);
    // A name may be another name; what is accepted still has one form.
    if (again.ok()) {
      ++other;
      CHECK(write_pack(again->contents) == changed);
    }
  }
  CHECK(other > 0);
  CHECK(other < 128 + end / 4);
}

TEST_CASE("machine code of the device's own architecture is chosen, else the newest PTX") {
  Made made;
  made.contents.targets.push_back({"compute_80", 0, UINT32_MAX, UINT32_MAX, {4, 5}, {0, 0}});
  made.contents.targets.push_back({"compute_90a", 0, UINT32_MAX, UINT32_MAX, {4, 5}, {0, 0}});
  std::string file = write_pack(made.contents);
  Pack pack = must(read(file));
  CHECK(chosen(pack, 87) == "sm_87");
  CHECK(chosen(pack, 90) == "sm_90");
  CHECK(chosen(pack, 75) == "compute_75");
  CHECK(chosen(pack, 86) == "compute_80");
  CHECK(chosen(pack, 120) == "compute_80"); // code with suffix a is for its architecture only
  CHECK(chosen(pack, 90, true) == "compute_90a");
  CHECK(chosen(pack, 87, true) == "compute_80");
  Result<uint32_t> none = choose_target(pack, 70, false);
  REQUIRE(!none.ok());
  CHECK(none.status().code() == Code::unsupported);
  CHECK(contains(none.status().message(), "has code for sm_87, sm_90, compute_75, compute_80, "
                                          "compute_90a, of which nothing runs on this device, "
                                          "sm_70"));
}

TEST_CASE("a plan tells how many of its kernels are specialised, and which one takes the rest") {
  // A function for each of 35 sizes, in f32; two of them also in f16.
  std::string text = "cugrt 1\n";
  auto add_function = [&](int size, const std::string &dtype) {
    text += "func @" + dtype + "_" + std::to_string(size) + "(%x: tensor<[2, " +
            std::to_string(size) + "], " + dtype +
            ">) -> (tensor<[2], i64>) {\n  %y = argmax(%x) {axis = -1}\n  return %y\n}\n";
  };
  for (int size = 1; size <= 35; ++size)
    add_function(size, "f32");
  add_function(7, "f16");
  add_function(8, "f16");
  ir::Module module = must(ir::parse_and_verify(text, "m.cugrt"));
  plan::Plan plan = must(plan_module(module, "m.cugrt", {}, nullptr));
  CodeSummary summary = summarize_code(plan);
  CHECK(summary.kernels == 35); // of f32 32 and the general one, of f16 2
  CHECK(summary.codes == 35);
  CHECK(summary.specialized_count() == 34);
  REQUIRE(summary.specialized.size() == 2);
  CHECK(summary.specialized[0].specialized == 32);
  CHECK(summary.specialized[0].general);
  CHECK(summary.specialized[1].specialized == 2);
  CHECK_FALSE(summary.specialized[1].general);
  std::string report = must(plan_report(plan, "m.cugrt", {}, {}));
  CHECK(contains(report, "code\n  kernels 35, codes 35, specialised for their sizes 34, at most 32 "
                         "of one function\n"));
  CHECK(contains(report, ", and 1 for all sizes\n"));
}

TEST_CASE("attention over heads of many widths is a bounded number of kernels") {
  // Widths 1 to 32 are specialised. Those up to 64 share a kernel, as do those up to 96.
  std::string text = "cugrt 1\n";
  for (int width = 1; width <= 70; ++width) {
    const std::string w = std::to_string(width);
    text += "func @f" + w + "(%q: tensor<[n, 1, 2, " + w + "], f32>, %k: tensor<[n, 9, 1, " + w +
            "], f32>) -> (tensor<[n, 1, 2, " + w +
            "], f32>) attributes {upper_bounds = {n = 8}} {\n  %y = attention(%q, %k, %k)\n  "
            "return %y\n}\n";
  }
  ir::Module module = must(ir::parse_and_verify(text, "m.cugrt"));
  plan::Plan plan = must(plan_module(module, "m.cugrt", {}, nullptr));
  CodeSummary summary = summarize_code(plan);
  CHECK(summary.kernels == 34);
  CHECK(summary.specialized_count() == 32);
  REQUIRE(summary.specialized.size() == 1);
  CHECK(summary.specialized[0].specialized == 32);
  CHECK(summary.specialized[0].general == 2);
  CHECK(contains(must(plan_report(plan, "m.cugrt", {}, {})), ", and 2 for all sizes\n"));
}

TEST_CASE("passes are told of the device, else of the architecture, unless options say it") {
  auto told = [](const Device *device, const char *architecture, std::vector<const char *> given) {
    passes::PassContext context;
    for (const char *option : given)
      REQUIRE(context.set_from_text(option).ok());
    REQUIRE(set_target(context, device, architecture).ok());
    return std::pair(context.number("target.multiprocessors"),
                     context.number("target.compute_capability"));
  };
  using Told = std::pair<int64_t, int64_t>;
  // The table's; of PTX only the architecture is known, and of sm_88 no device.
  CHECK(told(nullptr, "sm_87", {}) == Told(8, 87));
  CHECK(told(nullptr, "sm_90a", {}) == Told(114, 90));
  CHECK(told(nullptr, "compute_75", {}) == Told(64, 75));
  CHECK(told(nullptr, "sm_88", {}) == Told(64, 88));
  CHECK(told(nullptr, "", {}) == Told(64, 80));
  CHECK(told(nullptr, "sm_87", {"target.multiprocessors=16"}) == Told(16, 87));
  // The emulated device of that architecture has 16.
  FakeDriver::Options options;
  options.capability = 87;
  TestDevice fake(options);
  const std::shared_ptr<Device> device = fake.open();
  CHECK(told(device.get(), "", {}) == Told(16, 87));
  CHECK(told(device.get(), "compute_80", {}) == Told(16, 80));
  CHECK(told(device.get(), "", {"target.multiprocessors=9", "target.compute_capability=75"}) ==
        Told(9, 75));
  passes::PassContext context;
  CHECK(set_target(context, nullptr, "sm_42").code() == Code::unsupported);
}
