#include "controller/holdings.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "model/job.h"
#include "model/spec.h"
#include "wire/long_values.h"

namespace lockstep {

namespace {

std::uint64_t key_of(UserId user, const BlobId& blob) {
  return std::hash<std::string_view>{}(blob) ^ user.value * 0x9E37'79B9'7F4A'7C15u;
}

std::uint64_t bytes_of(const std::vector<std::string>& words) {
  std::uint64_t bytes = words.size() * sizeof(std::string);
  for (const std::string& word : words) bytes += word.size();
  return bytes;
}
std::uint64_t bytes_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::uint64_t bytes = pairs.size() * 2 * sizeof(std::string);
  for (const auto& [name, value] : pairs) bytes += name.size() + value.size();
  return bytes;
}
std::uint64_t bytes_of(const std::vector<GroupSpec>& groups) {
  std::uint64_t bytes = 0;
  for (const GroupSpec& group : groups) {
    bytes += bytes_of(group.argv) + bytes_of(group.env) + bytes_of(group.only_nodes) + bytes_of(group.exclude_nodes);
    for (const Probe& probe : group.probes) bytes += bytes_of(probe.argv) + probe.post_data.size();
  }
  return bytes;
}
std::uint64_t bytes_of(const StepSpec& spec) {
  std::uint64_t bytes =
      bytes_of(spec.argv) + bytes_of(spec.options) + bytes_of(spec.only_nodes) + bytes_of(spec.exclude_nodes);
  for (const auto& argv : spec.multi_prog) bytes += bytes_of(argv);
  return bytes;
}

template <class F>
void each_long_part(const JobSpec& spec, F f) {
  const auto look = [&](const void* at, std::uint64_t bytes) {
    if (bytes >= kLongValue)
      f(at, bytes);
  };
  look(&spec.groups.get(), bytes_of(spec.groups.get()));
  look(&spec.options.get(), bytes_of(spec.options.get()));
  look(&spec.labels.get(), bytes_of(spec.labels.get()));
  look(&spec.comment.get(), spec.comment.size());
}

// Every version of a job's record is written with these: none is shared. Few are nothing to count.
std::uint64_t short_bytes(const JobSpec& spec) {
  constexpr std::uint64_t kDependency = 32;
  std::uint64_t sum = bytes_of(spec.groups.get()) + bytes_of(spec.options.get()) + bytes_of(spec.labels.get()) +
                      bytes_of(spec.partitions.get()) + kDependency * spec.dependencies.size() + spec.name.size();
  for (const SharedText* text : {&spec.account, &spec.qos, &spec.reservation, &spec.licenses, &spec.comment,
                                 &spec.wckey, &spec.work_dir, &spec.std_in, &spec.std_out, &spec.std_err,
                                 &spec.submit_host, &spec.command, &spec.checkpoint_file, &spec.checkpoint_line})
    sum += text->size();
  for (const auto* paths : {&spec.stage_in, &spec.stage_out})
    for (const StagedPath& path : *paths) sum += path.from.size() + path.to.size();
  each_long_part(spec, [&](const void*, std::uint64_t bytes) { sum -= bytes; });
  return sum >= kWordsCounted ? sum : 0;
}

}  // namespace

std::uint64_t counted_bytes(const JobSpec& spec) {
  std::uint64_t sum = short_bytes(spec);
  each_long_part(spec, [&](const void*, std::uint64_t bytes) { sum += bytes; });
  return sum;
}
std::uint64_t counted_bytes(const StepSpec& spec) {
  const std::uint64_t bytes = bytes_of(spec);
  return bytes >= kWordsCounted ? bytes : 0;
}

Holdings::Of Holdings::of(UserId user) const {
  const auto at = of_.find(user);
  return at == of_.end() ? Of{} : at->second;
}

std::vector<std::pair<UserId, std::uint64_t>> Holdings::greediest(std::size_t most) const {
  std::vector<std::pair<UserId, std::uint64_t>> out;
  for (const auto& [user, held] : of_)
    if (held.stored_bytes > 0)
      out.emplace_back(user, held.stored_bytes);
  const auto end = out.begin() + static_cast<std::ptrdiff_t>(std::min(most, out.size()));
  std::partial_sort(out.begin(), end, out.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  out.erase(end, out.end());
  return out;
}

void Holdings::count(UserId user, std::int64_t bytes) {
  if (bytes == 0)
    return;
  of_[user].stored_bytes += static_cast<std::uint64_t>(bytes);
  all_stored_ += static_cast<std::uint64_t>(bytes);
}

bool Holdings::has(UserId user, const BlobId& blob) const { return stored_.contains(key_of(user, blob)); }

void Holdings::use(const BlobId& blob, UserId user, int sign) {
  if (blob.empty())
    return;
  Stored& stored = stored_[key_of(user, blob)];
  if (sign > 0) {
    if (stored.jobs++ == 0 && loading_)
      unknown_.emplace_back(user, blob);
    return;
  }
  if (--stored.jobs > 0)
    return;
  count(user, -std::int64_t{stored.bytes});
  stored_.erase(key_of(user, blob));
}

void Holdings::use_part(const void* part, std::uint64_t bytes, UserId user, int sign) {
  const std::uint64_t key = std::hash<const void*>{}(part) ^ user.value * 0xC2B2'AE3D'27D4'EB4Fu;
  Stored& stored = stored_[key];
  if (sign > 0) {
    if (stored.jobs++ == 0) {
      stored.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX));
      count(user, stored.bytes);
    }
  } else if (--stored.jobs == 0) {
    count(user, -std::int64_t{stored.bytes});
    stored_.erase(key);
  }
}

void Holdings::use_parts(const Job& job, int sign) {
  const UserId user = job.spec->user;
  each_long_part(*job.spec, [&](const void* at, std::uint64_t bytes) { use_part(at, bytes, user, sign); });
  count(user, sign * static_cast<std::int64_t>(short_bytes(*job.spec)));
  if (job.first_step)
    if (const std::uint64_t bytes = counted_bytes(*job.first_step))
      use_part(job.first_step.get(), bytes, user, sign);
}

void Holdings::add(const Job& job, int sign) {
  const UserId user = job.spec->user;
  if (job.state == JobState::kPending)
    of_[user].pending_jobs += sign > 0 ? 1 : std::uint64_t(-1);
  use(job.spec->script, user, sign);
  use(job.spec->environment, user, sign);
  if (job.first_step)
    use(job.first_step->environment, user, sign);
}

void Holdings::changed(const Job* before, const Job* after) {
  // First what comes, then what goes: blobs of a record that only moved on are not forgotten in between.
  const bool same_words = before && after && before->spec == after->spec && before->first_step == after->first_step;
  if (after) {
    add(*after, +1);
    if (!same_words)
      use_parts(*after, +1);
  }
  if (before) {
    add(*before, -1);
    if (!same_words)
      use_parts(*before, -1);
  }
}

void Holdings::changed(const Step* before, const Step* after) {
  const auto words = [this](const Step& step, int sign) {
    if (const std::uint64_t bytes = counted_bytes(*step.spec))
      use_part(step.spec.get(), bytes, step.user, sign);
  };
  const bool same_words = before && after && before->spec == after->spec;
  if (after) {
    use(after->spec->environment, after->user, +1);
    if (!same_words)
      words(*after, +1);
  }
  if (before) {
    use(before->spec->environment, before->user, -1);
    if (!same_words)
      words(*before, -1);
  }
}

void Holdings::known(UserId user, const BlobId& blob, std::uint64_t bytes) {
  const auto at = stored_.find(key_of(user, blob));
  if (at == stored_.end() || at->second.bytes != 0)
    return;
  at->second.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX));
  count(user, at->second.bytes);
}

Holdings::Unknown Holdings::take_unknown(std::size_t most) {
  Unknown out;
  while (!unknown_.empty() && out.size() < most) {
    out.push_back(std::move(unknown_.back()));
    unknown_.pop_back();
  }
  if (unknown_.empty())
    unknown_.shrink_to_fit();
  return out;
}

}  // namespace lockstep
