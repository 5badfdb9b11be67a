// A folder of a test's or a bench's own, which goes with what is in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

struct TemporaryFolder {
  std::string path;

  TemporaryFolder() : path((std::filesystem::temp_directory_path() / "cugrt-XXXXXX").string()) {
    if (!mkdtemp(path.data()))
      throw std::runtime_error("cannot make a folder like " + path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
};
