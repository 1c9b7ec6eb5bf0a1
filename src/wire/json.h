// Internal to wire: how model values become JSON and come back.
//
// Codec<T> writes, reads and compares one type. A struct is described once, by a list of its fields (see fields.h), and
// that list serves all three. A field equal to its default is not written, and reading leaves what is absent at its
// default: records stay small, and old ones stay readable.
//
// JSON strings are Unicode; command lines and environments are bytes. A byte that is not part of valid UTF-8 is written
// as U+EF80 + (byte - 0x80), a private-use character, and comes back as that byte. Those 128 characters themselves are
// written as their three bytes, so that every byte string survives.
#pragma once

#include <boost/json/value.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/bitmap.h"
#include "base/interval_set.h"
#include "base/text.h"
#include "base/time.h"
#include "model/job.h"
#include "model/meta.h"
#include "model/spec_pool.h"
#include "wire/long_values.h"
#include "wire/words.h"

namespace lockstep::wire {

namespace json = boost::json;

// Parts that many records of one log entry share are written once, beside the records, which then hold an index.
template <class T>
struct SharedParts {
  std::vector<Ref<T>> parts;
  std::unordered_map<const T*, std::size_t> index;  // writing only

  std::size_t add(const Ref<T>& ref) {
    const auto [at, fresh] = index.try_emplace(ref.get(), parts.size());
    if (fresh)
      parts.push_back(ref);
    return at->second;
  }
};
struct Shared {
  SharedParts<JobSpec> job_specs;
  SharedParts<StepSpec> step_specs;
  SharedParts<Allocation> allocations;
  SpecPool* pool = nullptr;     // reading only: specs are shared with what else was read with it
  LongValues* apart = nullptr;  // null: every value is written in its place, and none that lies apart can be read
  bool names_apart = false;     // reading only: {"@":"<id>"} stands for a value that lies apart

  template <class T>
  SharedParts<T>* of() {
    if constexpr (std::is_same_v<T, JobSpec>)
      return &job_specs;
    else if constexpr (std::is_same_v<T, StepSpec>)
      return &step_specs;
    else if constexpr (std::is_same_v<T, Allocation>)
      return &allocations;
    else
      return nullptr;
  }
};

struct Writer {
  std::string out;
  Shared* shared = nullptr;
  LongValues* apart = nullptr;
};

void append_string(std::string& out, std::string_view bytes);  // quoted and escaped

template <class N>
void append_number(std::string& out, N number) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

// Who wrote the bytes. What strangers say is also range-checked and bounded; what we wrote ourselves must be readable
// whatever it holds, or a restart could not load it. Names that are not known are a later version's, and ignored; of a
// caller of the API they are mistakes, and refused.
enum class Origin : unsigned char { kStranger, kOurselves, kCaller };

struct Reader {
  Origin origin = Origin::kStranger;
  Shared* shared = nullptr;
  std::size_t budget_bytes = 512u << 20;  // of a stranger: see spend()
  std::string path, message;              // of the first failure

  bool strict() const { return origin != Origin::kOurselves; }
  bool fail(std::string why) {
    message = std::move(why);
    return false;
  }
  // On the way out of a failed read each level puts its own name in front of the path.
  bool under(std::string_view key);
  bool under(std::size_t index);
  // Counts the memory of list elements: a stranger's short "[{},{},…]" must not become gigabytes.
  bool spend(std::size_t count, std::size_t each_bytes);
  Error failure() const;  // of the failed read, with its path as the field
};

bool read_text(Reader& r, const json::value& v, std::string& out);
std::string unescape(std::string_view text);  // private-use characters back to bytes
bool read_signed(Reader& r, const json::value& v, std::int64_t low, std::int64_t high, std::int64_t& out);
bool read_unsigned(Reader& r, const json::value& v, std::uint64_t high, std::uint64_t& out);
bool read_word(Reader& r, const json::value& v, WordList words, std::size_t& out);
bool read_intervals(Reader& r, const json::value& v, IntervalSet& out);
const json::array* read_list(Reader& r, const json::value& v, std::size_t element_bytes);  // null: failed
const json::object* read_object(Reader& r, const json::value& v);                          // null: failed
bool only_known(Reader& r, const json::object& object, std::span<const std::string_view> names);

// Calls read(reader, document) on the parsed text; any failure becomes an Error with the path as its field.
Result<void> with_document(std::string_view text, Reader& reader, bool (*read)(Reader&, const json::value&, void*),
                           void* into);

template <class T>
struct StructCodec {
  static void write(Writer& w, const T& v, const T& base);
  static bool read(Reader& r, const json::value& v, T& out);
  static bool same(const T& a, const T& b);
};

template <class T>
struct Codec : StructCodec<T> {};

template <class T>
const T& default_of() {
  static const T value{};
  return value;
}

template <class T>
std::string encode_value(const T& value) {
  Writer w;
  Codec<T>::write(w, value, default_of<T>());
  return std::move(w.out);
}

template <class T>
Result<T> decode_value(std::string_view text, Origin origin) {
  Reader r{origin};
  T value{};
  TRY(with_document(
      text, r, [](Reader& r, const json::value& v, void* out) { return Codec<T>::read(r, v, *static_cast<T*>(out)); },
      &value));
  return value;
}

// --- long values, which lie apart from the log entries that name them (wire/long_values.h) ---

template <class T>
inline constexpr char kTypeMark = 0;  // its address stands for the type

inline constexpr std::string_view kApartKey = "@";
// "": the value stands in its place. Only our own log names others; to a caller {"@":"x"} is a pair like any other.
std::string_view id_apart(const Reader& r, const json::value& v);
void write_apart(std::string& out, std::string_view id);

// Writes a value by its id, or as write() does. hold() keeps it where it is.
template <class T, class Write, class Hold>
void write_long(Writer& w, const T& value, Write write, Hold hold) {
  if (!w.apart)
    return write();
  if (const std::string_view id = w.apart->id_of(&value); !id.empty())
    return write_apart(w.out, id);
  const std::size_t before = w.out.size();
  write();
  const std::string_view text = std::string_view(w.out).substr(before);
  if (const std::string_view id = w.apart->take(&value, &kTypeMark<T>, hold, text); !id.empty()) {
    w.out.resize(before);
    write_apart(w.out, id);
  }
}

template <class V>
const V* address_of(const SharedValue<V>& value) {
  return &value.get();
}
template <class V>
const V* address_of(const Ref<V>& value) {
  return value.get();
}

// Reads a value of which the record holds the id; make(value) gives what keeps it.
template <class Holder, class T, class Make>
bool read_long(Reader& r, std::string_view id, Holder& out, Make make) {
  if (!r.shared->apart)
    return r.fail("names a value that lies apart");
  LongValues& apart = *r.shared->apart;
  const std::string name(id);
  if (const auto known = apart.find(name, &kTypeMark<T>)) {
    out = *std::static_pointer_cast<const Holder>(known);
    return true;
  }
  const auto text = apart.text(name);
  if (!text.ok())
    return r.fail(text.error().message);
  auto value = decode_value<T>(*text, Origin::kOurselves);
  if (!value.ok())
    return r.fail("apart: " + value.error().message);
  const auto holder = std::make_shared<const Holder>(make(std::move(*value)));
  out = *holder;
  apart.found(name, &kTypeMark<T>, address_of(out), holder);
  return true;
}

// --- simple values ---

template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct Codec<T> {
  static void write(Writer& w, T v, T) { append_number(w.out, v); }
  static bool read(Reader& r, const json::value& v, T& out) {
    if constexpr (std::is_signed_v<T>) {
      std::int64_t wide = 0;
      if (!read_signed(r, v, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), wide))
        return false;
      out = static_cast<T>(wide);
    } else {
      std::uint64_t wide = 0;
      if (!read_unsigned(r, v, std::numeric_limits<T>::max(), wide))
        return false;
      out = static_cast<T>(wide);
    }
    return true;
  }
  static bool same(T a, T b) { return a == b; }
};

template <>
struct Codec<bool> {
  static void write(Writer& w, bool v, bool) { w.out += v ? "true" : "false"; }
  static bool read(Reader& r, const json::value& v, bool& out);
  static bool same(bool a, bool b) { return a == b; }
};

template <>
struct Codec<std::string> {
  static void write(Writer& w, const std::string& v, const std::string&) { append_string(w.out, v); }
  static bool read(Reader& r, const json::value& v, std::string& out) { return read_text(r, v, out); }
  static bool same(const std::string& a, const std::string& b) { return a == b; }
};

template <class T, class Value>
struct SharedCodec {
  static void write(Writer& w, const T& v, const T& base) {
    write_long(
        w, v.get(), [&] { Codec<Value>::write(w, v.get(), base.get()); }, [&] { return std::make_shared<const T>(v); });
  }
  static bool read(Reader& r, const json::value& v, T& out) {
    if (const std::string_view id = id_apart(r, v); !id.empty())
      return read_long<T, Value>(r, id, out, [](Value value) { return T(std::move(value)); });
    Value value;
    if (!Codec<Value>::read(r, v, value))
      return false;
    out = std::move(value);
    return true;
  }
  static bool same(const T& a, const T& b) { return a.shares_with(b) || Codec<Value>::same(a.get(), b.get()); }
};
template <>
struct Codec<SharedText> : SharedCodec<SharedText, std::string> {};
template <class T>
struct Codec<SharedList<T>> : SharedCodec<SharedList<T>, std::vector<T>> {};

template <class E>
requires std::is_enum_v<E>
struct Codec<E> {
  static void write(Writer& w, E v, E) { (w.out += '"').append(word(v)) += '"'; }
  static bool read(Reader& r, const json::value& v, E& out) {
    std::size_t i = 0;
    if (!read_word(r, v, words_of(E{}), i))
      return false;
    out = static_cast<E>(i);
    return true;
  }
  static bool same(E a, E b) { return a == b; }
};

template <class Tag, class Rep>
struct Codec<Id<Tag, Rep>> {
  using T = Id<Tag, Rep>;
  static void write(Writer& w, T v, T) { append_number(w.out, v.value); }
  static bool read(Reader& r, const json::value& v, T& out) { return Codec<Rep>::read(r, v, out.value); }
  static bool same(T a, T b) { return a == b; }
};

// Times are microseconds; the two ends of time are words.
template <>
struct Codec<Duration> {
  static void write(Writer& w, Duration v, Duration);
  static bool read(Reader& r, const json::value& v, Duration& out);
  static bool same(Duration a, Duration b) { return a == b; }
};
template <>
struct Codec<Instant> {
  static void write(Writer& w, Instant v, Instant);
  static bool read(Reader& r, const json::value& v, Instant& out);
  static bool same(Instant a, Instant b) { return a == b; }
};
template <>
struct Codec<WallTime> {
  static void write(Writer& w, WallTime v, WallTime) { append_number(w.out, v.us); }
  static bool read(Reader& r, const json::value& v, WallTime& out);
  static bool same(WallTime a, WallTime b) { return a == b; }
};

// Sets of numbers are text: "0-7,12".
template <>
struct Codec<IntervalSet> {
  static void write(Writer& w, const IntervalSet& v, const IntervalSet&);
  static bool read(Reader& r, const json::value& v, IntervalSet& out) { return read_intervals(r, v, out); }
  static bool same(const IntervalSet& a, const IntervalSet& b) { return a == b; }
};
template <std::uint32_t kBits>
struct Codec<Bitmap<kBits>> {
  using T = Bitmap<kBits>;
  static void write(Writer& w, const T& v, const T&) {
    w.out += '"';
    std::uint32_t low = 0, next = 0;  // the run [low, next)
    const auto close = [&] {
      if (next == low)
        return;
      if (w.out.back() != '"')
        w.out += ',';
      append_number(w.out, low);
      if (next - low > 1)
        append_number(w.out += '-', next - 1);
    };
    v.for_each([&](std::uint32_t i) {
      if (i != next || next == low)
        close(), low = i;
      next = i + 1;
    });
    close();
    w.out += '"';
  }
  static bool read(Reader& r, const json::value& v, T& out) {
    IntervalSet set;
    if (!read_intervals(r, v, set))
      return false;
    out = T{};
    if (set.empty())
      return true;
    if (set.back() >= kBits)
      return r.fail(format("must hold numbers below {}", kBits));
    for (const Interval& part : set.intervals())
      for (std::uint32_t i = part.low; i <= part.high; ++i) out.set(i);
    return true;
  }
  static bool same(const T& a, const T& b) { return a == b; }
};

// {"min":2,"max":4}; a plain number is both.
template <>
struct Codec<CountRange> {
  static void write(Writer& w, const CountRange& v, const CountRange&);
  static bool read(Reader& r, const json::value& v, CountRange& out);
  static bool same(const CountRange& a, const CountRange& b) { return a == b; }
};

// --- compositions ---

template <class T>
struct Codec<std::vector<T>> {
  using V = std::vector<T>;
  static void write(Writer& w, const V& v, const V&) {
    w.out += '[';
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (i)
        w.out += ',';
      Codec<T>::write(w, v[i], default_of<T>());
    }
    w.out += ']';
  }
  static bool read(Reader& r, const json::value& v, V& out) {
    const json::array* list = read_list(r, v, sizeof(T));
    if (!list)
      return false;
    out.clear();
    out.reserve(list->size());
    for (const json::value& item : *list)
      if (!Codec<T>::read(r, item, out.emplace_back()))
        return r.under(out.size() - 1);
    return true;
  }
  static bool same(const V& a, const V& b) {
    if (a.size() != b.size())
      return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!Codec<T>::same(a[i], b[i]))
        return false;
    return true;
  }
};

// Name and text: an object when the names ascend (so the order survives), else a list of pairs. Both are read.
using TextPairs = std::vector<std::pair<std::string, std::string>>;
template <>
struct Codec<TextPairs> {
  static void write(Writer& w, const TextPairs& v, const TextPairs&);
  static bool read(Reader& r, const json::value& v, TextPairs& out);
  static bool same(const TextPairs& a, const TextPairs& b) { return a == b; }
};

// Pairs and tuples are lists.
template <class Tuple, std::size_t... I>
bool read_tuple(Reader& r, const json::value& v, Tuple& out, std::index_sequence<I...>) {
  const json::array* list = read_list(r, v, 0);
  if (!list)
    return false;
  if (list->size() != sizeof...(I))
    return r.fail(format("must be a list of {}", sizeof...(I)));
  return ((Codec<std::tuple_element_t<I, Tuple>>::read(r, (*list)[I], std::get<I>(out)) || r.under(I)) && ...);
}
template <class Tuple>
struct TupleCodec {
  static constexpr auto kIndices = std::make_index_sequence<std::tuple_size_v<Tuple>>{};
  static void write(Writer& w, const Tuple& v, const Tuple&) {
    std::apply(
        [&w](const auto&... part) {
          char before = '[';
          ((w.out += std::exchange(before, ','), Codec<std::remove_cvref_t<decltype(part)>>::write(
                                                     w, part, default_of<std::remove_cvref_t<decltype(part)>>())),
           ...);
        },
        v);
    w.out += ']';
  }
  static bool read(Reader& r, const json::value& v, Tuple& out) { return read_tuple(r, v, out, kIndices); }
  static bool same(const Tuple& a, const Tuple& b) { return a == b; }
};
template <class A, class B>
struct Codec<std::pair<A, B>> : TupleCodec<std::pair<A, B>> {};
template <class... A>
struct Codec<std::tuple<A...>> : TupleCodec<std::tuple<A...>> {};

template <class T>
struct Codec<std::optional<T>> {
  using O = std::optional<T>;
  static void write(Writer& w, const O& v, const O&) {
    if (v)
      Codec<T>::write(w, *v, default_of<T>());
    else
      w.out += "null";
  }
  static bool read(Reader& r, const json::value& v, O& out) {
    out.reset();
    return v.is_null() || Codec<T>::read(r, v, out.emplace());
  }
  static bool same(const O& a, const O& b) { return !a && !b; }  // written whenever set, even to a default
};

template <class T>
struct Codec<Ref<T>> {
  static void write(Writer& w, const Ref<T>& v, const Ref<T>&) {
    if (!v) {
      w.out += "null";
      return;
    }
    if (w.shared) {
      if (auto* parts = w.shared->template of<T>()) {
        append_number(w.out, static_cast<SharedParts<T>*>(parts)->add(v));
        return;
      }
    }
    Codec<T>::write(w, *v, default_of<T>());
  }
  static bool read(Reader& r, const json::value& v, Ref<T>& out) {
    out = nullptr;
    if (v.is_null())
      return true;
    if (r.shared && v.is_number()) {
      if (auto* parts = r.shared->template of<T>()) {
        const auto& all = static_cast<SharedParts<T>*>(parts)->parts;
        std::uint64_t i = 0;
        if (!read_unsigned(r, v, all.size(), i))
          return false;
        if (i == all.size())
          return r.fail("names a shared part that is not there");
        out = all[i];
        return true;
      }
    }
    auto fresh = std::make_shared<T>();
    if (!Codec<T>::read(r, v, *fresh))
      return false;
    out = std::move(fresh);
    return true;
  }
  static bool same(const Ref<T>& a, const Ref<T>& b) { return a == b; }
};

// {"name of the alternative":{…}}
template <class... T>
struct Codec<std::variant<T...>> {
  using V = std::variant<T...>;
  static void write(Writer& w, const V& v, const V&) {
    (w.out += "{\"").append(words_of(static_cast<const V*>(nullptr))[v.index()]) += "\":";
    std::visit([&w]<class A>(const A& body) { Codec<A>::write(w, body, default_of<A>()); }, v);
    w.out += '}';
  }
  static bool read(Reader& r, const json::value& v, V& out) {
    const json::object* object = read_object(r, v);
    if (!object)
      return false;
    const WordList words = words_of(static_cast<const V*>(nullptr));
    for (const auto& member : *object) {
      const std::string_view name(member.key().data(), member.key().size());
      bool known = false, good = false;
      const auto attempt = [&]<class A>(std::size_t i, std::type_identity<A>) {
        if (known || words[i] != name)
          return;
        known = true;
        good = Codec<A>::read(r, member.value(), out.template emplace<A>()) || r.under(words[i]);
      };
      std::size_t i = 0;
      (attempt(i++, std::type_identity<T>{}), ...);
      if (known)
        return good;  // further names are a later version's
    }
    return r.fail(format("must name one of {}", fmt_words(words)));
  }
  static bool same(const V&, const V&) { return false; }  // always written

 private:
  static std::string fmt_words(WordList words) {
    std::string out;
    for (const auto word : words) (out += out.empty() ? "\"" : ", \"").append(word) += '"';
    return out;
  }
};

}  // namespace lockstep::wire
