#include "frontends/kube/server/indented.h"

#include <utility>

#include "frontends/kube/server/target.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kReadMax = 4 << 20;  // the work of one answer on the I/O thread
// What a text may grow by before it goes on without line breaks: deep lists of nothing would grow without end.
constexpr std::size_t kTimesMax = 6, kFewBytes = 256;

bool opens(char c) { return c == '{' || c == '['; }
bool closes(char c) { return c == '}' || c == ']'; }

}  // namespace

// Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation (isPrettyPrint).
bool wants_indented(const HttpRequest& http) {
  if (const auto said = http.query.find("pretty"); said != http.query.end() && !said->second.empty())
    return said->second == "1" || said->second == "true" || said->second == "t" || said->second == "T" ||
           said->second == "TRUE" || said->second == "True";
  const std::string agent = header_of(http, "user-agent");
  return agent.starts_with("curl") || agent.starts_with("Wget") || agent.starts_with("Mozilla/5.0");
}

void Indenter::line(std::string& out) const { out.append(1, '\n').append(2 * depth_, ' '); }

void Indenter::feed(std::string_view json, std::string& out) {
  const std::size_t most = out.size() + json.size() * kTimesMax + kFewBytes;
  const auto new_line = [&] {
    if (out.size() <= most)
      line(out);
  };
  for (const char c : json) {
    if (in_text_) {
      out += c;
      in_text_ = is_escaped_ || c != '"';
      is_escaped_ = !is_escaped_ && c == '\\';
      continue;
    }
    const bool is_empty = closes(c) && has_opened_;
    if (std::exchange(has_opened_, false) && !is_empty) {
      ++depth_;
      new_line();
    }
    if (closes(c) && !is_empty) {
      depth_ -= depth_ > 0;
      new_line();
    }
    out += c;
    has_opened_ = opens(c);
    in_text_ = c == '"';
    if (c == ',')
      new_line();
    else if (c == ':')
      out += ' ';
  }
}

std::string indented(std::string_view json) {
  if (json.size() > kReadMax)
    return std::string(json);
  std::string out;
  out.reserve(json.size() * 2);
  Indenter().feed(json, out);
  return out;
}

}  // namespace lockstep::kube
