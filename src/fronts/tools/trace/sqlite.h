// Reading an SQLite file, by the library that the machine has: opened when it is first asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tool {

/// A row of a query's result; columns count from 0. Valid within the visit.
class SqliteRow {
public:
  int64_t integer(int column) const;
  std::string text(int column) const;

private:
  friend class SqliteFile;
  SqliteRow(const struct SqliteLibrary &library, void *statement)
      : library_(library), statement_(statement) {}
  const struct SqliteLibrary &library_;
  void *statement_;
};

class SqliteFile {
public:
  /// Read-only. UserError where there is no library, or the file is none of SQLite's.
  explicit SqliteFile(const std::string &path);
  ~SqliteFile();
  SqliteFile(const SqliteFile &) = delete;

  bool has_column(const std::string &table, const std::string &column) const;
  /// UserError with SQLite's own words.
  void query(const std::string &text, const std::function<void(const SqliteRow &)> &visit) const;

private:
  std::string path_;
  const struct SqliteLibrary *library_;
  void *database_ = nullptr;
};

} // namespace tool
