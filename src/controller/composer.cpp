#include "controller/composer.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "controller/launch_lane.h"
#include "core/seats.h"
#include "core/staging.h"
#include "model/agent_messages.h"
#include "model/job.h"
#include "model/keys.h"
#include "model/spec.h"
#include "rules/user_words.h"
#include "wire/long_environment.h"

namespace lockstep {

namespace {

constexpr std::size_t kCacheBytes = 32 << 20;
constexpr std::string_view kPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// What was made of a blob when it was needed first.
template <class T>
class BlobCache {
 public:
  using Make = T (*)(std::string);
  BlobCache(BlobReader reader, Make make) : reader_(std::move(reader)), make_(make) {}

  Result<std::shared_ptr<const T>> get(const BlobId& id) {
    if (const auto it = known_.find(id); it != known_.end())
      return it->second;
    std::string bytes = id.empty() ? std::string{} : TRY(reader_(id));
    const std::size_t size = bytes.size();
    read_ += size;
    if (held_ + size > kCacheBytes) {
      known_.clear();
      held_ = 0;
    }
    held_ += size;
    return known_.emplace(id, std::make_shared<const T>(make_(std::move(bytes)))).first->second;
  }
  std::size_t take_read() { return std::exchange(read_, 0); }  // bytes, since it was asked last

 private:
  BlobReader reader_;
  Make make_;
  std::unordered_map<BlobId, std::shared_ptr<const T>> known_;
  std::size_t held_ = 0, read_ = 0;
};

constexpr const char* kGpusVariable = "LOCKSTEP_GPUS";  // container/step_plan reads it

// What the attempt's processes may take on a node, together; 0: all there is. A pod counts there with what it asks for,
// and its containers are bound one by one: together they are where each of them is.
std::int64_t memory_limit_mb(const GroupSpec& group, const Grant& grant) {
  if (!group.sandbox.front_end_files)
    return grant.memory_mb;
  std::uint64_t bytes = 0;
  for (const SandboxContainer& one : group.sandbox.containers) {
    if (one.memory_bytes == 0)
      return 0;
    bytes += one.memory_bytes;
  }
  return std::max(grant.memory_mb, static_cast<std::int64_t>((bytes + (1 << 20) - 1) >> 20));
}

// A long environment is parted once, and its rest shared by all launches that name it.
struct Environment {
  std::vector<std::string> lines;
  std::shared_ptr<const std::string> rest;  // null: it is short
};
Environment parted(std::string bytes) {
  EnvironmentParts parts = split_environment(bytes);
  return {std::move(parts.lines),
          parts.rest.empty() ? nullptr : std::make_shared<const std::string>(std::move(parts.rest))};
}
std::string as_it_is(std::string bytes) { return bytes; }

bool has_name(const std::vector<std::string>& env, std::string_view name) {
  return std::any_of(env.begin(), env.end(), [&](const std::string& line) {
    return line.size() > name.size() && line[name.size()] == '=' && line.compare(0, name.size(), name) == 0;
  });
}

void set(std::vector<std::string>& env, const std::string& name, const std::string& value) {
  std::erase_if(env, [&](const std::string& line) {
    return line.size() > name.size() && line[name.size()] == '=' && line.compare(0, name.size(), name) == 0;
  });
  env.push_back(name + "=" + value);
}

void set_if_missing(std::vector<std::string>& env, std::string_view name, const std::string& value) {
  if (!value.empty() && !has_name(env, name))
    env.push_back(std::string(name) + "=" + value);
}

struct Compose {
  BlobCache<std::string> scripts;
  BlobCache<Environment> environments;
  ComposerHooks hooks;
  Seats seats = {};  // of the allocation that was asked for last

  std::vector<std::string> environment(const Environment& known, const User& user) {
    std::vector<std::string> env = known.lines;
    set_if_missing(env, "HOME", user.home);
    set_if_missing(env, "USER", user.meta.name);
    set_if_missing(env, "LOGNAME", user.meta.name);
    set_if_missing(env, "SHELL", user.shell.empty() ? "/bin/sh" : user.shell);
    if (!has_name(env, "PATH"))
      env.emplace_back(kPath);
    return env;
  }

  Result<ProcessSpec> process(const Tables& tables, const Job& job, const BlobId& env) {
    const User* user = tables.user(job.spec->user);
    if (!user)
      return Error{
          Errc::kInternal, format("job {} belongs to a user {}", job.id.value, user_words(tables, job.spec->user)), {}};
    ProcessSpec out;
    out.uid = user->uid;
    out.gid = user->gid;
    out.groups = user->groups;
    const auto known = TRY(environments.get(env));
    out.env = environment(*known, *user);
    if (known->rest)
      out.env_base = env;
    out.work_dir = job.spec->work_dir.empty() ? user->home : job.spec->work_dir.get();
    out.umask = job.spec->umask;
    out.append = job.spec->append;
    return out;
  }

  Result<LaunchAttempt> attempt(const Tables& tables, const Job& job, std::size_t grant) {
    const Allocation& allocation = *job.allocation;
    const NodeId node = allocation.grants[grant].node;
    LaunchAttempt out;
    out.job = job.id;
    out.attempt = allocation.attempt;
    out.job_name = job.spec->name;
    out.fence_after = allocation.fence_after;
    out.kill_wait = job.spec->kill_wait;
    // Several groups of one job may share a node: the node's part is their sum.
    if (!seats.are_of(job))
      seats.count(nullptr, job);
    for (const Seats::Seat& seat : seats.on(node)) {
      const Grant& g = allocation.grants[seat.grant];
      out.cores = out.cores | g.cores;
      out.devices = out.devices | g.visible();
      out.parts.insert(out.parts.end(), g.parts.begin(), g.parts.end());
      out.memory_mb += memory_limit_mb(job.spec->groups[g.group], g);
      out.scratch_mb = std::max(out.scratch_mb, job.spec->groups[g.group].tmp_disk_mb);
    }
    std::sort(out.parts.begin(), out.parts.end());
    if (const User* user = tables.user(job.spec->user)) {
      out.user_name = user->meta.name;
      out.user_home = user->home;
      out.user_shell = user->shell;
    }
    out.process = TRY(process(tables, job, job.spec->environment));
    const GroupSpec& group = job.spec->groups[allocation.grants[grant].group];
    out.has_script = group.launch == Launch::kScript && node == allocation.grants.front().node;
    if (out.has_script) {
      out.script = *TRY(scripts.get(job.spec->script));
      out.process.argv = group.argv;
      out.process.container = group.container;
      out.process.std_in = job.spec->std_in;
      out.process.std_out = job.spec->std_out;
      out.process.std_err = job.spec->std_err;
    }
    for (const auto& [name, value] : group.env) set(out.process.env, name, value);
    put_staging(tables, job, node, out);
    if (hooks.attempt)
      hooks.attempt(out, tables, job, grant);
    return out;
  }

  // Several nodes write what they have below one directory, each into one of its own name.
  static void put_staging(const Tables& tables, const Job& job, NodeId node, LaunchAttempt& out) {
    const JobSpec& spec = *job.spec;
    const NodeId first = job.allocation->grants.front().node;
    out.stage_in = spec.stage_in;
    out.stage_out = spec.stage_out;
    out.script_waits = out.has_script && holds_script_back(job);
    out.checkpoint_line = spec.checkpoint_line;
    if (node == first)
      out.checkpoint_file = spec.checkpoint_file;
    const Node* here = tables.node(node);
    const auto& grants = job.allocation->grants;
    if (here && std::any_of(grants.begin(), grants.end(), [first](const Grant& g) { return g.node != first; }))
      for (StagedPath& path : out.stage_out) path.to += "/" + here->meta.name;
  }

  Result<LaunchStep> step(const Tables& tables, const Job& job, const Step& step, std::size_t index) {
    const StepSpec& spec = *step.spec;
    const StepPlace& place = step.places[index];
    LaunchStep out;
    out.job = job.id;
    out.attempt = step.attempt;
    out.step = step.number;
    out.node_index = static_cast<std::uint32_t>(index);
    out.ranks = place.ranks;
    out.process = TRY(process(tables, job, spec.environment.empty() ? job.spec->environment.get() : spec.environment));
    out.process.argv = spec.argv;
    out.process.container = spec.container;
    if (!spec.work_dir.empty())
      out.process.work_dir = spec.work_dir;
    out.process.std_in = spec.std_in;
    out.process.std_out = spec.std_out;
    out.process.std_err = spec.std_err;
    out.process.append = spec.append;
    out.process.umask = spec.umask;
    if (!spec.multi_prog.empty())
      for (const auto rank : place.ranks)
        out.argv_by_rank.push_back(rank < spec.multi_prog.size() ? spec.multi_prog[rank] : spec.argv);
    out.to_client = spec.std_out.empty() || spec.std_err.empty() || spec.std_in.empty();
    if (spec.pmi != Pmi::kNone)
      put_world(tables, step, out);
    out.pty = spec.pty;
    out.rows = spec.pty_rows;
    out.columns = spec.pty_columns;
    out.cores = place.cores;
    out.memory_mb = place.memory_mb;
    // Parts of devices are not divided among steps.
    const Grant& grant = job.allocation->grants.at(place.grant);
    out.devices = place.devices | grant.visible().minus(grant.devices);
    out.kill_wait = job.spec->kill_wait;
    if (hooks.step)
      hooks.step(out, tables, job, step, index);
    return out;
  }

  static void put_world(const Tables& tables, const Step& step, LaunchStep& out) {
    out.pmi = step.spec->pmi;
    out.to_client = true;  // by whom its nodes speak to each other
    for (const StepPlace& place : step.places) {
      const Node* node = tables.node(place.node);
      out.world.push_back({node ? node->meta.name : format("node{}", place.node.value), place.ranks});
    }
  }

  Result<LaunchTask> task(const Tables& tables, const Job& job, const Task& task) {
    const Grant& grant = job.allocation->grants.at(task.grant);
    const GroupSpec& group = job.spec->groups[task.group];
    LaunchTask out;
    out.job = job.id;
    out.attempt = task.attempt;
    out.task = {task.group, task.index, task.incarnation};
    out.process = TRY(process(tables, job, job.spec->environment));
    out.process.argv = group.argv;
    out.process.std_in = job.spec->std_in;
    out.process.std_out = job.spec->std_out;
    out.process.std_err = job.spec->std_err;
    out.process.container = group.container;
    // Tasks of one grant share it in equal parts, in the order of their index.
    std::uint32_t position = 0;
    for (auto other = tables.tasks.lower_bound({job.id, task.group, 0});
         other != tables.tasks.end() && other->first < TaskKey{job.id, task.group, task.index}; ++other)
      position += other->second->grant == task.grant;
    const std::uint32_t parts = std::max(1u, grant.tasks);
    out.cores = share(grant.cores, position, parts);
    out.devices = share(grant.devices, position, parts) | share(grant.visible().minus(grant.devices), position, parts);
    if (const Node* node = tables.node(grant.node))
      tell_gpus(out, *node, grant);
    for (const auto& [name, value] : group.env) set(out.process.env, name, value);
    if (is_sandbox(group.sandbox)) {
      out.sandbox = group.sandbox;
      out.host_name = host_name_of(job, group, task);
      if (out.sandbox.containers.empty())
        out.sandbox.containers.push_back(only_container(group));
    }
    return out;
  }

  // Which GPUs a task has: their numbers on the node, for containers, and as CUDA counts them. Of slices the node's
  // agent says it, which makes them.
  static void tell_gpus(LaunchTask& out, const Node& node, const Grant& grant) {
    std::string minors, places;
    std::uint32_t place = 0;
    for (std::uint32_t i = 0; i < node.devices.size(); ++i) {
      if (node.devices[i].kind != "gpu")
        continue;
      const bool in_slices = std::any_of(grant.parts.begin(), grant.parts.end(),
                                         [i](const DevicePart& part) { return part.device == i && !part.mig.empty(); });
      if (out.devices.test(i)) {
        minors += format("{}{}", minors.empty() ? "" : ",", node.devices[i].minor);
        if (!in_slices)
          places += format("{}{}", places.empty() ? "" : ",", place);
      }
      ++place;
    }
    if (!minors.empty())
      set(out.process.env, kGpusVariable, minors);
    if (!places.empty())
      set(out.process.env, "CUDA_VISIBLE_DEVICES", places);
  }

  // The group's own program.
  static SandboxContainer only_container(const GroupSpec& group) {
    SandboxContainer one;
    one.name = kOnlyContainer;
    one.argv = group.argv;
    one.container = group.container;
    one.probes = group.probes;
    return one;
  }

  static bool is_host_name(std::string_view name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    });
  }

  // "trainer-worker-3", or "trainer", as far as host names can be that.
  static std::string host_name_of(const Job& job, const GroupSpec& group, const Task& task) {
    constexpr std::size_t kLabelMax = 63;
    if (group.sandbox.named_as_job && is_host_name(job.spec->name)) {
      std::string name = job.spec->name.substr(0, kLabelMax);
      while (name.ends_with('-') || name.ends_with('.')) name.pop_back();
      if (!name.empty())
        return name;
    }
    const std::string number = format("-{}", task.index);
    std::string name;
    for (const char c : job.spec->name + (group.name.empty() ? "" : "-" + group.name)) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      if (letter || (c >= 'A' && c <= 'Z'))
        name.push_back(letter ? c : static_cast<char>(c - 'A' + 'a'));
      else if (!name.empty() && name.back() != '-')
        name.push_back('-');
    }
    if (name.size() > kLabelMax - number.size())
      name.resize(kLabelMax - number.size());
    while (!name.empty() && name.back() == '-') name.pop_back();
    return (name.empty() ? format("job-{}", job.id.value) : name) + number;
  }

  template <class Set>
  static Set share(const Set& whole, std::uint32_t position, std::uint32_t parts) {
    const std::uint32_t each = whole.count() / parts;
    if (each == 0)
      return whole;
    Set out;
    std::uint32_t i = 0;
    whole.for_each([&](std::uint32_t bit) {
      if (i / each == position)
        out.set(bit);
      ++i;
    });
    return out;
  }
};

}  // namespace

NodeDesk::Composer make_composer(BlobReader blobs, ComposerHooks hooks) {
  // Shared by the closures, which live and die together in the desk.
  auto compose = std::make_shared<Compose>(Compose{{blobs, as_it_is}, {blobs, parted}, std::move(hooks)});
  NodeDesk::Composer out;
  out.attempt = [compose](const Tables& t, const Job& j, std::size_t grant) { return compose->attempt(t, j, grant); };
  out.step = [compose](const Tables& t, const Job& j, const Step& s, std::size_t place) {
    return compose->step(t, j, s, place);
  };
  out.task = [compose](const Tables& t, const Job& j, const Task& task) { return compose->task(t, j, task); };
  // Asked right after a launch that names it.
  out.environment = [compose](const BlobId& id) -> SharedLines {
    const auto known = compose->environments.get(id);
    return known.ok() ? (*known)->rest : nullptr;
  };
  out.bytes_read = [compose] { return compose->scripts.take_read() + compose->environments.take_read(); };
  return out;
}

}  // namespace lockstep
