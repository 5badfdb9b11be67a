// bench: reading callgrind's dumps.
#include "support/catch.h"

#include "bench/support/callgrind.h"

using namespace cugrt::bench;

TEST_CASE("instructions count where they were executed, not again in callers, nor in excluded "
          "objects") {
  auto dump = parse_callgrind("version: 1\n"
                              "cmd: ./client\n"
                              "positions: line\n"
                              "events: Ir\n"
                              "fl=(client.cpp)\n"
                              "ob=/tmp/client\n"
                              "fn=main\n"
                              "10 7\n"
                              "cob=/usr/lib/libx.so\n"
                              "cfi=x.cpp\n"
                              "cfn=work\n"
                              "calls=1 100\n"
                              "11 90\n"
                              "\n"
                              "ob=/usr/lib/libx.so\n"
                              "fn=work\n"
                              "100 40\n"
                              "+1 2\n"
                              "fe=inlined.h\n"
                              "5 8\n"
                              "calls=2 5\n"
                              "* 40\n"
                              "\n"
                              "fn=idle\n"
                              "7 0\n"
                              "\n"
                              "ob=/usr/lib/libc.so.6\n"
                              "fn=malloc\n"
                              "3 40\n"
                              "totals: 97\n",
                              {"/client"});
  REQUIRE(dump.ok());
  CHECK(dump->instructions == 90);
  CHECK(dump->functions == std::vector<std::string>{"work", "malloc"});
}

TEST_CASE("a cost line without a number is refused") {
  auto dump = parse_callgrind("ob=/a\nfn=f\n12 many\n", {});
  REQUIRE(!dump.ok());
  CHECK(dump.status().code() == cugrt::Code::parse_error);
}
