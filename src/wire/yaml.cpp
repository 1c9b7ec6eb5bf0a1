#include "wire/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/text.h"
#include "wire/json.h"

namespace lockstep {

namespace {

constexpr std::size_t kBytesMax = 4 << 20;
constexpr int kYamlDepthMax = 32;

// As in JSON: "-12", "0.5". Other spellings of numbers ("0x10", "1_000", "3:40") are text.
bool is_number(std::string_view text) {
  if (text.starts_with('-'))
    text.remove_prefix(1);
  const auto digits = [&] {
    std::size_t n = 0;
    while (n < text.size() && text[n] >= '0' && text[n] <= '9') ++n;
    return n;
  };
  const std::size_t whole = digits();
  if (whole == 0 || whole > 18 || (whole > 1 && text[0] == '0'))
    return false;
  text.remove_prefix(whole);
  if (text.empty())
    return true;
  if (text[0] != '.')
    return false;
  text.remove_prefix(1);
  return digits() > 0 && digits() == text.size();
}

class Events {
 public:
  explicit Events(std::string_view text) {
    CHECK(yaml_parser_initialize(&parser_), "out of memory");
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events() {
    forget();
    yaml_parser_delete(&parser_);
  }

  // The event stays valid until the next call.
  Result<const yaml_event_t*> next() {
    forget();
    if (!yaml_parser_parse(&parser_, &event_)) {
      const std::size_t line = std::max(parser_.problem_mark.line, parser_.context_mark.line) + 1;
      return invalid(format("line {}: {}", line, parser_.problem ? parser_.problem : "not readable as YAML"));
    }
    full_ = true;
    return &event_;
  }

 private:
  void forget() {
    if (full_)
      yaml_event_delete(&event_);
    full_ = false;
  }
  yaml_parser_t parser_;
  yaml_event_t event_;
  bool full_ = false;
};

class YamlReader {
 public:
  explicit YamlReader(std::string_view text) : events_(text) {}

  Result<YamlText> run() {
    TRY(expect(YAML_STREAM_START_EVENT));
    const yaml_event_t* event = TRY(events_.next());
    if (event->type == YAML_STREAM_END_EVENT)
      return invalid("line 1: the file is empty");
    TRY(value(TRY(events_.next()), "", 0));
    TRY(expect(YAML_DOCUMENT_END_EVENT));
    event = TRY(events_.next());
    if (event->type != YAML_STREAM_END_EVENT)
      return at(*event, "a second document: one is read");
    return std::move(out_);
  }

 private:
  static Error at(const yaml_event_t& event, std::string_view why) {
    return invalid(format("line {}: {}", event.start_mark.line + 1, why));
  }
  Result<void> expect(yaml_event_type_t type) {
    const yaml_event_t* event = TRY(events_.next());
    if (event->type != type)
      return at(*event, "not readable as YAML");
    return {};
  }
  static std::string text_of(const yaml_event_t& event) {
    return {reinterpret_cast<const char*>(event.data.scalar.value), event.data.scalar.length};
  }

  Result<void> value(const yaml_event_t* event, const std::string& path, int depth) {
    if (depth > kYamlDepthMax)
      return at(*event, "nested too deeply");
    out_.lines.emplace_back(path, event->start_mark.line + 1);
    switch (event->type) {
      case YAML_SCALAR_EVENT: return scalar(*event);
      case YAML_SEQUENCE_START_EVENT: return list(*event, path, depth);
      case YAML_MAPPING_START_EVENT: return mapping(*event, path, depth);
      case YAML_ALIAS_EVENT: return at(*event, "aliases are not read: write it out");
      default: return at(*event, "not readable as YAML");
    }
  }

  Result<void> scalar(const yaml_event_t& event) {
    const auto& scalar = event.data.scalar;
    if (scalar.anchor)
      return at(event, "anchors are not read: write it out");
    if (scalar.tag)
      return at(event, "tags are not read");
    const std::string text = text_of(event);
    if (scalar.style == YAML_PLAIN_SCALAR_STYLE && (text.empty() || text == "~" || text == "null"))
      out_.json += "null";
    else if (scalar.style == YAML_PLAIN_SCALAR_STYLE && (text == "true" || text == "false" || is_number(text)))
      out_.json += text;
    else
      wire::append_string(out_.json, text);
    return {};
  }

  Result<void> list(const yaml_event_t& start, const std::string& path, int depth) {
    if (start.data.sequence_start.anchor || start.data.sequence_start.tag)
      return at(start, "anchors and tags are not read");
    out_.json += '[';
    for (std::size_t i = 0;; ++i) {
      const yaml_event_t* event = TRY(events_.next());
      if (event->type == YAML_SEQUENCE_END_EVENT)
        break;
      if (i > 0)
        out_.json += ',';
      TRY(value(event, format("{}[{}]", path, i), depth + 1));
    }
    out_.json += ']';
    return {};
  }

  Result<void> mapping(const yaml_event_t& start, const std::string& path, int depth) {
    if (start.data.mapping_start.anchor || start.data.mapping_start.tag)
      return at(start, "anchors and tags are not read");
    out_.json += '{';
    std::set<std::string> keys;
    for (;;) {
      const yaml_event_t* event = TRY(events_.next());
      if (event->type == YAML_MAPPING_END_EVENT)
        break;
      if (event->type != YAML_SCALAR_EVENT)
        return at(*event, "a name must be plain text");
      const std::string key = text_of(*event);
      if (!keys.insert(key).second)
        return at(*event, format("{} is there twice", key));
      if (keys.size() > 1)
        out_.json += ',';
      wire::append_string(out_.json, key);
      out_.json += ':';
      TRY(value(TRY(events_.next()), path.empty() ? key : format("{}.{}", path, key), depth + 1));
    }
    out_.json += '}';
    return {};
  }

  Events events_;
  YamlText out_;
};

}  // namespace

std::size_t YamlText::line_of(std::string_view path) const {
  std::size_t line = 0, longest = 0;
  for (const auto& [known, at] : lines) {
    const bool holds = path.starts_with(known) && (known.empty() || path.size() == known.size() ||
                                                   path[known.size()] == '.' || path[known.size()] == '[');
    if (holds && (line == 0 || known.size() >= longest)) {
      longest = known.size();
      line = at;
    }
  }
  return line;
}

Result<YamlText> json_of_yaml(std::string_view text) {
  if (text.size() > kBytesMax)
    return Error{Errc::kExhausted, format("{} bytes are too many; {} are read", text.size(), kBytesMax), {}};
  return YamlReader(text).run();
}

}  // namespace lockstep
