// The two texts by which a rank speaks to its launcher over the descriptor PMI_FD. PMI-1: one line, "cmd=put
// kvsname=K key=a value=b\n". PMI-2, after a first line in the manner of PMI-1: six characters of length, then
// "cmd=kvs-put;key=a;value=b;", where a semicolon within a value is doubled. What ranks write is bounded and never
// trusted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr std::size_t kPmiLineMax = 64 << 10;  // of a rank; clients of PMI-1 keep 1 KiB, of PMI-2 a few

// A command or an answer to one: names with their values, the first of which is cmd (or mcmd).
class PmiWords {
 public:
  PmiWords() = default;
  explicit PmiWords(std::string cmd) { add("cmd", std::move(cmd)); }
  PmiWords& add(std::string name, std::string value) {
    words_.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  const std::string* find(std::string_view name) const;
  std::string text(std::string_view name) const;  // "" when it is not there
  const std::string& cmd() const;                 // "" of no words
  bool empty() const { return words_.empty(); }
  const std::vector<std::pair<std::string, std::string>>& all() const { return words_; }

 private:
  std::vector<std::pair<std::string, std::string>> words_;
};

PmiWords parse_pmi1(std::string_view line);  // without its end
PmiWords parse_pmi2(std::string_view text);  // without its length
std::string encode_pmi1(const PmiWords& words);
std::string encode_pmi2(const PmiWords& words);

// Cuts what one rank writes into commands. A rank begins with PMI-1; speak_pmi2 changes that for what follows.
class PmiCutter {
 public:
  void add(std::string_view bytes) { pending_.append(bytes); }
  // The next command, nothing if it is not whole yet. An error: it will never be one.
  Result<std::optional<PmiWords>> next();
  void speak_pmi2(bool second) { second_ = second; }
  bool speaks_pmi2() const { return second_; }

 private:
  std::string pending_;
  bool second_ = false;
};

}  // namespace lockstep
