// Asking the cluster for rows and texts: the part that squeue, sinfo, scontrol and sacct share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/slurm/client/asking.h"

struct option;  // of getopt.h

namespace lockstep {

class Query {
 public:
  explicit Query(const ClientContext& context, Bearing bearing = Bearing::kPatient) : line_(context, bearing) {}
  // The body, or an Error whose message is what the cluster said.
  Result<std::string> get(std::string_view path, const std::map<std::string, std::string>& parameters,
                          std::optional<Duration> timeout = {});
  Result<std::string> send(std::string_view method, std::string_view target, std::string_view body,
                           std::optional<Duration> timeout = {});
  // A change that comes to the same when it is made twice: sent again, like a question, when the connection breaks.
  Result<std::string> set(std::string_view method, std::string_view target, std::string_view body);

 private:
  static Result<std::string> body_of(ApiClient::Reply reply);
  Asking line_;
};

// Rows between tabs, cut in place: cells point into the body.
class Rows {
 public:
  Rows(std::string body, std::size_t columns);
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  std::size_t size() const { return columns_ ? cells_.size() / columns_ : 0; }
  std::string_view cell(std::size_t row, std::size_t column) const {
    const Cell& at = cells_[row * columns_ + column];
    return std::string_view(body_).substr(at.from, at.size);
  }

 private:
  std::string body_;
  std::size_t columns_;
  struct Cell {
    std::uint32_t from = 0, size = 0;
  };
  std::vector<Cell> cells_;
};

// Reads options the way Slurm's commands do: getopt_long with abbreviations. `letters` and `longs` as getopt wants
// them; f(code, value) is called for each; false from it, or an unknown option, ends with "Try …" on stderr.
struct LongOption {
  const char* name;
  int argument;  // 0 none, 1 required, 2 optional
  int code;      // letter, or above 255
};
struct ParsedOptions {
  bool ok = false;
  std::vector<std::string> words;  // what is no option
};
ParsedOptions parse_options(int argc, char** argv, const char* letters, const std::vector<LongOption>& longs,
                            const std::function<void(int, const char*)>& f);

// After getopt_long has said that it does not know a long option: which one was meant, on stderr.
void tell_what_was_meant(char** argv, const ::option* longs);

std::string variable_or(const char* name, std::string_view otherwise = {});  // from the environment
int print_version();                                                         // "slurm 24.11.5 (lockstep 0.1.0)"

}  // namespace lockstep
