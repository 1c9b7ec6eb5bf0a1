// Walks the lists of fields: at its bound every field passes, beyond it the field is refused by name, at the door and
// in the core. That each text and list states a bound at all, the compiler checks.
#include <gtest/gtest.h>

#include "model/command_fields.h"
#include "model/faults.h"
#include "model/kinds.h"
#include "wire/random_value.h"

namespace lockstep::wire {
namespace {

template <class... T>
struct Types {};

// What strangers say, and what is in it. The core applies all but the last lines, which only the door sees.
using Applied =
    Types<DeviceAsk, Counted, DevicePart, Resources, Port, Probe, Mount, Container, SandboxContainer, Sandbox,
          GroupSpec, Dependency, SignalAhead, JobSpec, NamedCount, Tres, TresLimit, TresWeight, Limits, Quota, Account,
          Association, Qos, Licence, Policy, Reservation, OwnerRef, MetaExtra, Meta, User, TopologyLeaf, Topology,
          Partition, Device, Node, JoinToken, StepSpec, Object, ArrayAsk, JobTarget, UpdateJob, UpdateNode>;
using OnlyRead =
    Types<SubmitRequest, StepRequest, CancelJob, CancelMany, SignalStep, TokenRequest, JoinRequest, Holding, Hello,
          Renew, LaunchFailed, ScriptEnded, StepEnded, TaskContainers, ContainerStatus, TaskResult, ExitStatus>;
// Records, and their parts that we work out ourselves.
using Kept = Types<
#define KIND(type, name, word, table, count, seen) type,
#include "model/kinds.def"
    Grant, Allocation, Promise, Eviction, ArrayState, StepPlace, PackingClass>;

// --- every text and list states how much it may hold ---

template <class M>
inline constexpr bool kGrows = false;
template <>
inline constexpr bool kGrows<std::string> = true;
template <>
inline constexpr bool kGrows<SharedText> = true;
template <>
inline constexpr bool kGrows<IntervalSet> = true;
template <class T>
inline constexpr bool kGrows<std::vector<T>> = true;
template <class T>
inline constexpr bool kGrows<SharedList<T>> = true;
template <class T>
inline constexpr bool kGrows<std::optional<T>> = kGrows<T>;

struct StatesBounds {
  bool all = true;
  template <class M, class T, class How = Plain>
  constexpr void operator()(std::string_view, M T::*, const How& = {}) {
    all = all && !(kGrows<M> && std::is_same_v<std::decay_t<decltype(bound_of(How{}))>, Plain>);
  }
  template <class M, class T, class How = Plain>
  constexpr void always(std::string_view key, M T::*member, const How& how = {}) {
    (*this)(key, member, how);
  }
};
template <class T>
constexpr bool states_bounds() {
  StatesBounds fields;
  describe(fields, static_cast<const T*>(nullptr));
  return fields.all;
}
template <class... T>
constexpr bool all_state_bounds(Types<T...>) {
  return (states_bounds<T>() && ...);
}
static_assert(all_state_bounds(Applied{}) && all_state_bounds(OnlyRead{}) && all_state_bounds(Kept{}),
              "a text or list says nothing of how much it may hold: name its bound in the list of fields");

// --- at the bound, and beyond ---

template <class M>
struct Sample {
  M value;
  bool fine = true;
  std::string where = {};  // within the field
};

template <class M, class V>
M made(V value) {
  if constexpr (std::is_same_v<M, V>)
    return value;
  else
    return M(std::move(value));
}

template <class M>
std::vector<Sample<M>> samples(const Text& how) {
  std::vector<Sample<M>> out;
  const auto add = [&](std::string text, bool fine) { out.push_back({made<M>(std::move(text)), fine}); };
  add(std::string(how.bytes_max, 'x'), true);
  add(std::string(how.bytes_max + 1, 'x'), false);
  add("a\x1b[2Jb", how.characters == Characters::kAny);
  add("a\xc2\x9b"
      "2J",
      how.characters == Characters::kAny);
  add("a\x7f", how.characters == Characters::kAny);
  add("line\n\tline", how.characters != Characters::kName);
  return out;
}

template <class M>
std::vector<Sample<M>> samples(const Texts& how) {
  std::vector<Sample<M>> out;
  const auto add = [&](std::vector<std::string> list, bool fine, std::string where = {}) {
    out.push_back({made<M>(std::move(list)), fine, std::move(where)});
  };
  add(std::vector<std::string>(how.entries_max), true);
  add(std::vector<std::string>(how.entries_max + 1), false);
  const std::size_t each = std::min(how.each.bytes_max, how.bytes_max);
  std::vector<std::string> full(how.bytes_max / each, std::string(each, 'x'));
  if (full.size() < how.entries_max) {
    add(full, true);
    full.emplace_back("x");
    add(full, false);
  }
  add({"fine", std::string(how.each.bytes_max + 1, 'x')}, false, how.each.bytes_max < how.bytes_max ? "[1]" : "?");
  if (how.each.characters == Characters::kName)
    add({"fine", "a\x1b[2J"}, false, "[1]");
  return out;
}

template <class M>
std::vector<Sample<M>> samples(const Pairs& how) {
  std::vector<Sample<M>> out;
  const auto add = [&](TextPairs list, bool fine, std::string where = {}) {
    out.push_back({made<M>(std::move(list)), fine, std::move(where)});
  };
  add(TextPairs(how.entries_max), true);
  add(TextPairs(how.entries_max + 1), false);
  add({{"a", std::string(how.bytes_max - 1, 'x')}}, true);
  add({{"a", std::string(how.bytes_max, 'x')}}, false);
  add({{"b", ""}, {"a\x1b", ""}}, false, "[1]");
  return out;
}

template <class M>
std::vector<Sample<M>> samples(const TextLists& how) {
  std::vector<Sample<M>> out;
  out.push_back({M(how.entries_max), true});
  out.push_back({M(how.entries_max + 1), false});
  out.push_back({M{std::vector<std::string>(how.entries_max - 1)}, true});
  out.push_back({M{std::vector<std::string>(how.entries_max)}, false});
  out.push_back({M{{std::string(how.bytes_max, 'x')}}, true});
  out.push_back({M{{std::string(how.bytes_max, 'x'), "x"}}, false});
  return out;
}

template <class M>
struct Filled {
  static M of(std::size_t entries) { return M(entries); }
};
template <class T>
struct Filled<SharedList<T>> {
  static SharedList<T> of(std::size_t entries) { return std::vector<T>(entries); }
};
template <>
struct Filled<IntervalSet> {
  static IntervalSet of(std::size_t entries) {
    IntervalSet set;
    for (std::size_t i = 0; i < entries; ++i) set.insert(static_cast<std::uint32_t>(2 * i));
    return set;
  }
};
template <>
struct Filled<std::vector<TaskResult>> {
  static std::vector<TaskResult> of(std::size_t entries) {
    std::vector<TaskResult> out(entries);
    for (std::size_t i = 0; i < entries; ++i) out[i].rank = static_cast<std::uint32_t>(i);
    return out;
  }
};
template <class T>
struct Filled<std::optional<T>> {
  static std::optional<T> of(std::size_t entries) { return Filled<T>::of(entries); }
};

template <class M>
std::vector<Sample<M>> samples(const Items& how) {
  std::vector<Sample<M>> out;
  out.push_back({Filled<M>::of(how.entries_max), true});
  out.push_back({Filled<M>::of(how.entries_max + 1), false});
  return out;
}

template <class N>
struct Number {
  static constexpr std::int64_t low = std::numeric_limits<N>::min();
  static constexpr std::int64_t high =
      sizeof(N) == 8 ? INT64_MAX : static_cast<std::int64_t>(std::numeric_limits<N>::max());
  static N of(std::int64_t n) { return static_cast<N>(n); }
};
template <>
struct Number<Duration> {
  static constexpr std::int64_t low = -kForever.us, high = kForever.us;  // the decoder's own bounds of time
  static Duration of(std::int64_t n) { return {n}; }
};
template <class N>
struct Number<std::optional<N>> : Number<N> {
  static std::optional<N> of(std::int64_t n) { return Number<N>::of(n); }
};

template <class M>
std::vector<Sample<M>> samples(const Between& how) {
  std::vector<Sample<M>> out{{Number<M>::of(how.low), true}, {Number<M>::of(how.high), true}};
  if (how.low > Number<M>::low)
    out.push_back({Number<M>::of(how.low - 1), false});
  if (how.high < Number<M>::high)
    out.push_back({Number<M>::of(how.high + 1), false});
  return out;
}

template <class M, class How>
std::vector<Sample<M>> samples(const How&) {
  return {};  // the type bounds it
}

template <class T>
class Walk {
 public:
  explicit Walk(bool applied) : applied_(applied) { mend(plain_); }

  template <class Of, class M, class How = Plain>
  void operator()(std::string_view key, M Of::*member, const How& how = {}) {
    if constexpr (std::is_same_v<How, ByRank>)
      walk(key, member, samples<M>(static_cast<const Items&>(how)));
    else
      walk(key, member, samples<M>(bound_of(how)));
  }
  template <class Of, class M, class How = Plain>
  void always(std::string_view key, M Of::*member, const How& how = {}) {
    (*this)(key, member, how);
  }
  std::size_t seen() const { return seen_; }

 private:
  template <class Of, class M>
  void walk(std::string_view key, M Of::*member, const std::vector<Sample<M>>& samples) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const Sample<M>& sample = samples[i];
      SCOPED_TRACE(format("{}, sample {}", key, i));
      T value = plain_;
      value.*member = sample.value;
      mend(value);
      const std::string path = std::string(key) + sample.where;
      const auto read = decode_value<T>(encode_value(value), Origin::kStranger);
      ASSERT_EQ(read.ok(), sample.fine) << (read.ok() ? "" : read.error().message);
      if (!sample.fine && sample.where != "?") {
        EXPECT_EQ(read.error().field, path) << read.error().message;
      }
      ++seen_;
      if (!applied_)
        continue;
      const auto fault = fault_in(value);
      ASSERT_EQ(!fault, sample.fine) << (fault ? fault->where + " " + fault->why : "");
      if (fault && sample.where != "?") {
        EXPECT_EQ(fault->where, path) << fault->why;
      }
    }
  }

  T plain_{};
  bool applied_;
  std::size_t seen_ = 0;
};

template <class... T>
std::size_t walk_all(Types<T...>, bool applied) {
  std::size_t seen = 0;
  const auto walk = [&]<class One>(std::type_identity<One>) {
    SCOPED_TRACE(typeid(One).name());
    Walk<One> fields(applied);
    describe(fields, static_cast<const One*>(nullptr));
    seen += fields.seen();
  };
  (walk(std::type_identity<T>{}), ...);
  return seen;
}

TEST(Bounds, HoldAtTheDoorAndInTheCore) { EXPECT_GT(walk_all(Applied{}, true), 500u); }
TEST(Bounds, HoldForRequestsAndReports) { EXPECT_GT(walk_all(OnlyRead{}, false), 50u); }

// What is anywhere beyond a bound is refused with a path, and the core finds the same.
TEST(Bounds, RandomValuesBeyondThemAreRefused) {
  std::size_t refused = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    random_beyond_bounds = true;
    const auto value = random_value<JobSpec>(rng);
    random_beyond_bounds = false;
    const auto fault = fault_in(value);
    const auto read = decode_value<JobSpec>(encode_value(value), Origin::kStranger);
    ASSERT_EQ(read.ok(), !fault) << "seed " << seed << ": " << (fault ? fault->where + " " + fault->why : "");
    refused += !read.ok();
    if (!read.ok()) {
      EXPECT_FALSE(read.error().field.empty()) << read.error().message;
    }
  }
  EXPECT_GT(refused, 20u);
  EXPECT_LT(refused, 200u);
}

TEST(Bounds, NestedFieldsAreNamedInFull) {
  JobSpec spec;
  spec.groups.resize(3);
  spec.groups[2].probes.resize(2);
  spec.groups[2].probes[1].argv = std::vector<std::string>(kArgvWordsMax + 1);
  const auto fault = fault_in(spec);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->where, "groups[2].probes[1].argv");
  EXPECT_EQ(fault->why, "has 65537 entries; 65536 are allowed");
}

// What was stored before there was a bound must still be readable.
TEST(Bounds, DoNotHoldForWhatWeWrote) {
  JobSpec spec;
  spec.name = std::string(kNameBytesMax + 1, 'x') + "\x1b";
  spec.kill_wait = hours(24 * 30);
  const auto read = decode_value<JobSpec>(encode_value(spec), Origin::kOurselves);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->name, spec.name);
  EXPECT_EQ(read->kill_wait, spec.kill_wait);
}

TEST(Bounds, ResultsThatAreAlikeAreOneEntry) {
  StepEnded ended;
  for (std::uint32_t rank = 0; rank < 4096; ++rank) ended.results.push_back({rank, {rank == 7 ? 1 : 0, 0, false}});
  const std::string text = encode_value(ended);
  EXPECT_EQ(text, R"({"step":0,"results":[{"ranks":"0-6,8-4095","exit":{}},{"ranks":"7","exit":{"code":1}}]})");
  const auto read = decode_value<StepEnded>(text, Origin::kStranger);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->results.size(), 4096u);
  // As agents wrote them before.
  const auto old = decode_value<StepEnded>(R"({"step":0,"results":[{"rank":3,"exit":{"code":2}}]})", Origin::kStranger);
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->results.at(0).rank, 3u);
  // A short text must not unfold into gigabytes.
  EXPECT_FALSE(decode_value<StepEnded>(R"({"step":0,"results":[{"ranks":"0-4000000000"}]})", Origin::kOurselves).ok());
}

// A step of a million tasks, dealt out in blocks or in turn, on twenty thousand nodes: its size goes by its nodes.
TEST(Bounds, ARecordDoesNotGrowWithRanks) {
  constexpr std::uint32_t kNodes = 20'000, kEach = 50;
  for (const bool cyclic : {false, true}) {
    Step step;
    step.spec = std::make_shared<StepSpec>();
    for (std::uint32_t n = 0; n < kNodes; ++n) {
      StepPlace place{.node = NodeId(n + 1), .grant = n};
      for (std::uint32_t t = 0; t < kEach; ++t) place.ranks.push_back(cyclic ? n + t * kNodes : n * kEach + t);
      place.cores = CoreSet::first_n(kEach);
      place.devices = DeviceSet::first_n(8);
      place.memory_mb = 512'000;
      step.places.push_back(std::move(place));
    }
    const std::string text = encode_whole(std::make_shared<const Step>(step));
    EXPECT_LT(text.size(), kRecordBytesMax);
    const auto back = decode_record(Kind::kStep, text);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(std::get<Ref<Step>>(*back)->places[7].ranks, step.places[7].ranks);
  }
}

TEST(Bounds, AnAllocationOfTwentyThousandNodesFitsItsRecord) {
  Job job;
  auto spec = std::make_shared<JobSpec>();
  spec->groups.emplace_back();
  job.spec = spec;
  auto allocation = std::make_shared<Allocation>();
  for (std::uint32_t n = 1; n <= 20'000; ++n)
    allocation->grants.push_back({.node = NodeId(n),
                                  .tasks = 50,
                                  .cores = CoreSet::first_n(64),
                                  .memory_mb = 512'000,
                                  .devices = DeviceSet::first_n(8)});
  job.allocation = allocation;
  job.members.resize(20'000);
  EXPECT_LT(encode_whole(std::make_shared<const Job>(job)).size(), kRecordBytesMax);
}

TEST(Bounds, RanksAreWrittenAsRuns) {
  const auto text = [](std::vector<std::uint32_t> ranks) {
    StepPlace place;
    place.ranks = ranks;
    const std::string out = encode_value(place);
    const auto back = decode_value<StepPlace>(out, Origin::kOurselves);
    EXPECT_TRUE(back.ok() && back->ranks == ranks) << out;
    const auto from = out.find("ranks\":\"") + 8;
    return out.substr(from, out.find('"', from) - from);
  };
  EXPECT_EQ(text({0, 1, 2, 5, 6, 9}), "0-2,5-6,9");
  EXPECT_EQ(text({3, 35, 67, 99}), "3-99:32");
  EXPECT_EQ(text({0, 2, 3, 4}), "0,2-4");
  EXPECT_EQ(text({0, 4, 8, 9, 10, 12}), "0-8:4,9-10,12");
  EXPECT_EQ(text({7}), "7");
  EXPECT_EQ(text({0, UINT32_MAX}), "0,4294967295");
}

}  // namespace
}  // namespace lockstep::wire
