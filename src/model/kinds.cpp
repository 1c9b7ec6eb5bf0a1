#include "model/kinds.h"

#include <span>

#include "model/accounting.h"
#include "model/job.h"
#include "model/records.h"
#include "model/spec.h"
#include "model/step.h"

namespace lockstep {

namespace {

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kKinds); ++i)
    if (kKinds[i].kind != static_cast<Kind>(i))
      return false;
  return true;
}
static_assert(in_order() && std::size(kKinds) == std::variant_size_v<Record>, "kinds.def lists every kind in order");

template <class T>
struct Private {
  std::string_view path;
  Visibility seen_by;
  void (*clear)(T&);
};

// What runs, with which words and which input, is its owner's business. Names, sizes, states, nodes, working directory
// and comment are public, as Slurm shows them.
constexpr Private<StepSpec> kOfStepSpec[] = {
    {"argv", Visibility::kOwner, [](StepSpec& s) { s.argv.clear(); }},
    {"environment", Visibility::kOwner, [](StepSpec& s) { s.environment.clear(); }},
    {"std_in", Visibility::kOwner, [](StepSpec& s) { s.std_in.clear(); }},
    {"std_out", Visibility::kOwner, [](StepSpec& s) { s.std_out.clear(); }},
    {"std_err", Visibility::kOwner, [](StepSpec& s) { s.std_err.clear(); }},
    {"multi_prog", Visibility::kOwner, [](StepSpec& s) { s.multi_prog.clear(); }},
    {"options", Visibility::kOwner, [](StepSpec& s) { s.options.clear(); }},
    {"container", Visibility::kOwner, [](StepSpec& s) { s.container = {}; }},
};

template <auto kMember>
void clear_in_groups(JobSpec& spec) {
  for (GroupSpec& group : spec.groups.edit()) group.*kMember = {};
}

constexpr Private<JobSpec> kOfJobSpec[] = {
    {"groups[].argv", Visibility::kOwner, clear_in_groups<&GroupSpec::argv>},
    {"groups[].env", Visibility::kOwner, clear_in_groups<&GroupSpec::env>},
    {"groups[].probes", Visibility::kOwner, clear_in_groups<&GroupSpec::probes>},
    {"groups[].container", Visibility::kOwner, clear_in_groups<&GroupSpec::container>},
    {"script", Visibility::kOwner, [](JobSpec& s) { s.script.clear(); }},
    {"environment", Visibility::kOwner, [](JobSpec& s) { s.environment.clear(); }},
    {"std_in", Visibility::kOwner, [](JobSpec& s) { s.std_in.clear(); }},
    {"std_out", Visibility::kOwner, [](JobSpec& s) { s.std_out.clear(); }},
    {"std_err", Visibility::kOwner, [](JobSpec& s) { s.std_err.clear(); }},
    {"options", Visibility::kOwner, [](JobSpec& s) { s.options.clear(); }},
    {"labels", Visibility::kOwner, [](JobSpec& s) { s.labels.clear(); }},
};

constexpr Private<JoinToken> kOfToken[] = {
    {"secret_sha256", Visibility::kAdministrator, [](JoinToken& t) { t.secret_sha256.clear(); }},
};

template <class T>
void add_fields(std::vector<PrivateField>& out, std::string_view prefix, std::span<const Private<T>> fields) {
  for (const Private<T>& field : fields) out.push_back({std::string(prefix).append(field.path), field.seen_by});
}

template <class T, std::size_t N>
T without(const T& value, const Private<T> (&fields)[N], Visibility viewer) {
  T shown = value;
  for (const Private<T>& field : fields)
    if (viewer < field.seen_by)
      field.clear(shown);
  return shown;
}

template <class T, std::size_t N>
void take_away(Ref<T>& ref, const Private<T> (&fields)[N], Visibility viewer) {
  if (ref)
    ref = std::make_shared<const T>(without(*ref, fields, viewer));
}

}  // namespace

std::vector<PrivateField> private_fields(Kind kind) {
  std::vector<PrivateField> out;
  if (kind == Kind::kJob) {
    add_fields<JobSpec>(out, "spec.", kOfJobSpec);
    add_fields<StepSpec>(out, "first_step.", kOfStepSpec);
  } else if (kind == Kind::kStep) {
    add_fields<StepSpec>(out, "spec.", kOfStepSpec);
  } else if (kind == Kind::kToken) {
    add_fields<JoinToken>(out, "", kOfToken);
  }
  return out;
}

UserId owner_of(const Record& record) {
  if (const auto* job = std::get_if<Ref<Job>>(&record))
    return (*job)->spec ? (*job)->spec->user : UserId{};
  if (const auto* step = std::get_if<Ref<Step>>(&record))
    return (*step)->user;
  if (const auto* user = std::get_if<Ref<User>>(&record))
    return (*user)->id;
  if (const auto* usage = std::get_if<Ref<Usage>>(&record))
    return (*usage)->user;
  return {};
}

Record as_seen_by(const Record& record, Visibility viewer) {
  if (viewer == Visibility::kAdministrator)
    return record;
  if (const auto* token = std::get_if<Ref<JoinToken>>(&record))
    return std::make_shared<const JoinToken>(without(**token, kOfToken, viewer));
  if (viewer == Visibility::kOwner)
    return record;
  if (const auto* ref = std::get_if<Ref<Job>>(&record)) {
    Job job = **ref;
    take_away(job.spec, kOfJobSpec, viewer);
    take_away(job.first_step, kOfStepSpec, viewer);
    return std::make_shared<const Job>(std::move(job));
  }
  if (const auto* ref = std::get_if<Ref<Step>>(&record)) {
    Step step = **ref;
    take_away(step.spec, kOfStepSpec, viewer);
    return std::make_shared<const Step>(std::move(step));
  }
  return record;
}

}  // namespace lockstep
