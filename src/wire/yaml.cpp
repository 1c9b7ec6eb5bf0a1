#include "wire/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/text.h"
#include "wire/json.h"

namespace lockstep {

namespace {

constexpr std::size_t kBytesMax = 4 << 20;

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

// Marks count characters, we count bytes.
class ByteOffsets {
 public:
  explicit ByteOffsets(std::string_view text) : text_(text) {}

  YamlMark of(const yaml_mark_t& mark) {
    while (index_ < mark.index && at_ < text_.size()) {
      for (++at_; at_ < text_.size() && inside(at_);) ++at_;
      ++index_;
    }
    while (index_ > mark.index && at_ > 0) {
      for (--at_; at_ > 0 && inside(at_);) --at_;
      --index_;
    }
    return {static_cast<std::uint32_t>(at_), static_cast<std::uint32_t>(mark.line + 1)};
  }

 private:
  bool inside(std::size_t at) const { return (static_cast<unsigned char>(text_[at]) & 0xc0) == 0x80; }
  std::string_view text_;
  std::size_t at_ = 0, index_ = 0;
};

class Events {
 public:
  explicit Events(std::string_view text) : text_(text) {
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
      return invalid(format("line {}: {}", line, problem()));
    }
    full_ = true;
    return &event_;
  }

 private:
  std::string_view problem() {
    const YamlMark at = ByteOffsets(text_).of(parser_.problem_mark);
    if (at.offset < text_.size() && text_[at.offset] == '\t')
      return "there is a tab before the words: YAML is indented with blanks";
    return parser_.problem ? parser_.problem : "not readable as YAML";
  }
  void forget() {
    if (full_)
      yaml_event_delete(&event_);
    full_ = false;
  }
  std::string_view text_;
  yaml_parser_t parser_;
  yaml_event_t event_;
  bool full_ = false;
};

// How much an alias makes of what it stands for.
struct YamlWeight {
  std::size_t values = 1, bytes = 0;
  int depth = 0;
};

YamlWeight weight_of(const YamlNode& node) {
  YamlWeight out{1, node.text.size() + node.key.size(), 0};
  for (const YamlNode& child : node.children) {
    const YamlWeight one = weight_of(child);
    out.values += one.values;
    out.bytes += one.bytes;
    out.depth = std::max(out.depth, one.depth + 1);
  }
  return out;
}

class YamlReader {
 public:
  enum class Language : bool { kPlain, kWhole };
  YamlReader(std::string_view text, Language language, const YamlBounds& bounds)
      : whole_(language == Language::kWhole), bounds_(bounds), events_(text), offsets_(text) {}

  Result<YamlNode> run() {
    TRY(expect(YAML_STREAM_START_EVENT));
    const yaml_event_t* event = TRY(events_.next());
    YamlNode root;
    root.plain = true;
    if (event->type == YAML_STREAM_END_EVENT)
      return whole_ ? Result<YamlNode>(root) : invalid("line 1: the file is empty");
    TRY(value(TRY(events_.next()), root, 0));
    if (whole_)
      return root;
    TRY(expect(YAML_DOCUMENT_END_EVENT));
    event = TRY(events_.next());
    if (event->type != YAML_STREAM_END_EVENT)
      return at(*event, "a second document: one is read");
    return root;
  }

 private:
  struct Anchored {
    YamlNode node;
    YamlWeight weight;
    bool open = true;  // an alias inside of what it stands for
  };

  static Error at(const yaml_event_t& event, std::string_view why) {
    return invalid(format("line {}: {}", event.start_mark.line + 1, why));
  }
  Result<void> expect(yaml_event_type_t type) {
    const yaml_event_t* event = TRY(events_.next());
    if (event->type != type)
      return at(*event, "not readable as YAML");
    return {};
  }
  static std::string word(const yaml_char_t* text) { return text ? reinterpret_cast<const char*>(text) : ""; }
  static std::string text_of(const yaml_event_t& event) {
    return {reinterpret_cast<const char*>(event.data.scalar.value), event.data.scalar.length};
  }

  Result<void> value(const yaml_event_t* event, YamlNode& out, int depth) {
    if (depth > bounds_.depth)
      return at(*event, "nested too deeply");
    if (++values_ > bounds_.values)
      return at(*event, format("more than {} values", bounds_.values));
    out.begin = offsets_.of(event->start_mark);
    out.end = offsets_.of(event->end_mark);
    switch (event->type) {
      case YAML_SCALAR_EVENT: return scalar(*event, out);
      case YAML_SEQUENCE_START_EVENT: return anchored(word(event->data.sequence_start.anchor), *event, out, depth);
      case YAML_MAPPING_START_EVENT: return anchored(word(event->data.mapping_start.anchor), *event, out, depth);
      case YAML_ALIAS_EVENT: return alias(*event, out, depth);
      default: return at(*event, "not readable as YAML");
    }
  }

  // A list or a map. What names it is remembered when it has been read.
  Result<void> anchored(const std::string& anchor, const yaml_event_t& start, YamlNode& out, int depth) {
    if (!anchor.empty())
      anchors_[anchor] = {};
    const std::size_t line = start.start_mark.line + 1;
    TRY(start.type == YAML_SEQUENCE_START_EVENT ? list(start, out, depth) : mapping(start, out, depth));
    return remember(anchor, out, line);
  }

  // Anchors within each other are each remembered with all that is in them, so this has a bound of its own.
  Result<void> remember(const std::string& anchor, const YamlNode& node, std::size_t line) {
    if (anchor.empty())
      return {};
    const YamlWeight weight = weight_of(node);
    if (weight.values > bounds_.values - anchored_.values || weight.bytes > bounds_.bytes - anchored_.bytes)
      return invalid(format("line {}: document contains excessive anchors", line));
    anchored_.values += weight.values;
    anchored_.bytes += weight.bytes;
    Anchored& known = anchors_[anchor];
    known = {node, weight, false};
    known.node.key.clear();
    return {};
  }

  Result<void> alias(const yaml_event_t& event, YamlNode& out, int depth) {
    if (!whole_)
      return at(event, "aliases are not read: write it out");
    const std::string name = word(event.data.alias.anchor);
    const auto known = anchors_.find(name);
    if (known == anchors_.end())
      return at(event, format("unknown anchor '{}' referenced", name));
    const Anchored& meant = known->second;
    if (meant.open)
      return at(event, format("anchor '{}' value contains itself", name));
    if (depth + meant.weight.depth > bounds_.depth)
      return at(event, "nested too deeply");
    if (meant.weight.values > bounds_.values - values_ || meant.weight.bytes > bounds_.bytes - aliased_bytes_)
      return at(event, "document contains excessive aliasing");
    values_ += meant.weight.values;
    aliased_bytes_ += meant.weight.bytes;
    YamlNode place = std::move(out);
    out = meant.node;
    out.key = std::move(place.key);
    out.key_plain = place.key_plain;
    out.key_begin = place.key_begin;
    out.begin = place.begin;
    out.end = place.end;
    return {};
  }

  Result<void> scalar(const yaml_event_t& event, YamlNode& out) {
    const auto& scalar = event.data.scalar;
    if (scalar.anchor && !whole_)
      return at(event, "anchors are not read: write it out");
    if (scalar.tag && !whole_)
      return at(event, "tags are not read");
    out.text = text_of(event);
    out.tag = word(scalar.tag);
    out.plain = scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return remember(word(scalar.anchor), out, event.start_mark.line + 1);
  }

  Result<void> list(const yaml_event_t& start, YamlNode& out, int depth) {
    if (!whole_ && (start.data.sequence_start.anchor || start.data.sequence_start.tag))
      return at(start, "anchors and tags are not read");
    out.shape = YamlNode::Shape::kList;
    out.flow = start.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    for (;;) {
      const yaml_event_t* event = TRY(events_.next());
      if (event->type == YAML_SEQUENCE_END_EVENT)
        return end_at(*event, out);
      YamlNode item;
      TRY(value(event, item, depth + 1));
      out.children.push_back(std::move(item));
    }
  }

  Result<void> mapping(const yaml_event_t& start, YamlNode& out, int depth) {
    if (!whole_ && (start.data.mapping_start.anchor || start.data.mapping_start.tag))
      return at(start, "anchors and tags are not read");
    out.shape = YamlNode::Shape::kMap;
    out.flow = start.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
    std::set<std::string> keys;
    for (;;) {
      const yaml_event_t* event = TRY(events_.next());
      if (event->type == YAML_MAPPING_END_EVENT)
        return end_at(*event, out);
      YamlNode entry;
      TRY(key(*event, entry));
      if (!whole_ && !keys.insert(entry.key).second)
        return at(*event, format("{} is there twice", entry.key));
      TRY(value(TRY(events_.next()), entry, depth + 1));
      out.children.push_back(std::move(entry));
    }
  }

  Result<void> key(const yaml_event_t& event, YamlNode& entry) {
    entry.key_begin = offsets_.of(event.start_mark);
    YamlNode name;
    if (event.type == YAML_ALIAS_EVENT && whole_)
      TRY(alias(event, name, 0));
    else if (event.type == YAML_SCALAR_EVENT && whole_)
      TRY(scalar(event, name));
    else if (event.type == YAML_SCALAR_EVENT)
      name.text = text_of(event);
    else
      return at(event, "a name must be plain text");
    if (name.shape != YamlNode::Shape::kScalar)
      return at(event, "a name must be plain text");
    entry.key = std::move(name.text);
    entry.key_plain = name.plain && name.tag.empty();
    return {};
  }

  // What is not between brackets ends where its last part does; the event says where the next thing begins.
  Result<void> end_at(const yaml_event_t& event, YamlNode& out) {
    if (out.flow)
      out.end = offsets_.of(event.end_mark);
    else if (!out.children.empty())
      out.end = out.children.back().end;
    return {};
  }

  const bool whole_;
  const YamlBounds bounds_;
  Events events_;
  ByteOffsets offsets_;
  std::size_t values_ = 0, aliased_bytes_ = 0;
  std::map<std::string, Anchored> anchors_;
  YamlWeight anchored_{0, 0, 0};  // of all that anchors_ ever held
};

void add_json(const YamlNode& node, const std::string& path, YamlText& out) {
  out.lines.emplace_back(path, node.begin.line);
  if (node.shape == YamlNode::Shape::kScalar) {
    const std::string& text = node.text;
    if (node.is_null())
      out.json += "null";
    else if (node.plain && (text == "true" || text == "false" || is_number(text)))
      out.json += text;
    else
      wire::append_string(out.json, text);
    return;
  }
  const bool is_map = node.shape == YamlNode::Shape::kMap;
  out.json += is_map ? '{' : '[';
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const YamlNode& child = node.children[i];
    if (i > 0)
      out.json += ',';
    if (is_map) {
      wire::append_string(out.json, child.key);
      out.json += ':';
    }
    const std::string place = !is_map        ? format("{}[{}]", path, i)
                              : path.empty() ? child.key
                                             : format("{}.{}", path, child.key);
    add_json(child, place, out);
  }
  out.json += is_map ? '}' : ']';
}

// Words and numbers that some reader of YAML takes for something else than text.
bool reads_as_other_than_text(std::string_view text) {
  constexpr std::string_view kWords[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"};
  const std::string word = lower(text);
  if (std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords))
    return true;
  constexpr std::string_view kNumeric = "0123456789_.:+-eExXoO";
  const bool has_digit = text.find_first_of("0123456789") != text.npos;
  if (has_digit && text.find_first_not_of(kNumeric) == text.npos)
    return true;
  const bool is_hex = text.starts_with("0x") && text.find_first_not_of("0123456789abcdefABCDEF", 2) == text.npos;
  const bool is_date = text.size() >= 10 && text[4] == '-' && text[7] == '-';
  return is_hex || is_date;
}

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// Whether the text stands for itself without quotes.
bool plain_is_safe(std::string_view text, YamlPlace within) {
  if (text.empty() || text.size() > 100'000 || !(is_letter_or_digit(text[0]) || text[0] == '_' || text[0] == '/'))
    return false;
  const std::string_view safe = within == YamlPlace::kBlock ? "_./+@=()-[],&|" : "_./+@=()-&|";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_inner_blank = c == ' ' && i + 1 < text.size() && text[i + 1] != ' ';
    if (!is_letter_or_digit(c) && safe.find(c) == safe.npos && !is_inner_blank)
      return false;
  }
  return !reads_as_other_than_text(text);
}

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

const YamlNode* YamlNode::child(std::string_view name) const {
  for (const YamlNode& one : children)
    if (one.key == name)
      return &one;
  return nullptr;
}

Result<YamlNode> read_yaml(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max)
    return Error{Errc::kExhausted, format("{} bytes are too many; {} are read", text.size(), bytes_max), {}};
  return YamlReader(text, YamlReader::Language::kPlain, {}).run();
}

Result<YamlNode> read_whole_yaml(std::string_view text, const YamlBounds& bounds) {
  if (text.size() > bounds.bytes)
    return Error{Errc::kExhausted, format("{} bytes are too many; {} are read", text.size(), bounds.bytes), {}};
  return YamlReader(text, YamlReader::Language::kWhole, bounds).run();
}

std::string yaml_scalar(std::string_view text, YamlPlace within) {
  if (plain_is_safe(text, within))
    return std::string(text);
  std::string out;
  wire::append_string(out, text);
  return out;
}

Result<YamlText> json_of_yaml(std::string_view text) {
  const YamlNode root = TRY(read_yaml(text, kBytesMax));
  YamlText out;
  add_json(root, "", out);
  return out;
}

}  // namespace lockstep
