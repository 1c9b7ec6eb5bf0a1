// For tests: any described type filled at random, every field of it, from a seeded Rng. Values keep to what a stranger
// may say, so that they survive the strict decoders too.
#pragma once

#include "base/characters.h"
#include "base/rng.h"
#include "model/job_fields.h"
#include "model/record_fields.h"
#include "wire/agent_fields.h"
#include "wire/api_fields.h"

namespace lockstep::wire {

inline constexpr auto kEncode = [](const auto& value) { return encode(value); };

constexpr std::uint32_t kListMax = 4;  // elements of a random list

template <class T>
struct Random;

template <class T>
T random_value(Rng& rng) {
  T value{};
  Random<T>::fill(rng, value);
  return value;
}

inline std::int64_t random_within(Rng& rng, std::int64_t low, std::int64_t high) {
  switch (rng.below(4)) {
    case 0: return low;
    case 1: return high;
    case 2: return rng.between(low, high);
    default: return low > 0 ? low : std::min<std::int64_t>(high, static_cast<std::int64_t>(rng.below(100)));
  }
}

// Whole values that the decoders would refuse are mended; by default there is nothing to mend.
template <class T>
void mend(T&) {}
inline void mend(JobSpec& spec) {
  if (spec.groups.empty())
    spec.groups.emplace_back();
  if (unacceptable(spec))
    for (auto* paths : {&spec.stage_in, &spec.stage_out})
      *paths = std::vector<StagedPath>(paths->get().size(), StagedPath{"from", "to"});
}
inline void mend(SubmitRequest& request) {
  mend(request.spec);
  if (unacceptable(request))
    request.environment.clear();
}
inline void mend(ArrayAsk& ask) {
  if (ask.indices.empty())
    ask.indices.insert(7);
}
inline void mend(LaunchStep& launch) {
  launch.argv_by_rank.resize(launch.argv_by_rank.empty() ? 0 : launch.ranks.size());
  launch.cores_by_rank.resize(launch.cores_by_rank.empty() ? 0 : launch.ranks.size());
  launch.env_by_rank.resize(launch.env_by_rank.empty() ? 0 : launch.ranks.size());
}
inline void mend(Hello& hello) { mend(hello.facts); }
inline void mend(Step& step) {  // a record that is read back holds a spec
  if (!step.spec)
    step.spec = std::make_shared<StepSpec>();
}
inline void mend(Job& job) {
  if (!job.spec)
    job.spec = std::make_shared<JobSpec>();
}

// Now and then a text or list is one too large for its field.
inline thread_local bool random_beyond_bounds = false;

// Brings what was filled at random to what its field may hold: now and then exactly to the bound.
class RandomSize {
 public:
  explicit RandomSize(Rng& rng) : rng_(rng) {}

  template <class M, class How>
  void fit(M&, const How&) {}
  template <class T, class How>
  void fit(std::optional<T>& value, const How& how) {
    if (value)
      fit(*value, how);
  }
  void fit(SharedText& text, const Text& how) { fit(text.edit(), how); }
  template <class T, class How>
  void fit(SharedList<T>& list, const How& how) {
    fit(list.edit(), how);
  }
  void fit(std::string& text, const Text& how) {
    if (how.bytes_max <= kFilledMax && rng_.chance(0.02))
      text.resize(how.bytes_max, 'x');
    if (text.size() > how.bytes_max)
      text.resize(how.bytes_max);
    if (how.refuses(text))
      plain(text);
    if (beyond())
      text.resize(how.bytes_max + 1, 'y');
  }
  void fit(std::vector<std::string>& list, const Texts& how) {
    if (how.entries_max <= kFilledMax && rng_.chance(0.02))
      list.resize(how.entries_max);
    for (std::string& text : list) fit(text, {std::min<std::size_t>(how.each.bytes_max, 64), how.each.characters});
    if (beyond())
      list.resize(how.entries_max + 1);
  }
  void fit(TextPairs& list, const Pairs& how) {
    for (auto& [name, text] : list) {
      if (control_character_in(name))
        plain(name);
      if (how.texts != Characters::kAny)
        plain(text);
    }
    if (beyond())
      list.resize(how.entries_max + 1);
  }
  template <class T>
  void fit(std::vector<T>& list, const Items& how) {
    if (beyond())
      list.resize(how.entries_max + 1);
  }

 private:
  static constexpr std::size_t kFilledMax = 4096;
  bool beyond() { return random_beyond_bounds && rng_.chance(0.01); }
  static void plain(std::string& text) {
    for (char& c : text) c = static_cast<char>('a' + static_cast<unsigned char>(c) % 26);
  }

  Rng& rng_;
};

template <class T>
class FieldFill {
 public:
  FieldFill(Rng& rng, T& value) : rng_(rng), value_(value) {}

  template <class Of, class M, class How = Plain>
  void operator()(std::string_view key, M Of::*member, const How& how = {}) {
    for (const auto& [name, address] : seen_)
      CHECK(name != key && address != &(value_.*member), "a field is listed twice");
    seen_.emplace_back(key, &(value_.*member));
    if (rng_.chance(0.25))
      return;  // stays at its default
    fill(value_.*member, bound_of(how));
  }
  template <class Of, class M, class How = Plain>
  void always(std::string_view key, M Of::*member, const How& how = {}) {
    (*this)(key, member, how);
  }

 private:
  template <class M, class How>
  void fill(M& member, const How& how) {
    if constexpr (std::is_same_v<How, Between>) {
      bounded(member, how);
    } else {
      Random<M>::fill(rng_, member);
      RandomSize(rng_).fit(member, how);
    }
  }
  void bounded(Duration& d, const Between& b) { d.us = random_within(rng_, b.low, b.high); }
  template <class N>
  void bounded(std::optional<N>& n, const Between& b) {
    bounded(n.emplace(), b);
  }
  template <class N>
  requires std::is_integral_v<N>
  void bounded(N& n, const Between& b) { n = static_cast<N>(random_within(rng_, b.low, b.high)); }

  Rng& rng_;
  T& value_;
  std::vector<std::pair<std::string_view, const void*>> seen_;
};

template <class T>
struct Random {
  static void fill(Rng& rng, T& value) {
    FieldFill<T> fields(rng, value);
    describe(fields, static_cast<const T*>(nullptr));
    mend(value);
  }
};

template <class T>
requires(std::is_integral_v<T>) struct Random<T> {
  static void fill(Rng& rng, T& value) {
    switch (rng.below(4)) {
      case 0: value = std::numeric_limits<T>::max(); break;
      case 1: value = std::numeric_limits<T>::min(); break;
      case 2: value = static_cast<T>(rng.below(100)); break;
      default: value = static_cast<T>(rng.next()); break;
    }
  }
};
template <>
struct Random<bool> {
  static void fill(Rng& rng, bool& value) { value = rng.chance(0.5); }
};
template <class E>
requires std::is_enum_v<E>
struct Random<E> {
  static void fill(Rng& rng, E& value) { value = static_cast<E>(rng.below(words_of(E{}).size())); }
};
template <class Tag, class Rep>
struct Random<Id<Tag, Rep>> {
  static void fill(Rng& rng, Id<Tag, Rep>& value) { Random<Rep>::fill(rng, value.value); }
};
template <>
struct Random<Duration> {
  static void fill(Rng& rng, Duration& d) { d.us = random_within(rng, -kForever.us, kForever.us); }
};
template <>
struct Random<Instant> {
  static void fill(Rng& rng, Instant& t) {
    t = rng.chance(0.2) ? kNever : Instant{random_within(rng, -kForever.us, kForever.us)};
  }
};
template <>
struct Random<WallTime> {
  static void fill(Rng& rng, WallTime& t) { t.us = random_within(rng, -kForever.us, kForever.us); }
};

// Words, bytes of every kind, and the characters that stand for bytes.
template <>
struct Random<std::string> {
  static void fill(Rng& rng, std::string& text) {
    constexpr std::string_view kPieces[] = {"n1",
                                            "train",
                                            "\"",
                                            "\\",
                                            "\n\t\r\b\f",
                                            "ü€𝄞",
                                            "\xff\xfe",
                                            "\xed\xa0\x80",
                                            "\xee\xbe\x80",
                                            "\xee\xbf\xbf",
                                            "\xc0\xaf",
                                            "\x7f\x01",
                                            "\xf4\x90\x80\x80",
                                            "\xe2\x82",
                                            "</script>"};
    text.clear();
    for (std::uint64_t n = rng.below(5); n > 0; --n) {
      switch (rng.below(3)) {
        case 0: text += kPieces[rng.below(std::size(kPieces))]; break;
        case 1: text += static_cast<char>(rng.below(256)); break;
        default: text += static_cast<char>('a' + rng.below(26)); break;
      }
    }
  }
};
template <>
struct Random<SharedText> {
  static void fill(Rng& rng, SharedText& text) { Random<std::string>::fill(rng, text.edit()); }
};
template <class T>
struct Random<SharedList<T>> {
  static void fill(Rng& rng, SharedList<T>& list) { Random<std::vector<T>>::fill(rng, list.edit()); }
};
template <>
struct Random<IntervalSet> {
  static void fill(Rng& rng, IntervalSet& set) {
    for (std::uint64_t n = rng.below(kListMax); n > 0; --n) {
      const auto low = static_cast<std::uint32_t>(rng.below(1000));
      set.insert(low, low + static_cast<std::uint32_t>(rng.below(20)));
    }
    if (rng.chance(0.1))
      set.insert(UINT32_MAX - 3, UINT32_MAX);
  }
};
template <std::uint32_t kBits>
struct Random<Bitmap<kBits>> {
  static void fill(Rng& rng, Bitmap<kBits>& bits) {
    for (std::uint32_t i = 0; i < kBits; ++i)
      if (rng.chance(0.3))
        bits.set(i);
  }
};
template <>
struct Random<CountRange> {
  static void fill(Rng& rng, CountRange& range) {
    Random<std::uint32_t>::fill(rng, range.min);
    range.max = rng.chance(0.5) ? range.min : UINT32_MAX;
  }
};
template <class T>
struct Random<std::vector<T>> {
  static void fill(Rng& rng, std::vector<T>& list) {
    for (std::uint64_t n = rng.below(kListMax); n > 0; --n) {
      T item{};
      Random<T>::fill(rng, item);
      list.push_back(std::move(item));
    }
    if constexpr (requires(T a) { a < a; })
      if (rng.chance(0.5))
        std::sort(list.begin(), list.end());
  }
};
template <class A, class B>
struct Random<std::pair<A, B>> {
  static void fill(Rng& rng, std::pair<A, B>& pair) {
    Random<A>::fill(rng, pair.first);
    Random<B>::fill(rng, pair.second);
  }
};
template <class... A>
struct Random<std::tuple<A...>> {
  static void fill(Rng& rng, std::tuple<A...>& tuple) {
    std::apply([&rng](auto&... part) { (Random<std::remove_cvref_t<decltype(part)>>::fill(rng, part), ...); }, tuple);
  }
};
template <class T>
struct Random<std::optional<T>> {
  static void fill(Rng& rng, std::optional<T>& value) { Random<T>::fill(rng, value.emplace()); }
};
template <class T>
struct Random<Ref<T>> {
  static void fill(Rng& rng, Ref<T>& value) { value = std::make_shared<const T>(random_value<T>(rng)); }
};
template <class... T>
struct Random<std::variant<T...>> {
  static void fill(Rng& rng, std::variant<T...>& value) {
    const std::uint64_t which = rng.below(sizeof...(T));
    std::uint64_t i = 0;
    ((i++ == which ? static_cast<void>(value = random_value<T>(rng)) : static_cast<void>(0)), ...);
  }
};

template <>
struct Random<Change> {
  static void fill(Rng& rng, Change& change) {
    Random<Record>::fill(rng, change.record);
    change.seq = rng.chance(0.5) ? meta_of(change.record).seq : rng.next();
    change.removed = rng.chance(0.2);
  }
};

}  // namespace lockstep::wire
