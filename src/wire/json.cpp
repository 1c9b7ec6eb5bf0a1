// Text, numbers and lists between JSON and the model, and the one place that parses documents.
#include "wire/json.h"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/string.hpp>
#include <exception>

#include "base/nearest.h"
#include "wire/fields.h"
#include "wire/frame.h"

namespace lockstep::wire {

namespace {

constexpr std::size_t kDepthMax = 32;
constexpr std::size_t kValuesMax = 8'000'000;          // each costs 16 bytes and more while it is parsed
constexpr std::size_t kCountValuesAbove = kValuesMax;  // shorter texts cannot hold as many

using Byte = unsigned char;

bool continues(Byte b) { return (b & 0xC0) == 0x80; }

// How many bytes a character has that is not ASCII and begins with this one; 0: none does.
std::size_t length_begun_by(Byte first) {
  if (first < 0xC2 || first > 0xF4)
    return 0;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// Whether a valid character begins with these two: not written longer than it need be, no half of a UTF-16 pair, not
// beyond Unicode, and none of ours.
bool is_first_pair(Byte first, Byte second) {
  switch (first) {
    case 0xE0: return second >= 0xA0;
    case 0xED: return second < 0xA0;
    case 0xEE: return second < 0xBE;
    case 0xF0: return second >= 0x90;
    case 0xF4: return second < 0x90;
    default: return true;
  }
}

// Length of the valid UTF-8 character at text[at], which is not ASCII; 0 if there is none, or if it is one of the
// private characters that stand for bytes.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t k) { return at + k < text.size() ? static_cast<Byte>(text[at + k]) : Byte{0}; };
  const Byte a = byte(0), b = byte(1);
  const std::size_t length = length_begun_by(a);
  for (std::size_t k = 1; k < length; ++k)
    if (!continues(byte(k)))
      return 0;
  return is_first_pair(a, b) ? length : 0;
}

constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x80; ++c) plain[static_cast<std::size_t>(c)] = c != '"' && c != '\\';
  return plain;
}();

void append_control(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\t': out += "\\t"; return;
    case '\r': out += "\\r"; return;
    default: break;
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  const Byte b = static_cast<Byte>(c);
  ((out += "\\u00") += kHex[b >> 4]) += kHex[b & 15];
}

// Values in a text are at most its separators outside strings, plus one.
bool too_many_values(std::string_view text) {
  std::size_t separators = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == ',' || c == '[' || c == '{') {
      ++separators;
    }
  }
  return separators > kValuesMax;
}

}  // namespace

void append_string(std::string& out, std::string_view bytes) {
  out += '"';
  std::size_t start = 0, i = 0;
  while (i < bytes.size()) {
    const Byte b = static_cast<Byte>(bytes[i]);
    if (kPlain[b]) {
      ++i;
      continue;
    }
    if (b >= 0x80) {
      if (const std::size_t length = character_length(bytes, i)) {
        i += length;
        continue;
      }
    }
    out.append(bytes, start, i - start);
    if (b < 0x80) {
      append_control(out, bytes[i]);
    } else {
      const unsigned k = b - 0x80u;
      ((out += '\xEE') += static_cast<char>(0xBE | (k >> 6))) += static_cast<char>(0x80 | (k & 0x3F));
    }
    start = ++i;
  }
  out.append(bytes, start, i - start);
  out += '"';
}

std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const bool byte = i + 2 < text.size() && text[i] == '\xEE' && (text[i + 1] == '\xBE' || text[i + 1] == '\xBF');
    if (byte) {
      out += static_cast<char>(0x80 + (((text[i + 1] & 1) << 6) | (text[i + 2] & 0x3F)));
      i += 3;
    } else {
      out += text[i++];
    }
  }
  return out;
}

bool only_known(Reader& r, const json::object& object, std::span<const std::string_view> names) {
  constexpr std::size_t kShown = 60;
  for (const auto& member : object) {
    const std::string_view key(member.key().data(), member.key().size());
    if (std::find(names.begin(), names.end(), key) != names.end())
      continue;
    r.fail("is not known" + hint(key, names));
    return r.under(key.substr(0, kShown));
  }
  return true;
}

bool Reader::under(std::string_view key) {
  std::string longer(key);
  if (!path.empty() && path.front() != '[')
    longer += '.';
  path.insert(0, longer);
  return false;
}

bool Reader::under(std::size_t index) {
  std::string longer = format("[{}]", index);
  if (!path.empty() && path.front() != '[')
    longer += '.';
  path.insert(0, longer);
  return false;
}

bool Reader::spend(std::size_t count, std::size_t each_bytes) {
  if (!strict())
    return true;  // what fits into the log fitted into memory once
  if (each_bytes && count > budget_bytes / each_bytes)
    return fail("makes the message too large");
  budget_bytes -= count * each_bytes;
  return true;
}

Error Reader::failure() const {
  const bool colon = message.starts_with(':');
  return invalid(format("{}{}{}", path.empty() ? "the message" : path, colon ? "" : " ", message), path);
}

bool read_text(Reader& r, const json::value& v, std::string& out) {
  const json::string* s = v.if_string();
  if (!s)
    return r.fail("must be a string");
  const std::string_view text(s->data(), s->size());
  if (text.find('\xEE') == std::string_view::npos)
    out.assign(text);
  else
    out = unescape(text);
  return true;
}

bool read_signed(Reader& r, const json::value& v, std::int64_t low, std::int64_t high, std::int64_t& out) {
  if (const std::int64_t* n = v.if_int64()) {
    if (*n >= low && *n <= high) {
      out = *n;
      return true;
    }
  } else if (!v.if_uint64()) {  // an unsigned value is one too large for int64
    return r.fail("must be a whole number");
  }
  return r.fail(format("must be between {} and {}", low, high));
}

bool read_unsigned(Reader& r, const json::value& v, std::uint64_t high, std::uint64_t& out) {
  if (const std::int64_t* n = v.if_int64()) {
    if (*n >= 0 && static_cast<std::uint64_t>(*n) <= high) {
      out = static_cast<std::uint64_t>(*n);
      return true;
    }
  } else if (const std::uint64_t* u = v.if_uint64()) {
    if (*u <= high) {
      out = *u;
      return true;
    }
  } else {
    return r.fail("must be a whole number");
  }
  return r.fail(format("must be between 0 and {}", high));
}

bool read_word(Reader& r, const json::value& v, WordList words, std::size_t& out) {
  const json::string* s = v.if_string();
  if (s) {
    const std::string_view text(s->data(), s->size());
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == text) {
        out = i;
        return true;
      }
    }
  }
  std::string known;
  for (const auto word : words) (known += known.empty() ? "" : ", ") += word;
  return r.fail("must be one of " + known);
}

bool read_intervals(Reader& r, const json::value& v, IntervalSet& out) {
  const json::string* s = v.if_string();
  if (!s)
    return r.fail("must be a string like \"0-7,12\"");
  out = IntervalSet();
  if (s->empty())
    return true;
  auto parsed = IntervalSet::parse({s->data(), s->size()});
  if (!parsed.ok())
    return r.fail(": " + parsed.error().message);
  out = std::move(*parsed);
  return r.spend(out.intervals().size(), sizeof(Interval));
}

const json::array* read_list(Reader& r, const json::value& v, std::size_t element_bytes) {
  const json::array* list = v.if_array();
  if (!list) {
    r.fail("must be a list");
    return nullptr;
  }
  return r.spend(list->size(), element_bytes) ? list : nullptr;
}

const json::object* read_object(Reader& r, const json::value& v) {
  const json::object* object = v.if_object();
  if (!object)
    r.fail("must be an object");
  return object;
}

bool Codec<bool>::read(Reader& r, const json::value& v, bool& out) {
  const bool* b = v.if_bool();
  if (!b)
    return r.fail("must be true or false");
  out = *b;
  return true;
}

// --- time ---

namespace {
// A stranger's times stay where sums of a few cannot overflow.
constexpr std::int64_t kStrangerUs = kForever.us;

bool read_us(Reader& r, const json::value& v, std::int64_t& out) {
  const std::int64_t bound = r.strict() ? kStrangerUs : INT64_MAX;
  return read_signed(r, v, r.strict() ? -bound : INT64_MIN, bound, out);
}
bool is_word(const json::value& v, std::string_view word) {
  const json::string* s = v.if_string();
  return s && std::string_view(s->data(), s->size()) == word;
}
}  // namespace

void Codec<Duration>::write(Writer& w, Duration v, Duration) {
  if (v == kForever)
    w.out += "\"forever\"";
  else
    append_number(w.out, v.us);
}
bool Codec<Duration>::read(Reader& r, const json::value& v, Duration& out) {
  if (is_word(v, "forever")) {
    out = kForever;
    return true;
  }
  return read_us(r, v, out.us);
}
void Codec<Instant>::write(Writer& w, Instant v, Instant) {
  if (v == kNever)
    w.out += "\"never\"";
  else
    append_number(w.out, v.us);
}
bool Codec<Instant>::read(Reader& r, const json::value& v, Instant& out) {
  if (is_word(v, "never")) {
    out = kNever;
    return true;
  }
  return read_us(r, v, out.us);
}
bool Codec<WallTime>::read(Reader& r, const json::value& v, WallTime& out) { return read_us(r, v, out.us); }

// --- sets, ranges and lists with a form of their own ---

void Codec<IntervalSet>::write(Writer& w, const IntervalSet& v, const IntervalSet&) {
  w.out += '"';
  char before = '"';
  for (const Interval& part : v.intervals()) {
    if (before != '"')
      w.out += before;
    before = ',';
    append_number(w.out, part.low);
    if (part.high != part.low)
      append_number(w.out += '-', part.high);
  }
  w.out += '"';
}

void Codec<CountRange>::write(Writer& w, const CountRange& v, const CountRange&) {
  append_number(w.out += "{\"min\":", v.min);
  append_number(w.out += ",\"max\":", v.max);
  w.out += '}';
}

bool Codec<CountRange>::read(Reader& r, const json::value& v, CountRange& out) {
  if (v.is_number()) {
    if (!Codec<std::uint32_t>::read(r, v, out.min))
      return false;
    out.max = out.min;
    return true;
  }
  const json::object* object = v.if_object();
  if (!object)
    return r.fail("must be a number or {\"min\":…,\"max\":…}");
  const json::value* low = object->if_contains("min");
  const json::value* high = object->if_contains("max");
  if (!low)
    return r.fail("needs \"min\"");
  if (!Codec<std::uint32_t>::read(r, *low, out.min))
    return r.under("min");
  out.max = out.min;
  if (high && !Codec<std::uint32_t>::read(r, *high, out.max))
    return r.under("max");
  if (r.strict() && out.max < out.min)
    return r.fail("has a max below its min");
  return true;
}

// As an object where that keeps their order, and nobody takes it for the name of a value that lies apart.
void Codec<TextPairs>::write(Writer& w, const TextPairs& v, const TextPairs&) {
  bool ascending = v.size() != 1 || v[0].first != kApartKey;
  for (std::size_t i = 1; i < v.size(); ++i) ascending = ascending && v[i - 1].first < v[i].first;
  char before = ascending ? '{' : '[';
  for (const auto& [name, text] : v) {
    w.out += std::exchange(before, ',');
    if (!ascending)
      w.out += '[';
    append_string(w.out, name);
    w.out += ascending ? ':' : ',';
    append_string(w.out, text);
    if (!ascending)
      w.out += ']';
  }
  if (v.empty())
    w.out += before;
  w.out += ascending ? '}' : ']';
}

bool Codec<TextPairs>::read(Reader& r, const json::value& v, TextPairs& out) {
  out.clear();
  if (const json::object* object = v.if_object()) {
    if (!r.spend(object->size(), sizeof(out[0])))
      return false;
    for (const auto& item : *object) {
      const std::string_view name(item.key().data(), item.key().size());
      auto& pair = out.emplace_back(unescape(name), std::string());
      if (!read_text(r, item.value(), pair.second))
        return r.under(name);
    }
    return true;
  }
  const json::array* list = v.if_array();
  if (!list)
    return r.fail("must be an object of strings or a list of pairs");
  if (!r.spend(list->size(), sizeof(out[0])))
    return false;
  using Pair = std::pair<std::string, std::string>;
  for (const json::value& item : *list)
    if (!Codec<Pair>::read(r, item, out.emplace_back()))
      return r.under(out.size() - 1);
  return true;
}

// --- documents ---

std::string_view id_apart(const Reader& r, const json::value& v) {
  if (!r.shared || !r.shared->names_apart)
    return {};
  const json::object* object = v.if_object();
  if (!object || object->size() != 1 || object->begin()->key() != kApartKey)
    return {};
  const json::string* id = object->begin()->value().if_string();
  return id ? std::string_view(id->data(), id->size()) : std::string_view();
}

void write_apart(std::string& out, std::string_view id) { out += format("{{\"{}\":\"{}\"}}", kApartKey, id); }

Result<void> with_document(std::string_view text, Reader& reader, bool (*read)(Reader&, const json::value&, void*),
                           void* into) {
  if (reader.strict() && text.size() > kFrameMax)
    return Error{
        Errc::kExhausted, format("a message of {} bytes is too large; {} are allowed", text.size(), kFrameMax), {}};
  if (reader.strict() && text.size() > kCountValuesAbove && too_many_values(text))
    return Error{Errc::kExhausted, format("a message holds at most {} values", kValuesMax), {}};
  try {
    std::array<unsigned char, 16384> first_block;
    json::monotonic_resource memory(first_block.data(), first_block.size());
    json::parse_options options;
    options.max_depth = kDepthMax;
    boost::system::error_code error;
    const json::value document = json::parse({text.data(), text.size()}, error, &memory, options);
    if (error)
      return invalid(format("not valid JSON: {}", error.message()));
    if (read(reader, document, into))
      return {};
    return reader.failure();
  } catch (const std::exception& e) {
    return Error{Errc::kExhausted, format("a message could not be read: {}", e.what()), {}};
  }
}

}  // namespace lockstep::wire
