// A list for people: its JSON indented, or YAML, made of the same pieces as the list that machines read.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "frontends/kube/server/indented.h"

namespace lockstep::kube {

enum class ListForm : unsigned char { kPlain, kIndented, kYaml };

class ListText {
 public:
  explicit ListText(ListForm form) : form_(form) {}
  // The parts in their order: what stands before the items as JSON, the items, what stands behind them.
  void begin(std::string& out, std::string_view head, std::string_view end);
  void item(std::string& out, const std::function<void(std::string& out)>& write_json);
  void end(std::string& out, std::string_view end);

 private:
  ListForm form_;
  Indenter indenter_;
  std::string item_;             // its memory is used again
  std::string list_key_, tail_;  // of YAML: what the items stand under, and what stands behind them
  bool is_empty_ = true;
};

}  // namespace lockstep::kube
