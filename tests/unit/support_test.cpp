// support: results, checked arithmetic, diagnostics, digests, files.
#include "support/catch.h"

#include "support/checked_math.h"
#include "support/diagnostics.h"
#include "support/digest.h"
#include "support/file.h"
#include "support/status.h"
#include "support/temporary_folder.h"

using namespace cugrt;

TEST_CASE("a status carries code, message, location and CUDA error") {
  Status status = Status::error(Code::driver_error, "cannot launch 'relu'")
                      .at("m.cugrt:3:1")
                      .with_cuda_error("CUDA_ERROR_INVALID_VALUE")
                      .in("function 'main'");
  REQUIRE_FALSE(status.ok());
  CHECK(status.to_string() == "m.cugrt:3:1: driver error: function 'main': cannot launch 'relu' "
                              "(CUDA_ERROR_INVALID_VALUE)");
  CHECK(Status().to_string() == "ok");
}

TEST_CASE("the innermost location of a status wins") {
  CHECK(Status::error(Code::io_error, "x").at("inner").at("outer").location() == "inner");
}

TEST_CASE("floor and ceiling division and modulo follow their definitions for every sign") {
  // a = b * floordiv + mod, 0 <= |mod| < |b|, mod has the sign of b; ceildiv = -floordiv(-a, b).
  for (int64_t a = -7; a <= 7; ++a)
    for (int64_t b : {-3, -2, -1, 1, 2, 3}) {
      int64_t q = *checked_floordiv(a, b), m = *checked_mod(a, b);
      CHECK(b * q + m == a);
      CHECK((m == 0 || (m < 0) == (b < 0)));
      CHECK(std::abs(m) < std::abs(b));
      CHECK(*checked_ceildiv(a, b) == -*checked_floordiv(-a, b));
    }
}

TEST_CASE("checked arithmetic refuses what overflows or divides by zero") {
  CHECK_FALSE(checked_add(INT64_MAX, 1));
  CHECK_FALSE(checked_sub(INT64_MIN, 1));
  CHECK_FALSE(checked_mul(INT64_MAX, 2));
  CHECK_FALSE(checked_floordiv(1, 0));
  CHECK_FALSE(checked_ceildiv(INT64_MIN, -1));
  CHECK_FALSE(checked_mod(1, 0));
  CHECK_FALSE(checked_align(INT64_MAX, 256));
  CHECK(*checked_align(257, 256) == 512);
  CHECK(*checked_align(0, 256) == 0);
}

TEST_CASE("diagnostics show the line with a caret under the column") {
  Diagnostics diagnostics;
  diagnostics.error({2, 3}, "unknown name 'b'");
  CHECK(diagnostics.render("m.cugrt", "first\na b c\n") ==
        "m.cugrt:2:3: error: unknown name 'b'\n  a b c\n    ^\n");
}

TEST_CASE("diagnostics of a hostile file are bounded") {
  Diagnostics diagnostics;
  for (int i = 0; i < 100000; ++i)
    diagnostics.error({1, 1}, "x");
  CHECK(diagnostics.count() == 100000);
  CHECK(diagnostics.list().size() == Diagnostics::kLimit);
}

TEST_CASE("a digest is SHA-256 over length-prefixed fields") {
  // hashlib.sha256((3).to_bytes(8, "little") + b"abc") in Python
  CHECK(hex(Digester().field("abc").finish()) ==
        "ce91dc5eec0139adf091900d225971d6ad246a845bad791b5693a9d0d55dd391");
  Digester one, two;
  one.field("ab").field("c");
  two.field("a").field("bc");
  CHECK(one.finish() != two.finish());
}

TEST_CASE("files are written whole and read back, and errors name the path") {
  TemporaryFolder folder;
  std::string path = folder.path + "/file";
  REQUIRE(write_file(path, "hello").ok());
  REQUIRE(write_file(path, "again").ok());
  CHECK(*read_file(path, 100) == "again");
  CHECK(read_file(path, 4).status().code() == Code::out_of_range);
  CHECK(read_file(folder.path, 100).status().code() == Code::io_error);
  Status missing = write_file(folder.path + "/no/file", "x");
  CHECK(missing.code() == Code::not_found);
  CHECK(missing.message().find("/no/file") != std::string::npos);
}
