// What tests say of results and messages in nearly every case.
#pragma once

#include "base/status.h"
#include "support/catch.h"

#include <string>
#include <string_view>

namespace cugrt::test {

/// The value; the test ends with the message where there is none.
template <class T> T must(Result<T> result) {
  INFO((result.ok() ? std::string() : result.status().to_string()));
  REQUIRE(result.ok());
  return std::move(result).value();
}

inline void must(Status status) {
  INFO(status.to_string());
  REQUIRE(status.ok());
}

/// The error; the test ends where there is none.
template <class T> Status refused(Result<T> result) {
  REQUIRE_FALSE(result.ok());
  return result.take_status();
}

inline bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace cugrt::test
