// What a record is said to take in the log is at least what it takes, whatever is in it: every field of every record,
// filled to excess. A field that model/weight.cpp forgets shows here.
#include "model/weight.h"

#include <gtest/gtest.h>

#include "model/bounds.h"
#include "wire/random_value.h"

namespace lockstep::wire {
namespace {

// Fills everything that can be long with much.
template <class T>
void fill(Rng& rng, T& value);

template <class T>
class ExcessFields {
 public:
  ExcessFields(Rng& rng, T& value) : rng_(rng), value_(value) {}
  template <class Of, class M, class How = Plain>
  void operator()(std::string_view, M Of::*member, const How& = {}) {
    fill(rng_, value_.*member);
  }
  template <class Of, class M, class How = Plain>
  void always(std::string_view key, M Of::*member, const How& how = {}) {
    (*this)(key, member, how);
  }

 private:
  Rng& rng_;
  T& value_;
};

// Structs with a list of fields; the others have a form of their own.
template <class T>
constexpr bool described() {
  if constexpr (std::is_class_v<T>)
    return requires(ExcessFields<T> & fields) { describe(fields, static_cast<const T*>(nullptr)); };
  else
    return false;
}

template <class T>
struct Excess {
  static void fill(Rng& rng, T& value) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      value = std::numeric_limits<T>::max();
    } else if constexpr (described<T>()) {
      ExcessFields<T> fields(rng, value);
      describe(fields, static_cast<const T*>(nullptr));
    } else {
      Random<T>::fill(rng, value);
    }
  }
};
template <>
struct Excess<std::string> {
  static void fill(Rng& rng, std::string& text) {
    constexpr char kBytes[] = {'a', '"', '\\', '\x01', '\n', '\xff', '\x7f'};
    text.assign(rng.below(2000), kBytes[rng.below(std::size(kBytes))]);
  }
};
template <>
struct Excess<SharedText> {
  static void fill(Rng& rng, SharedText& text) { Excess<std::string>::fill(rng, text.edit()); }
};
template <>
struct Excess<Duration> {
  static void fill(Rng&, Duration& d) { d.us = INT64_MIN; }
};
template <>
struct Excess<Instant> {
  static void fill(Rng&, Instant& t) { t.us = INT64_MIN; }
};
template <>
struct Excess<IntervalSet> {
  static void fill(Rng& rng, IntervalSet& set) {
    for (std::uint32_t n = static_cast<std::uint32_t>(rng.below(300)); n > 0; --n)
      set.insert(4'000'000'000u + n * 1000, 4'000'000'000u + n * 1000 + static_cast<std::uint32_t>(rng.below(2)));
  }
};
template <class T>
struct Excess<std::vector<T>> {
  static void fill(Rng& rng, std::vector<T>& list) {
    list.resize(rng.below(std::is_integral_v<T> ? 400 : 12));
    for (T& item : list) Excess<T>::fill(rng, item);
    if constexpr (std::is_integral_v<T>)
      for (std::size_t i = 0; i < list.size(); ++i)
        list[i] = static_cast<T>(rng.chance(0.5) ? i : std::numeric_limits<T>::max() - rng.below(9));
  }
};
template <class T>
struct Excess<SharedList<T>> {
  static void fill(Rng& rng, SharedList<T>& list) { Excess<std::vector<T>>::fill(rng, list.edit()); }
};
template <class A, class B>
struct Excess<std::pair<A, B>> {
  static void fill(Rng& rng, std::pair<A, B>& pair) {
    Excess<A>::fill(rng, pair.first);
    Excess<B>::fill(rng, pair.second);
  }
};
template <class T>
struct Excess<std::optional<T>> {
  static void fill(Rng& rng, std::optional<T>& value) { Excess<T>::fill(rng, value.emplace()); }
};
template <class T>
struct Excess<Ref<T>> {
  static void fill(Rng& rng, Ref<T>& value) {
    auto fresh = std::make_shared<T>();
    Excess<T>::fill(rng, *fresh);
    value = std::move(fresh);
  }
};
template <class T>
void fill(Rng& rng, T& value) {
  Excess<T>::fill(rng, value);
}

std::size_t stored(const Record& record) { return encode_entry({{{1, record, false}}, {}, {}}).size(); }

template <std::size_t... I>
void for_each_kind(Rng& rng, std::index_sequence<I...>, auto see) {
  const auto one = [&]<class T>(std::type_identity<Ref<T>>) {
    Ref<T> random, excessive;
    Random<Ref<T>>::fill(rng, random);
    Excess<Ref<T>>::fill(rng, excessive);
    see(Record(random));
    see(Record(excessive));
  };
  (one(std::type_identity<std::variant_alternative_t<I, Record>>{}), ...);
}

TEST(Weight, IsNeverLessThanWhatIsWritten) {
  Rng rng(5);
  RecordScale scale;
  for (int round = 0; round < 60; ++round)
    for_each_kind(rng, std::make_index_sequence<std::variant_size_v<Record>>{}, [&](const Record& record) {
      const std::size_t bytes = stored(record), most = stored_bytes_at_most(record).bytes;
      ASSERT_GE(most, bytes) << text_of(kind_of(record));
      ASSERT_GE(scale.weigh(record, kRecordBytesMax).bytes, bytes);
      const Weight close = scale.weigh(record, 1);
      ASSERT_GE(close.bytes, bytes);
      ASSERT_LE(close.bytes, most + (128 << 10));
    });
}

TEST(Weight, IsCloseWhereItMatters) {
  auto spec = std::make_shared<JobSpec>();
  spec->groups.resize(1);
  auto job = std::make_shared<Job>();
  for (int i = 0; i < 130'000; ++i) spec->groups[0].argv.push_back(format("{}", 1'000'000 + i));
  job->spec = spec;
  auto allocation = std::make_shared<Allocation>();
  for (std::uint32_t n = 1; n <= 11'000; ++n) {
    Grant grant{.node = NodeId(n), .tasks = 8, .memory_mb = 500'000};
    grant.cores = CoreSet::first_n(64);
    grant.devices = DeviceSet::first_n(8);
    allocation->grants.push_back(grant);
  }
  job->allocation = allocation;
  job->members.resize(11'000);
  const Record record = Ref<Job>(job);
  const std::size_t bytes = stored(record);
  EXPECT_GE(stored_bytes_at_most(record).bytes, bytes);
  EXPECT_LE(stored_bytes_at_most(record).bytes, bytes + bytes / 5) << bytes;
  EXPECT_STREQ(stored_bytes_at_most(record).heaviest, "argv");
}

TEST(Weight, AnArgumentOfThreeMegabytesFitsAndOneOfFiveDoesNot) {
  RecordScale scale;
  for (const std::size_t megabytes : {3, 5}) {
    auto spec = std::make_shared<StepSpec>();
    spec->argv = {std::string(megabytes << 20, 'x')};
    auto step = std::make_shared<Step>();
    step->spec = spec;
    EXPECT_EQ(scale.weigh(Ref<Step>(step), kRecordBytesMax).bytes <= kRecordBytesMax, megabytes == 3);
  }
}

// The same place in memory may hold another spec later.
TEST(Weight, ASpecThatIsGoneIsNotTakenForAnother) {
  RecordScale scale;
  for (int round = 0; round < 50; ++round) {
    auto spec = std::make_shared<JobSpec>();
    spec->comment = std::string(static_cast<std::size_t>(round + 1) * 20'000, 'c');
    auto job = std::make_shared<Job>();
    job->spec = spec;
    ASSERT_GE(scale.weigh(Ref<Job>(job), 1).bytes, spec->comment.size());
  }
}

}  // namespace
}  // namespace lockstep::wire
