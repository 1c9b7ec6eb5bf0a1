#include "controller/quarantine.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::uint32_t kLoadsMost = 2;        // lives in a row that may die of reading back their state
constexpr std::size_t kSuspectsMost = 10'000;  // one batch has fewer

}  // namespace

Result<std::unique_ptr<Quarantine>> Quarantine::open(CrashNote& note) {
  std::unique_ptr<Quarantine> self(new Quarantine(note));
  for (auto& name : note.names(CrashNote::List::kQuarantined)) self->quarantined_.insert(std::move(name));
  for (auto& name : note.names(CrashNote::List::kSuspects)) self->suspects_.insert(std::move(name));
  const CrashNote::Death death = note.last_death();
  if (death.stage == CrashStage::kLoading && death.loads >= kLoadsMost)
    return Error{
        Errc::kCorrupt,
        format("the controller stopped itself {} times in a row while it took up the state that its log holds; "
               "the state is left as it is. Start a version that can read it, or remove the file \"applying\" "
               "from the state directory to try once more",
               death.loads),
        {}};
  self->judge(death);
  return self;
}

void Quarantine::judge(const CrashNote::Death& death) {
  if (death.stage == CrashStage::kNone || death.stage == CrashStage::kLoading)
    return;
  // One without a name (a tick) can be neither refused nor put off, so others may not be blamed in its place.
  const bool alone = death.commands.size() == 1;
  for (const std::string& name : death.commands) {
    if (name.empty() || quarantined_.contains(name))
      continue;
    if (alone) {
      quarantined_.insert(name);
      suspects_.erase(name);
    } else if (suspects_.size() < kSuspectsMost) {
      suspects_.insert(name);
    }
  }
  keep(CrashNote::List::kQuarantined, quarantined_);
  keep(CrashNote::List::kSuspects, suspects_);
}

void Quarantine::survived(std::string_view name) {
  const auto it = suspects_.find(name);
  if (it == suspects_.end())
    return;
  suspects_.erase(it);
  keep(CrashNote::List::kSuspects, suspects_);
}

void Quarantine::keep(CrashNote::List list, const std::set<std::string, std::less<>>& names) {
  if (const auto kept = note_.keep(list, {names.begin(), names.end()}); !kept.ok())
    std::fprintf(stderr, "lockstepd: what stopped the controller is known in this life only: %s\n",
                 kept.error().message.c_str());
}

}  // namespace lockstep
