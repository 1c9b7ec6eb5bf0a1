// JSON for people: who asks with ?pretty, or with a browser or curl, reads it indented, as from Kubernetes' own server.
#pragma once

#include <string>
#include <string_view>

#include "ports/http.h"

namespace lockstep::kube {

bool wants_indented(const HttpRequest& http);
// Takes a text as we write it, without blanks between its parts, in pieces that end anywhere. A piece that would become
// very long has no line breaks from there on.
class Indenter {
 public:
  void feed(std::string_view json, std::string& out);

 private:
  void line(std::string& out) const;
  std::size_t depth_ = 0;
  bool in_text_ = false, is_escaped_ = false;
  bool has_opened_ = false;  // the last character was a bracket: what follows says whether there is anything in it
};
// The whole text; one that is very long stays as it is.
std::string indented(std::string_view json);

}  // namespace lockstep::kube
