// Slurm's configuration files as lines of KEY=VALUE words, read as Slurm reads them: '#' begins a remark (also between
// quotes; "\#" does not), a backslash at the end of a line joins it to the next as it stands, a value with blanks
// stands in double quotes, "Include FILE" reads another file in its place.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::slurm {

struct ConfWord {
  std::string key;  // as written
  std::string value;
  std::size_t line = 0, column = 0;  // of the key, from 1
};

struct ConfLine {
  std::string file;
  std::vector<ConfWord> words;  // one at least
  bool is_include = false;      // "Include FILE": what is in it follows

  std::size_t number() const { return words.front().line; }
};

inline constexpr std::size_t kConfBytesMax = 16 << 20;  // of one file
inline constexpr std::size_t kConfLineMax = 4 << 20;    // of one line with those joined to it
inline constexpr std::size_t kConfWordsMax = 500'000;   // of all files together
inline constexpr std::size_t kConfFilesMax = 256;
inline constexpr std::size_t kConfDepthMax = 16;  // of files that include files

// The text of a file, by its path.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// Lines in the order in which Slurm comes by them, and the files they are from. A relative path of an Include is meant
// from the folder of the first file; "%c" in it is the ClusterName read before. Errors begin with FILE:LINE:COLUMN.
Result<std::vector<ConfLine>> read_conf(const std::string& path, const ReadFile& read);

// One file, without its includes: an Include is a mistake there.
Result<std::vector<ConfLine>> conf_lines(const std::string& name, std::string_view text);

// Whether a partition, an account, a user or a QOS may be called so.
bool is_record_name(std::string_view name);

}  // namespace lockstep::slurm
