// What users store in the cluster, and how much of it is taken: scripts, environments and long words of jobs and steps
// that are listed. A user has a share; all users together have what StoredRoom says, and as that fills, nobody may hold
// more than is still free (as in base/fair_share): whoever holds most is refused first, and who comes last finds room.
#include <algorithm>

#include "base/text.h"
#include "controller/api.h"
#include "controller/stored_room.h"

namespace lockstep {

namespace {

std::string disk_text(const StoredRoom& room) {
  return room.bound() < room.most ? format(" (a third of what the disk has, with {} MiB free)", room.disk_free >> 20)
                                  : "";
}

}  // namespace

struct Api::Load {
  UserId user;
  Holdings::Of of;
  std::vector<std::pair<BlobId, std::uint64_t>> blobs;  // each once
};

std::shared_ptr<Api::Load> Api::load_of(const Visit& visit, std::span<const CoreLoop::Submission> all) const {
  auto load = std::make_shared<Load>();
  load->user = visit.caller.user;
  std::map<std::string_view, std::uint64_t> blobs;
  const auto count = [&](const CommandBody& body) {
    if (const auto* job = std::get_if<SubmitJob>(&body)) {
      ++load->of.pending_jobs;
      load->user = job->spec->user;  // an administrator submits for others
      load->of.stored_bytes += counted_bytes(*job->spec) + (job->first_step ? counted_bytes(*job->first_step) : 0);
    } else if (const auto* step = std::get_if<CreateStep>(&body)) {
      load->of.stored_bytes += counted_bytes(*step->spec);
    }
  };
  for (const auto& one : all) {
    count(one.command.body);
    for (const CommandBody& body : one.command.also) count(body);
    for (const Blob& blob : one.blobs) blobs.emplace(blob.id, blob.bytes.size());
  }
  for (const auto& [id, bytes] : blobs) {
    if (!world_.view.holdings().has(load->user, BlobId(id)))
      load->of.stored_bytes += bytes;
    load->blobs.emplace_back(id, bytes);
  }
  return load;
}

Result<std::shared_ptr<Api::Load>> Api::take_load(const Visit& visit, std::span<const CoreLoop::Submission> all) {
  auto load = load_of(visit, all);
  const bool is_step = all.size() == 1 && std::holds_alternative<CreateStep>(all.front().command.body);
  TRY(check_load(visit, *load, is_step ? StoredRoom::For::kWhatRuns : StoredRoom::For::kNewWork));
  count_load(*load, +1);
  return load;
}

// What an update says is not taken apart: where it is more than a few words it counts as a whole until the live view
// has it.
Result<std::shared_ptr<Api::Load>> Api::take_update(const Visit& visit, std::size_t bytes) {
  auto load = std::make_shared<Load>();
  load->user = visit.caller.user;
  if (bytes >= kWordsCounted)
    load->of.stored_bytes = bytes;
  TRY(check_load(visit, *load, StoredRoom::For::kNewWork));
  count_load(*load, +1);
  return load;
}

Result<void> Api::check_disk(const Visit& visit) const {
  if (visit.caller.admin || !powers_.free_bytes || powers_.free_bytes() > 0)
    return {};
  return Error{
      Errc::kExhausted,
      "the disk under the controller is nearly full, and what is left is for the ends of what runs: jobs can be "
      "cancelled, but nothing else is taken from users; ask an administrator to make room",
      "disk"};
}

StoredRoom Api::stored_room() const {
  StoredRoom room;
  room.stored = world_.view.holdings().all_stored() + coming_bytes_;
  room.most = settings_.limits.stored_all_max;
  room.disk_free = powers_.free_bytes ? powers_.free_bytes() : UINT64_MAX;
  return room;
}

Result<void> Api::check_load(const Visit& visit, const Load& load, StoredRoom::For what) const {
  if (visit.caller.admin)
    return {};
  Holdings::Of held = world_.view.holdings().of(load.user);
  if (const auto coming = on_the_way_.find(load.user); coming != on_the_way_.end()) {
    held.pending_jobs += coming->second.pending_jobs;
    held.stored_bytes += coming->second.stored_bytes;
  }
  const ApiLimits& limits = settings_.limits;
  if (load.of.pending_jobs > 0 && held.pending_jobs + load.of.pending_jobs > limits.pending_jobs_max)
    return Error{
        Errc::kExhausted,
        format("you have {} jobs waiting, and at most {} are taken from one user (an array counts once): submit "
               "the rest when some have started, or as an array",
               held.pending_jobs, limits.pending_jobs_max),
        "pending_jobs"};
  if (load.of.stored_bytes == 0 && load.of.pending_jobs == 0)
    return {};
  const std::uint64_t with_it = held.stored_bytes + load.of.stored_bytes;
  const std::uint64_t more_kib = (load.of.stored_bytes + 1023) >> 10;
  if (load.of.stored_bytes > 0 && with_it > limits.stored_bytes_max)
    return Error{
        Errc::kExhausted,
        format(
            "scripts, environments and long arguments, options and comments of your jobs take {} MiB, this one {} KiB "
            "more, and at most {} MiB are kept for one user: put data into files and let the script read them, or "
            "wait until jobs have ended and are listed no more (some minutes later)",
            held.stored_bytes >> 20, more_kib, limits.stored_bytes_max >> 20),
        "stored_bytes"};
  // Accounting keeps a row of every job, so that where there is no room at all, small ones are too much, too.
  const StoredRoom room = stored_room();
  if (const std::uint64_t left = room.left(what); left == 0 || (load.of.stored_bytes > 0 && with_it > left))
    return Error{
        Errc::kExhausted,
        format(
            "the controller's room for scripts, environments and long arguments, options and comments is nearly "
            "used up: all users' jobs take {} of {} MiB{}, yours {} MiB of it, this one {} KiB more, and nobody gets "
            "more than is still free: put data into files and let the script read them, wait until jobs have ended "
            "and are listed no more, or ask an administrator, whom `lockstep status` tells who holds most",
            room.stored >> 20, room.bound() >> 20, disk_text(room), held.stored_bytes >> 20, more_kib),
        "stored_bytes"};
  return {};
}

void Api::count_load(const Load& load, int sign) {
  const auto times = static_cast<std::uint64_t>(sign);
  Holdings::Of& coming = on_the_way_[load.user];
  coming.pending_jobs += times * load.of.pending_jobs;
  coming.stored_bytes += times * load.of.stored_bytes;
  coming_bytes_ += times * load.of.stored_bytes;
  if (coming.pending_jobs == 0 && coming.stored_bytes == 0)
    on_the_way_.erase(load.user);
}

void Api::drop_load(const Load& load) {
  count_load(load, -1);
  for (const auto& [blob, bytes] : load.blobs) world_.view.holdings().known(load.user, blob, bytes);
}

std::optional<std::string> Api::stored_notice() const {
  constexpr std::size_t kNamed = 3;
  const StoredRoom room = stored_room();
  if (!room.is_short())
    return std::nullopt;
  std::string most;
  for (const auto& [user, bytes] : world_.view.holdings().greediest(kNamed)) {
    const User* record = world_.view.tables().user(user);
    most += format("{}{} {} MiB", most.empty() ? "" : ", ", record ? record->meta.name : format("user {}", user.value),
                   bytes >> 20);
  }
  return format(
      "scripts, environments and long words of jobs take {} of the {} MiB that there is room for{}; most: {}. Who "
      "holds "
      "much is refused more; it goes when jobs have ended and are listed no more",
      room.stored >> 20, room.bound() >> 20, disk_text(room), most.empty() ? "nobody" : most);
}

void Api::learn_lengths() {
  constexpr std::size_t kAtOnce = 32;
  auto unknown = world_.view.holdings().take_unknown(kAtOnce);
  if (unknown.empty())
    return;
  const auto left = std::make_shared<std::size_t>(unknown.size());
  for (const auto& [user, blob] : unknown)
    world_.read_blob(blob, [this, left, user = user, blob = blob](const Result<std::string>& bytes) {
      world_.view.holdings().known(user, blob, bytes.ok() ? bytes->size() : 0);
      if (--*left == 0)
        learn_lengths();
    });
}

}  // namespace lockstep
