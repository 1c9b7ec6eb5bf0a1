#include "first_look.h"

#include <algorithm>

#include "agent/journal.h"
#include "base/log_line.h"
#include "base/text.h"
#include "io/shim_search.h"
#include "io/shims.h"

namespace lockstep {
namespace {

FoundWork work_of(const FoundShim& shim, bool lost) {
  FoundWork work{.key = shim.key};
  work.uid = shim.start.launch.process.uid;
  work.fence_after = shim.start.fence_after;
  work.kill_wait = shim.start.launch.kill_wait;
  work.ranks = shim.start.launch.ranks;
  work.launched = shim.launched;
  work.lost = lost;
  return work;
}

std::vector<FoundWork> take_stock(const std::vector<FoundShim>& shims, std::string& trouble) {
  std::vector<FoundWork> found;
  std::size_t ended = 0;
  for (const FoundShim& shim : shims) {
    const bool lost = shim.live > 0 && (!shim.reachable || !shim.known);
    if (lost) {
      end_unreachable(shim);
      ++ended;
    }
    if (shim.known || lost)
      found.push_back(work_of(shim, lost));
  }
  if (ended > 0)
    trouble += format("{}the files of {} running steps and scripts are gone: they were ended and are reported as lost",
                      trouble.empty() ? "" : "; ", ended);
  return found;
}

// What must not be lost with the journal: from when the fences count. Without it they count from the last launch, as
// the shims' own do: the controller was heard then.
Instant last_renewal(const std::string& run_dir, const std::vector<FoundShim>& shims) {
  if (const auto lease = read_lease(run_dir); lease && *lease > Instant{})
    return *lease;
  Instant last{1};
  for (const FoundShim& shim : shims) last = std::max(last, shim.began);
  return last;
}

Result<void> begin_boot(FirstLook& look, const std::string& run_dir) {
  TRY(remove_shims_of_older_boots(run_dir));
  if (const JobId highest = highest_job(look.journal.older()); highest.value > 0)
    look.lines.push_back(encode_fact(HighestJob{highest}));
  return look.lines.empty() ? Result<void>() : look.journal.append(look.lines);
}

}  // namespace

Result<FirstLook> look_first(const AgentFile& settings, const std::string& boot_id) {
  auto journal = TRY(JournalFile::open(settings.state_dir + "/journal", settings.run_dir + "/journal.tip", boot_id));
  FirstLook look{.journal = std::move(journal), .lines = {}, .found = {}, .trouble = {}};
  const std::vector<FoundShim> shims = find_shims(settings.run_dir);
  const bool live = std::any_of(shims.begin(), shims.end(), [](const FoundShim& shim) { return shim.live > 0; });
  if (look.journal.state() == JournalFile::State::kNewBoot && !live) {
    TRY(begin_boot(look, settings.run_dir));
    return look;
  }
  look.lines = look.journal.lines();
  if (look.journal.state() != JournalFile::State::kWhole) {
    look.trouble = look.journal.damage().empty() ? settings.state_dir + "/journal is of an older boot, or was removed"
                                                 : look.journal.damage();
    look.trouble += ": what ran here was found by its processes";
    if (end_orphans(shims))
      look.trouble += "; processes that nothing tells of any more were ended";
    look.lines.push_back(encode_fact(Renewed{last_renewal(settings.run_dir, shims)}));
  }
  look.found = take_stock(shims, look.trouble);
  if (!look.trouble.empty())
    log_line(LogLevel::kWarning, "lockstep-agent: " + look.trouble);
  return look;
}

}  // namespace lockstep
