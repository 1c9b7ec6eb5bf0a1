// Learning and predicting run times.
#include "rules/predict.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace lockstep {

namespace {

constexpr std::uint32_t kOne = 1u << 16;
constexpr std::size_t kKindsMax = 200'000;  // about 12 MB

// How many ends a wider kind counts for beside the ends of this one, and how much of what was seen stays when another
// end is seen (in 1/1024: 819 remembers five ends, 1,008 sixty). Fitted offline to the order of run times of
// neighbouring jobs on four public traces (docs/decisions/0004-order-among-equals.md).
struct KindLevel {
  std::uint32_t shrink;
  std::uint32_t keep;
};
constexpr std::array<KindLevel, kRunLevels> kLevels{{
    {8, 1024},  // everything, for ever: see kForeverWeight
    {1, 1016},  // limits within half an octave
    {6, 977},   // size
    {1, 829},   // size and limit
    {3, 948},   // user
    {5, 990},   // user and size, or user and name when there is one
    {4, 921},   // user, name, size and limit
}};
constexpr std::uint32_t kForeverWeight = 4000 * kOne;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdull;
  return hash ^ (hash >> 33);
}

std::uint64_t hashed(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

// Twice the binary logarithm of the seconds, rounded down.
std::uint64_t limit_class(Duration limit) {
  const auto s = static_cast<std::uint64_t>(std::max<std::int64_t>(limit.seconds(), 1));
  const auto octave = static_cast<std::uint64_t>(std::bit_width(s) - 1);
  const bool upper = s * s >= (std::uint64_t{2} << (2 * octave));  // s >= 2^(octave + 1/2)
  return 2 * octave + (upper ? 1 : 0);
}

bool tells_nothing(Duration limit) { return limit.us <= 0 || limit >= kForever; }

}  // namespace

RunKinds run_kinds(const RunFacts& facts) {
  if (tells_nothing(facts.limit))
    return {};
  const auto size = static_cast<std::uint64_t>(facts.size);
  const auto limit = static_cast<std::uint64_t>(facts.limit.us);
  const std::uint64_t user = hashed(facts.user), name = hashed(facts.name);
  RunKinds kinds{};
  kinds[0] = 1;
  kinds[1] = mixed(2, limit_class(facts.limit));
  kinds[2] = mixed(3, size);
  kinds[3] = mixed(mixed(4, size), limit);
  if (!facts.user.empty()) {
    kinds[4] = mixed(5, user);
    kinds[5] = facts.name.empty() ? mixed(mixed(6, user), size) : mixed(mixed(7, user), name);
    kinds[6] = mixed(mixed(mixed(mixed(8, user), name), size), limit);
  }
  return kinds;
}

std::uint64_t run_kin(const RunKinds& kinds) { return kinds[6] ? kinds[6] : kinds[3]; }

void RunPredictor::observe(const RunKinds& kinds, Duration limit, Duration run) {
  if (tells_nothing(limit) || !kinds[0])
    return;
  CHECK(run.us >= 0);
  const auto ratio = static_cast<std::uint32_t>(
      std::min<std::int64_t>(static_cast<std::int64_t>(static_cast<__int128>(run.us) * kOne / limit.us), kOne));
  ++observations_;
  for (std::size_t i = 0; i < kRunLevels; ++i) {
    if (!kinds[i])
      continue;
    Memory& memory = memories_[kinds[i]];
    memory.kind = kinds[i];
    if (kLevels[i].keep < 1024 || memory.weight >= kForeverWeight) {
      const std::uint64_t keep = kLevels[i].keep < 1024 ? kLevels[i].keep : 1023;
      memory.weight = static_cast<std::uint32_t>(memory.weight * keep / 1024);
      memory.ratio_sum = static_cast<std::uint32_t>(memory.ratio_sum * keep / 1024);
    }
    memory.weight += kOne;
    memory.ratio_sum += ratio;
    memory.used = observations_;
  }
  if (memories_.size() > kKindsMax)
    forget_the_oldest();
}

Duration RunPredictor::predict(const RunKinds& kinds, Duration limit) const {
  if (tells_nothing(limit) || !kinds[0])
    return limit;
  std::uint64_t ratio = kOne;
  for (std::size_t i = 0; i < kRunLevels; ++i) {
    const auto found = kinds[i] ? memories_.find(kinds[i]) : memories_.end();
    if (found == memories_.end())
      continue;
    const Memory& memory = found->second;
    ratio = (std::uint64_t{memory.ratio_sum} + kLevels[i].shrink * ratio) * kOne /
            (std::uint64_t{memory.weight} + std::uint64_t{kLevels[i].shrink} * kOne);
  }
  const Duration predicted{static_cast<std::int64_t>(static_cast<__int128>(limit.us) * ratio / kOne)};
  return std::min(std::max(predicted, seconds(1)), limit);
}

// Half of the kinds, those not seen for longest.
void RunPredictor::forget_the_oldest() {
  std::vector<std::uint64_t> used;
  used.reserve(memories_.size());
  for (const auto& [kind, memory] : memories_) used.push_back(memory.used);
  const auto middle = used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2);
  std::nth_element(used.begin(), middle, used.end());
  std::erase_if(memories_, [limit = *middle](const auto& entry) { return entry.second.used < limit; });
}

std::vector<RunPredictor::Memory> RunPredictor::saved() const {
  std::vector<Memory> memories;
  memories.reserve(memories_.size());
  for (const auto& [kind, memory] : memories_) memories.push_back(memory);
  std::sort(memories.begin(), memories.end());
  return memories;
}

RunPredictor RunPredictor::restored(std::span<const Memory> memories) {
  RunPredictor predictor;
  for (const Memory& memory : memories) {
    predictor.memories_.emplace(memory.kind, memory);
    predictor.observations_ = std::max(predictor.observations_, memory.used);
  }
  return predictor;
}

}  // namespace lockstep
