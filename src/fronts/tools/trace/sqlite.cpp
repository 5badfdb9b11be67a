// SQLite's C interface through dlopen; see sqlite.h.
#include "sqlite.h"

#include "tool.h"

#include <dlfcn.h>

#include <filesystem>

namespace tool {

/// The entries that are used, with the types that sqlite3.h declares.
struct SqliteLibrary {
  int (*open)(const char *path, void **database, int flags, const char *system) = nullptr;
  int (*close)(void *database) = nullptr;
  int (*prepare)(void *database, const char *text, int bytes, void **statement,
                 const char **rest) = nullptr;
  int (*step)(void *statement) = nullptr;
  int (*finalize)(void *statement) = nullptr;
  int64_t (*column_integer)(void *statement, int column) = nullptr;
  const unsigned char *(*column_text)(void *statement, int column) = nullptr;
  const char *(*message)(void *database) = nullptr;
};

constexpr int kOk = 0, kRow = 100, kDone = 101, kReadOnly = 1;

static const SqliteLibrary &sqlite() {
  static const SqliteLibrary library = [] {
    void *handle = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      throw UserError("reading an export of a profiler needs libsqlite3.so.0; Debian's package is "
                      "libsqlite3-0");
    SqliteLibrary found;
    auto find = [&](auto &entry, const char *name) {
      entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(handle, name));
      if (!entry)
        throw UserError(std::string("libsqlite3.so.0 has no ") + name);
    };
    find(found.open, "sqlite3_open_v2");
    find(found.close, "sqlite3_close");
    find(found.prepare, "sqlite3_prepare_v2");
    find(found.step, "sqlite3_step");
    find(found.finalize, "sqlite3_finalize");
    find(found.column_integer, "sqlite3_column_int64");
    find(found.column_text, "sqlite3_column_text");
    find(found.message, "sqlite3_errmsg");
    return found;
  }();
  return library;
}

int64_t SqliteRow::integer(int column) const { return library_.column_integer(statement_, column); }

std::string SqliteRow::text(int column) const {
  const auto *text = reinterpret_cast<const char *>(library_.column_text(statement_, column));
  return text ? text : "";
}

SqliteFile::SqliteFile(const std::string &path) : path_(path), library_(&sqlite()) {
  if (!std::filesystem::is_regular_file(path))
    throw UserError("'" + path + "' is no file");
  if (library_->open(path.c_str(), &database_, kReadOnly, nullptr) != kOk) {
    const std::string reason = database_ ? library_->message(database_) : "out of memory";
    library_->close(database_);
    throw UserError("'" + path + "': " + reason);
  }
}

SqliteFile::~SqliteFile() { library_->close(database_); }

void SqliteFile::query(const std::string &text,
                       const std::function<void(const SqliteRow &)> &visit) const {
  void *statement = nullptr;
  int result = library_->prepare(database_, text.c_str(), -1, &statement, nullptr);
  if (result == kOk)
    while ((result = library_->step(statement)) == kRow)
      visit(SqliteRow(*library_, statement));
  const std::string reason =
      result == kDone ? "" : "'" + path_ + "': " + library_->message(database_);
  library_->finalize(statement);
  if (!reason.empty())
    throw UserError(reason);
}

bool SqliteFile::has_column(const std::string &table, const std::string &column) const {
  bool found = false;
  query("SELECT COUNT(*) FROM pragma_table_info('" + table + "') WHERE name = '" + column + "'",
        [&](const SqliteRow &row) { found = row.integer(0) > 0; });
  return found;
}

} // namespace tool
