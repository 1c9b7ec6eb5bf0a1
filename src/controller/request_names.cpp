#include "controller/request_names.h"

#include <cstring>

#include "base/text.h"
#include "controller/step_client.h"
#include "model/job.h"
#include "model/request_name.h"

namespace lockstep {

// No name of a request has a dot, so none is taken for another.
std::string name_in_job(JobId job, std::string_view name) { return format("{}.{}", job.value, name); }
std::string name_in_list(std::string_view name, std::size_t place) { return format("{}.{}", name, place); }

// FNV-1a by words, with the upper half folded into the lower after each.
std::string body_digest(std::string_view body) {
  std::uint64_t sum = 0xcbf29ce484222325 ^ body.size();
  for (; !body.empty(); body.remove_prefix(std::min(body.size(), sizeof sum))) {
    std::uint64_t word = 0;
    std::memcpy(&word, body.data(), std::min(body.size(), sizeof word));
    sum = (sum ^ word) * 0x100000001b3;
    sum ^= sum >> 32;
  }
  return format("{:08x}", static_cast<std::uint32_t>(sum));
}

std::string name_with_body(std::string_view name, std::string_view digest) { return format("{}:{}", name, digest); }

Error name_of_another(JobId job) {
  Error error = conflict(format("another submission has this name and made job {}: each needs its own", job.value));
  error.field = "request";
  return error;
}

Error no_request_name() {
  return invalid("a request is named by 16 to 64 letters, digits, \"-\" and \"_\", best 128 random bits", "request");
}

void RequestNames::note(Users& users, UserId user, const std::string& name, Made made, Instant at, Instant now) {
  if (at + kKept < now)
    return;
  OfUser& own = users[user];
  if (!own.made.emplace(name, std::move(made)).second)
    return;
  own.order.emplace_back(at, name);
  while (own.order.size() > kEachMax || own.order.front().first + kKept < now) {
    own.made.erase(own.order.front().second);
    own.order.pop_front();
  }
}

void RequestNames::note(const Job& job, Instant now) {
  // An element has its array's name, and is not what was submitted.
  if (job.meta.name.empty() || job.array_job)
    return;
  const std::size_t end = job.meta.name.find(':');
  Made made{job.id};
  if (end != std::string::npos)
    made.body = job.meta.name.substr(end + 1);
  note(jobs_, job.spec->user, job.meta.name.substr(0, end), std::move(made), job.submitted, now);
}

void RequestNames::note(const Step& step, Instant now) {
  if (const auto name = request_of(*step.spec); is_request_name(name))
    note(steps_, step.user, name_in_job(step.job, name), {step.job, step.number}, step.created, now);
}

const RequestNames::Made* RequestNames::find(const Users& users, UserId user, std::string_view name) {
  const auto own = users.find(user);
  if (own == users.end())
    return nullptr;
  const auto made = own->second.made.find(name);
  return made == own->second.made.end() ? nullptr : &made->second;
}

JobId RequestNames::find(UserId user, std::string_view name) const {
  const Made* made = find(jobs_, user, name);
  return made ? made->job : JobId{};
}

bool RequestNames::is_of_another(UserId user, std::string_view name, std::string_view digest) const {
  const Made* made = find(jobs_, user, name);
  return made && !made->body.empty() && made->body != digest;
}

std::optional<StepNo> RequestNames::find_step(UserId user, JobId job, std::string_view name) const {
  const Made* made = find(steps_, user, name_in_job(job, name));
  return made ? std::optional(made->step) : std::nullopt;
}

std::size_t RequestNames::of(UserId user) const {
  const auto own = jobs_.find(user);
  return own == jobs_.end() ? 0 : own->second.made.size();
}

}  // namespace lockstep
