#include "frontends/kube/server/indented.h"

#include "frontends/kube/server/target.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kReadMax = 4 << 20;  // the work of one answer on the I/O thread
constexpr std::size_t kTimesMax = 8;       // what it may grow by: deep lists of nothing grow without end

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

std::string indented(std::string_view json) {
  const std::size_t most = json.size() * kTimesMax + 256;
  if (json.size() > kReadMax)
    return std::string(json);
  std::string out;
  out.reserve(json.size() * 2);
  std::size_t depth = 0;
  bool in_text = false;
  const auto line = [&] { out.append(1, '\n').append(2 * depth, ' '); };
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (out.size() > most)
      return std::string(json);
    if (in_text) {
      out += c;
      if (c == '\\' && i + 1 < json.size())
        out += json[++i];
      else if (c == '"')
        in_text = false;
    } else if (opens(c)) {
      out += c;
      if (i + 1 < json.size() && closes(json[i + 1])) {
        out += json[++i];
        continue;
      }
      ++depth;
      line();
    } else if (closes(c)) {
      depth -= depth > 0;
      line();
      out += c;
    } else if (c == ',') {
      out += c;
      line();
    } else {
      in_text = c == '"';
      out += c;
      if (c == ':')
        out += ' ';
    }
  }
  return out;
}

HttpResponse indented_if_wanted(const HttpRequest& http, HttpResponse answer) {
  if (answer.content_type.starts_with("application/json") && wants_indented(http))
    answer.body = indented(answer.body);
  return answer;
}

}  // namespace lockstep::kube
